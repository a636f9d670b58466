package web

import (
	"cmp"
	"strings"

	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// calledTool is what a row of a list calls a call by: its tool's name, or what a change of the
// rules changes.
func calledTool(tool string) string {
	if what := gate.ChangeUnder(tool); what != "" {
		return "Change of " + what
	}
	return tool
}

// ruleChange tells of a change of the rules who has written it, and what it changes.
func ruleChange(v *views.Approval, c gate.Card) {
	change, ok := gate.RuleChangeOf(c.Approval, c.Document)
	if !ok {
		return
	}
	v.Changes = change.What()
	v.Requester.Author = cmp.Or(change.Author, "nobody is known to have written it, so one person more decides")
	v.Agent = "Somebody"
	if name, _, named := strings.Cut(change.Author, " <"); named {
		v.Agent = name
	}
}
