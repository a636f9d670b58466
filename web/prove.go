package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"

	"holdpoint/engine"
	"holdpoint/internal/gate"
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

// proveForm is a form by which somebody proves, by one of the methods, who they
// are. What it is bound to has to be what Verify is given.
func proveForm(factors *identity.Factors, r *http.Request, methods []identity.Method, purpose, boundTo string) views.ProveForm {
	return views.ProveForm{
		Code: slices.Contains(methods, identity.TOTP), Password: slices.Contains(methods, identity.Password), Passkey: slices.Contains(methods, identity.Passkey),
		Purpose: purpose, BoundTo: boundTo, Elsewhere: passkeysElsewhere(factors, r),
	}
}

// proofOf is the proof that such a form carries.
func proofOf(form url.Values) identity.Proof {
	return identity.Proof{Code: form.Get("code"), Password: form.Get("password"), Assertion: []byte(form.Get("assertion")), ChallengeID: form.Get("challenge")}
}

// passkeysElsewhere is this page where passkeys work, if they do not work here:
// they are bound to a name, and this machine may be reached by its address.
func passkeysElsewhere(factors *identity.Factors, r *http.Request) string {
	if factors == nil || factors.Origin() == "" {
		return ""
	}
	origin, err := url.Parse(factors.Origin())
	ip := net.ParseIP(hostOnly(r.Host))
	if err != nil || origin.Hostname() != "localhost" || ip == nil || !ip.IsLoopback() {
		return ""
	}
	page := url.URL{Scheme: origin.Scheme, Host: origin.Host, Path: r.URL.Path, RawQuery: r.URL.RawQuery}
	if r.Method != http.MethodGet {
		page.Path, page.RawQuery = parent(r), ""
	}
	return page.String()
}

// The cookie of a sign-in that lacks its second step. It names nothing but the
// step, and is worth nothing without it.
const (
	pendingName       = "holdpoint_pending"
	securePendingName = "__Host-holdpoint_pending"
)

func (c *Console) pendingCookie(value string) *http.Cookie {
	cookie := &http.Cookie{
		Name: pendingName, Value: value, Path: "/", MaxAge: int(identity.FreshFor.Seconds()), HttpOnly: true, Secure: c.site.secure, SameSite: http.SameSiteLaxMode,
	}
	if c.site.secure {
		cookie.Name = securePendingName
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// pending is the request's sign-in that lacks its second step, or "".
func (c *Console) pending(r *http.Request) string {
	cookies := r.CookiesNamed(c.pendingCookie("").Name)
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}

// secondStep sends somebody whose password was right on to their second factor.
func (c *Console) secondStep(w http.ResponseWriter, r *http.Request, pending, next string) {
	http.SetCookie(w, c.pendingCookie(pending))
	to := "/login/verify"
	if next != "/" {
		to += "?next=" + url.QueryEscape(next)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (c *Console) secondStepForm(w http.ResponseWriter, r *http.Request) {
	c.showSecondStep(w, r, http.StatusOK, localPath(r.URL.Query().Get("next")), "")
}

// showSecondStep asks for the second factor, or again for the first where that
// was too long ago.
func (c *Console) showSecondStep(w http.ResponseWriter, r *http.Request, status int, next, failure string) {
	pending := c.pending(r)
	if pending == "" || c.cfg.SecondStep == nil {
		http.Redirect(w, r, signInURL(next), http.StatusSeeOther)
		return
	}
	_, methods, err := c.cfg.SecondStep.Pending(r.Context(), pending)
	if err != nil {
		c.signInAgain(w, r, next, err)
		return
	}
	v := views.ProvePage{
		Frame: c.site.frame(engine.Person{}, "Sign in", ""), Heading: "One more step", Lead: "Your password is right. Now your second factor.",
		Form: proveForm(c.cfg.Factors, r, methods, "", ""), BackText: "Sign in as somebody else", BackTo: signInURL(next),
	}
	v.Form.Action, v.Form.Options, v.Form.Submit, v.Form.Focus, v.Form.Failure = "/login/verify", "/login/assertion", "Sign in", true, failure
	v.Form.Hidden = []views.Field{{Name: "next", Value: next}}
	c.site.render(w, r, status, views.ProvePageView(v))
}

// signInAgain shows the first step, because the second cannot be made any more.
func (c *Console) signInAgain(w http.ResponseWriter, r *http.Request, next string, err error) {
	var refusal *gate.Refusal
	if !errors.As(err, &refusal) {
		c.site.fail(w, r, engine.Person{}, fmt.Errorf("sign in: %w", err))
		return
	}
	http.SetCookie(w, c.pendingCookie(""))
	v := views.SignIn{Frame: c.site.frame(engine.Person{}, "Sign in", ""), Next: next, Failure: refusal.Detail}
	c.site.render(w, r, refusal.Status, views.SignInPage(v))
}

func (c *Console) finishSignIn(w http.ResponseWriter, r *http.Request) {
	if err := readForm(w, r); err != nil {
		c.site.fail(w, r, engine.Person{}, err)
		return
	}
	next := localPath(r.PostForm.Get("next"))
	pending := c.pending(r)
	if pending == "" || c.cfg.SecondStep == nil {
		http.Redirect(w, r, signInURL(next), http.StatusSeeOther)
		return
	}
	person, err := c.cfg.SecondStep.Finish(r.Context(), pending, proofOf(r.PostForm), c.cfg.Remote(r))
	var refusal *gate.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Status != http.StatusUnauthorized:
		retryAfter(w, refusal)
		c.showSecondStep(w, r, refusal.Status, next, refusal.Detail)
	case err != nil:
		c.signInAgain(w, r, next, err)
	default:
		http.SetCookie(w, c.pendingCookie(""))
		c.signedIn(w, r, person, next)
	}
}

// secondStepAssertion gives a browser what it needs to ask for a passkey.
func (c *Console) secondStepAssertion(w http.ResponseWriter, r *http.Request) {
	pending := c.pending(r)
	if pending == "" || c.cfg.SecondStep == nil {
		c.site.renderJSON(w, r, nil, &gate.Refusal{Status: http.StatusUnauthorized, Code: "sign_in_over", Detail: "Sign in again."})
		return
	}
	ceremony, err := c.cfg.SecondStep.Ask(r.Context(), pending)
	c.site.renderJSON(w, r, ceremony, err)
}

// assertion gives a signed-in person's browser what it needs to ask for a
// passkey, for a purpose and bound to what the page says. Whoever takes the
// proof compares both with what they know themselves.
func (c *Console) assertion(w http.ResponseWriter, r *http.Request, p engine.Person) {
	err := readForm(w, r)
	purpose, boundTo := r.PostForm.Get("purpose"), r.PostForm.Get("bound_to")
	if err == nil && (purpose != identity.ForSession && purpose != identity.ForApproval || len(boundTo) > 1000) {
		err = invalid("invalid_purpose", "Nothing can be proved for that.")
	}
	var ceremony identity.Ceremony
	if err == nil {
		ceremony, err = c.cfg.Factors.Begin(r.Context(), p, purpose, boundTo)
	}
	c.site.renderJSON(w, r, ceremony, err)
}

func (c *Console) verifyForm(w http.ResponseWriter, r *http.Request) {
	c.verifying(w, r, localPath(r.URL.Query().Get("next")), func(p engine.Person, next string) {
		c.showVerify(w, r, p, http.StatusOK, next, "")
	})
}

// verifying is a handler for signed-in people. Whoever is not proves who they
// are by signing in, and goes on from there.
func (c *Console) verifying(w http.ResponseWriter, r *http.Request, next string, h func(p engine.Person, next string)) {
	p, ok, err := c.site.person(r)
	switch {
	case err != nil:
		c.site.fail(w, r, p, err)
	case !ok:
		http.Redirect(w, r, signInURL(next), http.StatusSeeOther)
	case c.cfg.Factors == nil:
		c.site.fail(w, r, p, errNoPage)
	default:
		h(p, next)
	}
}

func (c *Console) showVerify(w http.ResponseWriter, r *http.Request, p engine.Person, status int, next, failure string) {
	methods, err := c.cfg.Factors.Methods(r.Context(), p)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	v := views.ProvePage{
		Frame: c.site.frame(p, "Prove who you are", ""), Heading: "Prove who you are", Lead: "What comes next needs to know that it is still you. It counts for five minutes.",
		Form: proveForm(c.cfg.Factors, r, methods, identity.ForSession, ""), BackText: "Not now", BackTo: "/",
	}
	v.Form.Action, v.Form.Focus, v.Form.Failure = "/verify", true, failure
	v.Form.Hidden = []views.Field{{Name: "next", Value: next}}
	c.site.render(w, r, status, views.ProvePageView(v))
}

// verify proves again who the person of the session is.
func (c *Console) verify(w http.ResponseWriter, r *http.Request) {
	if err := readForm(w, r); err != nil {
		p, _, _ := c.site.person(r) // only decides whether the page has its navigation
		c.site.fail(w, r, p, err)
		return
	}
	c.verifying(w, r, localPath(r.PostForm.Get("next")), func(p engine.Person, next string) {
		method, err := c.cfg.Factors.Verify(r.Context(), p, identity.ForSession, "", proofOf(r.PostForm))
		var refusal *gate.Refusal
		if errors.As(err, &refusal) {
			retryAfter(w, refusal)
			c.showVerify(w, r, p, refusal.Status, next, refusal.Detail)
			return
		}
		if err == nil {
			err = c.site.sessions.verified(r, p, method)
		}
		if errors.Is(err, ErrNoSession) {
			http.Redirect(w, r, signInURL(next), http.StatusSeeOther)
			return
		}
		if err != nil {
			c.site.fail(w, r, p, fmt.Errorf("verify: %w", err))
			return
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	})
}
