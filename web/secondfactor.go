package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/httpstatus"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// SecondStep finishes sign-ins that lack a second factor; *identity.SignIn is
// one. pending is what identity.SecondStep named. Refusals are sign_in_over
// (401), verification_failed (403) and too_many_attempts (429).
type SecondStep interface {
	// Pending returns whose sign-in it is, and by what they can finish it.
	Pending(ctx context.Context, pending string) (engine.Person, []identity.Method, error)
	// Ask starts the second step by passkey.
	Ask(ctx context.Context, pending string) (identity.Ceremony, error)
	// Finish returns the person, with VerifiedBy.
	Finish(ctx context.Context, pending string, proof identity.Proof, remote string) (engine.Person, error)
}

// The cookie of a sign-in that lacks its second step. It names nothing but the
// step, and is worth nothing without it.
const (
	pendingName       = "holdpoint_pending"
	securePendingName = "__Host-holdpoint_pending"
)

func (h *signInHandler) pendingCookie(value string) *http.Cookie {
	cookie := &http.Cookie{
		Name: pendingName, Value: value, Path: "/", MaxAge: int(identity.FreshFor.Seconds()), HttpOnly: true, Secure: h.site.secure, SameSite: http.SameSiteLaxMode,
	}
	if h.site.secure {
		cookie.Name = securePendingName
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// pending is the request's sign-in that lacks its second step, or "".
func (h *signInHandler) pending(r *http.Request) string {
	cookies := r.CookiesNamed(h.pendingCookie("").Name)
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}

// askSecondStep sends somebody whose password was right on to their second factor.
// What the sign-in carries is in no address, so that it is asked for at once then.
func (h *signInHandler) askSecondStep(w http.ResponseWriter, r *http.Request, pending, next string) error {
	http.SetCookie(w, h.pendingCookie(pending))
	if carried(r.PostForm) != nil {
		return h.showSecondStep(w, r, http.StatusOK, pending, next, "")
	}
	to := "/login/verify"
	if next != "/" {
		to += "?next=" + url.QueryEscape(next)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

func (h *signInHandler) secondStepForm(w http.ResponseWriter, r *http.Request, _ engine.Person) error {
	return h.showSecondStep(w, r, http.StatusOK, h.pending(r), localPath(r.URL.Query().Get("next")), "")
}

// showSecondStep asks for the second factor, or again for the first where that
// was too long ago.
func (h *signInHandler) showSecondStep(w http.ResponseWriter, r *http.Request, status int, pending, next, failure string) error {
	if pending == "" || h.second == nil {
		http.Redirect(w, r, signInURL(next), http.StatusSeeOther)
		return nil
	}
	person, methods, err := h.second.Pending(r.Context(), pending)
	if err != nil {
		return h.signInAgain(w, r, next, err)
	}
	v := views.VerifyPage{
		Frame: h.site.frame(engine.Person{}, "Sign in", ""), Heading: "One more step", Lead: "Your password is right. Now your second factor.",
		Form: verifyForm(h.factors, r, methods, ""), BackText: "Sign in as somebody else", BackTo: signInURL(next),
	}
	if person.Provider != "" {
		v.Lead = "Your single sign-on is right. Now your second factor."
	}
	v.Form.Action, v.Form.Options, v.Form.Submit, v.Form.Focus, v.Form.Failure = "/login/verify", "/login/assertion", "Sign in", true, failure
	v.Form.Hidden = append(carried(r.PostForm), views.Field{Name: "next", Value: next})
	return h.site.render(w, r, status, views.VerifyPageView(v))
}

// signInAgain shows the first step, because the second cannot be made any more.
func (h *signInHandler) signInAgain(w http.ResponseWriter, r *http.Request, next string, err error) error {
	var refusal *access.Refusal
	if !errors.As(err, &refusal) {
		return fmt.Errorf("sign in: %w", err)
	}
	http.SetCookie(w, h.pendingCookie(""))
	v := views.SignIn{Frame: h.site.frame(engine.Person{}, "Sign in", ""), Next: next, Failure: refusal.Detail, Carried: carried(r.PostForm)}
	return h.site.render(w, r, httpstatus.Of(refusal.Kind), h.site.signInPage(v))
}

func (h *signInHandler) finishSignIn(w http.ResponseWriter, r *http.Request, _ engine.Person) error {
	if err := readFormOf(w, r, maxCarried); err != nil {
		return err
	}
	next := localPath(r.PostForm.Get("next"))
	pending := h.pending(r)
	if pending == "" || h.second == nil {
		http.Redirect(w, r, signInURL(next), http.StatusSeeOther)
		return nil
	}
	person, err := h.second.Finish(r.Context(), pending, proofOf(r.PostForm), h.remote(r))
	var refusal *access.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Kind != access.Unauthenticated:
		retryAfter(w, refusal)
		return h.showSecondStep(w, r, httpstatus.Of(refusal.Kind), pending, next, refusal.Detail)
	case err != nil:
		return h.signInAgain(w, r, next, err)
	}
	http.SetCookie(w, h.pendingCookie(""))
	return h.startSession(w, r, person, next)
}

// secondStepAssertion gives a browser what it needs to ask for a passkey.
func (h *signInHandler) secondStepAssertion(w http.ResponseWriter, r *http.Request) {
	pending := h.pending(r)
	if pending == "" || h.second == nil {
		h.site.renderJSON(w, r, nil, &access.Refusal{Kind: access.Unauthenticated, Code: "sign_in_over", Detail: "Sign in again."})
		return
	}
	ceremony, err := h.second.Ask(r.Context(), pending)
	h.site.renderJSON(w, r, ceremony, err)
}
