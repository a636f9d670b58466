package seal

import (
	"bytes"
	"errors"
	"testing"
)

func newSealer(t *testing.T) *Sealer {
	t.Helper()
	key, err := ParseKey(NewKey())
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSealOpens(t *testing.T) {
	s := newSealer(t)
	plain := []byte(`{"iban":"DE00 canary"}`)
	box, err := s.Seal("apr_a", plain)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(box.Data, []byte("canary")) {
		t.Error("the ciphertext holds the plain text")
	}
	got, err := s.Open("apr_a", box)
	if err != nil || !bytes.Equal(got, plain) {
		t.Errorf("Open = %q, %v; want the plain text", got, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	s, other := newSealer(t), newSealer(t)
	box, err := s.Seal("apr_a", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := Box{Data: bytes.Clone(box.Data), Key: box.Key}
	flipped.Data[len(flipped.Data)-1] ^= 1
	for name, open := range map[string]func() ([]byte, error){
		"another record's id": func() ([]byte, error) { return s.Open("apr_b", box) },
		"another data key":    func() ([]byte, error) { return other.Open("apr_a", box) },
		"a changed byte":      func() ([]byte, error) { return s.Open("apr_a", flipped) },
		"nothing":             func() ([]byte, error) { return s.Open("apr_a", Box{Key: box.Key}) },
	} {
		if got, err := open(); err == nil {
			t.Errorf("%s: opened as %q", name, got)
		}
	}
	if _, err := s.Open("apr_a", Box{Data: box.Data}); !errors.Is(err, ErrErased) {
		t.Errorf("without its key: %v, want ErrErased", err)
	}
}

func TestHashesAreKeyedAndUnambiguous(t *testing.T) {
	s, other := newSealer(t), newSealer(t)
	if s.Digest("sha256:00") == other.Digest("sha256:00") {
		t.Error("two data keys give one digest")
	}
	if bytes.Equal(s.Request("ab", "c"), s.Request("a", "bc")) {
		t.Error("two lists of parts give one hash")
	}
	if bytes.Equal(s.Check(), other.Check()) {
		t.Error("two data keys have one check value")
	}
}

func TestParseKeyRefuses(t *testing.T) {
	for _, text := range []string{"", "short", NewKey() + "AA", "not base64 at all, but of a fair length!"} {
		if _, err := ParseKey(text); err == nil {
			t.Errorf("ParseKey(%q) accepted it", text)
		}
	}
}
