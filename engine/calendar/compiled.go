package calendar

import (
	"iter"
	"time"
)

const (
	secondsPerDay = 24 * 60 * 60
	// horizon is how far any search goes, in seconds: a century. The worst
	// calendar that Check allows, one span a week of which MaxHolidays are
	// holidays, is free for less than twenty years.
	horizon = 100 * 366 * secondsPerDay
	// quarter of an hour: the clocks of our time change at multiples of it.
	quarter = 15 * 60
)

// Compiled is a calendar that is ready to count. It never changes and may be
// used by any number of callers at once.
type Compiled struct {
	zone     *time.Location
	week     [7][]span      // by time.Weekday, sorted
	holidays map[int64]bool // by days since 1970-01-01
}

// Add is the moment at which d of working time has passed since from, in UTC. If
// that is the end of a span, it is that end and not the start of the next one.
// It is from if d is not positive. Times are exact to the nanosecond.
//
// A search ends after a century. If that does not hold d of working time, the
// result is from and a century (36,600 days): no deadline that anybody set.
func (w *Compiled) Add(from time.Time, d time.Duration) time.Time {
	if d <= 0 {
		return from.UTC()
	}
	first, fraction := from.Unix(), time.Duration(from.Nanosecond())
	for start, end := range w.spans(first, first+horizon) {
		var lead time.Duration
		if start == first {
			lead = fraction // from lies inside this span's first second
		}
		length := time.Duration(end-start)*time.Second - lead
		if d <= length {
			return time.Unix(start, 0).Add(lead + d).UTC()
		}
		d -= length
	}
	return time.Unix(first+horizon, int64(fraction)).UTC()
}

// Between is the working time from one moment to another; 0 if to is not after
// from. Between(from, Add(from, d)) is d, if the century in which Add searches
// holds that much. Of more than a century only the first is counted, as in Add.
func (w *Compiled) Between(from, to time.Time) time.Duration {
	if !to.After(from) {
		return 0
	}
	first, fraction := from.Unix(), time.Duration(from.Nanosecond())
	last, rest := to.Unix(), time.Duration(to.Nanosecond())
	if last >= first+horizon {
		last, rest = first+horizon, fraction
	}
	var sum time.Duration
	// A second further, because to may lie inside of its own.
	for start, end := range w.spans(first, last+1) {
		sum += time.Duration(end-start) * time.Second
		if start == first {
			sum -= fraction
		}
		if end == last+1 {
			sum -= time.Second - rest
		}
	}
	return sum
}

// Open reports whether a moment is working time. The end of a span is not.
func (w *Compiled) Open(at time.Time) bool {
	for range w.spans(at.Unix(), at.Unix()+1) {
		return true
	}
	return false
}

// Next is the first moment at or after at that is working time, in UTC.
func (w *Compiled) Next(at time.Time) time.Time {
	first := at.Unix()
	for start := range w.spans(first, first+horizon) {
		if start == first {
			return at.UTC() // spans begin with whole seconds
		}
		return time.Unix(start, 0).UTC()
	}
	return time.Unix(first+horizon, 0).UTC() // unreachable: see horizon
}

// spans walks through the working time from one Unix second to another, in
// order. A span that reaches over either is cut, one that a change of the clocks
// or midnight divides comes in parts.
func (w *Compiled) spans(from, to int64) iter.Seq2[int64, int64] {
	return func(yield func(start, end int64) bool) {
		for at := from; at < to; {
			// Between two changes of the clocks local time is UTC and an offset.
			local := time.Unix(at, 0).In(w.zone)
			_, seconds := local.Zone()
			offset, limit := int64(seconds), to
			if _, change := local.ZoneBounds(); !change.IsZero() {
				end := change.Unix()
				if end <= at {
					// Beyond the database's table, time ends a period after 365 days of
					// its year, so that on the last day of a leap year the end is past.
					end = at + quarter
				}
				limit = min(limit, end)
			}
			for at < limit {
				day := floorDiv(at+offset, secondsPerDay)
				midnight := day*secondsPerDay - offset
				next := min(midnight+secondsPerDay, limit)
				for _, s := range w.day(day) {
					start, end := max(midnight+s.from, at), min(midnight+s.to, next)
					if start < end && !yield(start, end) {
						return
					}
				}
				at = next
			}
		}
	}
}

// day is the spans of the day that is so many days after 1970-01-01.
func (w *Compiled) day(day int64) []span {
	if w.holidays[day] {
		return nil
	}
	const epoch = int64(time.Thursday) // 1970-01-01
	weekday := (day+epoch)%7 + 7
	return w.week[weekday%7]
}

// floorDiv divides and rounds down, so that days before 1970 are whole too.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
