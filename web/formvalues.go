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

// entered reads the fields of a form and collects what is wrong with them.
type entered struct {
	form  url.Values
	wrong []string
}

func (e *entered) text(name string) string { return strings.TrimSpace(e.form.Get(name)) }

func (e *entered) ticked(name string) bool { return e.form.Get(name) == "yes" }

// lines is a text area with one entry a line; blank lines are none.
func (e *entered) lines(name string) []string {
	entries := []string{}
	for line := range strings.Lines(e.form.Get(name)) {
		if line = strings.TrimSpace(line); line != "" {
			entries = append(entries, line)
		}
	}
	return entries
}

// number is a whole number; blank is 0 and not there.
func (e *entered) number(name, label string) (n int, there bool) {
	text := e.text(name)
	if text == "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		e.wrong = append(e.wrong, fmt.Sprintf("%s: write a whole number.", label))
	}
	return n, err == nil
}

func (e *entered) duration(name, label string) engine.Duration {
	text := e.text(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		e.wrong = append(e.wrong, fmt.Sprintf("%s: write a time such as 30s, 1m or 24h.", label))
	}
	return engine.Duration(d)
}

func (e *entered) trust(name string) engine.Trust {
	level, err := engine.ParseTrust(e.form.Get(name))
	if err != nil {
		e.wrong = append(e.wrong, "Choose a trust level.")
	}
	return level
}

func (e *entered) limits() registry.Limits {
	rate := func(name, label string) registry.Rate {
		calls, _ := e.number(name+"_calls", label+", calls")
		return registry.Rate{Calls: calls, Per: e.duration(name+"_per", label+", time")}
	}
	return registry.Limits{Agent: rate("agent", "All calls"), Tool: rate("tool", "One tool"), Session: rate("session", "One session")}
}

// trouble is everything that is wrong, or nil.
func (e *entered) trouble() error {
	if len(e.wrong) == 0 {
		return nil
	}
	return invalid("invalid_form", strings.Join(e.wrong, "\n"))
}

// limitsForm is the form's fields for limits, filled in.
func limitsForm(l registry.Limits) views.LimitsForm {
	row := func(name, label, hint string, r registry.Rate) views.RateForm {
		f := views.RateForm{Name: name, Label: label, Hint: hint}
		if r.Calls > 0 {
			f.Calls = strconv.Itoa(r.Calls)
		}
		if r.Per > 0 {
			f.Per = brief(time.Duration(r.Per))
		}
		return f
	}
	return views.LimitsForm{
		row("agent", "All calls", "within", l.Agent),
		row("tool", "Calls of any one tool", "within", l.Tool),
		row("session", "Calls of one session", "which lasts at most", l.Session),
	}
}

// limitsAgain is the form's fields as they were entered.
func limitsAgain(form url.Values) views.LimitsForm {
	fields := limitsForm(registry.Limits{})
	for i := range fields {
		fields[i].Calls, fields[i].Per = form.Get(fields[i].Name+"_calls"), form.Get(fields[i].Name+"_per")
	}
	return fields
}

// limitsWords says limits in words; none at all are an empty list.
func limitsWords(l registry.Limits) []string {
	var said []string
	if l.Agent.Calls > 0 {
		said = append(said, views.Plural(l.Agent.Calls, "call", "calls")+" in "+brief(time.Duration(l.Agent.Per)))
	}
	if l.Tool.Calls > 0 {
		said = append(said, views.Thousands(l.Tool.Calls)+" of any one tool in "+brief(time.Duration(l.Tool.Per)))
	}
	if l.Session.Calls > 0 {
		said = append(said, views.Thousands(l.Session.Calls)+" in one session")
	}
	if l.Session.Per > 0 {
		said = append(said, "sessions of up to "+brief(time.Duration(l.Session.Per)))
	}
	return said
}

func trustOptions() []views.Option {
	words := map[string]string{
		"untrusted": "untrusted: nothing is known of it", "basic": "basic", "verified": "verified: somebody has looked at it",
		"privileged": "privileged", "system": "system: part of the infrastructure",
	}
	var options []views.Option
	for _, name := range engine.TrustLevels() {
		options = append(options, views.Option{Value: name, Label: words[name]})
	}
	return options
}
