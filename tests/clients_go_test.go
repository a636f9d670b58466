package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// goClient is the module of the Go client. No file of the client but go.mod has its name.
const goClient = "holdpoint.example/client"

// TestGoClientModule runs the client's own tests, which "go test ./..." passes over: it is
// a module of its own.
func TestGoClientModule(t *testing.T) {
	t.Parallel()
	runClientTests(t, "..", "go", "test", goClient)
}

// buildOutside builds a program of clients/go/testdata in a module outside of the
// repository, against a copy of the client that cannot see the repository either.
func buildOutside(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	copied, own := filepath.Join(dir, "client"), filepath.Join(dir, "own")
	copyFiles(t, "../clients/go", copied, "*.go", "go.mod")
	copyFiles(t, "../clients/go/testdata/"+name, own, "*.go")
	for _, args := range [][]string{
		{"mod", "init", "example.com/own"},
		{"mod", "edit", "-require=" + goClient + "@v0.0.0", "-replace=" + goClient + "=../client"},
		{"mod", "tidy"},
		{"vet", "./..."},
		{"build", "-o", filepath.Join(dir, "run"), "."},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = own, append(environment(), "GOPROXY=off", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return filepath.Join(dir, "run")
}

func copyFiles(t *testing.T, from, to string, patterns ...string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s in %s: %v", pattern, from, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(filepath.Join(to, filepath.Base(file)), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestGoClientCanBeRenamed: its own name stands in one line of it, and it requires nothing.
func TestGoClientCanBeRenamed(t *testing.T) {
	mod, err := os.ReadFile("../clients/go/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^module `+regexp.QuoteMeta(goClient)+`$`).Match(mod) || regexp.MustCompile(`(?m)^(require|replace)`).Match(mod) {
		t.Errorf("clients/go/go.mod:\n%s", mod)
	}
	files, err := filepath.Glob("../clients/go/*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(regexp.QuoteMeta(goClient)).Match(data) {
			t.Errorf("%s has the module's name", file)
		}
	}
}
