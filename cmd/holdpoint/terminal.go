package main

import (
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf8"
)

// Everything that holds words of others — names, reasons, file names, what a
// policy says — goes to a terminal through these: what would move the cursor,
// colour or hide anything is shown as an escape.
var (
	terminal      io.Writer = maskingWriter{os.Stdout}
	terminalError io.Writer = maskingWriter{os.Stderr}
)

type maskingWriter struct{ to io.Writer }

// Write writes text; of a character only the whole.
func (c maskingWriter) Write(text []byte) (int, error) {
	out := make([]byte, 0, len(text)+16)
	for rest := text; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, `\x%02x`, rest[0])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			out = append(out, rest[:n]...)
		case r < 0x80:
			out = fmt.Appendf(out, `\x%02x`, r)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		rest = rest[n:]
	}
	if _, err := c.to.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}
