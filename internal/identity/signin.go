package identity

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"holdpoint/engine"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// SignIn checks people's passwords. Every attempt is an event, but of those that
// are not even looked at only some: an attacker must not be able to fill the log.
type SignIn struct {
	store *store.Store
	slots chan struct{} // a hash takes memory: only so many at once

	mu        sync.Mutex
	addresses map[string]*failures
	accounts  map[string]*failures
}

// failures bounds how often somebody may be wrong, and how often it is said
// that this was too often.
type failures struct{ wrong, said *rate.Limiter }

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

// NewSignIn returns a SignIn on the store.
func NewSignIn(s *store.Store) *SignIn {
	return &SignIn{store: s, slots: make(chan struct{}, parallelHashes), addresses: map[string]*failures{}, accounts: map[string]*failures{}}
}

var (
	wrongCredentials = &gate.Refusal{Status: 401, Code: "wrong_credentials", Detail: "The e-mail address or the password is not right."}
	tooManyAttempts  = &gate.Refusal{Status: 429, Code: "too_many_attempts", Detail: "Too many attempts. Wait a minute and try again.", RetryAfter: time.Minute}
)

// SignIn returns the person whose e-mail address and password these are. The
// refusal for an unknown, a disabled and a mistyped account is the same, and
// takes the same time. remote is the caller's address without a port.
func (s *SignIn) SignIn(ctx context.Context, email, password, remote string) (engine.Person, error) {
	email = strings.ToLower(strings.TrimSpace(email))
	address := s.failures(s.addresses, remote, addressEvery, addressBurst)
	if address == nil || address.wrong.Tokens() < 1 {
		return engine.Person{}, s.tooMany(ctx, address)
	}
	if len(email) > maxEmail {
		address.wrong.Allow()
		return engine.Person{}, s.refused(ctx, wrongCredentials, "")
	}
	person, hash, err := s.store.PersonByEmail(ctx, email)
	switch {
	case errors.Is(err, store.ErrNotFound):
		hash = noPassword
	case err != nil:
		return engine.Person{}, err
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
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
	return person, s.record(ctx, engine.Allow, person.ID, engine.Reason{Code: "SIGNED_IN", Message: "Signed in with a password."})
}

// SignedOut records that the person signed out.
func (s *SignIn) SignedOut(ctx context.Context, p engine.Person) error {
	return s.record(ctx, engine.Allow, p.ID, engine.Reason{Code: "SIGNED_OUT", Message: "Signed out."})
}

func (s *SignIn) refused(ctx context.Context, r *gate.Refusal, personID string) error {
	if err := s.record(ctx, engine.Deny, personID, engine.Reason{Code: r.Code, Message: r.Detail}); err != nil {
		return err
	}
	return r
}

func (s *SignIn) record(ctx context.Context, outcome engine.Outcome, personID string, why engine.Reason) error {
	_, err := s.store.Submit(ctx, store.Submission{Event: engine.Event{
		ID: uuid.NewString(), Type: engine.SignIn, Outcome: outcome,
		Reasons: []engine.Reason{why}, SafePayload: []byte(`{}`), Actor: engine.Actor{Kind: engine.HumanActor, ID: personID, Channel: "console"},
	}})
	return err
}

// tooMany refuses an attempt that is not looked at.
func (s *SignIn) tooMany(ctx context.Context, address *failures) error {
	if address == nil || !address.said.Allow() {
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
	f := &failures{wrong: rate.NewLimiter(rate.Every(every), burst), said: rate.NewLimiter(rate.Every(saidEvery), 1)}
	of[who] = f
	return f
}
