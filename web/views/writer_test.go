package views

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFormsNameTheirWriter: every form that does something in a person's name says who
// was signed in when its page was made; one sent in another person's session is refused.
func TestFormsNameTheirWriter(t *testing.T) {
	exempt := []string{`"/login"`, `"/logout"`, `"/welcome"`, `"/policies#try"`, `templ.SafeURL(f.Action)`}
	files, err := filepath.Glob("*.templ")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	form := regexp.MustCompile(`(?s)<form[^\n]*method="post" action=(\{[^}]*\}|"[^"]*").*?</form>`)
	found := 0
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range form.FindAllSubmatch(source, -1) {
			found++
			action := strings.Trim(string(m[1]), "{ }")
			if slices.Contains(exempt, action) || strings.Contains(string(m[0]), "@writtenBy(") || strings.Contains(string(m[0]), "@draftNote(") {
				continue
			}
			t.Errorf("%s: the form to %s does not name its writer", name, action)
		}
	}
	if found < 40 {
		t.Errorf("only %d forms found", found)
	}
}
