package registry

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdpoint/engine/canon"
)

// Attestation is an issuer's word for an agent's identity (Agent-SPM v0.3,
// AgentAttestation).
type Attestation struct {
	Issuer    string
	IssuedAt  string // RFC 3339
	ExpiresAt string // RFC 3339; "" for no end
	Signature string // Ed25519, in base64 or base64url
}

// maxAttestationSkew is how far ahead of ours an issuer's clock may be.
const maxAttestationSkew = 30 * time.Second

// Signed is what an issuer signs: the RFC 8785 form of {agent_id, expires_at,
// issued_at, issuer}, without expires_at when there is none. Agent-SPM's
// attestation does not name its agent; here it does (decision 015), so that one
// agent cannot show another's.
func (a Attestation) Signed(agentID string) []byte {
	members := []canon.Member{
		{Name: "agent_id", Value: canon.String(agentID)},
		{Name: "issued_at", Value: canon.String(a.IssuedAt)},
		{Name: "issuer", Value: canon.String(a.Issuer)},
	}
	if a.ExpiresAt != "" {
		members = append(members, canon.Member{Name: "expires_at", Value: canon.String(a.ExpiresAt)})
	}
	return canon.Object(members...).Canonical()
}

// verify says why an attestation is not believed, or nil. The texts quote
// nothing of it.
func (a Attestation) verify(agentID string, s Settings, now time.Time) error {
	key, ok := s.key(a.Issuer)
	if !ok {
		return errors.New("its issuer is not one of the registered ones")
	}
	issued, err := time.Parse(time.RFC3339, a.IssuedAt)
	if err != nil {
		return errors.New("issued_at is not an RFC 3339 time")
	}
	if issued.After(now.Add(maxAttestationSkew)) {
		return errors.New("it is dated in the future")
	}
	if a.ExpiresAt != "" {
		expires, err := time.Parse(time.RFC3339, a.ExpiresAt)
		if err != nil {
			return errors.New("expires_at is not an RFC 3339 time")
		}
		if !now.Before(expires) {
			return errors.New("it has expired")
		}
	}
	signature, err := decode(a.Signature)
	if err != nil || len(signature) != ed25519.SignatureSize {
		return errors.New("it carries no Ed25519 signature in base64")
	}
	if !ed25519.Verify(key, a.Signed(agentID), signature) {
		return errors.New("its signature does not fit this agent and these times")
	}
	return nil
}

// decode reads base64 of either alphabet, padded or not, in its one canonical form.
func decode(text string) ([]byte, error) {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	return base64.RawStdEncoding.Strict().DecodeString(text)
}

// MarshalText writes the key in standard base64.
func (k Key) MarshalText() ([]byte, error) {
	return []byte(base64.StdEncoding.EncodeToString(k)), nil
}

// UnmarshalText reads a key of 32 bytes in base64.
func (k *Key) UnmarshalText(text []byte) error {
	raw, err := decode(string(text))
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return fmt.Errorf("want an Ed25519 public key: %d bytes in base64", ed25519.PublicKeySize)
	}
	*k = raw
	return nil
}

// sameHash compares two SHA-256 in hex; case and a leading "sha256:" do not count.
func sameHash(a, b string) bool {
	x, errX := hash(a)
	y, errY := hash(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func hash(text string) ([]byte, error) {
	return hex.DecodeString(strings.TrimPrefix(strings.ToLower(text), "sha256:"))
}
