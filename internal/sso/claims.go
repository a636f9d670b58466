package sso

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// claims are what a provider says of somebody, by name.
type claims map[string]json.RawMessage

// userOf reads what a provider says of somebody: the ID token, and its user information
// where that has not all.
func (p *provider) userOf(ctx context.Context, a *providerMetadata, token *oidc.IDToken, tokens *oauth2.Token, f Flow) (User, error) {
	c := claims{}
	if err := token.Claims(&c); err != nil {
		return User{}, wrong("the claims cannot be read")
	}
	var parties string
	if err := c.read("azp", &parties); err != nil {
		return User{}, err
	}
	if (len(token.Audience) > 1 || parties != "") && parties != p.ClientID {
		return User{}, wrong("it was issued to another client (azp)")
	}
	var externalID string
	if p.SCIM {
		if err := c.read(p.IDClaim(), &externalID); err != nil {
			return User{}, err
		}
	}
	if p.lacks(c) && a.UserInfoEndpoint() != "" {
		if err := p.addUserInfo(ctx, a, token.Subject, tokens, c); err != nil {
			return User{}, err
		}
	}
	w := User{Issuer: token.Issuer, Subject: token.Subject, ExternalID: externalID}
	verified, err := c.bool("email_verified", p.AssumeEmailVerified)
	if err != nil {
		return w, err
	}
	w.EmailVerified = verified
	for name, into := range map[string]any{"email": &w.Email, "name": &w.Name} {
		if err := c.read(name, into); err != nil {
			return w, err
		}
	}
	if w.Groups, err = p.groups(c); err != nil {
		return w, err
	}
	if w.At, err = c.authTime(); err != nil {
		return w, err
	}
	if w.At.After(p.now().Add(skew)) {
		return w, wrong("auth_time is in the future: one of the two clocks is wrong")
	}
	if f.PersonID != "" && w.At.Before(f.Begun.Add(-skew)) {
		return w, wrong("it does not say that the person has just proved who they are (auth_time)")
	}
	w.MFA, err = p.mfa(c)
	return w, err
}

func wrong(why string) error { return fmt.Errorf("%w: %s", ErrWrong, why) }

// lacks reports whether the ID token does not have what is needed.
func (p *provider) lacks(c claims) bool {
	return c["email"] == nil || len(p.Roles) > 0 && !p.SCIM && c[p.groupsClaim()] == nil
}

// addUserInfo adds what the provider's user information has, which has to be of the same person.
func (p *provider) addUserInfo(ctx context.Context, a *providerMetadata, subject string, tokens *oauth2.Token, c claims) error {
	info, err := a.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return fmt.Errorf("%w: ask for user information: %w", ErrAway, brief(err))
	}
	if info.Subject != subject {
		return wrong("the user information is somebody else's")
	}
	more := claims{}
	if err := info.Claims(&more); err != nil {
		return wrong("the user information cannot be read")
	}
	// An address goes with the word on whether it is verified, from one source.
	if c["email"] == nil {
		delete(c, "email_verified")
	} else {
		delete(more, "email_verified")
	}
	// Nothing signs these: when and how somebody signed in, only the ID token says.
	for _, name := range []string{"email", "email_verified", "name", "_claim_names", p.groupsClaim()} {
		if c[name] == nil && more[name] != nil {
			c[name] = more[name]
		}
	}
	return nil
}

// read reads a claim; one that is not there, or null, leaves into as it is.
func (c claims) read(name string, into any) error {
	if c[name] == nil {
		return nil
	}
	if err := json.Unmarshal(c[name], into); err != nil {
		return wrong("the claim " + name + " has the wrong type")
	}
	return nil
}

// bool reads a claim that is true or false, or the same as a text, as some providers write it.
func (c claims) bool(name string, without bool) (bool, error) {
	var said any
	if err := c.read(name, &said); err != nil {
		return false, err
	}
	switch said {
	case nil:
		return without, nil
	case true, "true":
		return true, nil
	case false, "false":
		return false, nil
	}
	return false, wrong("the claim " + name + " has the wrong type")
}

// groups are those of the claim. One that is not there is none: providers leave an empty
// list out. But a provider that has too many for a token says so, and nobody loses roles
// by that. Where the directory tells of groups, the claim says nothing.
func (p *provider) groups(c claims) ([]string, error) {
	if len(p.Roles) == 0 || p.SCIM {
		return nil, nil
	}
	var groups []string
	if err := c.read(p.groupsClaim(), &groups); err != nil {
		return nil, err
	}
	var elsewhere map[string]any
	if err := c.read("_claim_names", &elsewhere); err != nil {
		return nil, err
	}
	if _, there := elsewhere[p.groupsClaim()]; there && groups == nil {
		return nil, wrong("the provider leaves the groups out, because they are too many: have it send those alone that roles names")
	}
	return groups, nil
}

func (c claims) authTime() (time.Time, error) {
	var seconds json.Number
	if err := c.read("auth_time", &seconds); err != nil || seconds == "" {
		return time.Time{}, err
	}
	at, err := seconds.Float64()
	if err != nil || at < 0 || at > 1e11 {
		return time.Time{}, wrong("the claim auth_time has the wrong type")
	}
	return time.Unix(int64(at), 0).UTC(), nil
}

// mfa reports whether more than one factor was given, as far as the settings trust it.
func (p *provider) mfa(c claims) (bool, error) {
	if !p.TrustMFA {
		return false, nil
	}
	var methods []string
	if err := c.read("amr", &methods); err != nil {
		return false, err
	}
	var class string
	if err := c.read("acr", &class); err != nil {
		return false, err
	}
	return slices.Contains(methods, "mfa") || class != "" && slices.Contains(p.MFAACR, class), nil
}
