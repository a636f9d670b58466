package views

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Compared is how much two texts may be compared word by word: so many words of one
// with words of the other.
type Compared int

// NewCompared is as much as one page takes.
func NewCompared() *Compared {
	c := Compared(4_000_000)
	return &c
}

// maxCompared is how much one pair of texts takes.
const maxCompared = 1_000_000

// Mark marks, in a text and in what it has become, the words that the other one does not
// have. Where they share no word, nothing is marked: all of it is another one. What is too
// long is marked from the first difference to the last.
func (c *Compared) Mark(before, after *Code) {
	c.mark(before, after, wordsOf(before, wordEnd), wordsOf(after, wordEnd))
}

// drawnAlike are two texts that are drawn alike, with the characters marked that are others.
func drawnAlike(here, known string) (a, b Code) {
	one := func(text string, from int) int { return from }
	a, b = quotedText(here), quotedText(known)
	NewCompared().mark(&a, &b, wordsOf(&a, one), wordsOf(&b, one))
	return a, b
}

// quotedText lays out a text as JSON has it.
func quotedText(text string) Code {
	raw, err := json.Marshal(text)
	if err != nil {
		return Text(text)
	}
	return JSON(raw)
}

func (c *Compared) mark(before, after *Code, was, is []word) {
	from := 0
	for from < min(len(was), len(is)) && was[from].text == is[from].text {
		from++
	}
	end := 0
	for end < min(len(was), len(is))-from && was[len(was)-1-end].text == is[len(is)-1-end].text {
		end++
	}
	a, b := was[from:len(was)-end], is[from:len(is)-end]
	for _, words := range [][]word{a, b} {
		for i := range words {
			words[i].differs = true
		}
	}
	if cells := len(a) * len(b); cells > 0 && cells <= min(maxCompared, int(*c)) {
		*c -= Compared(cells)
		common(a, b)
	}
	if !slices.ContainsFunc(was, func(w word) bool { return !w.differs && w.hasText() }) {
		return
	}
	markBlanks(was)
	markBlanks(is)
	write(before, was)
	write(after, is)
}

// word is a piece of a line of code: a word, a sign, or what is marked as deceptive.
type word struct {
	line, part int
	text       string
	span       Span
	differs    bool
}

// hasText reports whether a word has a letter or a digit.
func (w word) hasText() bool {
	return strings.ContainsFunc(w.text, inWord)
}

func inWord(c rune) bool { return unicode.In(c, unicode.L, unicode.M, unicode.N) }

// wordsOf takes code apart. A span that shows something else than its text is one word; end
// is where a word ends that begins at from, and from itself for one of a single character.
func wordsOf(code *Code, end func(text string, from int) int) []word {
	var all []word
	for i, line := range code.Lines {
		for j, part := range line.Parts {
			for _, s := range part.Spans {
				if s.Mark != Plain || s.Shown != quote.Replace(s.Raw) {
					all = append(all, word{line: i, part: j, text: s.Raw + "\x00" + s.Shown, span: s})
					continue
				}
				for rest := s.Raw; rest != ""; {
					to := end(rest, 0)
					if to == 0 {
						_, to = utf8.DecodeRuneInString(rest)
					}
					all = append(all, word{line: i, part: j, text: rest[:to], span: plain(rest[:to])})
					rest = rest[to:]
				}
			}
		}
	}
	return all
}

// common finds the longest sequence of words that both have, and marks it as no
// difference.
func common(a, b []word) {
	width := len(b) + 1
	longest := make([]uint16, (len(a)+1)*width) // of what follows
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			at := i*width + j
			if a[i].text == b[j].text {
				longest[at] = longest[at+width+1] + 1
			} else {
				longest[at] = max(longest[at+width], longest[at+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch at := i*width + j; {
		case a[i].text == b[j].text:
			a[i].differs, b[j].differs = false, false
			i, j = i+1, j+1
		case longest[at+width] >= longest[at+1]:
			i++
		default:
			j++
		}
	}
}

// markBlanks marks blanks between two words that differ.
func markBlanks(words []word) {
	for i := 1; i+1 < len(words); i++ {
		if strings.TrimSpace(words[i].text) == "" && words[i-1].differs && words[i+1].differs {
			words[i].differs = true
		}
	}
}

// write puts words back into their code.
func write(code *Code, words []word) {
	lines := slices.Clone(code.Lines)
	for i := range lines {
		lines[i].Parts = slices.Clone(lines[i].Parts)
		for j := range lines[i].Parts {
			lines[i].Parts[j].Spans = nil
		}
	}
	for _, w := range words {
		w.span.Differs = w.differs
		spans := &lines[w.line].Parts[w.part].Spans
		if n := len(*spans); n > 0 && (*spans)[n-1].Mark == Plain && w.span.Mark == Plain && (*spans)[n-1].Differs == w.differs {
			(*spans)[n-1].Raw += w.span.Raw
			(*spans)[n-1].Shown += w.span.Shown
			continue
		}
		*spans = append(*spans, w.span)
	}
	code.Lines = lines
}
