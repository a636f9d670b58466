package views

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A component behind words on the same line of a template is no component: people would read its name.
func TestComponentsAreNoText(t *testing.T) {
	files, err := filepath.Glob("*.templ")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	text := regexp.MustCompile(`[\pL\d,;:.!?’”] @\w+\(`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(data), "\n") {
			if found := text.FindString(line); found != "" {
				t.Errorf("%s:%d: %q is shown as it stands", file, n+1, found)
			}
		}
	}
}
