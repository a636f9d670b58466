package main

import (
	"strings"
	"testing"
)

func TestTerminalIsSafeFromTexts(t *testing.T) {
	var out strings.Builder
	text := "a\x1b[31mred\x07\r\u202e\u009bé\xff\n\tß"
	n, err := maskingWriter{&out}.Write([]byte(text))
	if want := `a\x1b[31mred\x07\x0d\u202e\u009bé\xff` + "\n\tß"; err != nil || n != len(text) || out.String() != want {
		t.Errorf("got %q, %d, %v", out.String(), n, err)
	}
}
