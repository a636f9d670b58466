package redact

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// folded is a text as the detectors see it: digits, letters, dashes and spaces
// that only look different are ASCII's, and characters without any width are
// gone. A number does not hide by being typed full-width.
type folded struct {
	text string
	// offsets[i] is where text[i] began in the original; nil when nothing moved.
	offsets []int
}

// original turns offsets of the folded text into the original's.
func (f folded) original(start, end int) (int, int) {
	if f.offsets == nil {
		return start, end
	}
	return f.offsets[start], f.offsets[end]
}

func fold(text string) folded {
	first := strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf && foldRune(r) != r })
	if first < 0 {
		return folded{text: text}
	}
	out := make([]byte, 0, len(text))
	offsets := make([]int, 0, len(text)+1)
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch to := foldRune(r); {
		case to < 0:
		case r == utf8.RuneError && size == 1, to == r:
			for n := range size {
				out, offsets = append(out, text[i+n]), append(offsets, i+n)
			}
		default:
			out, offsets = append(out, byte(to)), append(offsets, i)
		}
		i += size
	}
	return folded{string(out), append(offsets, len(text))}
}

// foldRune is the ASCII character that r stands for, r itself when it stands
// for none, and -1 when it cannot be seen.
func foldRune(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		return r
	case r >= '！' && r <= '～':
		return r - '！' + '!'
	case r == '\u00ad', r >= '\u200b' && r <= '\u200f', r >= '\u2060' && r <= '\u2064', r == '\ufeff', r >= 0xFE00 && r <= 0xFE0F:
		return -1
	case r < 0x600 && r != '\u00a0':
		return r // the scripts of Europe have digits, dashes and spaces only outside
	case unicode.Is(unicode.Nd, r):
		// The digits of a script are ten in a row, from 0.
		zero := r
		for n := 0; n < 9 && unicode.Is(unicode.Nd, zero-1); n++ {
			zero--
		}
		return '0' + (r-zero)%10
	case unicode.Is(unicode.Pd, r), r == '\u2212':
		return '-'
	case unicode.Is(unicode.Zs, r):
		return ' '
	}
	return r
}
