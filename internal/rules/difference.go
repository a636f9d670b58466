package rules

import (
	"fmt"

	"github.com/aymanbagabas/go-udiff"
)

// difference is the unified diff of two texts, "" where they are the same. The library does not
// count the lines between two edits of one hunk, so the hunks after it would begin elsewhere
// than they say.
func difference(fromName, toName, from, to string) (string, error) {
	d, err := udiff.ToUnifiedDiff(fromName, toName, from, udiff.Lines(from, to), udiff.DefaultContextLines)
	if err != nil {
		return "", fmt.Errorf("difference of two texts: %w", err)
	}
	shift := 0 // by how many lines the new text is longer so far
	for _, h := range d.Hunks {
		h.ToLine = h.FromLine + shift
		for _, l := range h.Lines {
			switch l.Kind {
			case udiff.Insert:
				shift++
			case udiff.Delete:
				shift--
			case udiff.Equal:
			}
		}
	}
	return d.String(), nil
}
