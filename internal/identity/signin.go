package identity

import (
	"context"
	"errors"
	"holdpoint/engine"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"
)

// SignIn checks people's passwords. Every attempt is an event.
type SignIn struct {
	store *store.Store
	slots chan struct{} // one hash takes 64 MiB: only so many at once

	mu       sync.Mutex
	attempts map[string]*rate.Limiter
}

// Failures that an account, seen from one address, and an address may have: a
// burst, then one every so often.
const (
	accountBurst, addressBurst = 10, 50
	accountEvery, addressEvery = 30 * time.Second, 2 * time.Second
	mostLimiters               = 10_000
	parallelHashes             = 2
)

// NewSignIn returns a SignIn on the store.
func NewSignIn(s *store.Store) *SignIn {
	return &SignIn{store: s, slots: make(chan struct{}, parallelHashes), attempts: map[string]*rate.Limiter{}}
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
	address := s.limiter("address "+remote, addressEvery, addressBurst)
	account := s.limiter("account "+email+" "+remote, accountEvery, accountBurst)
	if address.Tokens() < 1 || account.Tokens() < 1 {
		return engine.Person{}, s.refused(ctx, tooManyAttempts, "")
	}
	right, err := checkPassword(hash, password)
	if err != nil {
		return engine.Person{}, err
	}
	if !right || person.ID == "" || person.Disabled {
		address.Allow()
		account.Allow()
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

// limiter counts the failures of who; successes cost nothing.
func (s *SignIn) limiter(who string, every time.Duration, burst int) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.attempts[who]
	if l == nil {
		if len(s.attempts) >= mostLimiters {
			clear(s.attempts) // an attacker with that many addresses gains a burst
		}
		l = rate.NewLimiter(rate.Every(every), burst)
		s.attempts[who] = l
	}
	return l
}
