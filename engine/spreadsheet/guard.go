package spreadsheet

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxCell is how many characters the tightest spreadsheet keeps in one cell.
	// What a program does with the rest is its own affair, so the rest must be
	// harmless wherever it begins.
	maxCell = 32767
	// maxStack is how many combining marks one character may carry.
	maxStack = 4
)

// Guard is the text as a cell that no spreadsheet computes and in which nothing
// hides: see the package comment. Most texts are themselves.
func Guard(text string) string {
	cell := guard(text, false)
	if len(cell) > maxCell {
		cell = guard(text, true)
	}
	return cell
}

// guard replaces what has to be replaced; with everywhere set, triggers that
// begin nothing are, too.
func guard(text string, everywhere bool) string {
	var b []byte
	copied := 0   // what of text is in b already
	start := true // whether a trigger here could begin a cell
	marks := maxStack
	for i := 0; i < len(text); {
		c, size := rune(text[i]), 1
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' {
			start, marks = false, 0 // most of all texts
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRuneInString(text[i:])
		}
		mark := c >= 0x300 && unicode.Is(unicode.M, c)
		replace, next := true, true
		switch {
		case c == utf8.RuneError && size == 1, hidden(c):
		case c == '[' && (strings.HasPrefix(text[i:], charLabel) || strings.HasPrefix(text[i:], byteLabel)):
			next = false
		case trigger(c):
			replace, next = start || everywhere, separates(c)
		default:
			replace = mark && marks >= maxStack
			next = separates(c) || start && (c == ' ' || quotes(c))
		}
		start = next
		switch {
		case replace:
			b = append(b, text[copied:i]...)
			if c == utf8.RuneError && size == 1 {
				b = fmt.Appendf(b, "%s%02X]", byteLabel, text[i])
			} else {
				b = fmt.Appendf(b, "%s%04X]", charLabel, c)
			}
			copied = i + size
			marks = maxStack // a mark must not sit on a label
		case c == ' ':
			marks = maxStack // nor on a blank
		case mark:
			marks++
		default:
			marks = 0
		}
		i += size
	}
	if copied == 0 {
		return text
	}
	return string(append(b, text[copied:]...))
}

// Labels begin with these. A text's own "[" before the same letters is labelled
// itself, so that whatever looks like a label is one.
const (
	charLabel = "[U+"
	byteLabel = "[BYTE "
)

// trigger reports whether a cell that begins with c may be taken for a formula
// or a command: the ASCII signs, and what passes for them.
func trigger(c rune) bool {
	switch c {
	case '=', '+', '-', '@', '|', '%':
		return true
	case 0xFF1D, 0xFF0B, 0xFF0D, 0xFF20, 0xFF5C, 0xFF05: // full-width
		return true
	case 0xFE66, 0xFE62, 0xFE63, 0xFE6B, 0xFE6A, 0xFE58: // small
		return true
	case 0x207A, 0x207B, 0x207C, 0x208A, 0x208B, 0x208C: // raised and lowered
		return true
	case 0x2212, 0x2795, 0x2796, 0x30A0, 0xA78A, 0x02D7, 0x2043, 0x2223: // look like them
		return true
	}
	return c >= 0x2010 && c <= 0x2015 // hyphens and dashes
}

// separates reports whether some spreadsheet, set up for some country, begins a
// new cell after c. Tabs and line breaks do, too, but never get that far.
func separates(c rune) bool {
	switch c {
	case ',', ';', '|', 0xFF0C, 0xFF1B, 0xFF5C:
		return true
	}
	return false
}

// quotes reports whether c may be stripped from the beginning of a cell.
func quotes(c rune) bool {
	switch c {
	case '"', '\'', '`', 0xB4, 0xFF02, 0xFF07, 0xFF40, 0x2032, 0x2033:
		return true
	}
	return c >= 0x80 && unicode.In(c, unicode.Pi, unicode.Pf) || c == 0x201A || c == 0x201E
}

// hidden reports whether c cannot be seen, reorders what can, breaks the line,
// or is no character.
func hidden(c rune) bool {
	if c < utf8.RuneSelf {
		return c < ' ' || c == 0x7F
	}
	switch c {
	case 0x2800, 0xFFFC: // a blank, and a place for something that is not there
		return true
	}
	return !unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) ||
		unicode.In(c, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
