// Package token makes and checks resumption tokens: compact JWS, signed with
// Ed25519, that permit one agent to run one approved call once. It is a pure
// function of keys, bytes and times: it never fetches a key, never follows
// anything that a token's header names, and accepts exactly one shape.
//
//	header  {"alg":"EdDSA","kid":<RFC 7638 thumbprint>,"typ":"holdpoint-resumption+jwt"}
//	claims  iss, aud, sub, iat, nbf, exp, jti, approval_id, outcome, digest,
//	        policy_digest and, when there are any, constraints
//
// A signature that verifies proves only that Holdpoint once signed these
// claims. Whether the token is still unspent is known to the database alone.
package token

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"holdpoint/engine/canon"
)

// Type is the token's typ header.
const Type = "holdpoint-resumption+jwt"

// DefaultTTL is how long a token is good where the setting token_ttl says nothing,
// MaxTTL the longest life that a token may claim, and MaxSize the longest
// text that is looked at, in bytes.
const (
	DefaultTTL = 10 * time.Minute
	MaxTTL     = 24 * time.Hour
	MaxSize    = 16 << 10
)

// ErrInvalid is wrapped by every reason for which a token is not believed. The
// reasons are for logs and the audit trail; a caller learns only the code.
var ErrInvalid = errors.New("the token is not valid")

// ErrUnknownKey is the ErrInvalid of a token whose key the ring does not have.
var ErrUnknownKey = fmt.Errorf("%w: no key has the id that it names", ErrInvalid)

// ErrExpired is returned for a genuine token outside its time.
var ErrExpired = errors.New("the token has expired or is not valid yet")

// Claims is what a token says. Times are whole seconds since 1970.
type Claims struct {
	Issuer       string          `json:"iss"`
	Audience     string          `json:"aud"` // the environment in which the call may run
	Subject      string          `json:"sub"` // the agent that may run it
	IssuedAt     int64           `json:"iat"`
	NotBefore    int64           `json:"nbf"`
	Expires      int64           `json:"exp"`
	ID           string          `json:"jti"`
	ApprovalID   string          `json:"approval_id"`
	Outcome      string          `json:"outcome"`
	Digest       string          `json:"digest"` // canon.Digest of the approved call
	PolicyDigest string          `json:"policy_digest"`
	Constraints  json.RawMessage `json:"constraints,omitempty"`
}

// Sign makes a token with the ring's first key.
func Sign(ring Ring, c Claims) (string, error) {
	if len(ring.keys) == 0 || ring.keys[0].private == nil {
		return "", errors.New("there is no signing key")
	}
	key := ring.keys[0]
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key.private, KeyID: key.id}},
		(&jose.SignerOptions{}).WithType(Type))
	if err != nil {
		return "", fmt.Errorf("make a signer: %w", err)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode claims: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return signed.CompactSerialize()
}

// Open returns the claims of a token that one of the ring's keys has signed for
// the issuer and audience, whatever its times: the caller checks those with
// Claims.At when it knows what time it is. kid is the key that signed it.
// Everything else is ErrInvalid: any other algorithm, type or header parameter,
// base64 that is padded or not canonical, JSON with two readings, a missing
// claim, a time that is no whole number, a life longer than MaxTTL.
func Open(ring Ring, raw, issuer, audience string) (c Claims, kid string, err error) {
	parts, err := split(raw)
	if err != nil {
		return c, "", err
	}
	kid, err = header(parts[0])
	if err != nil {
		return c, "", err
	}
	key, ok := ring.find(kid)
	if !ok {
		return c, kid, ErrUnknownKey
	}
	signed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return c, kid, invalid("it is no compact JWS")
	}
	payload, err := signed.Verify(key.public)
	if err != nil {
		return c, kid, invalid("the signature does not verify")
	}
	if c, err = claims(payload); err != nil {
		return c, kid, err
	}
	switch {
	case c.Issuer != issuer:
		return c, kid, invalid("another issuer signed it")
	case c.Audience != audience:
		return c, kid, invalid("it is for another environment")
	case c.Expires <= c.NotBefore || c.NotBefore < c.IssuedAt || c.Expires-c.IssuedAt > int64(MaxTTL/time.Second):
		return c, kid, invalid("its times make no sense")
	}
	return c, kid, nil
}

// At returns ErrExpired when the token is not good at now.
func (c Claims) At(now time.Time) error {
	if t := now.Unix(); t < c.NotBefore || t >= c.Expires {
		return ErrExpired
	}
	return nil
}

func invalid(why string) error { return fmt.Errorf("%w: %s", ErrInvalid, why) }

// split decodes the three parts of a compact serialization, each in the one
// canonical base64url spelling.
func split(raw string) ([3][]byte, error) {
	var parts [3][]byte
	if len(raw) > MaxSize {
		return parts, invalid("it is too long")
	}
	texts := strings.Split(raw, ".")
	if len(texts) != len(parts) {
		return parts, invalid("it has not three parts")
	}
	for i, text := range texts {
		// Go's decoder skips line breaks even when it is strict.
		if text == "" || strings.ContainsAny(text, "\r\n") {
			return parts, invalid("a part is empty or broken over lines")
		}
		var err error
		if parts[i], err = base64.RawURLEncoding.Strict().DecodeString(text); err != nil {
			return parts, invalid("a part is not canonical base64url")
		}
	}
	return parts, nil
}

// header returns the kid of a header that holds exactly alg, kid and typ.
func header(data []byte) (string, error) {
	h, err := canon.Parse(data)
	if err != nil {
		return "", invalid("its header is not strict JSON")
	}
	if h.Kind() != canon.ObjectKind || h.Len() != 3 || text(h, "alg") != string(jose.EdDSA) || text(h, "typ") != Type || text(h, "kid") == "" {
		return "", invalid("its header is not {alg EdDSA, kid, typ " + Type + "}")
	}
	return text(h, "kid"), nil
}

// claims reads the payload: strict JSON, all claims there, none other.
func claims(data []byte) (Claims, error) {
	var c Claims
	v, err := canon.Parse(data)
	if err != nil || v.Kind() != canon.ObjectKind {
		return c, invalid("its claims are not a strict JSON object")
	}
	required := map[string]*string{
		"iss": &c.Issuer, "aud": &c.Audience, "sub": &c.Subject, "jti": &c.ID, "approval_id": &c.ApprovalID,
		"outcome": &c.Outcome, "digest": &c.Digest, "policy_digest": &c.PolicyDigest,
	}
	for name, into := range required {
		if *into = text(v, name); *into == "" {
			return c, invalid("the claim " + name + " is missing or no text")
		}
	}
	times := map[string]*int64{"iat": &c.IssuedAt, "nbf": &c.NotBefore, "exp": &c.Expires}
	for name, into := range times {
		t, ok := v.Get(name)
		f := 0.0
		if ok && t.Kind() == canon.NumberKind {
			f = t.Float()
		}
		// Within 2^53 a float64 that is whole is exactly that whole number.
		if f < 1 || f > 1<<53 || f != float64(int64(f)) {
			return c, invalid("the claim " + name + " is missing or no whole number of seconds")
		}
		*into = int64(f)
	}
	known := len(required) + len(times)
	if limits, ok := v.Get("constraints"); ok {
		known++
		c.Constraints = limits.Canonical()
	}
	if v.Len() != known {
		return c, invalid("it holds a claim that we never make")
	}
	return c, nil
}

// text is an object's string member, or "".
func text(v canon.Value, name string) string {
	member, ok := v.Get(name)
	if !ok || member.Kind() != canon.StringKind {
		return ""
	}
	return member.Str()
}
