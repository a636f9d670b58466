// Package passkeytest is a passkey in software, for tests: ES256, a user who is
// always verified. It never protects anything.
package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"testing"

	"holdpoint/engine/passkey"
)

// Authenticator is a passkey. Its fields may be changed to make it lie.
type Authenticator struct {
	Private    *ecdsa.PrivateKey
	Credential []byte
	RPID       string
	Origin     string
	Flags      byte // user present and user verified
	Counter    uint32

	t testing.TB
}

// New returns a passkey of https://RPID.
func New(t testing.TB, rpID string) *Authenticator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 32)
	rand.Read(id)
	return &Authenticator{Private: key, Credential: id, RPID: rpID, Origin: "https://" + rpID, Flags: 0x05, t: t}
}

// Key is its public key, as the log has it.
func (a *Authenticator) Key() passkey.Key {
	a.t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&a.Private.PublicKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return passkey.Key{Credential: a.Credential, Algorithm: "ES256", PublicKey: der, RPID: a.RPID}
}

// Data is authenticator data with its flags and more, and more after it.
func (a *Authenticator) Data(flags byte, more ...byte) []byte {
	rp := sha256.Sum256([]byte(a.RPID))
	data := binary.BigEndian.AppendUint32(append(rp[:], a.Flags|flags), a.Counter)
	return append(data, more...)
}

// Client is what a browser says of a ceremony of a kind, such as "webauthn.get".
func (a *Authenticator) Client(kind, challenge string) []byte {
	a.t.Helper()
	client, err := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": a.Origin, "crossOrigin": false})
	if err != nil {
		a.t.Fatal(err)
	}
	return client
}

// Sign signs authenticator data and client data.
func (a *Authenticator) Sign(data, client []byte) []byte {
	a.t.Helper()
	hash := sha256.Sum256(client)
	signed := sha256.Sum256(append(data[:len(data):len(data)], hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.Private, signed[:])
	if err != nil {
		a.t.Fatal(err)
	}
	return signature
}

// Assert signs a challenge.
func (a *Authenticator) Assert(challenge []byte) passkey.Assertion {
	a.t.Helper()
	client, data := a.Client("webauthn.get", base64.RawURLEncoding.EncodeToString(challenge)), a.Data(0)
	return passkey.Assertion{Credential: a.Credential, ClientData: client, AuthenticatorData: data, Signature: a.Sign(data, client)}
}

// Get answers the options of navigator.credentials.get as a browser does, in
// WebAuthn's JSON.
func (a *Authenticator) Get(options json.RawMessage) []byte {
	a.t.Helper()
	made := a.Assert(challengeIn(a.t, options))
	return a.credential(map[string]any{"clientDataJSON": made.ClientData, "authenticatorData": made.AuthenticatorData, "signature": made.Signature})
}

// Create answers the options of navigator.credentials.create, with attestation "none".
func (a *Authenticator) Create(options json.RawMessage) []byte {
	a.t.Helper()
	point, err := a.Private.PublicKey.Bytes()
	if err != nil {
		a.t.Fatal(err)
	}
	// COSE: kty EC2, alg ES256, crv P-256, x and y (RFC 9053).
	cose := append([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}, point[1:33]...)
	cose = append(append(cose, 0x22, 0x58, 0x20), point[33:]...)
	more := make([]byte, 16) // no model
	more = append(binary.BigEndian.AppendUint16(more, uint16(len(a.Credential))), a.Credential...)
	data := a.Data(0x40, append(more, cose...)...)
	object := append([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58"), byte(len(data)))
	client := a.Client("webauthn.create", base64.RawURLEncoding.EncodeToString(challengeIn(a.t, options)))
	return a.credential(map[string]any{
		"clientDataJSON": passkey.Bytes(client), "attestationObject": passkey.Bytes(append(object, data...)), "transports": []string{"internal"},
	})
}

func (a *Authenticator) credential(response map[string]any) []byte {
	a.t.Helper()
	id := passkey.Bytes(a.Credential)
	out, err := json.Marshal(map[string]any{"id": id, "rawId": id, "type": "public-key", "response": response, "clientExtensionResults": map[string]any{}})
	if err != nil {
		a.t.Fatal(err)
	}
	return out
}

func challengeIn(t testing.TB, options json.RawMessage) []byte {
	t.Helper()
	var asked struct {
		Challenge passkey.Bytes `json:"challenge"`
	}
	if err := json.Unmarshal(options, &asked); err != nil || len(asked.Challenge) == 0 {
		t.Fatalf("no challenge in %s: %v", options, err)
	}
	return asked.Challenge
}
