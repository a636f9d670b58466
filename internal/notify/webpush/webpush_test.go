package webpush

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"strings"
	"testing"
	"time"
)

func decode(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := base64url.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The example of RFC 8291, section 5 and appendix A.
const (
	exampleText     = "When I grow up, I want to be a watermelon"
	exampleSender   = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
	exampleBrowser  = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
	exampleP256DH   = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
	exampleAuth     = "BTBZMqHH6r4Tts7J_aSIgg"
	exampleSalt     = "DGv6ra1nlYgDCS1FRnbzlw"
	exampleBody     = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
	exampleEndpoint = "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV"
)

func TestExample(t *testing.T) {
	sender, err := ecdh.P256().NewPrivateKey(decode(t, exampleSender))
	if err != nil {
		t.Fatal(err)
	}
	s := Subscription{Endpoint: exampleEndpoint, P256DH: exampleP256DH, Auth: exampleAuth}
	got, err := encrypt(s, []byte(exampleText), 1, sender, decode(t, exampleSalt))
	if err != nil || base64url.EncodeToString(got) != exampleBody {
		t.Errorf("encrypted %s, %v", base64url.EncodeToString(got), err)
	}
	browser, err := ecdh.P256().NewPrivateKey(decode(t, exampleBrowser))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Decrypt(decode(t, exampleBody), browser, decode(t, exampleAuth))
	if err != nil || string(text) != exampleText {
		t.Errorf("decrypted %q, %v", text, err)
	}
}

func TestOnlyTheBrowserReadsIt(t *testing.T) {
	browser, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	auth := bytes.Repeat([]byte{7}, authSize)
	s := Subscription{Endpoint: exampleEndpoint, P256DH: base64url.EncodeToString(browser.PublicKey().Bytes()), Auth: base64url.EncodeToString(auth)}
	text := bytes.Repeat([]byte("x"), MaxText)
	body, err := Encrypt(s, text)
	if err != nil || len(body) != recordSize {
		t.Fatalf("%d bytes, %v; the longest text fills a record of %d", len(body), err, recordSize)
	}
	if got, err := Decrypt(body, browser, auth); err != nil || !bytes.Equal(got, text) {
		t.Errorf("decrypted %d bytes, %v", len(got), err)
	}
	if _, err := Decrypt(body, other, auth); err == nil {
		t.Error("another browser reads it")
	}
	if _, err := Decrypt(body, browser, make([]byte, authSize)); err == nil {
		t.Error("it is read without the subscription's secret")
	}
	again, err := Encrypt(s, text)
	if err != nil || bytes.Equal(again, body) {
		t.Errorf("the same twice, %v", err)
	}
	for i := range body {
		changed := bytes.Clone(body)
		changed[i] ^= 1
		// The record's size is only a bound.
		if _, err := Decrypt(changed, browser, auth); err == nil && (i < saltSize || i >= saltSize+4) {
			t.Fatalf("it is read with another byte %d", i)
		}
	}
	for _, n := range []int{0, 1, padding - 2, padding - 1, padding, 3*padding - 1, 3 * padding, MaxText - 1} {
		body, err := Encrypt(s, text[:n])
		if got, wrong := Decrypt(body, browser, auth); err != nil || wrong != nil || !bytes.Equal(got, text[:n]) {
			t.Errorf("%d bytes: %d come back, %v, %v", n, len(got), err, wrong)
		}
		if want := min(headerSize+16+(n/padding+1)*padding, recordSize); len(body) != want {
			t.Errorf("%d bytes of text are %d, want %d", n, len(body), want)
		}
	}
	if _, err := Encrypt(s, append(text, 'x')); err == nil {
		t.Error("a text that is too long is encrypted")
	}
}

func TestSubscriptionCheck(t *testing.T) {
	good := Subscription{Endpoint: exampleEndpoint, P256DH: exampleP256DH, Auth: exampleAuth}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	offCurve := base64url.EncodeToString(append([]byte{4}, bytes.Repeat([]byte{9}, publicSize-1)...))
	for name, s := range map[string]Subscription{
		"no keys":        {Endpoint: exampleEndpoint},
		"off the curve":  {P256DH: offCurve, Auth: exampleAuth},
		"a short key":    {P256DH: exampleP256DH[:40], Auth: exampleAuth},
		"no base64url":   {P256DH: exampleP256DH + "=", Auth: exampleAuth},
		"a short secret": {P256DH: exampleP256DH, Auth: exampleAuth[:20]},
		"no secret":      {P256DH: exampleP256DH},
	} {
		err := s.Check()
		if err == nil {
			t.Errorf("%s: nothing is wrong", name)
		} else if s.Auth != "" && strings.Contains(err.Error(), s.Auth) {
			t.Errorf("%s: the error quotes the secret", name)
		}
		if _, err := Encrypt(s, []byte("x")); err == nil {
			t.Errorf("%s: something is encrypted", name)
		}
	}
}

func TestKey(t *testing.T) {
	text, err := NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k, err := ParseKey(text)
	if err != nil || !k.There() || len(decode(t, k.Public())) != publicSize {
		t.Fatalf("%v, public %q", err, k.Public())
	}
	now := time.Unix(1_800_000_000, 0)
	header, err := k.Authorization(exampleEndpoint, "https://holdpoint.example.com", now)
	if err != nil {
		t.Fatal(err)
	}
	token, public, _ := strings.Cut(strings.TrimPrefix(header, "vapid t="), ", k=")
	parts := strings.Split(token, ".")
	if len(parts) != 3 || public != k.Public() {
		t.Fatalf("header %s", header)
	}
	if want := `{"aud":"https://push.example.net","exp":1800043200,"sub":"https://holdpoint.example.com"}`; string(decode(t, parts[1])) != want {
		t.Errorf("claims %s, want %s", decode(t, parts[1]), want)
	}
	if len(decode(t, parts[2])) != 64 {
		t.Errorf("a signature of %d bytes", len(decode(t, parts[2])))
	}
	if _, err := k.Authorization("/push", "", now); err == nil {
		t.Error("a token for no service")
	}
	for _, bad := range []string{"", "x", text + "AA", base64url.EncodeToString(make([]byte, 32))} {
		if k, err := ParseKey(bad); err == nil || k.There() || bad != "" && len(bad) > 3 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q is read as a key, or quoted: %v", bad, err)
		}
	}
	if (Key{}).Public() != "" {
		t.Error("no key has a public half")
	}
}

func FuzzDecrypt(f *testing.F) {
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	raw, err := base64url.DecodeString(exampleBody)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, body []byte) {
		if text, err := Decrypt(body, private, make([]byte, authSize)); err == nil {
			t.Errorf("a stranger's body is read: %q", text)
		}
	})
}
