package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"testing"

	"holdpoint/engine"
)

// Flags of authenticator data (WebAuthn, 6.1).
const (
	userPresent, userVerified      = 0x01, 0x04
	backupEligible, backedUp       = 0x08, 0x10
	attested                  byte = 0x40
)

// authenticator is a passkey in software: ES256, attestation "none". Its fields
// may be changed to make it lie.
type authenticator struct {
	t       *testing.T
	key     *ecdsa.PrivateKey
	id      []byte
	rp      string
	origin  string
	flags   byte
	counter uint32
	handle  []byte
}

func newAuthenticator(t *testing.T) *authenticator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 32)
	rand.Read(id)
	return &authenticator{t: t, key: key, id: id, rp: "console.example.com", origin: "https://console.example.com", flags: userPresent | userVerified}
}

// data is authenticator data, with more after it.
func (a *authenticator) data(flags byte, more ...byte) []byte {
	rp := sha256.Sum256([]byte(a.rp))
	data := binary.BigEndian.AppendUint32(append(rp[:], flags), a.counter)
	return append(data, more...)
}

// client is the client data of a ceremony, for the challenge that is in options.
func (a *authenticator) client(kind string, options json.RawMessage) []byte {
	a.t.Helper()
	var asked struct {
		Challenge string `json:"challenge"`
	}
	if err := json.Unmarshal(options, &asked); err != nil || asked.Challenge == "" {
		a.t.Fatalf("no challenge in %s: %v", options, err)
	}
	client, err := json.Marshal(map[string]any{"type": kind, "challenge": asked.Challenge, "origin": a.origin, "crossOrigin": false})
	if err != nil {
		a.t.Fatal(err)
	}
	return client
}

var b64 = base64.RawURLEncoding.EncodeToString

func (a *authenticator) credential(response map[string]any) []byte {
	a.t.Helper()
	out, err := json.Marshal(map[string]any{"id": b64(a.id), "rawId": b64(a.id), "type": "public-key", "response": response, "clientExtensionResults": map[string]any{}})
	if err != nil {
		a.t.Fatal(err)
	}
	return out
}

// create answers the options of a registration.
func (a *authenticator) create(options json.RawMessage) []byte {
	a.t.Helper()
	point, err := a.key.PublicKey.Bytes()
	if err != nil {
		a.t.Fatal(err)
	}
	// COSE: kty EC2, alg ES256, crv P-256, x and y (RFC 9053).
	cose := append([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}, point[1:33]...)
	cose = append(append(cose, 0x22, 0x58, 0x20), point[33:]...)
	more := make([]byte, 16) // no model
	more = append(binary.BigEndian.AppendUint16(more, uint16(len(a.id))), a.id...)
	data := a.data(a.flags|attested, append(more, cose...)...)
	object := append([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58"), byte(len(data)))
	return a.credential(map[string]any{
		"clientDataJSON": b64(a.client("webauthn.create", options)), "attestationObject": b64(append(object, data...)), "transports": []string{"internal"},
	})
}

// get answers the options of an assertion.
func (a *authenticator) get(options json.RawMessage) []byte { return a.assert("webauthn.get", options) }

func (a *authenticator) assert(kind string, options json.RawMessage) []byte {
	a.t.Helper()
	client := a.client(kind, options)
	hash := sha256.Sum256(client)
	data := a.data(a.flags)
	signed := sha256.Sum256(append(data[:len(data):len(data)], hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, signed[:])
	if err != nil {
		a.t.Fatal(err)
	}
	response := map[string]any{"clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(signature)}
	if a.handle != nil {
		response["userHandle"] = b64(a.handle)
	}
	return a.credential(response)
}

// enrolled registers a new passkey for the person.
func enrolled(t *testing.T, f *Factors, p engine.Person) *authenticator {
	t.Helper()
	a := newAuthenticator(t)
	c, err := f.BeginPasskey(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.FinishPasskey(t.Context(), p, "laptop", c.ChallengeID, a.create(c.PublicKey)); err != nil {
		t.Fatal(err)
	}
	return a
}

// adds registers another passkey, which one that is there signs.
func adds(t *testing.T, f *Factors, p engine.Person, by *authenticator) (*authenticator, error) {
	t.Helper()
	a := newAuthenticator(t)
	c, err := f.BeginPasskey(t.Context(), p)
	if err != nil || !c.Sign {
		t.Fatalf("signed by another: %t, %v", c.Sign, err)
	}
	if c, err = f.SignPasskey(t.Context(), p, c.ChallengeID, a.create(c.PublicKey)); err != nil {
		t.Fatal(err)
	}
	return a, f.FinishPasskey(t.Context(), p, "another", c.ChallengeID, by.get(c.PublicKey))
}

// removes removes a passkey, which one that is there signs.
func removes(t *testing.T, f *Factors, p engine.Person, id []byte, by *authenticator) error {
	t.Helper()
	c, err := f.BeginRemoval(t.Context(), p, id)
	if err != nil {
		t.Fatal(err)
	}
	return f.RemovePasskey(t.Context(), p, id, Proof{ChallengeID: c.ChallengeID, Assertion: by.get(c.PublicKey)})
}
