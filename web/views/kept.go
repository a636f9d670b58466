package views

import (
	"net/url"
	"strings"
)

// Kept is what somebody has written and not sent, by form and field.
type Kept map[string]url.Values

// Of is what was written into a field, or "".
func (k Kept) Of(form, field string) string { return k[form].Get(field) }

// With is k with what was written into a form.
func (k Kept) With(form string, fields url.Values) Kept {
	with := Kept{form: fields}
	for other, written := range k {
		if other != form {
			with[other] = written
		}
	}
	return with
}

// Has reports whether anything was written into a form.
func (k Kept) Has(form string) bool { return len(k[form]) > 0 }

// text is Of as the content of a textarea, which leaves out its first line break.
func (k Kept) text(form, field string) string { return "\n" + k.Of(form, field) }

// keptTerms reports whether tighter terms were written and not sent.
func (v Approval) keptTerms() bool {
	for name, values := range v.Kept["votes"] {
		if (name == "constraints" || name == "valid_minutes" || strings.HasPrefix(name, "term:")) && strings.Join(values, "") != "" {
			return true
		}
	}
	return false
}
