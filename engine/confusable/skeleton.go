package confusable

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"holdpoint/engine/canon"
)

// prototype says that a character is drawn like a text.
type prototype struct {
	of rune
	is string
}

// Skeleton is what a text is drawn like: two texts that look the same have one
// skeleton (UTS #39, section 4). It is for comparing, not for showing: "paypal"
// and "modern" have other skeletons than themselves. Bytes that are no UTF-8 are
// U+FFFD.
func Skeleton(text string) string {
	if asItself(text) {
		return text // as most names are
	}
	var b strings.Builder
	b.Grow(len(text) + len(text)/2)
	// norm takes nothing apart right after a byte that is no UTF-8.
	for _, c := range norm.NFD.String(strings.ToValidUTF8(text, "\uFFFD")) {
		if ignorable(c) {
			continue
		}
		if is, ok := prototypeOf(c); ok {
			b.WriteString(is)
		} else {
			b.WriteRune(c)
		}
	}
	return norm.NFD.String(b.String())
}

// others are the characters of ASCII that are drawn like something else.
var others = func() (c [utf8.RuneSelf]bool) {
	for i := 0; prototypes[i].of < utf8.RuneSelf; i++ {
		c[prototypes[i].of] = true
	}
	return c
}()

// asItself reports whether a text has nothing but ASCII in it that is drawn like nothing else.
func asItself(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf || others[c] {
			return false
		}
	}
	return true
}

// Twin is the ASCII text that a character beyond ASCII is drawn like; "" when it
// is drawn like none.
func Twin(c rune) string {
	if c < utf8.RuneSelf {
		return ""
	}
	is, _ := prototypeOf(c)
	if !canon.IsASCII(is) {
		return ""
	}
	return is
}

func prototypeOf(c rune) (string, bool) {
	if c >= 0 && c < utf8.RuneSelf && !others[c] {
		return "", false
	}
	i, found := slices.BinarySearchFunc(prototypes[:], c, func(p prototype, c rune) int { return cmp.Compare(p.of, c) })
	if !found {
		return "", false
	}
	return prototypes[i].is, true
}

// ignorable reports whether a character is Default_Ignorable_Code_Point: nothing is
// drawn for it.
func ignorable(c rune) bool {
	switch {
	case c < 0xAD:
		return false
	case c >= 0xE0000 && c <= 0xE0FFF:
		return true
	case c >= 0xFFF9 && c <= 0xFFFB, c >= 0x13430 && c <= 0x13440:
		return false
	case unicode.In(c, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return true
	}
	return unicode.Is(unicode.Cf, c) && !unicode.Is(unicode.Prepended_Concatenation_Mark, c)
}
