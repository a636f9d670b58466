package views

import "strings"

// Text lays out a text for reading, line by line as an editor counts them, with
// everything in it revealed. No line is dropped, and none is taken for markup.
func Text(text string) Code {
	var c Code
	lines := strings.Split(text, "\n")
	if n := len(lines); n > 1 && lines[n-1] == "" {
		lines = lines[:n-1] // what ends with a line break has no line after it
	}
	for _, line := range lines {
		spans := Reveal(line)
		if len(spans) == 0 {
			spans = []Span{{}}
		}
		c.Lines = append(c.Lines, Line{Parts: []Part{{Class: textPart, Spans: spans}}})
	}
	return c
}

// textPart is the class of plain text.
const textPart = "t"
