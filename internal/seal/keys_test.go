package seal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func parse(t *testing.T, text string) *Keys {
	t.Helper()
	k, err := ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newKey(t *testing.T) []byte {
	t.Helper()
	key, err := ParseKey(NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// changed is the keys with one more, which seals, read back from their text.
func changed(t *testing.T, k *Keys) *Keys {
	t.Helper()
	two, err := k.Add(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	if two.IDs()[0] != k.IDs()[0] {
		t.Error("a key that is added seals")
	}
	ids := two.IDs()
	two, err = two.SealWith(ids[len(ids)-1])
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(two.Marshal()))
}

// TestKeysChange: what former keys have sealed is read until they are taken out, and the
// hashes stay what they were, also when the first key is gone.
func TestKeysChange(t *testing.T) {
	keys := parse(t, NewKey())
	first := keys.IDs()[0]
	s := keys.Sealer()
	digest := s.Digest("sha256:00")
	boxes := map[string]Box{}
	seal := func(id string) {
		t.Helper()
		var err error
		if boxes[id], err = s.Seal(id, []byte("text of "+id)); err != nil {
			t.Fatal(err)
		}
	}
	seal("apr_a")
	for _, id := range []string{"apr_b", "apr_c"} {
		keys = changed(t, keys)
		if err := s.Use(keys); err != nil {
			t.Fatal(err)
		}
		seal(id)
		if got := WrappedBy(boxes[id].Key); got != keys.IDs()[0] {
			t.Errorf("%s is sealed with %q, want %s", id, got, keys.IDs()[0])
		}
	}
	if WrappedBy(boxes["apr_a"].Key) != "" || len(boxes["apr_a"].Key) != wrappedSize || keys.First() != first {
		t.Error("what the first key seals looks as it never did")
	}
	for id, box := range boxes {
		if got, err := s.Open(id, box); err != nil || string(got) != "text of "+id {
			t.Errorf("%s: %q, %v", id, got, err)
		}
		again, err := s.Rewrap(id, box.Key)
		if err != nil || WrappedBy(again) != keys.IDs()[0] {
			t.Fatalf("%s: %v", id, err)
		}
		if _, err := s.Rewrap("apr_x", box.Key); err == nil {
			t.Error("a key is wrapped again for another record")
		}
		boxes[id] = Box{Data: box.Data, Key: again}
	}
	for _, id := range keys.IDs()[1:] {
		rest, gone, err := keys.Without(id)
		if err != nil || gone.IDs()[0] != id {
			t.Fatal(err)
		}
		keys = parse(t, string(rest.Marshal()))
		if back := parse(t, string(gone.Marshal())); back.IDs()[0] != id {
			t.Error("a retired key cannot be read back")
		}
	}
	if err := s.Use(keys); err != nil {
		t.Fatal(err)
	}
	for id, box := range boxes {
		if got, err := s.Open(id, box); err != nil || string(got) != "text of "+id {
			t.Errorf("with the last key alone, %s: %q, %v", id, got, err)
		}
	}
	if s.Digest("sha256:00") != digest || keys.Sealer().Digest("sha256:00") != digest || keys.First() != "" || len(keys.IDs()) != 1 {
		t.Error("the hashes have changed with the keys")
	}
}

func TestMissingKeyIsNamed(t *testing.T) {
	old := parse(t, NewKey())
	both := changed(t, old)
	fresh, _, err := both.Without(old.IDs()[0])
	if err != nil {
		t.Fatal(err)
	}
	for id, c := range map[string]struct{ by, opens *Keys }{both.IDs()[0]: {both, old}, "": {old, fresh}} {
		box, err := c.by.Sealer().Seal("apr_a", []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		var unknown *UnknownKeyError
		if _, err := c.opens.Sealer().Open("apr_a", box); !errors.As(err, &unknown) || unknown.ID != id {
			t.Errorf("%v, want the key %q to be named", err, id)
		}
	}
}

func TestUseRefuses(t *testing.T) {
	s := parse(t, NewKey()).Sealer()
	if s.Use(parse(t, NewKey())) == nil {
		t.Error("another installation's key was taken")
	}
}

func TestParseKeysRefuses(t *testing.T) {
	two := string(changed(t, parse(t, NewKey())).Marshal())
	lines := strings.Split(strings.TrimSpace(two), "\n")
	flipped := bytes.Replace([]byte(lines[2]), []byte(lines[2][40:44]), []byte("AAAA"), 1)
	for name, text := range map[string]string{
		"nothing":                  " \n",
		"two keys and no hashes":   lines[0] + "\n" + lines[1],
		"a key twice":              lines[0] + "\n" + lines[0] + "\n" + lines[2],
		"hashes alone":             lines[2],
		"hashes first":             lines[2] + "\n" + lines[0],
		"hashes twice":             two + lines[2],
		"hashes cut off":           two[:len(two)-20],
		"hashes with another byte": lines[0] + "\n" + lines[1] + "\n" + string(flipped),
		"half a key":               lines[0] + "\n" + lines[1][:20] + "\n" + lines[2],
	} {
		if k, err := ParseKeys(text); err == nil {
			t.Errorf("%s: read as %v", name, k.IDs())
		} else if strings.Contains(err.Error(), lines[0]) {
			t.Errorf("%s: the error tells a key", name)
		}
	}
}
