package calendar

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // so that a zone is known on hosts that have no database
)

// The bounds of a calendar. They are inclusive.
const (
	// maxSpans is the largest number of spans of one day.
	maxSpans = 8
	// MaxHolidays is the largest number of holidays.
	MaxHolidays = 1000
	// maxZone is the length of the longest name of a zone, in bytes.
	maxZone = 64
)

// Calendar says when people work.
type Calendar struct {
	// TimeZone is a name of the IANA database, such as Europe/Berlin.
	TimeZone string `json:"time_zone" yaml:"time_zone"`
	// Hours are the spans of each day from mon to sun, such as "09:00-12:30". A
	// day that is left out is free, "00:00-24:00" is a whole day, and a span that
	// passes midnight is written as two.
	Hours map[string][]string `json:"hours" yaml:"hours"`
	// Holidays are free days in the calendar's own zone, such as 2026-12-25.
	Holidays []string `json:"holidays,omitempty" yaml:"holidays"`
}

// weekdays are the names of Hours, in the order of time.Weekday.
var weekdays = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// span is a part of a day, in seconds from its midnight; to is not part of it.
type span struct{ from, to int64 }

// Check is every mistake of the calendar, each beginning with the field that it
// is about; nil if there is none. A calendar without mistakes has working time
// in every week that is not all holidays.
func (c Calendar) Check() []error {
	_, mistakes := c.compile()
	return mistakes
}

// Compile prepares the calendar. The error joins what Check returns.
func (c Calendar) Compile() (*Compiled, error) {
	w, mistakes := c.compile()
	if len(mistakes) > 0 {
		return nil, fmt.Errorf("compile calendar: %w", errors.Join(mistakes...))
	}
	return w, nil
}

func (c Calendar) compile() (*Compiled, []error) {
	w := &Compiled{holidays: make(map[int64]bool)}
	var mistakes []error
	note := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }

	zone, err := loadZone(c.TimeZone)
	if err != nil {
		note("time_zone: %w", err)
	}
	w.zone = zone

	names := slices.Sorted(maps.Keys(c.Hours))
	working := false
	for _, name := range names {
		day := slices.Index(weekdays[:], name)
		if day < 0 {
			note("hours: %.20q is no day; the days are mon, tue, wed, thu, fri, sat and sun", name)
			continue
		}
		spans, wrong := readDay("hours."+name, c.Hours[name])
		mistakes = append(mistakes, wrong...)
		w.week[day] = spans
		working = working || len(spans) > 0 || len(wrong) > 0
	}
	if !working {
		note("hours: there is no working time, so no deadline would ever pass")
	}

	if len(c.Holidays) > MaxHolidays {
		note("holidays: there are %d, and at most %d are allowed", len(c.Holidays), MaxHolidays)
		return w, mistakes
	}
	for i, text := range c.Holidays {
		date, err := time.Parse(time.DateOnly, text)
		if err != nil {
			note("holidays[%d]: %.20q is no date like 2026-12-25", i, text)
			continue
		}
		day := floorDiv(date.Unix(), secondsPerDay)
		if w.holidays[day] {
			note("holidays[%d]: %s is there twice", i, text)
		}
		w.holidays[day] = true
	}
	return w, mistakes
}

func loadZone(name string) (*time.Location, error) {
	// LoadLocation takes "" for UTC and Local for the host's own zone. The one
	// is more likely a field that was forgotten, the other differs by host.
	if name == "" || name == "Local" {
		return nil, errors.New("want a name of the IANA database, such as Europe/Berlin or UTC")
	}
	if len(name) > maxZone {
		return nil, fmt.Errorf("the name is longer than %d bytes", maxZone)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("no zone %.64q is known", name)
	}
	return zone, nil
}

// readDay reads the spans of one day and sorts them.
func readDay(field string, texts []string) ([]span, []error) {
	if len(texts) == 0 {
		return nil, []error{fmt.Errorf("%s: there are no spans; leave the day out if it is free", field)}
	}
	if len(texts) > maxSpans {
		return nil, []error{fmt.Errorf("%s: there are %d spans, and at most %d are allowed", field, len(texts), maxSpans)}
	}
	var mistakes []error
	var spans []span
	for i, text := range texts {
		s, err := readSpan(text)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s[%d]: %w", field, i, err))
			continue
		}
		if slices.ContainsFunc(spans, func(other span) bool { return s.from < other.to && other.from < s.to }) {
			mistakes = append(mistakes, fmt.Errorf("%s[%d]: %s overlaps another span of the day", field, i, text))
		}
		spans = append(spans, s)
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.from - b.from) })
	return spans, mistakes
}

func readSpan(text string) (span, error) {
	from, to, ok := strings.Cut(text, "-")
	start, okFrom := readClock(from)
	end, okTo := readClock(to)
	if !ok || !okFrom || !okTo {
		return span{}, fmt.Errorf("%.20q is no span like 09:00-17:30", text)
	}
	if start == end {
		return span{}, fmt.Errorf("%s is empty", text)
	}
	if start > end {
		return span{}, fmt.Errorf("%s ends before it starts; a span past midnight is two, the second on the next day", text)
	}
	return span{start, end}, nil
}

// readClock reads HH:MM from 00:00 to 24:00 as seconds from midnight.
func readClock(text string) (int64, bool) {
	if len(text) != 5 || text[2] != ':' {
		return 0, false
	}
	for _, i := range [...]int{0, 1, 3, 4} {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	hour := int64(text[0]-'0')*10 + int64(text[1]-'0')
	minute := int64(text[3]-'0')*10 + int64(text[4]-'0')
	if minute > 59 || hour > 24 || hour == 24 && minute > 0 {
		return 0, false
	}
	return hour*3600 + minute*60, true
}
