package views

import (
	"strconv"

	"github.com/a-h/templ"

	"holdpoint/engine/stakes"
)

// holdSeconds is how long a vote is held by the page before it is sent.
const holdSeconds = 8

// heldInBulk is heldFor for the form that decides several calls: it holds them whatever is
// at stake, because one slip there is many.
func heldInBulk(all Approval) templ.Attributes {
	if all.Decide.Asks() {
		return nil
	}
	return templ.Attributes{"data-hold": strconv.Itoa(holdSeconds)}
}

// heldFor says on the form of a vote whether its page holds it for a moment, so that it can
// be taken back: where little is at stake, and nothing has to be signed or proved, whose
// time would go on meanwhile.
func heldFor(v Approval) templ.Attributes {
	d := v.Decide
	if v.Stakes.Danger >= stakes.Medium || d.Asks() || d.Verify != "" || d.Prove != nil {
		return nil
	}
	return templ.Attributes{"data-hold": strconv.Itoa(holdSeconds)}
}
