package web

import (
	"context"
	"errors"
	"net/http"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/httpstatus"
	"holdpoint/web/views"
)

// PasswordLinks are links by which people set a password; *identity.SignIn is one.
type PasswordLinks interface {
	// FollowLink uses a link up, and returns whose password was set, with their e-mail
	// address. Refusals are unfit_password (422), which leaves the link as it is,
	// link_over (404) and too_many_attempts (429).
	FollowLink(ctx context.Context, token, password, remote string) (engine.Person, error)
}

// welcome shows the page of a link. It looks nothing up, so that a program that opens
// every link of a mail uses none up, and so that nothing can fail whose message would
// have the address, which is secret.
func (h *signInHandler) welcome(w http.ResponseWriter, r *http.Request) {
	h.showWelcome(w, r, http.StatusOK, r.PathValue("token"), "")
}

func (h *signInHandler) showWelcome(w http.ResponseWriter, r *http.Request, status int, token, failure string) {
	// The address of this page leaves with no request. (Under no-referrer, browsers
	// send forms with "Origin: null".)
	w.Header().Set("Referrer-Policy", "origin")
	v := views.Welcome{Frame: h.site.frame(engine.Person{}, "Set your password", ""), Token: token, Failure: failure}
	if err := h.site.render(w, r, status, views.WelcomePage(v)); err != nil {
		http.Error(w, "The page could not be shown.", http.StatusInternalServerError)
	}
}

// setPassword follows a link, and signs in who it is of.
func (h *signInHandler) setPassword(w http.ResponseWriter, r *http.Request, _ engine.Person) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	token, password := r.PostForm.Get("token"), r.PostForm.Get("password")
	if password != r.PostForm.Get("again") {
		h.showWelcome(w, r, http.StatusUnprocessableEntity, token, "The two passwords are not the same.")
		return nil
	}
	person, err := h.links.FollowLink(r.Context(), token, password, h.remote(r))
	var refusal *access.Refusal
	if errors.As(err, &refusal) {
		retryAfter(w, refusal)
		h.showWelcome(w, r, httpstatus.Of(refusal.Kind), token, refusal.Detail)
		return nil
	}
	if err != nil {
		return err
	}
	r.PostForm.Set("email", person.Email)
	r.PostForm.Del("next")
	// Whoever guesses at the password does not keep them from their first sign-in.
	return h.enter(w, r, h.signer.Known(h.site.sessions.known(r), person))
}
