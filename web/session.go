package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/sessions"

	"holdpoint/engine"
)

// ErrNoSession is what Sessions.Load answers for an id that names no live
// session.
var ErrNoSession = errors.New("no such session")

// The session cookie's names. Browsers accept the prefixed one only over TLS,
// from this host, for the whole of it.
const (
	cookieName       = "holdpoint"
	secureCookieName = "__Host-holdpoint"
)

// idBytes is the length of a session id before encoding.
const idBytes = 32

// personKey is the session value that holds the engine.Person.
type personKey struct{}

// sessionStore is a gorilla sessions.Store whose sessions live in Sessions. The
// cookie holds nothing but a random id; the store behind it learns only that
// id's SHA-256. Saving always starts a session under a new id and ends the one
// that the request came with, so that no id survives a sign-in.
type sessionStore struct {
	sessions Sessions
	signer   SignIn // says what a browser keeps beyond the session
	ttl      time.Duration
	secure   bool
}

var _ sessions.Store = (*sessionStore)(nil)

func (s *sessionStore) name() string {
	if s.secure {
		return secureCookieName
	}
	return cookieName
}

// Get returns the request's session, looked up once a request.
func (s *sessionStore) Get(r *http.Request, name string) (*sessions.Session, error) {
	return sessions.GetRegistry(r).Get(s, name)
}

// New looks the request's session up. Without a live one it returns a new,
// empty session and no error; an error means that nobody can tell.
func (s *sessionStore) New(r *http.Request, name string) (*sessions.Session, error) {
	session := sessions.NewSession(s, name)
	session.Options = &sessions.Options{
		Path: "/", MaxAge: int(s.ttl / time.Second), Secure: s.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	session.IsNew = true
	id, ok := s.id(r)
	if !ok {
		return session, nil
	}
	person, err := s.load(r.Context(), id)
	if errors.Is(err, ErrNoSession) {
		return session, nil
	}
	if err != nil {
		return session, err
	}
	session.ID, session.IsNew = id, false
	session.Values[personKey{}] = person
	return session, nil
}

// Save starts a session for the person among the values, under a new id; with a
// negative MaxAge it ends the session instead. Either way the session that the
// request came with is over.
func (s *sessionStore) Save(r *http.Request, w http.ResponseWriter, session *sessions.Session) error {
	if old, ok := s.id(r); ok {
		if err := s.sessions.Delete(r.Context(), hash(old)); err != nil {
			return fmt.Errorf("end the former session: %w", err)
		}
	}
	if session.Options.MaxAge < 0 {
		session.ID = ""
		http.SetCookie(w, sessions.NewCookie(session.Name(), "", session.Options))
		return nil
	}
	person, ok := session.Values[personKey{}].(engine.Person)
	if !ok || person.VerifiedBy == "" && person.Provider == "" {
		return errors.New("start a session: nobody has signed in")
	}
	raw := make([]byte, idBytes)
	_, _ = rand.Read(raw) // never fails: it ends the program instead
	id := base64.RawURLEncoding.EncodeToString(raw)
	if err := s.sessions.Save(r.Context(), hash(id), person, s.ttl); err != nil {
		return fmt.Errorf("start a session: %w", err)
	}
	session.ID, session.IsNew = id, false
	s.keepKnown(w, r, person)
	http.SetCookie(w, sessions.NewCookie(session.Name(), id, session.Options))
	return nil
}

// verified notes that the person of the request's session has proved again, by
// the method, who they are.
func (s *sessionStore) verified(r *http.Request, p engine.Person, method string) error {
	id, ok := s.id(r)
	if !ok {
		return ErrNoSession
	}
	return s.sessions.Verified(r.Context(), hash(id), p.ID, method)
}

// again looks the person of the request's session up anew.
func (s *sessionStore) again(r *http.Request) (engine.Person, error) {
	id, ok := s.id(r)
	if !ok {
		return engine.Person{}, ErrNoSession
	}
	return s.load(r.Context(), id)
}

// id returns the session id of the request's cookie, if it can be one. A
// request with two cookies of the name has none: nobody can tell which is ours.
func (s *sessionStore) id(r *http.Request) (string, bool) {
	cookies := r.CookiesNamed(s.name())
	if len(cookies) != 1 {
		return "", false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cookies[0].Value)
	return cookies[0].Value, err == nil && len(raw) == idBytes
}

func (s *sessionStore) load(ctx context.Context, id string) (engine.Person, error) {
	person, err := s.sessions.Load(ctx, hash(id))
	if err == nil && person.Disabled {
		return engine.Person{}, ErrNoSession
	}
	return person, err
}

func hash(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	return sum[:]
}

// Sessions is where sessions live. Values never leave the server: the cookie
// holds only a random id, of which only the hash is stored.
type Sessions interface {
	// Load returns the person of a live session, looked up afresh: a disabled
	// person, or an expired or ended session, is ErrNoSession.
	Load(ctx context.Context, idHash []byte) (engine.Person, error)
	// Save starts a session for the person, who has just proved who they are by
	// VerifiedBy, or at Provider, that ends after lasting at the latest; ErrNoSession when they are
	// disabled, or have another password than PasswordChecked is of.
	Save(ctx context.Context, idHash []byte, p engine.Person, lasting time.Duration) error
	// Verified notes that the person of a session has just proved again who they
	// are; ErrNoSession when it is not theirs, or over.
	Verified(ctx context.Context, idHash []byte, personID, verifiedBy string) error
	// Delete ends a session; ending one that does not exist is no error.
	Delete(ctx context.Context, idHash []byte) error
}
