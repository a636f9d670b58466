package pkcs11

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"holdpoint/internal/pkcs11/softhsmtest"
)

// opened opens the key of an address in this process.
func opened(t *testing.T, text, pin string) (*Token, error) {
	t.Helper()
	uri, err := ParseURI(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := Open(uri, []byte(pin))
	if err == nil {
		t.Cleanup(token.Close)
	}
	return token, err
}

// TestSoftHSM goes through a real PKCS#11 library: one process, so one after another.
func TestSoftHSM(t *testing.T) {
	m := softhsmtest.New(t)
	name, value, _ := strings.Cut(m.Env, "=")
	t.Setenv(name, value)
	m.Token("hold point")
	m.Token("other")
	m.Key("hold point", "kek", "01")
	m.Key("hold point", "kek2", "02")
	m.Key("hold point", "loose", "03", "--extractable")
	m.Key("hold point", "twice", "04")
	m.Key("hold point", "twice", "05")
	m.Key("other", "kek", "01")
	m.Tool("--token-label", "hold point", "--keygen", "--key-type", "AES:32", "--label", "open", "--sensitive")
	secret := bytes.Repeat([]byte("k"), 32)

	t.Run("round trip, former keys, swapped ciphertexts", func(t *testing.T) {
		token, err := opened(t, m.URI("hold point", "kek"), softhsmtest.PIN)
		if err != nil {
			t.Fatal(err)
		}
		sealed, id, err := token.Encrypt(secret)
		if err != nil || id != "pkcs11:token=hold%20point;object=kek;id=%01" || bytes.Contains(sealed, secret[:8]) {
			t.Fatalf("%q %q %v", sealed, id, err)
		}
		again, _, err := token.Encrypt(secret)
		if err != nil || bytes.Equal(again, sealed) {
			t.Errorf("two ciphertexts are the same: %v", err)
		}
		if got, err := token.Decrypt(id, sealed); err != nil || !bytes.Equal(got, secret) {
			t.Errorf("%q, %v", got, err)
		}
		// A session that is gone is opened again.
		if err := returnError(token.lib.closeSession(token.session)); err != nil {
			t.Fatal(err)
		}
		if got, err := token.Decrypt(id, sealed); err != nil || !bytes.Equal(got, secret) {
			t.Errorf("after the session was gone: %q, %v", got, err)
		}
		flipped := bytes.Clone(sealed)
		flipped[len(flipped)-1] ^= 1
		const other = "pkcs11:token=hold%20point;object=kek2;id=%02"
		for name, c := range map[string]struct {
			id     string
			sealed []byte
		}{
			"changed": {id, flipped}, "cut off": {id, sealed[:len(sealed)-1]}, "empty": {id, nil}, "another key's": {other, sealed},
			"no name": {"key 1", sealed}, "another library's": {id + "?module-path=/tmp/evil.so", sealed},
		} {
			if got, err := token.Decrypt(c.id, c.sealed); !errors.Is(err, ErrForeign) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		// A token that is not well has not said whose the ciphertext is; the next use is in another session.
		well, session := token.lib.decrypt, token.session
		for _, rv := range []ReturnValue{generalError, functionFailed} {
			token.lib.decrypt = func(ulong, *byte, ulong, *byte, *ulong) ulong { return ulong(rv) }
			if got, err := token.Decrypt(id, sealed); err == nil || errors.Is(err, ErrForeign) || !errors.Is(err, rv) {
				t.Errorf("a token that is not well: %q, %v", got, err)
			}
		}
		token.lib.decrypt = well
		if got, err := token.Decrypt(id, sealed); err != nil || !bytes.Equal(got, secret) || token.session == session {
			t.Errorf("well again: %q, %v", got, err)
		}
		if _, err := token.Decrypt("pkcs11:object=gone", sealed); err == nil || !strings.Contains(err.Error(), "there is no AES key pkcs11:token=hold%20point;object=gone") {
			t.Errorf("got %v", err)
		}
		if _, _, err := token.Encrypt(make([]byte, mostPlain+1)); err == nil {
			t.Error("a file was encrypted")
		}
		// The next key encrypts, and the former one opens.
		next, err := opened(t, m.URI("hold point", "kek2"), softhsmtest.PIN)
		if err != nil {
			t.Fatal(err)
		}
		if next.KeyID() != other {
			t.Errorf("got %q", next.KeyID())
		}
		if got, err := next.Decrypt(id, sealed); err != nil || !bytes.Equal(got, secret) {
			t.Errorf("a former key's: %q, %v", got, err)
		}
	})

	t.Run("another token with a key of that name", func(t *testing.T) {
		mine, err := opened(t, m.URI("hold point", "kek"), softhsmtest.PIN)
		if err != nil {
			t.Fatal(err)
		}
		sealed, id, err := mine.Encrypt(secret)
		if err != nil {
			t.Fatal(err)
		}
		other, err := opened(t, m.URI("other", "kek"), softhsmtest.PIN)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := other.Decrypt(id, sealed); !errors.Is(err, ErrForeign) {
			t.Errorf("%q, %v", got, err)
		}
	})

	for name, c := range map[string]struct{ uri, pin, want string }{
		"wrong PIN":        {m.URI("hold point", "kek"), "wrong-pin-12", `log in to the token "hold point": the PIN is wrong`},
		"no such token":    {m.URI("gone", "kek"), softhsmtest.PIN, `no token is the one that the address names (token, serial, …): there is "hold point", "other"`},
		"which token":      {"pkcs11:object=kek?module-path=" + m.Library, softhsmtest.PIN, "2 tokens are what the address names"},
		"no such key":      {m.URI("hold point", "gone"), softhsmtest.PIN, "there is no AES key pkcs11:token=hold%20point;object=gone"},
		"which key":        {m.URI("hold point", "twice"), softhsmtest.PIN, "there are several AES keys"},
		"it may leave":     {m.URI("hold point", "loose"), softhsmtest.PIN, "CKA_EXTRACTABLE is true"},
		"without a PIN":    {m.URI("hold point", "open"), softhsmtest.PIN, "CKA_PRIVATE is false"},
		"no library":       {"pkcs11:object=kek?module-path=/nowhere/lib.so", softhsmtest.PIN, "open the PKCS#11 library: "},
		"no such library":  {"pkcs11:object=kek?module-path=" + m.Write("lib.so", "not one"), softhsmtest.PIN, "open the PKCS#11 library: "},
		"relative library": {"pkcs11:object=kek?module-path=lib.so", softhsmtest.PIN, "want the absolute path"},
		"no PIN":           {m.URI("hold point", "kek"), "", "there is no AES key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := opened(t, c.uri, c.pin)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), softhsmtest.PIN) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestParseURI(t *testing.T) {
	got, err := ParseURI("pkcs11:token=a%3Bb;serial=12;object=kek;id=%00%FF;type=secret-key?module-path=/l.so&pin-source=file:///etc/pin")
	want := URI{Token: "a;b", Serial: "12", Object: "kek", ID: "\x00\xff", Module: "/l.so", PINFile: "/etc/pin"}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if again, err := ParseURI(name(got.Token, got.Object, got.ID)); err != nil || again.Token != got.Token || again.Object != got.Object || again.ID != got.ID {
		t.Errorf("%+v, %v", again, err)
	}
	for text, want := range map[string]string{
		"":                                    "want an address",
		"kek":                                 "want an address",
		"pkcs11:token=a":                      "it names no key",
		"pkcs11:object=a?pin-value=1234":      "everybody sees",
		"pkcs11:object=a;object=b":            "twice",
		"pkcs11:object=a;colour=red":          "no such attribute",
		"pkcs11:object=a;module-path=/l":      "no such attribute",
		"pkcs11:object=a?token=b":             "no such attribute",
		"pkcs11:object=%zz":                   "object:",
		"pkcs11:object=a;type=private":        "type:",
		"pkcs11:object=a?pin-source=file:pin": "pin-source:",
	} {
		if _, err := ParseURI(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "1234") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
