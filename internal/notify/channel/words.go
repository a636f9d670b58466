package channel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
)

// How many characters of a text are shown. Each may become a mark of ten, and
// Slack takes 2,000 in a field and 3,000 in a section.
const (
	maxName     = 120
	maxSentence = 280
	maxSubject  = 60 // of a tool's name there
)

// title is what a notification is about, in words that are all ours.
func title(n Notification) string {
	switch {
	case n.Kind == engine.NotifyDigest:
		return "Digest of " + count(len(n.Items), "notice")
	case n.Kind == engine.NotifyDecided && slices.Contains([]string{"approved", "denied", "expired", "cancelled"}, n.Status):
		return strings.ToUpper(n.Status[:1]) + n.Status[1:]
	}
	return n.Kind.Traits().Title
}

// subject is a title with what it is about.
func subject(n Notification) string {
	s := title(n)
	switch {
	case n.About != "":
		s += ": " + visible(n.About, maxSubject)
	case n.Tool != "":
		s += ": " + visible(n.Tool, maxSubject)
	}
	if n.Environment != "" {
		s += " (" + visible(n.Environment, maxSubject) + ")"
	}
	return s
}

// fact is a line of a notification: a label of ours and somebody's text, made visible.
type fact struct{ Label, Text string }

func facts(n Notification) []fact {
	var list []fact
	add := func(label, text string, limit int) {
		if text != "" {
			list = append(list, fact{label, visible(text, limit)})
		}
	}
	if n.About != "" { // no agent calls a tool
		add("About", withArticle(n.About), maxName)
	} else {
		add("Tool", n.Tool, maxName)
		add("Agent", n.Agent, maxName)
	}
	add("Environment", n.Environment, maxName)
	add("Stage", n.Stage, maxName)
	add("Status", n.Status, maxName)
	add("Outcome", n.Outcome, maxName)
	if !n.Deadline.IsZero() {
		list = append(list, fact{"Until", clock(n.Deadline)})
	}
	add("Reason", n.Reason, maxSentence)
	add("Approval", n.ApprovalID, maxName)
	return list
}

// line is an item of a digest in one line.
func line(n Notification) string {
	s := title(n)
	if n.Environment != "" {
		s += " (" + visible(n.Environment, maxSubject) + ")"
	}
	if n.Stage != "" {
		s += ", " + visible(n.Stage, maxSubject)
	}
	if !n.Deadline.IsZero() {
		s += ", until " + clock(n.Deadline)
	}
	if n.Message != "" {
		s += ": " + visible(n.Message, maxName)
	}
	return s
}

// withArticle is a thing with its article: "A payment".
func withArticle(thing string) string {
	if thing != "" && strings.ContainsRune("aeiou", rune(thing[0])) {
		return "An " + thing
	}
	return "A " + thing
}

func clock(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}
