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
	"holdpoint/internal/access"
	"holdpoint/internal/httpstatus"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// verifyForm is a form by which somebody proves, by one of the methods, who they
// are, once, for the purpose and nothing more.
func verifyForm(factors *identity.Factors, r *http.Request, methods []identity.Method, purpose string) views.VerifyForm {
	f := views.VerifyForm{
		Code: slices.Contains(methods, identity.TOTP), Password: slices.Contains(methods, identity.Password), Passkey: slices.Contains(methods, identity.Passkey),
		Purpose: purpose, Elsewhere: passkeysElsewhere(factors, r),
	}
	if slices.Contains(methods, identity.Provider) {
		next := parent(r)
		if !unsafe(r.Method) {
			next = r.URL.RequestURI()
		}
		f.Provider = atProviderURL(next)
	}
	return f
}

// atProviderURL is where people prove who they are at their provider.
func atProviderURL(next string) string { return "/verify/sso?next=" + url.QueryEscape(next) }

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

// verifyHandler serves the page on which a signed-in person proves anew who they
// are.
type verifyHandler struct {
	site    *site
	factors *identity.Factors
}

func (h *verifyHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /verify", h.site.forEverybody(h.form))
	mux.HandleFunc("POST /verify", h.site.forEverybody(h.verify))
	mux.HandleFunc("POST /account/assertion", h.site.signedIn(h.assertion))
}

// assertion gives a signed-in person's browser what it needs to ask for a
// passkey, for a purpose and bound to what the page says. Whoever takes the
// proof compares both with what they know themselves.
func (h *verifyHandler) assertion(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	err := readForm(w, r)
	purpose, boundTo := r.PostForm.Get("purpose"), r.PostForm.Get("bound_to")
	if err == nil && (purpose != identity.ForSession && purpose != identity.ForApproval || len(boundTo) > 1000) {
		err = invalid("invalid_purpose", "Nothing can be proved for that.")
	}
	var ceremony identity.Ceremony
	if err == nil {
		ceremony, err = h.factors.Begin(r.Context(), p, purpose, boundTo)
	}
	h.site.renderJSON(w, r, ceremony, err)
	return nil
}

// form asks for the proof. Whoever has not signed in proves who they are by that,
// and goes on from there.
func (h *verifyHandler) form(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	next := localPath(r.URL.Query().Get("next"))
	if p.ID == "" {
		http.Redirect(w, r, signInURL(next), http.StatusSeeOther)
		return nil
	}
	return h.render(w, r, p, http.StatusOK, next, "")
}

func (h *verifyHandler) render(w http.ResponseWriter, r *http.Request, p engine.Person, status int, next, failure string) error {
	methods, err := h.factors.Methods(r.Context(), p)
	if err != nil {
		return err
	}
	v := views.VerifyPage{
		Frame: h.site.frame(p, "Prove who you are", ""), Heading: "Prove who you are", Lead: "What comes next needs to know that it is still you. It counts for five minutes.",
		Form: verifyForm(h.factors, r, methods, identity.ForSession), BackText: "Not now", BackTo: "/",
	}
	v.Form.Action, v.Form.Focus, v.Form.Failure = "/verify", true, failure
	v.Form.Hidden = []views.Field{{Name: "next", Value: next}}
	if v.Form.Provider != "" {
		v.Form.Provider = atProviderURL(next)
	}
	return h.site.render(w, r, status, views.VerifyPageView(v))
}

// verify proves again who the person of the session is.
func (h *verifyHandler) verify(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	next := localPath(r.PostForm.Get("next"))
	err := ErrNoSession
	if p.ID != "" {
		var method string
		method, err = h.factors.Verify(r.Context(), p, identity.ForSession, "", proofOf(r.PostForm))
		var refusal *access.Refusal
		if errors.As(err, &refusal) {
			retryAfter(w, refusal)
			return h.render(w, r, p, httpstatus.Of(refusal.Kind), next, refusal.Detail)
		}
		if err == nil {
			err = h.site.sessions.verified(r, p, method)
		}
	}
	if errors.Is(err, ErrNoSession) {
		next, err = signInURL(next), nil
	}
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
	return nil
}

// Prover checks what people show to prove who they are, for one purpose and bound
// to what they prove it for.
type Prover interface {
	// Methods are the ways in which the person can: "passkey", "totp" and, for those
	// who have no second factor, "password".
	Methods(ctx context.Context, p engine.Person) ([]string, error)
	// Verify returns the method of a good proof. A refusal is a proof that is none.
	Verify(ctx context.Context, p engine.Person, purpose, boundTo string, proof identity.Proof) (method string, err error)
}

// verifyURL is where people prove who they are, and come back from.
func verifyURL(next string) string { return "/verify?next=" + url.QueryEscape(next) }
