package holdpoint

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	testKey = ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	testNow = time.Unix(1_800_000_000, 0)
	testX   = b64(testKey.Public().(ed25519.PublicKey))
	testKid = func() string {
		sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + testX + `"}`))
		return b64(sum[:])
	}()
	testSet = []byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},{"use":"sig","kty":"OKP","kid":"` + testKid + `","crv":"Ed25519","alg":"EdDSA","x":"` + testX + `"}]}`)
	expect  = Expect{Issuer: "urn:holdpoint:dev", Audience: "dev", Now: testNow}
)

const (
	goodTail   = `"sub":"demo-agent","jti":"tok_1","approval_id":"apr_1","outcome":"APPROVED","digest":"sha256:00","policy_digest":"sha256:11"`
	goodTimes  = `"iat":1799999990,"nbf":1799999990,"exp":1800000590`
	goodClaims = `{"iss":"urn:holdpoint:dev","aud":"dev",` + goodTimes + `,` + goodTail + `}`
)

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func goodHeader() string { return `{"alg":"EdDSA","kid":"` + testKid + `","typ":"` + TokenType + `"}` }

func sign(header, claims string) string {
	signed := b64([]byte(header)) + "." + b64([]byte(claims))
	return signed + "." + b64(ed25519.Sign(testKey, []byte(signed)))
}

func TestVerifyToken(t *testing.T) {
	c, err := VerifyToken(testSet, sign(goodHeader(), goodClaims), expect)
	if err != nil {
		t.Fatal(err)
	}
	if c.ApprovalID != "apr_1" || c.Subject != "demo-agent" || c.Expires != 1800000590 || c.Constraints != nil {
		t.Errorf("got %+v", c)
	}
	c, err = VerifyToken(testSet, sign(goodHeader(), strings.Replace(goodClaims, `{`, `{"later":[1],"constraints":{"max":1},`, 1)), expect)
	if err != nil || string(c.Constraints) != `{"max":1}` {
		t.Errorf("with constraints and a claim of a later version: %+v, %v", c, err)
	}
}

func TestVerifyTokenRefuses(t *testing.T) {
	good := sign(goodHeader(), goodClaims)
	parts := strings.Split(good, ".")
	other := func(from, to string) string { return sign(goodHeader(), strings.Replace(goodClaims, from, to, 1)) }
	mac := hmac.New(sha256.New, testKey.Public().(ed25519.PublicKey))
	hs := b64([]byte(strings.Replace(goodHeader(), "EdDSA", "HS256", 1))) + "." + parts[1]
	mac.Write([]byte(hs))
	for name, token := range map[string]string{
		"empty":               "",
		"two parts":           parts[0] + "." + parts[1],
		"four parts":          good + ".AA",
		"too long":            good + strings.Repeat("A", maxTokenSize),
		"padded":              good + "==",
		"broken over lines":   parts[0] + "." + parts[1] + ".\n" + parts[2],
		"stray bits":          good[:len(good)-1] + string(good[len(good)-1]+1),
		"another signature":   parts[0] + "." + parts[1] + "." + b64(make([]byte, ed25519.SignatureSize)),
		"short signature":     parts[0] + "." + parts[1] + ".AAAA",
		"claims swapped":      parts[0] + "." + b64([]byte(strings.Replace(goodClaims, "apr_1", "apr_2", 1))) + "." + parts[2],
		"alg none":            b64([]byte(`{"alg":"none","kid":"`+testKid+`","typ":"`+TokenType+`"}`)) + "." + parts[1] + "." + parts[2],
		"HS256 by public key": hs + "." + b64(mac.Sum(nil)),
		"alg in lower case":   sign(strings.Replace(goodHeader(), "EdDSA", "eddsa", 1), goodClaims),
		"typ JWT":             sign(strings.Replace(goodHeader(), TokenType, "JWT", 1), goodClaims),
		"kid unknown":         sign(strings.Replace(goodHeader(), testKid, "../../etc/passwd", 1), goodClaims),
		"no kid":              sign(`{"alg":"EdDSA","typ":"`+TokenType+`"}`, goodClaims),
		"crit":                sign(strings.Replace(goodHeader(), `{`, `{"crit":["exp"],`, 1), goodClaims),
		"jwk":                 sign(strings.Replace(goodHeader(), `{`, `{"jwk":{"x":"`+testX+`"},`, 1), goodClaims),
		"jku":                 sign(strings.Replace(goodHeader(), `{`, `{"jku":"http://127.0.0.1/",`, 1), goodClaims),
		"alg twice":           sign(strings.Replace(goodHeader(), `{`, `{"alg":"EdDSA",`, 1), goodClaims),
		"issuer":              other("urn:holdpoint:dev", "urn:holdpoint:other"),
		"audience":            other(`"aud":"dev"`, `"aud":"prod"`),
		"audience a list":     other(`"aud":"dev"`, `"aud":["dev"]`),
		"sub twice":           other(goodTail, goodTail+`,"sub":"other"`),
		"sub in other case":   other(goodTail, goodTail+`,"SUB":"other"`),
		"sub escaped twice":   other(goodTail, goodTail+`,"\u0073ub":"other"`),
		"no exp":              other(`,"exp":1800000590`, ``),
		"exp a fraction":      other(`1800000590`, `1800000590.5`),
		"exp with exponent":   other(`1800000590`, `1.80000059e9`),
		"exp a string":        other(`1800000590`, `"1800000590"`),
		"exp huge":            other(`1800000590`, `99999999999`),
		"exp beyond 2^53":     other(`1800000590`, `9007199254740993`),
		"expired":             other(goodTimes, `"iat":1799999000,"nbf":1799999000,"exp":1800000000`),
		"not yet":             other(goodTimes, `"iat":1799999990,"nbf":1800000001,"exp":1800000590`),
		"nbf before iat":      other(goodTimes, `"iat":1799999991,"nbf":1799999990,"exp":1800000590`),
		"no jti":              other(`"jti":"tok_1",`, ``),
		"constraints a list":  other(goodTail, goodTail+`,"constraints":[]`),
		"trailing data":       sign(goodHeader(), goodClaims+"{}"),
		"claims a list":       sign(goodHeader(), `[]`),
		"invalid UTF-8":       sign(goodHeader(), strings.Replace(goodClaims, "tok_1", "tok_\xff", 1)),
	} {
		if c, err := VerifyToken(testSet, token, expect); !errors.Is(err, ErrToken) || c.ApprovalID != "" {
			t.Errorf("%s: got %+v, %v, want ErrToken", name, c, err)
		}
	}
	for name, want := range map[string]Expect{
		"another agent": {Issuer: expect.Issuer, Audience: expect.Audience, Now: testNow, Subject: "other"},
		"another call":  {Issuer: expect.Issuer, Audience: expect.Audience, Now: testNow, Digest: "sha256:22"},
	} {
		if _, err := VerifyToken(testSet, good, want); !errors.Is(err, ErrToken) {
			t.Errorf("%s: got %v, want ErrToken", name, err)
		}
	}
}

func TestVerifyTokenNeedsKeysAndExpectations(t *testing.T) {
	good := sign(goodHeader(), goodClaims)
	for name, set := range map[string]string{
		"no JSON":         `keys`,
		"no key":          `{"keys":[]}`,
		"only other kind": `{"keys":[{"kty":"RSA","n":"AA","e":"AQAB"}]}`,
		"kid is not it":   `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"` + testX + `"}]}`,
		"no kid":          `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + testX + `"}]}`,
		"x too short":     `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AAAA"}]}`,
		"x twice":         `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"` + testKid + `","x":"AAAA","x":"` + testX + `"}]}`,
		"for encryption":  `{"keys":[{"use":"enc","kty":"OKP","crv":"Ed25519","kid":"` + testKid + `","x":"` + testX + `"}]}`,
	} {
		if _, err := VerifyToken([]byte(set), good, expect); err == nil {
			t.Errorf("%s: the token is believed", name)
		}
	}
	for _, want := range []Expect{{}, {Issuer: "i", Audience: "a"}, {Issuer: "i", Now: testNow}, {Audience: "a", Now: testNow}} {
		if _, err := VerifyToken(testSet, good, want); err == nil {
			t.Errorf("%+v: expecting nothing is enough", want)
		}
	}
}

// FuzzVerifyToken looks for a token other than the signed one that is
// believed, and for a panic.
func FuzzVerifyToken(f *testing.F) {
	good := sign(goodHeader(), goodClaims)
	f.Add(good)
	f.Add(good + "=")
	f.Add(strings.Replace(good, ".", "..", 1))
	f.Add(sign(goodHeader(), `{}`))
	f.Add(fmt.Sprintf("%s.%s.", b64([]byte(`{"alg":"none"}`)), b64([]byte(goodClaims))))
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := VerifyToken(testSet, token, expect); err == nil && token != good {
			t.Errorf("believed: %q", token)
		}
	})
}

// FuzzClaims looks for a panic where claims, headers and keys are read, and for
// a name that is read twice.
func FuzzClaims(f *testing.F) {
	f.Add([]byte(goodClaims))
	f.Add([]byte(goodHeader()))
	f.Add(testSet)
	f.Add([]byte(`{"a":1,"\u0061":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = parseHeader(data)
		_, _ = parseKeys(data)
		if c, err := parseClaims(data); err == nil && (c.Expires < 1 || c.Subject == "") {
			t.Errorf("incomplete claims were read from %q", data)
		}
	})
}
