package views

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/a-h/templ"

	"holdpoint/engine/stakes"
)

// Bulk is the page on which somebody decides alike calls together.
type Bulk struct {
	Frame
	// All is what is the same in all of Rows, as the card of the first one has it, with the
	// earliest of their deadlines. Credentials, Claims and Statements say that these are not,
	// Deadlines that they are more than a minute apart.
	All                                        Approval
	Credentials, Claims, Statements, Deadlines bool
	// Same are the arguments that are the same in all, Columns what those that differ are
	// called, and More how many differ besides.
	Same    []Argument
	Columns []string
	More    int
	Rows    []BulkRow
	// Apart are the calls that are not decided here, and why.
	Apart []ApartCall
	// Kinds are the kinds of no; Kind, Comment and Failure are of a form that was not taken.
	Kinds                  []Option
	Kind, Comment, Failure string
	MaxComment             int
	// Drafts says that what is written is kept until it is sent, and Again that Comment and
	// Kind are what was. Elsewhere is what was written about some of the calls only.
	Drafts, Again bool
	Elsewhere     []string
}

// BulkRow is one of several alike calls.
type BulkRow struct {
	ID, Digest string
	Version    int
	Stakes     Stakes
	// Credential and ByClaim are shown where they differ.
	Credential, ByClaim string
	// Cells are what the arguments of Columns are; nil for one that is not there.
	Cells []*Code
	// InSentence says of each whether the sentence has all of it.
	InSentence []bool
	Deadline   time.Time
	ClaimedBy  string
	Flags      []string
	// Seen is the card (RenderCard).
	Seen string
}

// Argument is a part of the arguments that is no object itself. JSON is its text, which
// Code shows.
type Argument struct {
	Path, JSON string
	Code       Code
}

// ApartCall is a call that is not decided together with others.
type ApartCall struct{ ID, Tool, Why string }

// BulkDone says what became of a decision on several calls.
type BulkDone struct {
	Frame
	Results []BulkResult
	// Good is how many were recorded, and Comment what was written, where one was not.
	Good    int
	Comment string
	// AgainURL leads to those that can still be decided together, or "".
	AgainURL string
}

// BulkResult is what became of one of several calls.
type BulkResult struct {
	ID, Tool, Text string
	Stakes         Stakes
	Good           bool
}

func recordedWords(v BulkDone) string {
	if v.Good == len(v.Results) {
		return Plural(v.Good, "vote is", "votes are") + " recorded"
	}
	return Thousands(v.Good) + " of " + Plural(len(v.Results), "vote is", "votes are") + " recorded"
}

func bulkIDs(rows []BulkRow) string {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	return strings.Join(ids, " ")
}

// codeInline is code of one line within a text.
func codeInline(c Code) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var b strings.Builder
		b.WriteString(`<code class="inline">`)
		for _, line := range c.Lines {
			for _, part := range line.Parts {
				b.WriteString(`<span class="` + part.Class + `">`)
				writeSpans(&b, part.Spans)
				b.WriteString(`</span>`)
			}
		}
		b.WriteString(`</code>`)
		_, err := io.WriteString(w, b.String())
		return err
	})
}

// sumOf says how many calls there are to decide, and what they are about together.
func sumOf(rows []BulkRow) (calls, total string) {
	amounts := make([]string, len(rows))
	for i, row := range rows {
		amounts[i] = row.Stakes.Amount
	}
	totals, without, unnamed := stakes.Total(amounts)
	var parts []string
	if len(totals) > 0 {
		parts = append(parts, strings.Join(totals, " + ")+" in all")
	}
	if unnamed > 0 {
		parts = append(parts, Plural(unnamed, "amount", "amounts")+" without a currency")
	}
	if without > 0 && len(parts) > 0 {
		parts = append(parts, Thousands(without)+" without an amount")
	}
	return Plural(len(rows), "call", "calls"), strings.Join(parts, ", and ")
}
