package views

// RuleTrace is which rules of the policy met a call.
type RuleTrace struct {
	// Summary is one line about all of it. Notes say what to know of the version, and Warning
	// what the trace does not tell, or "".
	Summary, Warning string
	// Unread are the rules that might have asked for more, and that had no number to compare.
	Unread []TraceStep
	Notes  []string
	Steps  []TraceStep
}

// TraceStep is one rule that was tried.
type TraceStep struct {
	ID, Description string
	Outcome         Outcome
	// Held is "yes", "claimed", "no" or "unknown"; Word says it.
	Held, Word string
	Conditions []TraceCondition
}

// TraceCondition is why a rule held or did not.
type TraceCondition struct {
	Held, Word, Why string
}

// maxTraceText is how many characters of one text of a policy a card has; the page of
// policies has all of them.
const maxTraceText = 240

// shortened is the beginning of a long text.
func shortened(text string) string { return firstOf(text, maxTraceText) }

// firstOf is the first most characters of a text.
func firstOf(text string, most int) string {
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i] + " …"
		}
	}
	return text
}
