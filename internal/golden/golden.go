// Package golden compares what tests make with files that somebody has looked at. It is for
// tests only: with "go test -update" it writes the files anew.
package golden

import (
	"flag"
	"os"
	"testing"
)

// Update is set where the files are to be written anew.
var Update = flag.Bool("update", false, "write the golden files anew")

// Equal fails the test unless the file holds got.
func Equal[T ~string | ~[]byte](t testing.TB, path string, got T) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) // #nosec G304 -- the test names the file
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is another one now: look at the difference, then use -update\ngot\n%s\nwant\n%s", path, got, want)
	}
}
