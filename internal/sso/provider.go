package sso

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"holdpoint/internal/outbound"
)

// How long what a provider says of itself is good for, and for how long one that could
// not be asked is not asked again.
const (
	knownFor = time.Hour
	restFor  = 5 * time.Second
)

// provider is one provider. What it says of itself is read when somebody first needs it,
// so that nothing here waits for it.
type provider struct {
	Config
	client   *http.Client
	redirect string // where it sends people back to
	now      func() time.Time

	mu    sync.Mutex
	asked time.Time
	about *providerMetadata
	err   error
}

// providerMetadata is what a provider says of itself (OpenID Connect Discovery 1.0).
type providerMetadata struct {
	*oidc.Provider
	AuthURL    string   `json:"authorization_endpoint"`
	TokenURL   string   `json:"token_endpoint"`
	EndSession string   `json:"end_session_endpoint"`
	Methods    []string `json:"token_endpoint_auth_methods_supported"`
	// IssInAnswer says that its answers name it (RFC 9207).
	IssInAnswer bool `json:"authorization_response_iss_parameter_supported"`
}

func newProvider(c Config, publicURL string, now func() time.Time) (*provider, error) {
	reach, err := c.reach()
	if err != nil {
		return nil, err
	}
	return &provider{
		Config: c, client: &http.Client{Transport: guarded{outbound.New(reach)}}, redirect: publicURL + "/login/sso/" + c.Name + "/callback", now: now,
	}, nil
}

// guarded is the one client for addresses that people configure, as a library takes it.
type guarded struct{ *outbound.Client }

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) { return g.Do(r) }

// discover returns what the provider says of itself. Of many who ask at once, one asks
// the provider. What was known before is good as long as the provider is away.
func (p *provider) discover(ctx context.Context) (*providerMetadata, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, rest := p.now(), knownFor
	if p.err != nil {
		rest = restFor
	}
	if p.asked.IsZero() || now.Sub(p.asked) >= rest || now.Before(p.asked) {
		about, err := p.read(ctx)
		if ctx.Err() != nil && err != nil {
			return nil, err // whoever asked has gone: that says nothing of the provider
		}
		if p.asked, p.err = p.now(), err; err == nil {
			p.about = about
		}
	}
	if p.about != nil {
		return p.about, nil
	}
	return nil, p.err
}

func (p *provider) read(ctx context.Context) (*providerMetadata, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.Issuer)
	if mismatch := (*oidc.IssuerMismatchError)(nil); errors.As(err, &mismatch) {
		return nil, fmt.Errorf("the provider names itself %.300q, and issuer says %q: they have to be the same, to the letter", mismatch.Discovered, p.Issuer)
	}
	if err != nil {
		return nil, fmt.Errorf("read what the provider says of itself: %w", brief(err))
	}
	a := &providerMetadata{Provider: found}
	if err := found.Claims(a); err != nil {
		return nil, fmt.Errorf("read what the provider says of itself: %w", brief(err))
	}
	for name, address := range map[string]string{"authorization_endpoint": a.AuthURL, "token_endpoint": a.TokenURL, "end_session_endpoint": a.EndSession} {
		if address == "" && name == "end_session_endpoint" {
			continue
		}
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !strings.HasPrefix(p.Issuer, "http://")) {
			return nil, fmt.Errorf("the provider says that its %s is %.300q, which is no https address", name, address)
		}
	}
	return a, nil
}

// brief is an error in one short line: libraries quote what the other side has sent.
func brief(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	if len(line) > 300 {
		line = line[:300] + "…"
	}
	return errors.New(line)
}

// oauth is the provider as a client of OAuth 2.0 knows it.
func (p *provider) oauth(a *providerMetadata) *oauth2.Config {
	style := oauth2.AuthStyleInHeader
	if p.ClientSecret == "" || len(a.Methods) > 0 && !slices.Contains(a.Methods, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	scopes := p.Scopes
	if len(scopes) == 0 {
		scopes = []string{"email", "profile"}
	}
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, RedirectURL: p.redirect,
		Endpoint: oauth2.Endpoint{AuthURL: a.AuthURL, TokenURL: a.TokenURL, AuthStyle: style},
		Scopes:   append([]string{oidc.ScopeOpenID}, slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return s == oidc.ScopeOpenID })...),
	}
}
