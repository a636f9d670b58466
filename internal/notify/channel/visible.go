package channel

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine/confusable"
)

// visible is text on one line in which nothing hides or passes for something
// else. What the console shows as a labelled chip (web/views.MarkDeceptive), this shows
// by its code point: ‹U+202E›, ‹40 × U+200B›. A byte that is no UTF-8 is ‹0xFF›.
// The two signs themselves are shown like that, too, so that nobody can write a
// mark. And no address is left whole, for mail programs make links of what looks
// like one: https:‹//›example.com.
//
// At most limit characters of the text are shown; the rest is counted.
func visible(text string, limit int) string {
	shown, rest := text, ""
	for i, n := 0, 0; i < len(text); n++ {
		if n == limit {
			shown, rest = text[:i], text[i:]
			break
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		i += size
	}
	var b strings.Builder
	passing := lookalikes(shown)
	stacked := 0 // combining marks on the last base
	based := false
	for i := 0; i < len(shown); {
		c, size := utf8.DecodeRuneInString(shown[i:])
		raw := shown[i : i+size]
		n := 1
		for strings.HasPrefix(shown[i+n*size:], raw) {
			n++
		}
		name := fmt.Sprintf("U+%04X", c)
		mark := deceptive(c) || passing[i]
		switch {
		case c == utf8.RuneError && size == 1:
			name, mark = fmt.Sprintf("0x%02X", raw[0]), true
		case c == ' ':
			// Blanks at an end are not seen, and many push what follows aside.
			mark = n > 3 || i == 0 || i+n == len(text)
		case strings.HasPrefix(shown[i:], "://"):
			b.WriteString(":‹//›")
			i += 3
			stacked, based = 0, false
			continue
		case len(shown) >= i+4 && strings.EqualFold(shown[i:i+4], "xn--") && !mark:
			b.WriteString("‹" + shown[i:i+4] + "›")
			i += 4
			stacked, based = 0, false
			continue
		case unicode.Is(unicode.M, c) && !mark:
			stacked++
			mark = !based || stacked > maxStacked
		default:
			stacked = 0
		}
		switch {
		case mark && n > 1:
			fmt.Fprintf(&b, "‹%s × %s›", thousands(n), name)
			i += n * size
			based = false
		case mark:
			b.WriteString("‹" + name + "›")
			i += size
			based = false
		default:
			b.WriteString(raw)
			i += size
			based = c != ' '
		}
	}
	if rest != "" {
		b.WriteString(" … " + count(utf8.RuneCountInString(rest), "more character"))
	}
	return b.String()
}

// maxStacked is how many combining marks one base may have.
const maxStacked = 4

// deceptive says whether a character taken by itself is invisible, moves others
// about, or passes for another one.
func deceptive(c rune) bool {
	if c >= ' ' && c < 0x7F {
		return false
	}
	switch {
	case strings.ContainsRune("‹›", c), strings.ContainsRune(passers, c):
		return true
	case c == 0xFFFC, c == 0x2800: // symbols for Unicode, and blank
		return true
	case c >= 0xE0000 && c <= 0xE0FFF, c >= 0xFF01 && c <= 0xFF5E:
		return true
	case c >= 0x1D400 && c <= 0x1D7FF:
		return true
	case unicode.In(c, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point):
		return true
	}
	// Controls, formats, separators, private use, surrogates, and what is not assigned.
	return !unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S)
}

// passers are signs that are drawn like one of ASCII.
const passers = "\u01C3\u02D0\u037E\u0589\u05C3\u2010\u2011\u2012\u2024\u2044\u2212\u2215\u2216\u2236\u29F8\u3002\uA789\uFF61"

// lookalikes finds the offsets of the characters that pass for others.
func lookalikes(text string) map[int]bool {
	found := map[int]bool{}
	for _, r := range confusable.Lookalikes(text) {
		for i := range text[r.From:r.To] {
			found[r.From+i] = true
		}
	}
	return found
}
