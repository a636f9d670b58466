//go:build !nodev

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// A directory of a version without second factors gets the person who has one,
// once, and keeps everything else.
func TestOldDirectoryGetsTheNewPerson(t *testing.T) {
	dir := t.TempDir()
	first, err := openState(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	last := first.Reviewers[len(first.Reviewers)-1]
	if last.Email != "fay@example.com" || len(last.TOTPSecret) != 32 || len(first.Reviewers) != 6 {
		t.Fatalf("a new directory has %+v", first.Reviewers)
	}
	for _, r := range append(first.Reviewers[:5:5], first.Owner, first.Auditor) {
		if r.TOTPSecret != "" {
			t.Errorf("%s has a second factor", r.Email)
		}
	}
	former := first
	former.Reviewers = first.Reviewers[:5]
	if err := former.save(dir); err != nil {
		t.Fatal(err)
	}
	second, err := openState(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(second.Reviewers) != 6 || !reflect.DeepEqual(second.Reviewers[:5], former.Reviewers) || second.Reviewers[5].TOTPSecret == "" || second.DataKey != first.DataKey {
		t.Errorf("a former directory has %+v", second.Reviewers)
	}
	third, err := openState(t.Context(), dir)
	if err != nil || !reflect.DeepEqual(second, third) {
		t.Errorf("opened again it differs: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil || !json.Valid(data) {
		t.Fatal(err)
	}
}

// A log that is given another key has two public keys, each of which is one of its own.
func TestKeysOfALog(t *testing.T) {
	for text, want := range map[string][]string{
		"":                             nil,
		"a+1+x\n":                      {"a+1+x"},
		"a+1+x\na+2+y\n":               {"a+1+x", "a+2+y"},
		"# both\n\n  a+1+x\r\n a+2+y ": {"a+1+x", "a+2+y"},
	} {
		if got := keysOf(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
