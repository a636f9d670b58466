package source

import "strings"

// Nearest is the name that text was probably meant to be, or "": it has at most two other letters.
func Nearest(text string, names []string) string {
	const farthest = 2
	best, found := farthest+1, ""
	if len(text) > 40 {
		return ""
	}
	folded := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(text))
	for _, name := range names {
		if d := distance(folded, name); d < best {
			best, found = d, name
		}
	}
	return found
}

// distance is the number of letters to insert, remove or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
