package redact

import (
	"cmp"
	"slices"
	"strings"
)

// Span is a found piece of a text: text[Start:End], offsets in bytes, never
// empty. Tag says what it is.
type Span struct {
	Start, End int
	Tag        string
}

// The tags of everything that Find finds that is no secret. Secrets have tags
// under secret.credential and secret.token, whose last part names the rule.
const (
	Email = "personal.pii.email"
	Phone = "personal.pii.phone"
	SSN   = "personal.pii.ssn"
	Card  = "personal.financial.card"
	IBAN  = "personal.financial.iban"
)

// Unscanned is the tag of a text that was not searched to its end: it is longer
// than MaxText, or made to take long. It is a secret, so that nothing passes
// because it could not be searched.
const Unscanned = "secret.unscanned"

// MaxText is the length in bytes of the longest text that is searched.
const MaxText = 1 << 20

// Secret reports whether a tag is a secret's: secret, or anything below it.
func Secret(tag string) bool { return tag == "secret" || strings.HasPrefix(tag, "secret.") }

// Detector finds what the package knows. It never changes and may be used by
// any number of goroutines at once.
type Detector struct {
	rules    []rule
	triggers triggers
}

// New compiles the rules, which takes some ten milliseconds: do it once.
func New() *Detector {
	rules := append(ownRules(), gitleaksRules()...)
	return &Detector{rules: rules, triggers: index(rules)}
}

// maxRounds bounds how often a text is searched again after what was found in
// it has been masked.
const maxRounds = 6

// Find returns what is in text, sorted by start, then by end, then by tag. Spans of
// different tags may overlap; those of one tag do not. With all of them masked,
// the text holds nothing more to find. The time is bounded for every text; a
// text that is too long, or too hard, is one span of tag Unscanned.
func (d *Detector) Find(text string) []Span {
	spans, ok := d.scan(text)
	if !ok {
		return unscanned(text)
	}
	// Masking one thing can lay bare another: what a bank account number was
	// glued to may look like a telephone number once it stands alone.
	for range maxRounds {
		if len(spans) == 0 {
			return nil
		}
		merged := Merge(text, spans)
		more, ok := d.scan(replace(text, merged))
		if !ok {
			return unscanned(text)
		}
		if len(more) == 0 {
			return mergeSpans(spans)
		}
		for _, m := range more {
			spans = append(spans, restore(m, merged))
		}
	}
	return unscanned(text)
}

func unscanned(text string) []Span {
	if text == "" {
		return nil
	}
	return []Span{{0, len(text), Unscanned}}
}

// scan searches once. It is false when the text is beyond the bounds.
func (d *Detector) scan(text string) ([]Span, bool) {
	if len(text) > MaxText {
		return nil, false
	}
	folded := fold(text)
	s := scanner{d: d, t: folded.text, budget: budgetBase + budgetPerByte*len(text), notMail: -1}
	if !s.run() {
		return nil, false
	}
	for i := range s.spans {
		s.spans[i].Start, s.spans[i].End = folded.original(s.spans[i].Start, s.spans[i].End)
	}
	return mergeSpans(s.spans), true
}

// mergeSpans sorts spans and joins those of one tag that overlap.
func mergeSpans(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int {
		return cmp.Or(strings.Compare(a.Tag, b.Tag), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].Tag == s.Tag && s.Start < out[n-1].End {
			out[n-1].End = max(out[n-1].End, s.End)
			continue
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), strings.Compare(a.Tag, b.Tag))
	})
	return out
}

// The work that regular expressions may do for one text, in bytes handed to
// them. Ordinary text needs a few bytes for each of its own.
const (
	budgetBase    = 256 << 10
	budgetPerByte = 6
)

// scanner searches one folded text.
type scanner struct {
	d       *Detector
	t       string
	spans   []Span
	budget  int
	digits  int // digits before this offset have been judged
	notMail int // the @ behind a URL's password, which makes no address
	pemEnd  int // PEM blocks before this offset have been judged
	looked  []searchedTo
	chain   chain
}

// searchedTo remembers how far a rule that searches around its keyword has come.
type searchedTo struct{ rule, end int }

func (s *scanner) add(start, end int, tag string) {
	if start < end {
		s.spans = append(s.spans, Span{start, end, tag})
	}
}

// run makes the one pass. It is false when the budget is used up.
func (s *scanner) run() bool {
	t, pairs := s.t, &s.d.triggers.pairs
	for i := 0; i < len(t); i++ {
		c := t[i]
		class := classes[c]
		if class == 0 {
			continue
		}
		if i+1 < len(t) {
			if bucket := pairs[class&sixBits][classes[t[i+1]]&sixBits]; bucket != 0 && !s.trigger(i, int(bucket)) {
				return false
			}
		}
		switch {
		case c == '@':
			s.email(i)
		case c == ':' || c == '=':
			s.assignment(i)
			if c == ':' && strings.HasPrefix(t[i:], "://") {
				s.url(i)
			}
			if s.budget < 0 {
				return false
			}
		case c == '-':
			if i >= s.pemEnd && strings.HasPrefix(t[i:], pemBegin) {
				s.pem(i)
			}
		case isDigit(c):
			if i > 1 && isLetter(t[i-1]) && isLetter(t[i-2]) && !wordAt(t, i-3) {
				s.iban(i - 2)
			}
			if i >= s.digits {
				s.number(i)
			}
		}
	}
	return s.budget >= 0
}
