package main

import (
	"strings"
	"testing"

	"holdpoint/engine/token"
)

// One thumbprint in 64 begins with a dash.
func TestKidsOfNewSigningKeysAreNoFlags(t *testing.T) {
	for range 1000 {
		ring, err := newSigningKey(token.Ring{})
		if err != nil {
			t.Fatal(err)
		}
		if kid := ring.IDs()[0]; strings.HasPrefix(kid, "-") {
			t.Fatalf("%s looks like a flag of \"key revoke\"", kid)
		}
	}
}
