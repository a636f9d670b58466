package holdpoint

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// TokenType is the typ header of a resumption token.
const TokenType = "holdpoint-resumption+jwt"

// Bounds of what VerifyToken looks at.
const (
	maxTokenSize = 16 << 10
	maxTokenLife = 24 * 60 * 60 // seconds
)

// ErrToken is wrapped by every reason for which a token is not believed. No
// reason quotes the token.
var ErrToken = errors.New("the token is not valid")

// Claims is what a token says. Times are whole seconds since 1970.
type Claims struct {
	Issuer       string
	Audience     string // the environment in which the call may run
	Subject      string // the agent that may run it
	IssuedAt     int64
	NotBefore    int64
	Expires      int64
	ID           string
	ApprovalID   string
	Outcome      string
	Digest       string // of tool and arguments
	PolicyDigest string
	Constraints  json.RawMessage // nil when there are none
}

// Expect is what a token has to say to be believed. Issuer, Audience and Now
// are required; Subject and Digest are compared when they are not empty.
type Expect struct {
	Issuer   string
	Audience string
	Subject  string
	Digest   string
	Now      time.Time
}

// VerifyToken checks a resumption token offline against a JSON Web Key Set
// (the server's /.well-known/jwks.json) and returns its claims. It accepts one
// shape: a compact JWS whose header holds exactly alg EdDSA, typ TokenType and
// the kid of an Ed25519 key in the set, in canonical base64url, with claims
// that name no member twice and times that make sense and include Now. Claims
// that this client does not know are passed over.
//
// Genuine is not unspent: only redeeming a token tells whether it still
// permits anything. Use this where a service wants to see an agent's permission
// before it asks the server, or afterwards, as evidence.
func VerifyToken(jwks []byte, token string, want Expect) (Claims, error) {
	if want.Issuer == "" || want.Audience == "" || want.Now.IsZero() {
		return Claims{}, errors.New("say which issuer and audience are expected, and what time it is")
	}
	keys, err := parseKeys(jwks)
	if err != nil {
		return Claims{}, err
	}
	header, payload, signature, err := split(token)
	if err != nil {
		return Claims{}, err
	}
	kid, err := parseHeader(header)
	if err != nil {
		return Claims{}, err
	}
	key, ok := keys[kid]
	if !ok {
		return Claims{}, invalid("no key of the set has the id that it names")
	}
	signed := token[:strings.LastIndexByte(token, '.')]
	if len(signature) != ed25519.SignatureSize || !ed25519.Verify(key, []byte(signed), signature) {
		return Claims{}, invalid("the signature does not verify")
	}
	c, err := parseClaims(payload)
	if err != nil {
		return Claims{}, err
	}
	now := want.Now.Unix()
	switch {
	case c.Issuer != want.Issuer:
		err = invalid("another issuer signed it")
	case c.Audience != want.Audience:
		err = invalid("it is for another environment")
	case want.Subject != "" && c.Subject != want.Subject:
		err = invalid("it is another agent's")
	case want.Digest != "" && c.Digest != want.Digest:
		err = invalid("it is for another call")
	case c.NotBefore < c.IssuedAt || c.Expires <= c.NotBefore || c.Expires-c.IssuedAt > maxTokenLife:
		err = invalid("its times make no sense")
	case now < c.NotBefore:
		err = invalid("it is not valid yet")
	case now >= c.Expires:
		err = invalid("it has expired")
	}
	if err != nil {
		return Claims{}, err
	}
	return c, nil
}

func invalid(why string) error { return fmt.Errorf("%w: %s", ErrToken, why) }

// split decodes the three parts of a compact serialization.
func split(token string) (header, payload, signature []byte, err error) {
	if len(token) > maxTokenSize {
		return nil, nil, nil, invalid("it is too long")
	}
	texts := strings.Split(token, ".")
	if len(texts) != 3 {
		return nil, nil, nil, invalid("it has not three parts")
	}
	var parts [3][]byte
	for i, text := range texts {
		if parts[i], err = decode(text); err != nil {
			return nil, nil, nil, invalid("a part is not canonical base64url")
		}
	}
	return parts[0], parts[1], parts[2], nil
}

// decode reads base64url in its one canonical spelling: no padding, no stray
// bits, no line breaks (which Go's decoder skips even when it is strict).
func decode(text string) ([]byte, error) {
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("empty or broken over lines")
	}
	return base64.RawURLEncoding.Strict().DecodeString(text)
}

// parseHeader returns the kid of a header that holds exactly alg, kid and typ.
func parseHeader(data []byte) (string, error) {
	h, err := object(data)
	if err != nil {
		return "", invalid("its header is not strict JSON")
	}
	if len(h) != 3 || text(h["alg"]) != "EdDSA" || text(h["typ"]) != TokenType || text(h["kid"]) == "" {
		return "", invalid("its header is not {alg EdDSA, kid, typ " + TokenType + "}")
	}
	return text(h["kid"]), nil
}

func parseClaims(data []byte) (Claims, error) {
	var c Claims
	m, err := object(data)
	if err != nil {
		return c, invalid("its claims are not strict JSON")
	}
	for _, claim := range []struct {
		name string
		into *string
	}{
		{"iss", &c.Issuer},
		{"aud", &c.Audience},
		{"sub", &c.Subject},
		{"jti", &c.ID},
		{"approval_id", &c.ApprovalID},
		{"outcome", &c.Outcome},
		{"digest", &c.Digest},
		{"policy_digest", &c.PolicyDigest},
	} {
		if *claim.into = text(m[claim.name]); *claim.into == "" {
			return c, invalid("the claim " + claim.name + " is missing or no text")
		}
	}
	for _, claim := range []struct {
		name string
		into *int64
	}{{"iat", &c.IssuedAt}, {"nbf", &c.NotBefore}, {"exp", &c.Expires}} {
		// Plain digits only: no fraction, no exponent, nothing beyond 2^53.
		n, err := strconv.ParseInt(string(m[claim.name]), 10, 64)
		if err != nil || n < 1 || n > 1<<53 {
			return c, invalid("the claim " + claim.name + " is missing or no whole number of seconds")
		}
		*claim.into = n
	}
	if limits, ok := m["constraints"]; ok {
		if _, err := object(limits); err != nil {
			return c, invalid("its constraints are not an object")
		}
		c.Constraints = limits
	}
	return c, nil
}

// parseKeys returns the set's Ed25519 keys by their ids. Keys of other kinds
// and for other uses are passed over; a key whose id is not its RFC 7638
// thumbprint spoils the set.
func parseKeys(jwks []byte) (map[string]ed25519.PublicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(jwks, &set); err != nil {
		return nil, errors.New("the keys are not a JSON Web Key Set")
	}
	keys := make(map[string]ed25519.PublicKey, len(set.Keys))
	for i, raw := range set.Keys {
		k, err := object(raw)
		if err != nil {
			return nil, fmt.Errorf("keys[%d]: it is not strict JSON", i)
		}
		if text(k["kty"]) != "OKP" || text(k["crv"]) != "Ed25519" || k["alg"] != nil && text(k["alg"]) != "EdDSA" || k["use"] != nil && text(k["use"]) != "sig" {
			continue
		}
		x, err := decode(text(k["x"]))
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("keys[%d]: x is not an Ed25519 public key", i)
		}
		sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + text(k["x"]) + `"}`))
		id := base64.RawURLEncoding.EncodeToString(sum[:])
		if given := text(k["kid"]); given != id {
			return nil, fmt.Errorf("keys[%d]: its kid is not its RFC 7638 thumbprint", i)
		}
		keys[id] = x
	}
	if len(keys) == 0 {
		return nil, errors.New("the set holds no Ed25519 key")
	}
	return keys, nil
}

// object reads one JSON object whose names are all different, also when case
// is disregarded, with nothing after it.
func object(data []byte) (map[string]json.RawMessage, error) {
	bad := errors.New("not one object with one reading")
	if !utf8.Valid(data) {
		return nil, bad
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, bad
	}
	members, folded := map[string]json.RawMessage{}, map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, bad
		}
		key, ok := name.(string)
		fold := strings.ToLower(key)
		if !ok || folded[fold] {
			return nil, bad
		}
		folded[fold] = true
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return nil, bad
		}
		members[key] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, bad
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, bad
	}
	return members, nil
}

// text is a JSON string's text, or "" for anything else.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
