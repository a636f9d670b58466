package threegate

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxBytes bounds a document (D1).
const MaxBytes = 64 << 10

// lines is a text and where its lines begin. Lines are counted from 0 here and
// from 1 in everything that people see.
type lines struct {
	src    string
	starts []int
}

func cut(src string) lines {
	starts := make([]int, 1, 64)
	for i := 0; i < len(src); i++ {
		if src[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return lines{src: src, starts: starts}
}

func (l *lines) count() int { return len(l.starts) }

// at is line i without its line feed.
func (l *lines) at(i int) string {
	if i+1 < len(l.starts) {
		return l.src[l.starts[i] : l.starts[i+1]-1]
	}
	return l.src[l.starts[i]:]
}

// number is the line, counted from 1, that holds the byte at offset.
func (l *lines) number(offset int) int {
	i, found := slices.BinarySearch(l.starts, offset)
	if found {
		return i + 1
	}
	return i
}

func isBlank(line string) bool { return strings.Trim(line, " ") == "" }

// decode applies D1 to D4 and returns the text that the other rules read: the
// document itself when it broke none of these, else the closest readable text
// with the same lines.
func (c *checker) decode(document []byte) string {
	src := string(document)
	if len(document) > MaxBytes {
		c.add("D1", 0, "the document has %d bytes; %d are allowed", len(document), MaxBytes)
	}
	if !utf8.ValidString(src) {
		valid := 0
		for valid < len(src) {
			r, size := utf8.DecodeRuneInString(src[valid:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			valid += size
		}
		c.add("D1", strings.Count(src[:valid], "\n")+1, "these bytes are not UTF-8; save the document as UTF-8")
		src = strings.ToValidUTF8(src, "\uFFFD")
	}
	if rest, found := strings.CutPrefix(src, "\uFEFF"); found {
		c.add("D2", 1, "the document begins with a byte order mark; save it without one")
		src = rest
	}
	if i := strings.IndexByte(src, '\r'); i >= 0 {
		c.add("D3", strings.Count(src[:i], "\n")+1, "lines end in a line feed alone; the document holds %d carriage returns", strings.Count(src, "\r"))
		src = strings.ReplaceAll(src, "\r", "")
	}
	if !strings.ContainsFunc(src, hiddenButLF) {
		return src
	}
	line, seen := 1, 0
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			line++
		case isHidden(r):
			if seen != line {
				c.add("D4", line, "the line holds the control, format or invisible character %U; write visible text and spaces only", r)
				seen = line
			}
			if r < utf8.RuneSelf {
				return ' '
			}
			return -1
		}
		return r
	}, src)
}

func hiddenButLF(r rune) bool { return r != '\n' && isHidden(r) }

// isHidden reports a character that a reader of the page does not see as what
// it is: control and format characters, separators of lines, fillers,
// selectors, private and unassigned code points that only look empty.
func isHidden(r rune) bool {
	if r >= ' ' && r < 0x7f {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Noncharacter_Code_Point) ||
		r == '\u2800' // the Braille pattern without dots is drawn as nothing
}

// frontMatter applies F1 and returns the lines between the two marks and the
// first line of the body.
func (c *checker) frontMatter() (from, to, body int, found bool) {
	if c.at(0) != frontMark {
		c.add("F1", 1, "the first line must be exactly ---")
		if strings.TrimSpace(c.at(0)) != frontMark {
			return 0, 0, 0, false
		}
	}
	for i := 1; i < c.count(); i++ {
		if c.at(i) == frontMark {
			return 1, i, i + 1, true
		}
	}
	c.add("F1", 1, "the front matter is not closed; a line that is exactly --- must end it")
	return 0, 0, 0, false
}

const frontMark = "---"
