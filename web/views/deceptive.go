package views

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine/confusable"
)

// Mark says why a stretch of text is not shown as it is. Plain text is.
type Mark uint8

// The marks, in the order in which a warning lists them.
const (
	Plain       Mark = iota
	Direction        // controls that reorder the text on the screen
	Tag              // invisible characters that spell ASCII
	Invisible        // zero-width and other format characters, fillers
	Escape           // the start of a terminal's escape sequence
	Control          // any other control character
	Lookalike        // letters or signs that pass for other ones
	Punycode         // an encoded international host name
	Blank            // whitespace that is not the ordinary space
	Run              // so much whitespace that what follows may be overlooked
	Selector         // variation selectors
	Stack            // combining marks without a base, or piled up
	Unknown          // private, unassigned, not a character, not UTF-8
	RightToLeft      // letters of a right-to-left script
	Escaped          // the rest of a text with more marks than are spelt out
)

// Span is a stretch of a text and what a page shows in its place.
type Span struct {
	// Raw is the text itself: the Raws of all spans, one after the other, are
	// exactly what MarkDeceptive was given.
	Raw string
	// Shown is what to show: Raw itself for Plain and RightToLeft, else a label
	// such as "[U+202E RIGHT-TO-LEFT OVERRIDE]", with the character before it
	// where that is visible and harmless.
	Shown string
	Mark  Mark
	// Count is how many times the mark applies; 0 for Plain.
	Count int
	// Differs says that the text which this one is compared with does not have it.
	Differs bool
}

// Thresholds from which whitespace is counted instead of shown.
const (
	maxBreaks = 3  // line breaks in one run of whitespace
	maxGap    = 15 // blanks between two words of a line
	maxIndent = 60 // blanks at the start of a line
	maxStack  = 4  // combining marks on one base
)

// maxNamed is how many marks are spelt out together: a label is many times as
// long as what it names.
const maxNamed = 500

// MarkDeceptive splits text into spans such that nothing in it can hide or pass for
// something else: what is invisible, reorders, or looks like another character
// is shown by name. Line breaks and tabs are Plain; it is for the caller to
// show them. No rune of the text is dropped. From the mark on that would be one
// too many, the whole rest is one Escaped span.
func MarkDeceptive(text string) []Span {
	left := maxNamed
	return markWithin(text, &left)
}

// markWithin is MarkDeceptive with at most *left marks spelt out. It takes them
// off: several texts of one page share a number.
func markWithin(text string, left *int) []Span {
	r := marker{text: text, alike: confusable.Lookalikes(text), left: left, cut: -1}
	for r.pos < len(text) {
		r.step()
	}
	r.flush()
	if r.cut >= 0 {
		r.spans = append(r.spans, Span{
			Raw: text[r.cut:], Mark: Escaped, Count: r.more,
			Shown: "[" + Thousands(r.more) + " MORE; FROM HERE ON IN ESCAPES] " + escaped(text[r.cut:]),
		})
	}
	return r.spans
}

// Visible is the text with everything that MarkDeceptive marks replaced by what it
// shows, for places that hold no markup, such as a page's title.
func Visible(text string) string {
	var b strings.Builder
	for _, s := range MarkDeceptive(text) {
		b.WriteString(s.Shown)
	}
	return b.String()
}

type marker struct {
	text  string
	pos   int                // what is before it has been looked at
	plain int                // from here to pos, no mark has claimed the text yet
	marks int                // combining marks in a row before pos
	alike []confusable.Range // from pos on, or nearly
	left  *int
	cut   int // where the text is no longer spelt out; -1 for nowhere
	more  int // what is marked after that
	spans []Span
}

// emit adds a span, unless the text is no longer spelt out.
func (r *marker) emit(from, to int, kind Mark, count int, shown func() string) {
	if kind != Plain && kind != RightToLeft {
		if *r.left == 0 {
			if r.cut < 0 {
				r.cut = from
			}
			r.more += count
			return
		}
		*r.left--
	}
	if r.cut >= 0 {
		return
	}
	s := Span{Raw: r.text[from:to], Shown: r.text[from:to], Mark: kind, Count: count}
	if shown != nil {
		s.Shown = shown()
	}
	r.spans = append(r.spans, s)
}

// take emits a mark of the n bytes at pos.
func (r *marker) take(n int, kind Mark, count int, shown func() string) {
	r.flush()
	r.emit(r.pos, r.pos+n, kind, count, shown)
	r.pos += n
	r.plain = r.pos
}

// flush emits the text that no mark has claimed, word by word.
func (r *marker) flush() {
	if r.plain < r.pos {
		r.words(r.plain, r.pos)
		r.plain = r.pos
	}
	r.marks = 0
}

func (r *marker) step() {
	if r.blanks() {
		return
	}
	rest := r.text[r.pos:]
	if rest[0] > ' ' && rest[0] < 0x7F {
		r.pos++
		r.marks = 0
		return
	}
	c, size := utf8.DecodeRuneInString(rest)
	if c == utf8.RuneError && size == 1 {
		r.repeated(fmt.Sprintf("BYTE 0x%02X", rest[0]), Unknown, size)
		return
	}
	if tagChar(c) {
		r.tags()
		return
	}
	if label, kind := classify(c, rest[size:]); kind != Plain {
		if kind == Lookalike {
			r.take(size, kind, 1, func() string { return rest[:size] + "[" + label + "]" })
			return
		}
		r.repeated(label, kind, size)
		return
	}
	if unicode.Is(unicode.M, c) {
		if r.plain == r.pos || r.marks >= maxStack {
			r.repeated(codePoint(c)+" COMBINING MARK", Stack, size)
			return
		}
		r.marks++
	} else {
		r.marks = 0
	}
	r.pos += size
}

// repeated labels the size bytes at pos, and takes all immediate repetitions of
// them along.
func (r *marker) repeated(label string, kind Mark, size int) {
	rest, n := r.text[r.pos:], 1
	for strings.HasPrefix(rest[n*size:], rest[:size]) {
		n++
	}
	r.take(n*size, kind, n, func() string {
		if n > 1 {
			label = Thousands(n) + " × " + label
		}
		return "[" + label + "]"
	})
}

// tags shows a run of tag characters with the ASCII that they spell.
func (r *marker) tags() {
	var spelled strings.Builder
	rest := r.text[r.pos:]
	n, end := 0, len(rest)
	for i, c := range rest {
		if !tagChar(c) {
			end = i
			break
		}
		n++
		if ascii := c - 0xE0000; ascii >= 0x20 && ascii < 0x7F {
			spelled.WriteRune(ascii)
		}
	}
	what := "TAG CHARACTERS"
	if n == 1 {
		what = "TAG CHARACTER"
	}
	r.take(end, Tag, n, func() string {
		return fmt.Sprintf("[%s %s U+E00xx, SPELLING “%s”]", Thousands(n), what, spelled.String())
	})
}

// blanks takes a run of ordinary whitespace, if one is next, and reports so.
func (r *marker) blanks() bool {
	rest := r.text[r.pos:]
	end := len(rest) - len(strings.TrimLeft(rest, " \t\n"))
	if end == 0 {
		return false
	}
	run := rest[:end]
	breaks := strings.Count(run, "\n")
	tail := len(run) - 1 - strings.LastIndex(run, "\n")
	atStart := breaks > 0 || r.pos == 0
	if breaks > maxBreaks || !atStart && tail > maxGap || atStart && tail > maxIndent {
		r.take(end, Run, 1, func() string { return "[" + blankLabel(run) + "]" })
		return true
	}
	r.pos += end
	r.marks = maxStack // a mark must not sit on a blank
	return true
}

func blankLabel(run string) string {
	var parts []string
	for _, k := range []struct{ what, one, many string }{
		{"\n", "LINE BREAK", "LINE BREAKS"}, {" ", "SPACE", "SPACES"}, {"\t", "TAB", "TABS"},
	} {
		switch n := strings.Count(run, k.what); n {
		case 0:
		case 1:
			parts = append(parts, "1 "+k.one)
		default:
			parts = append(parts, Thousands(n)+" "+k.many)
		}
	}
	return strings.Join(parts, ", ")
}

func tagChar(c rune) bool { return c >= 0xE0000 && c <= 0xE007F }

func codePoint(c rune) string { return fmt.Sprintf("U+%04X", c) }

// classify says what is wrong with a character taken by itself, and its name.
func classify(c rune, after string) (label string, kind Mark) {
	if c >= 0x20 && c < 0x7F || c == '\n' || c == '\t' {
		return "", Plain
	}
	if n, ok := named[c]; ok {
		return codePoint(c) + " " + n.name, n.mark
	}
	switch {
	case c == 0x1B:
		if after != "" && strings.ContainsRune("[]()PX^_#%78=>cDEHMNOZ", rune(after[0])) {
			return "U+001B ESCAPE, a terminal command follows", Escape
		}
		return "U+001B ESCAPE", Control
	case c == 0x9B:
		return "U+009B CONTROL SEQUENCE INTRODUCER", Escape
	case unicode.Is(unicode.Cc, c):
		return codePoint(c) + " CONTROL", Control
	case unicode.Is(unicode.Variation_Selector, c):
		return codePoint(c) + " VARIATION SELECTOR", Selector
	case c >= 0xE0000 && c <= 0xE0FFF, unicode.Is(unicode.Cf, c), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c):
		return codePoint(c) + " INVISIBLE FORMAT CHARACTER", Invisible
	case unicode.Is(unicode.Zs, c), unicode.Is(unicode.Zl, c), unicode.Is(unicode.Zp, c):
		return codePoint(c) + " SPACE", Blank
	case c >= 0xFF01 && c <= 0xFF5E:
		return fmt.Sprintf("%s FULLWIDTH, looks like “%c”", codePoint(c), c-0xFF01+'!'), Lookalike
	case c >= 0x1D400 && c <= 0x1D7FF && unicode.IsOneOf([]*unicode.RangeTable{unicode.L, unicode.N, unicode.Sm}, c):
		return codePoint(c) + " MATHEMATICAL, looks like an ordinary letter or digit", Lookalike
	case unicode.Is(unicode.Co, c):
		return codePoint(c) + " PRIVATE USE", Unknown
	case unicode.Is(unicode.Noncharacter_Code_Point, c):
		return codePoint(c) + " NOT A CHARACTER", Unknown
	case !unicode.IsOneOf([]*unicode.RangeTable{unicode.L, unicode.M, unicode.N, unicode.P, unicode.S}, c):
		return codePoint(c) + " UNASSIGNED", Unknown
	}
	return "", Plain
}

var named = map[rune]struct {
	name string
	mark Mark
}{
	0x061C: {"ARABIC LETTER MARK", Direction},
	0x200E: {"LEFT-TO-RIGHT MARK", Direction},
	0x200F: {"RIGHT-TO-LEFT MARK", Direction},
	0x202A: {"LEFT-TO-RIGHT EMBEDDING", Direction},
	0x202B: {"RIGHT-TO-LEFT EMBEDDING", Direction},
	0x202C: {"POP DIRECTIONAL FORMATTING", Direction},
	0x202D: {"LEFT-TO-RIGHT OVERRIDE", Direction},
	0x202E: {"RIGHT-TO-LEFT OVERRIDE", Direction},
	0x2066: {"LEFT-TO-RIGHT ISOLATE", Direction},
	0x2067: {"RIGHT-TO-LEFT ISOLATE", Direction},
	0x2068: {"FIRST STRONG ISOLATE", Direction},
	0x2069: {"POP DIRECTIONAL ISOLATE", Direction},

	0x00AD: {"SOFT HYPHEN", Invisible},
	0x034F: {"COMBINING GRAPHEME JOINER", Invisible},
	0x115F: {"HANGUL CHOSEONG FILLER", Invisible},
	0x1160: {"HANGUL JUNGSEONG FILLER", Invisible},
	0x17B4: {"KHMER INHERENT VOWEL", Invisible},
	0x17B5: {"KHMER INHERENT VOWEL", Invisible},
	0x180E: {"MONGOLIAN VOWEL SEPARATOR", Invisible},
	0x200B: {"ZERO WIDTH SPACE", Invisible},
	0x200C: {"ZERO WIDTH NON-JOINER", Invisible},
	0x200D: {"ZERO WIDTH JOINER", Invisible},
	0x2060: {"WORD JOINER", Invisible},
	0x2061: {"FUNCTION APPLICATION", Invisible},
	0x2062: {"INVISIBLE TIMES", Invisible},
	0x2063: {"INVISIBLE SEPARATOR", Invisible},
	0x2064: {"INVISIBLE PLUS", Invisible},
	0x3164: {"HANGUL FILLER", Invisible},
	0xFEFF: {"ZERO WIDTH NO-BREAK SPACE", Invisible},
	0xFFA0: {"HALFWIDTH HANGUL FILLER", Invisible},
	0xFFFC: {"OBJECT REPLACEMENT CHARACTER", Invisible},

	0x0000: {"NULL", Control},
	0x0007: {"BELL", Control},
	0x0008: {"BACKSPACE", Control},
	0x000B: {"LINE TABULATION", Control},
	0x000C: {"FORM FEED", Control},
	0x000D: {"CARRIAGE RETURN", Control},
	0x007F: {"DELETE", Control},
	0x0085: {"NEXT LINE", Control},

	0x00A0: {"NO-BREAK SPACE", Blank},
	0x1680: {"OGHAM SPACE MARK", Blank},
	0x2028: {"LINE SEPARATOR", Blank},
	0x2029: {"PARAGRAPH SEPARATOR", Blank},
	0x202F: {"NARROW NO-BREAK SPACE", Blank},
	0x205F: {"MEDIUM MATHEMATICAL SPACE", Blank},
	0x2800: {"BRAILLE PATTERN BLANK", Blank},
	0x3000: {"IDEOGRAPHIC SPACE", Blank},

	0x01C3: {"looks like “!”", Lookalike},
	0x02D0: {"looks like “:”", Lookalike},
	0x037E: {"looks like “;”", Lookalike},
	0x0589: {"looks like “:”", Lookalike},
	0x05C3: {"looks like “:”", Lookalike},
	0x2010: {"looks like “-”", Lookalike},
	0x2011: {"looks like “-”", Lookalike},
	0x2012: {"looks like “-”", Lookalike},
	0x2024: {"looks like “.”", Lookalike},
	0x2044: {"looks like “/”", Lookalike},
	0x2212: {"looks like “-”", Lookalike},
	0x2215: {"looks like “/”", Lookalike},
	0x2216: {"looks like “\\”", Lookalike},
	0x2236: {"looks like “:”", Lookalike},
	0x29F8: {"looks like “/”", Lookalike},
	0x3002: {"a dot in host names", Lookalike},
	0xA789: {"looks like “:”", Lookalike},
	0xFF61: {"a dot in host names", Lookalike},
}
