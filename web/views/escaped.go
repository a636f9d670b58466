package views

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escaped is a text in printable ASCII, written as JSON writes the content of a
// string, with every character beyond ASCII as \uXXXX and with blanks that follow
// a blank as \u0020. A byte that is no UTF-8 is \xFF, which no JSON has.
func escaped(text string) string { return escape(text, `"\`) }

func escape(text, quoted string) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/2)
	last := byte(0)
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02X`, text[i])
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == ' ' && last == ' ', c < ' ', c == 0x7F:
			unit(&b, uint16(c)) //nolint:gosec // it is ASCII
		case c < utf8.RuneSelf:
			if strings.IndexByte(quoted, byte(c)) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(byte(c))
		default:
			for _, u := range utf16.Encode([]rune{c}) {
				unit(&b, u)
			}
		}
		last = text[i]
		i += size
	}
	return b.String()
}

func unit(b *strings.Builder, u uint16) {
	const hex = "0123456789abcdef"
	b.WriteString(`\u`)
	for shift := 12; shift >= 0; shift -= 4 {
		b.WriteByte(hex[u>>shift&15])
	}
}
