package stakes

import (
	"slices"
	"strings"
	"testing"

	"holdpoint/engine/canon"
)

// A line of a hunk is no file's name, a file's name is never left out in silence, and what
// is no patch is said to be none.
func TestPatches(t *testing.T) {
	for name, tc := range map[string]struct{ patch, want string }{
		"one file":             {"--- a/x.go\n+++ b/x.go\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "“x.go”, 1 line added, 1 removed"},
		"with times":           {"--- x.go\t2026-01-01\n+++ x.go\t2026-01-02\n@@ -1 +1 @@\n-b\n+c", "“x.go”, 1 line added, 1 removed"},
		"names in a hunk":      {"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/y\n-z\n+++ b/y\n+z\n", "“x”, 2 lines added, 2 removed"},
		"added and deleted":    {"--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-o\n\\ No newline at end of file\n", "add “new”, delete “old”, 1 line added, 1 removed"},
		"renamed by Git":       {"diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "rename “x” to “y”, 1 line added, 1 removed"},
		"another name":         {"--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "move “x” to “y”, 1 line added, 1 removed"},
		"a hunk without end":   {"--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n", "“x”, 0 lines added, 0 removed [not all of it could be read as a patch]"},
		"a file of bytes":      {"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/k b/k\nindex 1..2 100644\nGIT binary patch\n", "“x”, 1 line added, 1 removed [not all of it could be read as a patch]"},
		"only its mode":        {"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/k b/k\nold mode 100644\nnew mode 100755\n", "“x”, 1 line added, 1 removed [not all of it could be read as a patch]"},
		"many files":           {"*** Begin Patch\n" + strings.Repeat("*** Add File: x\n+a\n", 2) + "*** Add File: 1\n*** Add File: 2\n*** Add File: 3\n*** Add File: 4\n", "add “x”, add “1”, add “2”, add “3” [1 more file], 2 lines added, 0 removed"},
		"moved":                {"*** Begin Patch\n*** Update File: x\n*** Move to: y\n@@\n a\n-b\n+c\n*** End of File\n*** End Patch\n", "move “x” to “y”, 1 line added, 1 removed"},
		"what no patch says":   {"*** Begin Patch\n*** Update File: x\n@@\n-b\n+c\n*** Overwrite File: z\n*** End Patch\n", "“x”, 1 line added, 1 removed [not all of it could be read as a patch]"},
		"a diff behind a head": {"*** Add File: harmless\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "“x”, 1 line added, 1 removed [not all of it could be read as a patch]"},
		"a diff in a patch":    {"*** Begin Patch\n*** Add File: harmless\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n*** End Patch", "add “harmless”, 2 lines added, 2 removed [not all of it could be read as a patch]"},
		"a comment taken out":  {"*** Begin Patch\n*** Update File: x.sql\n--- old\n+SELECT 1\n*** End Patch", "“x.sql”, 1 line added, 1 removed"},
		"no patch":             {"hello", "[p is no patch that names a file]"},
		"nothing but a header": {"@@ -1 +1 @@\n-a\n+b\n", "[p is no patch that names a file]"},
	} {
		args := parsed(t, `{"p":`+string(canon.String(tc.patch).Canonical())+`}`)
		if got := writer.Write("t", args, "{p|patch}").String(); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
}

// TestPatchHeadsWithBlanks: Codex takes a head with blanks around it, so what it deletes by one is
// named, and such a patch is never said to be read as a whole.
func TestPatchHeadsWithBlanks(t *testing.T) {
	for _, text := range []string{
		"*** Begin Patch\n*** Add File: a.txt\n+hello\n *** Delete File: important.go\n*** End Patch\n",
		"*** Begin Patch\n*** Add File: a.txt\n+hello\n\t*** Delete File: important.go\n*** End Patch\n",
		"*** Begin Patch\n*** Add File: a.txt\n+hello\n\u00a0*** Delete File: important.go\n*** End Patch\n",
		"*** Begin Patch\n*** Delete File: a.txt\n *** Delete File: important.go  \n*** End Patch\n",
		"*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+y\n*** End of File\n *** Delete File: important.go\n*** End Patch\n",
		"<<'EOF'\n*** Begin Patch\n*** Delete File: important.go\n*** End Patch\nEOF\n",
	} {
		if p := readPatch(text); !p.odd || !p.deletes || !slices.Contains(p.files, patchFile{"delete ", "important.go"}) {
			t.Errorf("%q: %+v", text, p)
		}
	}
	for text, odd := range map[string]bool{
		"\n  *** Begin Patch\n*** Delete File: important.go\n*** End Patch\n":                    false,
		"*** Begin Patch\n*** Update File: a.txt\n@@ f\n *** a comment\n-x\n+y\n*** End Patch\n": true, // a line of the file, or a head: who knows
		"*** Begin Patch\n*** Update File: a.txt\n@@ f\n  a line\n-x\n+y\n*** End Patch\n":       false,
		"*** Begin Patch\n*** Add File: a.txt\n+x\ny\n*** End Patch\n":                           true,
		"*** Begin Patch\n*** Delete File: a.txt\n x\n*** End Patch\n":                           true,
	} {
		if p := readPatch(text); p.odd != odd {
			t.Errorf("%q: odd is %t", text, p.odd)
		}
	}
}
