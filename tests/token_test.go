package tests

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// craft makes a token with Holdpoint's own key and any header and claims.
func craft(key ed25519.PrivateKey, header, claims string) string {
	signed := b64([]byte(header)) + "." + b64([]byte(claims))
	return signed + "." + b64(ed25519.Sign(key, []byte(signed)))
}

// signingKey is the key with which a dev signs.
func (d *dev) signingKey(t testing.TB) (ed25519.PrivateKey, string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, "signing-keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	return set.Keys[0].Key.(ed25519.PrivateKey), set.Keys[0].KeyID
}

// TestForgedTokens: even who has the signing key gets nothing for a token of
// another shape, and nothing at all is fetched on a token's word.
func TestForgedTokens(t *testing.T) {
	d := onShared(t)
	agent := d.agent(t)
	a := agent.hold("forged", nil)
	d.reviewer(t, 0).approve(a)
	genuine := agent.wait(a.ID).Token
	private, kid := d.signingKey(t)
	parts := strings.Split(genuine, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	head, claims := fmt.Sprintf(`{"alg":"EdDSA","kid":%q,"typ":"holdpoint-resumption+jwt"}`, kid), string(raw)

	// Whoever follows a link of a token's is caught here.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var followed atomic.Int32
	trap := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		followed.Add(1)
		own := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private.Public(), KeyID: "mine", Algorithm: "EdDSA"}}}
		_ = json.NewEncoder(w).Encode(own)
	})}
	go func() { _ = trap.Serve(l) }()
	defer trap.Close()
	link := "http://" + l.Addr().String() + "/jwks.json"

	_, stranger, _ := ed25519.GenerateKey(nil) // never fails
	edit := func(edits map[string]any) string {
		var m map[string]any
		_ = json.Unmarshal(raw, &m) // it is our own
		for name, value := range edits {
			if m[name] = value; value == nil {
				delete(m, name)
			}
		}
		data, _ := json.Marshal(m)
		return craft(private, head, string(data))
	}
	header := func(h string) string { return craft(private, h, claims) }
	symmetric := func(secret []byte) string {
		signed := b64([]byte(fmt.Sprintf(`{"alg":"HS256","kid":%q,"typ":"holdpoint-resumption+jwt"}`, kid))) + "." + parts[1]
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(signed))
		return signed + "." + b64(mac.Sum(nil))
	}
	public := private.Public().(ed25519.PublicKey)
	jwk, _ := json.Marshal(jose.JSONWebKey{Key: stranger.Public(), KeyID: kid, Algorithm: "EdDSA"})
	withHeader := func(more string) string {
		return fmt.Sprintf(`{"alg":"EdDSA","kid":%q,"typ":"holdpoint-resumption+jwt",%s}`, kid, more)
	}
	now := time.Now().Unix()
	forged := map[string]string{
		"empty": "", "a word": "token", "two parts": parts[0] + "." + parts[1], "four parts": genuine + ".x", "JSON form": `{"payload":"` + parts[1] + `"}`,
		"alg none":                  b64([]byte(fmt.Sprintf(`{"alg":"none","kid":%q,"typ":"holdpoint-resumption+jwt"}`, kid))) + "." + parts[1] + ".",
		"alg none, signed":          header(fmt.Sprintf(`{"alg":"none","kid":%q,"typ":"holdpoint-resumption+jwt"}`, kid)),
		"alg None":                  header(fmt.Sprintf(`{"alg":"None","kid":%q,"typ":"holdpoint-resumption+jwt"}`, kid)),
		"HS256 with the public key": symmetric(public), "HS256 with the public key's text": symmetric([]byte(b64(public))), "HS256 with nothing": symmetric(nil),
		"alg Ed25519": header(fmt.Sprintf(`{"alg":"Ed25519","kid":%q,"typ":"holdpoint-resumption+jwt"}`, kid)),
		"alg RS256":   header(fmt.Sprintf(`{"alg":"RS256","kid":%q,"typ":"holdpoint-resumption+jwt"}`, kid)),
		"alg eddsa":   header(fmt.Sprintf(`{"alg":"eddsa","kid":%q,"typ":"holdpoint-resumption+jwt"}`, kid)),
		"no typ":      header(fmt.Sprintf(`{"alg":"EdDSA","kid":%q}`, kid)), "typ JWT": header(fmt.Sprintf(`{"alg":"EdDSA","kid":%q,"typ":"JWT"}`, kid)),
		"no kid": header(`{"alg":"EdDSA","typ":"holdpoint-resumption+jwt"}`), "unknown kid": header(`{"alg":"EdDSA","kid":"other","typ":"holdpoint-resumption+jwt"}`),
		"kid a path": header(`{"alg":"EdDSA","kid":"../../../../dev/null","typ":"holdpoint-resumption+jwt"}`),
		"kid a URL":  header(fmt.Sprintf(`{"alg":"EdDSA","kid":%q,"typ":"holdpoint-resumption+jwt"}`, link)),
		"kid SQL":    header(`{"alg":"EdDSA","kid":"' OR 1=1 --","typ":"holdpoint-resumption+jwt"}`),
		"jku":        header(withHeader(`"jku":"` + link + `"`)), "x5u": header(withHeader(`"x5u":"` + link + `"`)), "x5c": header(withHeader(`"x5c":["MIIB"]`)),
		"jwk": craft(stranger, withHeader(`"jwk":`+string(jwk)), claims), "crit": header(withHeader(`"crit":["exp"]`)), "b64": header(withHeader(`"b64":false,"crit":["b64"]`)),
		"zip": header(withHeader(`"zip":"DEF"`)), "cty": header(withHeader(`"cty":"JWT"`)), "alg twice": header(fmt.Sprintf(`{"alg":"none","alg":"EdDSA","kid":%q,"typ":"holdpoint-resumption+jwt"}`, kid)),
		"a stranger's key": craft(stranger, head, claims), "another payload": parts[0] + "." + b64([]byte(strings.Replace(claims, "dev", "eve", 1))) + "." + parts[2],
		"no signature": parts[0] + "." + parts[1] + ".", "half a signature": genuine[:len(genuine)-20],
		"padded": parts[0] + "." + parts[1] + "." + parts[2] + "==", "padded claims": parts[0] + "." + parts[1] + "=." + parts[2], "standard base64": parts[0] + "." + parts[1] + "." + strings.NewReplacer("-", "+", "_", "/").Replace(parts[2]) + "+",
		"another last letter": genuine[:len(genuine)-1] + string(otherTail(genuine[len(genuine)-1])), "a line break": parts[0] + ".\n" + parts[1] + "." + parts[2], "a blank": " " + genuine, "a trailing line": genuine + "\n",
		"another issuer": edit(map[string]any{"iss": "urn:holdpoint:other"}), "another audience": edit(map[string]any{"aud": "production"}), "audiences": edit(map[string]any{"aud": []string{"dev"}}),
		"another digest": edit(map[string]any{"digest": "sha256:" + strings.Repeat("0", 64)}), "another jti": edit(map[string]any{"jti": "tok_other"}), "another approval": edit(map[string]any{"approval_id": "apr_" + strings.Repeat("a", 26)}),
		"no exp": edit(map[string]any{"exp": nil}), "huge exp": edit(map[string]any{"exp": int64(1) << 52}), "exp in a year": edit(map[string]any{"exp": now + 365*86400}), "float exp": edit(map[string]any{"exp": float64(now) + 300.5}),
		"exp a text": edit(map[string]any{"exp": "9999999999"}), "negative exp": edit(map[string]any{"exp": -1}), "no iat": edit(map[string]any{"iat": nil}), "no nbf": edit(map[string]any{"nbf": nil}), "no sub": edit(map[string]any{"sub": nil}),
		"another claim": edit(map[string]any{"admin": true}), "a claim twice": craft(private, head, strings.Replace(claims, `{"`, `{"sub":"eve","`, 1)), "claims a list": craft(private, head, "["+claims+"]"),
		"very long": edit(map[string]any{"pad": strings.Repeat("x", 20_000)}),
	}
	for name, token := range forged {
		if got := agent.redeem(token, "forged", map[string]any{}); got.Status != 401 || got.code() != "token_invalid" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, token := range map[string]string{
		"expired": edit(map[string]any{"iat": now - 700, "nbf": now - 700, "exp": now - 100}), "expiring now": edit(map[string]any{"iat": now - 600, "nbf": now - 600, "exp": now}),
		"not yet": edit(map[string]any{"iat": now + 300, "nbf": now + 300, "exp": now + 600}),
	} {
		if got := agent.redeem(token, "forged", map[string]any{}); got.Status != 401 || got.code() != "token_expired" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := agent.redeem(edit(map[string]any{"sub": "somebody-else"}), "forged", map[string]any{}); got.Status != 404 {
		t.Errorf("another agent's: %s", got)
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("a link in a token was followed %d times", n)
	}
	if got := agent.get(a.ID); got.Execution != "none" {
		t.Fatalf("a forged token was redeemed: %+v", got)
	}
	agent.redeem(genuine, "forged", map[string]any{}).want(t, 200)
}

// otherTail is a last letter of base64 that a lax reader takes for the same.
func otherTail(c byte) byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	i := strings.IndexByte(alphabet, c)
	return alphabet[i^1]
}

// TestSigningKeysRotateAndAreRevoked: a former key's tokens are good until they
// expire; a revoked key's are good no more, at once.
func TestSigningKeysRotateAndAreRevoked(t *testing.T) {
	ownPrograms(t)
	d := startDev(t, func(o *devOptions) { o.policy = "signing_key_delay: 0s\n" })
	agent := d.agent(t)
	approved := func() (approval, string) {
		t.Helper()
		a := agent.hold("rotate", nil)
		d.reviewer(t, 0).approve(a)
		return a, agent.wait(a.ID).Token
	}
	_, before := approved()
	a, revoked := approved()
	_, kid := d.signingKey(t)
	must(t, nil, "", "key", "rotate", filepath.Join(d.dir, "signing-keys.json"))
	if err := d.program.stop(); err != nil {
		t.Fatal(err)
	}
	d = d.again(t, nil)
	agent = d.agent(t)
	agent.redeem(before, "rotate", map[string]any{}).want(t, 200)
	fresh := agent.get(a.ID).Token
	if verifyToken(t, d.URL, fresh)["jti"] != verifyToken(t, d.URL, revoked)["jti"] {
		t.Error("the fresh token is another one")
	}
	if strings.Split(fresh, ".")[0] == strings.Split(revoked, ".")[0] {
		t.Error("the former key still signs")
	}
	must(t, nil, "", "key", "revoke", "--data", d.dir, kid)
	agent.redeem(revoked, "rotate", map[string]any{}).want(t, 401, "token_invalid")
	if set := string(agent.do("GET", "/.well-known/jwks.json", nil).Body); strings.Contains(set, kid) {
		t.Errorf("the revoked key is still published: %s", set)
	}
	agent.redeem(fresh, "rotate", map[string]any{}).want(t, 200)
	// The key in use can be revoked as well: then nothing is granted.
	_, current := d.signingKey(t)
	_, last := approved()
	must(t, nil, "", "key", "revoke", "--data", d.dir, current)
	agent.redeem(last, "rotate", map[string]any{}).want(t, 401, "token_invalid")
	if c := cli(t, nil, "", "key", "revoke", "--data", d.dir, current); c.code == 0 {
		t.Error("revoked twice")
	}
	// A kid of another program's making may look like a flag.
	must(t, nil, "", "key", "revoke", "--data", d.dir, "--", "-"+strings.Repeat("A", 42))
}
