package audit

import (
	"crypto/rand"
	"testing"
)

// TestNewKey: what is made can be read again, and what could not be is not made.
func TestNewKey(t *testing.T) {
	for _, name := range []string{"holdpoint.example.com/log", "x"} {
		private, public, err := NewKey(rand.Reader, name)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if _, err := ParseVerifiers(public); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if keys, err := ParseKeys(private); err != nil || keys[0].Public != public {
			t.Errorf("%q: its private key is read as %v (%v)", name, keys, err)
		}
	}
	for _, name := range []string{"", " ", "a b", "a+b", "a\nb", "a\xffb"} {
		if _, public, err := NewKey(rand.Reader, name); err == nil {
			t.Errorf("a log was named %q, with the key %q", name, public)
		}
	}
}
