package views

import (
	"strings"

	"holdpoint/web/syntax"
)

// Budget is how much may be laid out yet of what is shown beside the exact arguments:
// lines, and marks that are spelt out. What is laid out from one Budget is bounded
// together, however many parts it has.
type Budget struct{ lines, marks int }

// NewBudget is the budget of one card.
func NewBudget() *Budget { return &Budget{lines: maxAidLines, marks: maxNamed} }

// maxAidLines is how many lines are laid out beside the arguments.
const maxAidLines = 3000

// Spent reports whether nothing more is laid out.
func (b *Budget) Spent() bool { return b.lines <= 0 || b.marks <= 0 }

// spans marks a text.
func (b *Budget) spans(text string) []Span {
	b.lines--
	return markWithin(text, &b.marks)
}

// JSON lays out canonical JSON as the function JSON does.
func (b *Budget) JSON(canonical []byte) Code {
	code := jsonWithin(canonical, &b.marks, max(b.lines, 1))
	b.lines -= len(code.Lines)
	return code
}

// Tokens lays out the tokens of a text, marked as the text is as a whole: no mark depends
// on where a token ends. A line of a diff is one of its class.
func (b *Budget) Tokens(tokens []syntax.Token) Code {
	var text strings.Builder
	for _, t := range tokens {
		text.WriteString(t.Text)
	}
	spans := markWithin(text.String(), &b.marks)
	l := tokenLines{spans: spans}
	l.line(false)
	for i, t := range tokens {
		l.token(t)
		if t.Break && i+1 < len(tokens) {
			l.line(true)
		}
	}
	if n := len(l.code.Lines); n > 1 && len(l.code.Lines[n-1].Parts) == 0 {
		l.code.Lines = l.code.Lines[:n-1] // behind the last line break
	}
	b.lines -= len(l.code.Lines)
	return l.code
}

// tokenLines lays tokens over the spans of their text.
type tokenLines struct {
	spans []Span
	taken int // bytes of the first span that have been laid out
	code  Code
}

func (l *tokenLines) line(continued bool) {
	l.code.Lines = append(l.code.Lines, Line{Continued: continued})
}

func (l *tokenLines) token(t syntax.Token) {
	for n := len(t.Text); n > 0 && len(l.spans) > 0; {
		s := l.spans[0]
		size := min(len(s.Raw)-l.taken, n)
		n -= size
		switch piece := s.Raw[l.taken : l.taken+size]; {
		case s.Mark == Plain:
			l.plain(string(t.Class), piece)
		case l.taken == 0: // a mark is shown whole, where it begins
			l.add(string(t.Class), s)
		}
		if l.taken += size; l.taken == len(s.Raw) {
			l.spans, l.taken = l.spans[1:], 0
		}
	}
}

func (l *tokenLines) plain(class, text string) {
	for {
		line, rest, more := strings.Cut(text, "\n")
		if line != "" {
			l.add(class, Span{Raw: line, Shown: line})
		}
		if !more {
			return
		}
		l.line(false)
		text = rest
	}
}

func (l *tokenLines) add(class string, s Span) {
	line := &l.code.Lines[len(l.code.Lines)-1]
	line.Parts = append(line.Parts, Part{Class: class, Spans: []Span{s}})
	switch syntax.Class(class) {
	case syntax.Added, syntax.Removed, syntax.Hunk, syntax.File:
		line.Class = class
	default:
	}
}
