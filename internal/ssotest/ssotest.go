// Package ssotest is a provider of single sign-on in software, for tests: an OpenID
// provider on loopback that lets in whom it is told to, without asking, and lies when it
// is told to. It never protects anything.
package ssotest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Provider is a running provider. Its fields may be changed by Set alone.
type Provider struct {
	URL                    string // and issuer
	ClientID, ClientSecret string

	// Claims are of whom it lets in: "sub" and more, as the ID token has them. UserInfo
	// are those that its user information alone has.
	Claims, UserInfo map[string]any
	// Error is what it answers instead of letting somebody in.
	Error string
	// Away has it answer everything with 503.
	Away bool
	// Lie changes an ID token's claims before they are signed.
	Lie func(claims map[string]any)
	// Sign signs an ID token in another way than with the provider's key and RS256.
	Sign func(p *Provider, payload []byte) string
	// Discovery changes what it says of itself.
	Discovery map[string]any
	// Answer changes the parameters with which it sends people back.
	Answer func(url.Values)

	// SignOuts counts those who have signed out here.
	SignOuts int
	// Exchanges counts the codes that it was asked to exchange.
	Exchanges int

	key   *rsa.PrivateKey
	mu    sync.Mutex
	codes map[string]grant
}

// grant is what a code is good for, once.
type grant struct {
	redirect, challenge, nonce string
	authTime                   time.Time
}

// New starts a provider with the client "holdpoint", which ends with the test.
func New(t testing.TB) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{ClientID: "holdpoint", ClientSecret: "of the client", key: key, codes: map[string]grant{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.userInfo)
	mux.HandleFunc("GET /end", p.end)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		away := p.Away
		p.mu.Unlock()
		if away {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	p.URL = s.URL
	return p
}

// Set changes the provider between two requests.
func (p *Provider) Set(change func(p *Provider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// Person has the provider let somebody in, honestly.
func (p *Provider) Person(sub, email string, more map[string]any) {
	p.Set(func(p *Provider) {
		p.Claims = map[string]any{"sub": sub, "email": email, "email_verified": true, "name": "Name of " + sub, "groups": []string{}}
		maps.Copy(p.Claims, more)
		p.UserInfo, p.Lie, p.Sign, p.Answer, p.Error = nil, nil, nil, nil, ""
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	doc := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"userinfo_endpoint": p.URL + "/userinfo", "end_session_endpoint": p.URL + "/end", "id_token_signing_alg_values_supported": []string{"RS256"},
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "code_challenge_methods_supported": []string{"S256"},
		"authorization_response_iss_parameter_supported": true,
	}
	maps.Copy(doc, p.Discovery)
	answer(w, http.StatusOK, doc)
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}})
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := r.URL.Query()
	to, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != p.ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("nonce") == "" {
		http.Error(w, "this is no good request: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}, "iss": {p.URL}}
	if p.Error != "" {
		back.Set("error", p.Error)
		back.Set("error_description", "<script>alert(1)</script>")
	} else {
		code := rand.Text()
		g := grant{redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"), nonce: q.Get("nonce"), authTime: time.Now().Add(-time.Hour)}
		if q.Get("prompt") == "login" {
			g.authTime = time.Now()
		}
		p.codes[code] = g
		back.Set("code", code)
	}
	if p.Answer != nil {
		p.Answer(back)
	}
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Exchanges++
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if id != p.ClientID || secret != url.QueryEscape(p.ClientSecret) && secret != p.ClientSecret {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	code := r.PostFormValue("code")
	g, there := p.codes[code]
	delete(p.codes, code)
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !there || g.redirect != r.PostFormValue("redirect_uri") || g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	now := time.Now()
	claims := map[string]any{"iss": p.URL, "aud": p.ClientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": g.nonce, "auth_time": g.authTime.Unix()}
	maps.Copy(claims, p.Claims)
	if p.Lie != nil {
		p.Lie(claims)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		answer(w, http.StatusInternalServerError, nil)
		return
	}
	sign := p.Sign
	if sign == nil {
		sign = (*Provider).honest
	}
	answer(w, http.StatusOK, map[string]any{"access_token": "access " + code, "token_type": "Bearer", "expires_in": 60, "id_token": sign(p, payload)})
}

func (p *Provider) userInfo(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Header.Get("Authorization") == "" {
		answer(w, http.StatusUnauthorized, nil)
		return
	}
	info := map[string]any{"sub": p.Claims["sub"]}
	maps.Copy(info, p.UserInfo)
	answer(w, http.StatusOK, info)
}

func (p *Provider) end(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.SignOuts++
	http.Redirect(w, r, r.URL.Query().Get("post_logout_redirect_uri"), http.StatusFound)
}

func (p *Provider) honest(payload []byte) string { return SignedBy(p.key)(p, payload) }

// SignedBy signs with another RSA key, under the name of the provider's.
func SignedBy(key *rsa.PrivateKey) func(*Provider, []byte) string {
	return func(_ *Provider, payload []byte) string {
		return signed(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, payload)
	}
}

// SignedByPublicKey signs with HS256, and the provider's public key as the secret.
func SignedByPublicKey(p *Provider, payload []byte) string {
	public, err := x509.MarshalPKIXPublicKey(p.key.Public())
	if err != nil {
		return ""
	}
	return signed(jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: public, KeyID: "k1"}}, payload)
}

// Unsigned signs with the algorithm "none".
func Unsigned(_ *Provider, payload []byte) string {
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k1"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
}

func signed(key jose.SigningKey, payload []byte) string {
	signer, err := jose.NewSigner(key, nil)
	if err != nil {
		return ""
	}
	object, err := signer.Sign(payload)
	if err != nil {
		return ""
	}
	text, err := object.CompactSerialize()
	if err != nil {
		return ""
	}
	return text
}
