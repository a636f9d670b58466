package web

import (
	"net/http"

	"holdpoint/engine"
	"holdpoint/internal/identity"
)

// The cookie of a browser in which somebody has signed in (SignIn.Known). It outlives the
// session, which it neither starts nor proves.
const (
	knownName       = "holdpoint_known"
	secureKnownName = "__Host-holdpoint_known"
)

func (s *sessionStore) knownName() string {
	if s.secure {
		return secureKnownName
	}
	return knownName
}

// known is what the request's browser keeps, or "". With two of the name it is none:
// nobody can tell which is ours.
func (s *sessionStore) known(r *http.Request) string {
	cookies := r.CookiesNamed(s.knownName())
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}

// keepKnown has the browser keep that the person has signed in there.
func (s *sessionStore) keepKnown(w http.ResponseWriter, r *http.Request, p engine.Person) {
	// Lax: a browser that a provider sends back brings it along, and keeps what it says of others.
	http.SetCookie(w, &http.Cookie{
		Name: s.knownName(), Value: s.signer.Known(s.known(r), p), Path: "/", MaxAge: int(identity.KnownFor.Seconds()),
		HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	})
}
