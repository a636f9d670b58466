package redact

import (
	"cmp"
	"slices"
	"strings"
)

// maskOpen and maskClose are around the tag of what was masked.
const (
	maskOpen  = "[REDACTED:"
	maskClose = "]"
)

// Mask returns text with every span replaced by [REDACTED:<tag>]. Spans that
// overlap become one first; its tag is a secret's if one of them is a secret,
// and of those that remain the longest one's, then the first one's. Spans need
// not be sorted; what is outside of the text is ignored. Masking all that Find
// found leaves nothing that Find would find.
func Mask(text string, spans []Span) string {
	if len(spans) == 0 {
		return text
	}
	return replace(text, Merge(text, spans))
}

// Merge returns the spans as Mask masks them: sorted, cut to the text, those
// that overlap joined under one tag.
func Merge(text string, spans []Span) []Span {
	out := make([]Span, 0, len(spans))
	for _, s := range spans {
		if s.Start, s.End = max(s.Start, 0), min(s.End, len(text)); s.Start < s.End {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	n := 0
	best := 0 // the length of the span that gave out[n-1] its tag
	for _, s := range out {
		size := s.End - s.Start
		if n > 0 && s.Start < out[n-1].End {
			last := &out[n-1]
			if a, b := Secret(s.Tag), Secret(last.Tag); a && !b || a == b && size > best {
				last.Tag, best = s.Tag, size
			}
			last.End = max(last.End, s.End)
			continue
		}
		out[n], best = s, size
		n++
	}
	return out[:n]
}

// replace writes the text with its merged spans masked.
func replace(text string, merged []Span) string {
	var out strings.Builder
	out.Grow(len(text) + 32*len(merged))
	at := 0
	for _, s := range merged {
		out.WriteString(text[at:s.Start])
		out.WriteString(maskOpen)
		out.WriteString(s.Tag)
		out.WriteString(maskClose)
		at = s.End
	}
	out.WriteString(text[at:])
	return out.String()
}

// restore moves a span of the masked text to the text before masking. What lies
// inside of a mask becomes all of what was masked.
func restore(s Span, merged []Span) Span {
	grown := 0 // how much longer the masked text is, up to here
	out := s
	startKnown := false
	for _, m := range merged {
		maskStart := m.Start + grown
		maskEnd := maskStart + len(maskOpen) + len(m.Tag) + len(maskClose)
		if !startKnown && s.Start < maskEnd {
			out.Start, startKnown = min(s.Start-grown, m.Start), true
		}
		if s.End <= maskEnd {
			if s.End > maskStart {
				out.End = m.End
			} else {
				out.End = s.End - grown
			}
			return out
		}
		grown = maskEnd - m.End
	}
	if !startKnown {
		out.Start = s.Start - grown
	}
	out.End = s.End - grown
	return out
}
