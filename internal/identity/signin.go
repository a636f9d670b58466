package identity

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
	"holdpoint/internal/tally"
)

// SignIn checks people's passwords and, of those who have one, second factors.
// Every attempt is put on record: an attacker must not be able to fill the log, so
// most of the refused ones are by their number.
type SignIn struct {
	store    *store.Store
	factors  *Factors
	refusals *tally.Tally[refusalKind]
	ssoOnly  bool

	mu        sync.Mutex
	addresses map[string]*failures
	accounts  map[string]*failures
	anywhere  map[string]*failures // of an account, from everywhere
	browsers  map[string]*failures // of an account, from a browser in which it has signed in
	strangers int                  // attempts that wait for their turn, from no such browser
}

// refusalKind says what is counted together; person is "" where it is nobody's account.
type refusalKind struct{ person, code, message string }

// Refusals that are put on record one by one in a while, of one kind; further ones
// are by their number.
const (
	refusalsEvery = time.Minute
	refusalsFirst = 20
)

// failures bounds how often somebody may be wrong.
type failures struct{ wrong *rate.Limiter }

// Failures that an account, seen from one address, and an address may have: a
// burst, then one every so often; and an account, seen from all addresses. A browser in
// which the account has signed in has the first of these bounds for itself, wherever it is.
const (
	accountBurst, addressBurst, anywhereBurst = 10, 50, 100
	accountEvery, addressEvery, anywhereEvery = 30 * time.Second, 2 * time.Second, 36 * time.Second
	mostRemembered                            = 10_000
	parallelHashes                            = 2
	// mostStrangers wait at once for their turn; it takes some 50 ms each.
	mostStrangers = 64
	maxEmail      = 254 // RFC 5321
)

// NewSignIn returns a SignIn on the store that the factors are of.
func NewSignIn(f *Factors) *SignIn {
	s := &SignIn{store: f.store, factors: f, addresses: map[string]*failures{}, accounts: map[string]*failures{}, anywhere: map[string]*failures{}, browsers: map[string]*failures{}}
	s.refusals = tally.New(tally.Config[refusalKind]{
		Every: refusalsEvery, First: refusalsFirst,
		Write: func(ctx context.Context, kind refusalKind, n tally.Count) error {
			payload, message := []byte(`{}`), kind.message
			if n.N > 0 {
				var err error
				if payload, err = json.Marshal(n); err != nil {
					return err
				}
				message = fmt.Sprintf("%d more since %s: %s", n.N, n.Since.Format(time.RFC3339), message)
			}
			return recordWith(ctx, f.store, engine.Deny, kind.person, engine.Reason{Code: kind.code, Message: message}, payload)
		},
		Failed: func(error) {}, // it is tried again, and the store says what is wrong with it
	})
	return s
}

// RequireSSO has passwords sign in administrators alone, who need them where no provider
// is there. It is for before the first sign-in.
func (s *SignIn) RequireSSO() { s.ssoOnly = true }

// Flush puts on record what has only been counted yet: nobody signs in any more.
func (s *SignIn) Flush() { s.refusals.Flush() }

var (
	wrongCredentials = &access.Refusal{Kind: access.Unauthenticated, Code: "wrong_credentials", Detail: "The e-mail address or the password is not right."}
	tooManyAttempts  = &access.Refusal{Kind: access.RateLimited, Code: "too_many_attempts", Detail: "Too many attempts. Wait a minute and try again.", RetryAfter: time.Minute}
)

// SecondStep is the error for whose password is right and who has a second
// factor, of which there was none: Pending names what Finish goes on with, for
// FreshFor.
type SecondStep struct{ Pending string }

// Error says what is missing.
func (*SecondStep) Error() string { return "a second factor is needed" }

// SignIn returns the person whose e-mail address and password these are, with
// how they proved it. Somebody who has a second factor also gives a code of
// their authenticator app, or gets a *SecondStep as error. The refusal for an
// unknown, a disabled and a mistyped account and for a wrong code is the same,
// and takes the same time whether or not there is such an account. remote is the
// caller's address without a port, and known the cookie that Known made for their browser,
// "" without one.
func (s *SignIn) SignIn(ctx context.Context, email, password, code, remote, known string) (engine.Person, error) {
	email = strings.ToLower(strings.TrimSpace(email))
	address := s.failures(s.addresses, network(remote), addressEvery, addressBurst)
	if address.wrong.Tokens() < 1 {
		return engine.Person{}, s.refused(ctx, tooManyAttempts, "")
	}
	if len(email) > maxEmail {
		address.wrong.Allow()
		return engine.Person{}, s.refused(ctx, wrongCredentials, "")
	}
	person, hash, err := s.store.People.ByEmail(ctx, email)
	switch {
	case errors.Is(err, store.ErrNotFound):
		hash = store.NoPassword
	case err != nil:
		return engine.Person{}, err
	}
	whose, own := "", s.bound(known, person.ID, hash)
	if own != nil {
		whose = person.ID
	}
	give, err := s.turn(ctx, whose)
	if err != nil {
		return engine.Person{}, err
	}
	defer give()
	// With the slot in hand: attempts that queued together do not all pass.
	bounds := []*failures{address, own}
	if own == nil {
		bounds = []*failures{address, s.failures(s.accounts, email+" "+network(remote), accountEvery, accountBurst), s.failures(s.anywhere, email, anywhereEvery, anywhereBurst)}
	}
	if slices.ContainsFunc(bounds, func(f *failures) bool { return f.wrong.Tokens() < 1 }) {
		return engine.Person{}, s.refused(ctx, tooManyAttempts, "")
	}
	wrong := func() error {
		for _, f := range bounds {
			f.wrong.Allow()
		}
		return s.refused(ctx, wrongCredentials, person.ID)
	}
	right, err := CheckPassword(hash, password)
	if err != nil {
		return engine.Person{}, err
	}
	if !right || person.ID == "" || person.Disabled || s.ssoOnly && !person.Has(access.AdminRole) {
		return engine.Person{}, wrong()
	}
	person.PasswordChecked = store.PasswordDigest(hash)
	methods, err := s.factors.Methods(ctx, person)
	switch {
	case err != nil:
		return engine.Person{}, err
	case slices.Contains(methods, Password):
		return s.signedIn(ctx, person, Password)
	case code == "":
		data, err := json.Marshal(pendingData{PasswordChecked: person.PasswordChecked})
		if err != nil {
			return engine.Person{}, err
		}
		return engine.Person{}, s.pend(ctx, person, data)
	}
	method, err := s.factors.check(ctx, person, forSignIn, "", Proof{Code: code})
	if errors.Is(err, verificationFailed) {
		return engine.Person{}, wrong()
	}
	if err != nil {
		return engine.Person{}, err
	}
	return s.signedIn(ctx, person, method)
}

// turn waits for a slot to look at a password in. People whose browser is known take turns
// with each other and with all strangers together, of whom only so many wait: whose is their
// id, "" for a stranger. give has to follow. The refusal is too_many_attempts (429).
func (s *SignIn) turn(ctx context.Context, whose string) (give func(), err error) {
	if whose != "" {
		return s.factors.slots.Take(ctx, whose, 1)
	}
	s.mu.Lock()
	full := s.strangers >= mostStrangers
	if !full {
		s.strangers++
	}
	s.mu.Unlock()
	if full {
		return nil, s.refused(ctx, tooManyAttempts, "")
	}
	defer func() {
		s.mu.Lock()
		s.strangers--
		s.mu.Unlock()
	}()
	return s.factors.slots.Take(ctx, "", 1)
}

// pendingData is what a sign-in that lacks its second step keeps of its first.
type pendingData struct {
	PasswordChecked []byte `json:"password_checked"`
	// Provider is where the first step was made, "" for a password.
	Provider string `json:"provider,omitempty"`
}

// Pending returns whose sign-in lacks its second step, and by what they can do
// it. The refusal is sign_in_over (401): it was too long ago, or is done, or the
// password is another one since.
func (s *SignIn) Pending(ctx context.Context, pending string) (engine.Person, []Method, error) {
	c, err := s.store.Factors.Challenge(ctx, hashID(pending), forPending)
	if errors.Is(err, store.ErrNotFound) {
		return engine.Person{}, nil, signInOver
	}
	if err != nil {
		return engine.Person{}, nil, err
	}
	var first pendingData
	if err := json.Unmarshal(c.Data, &first); err != nil {
		return engine.Person{}, nil, err
	}
	person, hash, err := s.store.People.WithPassword(ctx, c.PersonID)
	if err != nil {
		return engine.Person{}, nil, err
	}
	person.Provider = first.Provider
	if person.PasswordChecked = first.PasswordChecked; !bytes.Equal(store.PasswordDigest(hash), first.PasswordChecked) {
		return engine.Person{}, nil, signInOver
	}
	methods, err := s.factors.Methods(ctx, person)
	if err == nil && (len(methods) == 0 || methods[0] == Password || methods[0] == Provider) {
		// The factors are gone since: sign in again, without them.
		err = signInOver
	}
	return person, methods, err
}

var signInOver = &access.Refusal{Kind: access.Unauthenticated, Code: "sign_in_over", Detail: "That took too long. Sign in again."}

// Ask starts the second step by passkey.
func (s *SignIn) Ask(ctx context.Context, pending string) (Ceremony, error) {
	person, _, err := s.Pending(ctx, pending)
	if err != nil {
		return Ceremony{}, err
	}
	return s.factors.Begin(ctx, person, forSignIn, boundToPending(pending))
}

// Finish is the second step of a sign-in. Refusals: sign_in_over (401), when the
// first was too long ago or has been finished, verification_failed (403), which
// leaves it open, and too_many_attempts (429).
func (s *SignIn) Finish(ctx context.Context, pending string, proof Proof, remote string) (engine.Person, error) {
	address := s.failures(s.addresses, network(remote), addressEvery, addressBurst)
	if address.wrong.Tokens() < 1 {
		return engine.Person{}, s.refused(ctx, tooManyAttempts, "")
	}
	person, _, err := s.Pending(ctx, pending)
	if err != nil {
		return engine.Person{}, err
	}
	method, err := s.factors.check(ctx, person, forSignIn, boundToPending(pending), proof)
	if errors.Is(err, verificationFailed) {
		address.wrong.Allow()
		return engine.Person{}, s.refused(ctx, verificationFailed, person.ID)
	}
	if err != nil {
		return engine.Person{}, err
	}
	if _, err := s.store.Factors.TakeChallenge(ctx, hashID(pending), person.ID); errors.Is(err, store.ErrNotFound) {
		return engine.Person{}, signInOver
	} else if err != nil {
		return engine.Person{}, err
	}
	return s.signedIn(ctx, person, method)
}

// boundToPending is what a passkey's assertion for a sign-in is bound to.
func boundToPending(pending string) string { return hex.EncodeToString(hashID(pending)) }

func (s *SignIn) signedIn(ctx context.Context, p engine.Person, method Method) (engine.Person, error) {
	p.VerifiedBy = method
	how := "a password"
	if p.Provider != "" {
		how = "single sign-on at " + p.Provider
	}
	if method != Password {
		how += " and " + by[method]
	}
	return p, recordWith(ctx, s.store, engine.Allow, p.ID, engine.Reason{Code: "SIGNED_IN", Message: "Signed in with " + how + "."}, bySSO(p))
}

// NotStarted records that somebody who signed in has no session all the same: their
// account was changed between the two.
func (s *SignIn) NotStarted(ctx context.Context, p engine.Person) error {
	return s.record(ctx, engine.Deny, p.ID, engine.Reason{Code: "SESSION_NOT_STARTED", Message: "The account was changed after the password or the second factor was checked: no session was started."})
}

// SignedOut records that the person signed out.
func (s *SignIn) SignedOut(ctx context.Context, p engine.Person) error {
	return s.record(ctx, engine.Allow, p.ID, engine.Reason{Code: "SIGNED_OUT", Message: "Signed out."})
}

func (s *SignIn) refused(ctx context.Context, r *access.Refusal, personID string) error {
	if err := s.refusals.Add(ctx, refusalKind{personID, r.Code, r.Detail}); err != nil {
		return err
	}
	return r
}

func (s *SignIn) record(ctx context.Context, outcome engine.Outcome, personID string, why engine.Reason) error {
	return record(ctx, s.store, outcome, personID, why)
}

// record appends the event of an attempt to say who one is.
func record(ctx context.Context, s *store.Store, outcome engine.Outcome, personID string, why engine.Reason) error {
	return recordWith(ctx, s, outcome, personID, why, []byte(`{}`))
}

func recordWith(ctx context.Context, s *store.Store, outcome engine.Outcome, personID string, why engine.Reason, payload []byte) error {
	_, err := s.Submit(ctx, store.Submission{Event: engine.Event{
		ID: uuid.NewString(), Type: engine.SignIn, Outcome: outcome,
		Reasons: []engine.Reason{why}, SafePayload: payload, Actor: engine.Actor{Kind: engine.HumanActor, ID: personID, Channel: "console"},
	}})
	return err
}

// network is whom an address belongs to: of IPv6, one household has a /64.
func network(remote string) string {
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		return remote
	}
	if addr = addr.Unmap(); addr.Is4() {
		return addr.String()
	}
	prefix, err := addr.WithZone("").Prefix(64)
	if err != nil {
		return remote
	}
	return prefix.String()
}

// sampled is how many are looked at to find one to forget.
const sampled = 64

// failures returns what is remembered of who; successes cost nothing. When it has to
// forget somebody, it is one of those who were wrong the least: whoever fills the
// table from everywhere keeps nobody out, and is not forgotten for it.
func (s *SignIn) failures(of map[string]*failures, who string, every time.Duration, burst int) *failures {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := of[who]; f != nil {
		return f
	}
	if len(of) >= mostRemembered {
		least, tokens, looked := "", -1.0, 0
		for other, f := range of {
			if now := f.wrong.Tokens(); now > tokens {
				least, tokens = other, now
			}
			if looked++; looked == sampled {
				break
			}
		}
		delete(of, least)
	}
	f := &failures{wrong: rate.NewLimiter(rate.Every(every), burst)}
	of[who] = f
	return f
}
