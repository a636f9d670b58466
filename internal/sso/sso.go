package sso

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"holdpoint/internal/seal"
)

// What an answer can be refused for. Every error of Finish matches one of them; its text
// is for the operator's log and has nothing secret.
var (
	// ErrUnknown: there is no provider of that name.
	ErrUnknown = errors.New("there is no such provider")
	// ErrOver: the flow was begun in another browser, or too long ago, or has come back
	// already, or to another address.
	ErrOver = errors.New("it was not begun here, or too long ago")
	// ErrDenied: the provider has let nobody in.
	ErrDenied = errors.New("the provider has refused")
	// ErrClient: the provider does not take this server for the client that it says it is.
	ErrClient = errors.New("the provider does not take the client_id and client_secret of the settings")
	// ErrAway: the provider could not be asked.
	ErrAway = errors.New("the provider cannot be reached")
	// ErrWrong: what the provider has sent does not hold.
	ErrWrong = errors.New("what the provider has sent does not hold")
)

// User is somebody as a provider knows them.
type User struct {
	Issuer, Subject string
	// ExternalID is what the provider's directory calls them, "" where none tells of
	// people here.
	ExternalID string
	// Email is as the provider has written it; EmailVerified says that it is theirs.
	Email         string
	EmailVerified bool
	Name          string
	Groups        []string
	// At is when they last proved there who they are, zero where it did not say. MFA
	// says that they gave more than one factor.
	At  time.Time
	MFA bool
}

// Button leads to a provider.
type Button struct{ Name, Label string }

// Providers are the providers by which people sign in.
type Providers struct {
	list   []*provider
	back   string // where people come back to who have signed out
	sealer *seal.Sealer
	now    func() time.Time
	log    *slog.Logger
	slots  chan struct{} // answers that are checked at once
}

// parallel is how many answers are checked at once: each asks the provider.
const parallel = 16

// New returns the providers of settings that are right. publicURL is where people reach
// the console.
func New(list []Config, publicURL string, sealer *seal.Sealer, now func() time.Time, log *slog.Logger) (*Providers, error) {
	all := &Providers{back: publicURL + "/login", sealer: sealer, now: now, log: log, slots: make(chan struct{}, parallel)}
	for _, c := range list {
		p, err := newProvider(c, publicURL, now)
		if err != nil {
			return nil, fmt.Errorf("sso: %s: %w", c.Name, err)
		}
		all.list = append(all.list, p)
	}
	return all, nil
}

// Buttons are the providers, in the order of the settings.
func (s *Providers) Buttons() []Button {
	var list []Button
	for _, p := range s.list {
		list = append(list, Button{p.Name, p.label()})
	}
	return list
}

// Config returns the settings of a provider.
func (s *Providers) Config(name string) (Config, bool) {
	p := s.find(name)
	if p == nil {
		return Config{}, false
	}
	return p.Config, true
}

func (s *Providers) find(name string) *provider {
	i := slices.IndexFunc(s.list, func(p *provider) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return s.list[i]
}

// Check asks a provider what it says of itself, and returns where it has to send people
// back to. It is for the operator: the error says what is wrong.
func Check(ctx context.Context, c Config, publicURL string) (redirect string, err error) {
	p, err := newProvider(c, publicURL, time.Now)
	if err != nil {
		return "", err
	}
	a, err := p.read(ctx)
	if err == nil && c.SignOut && a.EndSession == "" {
		err = errors.New("sign_out: the provider has no sign-out (end_session_endpoint)")
	}
	return p.redirect, err
}

// Begin starts a flow: it returns where to send the browser, and what the browser has to
// keep until it comes back, to next. personID is whose session is to be proved anew, by
// somebody who is there, or "". Errors are ErrUnknown and ErrAway.
func (s *Providers) Begin(ctx context.Context, name, next, personID string) (to, cookie string, err error) {
	p := s.find(name)
	if p == nil {
		return "", "", ErrUnknown
	}
	a, err := p.discover(ctx)
	if err != nil {
		s.log.WarnContext(ctx, "a provider of single sign-on cannot be asked", "provider", name, "error", err)
		return "", "", ErrAway
	}
	f := Flow{Provider: name, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next, Begun: s.now().UTC(), PersonID: personID}
	options := []oauth2.AuthCodeOption{oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)}
	if personID != "" {
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	cookie, err = f.seal(s.sealer)
	return p.oauth(a).AuthCodeURL(f.State, options...), cookie, err
}

// Flow returns the flow that an answer at a provider's address belongs to, by the cookie
// of the browser that brings it. The error is ErrOver.
func (s *Providers) Flow(name, cookie string, answer url.Values) (Flow, error) {
	f, ok := openFlow(s.sealer, cookie)
	age := s.now().Sub(f.Begun)
	if !ok || f.Provider != name || len(answer["state"]) != 1 || !f.is(answer.Get("state")) || age > Lasts || age < -time.Minute {
		return Flow{}, ErrOver
	}
	return f, nil
}

// Finish checks an answer of a flow, which it takes as new, and says who it is of.
func (s *Providers) Finish(ctx context.Context, f Flow, answer url.Values) (User, error) {
	p := s.find(f.Provider)
	if p == nil {
		return User{}, ErrUnknown
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return User{}, ctx.Err()
	}
	who, err := p.finish(ctx, f, answer)
	if err != nil {
		s.log.WarnContext(ctx, "a sign-in by single sign-on failed", "provider", p.Name, "error", err)
	}
	return who, err
}

// codeForm is how error codes of OAuth 2.0 look; anything else is not repeated.
var codeForm = regexp.MustCompile(`^[a-z_]{1,60}$`)

func code(text string) string {
	if !codeForm.MatchString(text) {
		return "an error"
	}
	return text
}

func (p *provider) finish(ctx context.Context, f Flow, answer url.Values) (User, error) {
	a, err := p.discover(ctx)
	if err != nil {
		return User{}, fmt.Errorf("%w: %w", ErrAway, err)
	}
	// Whose answer it is comes first: an error is also somebody's (RFC 9207).
	if iss := answer.Get("iss"); iss != p.Issuer && (iss != "" || a.IssInAnswer) {
		return User{}, fmt.Errorf("%w: the answer is of another issuer", ErrWrong)
	}
	if failed := answer.Get("error"); failed != "" {
		return User{}, fmt.Errorf("%w: %s", ErrDenied, code(failed))
	}
	if len(answer["code"]) != 1 || answer.Get("code") == "" {
		return User{}, fmt.Errorf("%w: the answer has no code", ErrWrong)
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := p.oauth(a).Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return User{}, exchangeFailed(err)
	}
	raw, ok := tokens.Extra("id_token").(string)
	if !ok {
		return User{}, fmt.Errorf("%w: there is no ID token", ErrWrong)
	}
	token, err := p.verify(ctx, a, raw, f)
	if err != nil {
		return User{}, err
	}
	return p.userOf(ctx, a, token, tokens, f)
}

// exchangeFailed says why a code was not taken, without what was sent.
func exchangeFailed(err error) error {
	var refused *oauth2.RetrieveError
	switch {
	case !errors.As(err, &refused):
		return fmt.Errorf("%w: %w", ErrAway, brief(err))
	case refused.Response != nil && refused.Response.StatusCode >= 500:
		return fmt.Errorf("%w: it answered the code with status %d", ErrAway, refused.Response.StatusCode)
	}
	cause := ErrDenied
	if refused.ErrorCode == "invalid_client" || refused.ErrorCode == "unauthorized_client" {
		cause = ErrClient
	}
	return fmt.Errorf("%w: it answered the code with %s", cause, code(refused.ErrorCode))
}

// skew is by how much a provider's clock may differ from the database's.
const skew = time.Minute

// verify checks an ID token (OpenID Connect Core 1.0, 3.1.3.7): signature, by a key of
// the provider and an asymmetric algorithm, issuer, audience, expiry and nonce.
func (p *provider) verify(ctx context.Context, a *providerMetadata, raw string, f Flow) (*oidc.IDToken, error) {
	verifier := a.Verifier(&oidc.Config{ClientID: p.ClientID, Now: func() time.Time { return p.now().Add(-skew) }})
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWrong, brief(err))
	}
	var not struct {
		Before float64 `json:"nbf"` // NumericDate; 0 where there is none
	}
	if err := token.Claims(&not); err != nil {
		return nil, fmt.Errorf("%w: nbf is no number", ErrWrong)
	}
	switch {
	case not.Before > float64(p.now().Add(skew).Unix()): // the library allows five minutes
		return nil, fmt.Errorf("%w: it is not valid yet: one of the two clocks is wrong", ErrWrong)
	case token.Issuer != p.Issuer:
		return nil, fmt.Errorf("%w: it is of another issuer", ErrWrong)
	case token.Nonce != f.Nonce:
		return nil, fmt.Errorf("%w: the nonce is another one", ErrWrong)
	case token.Subject == "" || len(token.Subject) > 255:
		return nil, fmt.Errorf("%w: there is no usable sub", ErrWrong)
	case token.IssuedAt.After(p.now().Add(skew)):
		return nil, fmt.Errorf("%w: it was issued in the future: one of the two clocks is wrong", ErrWrong)
	}
	return token, nil
}

// SignOut returns where a browser goes to sign out at the provider, too; "" where the
// settings or the provider do not have that.
func (s *Providers) SignOut(ctx context.Context, name string) string {
	p := s.find(name)
	if p == nil || !p.SignOut {
		return ""
	}
	a, err := p.discover(ctx)
	if err != nil || a.EndSession == "" {
		return ""
	}
	u, err := url.Parse(a.EndSession)
	if err != nil {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.ClientID)
	q.Set("post_logout_redirect_uri", s.back)
	u.RawQuery = q.Encode()
	return u.String()
}
