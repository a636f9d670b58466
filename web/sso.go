package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/httpstatus"
	"holdpoint/internal/identity"
	"holdpoint/internal/sso"
	"holdpoint/web/views"
)

// SSO signs people in by providers of single sign-on; *identity.SSO is one.
type SSO interface {
	// Buttons are the providers.
	Buttons() []sso.Button
	// Begin returns where to send the browser, and what it keeps until it comes back to
	// next. With a person it is for a proof that they are there.
	Begin(ctx context.Context, provider, next string, p engine.Person, remote string) (to, cookie string, err error)
	// Finish checks what a provider answers. p is the person of the session, if any.
	Finish(ctx context.Context, provider, cookie string, answer url.Values, p engine.Person, remote string) (identity.SSOSignIn, error)
	// SignOut returns where a browser goes to sign out at the provider, "" for nowhere.
	SignOut(ctx context.Context, provider string) string
}

// The cookie of a sign-in that is under way at a provider: sealed, and worth nothing in
// another browser.
const (
	flowName       = "holdpoint_sso"
	secureFlowName = "__Host-holdpoint_sso"
)

func (h *signInHandler) flowCookie(value string) *http.Cookie {
	// Lax: the provider sends the browser back from another site.
	cookie := &http.Cookie{Name: flowName, Value: value, Path: "/", MaxAge: int(sso.Lasts.Seconds()), HttpOnly: true, Secure: h.site.secure, SameSite: http.SameSiteLaxMode}
	if h.site.secure {
		cookie.Name = secureFlowName
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// signInPage is the page to sign in on, with the providers.
func (s *site) signInPage(v views.SignIn) templ.Component {
	if s.sso != nil {
		for _, b := range s.sso.Buttons() {
			v.Providers = append(v.Providers, views.Link{Text: b.Label, To: "/login/sso/" + b.Name + "?next=" + url.QueryEscape(v.Next)})
		}
		v.SSOOnly = s.ssoOnly
	}
	return views.SignInPage(v)
}

func (h *signInHandler) registerSSO(mux *http.ServeMux) {
	mux.HandleFunc("GET /login/sso/{provider}", h.site.forEverybody(h.toProvider))
	mux.HandleFunc("GET /login/sso/{provider}/callback", h.site.forEverybody(h.fromProvider))
	mux.HandleFunc("GET /login/sso/{provider}/sign-out", h.signOutAtProvider)
	mux.HandleFunc("GET /verify/sso", h.site.forEverybody(h.proveAtProvider))
}

// toProvider sends somebody who signs in to a provider. (A form could not: browsers hold
// the policy on forms against the redirect.) Another site's link leads to the sign-in
// page alone.
func (h *signInHandler) toProvider(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	next := localPath(r.URL.Query().Get("next"))
	switch {
	case p.ID != "":
		http.Redirect(w, r, next, http.StatusSeeOther)
		return nil
	case fromAnotherSite(r):
		http.Redirect(w, r, signInURL(next), http.StatusSeeOther)
		return nil
	}
	return h.send(w, r, r.PathValue("provider"), next, p)
}

// proveAtProvider sends the person of a session to the provider by which it began.
func (h *signInHandler) proveAtProvider(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	next := localPath(r.URL.Query().Get("next"))
	if p.ID == "" || p.Provider == "" || fromAnotherSite(r) {
		http.Redirect(w, r, verifyURL(next), http.StatusSeeOther)
		return nil
	}
	return h.send(w, r, p.Provider, next, p)
}

func (h *signInHandler) send(w http.ResponseWriter, r *http.Request, provider, next string, p engine.Person) error {
	to, cookie, err := h.site.sso.Begin(r.Context(), provider, next, p, h.remote(r))
	if err != nil {
		return h.ssoFailed(w, r, next, p, err)
	}
	http.SetCookie(w, h.flowCookie(cookie))
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// fromProvider takes what a provider answers.
func (h *signInHandler) fromProvider(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	flow := ""
	if cookies := r.CookiesNamed(h.flowCookie("").Name); len(cookies) == 1 {
		flow = cookies[0].Value
	}
	arrived, err := h.site.sso.Finish(r.Context(), r.PathValue("provider"), flow, r.URL.Query(), p, h.remote(r))
	next := localPath(arrived.Next)
	var second *identity.SecondStep
	if errors.As(err, &second) {
		http.SetCookie(w, h.flowCookie(""))
		return h.askSecondStep(w, r, second.Pending, next)
	}
	if err != nil {
		return h.ssoFailed(w, r, next, p, err)
	}
	http.SetCookie(w, h.flowCookie(""))
	if !arrived.Proved {
		return h.startSession(w, r, arrived.Person, next)
	}
	if err := h.site.sessions.verified(r, p, identity.Provider); errors.Is(err, ErrNoSession) {
		next = signInURL(next)
	} else if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
	return nil
}

// ssoFailed shows why nobody came in: on the page to sign in on, or to whoever has signed
// in already on one of its own.
func (h *signInHandler) ssoFailed(w http.ResponseWriter, r *http.Request, next string, p engine.Person, err error) error {
	var refusal *access.Refusal
	if !errors.As(err, &refusal) || p.ID != "" {
		return err
	}
	retryAfter(w, refusal)
	v := views.SignIn{Frame: h.site.frame(engine.Person{}, "Sign in", ""), Next: next, Failure: refusal.Detail}
	return h.site.render(w, r, httpstatus.Of(refusal.Kind), h.site.signInPage(v))
}

// signOutAtProvider leads somebody who has signed out here on to the provider's own
// sign-out. It is a page, because a form must not lead to another site.
func (h *signInHandler) signOutAtProvider(w http.ResponseWriter, r *http.Request) {
	provider := r.PathValue("provider")
	to := ""
	if !fromAnotherSite(r) {
		to = h.site.sso.SignOut(r.Context(), provider)
	}
	if to == "" {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	i := slices.IndexFunc(h.site.sso.Buttons(), func(b sso.Button) bool { return b.Name == provider })
	label := h.site.sso.Buttons()[max(i, 0)].Label
	w.Header().Set("Refresh", "0; url="+strings.ReplaceAll(to, `"`, "%22"))
	m := views.Message{
		Frame: h.site.frame(engine.Person{}, "Signed out", ""), Heading: "You are signed out of Holdpoint",
		Lines: []string{"You go on to sign out at " + label + ", too."}, LinkText: "Go on to " + label, LinkTo: to,
	}
	if err := h.site.render(w, r, http.StatusOK, views.MessagePage(m)); err != nil {
		h.site.fail(w, r, engine.Person{}, err)
	}
}

// lacksFactor names the first of the roles of a person of a session that need a second
// factor which the person does not have, "" for none.
func (s *site) lacksFactor(p engine.Person) string {
	if len(p.Factors) > 0 || p.ProviderMFA || p.ID == "" {
		return ""
	}
	if i := slices.IndexFunc(s.factorRoles, p.Has); i >= 0 {
		return s.factorRoles[i]
	}
	return ""
}

// factorNeeded refuses whatever is not for getting a second factor to somebody whose
// role needs one.
func (s *site) factorNeeded(r *http.Request, p engine.Person) error {
	path := r.URL.Path
	for _, allowed := range []string{"/account/totp", "/account/passkeys", "/account/assertion"} {
		if path == allowed || strings.HasPrefix(path, allowed+"/") {
			return nil
		}
	}
	if path == "/account" {
		return nil
	}
	return s.withFactor(p)
}

func (s *site) withFactor(p engine.Person) error {
	role := s.lacksFactor(p)
	if role == "" {
		return nil
	}
	return identity.SecondFactorNeeded(role)
}

// noFactor is the code of a refusal of what takes a second factor.
const noFactor = "second_factor_needed"
