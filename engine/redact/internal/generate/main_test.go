package main

import (
	"bytes"
	"os"
	"testing"
)

// The committed rules are those of the library.
func TestRulesAreFresh(t *testing.T) {
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../gitleaks.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("gitleaks.json is not what the library has; run go run . ../../gitleaks.json")
	}
}
