// Package passkey verifies what people's passkeys sign, by nothing but bytes: a
// WebAuthn assertion against a public key, and which keys are whose by what the audit
// log tells of them. It never reads a clock, a database or the network, and it
// creates no challenge: whoever verifies computes the challenge from what was signed.
//
// # What is signed
//
// A person's statement is a JSON object in its RFC 8785 form. Its SHA-256 is the
// challenge of the assertion:
//
//	statement   {"act":"add",…,"v":"holdpoint-passkey-v1"}    a passkey comes or goes (Act)
//	            {"approval":…,…,"v":"holdpoint-vote-v1"}      a vote (approval.FactPayload)
//	challenge   SHA-256(statement)
//	clientData  {"type":"webauthn.get","challenge":base64url(challenge),"origin":…}
//	signature   by the passkey, over authenticatorData ‖ SHA-256(clientData)
//
// # Whose key it is
//
// The event that tells that a passkey was added has its public key. The first one of
// a person is believed. While the log knows one of theirs, another is added, and one
// is removed, by a statement that one of those has signed. An administrator's reset
// takes all of them, and the next one is a first one again.
//
// Sources: W3C WebAuthn Level 3, 6.1 and 7.2; RFC 8785; RFC 9053 (names of algorithms).
package passkey

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // crypto.SHA384 and crypto.SHA512
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"holdpoint/engine/canon"
)

// Bytes are binary data, in JSON as WebAuthn writes them: base64url without padding.
type Bytes []byte

// MarshalText writes b in base64url.
func (b Bytes) MarshalText() ([]byte, error) {
	return []byte(base64.RawURLEncoding.EncodeToString(b)), nil
}

// UnmarshalText reads what MarshalText writes, and nothing else.
func (b *Bytes) UnmarshalText(text []byte) error {
	read, err := base64.RawURLEncoding.Strict().DecodeString(string(text))
	*b = read
	return err
}

// Key is the public key of a passkey, as the event that adds it has it.
type Key struct {
	// Credential is the id that the authenticator has given it.
	Credential Bytes `json:"credential"`
	// Algorithm is its COSE name, such as ES256, and PublicKey a
	// SubjectPublicKeyInfo in DER (RFC 5280).
	Algorithm string `json:"alg"`
	PublicKey Bytes  `json:"public_key"`
	// RPID is the host name that the passkey is bound to.
	RPID string `json:"rp_id"`
}

// Assertion is what an authenticator has signed.
type Assertion struct {
	Credential        Bytes `json:"credential"`
	ClientData        Bytes `json:"client_data"`
	AuthenticatorData Bytes `json:"authenticator_data"`
	Signature         Bytes `json:"signature"`
}

// The most bytes of each part.
const (
	maxCredential = 1023 // WebAuthn, 4
	maxPublicKey  = 1200 // RSA with 8,192 bits has 1,062
	maxClientData = 2048
	maxAuthData   = 1024
	maxSignature  = 1100
	maxRPID       = 253
)

// Check refuses an assertion with a part that is missing or longer than any is.
func (a Assertion) Check() error {
	for _, part := range []struct {
		what string
		is   Bytes
		most int
	}{
		{"credential", a.Credential, maxCredential},
		{"client data", a.ClientData, maxClientData},
		{"authenticator data", a.AuthenticatorData, maxAuthData},
		{"signature", a.Signature, maxSignature},
	} {
		if len(part.is) == 0 || len(part.is) > part.most {
			return fmt.Errorf("its %s has %d bytes, and 1 to %d are possible", part.what, len(part.is), part.most)
		}
	}
	return nil
}

// algorithm is how keys of one COSE name sign.
type algorithm struct {
	hash  crypto.Hash
	curve elliptic.Curve // of ES…
	rsa   func(key *rsa.PublicKey, hash crypto.Hash, digest, signature []byte) error
}

func pss(key *rsa.PublicKey, hash crypto.Hash, digest, signature []byte) error {
	return rsa.VerifyPSS(key, hash, digest, signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
}

var algorithms = map[string]algorithm{
	"ES256": {hash: crypto.SHA256, curve: elliptic.P256()},
	"ES384": {hash: crypto.SHA384, curve: elliptic.P384()},
	"ES512": {hash: crypto.SHA512, curve: elliptic.P521()},
	"EdDSA": {},
	"RS256": {hash: crypto.SHA256, rsa: rsa.VerifyPKCS1v15},
	"RS384": {hash: crypto.SHA384, rsa: rsa.VerifyPKCS1v15},
	"RS512": {hash: crypto.SHA512, rsa: rsa.VerifyPKCS1v15},
	"PS256": {hash: crypto.SHA256, rsa: pss},
	"PS384": {hash: crypto.SHA384, rsa: pss},
	"PS512": {hash: crypto.SHA512, rsa: pss},
}

// minRSA is the fewest bits of an RSA key.
const minRSA = 2048

// public reads the key, and refuses one that is not of its algorithm.
func (k Key) public() (any, algorithm, error) {
	how, known := algorithms[k.Algorithm]
	switch {
	case !known:
		return nil, how, fmt.Errorf("the algorithm %.20q is not known", k.Algorithm)
	case len(k.Credential) == 0 || len(k.Credential) > maxCredential || len(k.PublicKey) > maxPublicKey || k.RPID == "" || len(k.RPID) > maxRPID:
		return nil, how, errors.New("it lacks something, or is too long")
	}
	parsed, err := x509.ParsePKIXPublicKey(k.PublicKey)
	if err != nil {
		return nil, how, errors.New("its public key cannot be read")
	}
	fits := false
	switch public := parsed.(type) {
	case *ecdsa.PublicKey:
		fits = how.curve != nil && public.Curve == how.curve
	case ed25519.PublicKey:
		fits = how.hash == 0
	case *rsa.PublicKey:
		fits = how.rsa != nil && public.N.BitLen() >= minRSA
	}
	if again, err := x509.MarshalPKIXPublicKey(parsed); !fits || err != nil || !bytes.Equal(again, k.PublicKey) {
		return nil, how, fmt.Errorf("its public key is none of %s", k.Algorithm)
	}
	return parsed, how, nil
}

// Check refuses a key that nothing can be verified by.
func (k Key) Check() error {
	_, _, err := k.public()
	return err
}

// Flags of authenticator data (WebAuthn, 6.1).
const (
	userPresent  = 0x01
	userVerified = 0x04
)

// Verify reports why the assertion is not one of the key for the challenge, made by a
// verified user at a page of the key's own host, or nil.
func (k Key) Verify(challenge [sha256.Size]byte, a Assertion) error {
	public, how, err := k.public()
	if err != nil {
		return err
	}
	if err := a.Check(); err != nil {
		return err
	}
	if !bytes.Equal(a.Credential, k.Credential) {
		return errors.New("it is of another passkey")
	}
	if err := k.client(a.ClientData, challenge); err != nil {
		return err
	}
	data, rp := a.AuthenticatorData, sha256.Sum256([]byte(k.RPID))
	switch {
	case len(data) < 37 || !bytes.Equal(data[:32], rp[:]):
		return errors.New("it was made for another host")
	case data[32]&userPresent == 0 || data[32]&userVerified == 0:
		return errors.New("the authenticator has not verified who its user is")
	}
	client := sha256.Sum256(a.ClientData)
	if !how.signed(public, slices.Concat(data, client[:]), a.Signature) {
		return errors.New("the signature is not one of the passkey")
	}
	return nil
}

// client checks what the browser says: which ceremony, which challenge, which page.
func (k Key) client(data []byte, challenge [sha256.Size]byte) error {
	v, err := canon.Parse(data)
	if err != nil {
		return errors.New("what the browser says of it cannot be read")
	}
	text := func(name string) string { member, _ := v.Get(name); return member.Str() }
	if text("type") != "webauthn.get" {
		return errors.New("it is no assertion")
	}
	if text("challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]) {
		return errors.New("what was signed is something else")
	}
	if cross, there := v.Get("crossOrigin"); there && (cross.Kind() != canon.BoolKind || cross.Bool()) {
		return errors.New("it was made in a page within a page of another host")
	}
	if !k.at(text("origin")) {
		return errors.New("it was made at a page of another host")
	}
	return nil
}

var port = regexp.MustCompile(`\A(?::[0-9]{1,5})?\z`)

// at reports whether an origin is the key's own host, at any port.
func (k Key) at(origin string) bool {
	rest, found := strings.CutPrefix(origin, "https://"+k.RPID)
	if !found && k.RPID == "localhost" {
		rest, found = strings.CutPrefix(origin, "http://localhost")
	}
	return found && port.MatchString(rest)
}

func (how algorithm) signed(public any, message, signature []byte) bool {
	digest := message
	if how.hash != 0 {
		h := how.hash.New()
		h.Write(message)
		digest = h.Sum(nil)
	}
	switch public := public.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(public, digest, signature)
	case ed25519.PublicKey:
		return ed25519.Verify(public, message, signature)
	case *rsa.PublicKey:
		return how.rsa(public, how.hash, digest, signature) == nil
	}
	return false
}

// Challenge is the SHA-256 of a statement, which encodes as a JSON object.
func Challenge(statement any) (challenge [sha256.Size]byte, err error) {
	text, err := json.Marshal(statement)
	if err != nil {
		return challenge, fmt.Errorf("encode a statement: %w", err)
	}
	v, err := canon.Parse(text)
	if err != nil {
		return challenge, fmt.Errorf("encode a statement: %w", err)
	}
	return sha256.Sum256(v.Canonical()), nil
}
