package token

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func ring(t testing.TB, seeds ...byte) Ring {
	t.Helper()
	var r Ring
	for _, s := range seeds {
		var err error
		if r, err = r.Add(bytes.Repeat([]byte{s}, ed25519.SeedSize)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func sample() Claims {
	return Claims{
		Issuer: "iss", Audience: "prod", Subject: "bot", IssuedAt: now.Unix(), NotBefore: now.Unix(), Expires: now.Add(10 * time.Minute).Unix(),
		ID: "tok_1", ApprovalID: "apr_1", Outcome: "APPROVED", Digest: "sha256:d", PolicyDigest: "sha256:p", Constraints: json.RawMessage(`{"max":1}`),
	}
}

func sign(t testing.TB, r Ring, c Claims) string {
	t.Helper()
	raw, err := Sign(r, c)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestOpenReturnsWhatWasSigned(t *testing.T) {
	r := ring(t, 1)
	got, kid, err := Open(r, sign(t, r, sample()), "iss", "prod")
	if err != nil || kid != r.IDs()[0] {
		t.Fatalf("kid %s, %v", kid, err)
	}
	if fmt.Sprint(got) != fmt.Sprint(sample()) {
		t.Errorf("got %+v, want %+v", got, sample())
	}
	for at, want := range map[time.Duration]error{-time.Second: ErrExpired, 0: nil, 10*time.Minute - 1: nil, 10 * time.Minute: ErrExpired} {
		if err := got.At(now.Add(at)); !errors.Is(err, want) {
			t.Errorf("at %s: %v, want %v", at, err, want)
		}
	}
}

func TestRotation(t *testing.T) {
	old := ring(t, 1)
	raw := sign(t, old, sample())
	both := ring(t, 1, 2)
	if _, _, err := Open(both, raw, "iss", "prod"); err != nil {
		t.Errorf("after rotation: %v", err)
	}
	if _, _, err := Open(both.Keep(1), raw, "iss", "prod"); !errors.Is(err, ErrInvalid) {
		t.Errorf("after the key is dropped: %v", err)
	}
	if _, kid, err := Open(both, sign(t, both, sample()), "iss", "prod"); err != nil || kid == old.IDs()[0] {
		t.Errorf("the new key does not sign: %s, %v", kid, err)
	}
}

// forge puts a token together by hand, signed with the ring's key.
func forge(r Ring, header, payload string) string {
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(header)) + "." + encode([]byte(payload))
	return signed + "." + encode(ed25519.Sign(r.keys[0].private, []byte(signed)))
}

func TestOpenRefuses(t *testing.T) {
	r, other := ring(t, 1), ring(t, 9)
	raw := sign(t, r, sample())
	parts := strings.Split(raw, ".")
	kid := r.IDs()[0]
	header := `{"alg":"EdDSA","kid":"` + kid + `","typ":"` + Type + `"}`
	body, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	payload := string(body)
	change := func(from, to string) string { return forge(r, header, strings.Replace(payload, from, to, 1)) }
	withHeader := func(extra string) string {
		return forge(r, strings.TrimSuffix(header, "}")+","+extra+"}", payload)
	}
	if _, _, err := Open(r, forge(r, header, payload), "iss", "prod"); err != nil {
		t.Fatalf("the forger's own good token: %v", err)
	}
	hs := func() string {
		signed := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(header, "EdDSA", "HS256", 1))) + "." + parts[1]
		mac := hmac.New(sha256.New, r.keys[0].public)
		mac.Write([]byte(signed))
		return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	// The last character of an Ed25519 signature carries four unused bits.
	last := parts[2][len(parts[2])-1]
	alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	sloppy := parts[2][:len(parts[2])-1] + string(alphabet[strings.IndexByte(alphabet, last)+1])
	exp := fmt.Sprintf(`"exp":%d`, sample().Expires)
	for name, raw := range map[string]string{
		"empty":                   "",
		"no token":                "x",
		"two parts":               parts[0] + "." + parts[1],
		"four parts":              raw + ".x",
		"empty signature":         parts[0] + "." + parts[1] + ".",
		"another key":             sign(t, other, sample()),
		"alg none":                forge(r, strings.Replace(header, "EdDSA", "none", 1), payload),
		"HS256 with public key":   hs(),
		"other alg name":          forge(r, strings.Replace(header, "EdDSA", "ES256", 1), payload),
		"case of alg":             forge(r, strings.Replace(header, "EdDSA", "eddsa", 1), payload),
		"kid unknown":             forge(r, strings.Replace(header, kid, "x", 1), payload),
		"kid a path":              forge(r, strings.Replace(header, kid, "../../etc/passwd", 1), payload),
		"kid a URL":               forge(r, strings.Replace(header, kid, "https://evil.example/k", 1), payload),
		"no typ":                  forge(r, `{"alg":"EdDSA","kid":"`+kid+`"}`, payload),
		"other typ":               forge(r, strings.Replace(header, Type, "JWT", 1), payload),
		"jwk header":              withHeader(`"jwk":{"kty":"OKP","crv":"Ed25519","x":"AA"}`),
		"jku header":              withHeader(`"jku":"https://evil.example"`),
		"x5u header":              withHeader(`"x5u":"https://evil.example"`),
		"crit header":             withHeader(`"crit":["exp"]`),
		"duplicate header":        withHeader(`"kid":"` + kid + `"`),
		"escaped duplicate":       withHeader(`"k\u0069d":"` + kid + `"`),
		"padded":                  parts[0] + "=." + parts[1] + "." + parts[2],
		"line break":              parts[0] + "." + parts[1] + "." + parts[2][:10] + "\n" + parts[2][10:],
		"not canonical base64":    parts[0] + "." + parts[1] + "." + sloppy,
		"standard base64":         parts[0] + "." + parts[1] + ".+/" + parts[2][2:],
		"changed claims":          parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(payload, "bot", "bat", 1))) + "." + parts[2],
		"duplicate claim":         change(`{"iss"`, `{"sub":"x","iss"`),
		"no exp":                  change(exp, `"exp2":1`),
		"float exp":               change(exp, exp+".5"),
		"exp as text":             change(exp, fmt.Sprintf(`"exp":"%d"`, sample().Expires)),
		"huge exp":                change(exp, `"exp":1e18`),
		"a year":                  change(exp, fmt.Sprintf(`"exp":%d`, now.Add(365*24*time.Hour).Unix())),
		"negative exp":            change(exp, `"exp":-5`),
		"unknown claim":           change(`{"iss"`, `{"admin":true,"iss"`),
		"empty sub":               change(`"bot"`, `""`),
		"sub no text":             change(`"bot"`, `["bot"]`),
		"claims no object":        forge(r, header, `[]`),
		"too long":                raw + strings.Repeat("A", MaxSize),
		"white space":             " " + raw,
		"JSON serialization":      `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"trailing data in header": forge(r, header+" {}", payload),
	} {
		if got, _, err := Open(r, raw, "iss", "prod"); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: opened as %+v, %v", name, got, err)
		}
	}
	if _, _, err := Open(r, raw, "other", "prod"); !errors.Is(err, ErrInvalid) {
		t.Errorf("another issuer: %v", err)
	}
	if _, _, err := Open(r, raw, "iss", "dev"); !errors.Is(err, ErrInvalid) {
		t.Errorf("another audience: %v", err)
	}
}

func TestRingsReadBackAndKeepSecrets(t *testing.T) {
	r := ring(t, 1, 2)
	data, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseRing(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(back, sign(t, r, sample()), "iss", "prod"); err != nil {
		t.Error(err)
	}
	public, err := r.PublicSet(r.IDs()[:1])
	if err != nil || bytes.Contains(public, []byte(`"d"`)) || bytes.Contains(public, []byte(r.IDs()[0])) || !bytes.Contains(public, []byte(r.IDs()[1])) {
		t.Errorf("public set %s, %v", public, err)
	}
	for name, text := range map[string]string{
		"nothing":      ``,
		"no keys":      `{"keys":[]}`,
		"public first": string(public),
		"an RSA key":   `{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`,
		"twice":        strings.Replace(string(data), `"keys": [`, `"keys": [`+jsonFirst(t, data)+`,`, 1),
		"a false kid":  strings.Replace(string(data), r.IDs()[0], "x", 1),
	} {
		if _, err := ParseRing([]byte(text)); err == nil {
			t.Errorf("%s: read as a ring", name)
		}
	}
}

func jsonFirst(t *testing.T, data []byte) string {
	t.Helper()
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	return string(set.Keys[0])
}

// FuzzOpen looks for anything but the signed bytes that opens.
func FuzzOpen(f *testing.F) {
	r := ring(f, 1)
	good := sign(f, r, sample())
	f.Add(good)
	f.Add(strings.ToUpper(good))
	f.Add("..")
	f.Fuzz(func(t *testing.T, raw string) {
		if _, _, err := Open(r, raw, "iss", "prod"); err == nil && raw != good {
			t.Errorf("opened %q", raw)
		}
	})
}
