package rules

import (
	"fmt"
	"strings"
	"testing"
)

// TestDifference: the head of each hunk says where it begins, also after two edits that share one.
func TestDifference(t *testing.T) {
	var lines []string
	for i := range 60 {
		lines = append(lines, fmt.Sprintf("line %d", i+1))
	}
	from := strings.Join(lines, "\n") + "\n"
	lines[9], lines[13], lines[39] = "ten", "fourteen\nand more", "forty"
	got, err := difference("from", "to", from, strings.Join(lines, "\n")+"\n")
	if err != nil {
		t.Fatal(err)
	}
	var heads []string
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "@@") {
			heads = append(heads, strings.TrimSpace(line))
		}
	}
	if got, want := strings.Join(heads, " "), "@@ -7,11 +7,12 @@ @@ -37,7 +38,7 @@"; got != want {
		t.Errorf("the hunks begin with %s, want %s", got, want)
	}
	if got, err := difference("from", "to", from, from); got != "" || err != nil {
		t.Errorf("of the same text: %q, %v", got, err)
	}
}
