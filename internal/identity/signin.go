package identity

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// SignIn checks people's passwords and, of those who have one, second factors.
// Every attempt is an event, but of those that are not even looked at only some:
// an attacker must not be able to fill the log.
type SignIn struct {
	store   *store.Store
	factors *Factors

	mu        sync.Mutex
	addresses map[string]*failures
	accounts  map[string]*failures
}

// failures bounds how often somebody may be wrong, and how often it is said
// that this was too often.
type failures struct{ wrong, recorded *rate.Limiter }

// Failures that an account, seen from one address, and an address may have: a
// burst, then one every so often.
const (
	accountBurst, addressBurst = 10, 50
	accountEvery, addressEvery = 30 * time.Second, 2 * time.Second
	saidEvery                  = time.Minute
	mostRemembered             = 10_000
	parallelHashes             = 2
	maxEmail                   = 254 // RFC 5321
)

// NewSignIn returns a SignIn on the store that the factors are of.
func NewSignIn(f *Factors) *SignIn {
	return &SignIn{store: f.store, factors: f, addresses: map[string]*failures{}, accounts: map[string]*failures{}}
}

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
// caller's address without a port.
func (s *SignIn) SignIn(ctx context.Context, email, password, code, remote string) (engine.Person, error) {
	email = strings.ToLower(strings.TrimSpace(email))
	address := s.failures(s.addresses, remote, addressEvery, addressBurst)
	if address == nil || address.wrong.Tokens() < 1 {
		return engine.Person{}, s.tooMany(ctx, address)
	}
	if len(email) > maxEmail {
		address.wrong.Allow()
		return engine.Person{}, s.refused(ctx, wrongCredentials, "")
	}
	person, hash, err := s.store.People.ByEmail(ctx, email)
	switch {
	case errors.Is(err, store.ErrNotFound):
		hash = noPassword
	case err != nil:
		return engine.Person{}, err
	}
	select {
	case s.factors.slots <- struct{}{}:
		defer func() { <-s.factors.slots }()
	case <-ctx.Done():
		return engine.Person{}, ctx.Err()
	}
	// With the slot in hand: attempts that queued together do not all pass.
	account := s.failures(s.accounts, email+" "+remote, accountEvery, accountBurst)
	if account == nil || account.wrong.Tokens() < 1 || address.wrong.Tokens() < 1 {
		return engine.Person{}, s.tooMany(ctx, address)
	}
	right, err := checkPassword(hash, password)
	if err != nil {
		return engine.Person{}, err
	}
	if !right || person.ID == "" || person.Disabled {
		address.wrong.Allow()
		account.wrong.Allow()
		return engine.Person{}, s.refused(ctx, wrongCredentials, person.ID)
	}
	methods, err := s.factors.Methods(ctx, person)
	switch {
	case err != nil:
		return engine.Person{}, err
	case slices.Contains(methods, Password):
		return s.signedIn(ctx, person, Password)
	case code == "":
		id, hash := newID()
		c := store.Challenge{IDHash: hash, PersonID: person.ID, Purpose: forPending, Data: []byte(`{}`)}
		if err := s.store.Factors.CreateChallenge(ctx, c, FreshFor); err != nil {
			return engine.Person{}, err
		}
		return engine.Person{}, &SecondStep{Pending: id}
	}
	method, err := s.factors.check(ctx, person, ForSignIn, "", Proof{Code: code})
	if errors.Is(err, verificationFailed) {
		address.wrong.Allow()
		account.wrong.Allow()
		return engine.Person{}, s.refused(ctx, wrongCredentials, person.ID)
	}
	if err != nil {
		return engine.Person{}, err
	}
	return s.signedIn(ctx, person, method)
}

// Pending returns whose sign-in lacks its second step, and by what they can do
// it. The refusal is sign_in_over (401): it was too long ago, or is done.
func (s *SignIn) Pending(ctx context.Context, pending string) (engine.Person, []Method, error) {
	c, err := s.store.Factors.Challenge(ctx, hashID(pending), forPending)
	if errors.Is(err, store.ErrNotFound) {
		return engine.Person{}, nil, signInOver
	}
	if err != nil {
		return engine.Person{}, nil, err
	}
	person, err := s.store.People.Get(ctx, c.PersonID)
	if err != nil {
		return engine.Person{}, nil, err
	}
	methods, err := s.factors.Methods(ctx, person)
	if err == nil && (len(methods) == 0 || slices.Contains(methods, Password)) {
		// The factors are gone since: sign in again, by password alone.
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
	return s.factors.Begin(ctx, person, ForSignIn, boundToPending(pending))
}

// Finish is the second step of a sign-in. Refusals: sign_in_over (401), when the
// first was too long ago or has been finished, verification_failed (403), which
// leaves it open, and too_many_attempts (429).
func (s *SignIn) Finish(ctx context.Context, pending string, proof Proof, remote string) (engine.Person, error) {
	address := s.failures(s.addresses, remote, addressEvery, addressBurst)
	if address == nil || address.wrong.Tokens() < 1 {
		return engine.Person{}, s.tooMany(ctx, address)
	}
	person, _, err := s.Pending(ctx, pending)
	if err != nil {
		return engine.Person{}, err
	}
	method, err := s.factors.check(ctx, person, ForSignIn, boundToPending(pending), proof)
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
	how := "a password."
	if method != Password {
		how = "a password and " + by[method] + "."
	}
	return p, s.record(ctx, engine.Allow, p.ID, engine.Reason{Code: "SIGNED_IN", Message: "Signed in with " + how})
}

// SignedOut records that the person signed out.
func (s *SignIn) SignedOut(ctx context.Context, p engine.Person) error {
	return s.record(ctx, engine.Allow, p.ID, engine.Reason{Code: "SIGNED_OUT", Message: "Signed out."})
}

func (s *SignIn) refused(ctx context.Context, r *access.Refusal, personID string) error {
	if err := s.record(ctx, engine.Deny, personID, engine.Reason{Code: r.Code, Message: r.Detail}); err != nil {
		return err
	}
	return r
}

func (s *SignIn) record(ctx context.Context, outcome engine.Outcome, personID string, why engine.Reason) error {
	return record(ctx, s.store, outcome, personID, why)
}

// record appends the event of an attempt to say who one is.
func record(ctx context.Context, s *store.Store, outcome engine.Outcome, personID string, why engine.Reason) error {
	_, err := s.Submit(ctx, store.Submission{Event: engine.Event{
		ID: uuid.NewString(), Type: engine.SignIn, Outcome: outcome,
		Reasons: []engine.Reason{why}, SafePayload: []byte(`{}`), Actor: engine.Actor{Kind: engine.HumanActor, ID: personID, Channel: "console"},
	}})
	return err
}

// tooMany refuses an attempt that is not looked at.
func (s *SignIn) tooMany(ctx context.Context, address *failures) error {
	if address == nil || !address.recorded.Allow() {
		return tooManyAttempts
	}
	return s.refused(ctx, tooManyAttempts, "")
}

// failures returns what is remembered of who; successes cost nothing. It
// forgets only those who have recovered, and answers nil when there is no room
// for another.
func (s *SignIn) failures(of map[string]*failures, who string, every time.Duration, burst int) *failures {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := of[who]; f != nil {
		return f
	}
	if len(of) >= mostRemembered {
		for other, f := range of {
			if f.wrong.Tokens() >= float64(f.wrong.Burst()) {
				delete(of, other)
			}
		}
		if len(of) >= mostRemembered {
			return nil
		}
	}
	f := &failures{wrong: rate.NewLimiter(rate.Every(every), burst), recorded: rate.NewLimiter(rate.Every(saidEvery), 1)}
	of[who] = f
	return f
}
