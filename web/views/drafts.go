package views

import (
	"net/url"
	"strings"
)

// Drafts is what somebody has written and not sent, by form and field.
type Drafts map[string]url.Values

// Of is what was written into a field, or "".
func (k Drafts) Of(form, field string) string { return k[form].Get(field) }

// With is k with what was written into a form.
func (k Drafts) With(form string, fields url.Values) Drafts {
	with := Drafts{form: fields}
	for other, written := range k {
		if other != form {
			with[other] = written
		}
	}
	return with
}

// Has reports whether anything was written into a form.
func (k Drafts) Has(form string) bool { return len(k[form]) > 0 }

// text is Of as the content of a textarea, which leaves out its first line break.
func (k Drafts) text(form, field string) string { return "\n" + k.Of(form, field) }

// keptTerms reports whether tighter terms were written and not sent.
func (v Approval) keptTerms() bool {
	for name, values := range v.Drafts["votes"] {
		if (name == "constraints" || name == "valid_minutes" || strings.HasPrefix(name, "term:")) && strings.Join(values, "") != "" {
			return true
		}
	}
	return false
}
