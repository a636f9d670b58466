package identity

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/sso"
	"holdpoint/internal/store"
)

// Accounts says whose account somebody opens who comes in by single sign-on. kept says
// that they keep the role that administers although their groups do not give it, because
// nobody else has it. Refusals are no_account and disabled (403).
type Accounts interface {
	Arrive(ctx context.Context, c sso.Config, who sso.User) (p engine.Person, kept bool, err error)
}

// SSO signs people in by providers of single sign-on. Every attempt is put on record, and
// limited, as those with passwords are.
type SSO struct {
	in        *SignIn
	providers *sso.Providers
	accounts  Accounts
}

// NewSSO returns single sign-on beside the sign-in with passwords.
func NewSSO(in *SignIn, providers *sso.Providers, accounts Accounts) *SSO {
	return &SSO{in, providers, accounts}
}

// Refusals of what a provider answers.
var (
	ssoUnknown = &access.Refusal{Kind: access.NotFound, Code: "no_such_provider", Detail: "There is no such provider of single sign-on here."}
	ssoOver    = &access.Refusal{Kind: access.Unauthenticated, Code: "sso_over", Detail: "That sign-in was begun in another window, took more than ten minutes, or is done already. Start again."}
	ssoDenied  = &access.Refusal{Kind: access.Forbidden, Code: "sso_denied", Detail: "The provider did not let you in. Start again, or ask whoever runs it."}
	ssoClient  = &access.Refusal{Kind: access.Unavailable, Code: "sso_client", Detail: "The provider does not know this server by what its settings say, so nobody can sign in there. Tell an administrator: the server's log has more."}
	ssoWrong   = &access.Refusal{Kind: access.Forbidden, Code: "sso_wrong", Detail: "What the provider sent could not be verified, so nobody was signed in. Start again; if it stays so, tell an administrator: the server's log says why."}
	ssoAway    = &access.Refusal{Kind: access.Unavailable, Code: "sso_away", Detail: "The provider cannot be reached right now. Try again in a moment.", RetryAfter: restForProvider}
	ssoOther   = &access.Refusal{Kind: access.Forbidden, Code: "sso_other_person", Detail: "That was somebody else at the provider. Prove it as the person who is signed in here."}
)

// SecondFactorNeeded refuses whatever else somebody wants whose role needs a second
// factor that they do not have.
func SecondFactorNeeded(role string) error {
	return &access.Refusal{Kind: access.Forbidden, Code: "second_factor_needed", Detail: "Your role " + role + " needs a second factor, and you have none yet. Add a passkey or an authenticator app on the page of your account."}
}

const restForProvider = 5 * time.Second // as long as a provider that is away is not asked again

// Buttons are the providers that people choose from.
func (s *SSO) Buttons() []sso.Button { return s.providers.Buttons() }

// SignOut returns where a browser goes to sign out at the provider, too, "" for
// nowhere.
func (s *SSO) SignOut(ctx context.Context, provider string) string {
	return s.providers.SignOut(ctx, provider)
}

// Begin sends somebody to a provider, to come back to next: it returns the address, and
// what their browser keeps meanwhile. With the person of a session it is for a proof of
// who they are, who has to be the same. Refusals are no_such_provider (404), sso_away
// (503) and too_many_attempts (429).
func (s *SSO) Begin(ctx context.Context, provider, next string, p engine.Person, remote string) (to, cookie string, err error) {
	if err := s.in.mayTry(ctx, remote); err != nil {
		return "", "", err
	}
	to, cookie, err = s.providers.Begin(ctx, provider, next, p.ID)
	return to, cookie, refusalOf(err)
}

// refusalOf is what somebody is told of an error of a provider.
func refusalOf(err error) error {
	for cause, refusal := range map[error]*access.Refusal{sso.ErrUnknown: ssoUnknown, sso.ErrOver: ssoOver, sso.ErrDenied: ssoDenied, sso.ErrClient: ssoClient, sso.ErrWrong: ssoWrong, sso.ErrAway: ssoAway} {
		if errors.Is(err, cause) {
			return refusal
		}
	}
	return err
}

// SSOSignIn is somebody whom a provider has sent back.
type SSOSignIn struct {
	Person engine.Person
	// Next is where they wanted to go.
	Next string
	// Proved says that it is the person of the session, who has proved it anew.
	Proved bool
}

// Finish checks what a provider answers to the flow that the browser holds in its
// cookie. p is the person of the browser's session, if there is one. Somebody who has a
// second factor gets a *SecondStep as error. Refusals are those of Begin, sso_over (401),
// sso_denied, sso_wrong, sso_other_person, no_account and disabled (403), and sso_client (503).
func (s *SSO) Finish(ctx context.Context, provider, cookie string, answer url.Values, p engine.Person, remote string) (SSOSignIn, error) {
	if err := s.in.mayTry(ctx, remote); err != nil {
		return SSOSignIn{}, err
	}
	c, known := s.providers.Config(provider)
	if !known {
		return SSOSignIn{}, ssoUnknown // its name is whoever asked's: it is not for the log
	}
	f, err := s.providers.Flow(provider, cookie, answer)
	if err == nil {
		if err = s.in.store.Sessions.Returned(ctx, f.StateHash(), f.Until()); errors.Is(err, store.ErrConflict) {
			err = sso.ErrOver
		}
	}
	a := SSOSignIn{Next: f.Next}
	if err == nil && f.PersonID != "" {
		if f.PersonID != p.ID {
			return a, s.refused(ctx, ssoOther, provider, p.ID, remote)
		}
		// A proof finds an account out, and changes none, whoever gives it.
		c.Create, c.LinkByEmail, c.SCIM, c.Roles = false, false, false, nil
	}
	var who sso.User
	if err == nil {
		who, err = s.providers.Finish(ctx, f, answer)
	}
	if err != nil {
		return a, s.refused(ctx, refusalOf(err), provider, p.ID, remote)
	}
	in, kept, err := s.accounts.Arrive(ctx, c, who)
	if f.PersonID != "" && (err == nil && in.ID != p.ID || isRefusal(err, "no_account")) {
		err = ssoOther
	}
	if err != nil {
		return a, s.refused(ctx, err, provider, in.ID, remote)
	}
	if f.PersonID != "" {
		a.Person, a.Proved = p, true
		return a, record(ctx, s.in.store, engine.Allow, p.ID, engine.Reason{Code: "VERIFIED", Message: "Proved who they are at " + provider + ", for the session."})
	}
	in.Provider, in.ProviderMFA = provider, who.MFA
	if !who.At.IsZero() {
		in.VerifiedAt, in.VerifiedBy = who.At, Provider
	}
	a.Person, err = s.in.provided(ctx, in, kept)
	return a, err
}

// isRefusal reports whether an error is the refusal with a code.
func isRefusal(err error, code string) bool {
	var r *access.Refusal
	return errors.As(err, &r) && r.Code == code
}

// refused puts a refusal on record, under the name of the provider, and counts it.
func (s *SSO) refused(ctx context.Context, err error, provider, personID, remote string) error {
	var r *access.Refusal
	if !errors.As(err, &r) {
		return err
	}
	// Any page on the web makes a browser come here without a flow, and a provider that
	// is away is nobody's guess: neither keeps an office from signing in.
	if r != ssoOver && r != ssoAway {
		s.in.failed(remote)
	}
	if unrecorded := s.in.refusals.Add(ctx, refusalKind{personID, r.Code, "Single sign-on at " + provider + ": " + r.Detail}); unrecorded != nil {
		return unrecorded
	}
	return r
}

// mayTry refuses an address that was wrong too often.
func (s *SignIn) mayTry(ctx context.Context, remote string) error {
	if s.failures(s.addresses, network(remote), addressEvery, addressBurst).wrong.Tokens() < 1 {
		return s.refused(ctx, tooManyAttempts, "")
	}
	return nil
}

// failed counts a failure of an address.
func (s *SignIn) failed(remote string) {
	s.failures(s.addresses, network(remote), addressEvery, addressBurst).wrong.Allow()
}

// provided signs in somebody whom a provider knows. Second factors that they have here
// are asked for, unless the provider's word on its own is trusted.
func (s *SignIn) provided(ctx context.Context, p engine.Person, kept bool) (engine.Person, error) {
	methods, err := s.factors.Methods(ctx, p)
	if err != nil {
		return p, err
	}
	if !p.ProviderMFA && len(methods) > 0 && methods[0] != Provider {
		data, err := json.Marshal(pendingData{PasswordChecked: p.PasswordChecked, Provider: p.Provider})
		if err != nil {
			return p, err
		}
		return p, s.pend(ctx, p, data)
	}
	why := engine.Reason{Code: "SIGNED_IN", Message: "Signed in with single sign-on at " + p.Provider + "."}
	if kept {
		why.Message += " Kept the role admin, which the groups there do not give: there is no other administrator."
	}
	return p, recordWith(ctx, s.store, engine.Allow, p.ID, why, bySSO(p))
}

// bySSO is what the event of a sign-in says of how it was.
func bySSO(p engine.Person) []byte {
	if p.Provider == "" {
		return []byte(`{}`)
	}
	told, err := json.Marshal(map[string]any{"method": Provider, "provider": p.Provider, "mfa": p.ProviderMFA})
	if err != nil {
		return []byte(`{}`) // texts always encode
	}
	return told
}

// pend keeps the first step of a sign-in that lacks its second: the error is a *SecondStep.
func (s *SignIn) pend(ctx context.Context, p engine.Person, data []byte) error {
	id, hash := newID()
	if err := s.store.Factors.CreateChallenge(ctx, store.Challenge{IDHash: hash, PersonID: p.ID, Purpose: forPending, Data: data}, FreshFor); err != nil {
		return err
	}
	return &SecondStep{Pending: id}
}
