package canon

import (
	"math/rand/v2"
	"testing"
)

// Eight bytes at a time find what one at a time does: for every byte, in every place, and
// whatever stands around it.
func TestPlainRun(t *testing.T) {
	slowly := func(s string, from int) int {
		for from < len(s) && charClasses[s[from]] == plain {
			from++
		}
		return from
	}
	check := func(s string, from int) {
		t.Helper()
		if got, want := plainRun(s, from), slowly(s, from); got != want {
			t.Fatalf("plainRun(%q, %d) = %d, want %d", s, from, got, want)
		}
	}
	for length := range 20 {
		text := make([]byte, length)
		for at := range length {
			for c := range 256 {
				for i := range text {
					text[i] = "a ~\x7f!#[]"[(i+c)%8]
				}
				text[at] = byte(c)
				for from := range min(3, length) {
					check(string(text), from)
				}
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- a test that is the same each time
	for range 100_000 {
		text := make([]byte, random.IntN(40))
		for i := range text {
			if text[i] = byte(random.IntN(256)); random.IntN(4) > 0 {
				text[i] = byte(' ' + random.IntN(95))
			}
		}
		check(string(text), random.IntN(len(text)+1))
	}
}
