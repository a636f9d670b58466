package web

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/web/views"
)

// formValues reads the fields of a form and collects what is wrong with them.
type formValues struct {
	form     url.Values
	problems []string
}

func (e *formValues) text(name string) string { return strings.TrimSpace(e.form.Get(name)) }

func (e *formValues) checked(name string) bool { return e.form.Get(name) == "yes" }

// lines is a text area with one entry a line; blank lines are none.
func (e *formValues) lines(name string) []string {
	entries := []string{}
	for line := range strings.Lines(e.form.Get(name)) {
		if line = strings.TrimSpace(line); line != "" {
			entries = append(entries, line)
		}
	}
	return entries
}

// number is a whole number; blank is 0 and not there.
func (e *formValues) number(name, label string) (n int, there bool) {
	text := e.text(name)
	if text == "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		e.problems = append(e.problems, fmt.Sprintf("%s: write a whole number.", label))
	}
	return n, err == nil
}

func (e *formValues) duration(name, label string) engine.Duration {
	text := e.text(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		e.problems = append(e.problems, fmt.Sprintf("%s: write a time such as 30s, 1m or 24h.", label))
	}
	return engine.Duration(d)
}

func (e *formValues) trust(name string) engine.Trust {
	level, err := engine.ParseTrust(e.form.Get(name))
	if err != nil {
		e.problems = append(e.problems, "Choose a trust level.")
	}
	return level
}

func (e *formValues) limits() registry.Limits {
	rate := func(name, label string) registry.Rate {
		calls, _ := e.number(name+"_calls", label+", calls")
		return registry.Rate{Calls: calls, Per: e.duration(name+"_per", label+", time")}
	}
	return registry.Limits{Agent: rate("agent", "All calls"), Tool: rate("tool", "One tool"), Session: rate("session", "One session")}
}

// err is everything that is wrong, or nil.
func (e *formValues) err() error {
	if len(e.problems) == 0 {
		return nil
	}
	return invalid("invalid_form", strings.Join(e.problems, "\n"))
}

// moment is a moment as browsers write it, without a zone; blank is the zero time.
func (e *formValues) moment(name, label string, zone *time.Location) time.Time {
	text := e.text(name)
	if text == "" {
		return time.Time{}
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t
		}
	}
	e.problems = append(e.problems, label+": write a day and a time such as 2027-01-31 18:00.")
	return time.Time{}
}

// zone is a distance from UTC such as "+05:30", or a zone by its name, such as "Europe/Berlin",
// which a browser knows as its own; blank is UTC.
func (e *formValues) zone(name string) *time.Location {
	text := e.text(name)
	if text == "" {
		return time.UTC
	}
	if named, err := time.LoadLocation(text); err == nil && strings.Contains(text, "/") {
		return named
	}
	t, err := time.Parse("-07:00", text)
	if err != nil {
		e.problems = append(e.problems, "Time zone: choose one of the list.")
		return time.UTC
	}
	_, offset := t.Zone()
	return time.FixedZone(text, offset)
}

// zones are the distances from UTC that clocks have, UTC first.
func zones() []views.Option {
	list := []views.Option{{Value: "", Label: "UTC"}}
	add := func(minutes int) {
		sign := "+"
		if minutes < 0 {
			sign, minutes = "-", -minutes
		}
		text := fmt.Sprintf("%s%02d:%02d", sign, minutes/60, minutes%60)
		list = append(list, views.Option{Value: text, Label: "UTC" + strings.Replace(text, "-", "−", 1)})
	}
	for minutes := -12 * 60; minutes <= 14*60; minutes += 30 {
		if minutes != 0 {
			add(minutes)
		}
		if minutes == 5*60+30 || minutes == 8*60+30 || minutes == 12*60+30 {
			add(minutes + 15) // Nepal, Eucla, the Chatham Islands
		}
	}
	return list
}
