package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// lower is JavaScript's toLowerCase: Unicode's full mapping, in which İ becomes
// two characters and a capital sigma at the end of a word a final one.
func lower(s string) string {
	if strings.Contains(s, "İ") {
		s = strings.ReplaceAll(s, "İ", "i̇")
	}
	if !strings.Contains(s, "Σ") {
		return strings.ToLower(s)
	}
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch {
		case r == 'Σ' && endsWord(s, i):
			b.WriteRune('ς')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// endsWord reports whether the sigma at i has a letter before it and none
// behind (Unicode, section 3.13, Final_Sigma). What is ignored in between is
// looked at for a bounded way only, or a text of apostrophes and sigmas would
// cost quadratic time.
func endsWord(s string, i int) bool {
	const limit = 64
	for n, at := 0, i; ; n++ {
		r, size := utf8.DecodeLastRuneInString(s[:at])
		if at -= size; size == 0 || n == limit {
			return false
		}
		if !caseIgnorable(r) {
			if !cased(r) {
				return false
			}
			break
		}
	}
	for n, r := range s[i+len("Σ"):] {
		if n >= limit || !caseIgnorable(r) {
			return !cased(r)
		}
	}
	return true
}

func cased(r rune) bool {
	return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) || unicode.Is(unicode.Other_Lowercase, r) || unicode.Is(unicode.Other_Uppercase, r)
}

func caseIgnorable(r rune) bool {
	switch r {
	case '\'', '.', ':', 0xB7, 0x387, 0x55F, 0x5F4, 0x2018, 0x2019, 0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A:
		return true
	}
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}
