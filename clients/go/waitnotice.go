package holdpoint

import (
	"fmt"
	"os"
	"strings"
	"unicode"
)

// tellWait says to whoever looks at the program that a call waits.
func (c *Client) tellWait(a Approval) {
	if c.OnWait != nil {
		c.OnWait(a)
		return
	}
	_, _ = fmt.Fprintln(os.Stderr, waitsFor(a)) // nobody may look
}

// waitsFor is one line for a person: which call waits, for whom, and where they decide.
func waitsFor(a Approval) string {
	var needs []string
	for _, r := range a.Requirements {
		switch {
		case r.Status != "waiting" && r.Status != "queued":
		case r.Role == "":
			needs = append(needs, r.Kind)
		default:
			needs = append(needs, fmt.Sprintf("%s by %d × %s", r.Kind, r.Needed, r.Role))
		}
	}
	if needs == nil {
		needs = []string{"people"}
	}
	text := fmt.Sprintf("holdpoint: %s waits for %s", a.ToolName, strings.Join(needs, ", then "))
	if a.Links.Review != "" {
		text += ": " + a.Links.Review
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
