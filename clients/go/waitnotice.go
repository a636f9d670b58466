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

// firstTellsWait is then, told of each state of one wait; of the first it tells that the call
// waits: an earlier start left it waiting, or how it stands could not be read before.
func (c *Client) firstTellsWait(then func(Approval)) func(Approval) {
	told := false
	return func(a Approval) {
		if !told {
			told = true
			c.tellWait(a)
		}
		then(a)
	}
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
	return oneLine(text)
}

// questions tells of each question of a reviewer once, while a call waits.
func (c *Client) questions() func(Approval) {
	var told Question
	return func(a Approval) {
		if a.Question == nil || a.Question.Text == told.Text && a.Question.At.Equal(told.At) {
			return
		}
		told = *a.Question
		if c.OnQuestion != nil {
			c.OnQuestion(a)
			return
		}
		_, _ = fmt.Fprintln(os.Stderr, asksFor(a)) // nobody may look
	}
}

// asksFor is one line for a person: what a reviewer wants to know, and who answers.
func asksFor(a Approval) string {
	text := fmt.Sprintf("holdpoint: a reviewer of %s asks: “%s” It waits for the answer: of the program, by Inform, or of the agent's owner", a.ToolName, a.Question.Text)
	if a.Links.Review != "" {
		text += ": " + a.Links.Review
	}
	return oneLine(text)
}

func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
