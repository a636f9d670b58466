package views

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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
}

// Thresholds from which whitespace is counted instead of shown.
const (
	maxBreaks = 3  // line breaks in one run of whitespace
	maxGap    = 15 // blanks between two words of a line
	maxIndent = 60 // blanks at the start of a line
	maxStack  = 4  // combining marks on one base
)

// MarkDeceptive splits text into spans such that nothing in it can hide or pass for
// something else: what is invisible, reorders, or looks like another character
// is shown by name. Line breaks and tabs are Plain; it is for the caller to
// show them. No rune of the text is dropped.
func MarkDeceptive(text string) []Span {
	var r marker
	for r.rest = text; r.rest != ""; {
		r.step()
	}
	r.flush()
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
	rest  string
	plain strings.Builder // text that no mark has claimed yet
	marks int             // combining marks in a row at the end of plain
	spans []Span
}

func (r *marker) step() {
	if r.blanks() {
		return
	}
	c, size := utf8.DecodeRuneInString(r.rest)
	raw := r.rest[:size]
	if c == utf8.RuneError && size == 1 {
		r.mark(raw, fmt.Sprintf("BYTE 0x%02X", raw[0]), Unknown, size)
		return
	}
	if tagChar(c) {
		r.tags()
		return
	}
	if label, kind := classify(c, r.rest[size:]); kind != Plain {
		if kind == Lookalike {
			r.visible(raw, label, size)
			return
		}
		r.mark(raw, label, kind, size)
		return
	}
	if unicode.Is(unicode.M, c) {
		if r.plain.Len() == 0 || r.marks >= maxStack {
			r.mark(raw, codePoint(c)+" COMBINING MARK", Stack, size)
			return
		}
		r.marks++
	} else {
		r.marks = 0
	}
	r.plain.WriteString(raw)
	r.rest = r.rest[size:]
}

// mark adds a label for the raw text at the start of rest, and takes all
// immediate repetitions of it along.
func (r *marker) mark(raw, label string, kind Mark, size int) {
	r.flush()
	n := 1
	for strings.HasPrefix(r.rest[n*size:], raw) {
		n++
	}
	shown := "[" + label + "]"
	if n > 1 {
		shown = fmt.Sprintf("[%s × %s]", Thousands(n), label)
	}
	r.spans = append(r.spans, Span{Raw: r.rest[:n*size], Shown: shown, Mark: kind, Count: n})
	r.rest = r.rest[n*size:]
}

// visible adds a character that shows itself and has its label after it.
func (r *marker) visible(raw, label string, size int) {
	r.flush()
	r.spans = append(r.spans, Span{Raw: raw, Shown: raw + "[" + label + "]", Mark: Lookalike, Count: 1})
	r.rest = r.rest[size:]
}

// tags shows a run of tag characters with the ASCII that they spell.
func (r *marker) tags() {
	r.flush()
	var spelled strings.Builder
	n, end := 0, len(r.rest)
	for i, c := range r.rest {
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
	r.spans = append(r.spans, Span{
		Raw: r.rest[:end], Mark: Tag, Count: n,
		Shown: fmt.Sprintf("[%s %s U+E00xx, SPELLING “%s”]", Thousands(n), what, spelled.String()),
	})
	r.rest = r.rest[end:]
}

// blanks takes a run of ordinary whitespace, if one is next, and reports so.
func (r *marker) blanks() bool {
	end := len(r.rest) - len(strings.TrimLeft(r.rest, " \t\n"))
	if end == 0 {
		return false
	}
	run := r.rest[:end]
	breaks := strings.Count(run, "\n")
	tail := len(run) - 1 - strings.LastIndex(run, "\n")
	atStart := breaks > 0 || len(r.spans) == 0 && r.plain.Len() == 0
	if breaks > maxBreaks || !atStart && tail > maxGap || atStart && tail > maxIndent {
		r.flush()
		r.spans = append(r.spans, Span{Raw: run, Shown: "[" + blankLabel(run) + "]", Mark: Run, Count: 1})
	} else {
		r.plain.WriteString(run)
		r.marks = maxStack // a mark must not sit on a blank
	}
	r.rest = r.rest[end:]
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

// flush turns the collected plain text into spans, word by word.
func (r *marker) flush() {
	if r.plain.Len() > 0 {
		r.spans = append(r.spans, words(r.plain.String())...)
		r.plain.Reset()
	}
	r.marks = 0
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
