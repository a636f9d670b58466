package web

import (
	"net/url"
	"strconv"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/web/views"
)

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
	var parts []string
	if l.Agent.Calls > 0 {
		parts = append(parts, views.Plural(l.Agent.Calls, "call", "calls")+" in "+brief(time.Duration(l.Agent.Per)))
	}
	if l.Tool.Calls > 0 {
		parts = append(parts, views.Thousands(l.Tool.Calls)+" of any one tool in "+brief(time.Duration(l.Tool.Per)))
	}
	if l.Session.Calls > 0 {
		parts = append(parts, views.Thousands(l.Session.Calls)+" in one session")
	}
	if l.Session.Per > 0 {
		parts = append(parts, "sessions of up to "+brief(time.Duration(l.Session.Per)))
	}
	return parts
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
