package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/store"
)

// A browser in which somebody has signed in keeps a cookie that says so, for each of the
// last accounts. It is nothing but base64url of
//
//	id (16 bytes) ‖ keyed hash of the id, the person and their password (16 bytes)
//
// once for each account, the last to sign in first. It signs nobody in: wrong passwords
// from that browser are counted by themselves, so that strangers' guesses keep its owner
// from nothing. No program remembers it: every replica, and one that has just started,
// knows it by the data key. Another password makes it worthless.
const (
	browserID    = 16
	browserEntry = browserID + store.BrowserHash
	mostAccounts = 8
	// KnownFor is how long a browser is asked to keep it since the last sign-in.
	KnownFor = 365 * 24 * time.Hour
)

// Known is the cookie of a browser in which p, as a session was started for them, has just
// signed in. cookie is what it had before.
func (s *SignIn) Known(cookie string, p engine.Person) string {
	id := make([]byte, browserID)
	rand.Read(id)
	entries := append(id, s.store.Sessions.BrowserHash(id, p.ID, p.PasswordChecked)...)
	for entry := range entriesOf(cookie) {
		if len(entries) < mostAccounts*browserEntry && !s.made(entry, p.ID, p.PasswordChecked) {
			entries = append(entries, entry...)
		}
	}
	return base64.RawURLEncoding.EncodeToString(entries)
}

// bound is that of a browser in which a person has signed in, nil where the cookie does not
// say so, or the bound is used up: the browser is as good as any other then.
func (s *SignIn) bound(cookie, personID, hash string) *failures {
	id := s.browser(cookie, personID, store.PasswordDigest(hash))
	if id == "" {
		return nil
	}
	own := s.failures(s.browsers, personID+" "+id, accountEvery, accountBurst)
	if own.wrong.Tokens() < 1 {
		return nil
	}
	return own
}

// browser is the id of the browser that a cookie says somebody has signed in with, "" for none.
// What the cookie says of others takes as long.
func (s *SignIn) browser(cookie, personID string, passwordChecked []byte) (id string) {
	for entry := range entriesOf(cookie) {
		if s.made(entry, personID, passwordChecked) && personID != "" {
			id = string(entry[:browserID])
		}
	}
	return id
}

// made reports whether an entry was made for a person, with the password that they have.
func (s *SignIn) made(entry []byte, personID string, passwordChecked []byte) bool {
	return hmac.Equal(entry[browserID:], s.store.Sessions.BrowserHash(entry[:browserID], personID, passwordChecked))
}

// entriesOf are the entries of a cookie, none of one that cannot be ours.
func entriesOf(cookie string) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		if len(cookie) > base64.RawURLEncoding.EncodedLen(mostAccounts*browserEntry) {
			return
		}
		entries, err := base64.RawURLEncoding.Strict().DecodeString(cookie)
		if err != nil || len(entries)%browserEntry != 0 {
			return
		}
		for len(entries) > 0 && yield(entries[:browserEntry:browserEntry]) {
			entries = entries[browserEntry:]
		}
	}
}
