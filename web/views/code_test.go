package views_test

import (
	"strings"
	"testing"

	"holdpoint/web/views"
)

// TestText: the lines of a text are those of an editor, all of them, and nothing
// in them is hidden.
func TestText(t *testing.T) {
	for text, want := range map[string]int{
		"": 1, "a": 1, "a\n": 1, "a\nb": 2, "a\n\n\n\n\n\nb\n": 7, "\n": 1, "\r\n\u200b\n": 2, "# Title\n<b>\n": 2,
	} {
		c := views.Text(text)
		var raw []string
		for _, line := range c.Lines {
			var b strings.Builder
			for _, part := range line.Parts {
				for _, s := range part.Spans {
					b.WriteString(s.Raw)
				}
			}
			raw = append(raw, b.String())
		}
		if len(raw) != want || strings.Join(raw, "\n") != strings.TrimSuffix(text, "\n") {
			t.Errorf("Text(%q) has the lines %q", text, raw)
		}
		// A preview that is long enough leaves nothing out, blank lines included.
		if _, lines, runes := c.Preview(100, 1000); lines != 0 || runes != 0 {
			t.Errorf("Text(%q): the preview leaves out %d lines, %d characters", text, lines, runes)
		}
	}
	if got := views.Text("a\u200bb").Lines[0].Parts[0].Spans[1].Mark; got != views.Invisible {
		t.Errorf("an invisible character is marked %d", got)
	}
}
