package calendar_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdpoint/engine/calendar"
)

// office is an ordinary calendar.
func office(zone string) calendar.Calendar {
	hours := map[string][]string{}
	for _, day := range []string{"mon", "tue", "wed", "thu", "fri"} {
		hours[day] = []string{"09:00-12:30", "13:30-17:00"}
	}
	return calendar.Calendar{TimeZone: zone, Hours: hours, Holidays: []string{"2026-12-25"}}
}

// daily is a calendar of the same spans on every day.
func daily(zone string, spans ...string) calendar.Calendar {
	hours := map[string][]string{}
	for _, day := range []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"} {
		hours[day] = spans
	}
	return calendar.Calendar{TimeZone: zone, Hours: hours}
}

func compile(tb interface {
	Helper()
	Fatalf(string, ...any)
}, c calendar.Calendar,
) *calendar.Compiled {
	tb.Helper()
	w, err := c.Compile()
	if err != nil {
		tb.Fatalf("Compile(%v): %v", c, err)
	}
	return w
}

func at(tb testing.TB, text string) time.Time {
	tb.Helper()
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func TestCheck(t *testing.T) {
	if got := office("Europe/Berlin").Check(); got != nil {
		t.Errorf("an ordinary calendar: got %v, want none", got)
	}
	many := make([]string, calendar.MaxHolidays+1)
	for i := range many {
		many[i] = time.Unix(0, 0).AddDate(0, 0, i).UTC().Format(time.DateOnly)
	}
	mon := func(spans ...string) map[string][]string { return map[string][]string{"mon": spans} }
	tests := []struct {
		name string
		c    calendar.Calendar
		want []string // how the mistakes begin
	}{
		{"nothing", calendar.Calendar{}, []string{"time_zone: want a name", "hours: there is no working time"}},
		{"host's zone", calendar.Calendar{TimeZone: "Local", Hours: mon("09:00-10:00")}, []string{"time_zone: want a name"}},
		{"unknown zone", calendar.Calendar{TimeZone: "Mars/Base", Hours: mon("09:00-10:00")}, []string{`time_zone: no zone "Mars/Base"`}},
		{"a path", calendar.Calendar{TimeZone: "../etc/passwd", Hours: mon("09:00-10:00")}, []string{"time_zone: no zone"}},
		{"long zone", calendar.Calendar{TimeZone: strings.Repeat("a", 65), Hours: mon("09:00-10:00")}, []string{"time_zone: the name is longer"}},
		{"unknown days", calendar.Calendar{TimeZone: "UTC", Hours: map[string][]string{"Mon": {"09:00-10:00"}, "holiday": nil}}, []string{
			`hours: "Mon" is no day`, `hours: "holiday" is no day`, "hours: there is no working time",
		}},
		{"no span", calendar.Calendar{TimeZone: "UTC", Hours: mon()}, []string{"hours.mon: there are no spans"}},
		{"too many", calendar.Calendar{TimeZone: "UTC", Hours: mon("00:00-01:00", "01:00-02:00", "02:00-03:00", "03:00-04:00", "04:00-05:00", "05:00-06:00", "06:00-07:00", "07:00-08:00", "08:00-09:00")}, []string{"hours.mon: there are 9 spans"}},
		{"spans", calendar.Calendar{TimeZone: "UTC", Hours: mon("9:00-10:00", "09:00-09:00", "22:00-06:00", "23:00-24:01", "10:60-11:00", "0x:00-10:00", "10:00", "09:00-24:00-")}, []string{
			`hours.mon[0]: "9:00-10:00" is no span`, "hours.mon[1]: 09:00-09:00 is empty", "hours.mon[2]: 22:00-06:00 ends before",
			`hours.mon[3]: "23:00-24:01"`, `hours.mon[4]: "10:60-11:00"`, `hours.mon[5]: "0x:00-10:00"`, `hours.mon[6]: "10:00"`, `hours.mon[7]: "09:00-24:00-"`,
		}},
		{"overlaps", calendar.Calendar{TimeZone: "UTC", Hours: mon("12:00-14:00", "09:00-12:00", "13:59-15:00", "12:30-12:40")}, []string{
			"hours.mon[2]: 13:59-15:00 overlaps", "hours.mon[3]: 12:30-12:40 overlaps",
		}},
		{"holidays", calendar.Calendar{TimeZone: "UTC", Hours: mon("09:00-10:00"), Holidays: []string{"2026-02-29", "2026-12-25", "25.12.2026", "2026-12-25"}}, []string{
			`holidays[0]: "2026-02-29" is no date`, `holidays[2]: "25.12.2026" is no date`, "holidays[3]: 2026-12-25 is there twice",
		}},
		{"too many holidays", calendar.Calendar{TimeZone: "UTC", Hours: mon("09:00-10:00"), Holidays: many}, []string{"holidays: there are 1001"}},
	}
	for _, tt := range tests {
		got := tt.c.Check()
		if len(got) != len(tt.want) {
			t.Errorf("%s: got %v, want %d mistakes", tt.name, got, len(tt.want))
			continue
		}
		for i, want := range tt.want {
			if !strings.HasPrefix(got[i].Error(), want) {
				t.Errorf("%s: got %q, want it to begin %q", tt.name, got[i], want)
			}
		}
		if w, err := tt.c.Compile(); err == nil || w != nil {
			t.Errorf("%s: Compile accepts what Check does not", tt.name)
		}
	}
}

func TestAdd(t *testing.T) {
	w := compile(t, office("Europe/Berlin"))
	tests := []struct {
		name, from string
		d          time.Duration
		want       string
	}{
		{"inside a span", "2026-07-01T09:15:00+02:00", time.Hour, "2026-07-01T10:15:00+02:00"},
		{"to the end of a span", "2026-07-01T09:15:00+02:00", 3*time.Hour + 15*time.Minute, "2026-07-01T12:30:00+02:00"},
		{"a nanosecond over it", "2026-07-01T09:15:00+02:00", 3*time.Hour + 15*time.Minute + 1, "2026-07-01T13:30:00.000000001+02:00"},
		{"over the break", "2026-07-01T12:00:00+02:00", time.Hour, "2026-07-01T14:00:00+02:00"},
		{"from the break", "2026-07-01T12:45:00+02:00", time.Hour, "2026-07-01T14:30:00+02:00"},
		{"from an end", "2026-07-01T17:00:00+02:00", time.Nanosecond, "2026-07-02T09:00:00.000000001+02:00"},
		{"over a weekend", "2026-07-03T16:30:00+02:00", time.Hour, "2026-07-06T09:30:00+02:00"},
		{"over a holiday and a weekend", "2026-12-24T16:00:00+01:00", 2 * time.Hour, "2026-12-28T10:00:00+01:00"},
		{"two weeks", "2026-07-06T09:00:00+02:00", 70 * time.Hour, "2026-07-17T17:00:00+02:00"},
		{"fractions of a second", "2026-07-01T12:29:59.4+02:00", time.Second, "2026-07-01T13:30:00.4+02:00"},
		{"nothing", "2026-07-04T12:00:00+02:00", 0, "2026-07-04T12:00:00+02:00"},
		{"less than nothing", "2026-07-04T12:00:00+02:00", -time.Hour, "2026-07-04T12:00:00+02:00"},
		{"before 1970", "1961-06-30T16:30:00.5+01:00", time.Hour, "1961-07-03T09:30:00.5+01:00"},
	}
	for _, tt := range tests {
		from := at(t, tt.from)
		got := w.Add(from, tt.d)
		if want := at(t, tt.want); !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%s: got %v, want %v", tt.name, got, want.UTC())
		}
		if back := w.Between(from, got); back != max(tt.d, 0) {
			t.Errorf("%s: Between gives %v, want %v", tt.name, back, tt.d)
		}
	}
}

// TestAcrossDST: what passes is real time, and the spans are the wall's.
func TestAcrossDST(t *testing.T) {
	tests := []struct {
		zone, day string // the local day on which the clocks change
		span      string
		start     string // the first moment of working time at or after the day's start
		length    time.Duration
		end       string // the moment at which all of it has passed
	}{
		// 02:00 CET is 03:00 CEST.
		{"Europe/Berlin", "2026-03-29T00:00:00+01:00", "00:00-24:00", "2026-03-28T23:00:00Z", 23 * time.Hour, "2026-03-29T22:00:00Z"},
		{"Europe/Berlin", "2026-03-29T00:00:00+01:00", "01:00-04:00", "2026-03-29T00:00:00Z", 2 * time.Hour, "2026-03-29T02:00:00Z"},
		{"Europe/Berlin", "2026-03-29T00:00:00+01:00", "02:30-04:00", "2026-03-29T01:00:00Z", time.Hour, "2026-03-29T02:00:00Z"},
		{"Europe/Berlin", "2026-03-29T00:00:00+01:00", "01:00-02:30", "2026-03-29T00:00:00Z", time.Hour, "2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "2026-03-29T00:00:00+01:00", "09:00-17:00", "2026-03-29T07:00:00Z", 8 * time.Hour, "2026-03-29T15:00:00Z"},
		// 03:00 CEST is 02:00 CET.
		{"Europe/Berlin", "2026-10-25T00:00:00+02:00", "00:00-24:00", "2026-10-24T22:00:00Z", 25 * time.Hour, "2026-10-25T23:00:00Z"},
		{"Europe/Berlin", "2026-10-25T00:00:00+02:00", "01:00-04:00", "2026-10-24T23:00:00Z", 4 * time.Hour, "2026-10-25T03:00:00Z"},
		{"Europe/Berlin", "2026-10-25T00:00:00+02:00", "02:30-04:00", "2026-10-25T00:30:00Z", 2 * time.Hour, "2026-10-25T03:00:00Z"},
		{"Europe/Berlin", "2026-10-25T00:00:00+02:00", "01:00-02:30", "2026-10-24T23:00:00Z", 2 * time.Hour, "2026-10-25T01:30:00Z"},
		{"Europe/Berlin", "2026-10-25T00:00:00+02:00", "09:00-17:00", "2026-10-25T08:00:00Z", 8 * time.Hour, "2026-10-25T16:00:00Z"},
		// 02:00 EST is 03:00 EDT, and 02:00 EDT is 01:00 EST.
		{"America/New_York", "2026-03-08T00:00:00-05:00", "00:00-24:00", "2026-03-08T05:00:00Z", 23 * time.Hour, "2026-03-09T04:00:00Z"},
		{"America/New_York", "2026-03-08T00:00:00-05:00", "02:15-03:15", "2026-03-08T07:00:00Z", 15 * time.Minute, "2026-03-08T07:15:00Z"},
		{"America/New_York", "2026-11-01T00:00:00-04:00", "00:00-24:00", "2026-11-01T04:00:00Z", 25 * time.Hour, "2026-11-02T05:00:00Z"},
		{"America/New_York", "2026-11-01T00:00:00-04:00", "00:30-01:30", "2026-11-01T04:30:00Z", 90 * time.Minute, "2026-11-01T06:30:00Z"},
		// The south: 03:00 AEDT is 02:00 AEST in April, 02:00 AEST is 03:00 AEDT in October.
		{"Australia/Sydney", "2026-04-05T00:00:00+11:00", "01:00-04:00", "2026-04-04T14:00:00Z", 4 * time.Hour, "2026-04-04T18:00:00Z"},
		{"Australia/Sydney", "2026-10-04T00:00:00+10:00", "01:00-04:00", "2026-10-03T15:00:00Z", 2 * time.Hour, "2026-10-03T17:00:00Z"},
		// Half an hour: 02:00 is 01:30 in April, 02:00 is 02:30 in October.
		{"Australia/Lord_Howe", "2026-04-05T00:00:00+11:00", "01:00-03:00", "2026-04-04T14:00:00Z", 150 * time.Minute, "2026-04-04T16:30:00Z"},
		{"Australia/Lord_Howe", "2026-10-04T00:00:00+10:30", "01:00-03:00", "2026-10-03T14:30:00Z", 90 * time.Minute, "2026-10-03T16:00:00Z"},
		{"Australia/Lord_Howe", "2026-10-04T00:00:00+10:30", "02:10-03:00", "2026-10-03T15:30:00Z", 30 * time.Minute, "2026-10-03T16:00:00Z"},
		// The hour that midnight begins is skipped: the day starts at 01:00.
		{"Africa/Cairo", "2026-04-24T01:00:00+03:00", "00:00-02:00", "2026-04-23T22:00:00Z", time.Hour, "2026-04-23T23:00:00Z"},
	}
	for _, tt := range tests {
		name := tt.zone + " " + tt.day[:10] + " " + tt.span
		w := compile(t, daily(tt.zone, tt.span))
		day := at(t, tt.day)
		if got, want := w.Next(day), at(t, tt.start); !got.Equal(want) {
			t.Errorf("%s: Next: got %v, want %v", name, got, want)
		}
		if got, want := w.Add(day, tt.length), at(t, tt.end); !got.Equal(want) {
			t.Errorf("%s: Add(%v): got %v, want %v", name, tt.length, got, want)
		}
		if got := w.Between(day, at(t, tt.end)); got != tt.length {
			t.Errorf("%s: Between: got %v, want %v", name, got, tt.length)
		}
		// The day holds no more than that.
		if over := w.Add(day, tt.length+1); over.Sub(at(t, tt.end)) < time.Hour && tt.span != "00:00-24:00" {
			t.Errorf("%s: working time goes on after %v", name, tt.end)
		}
	}
}

// A span that ends inside the repeated hour is open in both passes.
func TestOverlapOpensTwice(t *testing.T) {
	w := compile(t, daily("Europe/Berlin", "02:10-02:20"))
	tests := []struct {
		at   string
		want bool
	}{
		{"2026-10-25T02:09:59+02:00", false},
		{"2026-10-25T02:10:00+02:00", true},
		{"2026-10-25T02:20:00+02:00", false},
		{"2026-10-25T02:10:00+01:00", true},
		{"2026-10-25T02:19:59.9+01:00", true},
		{"2026-10-25T02:20:00+01:00", false},
	}
	for _, tt := range tests {
		if got := w.Open(at(t, tt.at)); got != tt.want {
			t.Errorf("Open(%s): got %v, want %v", tt.at, got, tt.want)
		}
	}
	if got, want := w.Add(at(t, "2026-10-25T00:00:00+02:00"), 15*time.Minute), at(t, "2026-10-25T02:15:00+01:00"); !got.Equal(want) {
		t.Errorf("Add: got %v, want %v", got, want)
	}
	if got, want := w.Between(at(t, "2026-10-25T00:00:00+02:00"), at(t, "2026-10-26T00:00:00+01:00")), 20*time.Minute; got != want {
		t.Errorf("Between: got %v, want %v", got, want)
	}
}

func TestNext(t *testing.T) {
	w := compile(t, office("America/New_York"))
	tests := []struct{ at, want string }{
		{"2026-07-01T08:00:00-04:00", "2026-07-01T09:00:00-04:00"},
		{"2026-07-01T09:00:00.25-04:00", "2026-07-01T09:00:00.25-04:00"},
		{"2026-07-01T12:30:00-04:00", "2026-07-01T13:30:00-04:00"},
		{"2026-07-03T17:00:00-04:00", "2026-07-06T09:00:00-04:00"},
		{"2026-12-25T10:00:00-05:00", "2026-12-28T09:00:00-05:00"},
	}
	for _, tt := range tests {
		if got, want := w.Next(at(t, tt.at)), at(t, tt.want); !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("Next(%s): got %v, want %v", tt.at, got, want)
		}
	}
}

// The day that Samoa left out had no working time, and the week went on.
func TestSkippedDay(t *testing.T) {
	w := compile(t, daily("Pacific/Apia", "09:00-17:00"))
	from := at(t, "2011-12-29T16:00:00-10:00")
	if got, want := w.Add(from, 2*time.Hour), at(t, "2011-12-31T10:00:00+14:00"); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The emptiest calendar that Check allows: one minute a week, a thousand of
// which are holidays.
func TestEmptiestCalendar(t *testing.T) {
	monday := at(t, "2026-01-05T00:00:00Z")
	c := calendar.Calendar{TimeZone: "UTC", Hours: map[string][]string{"mon": {"23:59-24:00"}}}
	for i := range calendar.MaxHolidays {
		c.Holidays = append(c.Holidays, monday.AddDate(0, 0, 7*i).Format(time.DateOnly))
	}
	w := compile(t, c)
	want := monday.AddDate(0, 0, 7*calendar.MaxHolidays).Add(24*time.Hour - time.Minute)
	if got := w.Next(monday); !got.Equal(want) {
		t.Errorf("Next: got %v, want %v", got, want)
	}
	if got := w.Add(monday, time.Minute); !got.Equal(want.Add(time.Minute)) {
		t.Errorf("Add: got %v, want %v", got, want.Add(time.Minute))
	}
	// More than a century holds ends the search a century later.
	century := monday.Add(36600 * 24 * time.Hour)
	if got := w.Add(monday, 1<<63-1); !got.Equal(century) {
		t.Errorf("Add of the longest duration: got %v, want %v", got, century)
	}
	if got, want := w.Between(monday, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)), w.Between(monday, century); got != want {
		t.Errorf("Between: got %v, want %v", got, want)
	}
	for _, far := range []time.Time{{}, time.Unix(1<<62, 5), time.Unix(-1<<62, 5), time.Unix(1<<63-1, 0), time.Unix(-1<<63, 0)} {
		w.Add(far, time.Hour)
		w.Next(far)
		w.Open(far)
		w.Between(far, monday)
		w.Between(monday, far)
	}
}

// TestLastDayOfLeapYear: beyond its table the time package says that the year's
// last period ends before this day does.
func TestLastDayOfLeapYear(t *testing.T) {
	for _, zone := range zones {
		w := compile(t, daily(zone, "00:00-24:00"))
		from := at(t, "2040-12-30T12:00:00Z")
		if got, want := w.Add(from, 72*time.Hour), from.Add(72*time.Hour); !got.Equal(want) {
			t.Errorf("%s: got %v, want %v", zone, got, want)
		}
		for from.Year() < 2120 {
			if got := w.Between(from, from.AddDate(1, 0, 0)); got != from.AddDate(1, 0, 0).Sub(from) {
				t.Fatalf("%s: a whole year from %v: got %v", zone, from, got)
			}
			from = from.AddDate(1, 0, 0)
		}
	}
}

// FuzzCheck: whatever a file says, Check does not panic, and what it lets pass
// can be counted with.
func FuzzCheck(f *testing.F) {
	for _, seed := range []any{office("Europe/Berlin"), daily("Australia/Lord_Howe", "00:00-24:00"), calendar.Calendar{}} {
		data, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"time_zone":"UTC","hours":{"mon":["24:00-24:00","-","00:00-00:01",""],"":[]},"holidays":["0000-00-00","9999-12-31"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c calendar.Calendar
		if json.Unmarshal(data, &c) != nil {
			return
		}
		mistakes := c.Check()
		w, err := c.Compile()
		if (len(mistakes) == 0) != (err == nil) || (err == nil) != (w != nil) {
			t.Fatalf("Check: %v, Compile: %v", mistakes, err)
		}
		if err != nil {
			return
		}
		from := time.Unix(1_780_000_000, 123)
		end := w.Add(from, time.Minute)
		if got := w.Between(from, end); got != time.Minute {
			t.Fatalf("%s: Between(%v, %v) = %v, want a minute", data, from, end, got)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	w := compile(b, office("Europe/Berlin"))
	from := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	for _, d := range []time.Duration{time.Hour, 8 * time.Hour, 40 * time.Hour, 2000 * time.Hour, 100_000 * time.Hour} {
		b.Run(fmt.Sprint(d), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.Add(from, d)
			}
		})
	}
}
