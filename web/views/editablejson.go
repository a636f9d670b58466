package views

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"holdpoint/engine/canon"
)

// EditableJSON is a JSON document laid out to be changed by hand. What the card would mark is
// written in JSON's own escapes: it is the same document, of the same digest, and nothing in
// it is hidden or stands in another order than it is in.
func EditableJSON(canonical []byte) string {
	var laidOut bytes.Buffer
	if err := json.Indent(&laidOut, canonical, "", "  "); err != nil {
		laidOut.Reset()
		laidOut.Write(canonical)
	}
	return EscapedJSON(laidOut.String())
}

// Quoted is a text as JSON has it, where a field would not show it as it is: something of it
// would be invisible, or change the order of the rest. needed says whether that is so.
func Quoted(text string) (quoted string, needed bool) {
	plain := string(canon.String(text).Canonical())
	quoted = EscapedJSON(plain)
	return quoted, quoted != plain
}

// EscapedJSON is JSON in which what the card would mark is written in escapes. It is the same
// document.
func EscapedJSON(text string) string {
	left := len(text) // all are spelt out
	var b strings.Builder
	for _, s := range markWithin(text, &left) {
		if s.Mark == Plain || s.Mark == RightToLeft {
			b.WriteString(s.Raw)
			continue
		}
		for _, c := range s.Raw {
			switch {
			case c < 0x7F: // JSON has escapes of its own for those that matter
				b.WriteRune(c)
			case c > 0xFFFF:
				high, low := utf16.EncodeRune(c)
				fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
			default:
				fmt.Fprintf(&b, `\u%04x`, c)
			}
		}
	}
	return b.String()
}
