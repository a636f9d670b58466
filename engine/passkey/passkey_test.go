package passkey_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"holdpoint/engine/passkey"
	"holdpoint/internal/passkeytest"
)

const host = "console.example.com"

func TestOnlyThePasskeysOwnAssertionVerifies(t *testing.T) {
	a, other := passkeytest.New(t, host), passkeytest.New(t, host)
	challenge := sha256.Sum256([]byte("a statement"))
	if err := a.Key().Verify(challenge, a.Assert(challenge[:])); err != nil {
		t.Fatal(err)
	}
	elsewhere := sha256.Sum256([]byte("another statement"))
	for name, lie := range map[string]func(a *passkeytest.Authenticator) passkey.Assertion{
		"another statement": func(a *passkeytest.Authenticator) passkey.Assertion { return a.Assert(elsewhere[:]) },
		"another's passkey": func(*passkeytest.Authenticator) passkey.Assertion { return other.Assert(challenge[:]) },
		"another's private key": func(a *passkeytest.Authenticator) passkey.Assertion {
			a.Private = other.Private
			return a.Assert(challenge[:])
		},
		"another host": func(a *passkeytest.Authenticator) passkey.Assertion {
			a.RPID = "example.com"
			return a.Assert(challenge[:])
		},
		"another origin": func(a *passkeytest.Authenticator) passkey.Assertion {
			a.Origin = "https://console.example.org"
			return a.Assert(challenge[:])
		},
		"a sibling's origin": func(a *passkeytest.Authenticator) passkey.Assertion {
			a.Origin = "https://evil.console.example.com"
			return a.Assert(challenge[:])
		},
		"an origin without TLS": func(a *passkeytest.Authenticator) passkey.Assertion {
			a.Origin = "http://console.example.com"
			return a.Assert(challenge[:])
		},
		"an origin with more after it": func(a *passkeytest.Authenticator) passkey.Assertion {
			a.Origin = "https://console.example.com/x"
			return a.Assert(challenge[:])
		},
		"no user verification": func(a *passkeytest.Authenticator) passkey.Assertion { a.Flags = 0x01; return a.Assert(challenge[:]) },
		"no user presence":     func(a *passkeytest.Authenticator) passkey.Assertion { a.Flags = 0x04; return a.Assert(challenge[:]) },
		"another ceremony": func(a *passkeytest.Authenticator) passkey.Assertion {
			made := a.Assert(challenge[:])
			made.ClientData = a.Client("webauthn.create", base64.RawURLEncoding.EncodeToString(challenge[:]))
			made.Signature = a.Sign(made.AuthenticatorData, made.ClientData)
			return made
		},
		"a page within a page": func(a *passkeytest.Authenticator) passkey.Assertion {
			made := a.Assert(challenge[:])
			made.ClientData = []byte(strings.Replace(string(made.ClientData), `"crossOrigin":false`, `"crossOrigin":true`, 1))
			made.Signature = a.Sign(made.AuthenticatorData, made.ClientData)
			return made
		},
		"two challenges": func(a *passkeytest.Authenticator) passkey.Assertion {
			made := a.Assert(challenge[:])
			made.ClientData = []byte(strings.Replace(string(made.ClientData), `{`, `{"challenge":"x",`, 1))
			made.Signature = a.Sign(made.AuthenticatorData, made.ClientData)
			return made
		},
		"an altered signature": func(a *passkeytest.Authenticator) passkey.Assertion {
			made := a.Assert(challenge[:])
			made.Signature[len(made.Signature)-1] ^= 1
			return made
		},
		"altered client data": func(a *passkeytest.Authenticator) passkey.Assertion {
			made := a.Assert(challenge[:])
			made.ClientData = append(made.ClientData, ' ')
			return made
		},
		"altered authenticator data": func(a *passkeytest.Authenticator) passkey.Assertion {
			made := a.Assert(challenge[:])
			made.AuthenticatorData[36]++
			return made
		},
		"no signature": func(a *passkeytest.Authenticator) passkey.Assertion {
			made := a.Assert(challenge[:])
			made.Signature = nil
			return made
		},
		"endless authenticator data": func(a *passkeytest.Authenticator) passkey.Assertion {
			made := a.Assert(challenge[:])
			made.AuthenticatorData = append(made.AuthenticatorData, make([]byte, 1<<10)...)
			made.Signature = a.Sign(made.AuthenticatorData, made.ClientData)
			return made
		},
	} {
		liar := *a
		if err := a.Key().Verify(challenge, lie(&liar)); err == nil {
			t.Errorf("%s verifies", name)
		}
	}
	// A browser may say more than it must, and another port of the same host is the
	// same host.
	a.Origin = "https://console.example.com:8443"
	made := a.Assert(challenge[:])
	made.ClientData = []byte(strings.Replace(string(made.ClientData), `{`, `{"other_keys_can_be_added_here":"x",`, 1))
	made.Signature = a.Sign(made.AuthenticatorData, made.ClientData)
	if err := a.Key().Verify(challenge, made); err != nil {
		t.Error(err)
	}
	local := passkeytest.New(t, "localhost")
	local.Origin = "http://localhost:8080"
	if err := local.Key().Verify(challenge, local.Assert(challenge[:])); err != nil {
		t.Error(err)
	}
}

// Every algorithm verifies what its key has signed, and a key is of its own only.
func TestEveryAlgorithmVerifies(t *testing.T) {
	public := func(key any) []byte {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	type signer struct {
		public []byte
		sign   func(message []byte) ([]byte, error)
	}
	hashed := func(hash crypto.Hash, message []byte) []byte { h := hash.New(); h.Write(message); return h.Sum(nil) }
	keys := map[string]signer{"EdDSA": {public(edPublic), func(m []byte) ([]byte, error) { return ed25519.Sign(edKey, m), nil }}}
	for name, of := range map[string]struct {
		curve elliptic.Curve
		hash  crypto.Hash
	}{"ES256": {elliptic.P256(), crypto.SHA256}, "ES384": {elliptic.P384(), crypto.SHA384}, "ES512": {elliptic.P521(), crypto.SHA512}} {
		key, err := ecdsa.GenerateKey(of.curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = signer{public(&key.PublicKey), func(m []byte) ([]byte, error) { return ecdsa.SignASN1(rand.Reader, key, hashed(of.hash, m)) }}
	}
	for bits, hash := range map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512} {
		keys["RS"+bits] = signer{public(&rsaKey.PublicKey), func(m []byte) ([]byte, error) { return rsa.SignPKCS1v15(rand.Reader, rsaKey, hash, hashed(hash, m)) }}
		keys["PS"+bits] = signer{public(&rsaKey.PublicKey), func(m []byte) ([]byte, error) {
			return rsa.SignPSS(rand.Reader, rsaKey, hash, hashed(hash, m), &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		}}
	}
	a, challenge := passkeytest.New(t, host), sha256.Sum256([]byte("a statement"))
	for name, signer := range keys {
		made := a.Assert(challenge[:])
		client := sha256.Sum256(made.ClientData)
		if made.Signature, err = signer.sign(slices.Concat(made.AuthenticatorData, client[:])); err != nil {
			t.Fatal(err)
		}
		for other := range keys {
			key := passkey.Key{Credential: a.Credential, Algorithm: other, PublicKey: signer.public, RPID: host}
			if err := key.Verify(challenge, made); (err == nil) != (other == name) {
				t.Errorf("signed by %s, verified by %s: %v", name, other, err)
			}
		}
		if err := (passkey.Key{Credential: a.Credential, Algorithm: name, PublicKey: append(signer.public, 0), RPID: host}).Check(); err == nil {
			t.Errorf("a key of %s with a byte more is good", name)
		}
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err == nil {
		if err := (passkey.Key{Credential: a.Credential, Algorithm: "RS256", PublicKey: public(&weak.PublicKey), RPID: host}).Check(); err == nil {
			t.Error("an RSA key with 1,024 bits is good")
		}
	}
}

func FuzzVerify(f *testing.F) {
	a := passkeytest.New(f, host)
	challenge := sha256.Sum256([]byte("a statement"))
	made, key := a.Assert(challenge[:]), a.Key()
	f.Add([]byte(made.ClientData), []byte(made.AuthenticatorData), []byte(made.Signature), []byte(key.PublicKey), "ES256")
	f.Fuzz(func(t *testing.T, client, data, signature, public []byte, alg string) {
		key := passkey.Key{Credential: a.Credential, Algorithm: alg, PublicKey: public, RPID: host}
		err := key.Verify(challenge, passkey.Assertion{Credential: a.Credential, ClientData: client, AuthenticatorData: data, Signature: signature})
		if err == nil && (!slices.Equal(client, made.ClientData) || !slices.Equal(data, made.AuthenticatorData)) {
			t.Error("something else verifies")
		}
	})
}

func TestBytesAreBase64URL(t *testing.T) {
	text, err := json.Marshal(passkey.Bytes{0xfb, 0xff})
	if string(text) != `"-_8"` || err != nil {
		t.Fatalf("%s, %v", text, err)
	}
	for _, bad := range []string{`"-_8="`, `"+/8"`, `"-_9"`, `"-_ 8"`, `7`} {
		var b passkey.Bytes
		if json.Unmarshal([]byte(bad), &b) == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

func TestUnknownPasskey(t *testing.T) {
	a, challenge := passkeytest.New(t, host), sha256.Sum256(nil)
	var keys passkey.Keys
	if err := keys.Verify("usr_1", challenge, a.Assert(challenge[:])); !errors.Is(err, passkey.ErrUnknown) {
		t.Error(err)
	}
}
