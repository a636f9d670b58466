package audit

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine/cosign"
)

// TestWitnesses: whose signatures of a checkpoint count, and for how many.
func TestWitnesses(t *testing.T) {
	private, _, err := NewKey(rand.Reader, "log.example.com")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := Sign(Checkpoint{Origin: "log.example.com", Size: 5, Root: sha256.Sum256([]byte("root"))}, keys[0])
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(signed), "\n\n")
	at := time.Unix(1_790_000_000, 0).UTC()
	witness := func(name string) (line string, key note.Verifier) {
		private, _, err := cosign.GenerateKey(rand.Reader, name)
		if err != nil {
			t.Fatal(err)
		}
		signer, err := cosign.NewSigner(private)
		if err != nil {
			t.Fatal(err)
		}
		sig, err := signer.Sign(text+"\n", at)
		if err != nil {
			t.Fatal(err)
		}
		return cosign.Line(sig), signer.Verifier()
	}
	line1, key1 := witness("w1")
	line2, key2 := witness("w2")
	again, key1again := witness("w1") // after a change of keys
	asLog, logsName := witness("log.example.com")
	forged := strings.Replace(line1, line1[40:44], map[bool]string{true: "AAAA", false: "BBBB"}[line1[40:44] != "AAAA"], 1)

	for _, tc := range []struct {
		what   string
		signed string
		want   Witnesses
		by     string // who has signed, of those that are asked for
		wrong  string
	}{
		{"nobody is asked", "", Witnesses{}, "", ""},
		{"one", line1, Witnesses{Keys: []note.Verifier{key1}}, "w1", ""},
		{"both", line2 + line1, Witnesses{Keys: []note.Verifier{key1, key2}}, "w2 w1", ""},
		{"one of two", line1, Witnesses{Keys: []note.Verifier{key1, key2}, Needed: 1}, "w1", ""},
		{"one of two, and both are needed", line1, Witnesses{Keys: []note.Verifier{key1, key2}}, "w1", "1 of 2 witnesses that are asked for have signed it, not w2"},
		{"none", "", Witnesses{Keys: []note.Verifier{key1}}, "", "no witness of 1"},
		{"another", line2, Witnesses{Keys: []note.Verifier{key1}}, "", "no witness of 1"},
		{"another key of the name", again, Witnesses{Keys: []note.Verifier{key1}}, "", "no witness of 1"},
		{"two keys of one are one", line1 + again, Witnesses{Keys: []note.Verifier{key1, key1again}}, "w1", ""},
		{"two keys of one are not two", line1 + again, Witnesses{Keys: []note.Verifier{key1, key1again, key2}, Needed: 2}, "w1", "1 of 2"},
		{"the same twice", line1 + line1, Witnesses{Keys: []note.Verifier{key1, key2}}, "w1", "1 of 2"},
		{"forged", forged, Witnesses{Keys: []note.Verifier{key1}}, "", "not to be believed"},
		{"forged, beside a good one", forged + line2, Witnesses{Keys: []note.Verifier{key1, key2}, Needed: 1}, "", "not to be believed"},
		{"a witness of the log's name", asLog, Witnesses{Keys: []note.Verifier{logsName}}, "log.example.com", ""},
	} {
		got, err := tc.want.Check([]byte(string(signed) + tc.signed))
		names := ""
		for _, c := range got {
			if c.At != at {
				t.Errorf("%s: signed at %s", tc.what, c.At)
			}
			names += " " + c.Witness
		}
		if wrong := err != nil; strings.TrimSpace(names) != tc.by || wrong != (tc.wrong != "") || wrong && !strings.Contains(err.Error(), tc.wrong) {
			t.Errorf("%s: %q, %v", tc.what, names, err)
		}
	}
	// The log's own signature stands for no witness, and a witness's for no log.
	if _, err := OpenCheckpoint([]byte(text+"\n\n"+asLog), keys[0].verifier(t)); err == nil {
		t.Error("a witness of the log's name has signed for the log")
	}
}

func (k Key) verifier(t *testing.T) note.Verifier {
	t.Helper()
	v, err := note.NewVerifier(k.Public)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
