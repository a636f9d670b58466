package cosign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"holdpoint/internal/golden"
)

const exampleName = "witness.example.com/w1"

var exampleTime = time.Unix(1679315147, 0)

// seed is a source of the bytes 0, 1, 2 …
func seed() *bytes.Reader {
	data := make([]byte, ed25519.SeedSize)
	for i := range data {
		data[i] = byte(i)
	}
	return bytes.NewReader(data)
}

func exampleSigner(t *testing.T) (*Signer, string) {
	t.Helper()
	skey, vkey, err := GenerateKey(seed(), exampleName)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	return s, vkey
}

// TestGolden keeps keys and signatures as they are for ever.
func TestGolden(t *testing.T) {
	skey, vkey, err := GenerateKey(seed(), exampleName)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := s.Sign(exampleText, exampleTime)
	if err != nil {
		t.Fatal(err)
	}
	got := skey + "\n" + vkey + "\n\n" + exampleText + "\n" + Line(sig)
	golden.Equal(t, "testdata/cosignature.golden", got)
}

// TestSignedBytes puts together by hand what the specification says is signed.
func TestSignedBytes(t *testing.T) {
	s, vkey := exampleSigner(t)
	sig, err := s.Sign(exampleText, exampleTime)
	if err != nil {
		t.Fatal(err)
	}
	data, err := base64.StdEncoding.DecodeString(sig.Base64)
	if err != nil || len(data) != 76 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	private := ed25519.NewKeyFromSeed([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"))
	public := private.Public().(ed25519.PublicKey)
	id := sha256.Sum256([]byte(exampleName + "\n\x04" + string(public)))
	if want := exampleName + "+" + hex.EncodeToString(id[:4]) + "+" + base64.StdEncoding.EncodeToString([]byte("\x04"+string(public))); vkey != want || s.VerifierKey() != want {
		t.Errorf("the key is %s and %s, want %s", vkey, s.VerifierKey(), want)
	}
	if !bytes.Equal(data[:4], id[:4]) || sig.Hash != binary.BigEndian.Uint32(id[:4]) || sig.Name != exampleName {
		t.Errorf("the key's ID is %x of %q, want %x", data[:4], sig.Name, id[:4])
	}
	if got, want := data[4:12], []byte{0, 0, 0, 0, 0x64, 0x18, 0x50, 0xcb}; !bytes.Equal(got, want) {
		t.Errorf("the time is %x, want %x", got, want)
	}
	const signed = "cosignature/v1\ntime 1679315147\nexample.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
	if !ed25519.Verify(public, []byte(signed), data[12:]) {
		t.Error("something else was signed")
	}
}

// A key and a cosignature that others have published.
func TestPublishedVectors(t *testing.T) {
	v, err := NewVerifier("remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2")
	if err != nil || v.Name() != "remora.n621.de" || v.KeyHash() != 0xda77ade7 {
		t.Errorf("got %+v, %v", v, err)
	}
	// The example of tlog-cosignature. Its key is not published.
	sig := note.Signature{Name: exampleName, Base64: "jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA=="}
	if at, err := Timestamp(sig); err != nil || !at.Equal(exampleTime) {
		t.Errorf("got %v, %v", at, err)
	}
	// The note's own Ed25519 signature has no time.
	if at, err := Timestamp(note.Signature{Base64: "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8="}); err == nil {
		t.Errorf("a plain signature has the time %v", at)
	}
}

func TestSignRefuses(t *testing.T) {
	s, _ := exampleSigner(t)
	for name, c := range map[string]struct {
		text string
		at   time.Time
	}{
		"no checkpoint":      {"a text\n", exampleTime},
		"a whole note":       {exampleText + "\n— a AAAAAAA=\n", exampleTime},
		"no time":            {exampleText, time.Time{}},
		"the start of 1970":  {exampleText, time.Unix(0, 999)},
		"the time before it": {exampleText, time.Unix(-1, 0)},
	} {
		if got, err := s.Sign(c.text, c.at); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestKeysRefused(t *testing.T) {
	skey, vkey, err := GenerateKey(seed(), exampleName)
	if err != nil {
		t.Fatal(err)
	}
	plainPrivate, plain, err := note.GenerateKey(seed(), exampleName)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewVerifier(plain); err == nil {
		t.Error("a key of type 0x01 verifies cosignatures")
	}
	if _, err := NewSigner(plainPrivate); err == nil {
		t.Error("a key of type 0x01 signs cosignatures")
	}
	if _, err := NewSigner(vkey); err == nil {
		t.Error("a public key signs")
	}
	if _, err := NewVerifier(skey); err == nil {
		t.Error("a private key is taken for a public one")
	}
	for name, change := range map[string]func(string) string{
		"nothing":          func(string) string { return "" },
		"another name":     func(k string) string { return strings.Replace(k, exampleName, "other", 1) },
		"no name":          func(k string) string { return strings.Replace(k, exampleName, "", 1) },
		"a space":          func(k string) string { return strings.Replace(k, "witness.", "witness ", 1) },
		"a newline":        func(k string) string { return k + "\n" },
		"cut":              func(k string) string { return k[:len(k)-4] },
		"longer":           func(k string) string { return k + "AAAA" },
		"upper case":       func(k string) string { i := strings.LastIndex(k, "+"); return strings.ToUpper(k[:i]) + k[i:] },
		"no ID":            func(k string) string { i := strings.LastIndex(k, "+"); return k[:i-8] + k[i:] },
		"another ID":       func(k string) string { i := strings.LastIndex(k, "+"); return k[:i-8] + "00000000" + k[i:] },
		"another key":      func(k string) string { return k[:len(k)-1] + "A" },
		"an unknown type":  func(k string) string { i := strings.LastIndex(k, "+"); return k[:i+1] + "Bg" + k[i+3:] },
		"nothing after it": func(k string) string { return k[:strings.LastIndex(k, "+")+1] },
	} {
		if _, err := NewVerifier(change(vkey)); err == nil {
			t.Errorf("%s: a public key", name)
		}
		if _, err := NewSigner(change(skey)); err == nil {
			t.Errorf("%s: a private key", name)
		} else if secret := skey[strings.LastIndex(skey, "+")+5 : len(skey)-4]; strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error quotes the key: %v", name, err)
		}
	}
	for _, name := range []string{"", "a b", "a+b", "a\u00a0b", "a\nb", "a\x01", "\xff"} {
		if _, _, err := GenerateKey(seed(), name); err == nil {
			t.Errorf("a key is called %q", name)
		}
	}
	if _, _, err := GenerateKey(strings.NewReader("short"), exampleName); err == nil {
		t.Error("a key of five random bytes")
	}
}

// Whatever is signed verifies, with the time it was given, as a signature of a
// note, and nothing else does.
func TestRoundTrip(t *testing.T) {
	name := rapid.StringMatching(`[!-*,-~äß]{1,20}`)
	rapid.Check(t, func(t *rapid.T) {
		skey, vkey, err := GenerateKey(bytes.NewReader(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed")), name.Draw(t, "name"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSigner(skey)
		if err != nil {
			t.Fatal(err)
		}
		v, err := NewVerifier(vkey)
		if err != nil {
			t.Fatal(err)
		}
		text, err := FormatCheckpoint(Checkpoint{
			Origin: line.Draw(t, "origin"), Size: rapid.Int64Range(0, MaxSize).Draw(t, "size"), Extensions: rapid.SliceOfN(line, 0, 2).Draw(t, "extensions"),
		})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(rapid.Int64Range(1, 1<<40).Draw(t, "at"), 0)
		sig, err := s.Sign(text, at)
		if err != nil {
			t.Fatal(err)
		}
		cosigned := text + "\n" + Line(sig)
		n, err := note.Open([]byte(cosigned), note.VerifierList(v))
		if err != nil || len(n.Sigs) != 1 || n.Sigs[0] != sig || n.Text != text {
			t.Fatalf("open %q: %+v, %v", cosigned, n, err)
		}
		if got, err := Timestamp(n.Sigs[0]); err != nil || !got.Equal(at) {
			t.Fatalf("the time is %v, %v, want %v", got, err, at)
		}
		data, err := base64.StdEncoding.DecodeString(sig.Base64)
		if err != nil {
			t.Fatal(err)
		}
		data = data[4:]
		bit := rapid.IntRange(0, 8*(len(data)+len(text))-1).Draw(t, "bit")
		tampered := append(bytes.Clone(data), text...)
		tampered[bit/8] ^= 1 << (bit % 8)
		if v.Verify(tampered[len(data):], tampered[:len(data)]) {
			t.Fatalf("bit %d makes no difference", bit)
		}
	})
}

func FuzzVerifier(f *testing.F) {
	skey, vkey, err := GenerateKey(seed(), exampleName)
	if err != nil {
		f.Fatal(err)
	}
	s, err := NewSigner(skey)
	if err != nil {
		f.Fatal(err)
	}
	sig, err := s.Sign(exampleText, exampleTime)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(vkey, skey, exampleText, sig.Base64)
	f.Fuzz(func(t *testing.T, vkey, skey, text, signature string) {
		if v, err := NewVerifier(vkey); err == nil {
			if got := v.(*verifier).text(v.(*verifier).public); got != vkey {
				t.Errorf("%q is written as %q", vkey, got)
			}
			if data, err := base64.StdEncoding.DecodeString(signature); err == nil && len(data) > 4 {
				v.Verify([]byte(text), data[4:])
			}
		}
		if s, err := NewSigner(skey); err == nil {
			if got := privatePrefix + s.key.text(s.private.Seed()); got != skey {
				t.Errorf("%q is written as %q", skey, got)
			}
		}
		if at, err := Timestamp(note.Signature{Base64: signature}); err == nil && at.Unix() < 0 {
			t.Errorf("%q is of %v", signature, at)
		}
	})
}
