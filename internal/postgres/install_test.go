package postgres

import (
	"archive/zip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fake makes a directory with programs that say they are of the given version.
func fake(t *testing.T, version string) string {
	t.Helper()
	bin := t.TempDir()
	for _, name := range []string{"postgres", "initdb"} {
		script := "#!/bin/sh\necho '" + name + " (PostgreSQL) " + version + "'\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

func TestFind(t *testing.T) {
	old, v16, v17 := fake(t, "9.6.24"), fake(t, "16.9 (Debian 16.9-1)"), fake(t, "17beta2")
	half := fake(t, "18.1")
	if err := os.Remove(filepath.Join(half, "initdb")); err != nil {
		t.Fatal(err)
	}
	places := []string{filepath.Join(old, "missing"), half, old, v17, v16}
	for _, test := range []struct {
		major  int
		want   string
		others int
	}{
		{0, v17, 0},
		{16, v16, 0},
		{17, v17, 0},
		{15, "", 3},
	} {
		got, others := find(t.Context(), places, test.major)
		if got.bin != test.want || len(others) != test.others {
			t.Errorf("find version %d: got %q and passed over %q, want %q", test.major, got.bin, others, test.want)
		}
	}
}

// repository serves testdata/programs.txz, which holds three shell scripts, the way the public one serves Postgres.
func repository(t *testing.T) *httptest.Server {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir()) // the library leaves its log there
	archive, err := os.ReadFile("testdata/programs.txz")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") || !strings.Contains(r.URL.Path, "/17.") {
			http.NotFound(w, r)
			return
		}
		z := zip.NewWriter(w)
		f, err := z.Create("postgres.txz")
		if err == nil {
			_, err = f.Write(archive)
		}
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestFetch(t *testing.T) {
	dir := directory(t.TempDir())
	inst, err := fetch(t.Context(), dir, 17, repository(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	if inst.major != 17 {
		t.Errorf("fetched version %d, want 17", inst.major)
	}
	if got, _ := find(t.Context(), fetchedPlaces(dir), 0); got != inst {
		t.Errorf("the next start finds %v, want %v", got, inst)
	}
	if left, _ := filepath.Glob(filepath.Join(string(dir), "fetch-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestFetchFails(t *testing.T) {
	dir := directory(t.TempDir())
	for _, major := range []int{3, 16} { // not offered at all; not on this server
		if inst, err := fetch(t.Context(), dir, major, repository(t).URL); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("version %d: got %v, %v, want one line", major, inst, err)
		}
	}
	if left, _ := os.ReadDir(string(dir)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestNothingInstalled(t *testing.T) {
	dir := directory(t.TempDir())
	// A cluster of a version that is nowhere, and that cannot be fetched.
	_, err := locate(t.Context(), dir, 3, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "install Postgres 3") {
		t.Errorf("got %v, want advice", err)
	}
	for _, major := range []int{0, 15} {
		if line := fmt.Sprint(wanted(major), advice(major)); strings.Contains(line, "\n") {
			t.Errorf("more than one line: %q", line)
		}
	}
}
