package calendar_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine/calendar"
)

var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney", "Australia/Lord_Howe", "Asia/Kathmandu",
	"Africa/Cairo", "America/Santiago", "Pacific/Apia", "Africa/Casablanca", "Asia/Beirut",
}

// draw is any calendar that has working time in each of its weeks.
func draw(t *rapid.T) calendar.Calendar {
	c := calendar.Calendar{TimeZone: rapid.SampledFrom(zones).Draw(t, "zone"), Hours: map[string][]string{}}
	clock := func(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }
	for _, day := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}), 1, 7, rapid.ID[string]).Draw(t, "days") {
		var spans []string
		next := 0
		for range rapid.IntRange(1, 3).Draw(t, "spans") {
			if next >= 24*60 {
				break
			}
			start := rapid.IntRange(next, 24*60-1).Draw(t, "start")
			end := rapid.IntRange(start+1, 24*60).Draw(t, "end")
			spans, next = append(spans, clock(start)+"-"+clock(end)), end
		}
		c.Hours[day] = spans
	}
	seen := map[string]bool{}
	for _, day := range rapid.SliceOfN(rapid.IntRange(0, 700), 0, 5).Draw(t, "holidays") {
		date := time.Date(2026, 1, 1+day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
		if !seen[date] {
			seen[date] = true
			c.Holidays = append(c.Holidays, date)
		}
	}
	return c
}

// moment is any moment of 2026, in whole units; half of them are close to a
// change of the clocks.
func moment(t *rapid.T, name string, unit time.Duration) time.Time {
	anchors := []time.Time{
		time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 8, 6, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 5, 0, 0, 0, time.UTC),
		time.Date(2026, 4, 4, 15, 0, 0, 0, time.UTC), time.Date(2026, 10, 3, 15, 0, 0, 0, time.UTC),
		time.Date(2026, 4, 23, 22, 0, 0, 0, time.UTC), time.Date(2026, 9, 6, 4, 0, 0, 0, time.UTC),
	}
	if rapid.Bool().Draw(t, name+" near a change") {
		away := rapid.Int64Range(-int64(30*time.Hour), int64(30*time.Hour)).Draw(t, name)
		return rapid.SampledFrom(anchors).Draw(t, "anchor").Add(time.Duration(away).Truncate(unit))
	}
	year := rapid.Int64Range(0, int64(365*24*time.Hour)).Draw(t, name)
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(year).Truncate(unit))
}

func duration(t *rapid.T, name string, limit, unit time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(limit)).Draw(t, name)).Truncate(unit)
}

// reads is what the wall says: whether a moment is working time, from the
// calendar's own texts.
func reads(c calendar.Calendar, zone *time.Location, at time.Time) bool {
	local := at.In(zone)
	for _, holiday := range c.Holidays {
		if local.Format("2006-01-02") == holiday {
			return false
		}
	}
	now := local.Format("15:04")
	for _, span := range c.Hours[strings.ToLower(local.Format("Mon"))] {
		if from, to, _ := strings.Cut(span, "-"); from <= now && now < to {
			return true
		}
	}
	return false
}

// TestAgreesWithCountingMinutes holds everything against counting minute by minute. All
// spans and all zones of our time begin with whole minutes.
func TestAgreesWithCountingMinutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		w := compile(t, c)
		zone, err := time.LoadLocation(c.TimeZone)
		if err != nil {
			t.Fatal(err)
		}
		from := moment(t, "from", time.Minute)
		d := duration(t, "d", 30*time.Hour, time.Minute)
		passed, first := time.Duration(0), time.Time{}
		at := from
		for ; passed < d && at.Sub(from) < 40*24*time.Hour; at = at.Add(time.Minute) {
			open := reads(c, zone, at)
			if got := w.Open(at); got != open {
				t.Fatalf("Open(%v): got %v, want %v", at.In(zone), got, open)
			}
			if open {
				passed += time.Minute
				if first.IsZero() {
					first = at
				}
			}
		}
		if got := w.Between(from, at); got != passed {
			t.Fatalf("Between(%v, %v): got %v, want %v", from, at, got, passed)
		}
		if passed == d {
			if got := w.Add(from, d); !got.Equal(at) {
				t.Fatalf("Add(%v, %v): got %v, want %v", from, d, got, at)
			}
		}
		if !first.IsZero() {
			if got := w.Next(from); !got.Equal(first) {
				t.Fatalf("Next(%v): got %v, want %v", from, got, first)
			}
		}
	})
}

// TestCalendarProperties keeps within the century that a search goes: a minute a week, which is
// the least that draw makes, is 87 hours in a century.
func TestCalendarProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := compile(t, draw(t))
		from := moment(t, "from", 1)
		a, b := duration(t, "a", 20*time.Hour, 1), duration(t, "b", 20*time.Hour, 1)
		end := w.Add(from, a)
		if got := w.Between(from, end); got != a {
			t.Fatalf("Between(from, Add(from, %v)) = %v", a, got)
		}
		if got, want := w.Add(end, b), w.Add(from, a+b); !got.Equal(want) {
			t.Fatalf("Add(Add(from, %v), %v) = %v, Add of both %v", a, b, got, want)
		}
		if b > 0 && !w.Add(from, a+b).After(end) {
			t.Fatalf("Add(from, %v) is not after Add(from, %v)", a+b, a)
		}
		// A deadline lies right behind working time, so at most at its edge.
		if a > 0 && !w.Open(end.Add(-1)) {
			t.Fatalf("Add(from, %v) = %v has no working time before it", a, end)
		}
		later := from.Add(duration(t, "later", 400*time.Hour, 1))
		if w.Add(later, a).Before(end) {
			t.Fatalf("Add(%v, %v) is before Add(%v, %v)", later, a, from, a)
		}
		last := later.Add(duration(t, "last", 400*time.Hour, 1))
		if got, want := w.Between(from, later)+w.Between(later, last), w.Between(from, last); got != want {
			t.Fatalf("Between in two parts is %v, in one %v", got, want)
		}
		if got, most := w.Between(from, last), last.Sub(from); got < 0 || got > most {
			t.Fatalf("Between is %v of %v", got, most)
		}
		if got := w.Between(last, from); got != 0 {
			t.Fatalf("Between backwards is %v", got)
		}
		next := w.Next(from)
		if next.Before(from) || !w.Open(next) || w.Between(from, next) != 0 || w.Open(from) != next.Equal(from) {
			t.Fatalf("Next(%v) = %v", from, next)
		}
	})
}
