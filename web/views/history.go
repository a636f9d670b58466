package views

import (
	"strings"
	"time"
)

// History is a page of approvals that have ended.
type History struct {
	Frame
	Rows   []HistoryRow
	Search HistorySearch
	// Found is how many the search finds; More says that there are more than are counted.
	Found int
	More  bool
	// First, Previous and Next are the addresses of other pages; the last two are "" where
	// there are none.
	First, Previous, Next string
	// MayExport says that the person may take what is found as a file.
	MayExport bool
}

// HistorySearch is what is wanted of the history, and what there is to choose from.
type HistorySearch struct {
	// Form is what was entered, by parameter, and Query all of it as part of an address;
	// "" for nothing. Problems are what cannot be understood of it.
	Form     map[string]string
	Query    string
	Problems []string
	Chips    []Chip
	Options  map[string][]Option
	// Mine, Part and Anybody are the addresses of the same search, of what the reader has
	// decided, of what they took part in, and of all; IsMine and IsPart say which it is.
	Mine, Part, Anybody string
	IsMine, IsPart      bool
}

// HistoryRow is an approval that has ended.
type HistoryRow struct {
	ID, Tool, Agent, Environment string
	Change                       bool // of the rules, which Tool names in words; no agent asks for it
	// Stakes says what the call was to do.
	Stakes    Stakes
	Status    Status
	By        string // who or what ended it, in words
	EndedAt   time.Time
	Took      time.Duration // from when it was proposed to its end
	Execution string        // what became of the call, in words
	Erased    bool          // what it was about is gone
	Edited    bool          // a reviewer changed its arguments
	Own       []Remark      // what the reader has written about it
}

// Remark is something that somebody has written, and as what.
type Remark struct{ What, Text string }

// beginning is the first part of a text, on one line.
func beginning(text string) string {
	const most = 160
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// foundWords says how much the search finds.
func foundWords(v History) string {
	switch {
	case v.More:
		return "More than " + Thousands(v.Found) + " approvals"
	case v.Found == 0:
		return "No approval"
	}
	return Plural(v.Found, "approval", "approvals")
}
