package threegate

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine/source"
)

// placeholders are what a template or a careless program writes instead of a
// name, in lower case and with hyphens.
var placeholders = []string{
	"human-name-or-id", "core", "core-draft", "tool-exec", "agent", "none", "null", "tbd", "todo", "n/a", "pending", "unapproved",
	"na", "nil", "human", "unknown", "nobody", "~", "yes", "no", "on", "off", "true", "false",
}

var hyphens = strings.NewReplacer("_", "-", " ", "-")

// maxApprover bounds approved_by, in bytes.
const maxApprover = 254

// approver says what keeps a text from naming the person who approved (A1), or
// nothing.
func approver(name string) string {
	folded := hyphens.Replace(strings.ToLower(strings.Trim(name, ".<>[]{}()?!\"'")))
	switch {
	case !utf8.ValidString(name), strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || isHidden(r) }):
		return "it holds a character that cannot be seen"
	case blankText(name):
		return "it is blank"
	case strings.TrimSpace(name) != name:
		return "it begins or ends with a space"
	case len(name) > maxApprover:
		return "it is too long for a name"
	case slices.Contains(placeholders, folded), strings.Contains(folded, "human-name-or-id"):
		return "it is a placeholder"
	case strings.ContainsAny(name, "<>{}|"), !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }):
		return "it does not name anybody"
	}
	return ""
}

// approval applies A1 to A4, or A0 to a draft.
func (c *checker) approval() {
	r := c.request
	by, at := c.root.Get("approved_by"), c.root.Get("approved_utc")
	if c.draft {
		for _, n := range []*source.Tree{by, at} {
			if n != nil && !isOpen(n) {
				c.add("A0", n.Line, "a draft leaves approved_by and approved_utc out or empty (\"\"); they are filled in when people approve it")
			}
		}
		by, at = nil, nil
	}
	if by != nil {
		name, ok := stringOf(by)
		switch problem := approver(name); {
		case !ok:
			c.add("A1", by.Line, "approved_by must be a text that names who approved the request")
		case problem != "":
			c.add("A1", by.Line, "approved_by must name who approved the request: %s", problem)
		default:
			r.ApprovedBy = name
		}
	}
	if at != nil {
		if when, ok := timeOf(at); !ok {
			c.add("A2", at.Line, "approved_utc must be a time in UTC of the form 2026-02-09T16:12:00Z")
		} else if r.ApprovedUTC = when; when.Before(r.CreatedUTC) {
			c.add("A3", at.Line, "approved_utc is before created_utc; nobody approves what is not there yet")
		}
	}
	if r.CreatedUTC.After(c.now) {
		c.add("A4", c.root.Get("created_utc").Line, "created_utc is in the future")
	}
	if r.ApprovedUTC.After(c.now) {
		c.add("A4", at.Line, "approved_utc is in the future")
	}
}

// isOpen reports whether an approval field of a draft is left open: nothing or ""
// after the colon.
func isOpen(n *source.Tree) bool {
	return n.Kind == source.Scalar && n.Text == "" && (n.Style == source.Bare || n.Style == source.DoubleQuoted && n.End-n.Start == len(`""`))
}
