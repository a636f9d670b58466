package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

func signInURL(next string) string {
	if next = localPath(next); next == "/" {
		return "/login"
	}
	return "/login?next=" + url.QueryEscape(next)
}

// localPath returns next if it is a path of this server, else "/". What a
// browser could take for another host, or for another line, is not a path; nor
// is a page where nobody wants to end up after signing in.
func localPath(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || len(next) > 2000 {
		return "/"
	}
	for _, c := range next {
		if c <= 0x20 || c >= 0x7F || c == '\\' {
			return "/"
		}
	}
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || strings.HasPrefix(u.Path, "//") ||
		strings.ContainsAny(u.Path, "\\\r\n\t") || u.Path == "/login" || strings.HasPrefix(u.Path, "/login/") || u.Path == "/logout" || u.Path == "/live" || u.Path == "/verify" {
		return "/"
	}
	return next
}

// signInHandler serves signing in, its second step, and signing out.
type signInHandler struct {
	site    *site
	signer  SignIn
	links   PasswordLinks     // nil where there are no links to set a password by
	second  SecondStep        // nil when nobody has a second factor
	factors *identity.Factors // likewise
	remote  func(*http.Request) string
}

func (h *signInHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /login", h.site.forEverybody(h.form))
	mux.HandleFunc("POST /login", h.site.forEverybody(h.signIn))
	mux.HandleFunc("POST /logout", h.site.forEverybody(h.signOut))
	mux.HandleFunc("GET /login/verify", h.site.forEverybody(h.secondStepForm))
	mux.HandleFunc("POST /login/verify", h.site.forEverybody(h.finishSignIn))
	mux.HandleFunc("POST /login/assertion", h.secondStepAssertion)
	if h.site.sso != nil {
		h.registerSSO(mux)
	}
	if h.links != nil {
		mux.HandleFunc("GET /welcome/{token}", h.welcome)
		mux.HandleFunc("POST /welcome", h.site.forEverybody(h.setPassword))
	}
}

func (h *signInHandler) form(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	next := localPath(r.URL.Query().Get("next"))
	if p.ID != "" {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return nil
	}
	return h.site.render(w, r, http.StatusOK, h.site.signInPage(views.SignIn{Frame: h.site.frame(p, "Sign in", ""), Next: next}))
}

func (h *signInHandler) signIn(w http.ResponseWriter, r *http.Request, _ engine.Person) error {
	if err := readFormOf(w, r, maxCarried); err != nil {
		return err
	}
	return h.enter(w, r, h.site.sessions.known(r))
}

// enter signs in by the password of a form that was read, from a browser with the cookie known.
func (h *signInHandler) enter(w http.ResponseWriter, r *http.Request, known string) error {
	email, next := strings.TrimSpace(r.PostForm.Get("email")), localPath(r.PostForm.Get("next"))
	person, err := h.signer.SignIn(r.Context(), email, r.PostForm.Get("password"), r.PostForm.Get("code"), h.remote(r), known)
	var second *identity.SecondStep
	if errors.As(err, &second) {
		return h.askSecondStep(w, r, second.Pending, next)
	}
	var refusal *access.Refusal
	if errors.As(err, &refusal) {
		v := views.SignIn{Frame: h.site.frame(engine.Person{}, "Sign in", ""), Email: email, Next: next, Carried: carried(r.PostForm)}
		status := http.StatusUnauthorized
		v.Failure = notTogether
		if refusal.Kind == access.RateLimited {
			status = http.StatusTooManyRequests
			v.Failure = fmt.Sprintf("Too many attempts. Try again in %d min.", max(1, int((refusal.RetryAfter+time.Minute-1)/time.Minute)))
			retryAfter(w, refusal)
		}
		return h.site.render(w, r, status, h.site.signInPage(v))
	}
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	return h.startSession(w, r, person, next)
}

const notTogether = "That email address and password do not go together."

// startSession starts a session for somebody who has proved who they are.
func (h *signInHandler) startSession(w http.ResponseWriter, r *http.Request, person engine.Person, next string) error {
	session, err := h.site.sessions.Get(r, h.site.sessions.name())
	if err == nil {
		session.Values[personKey{}] = person
		err = session.Save(r, w)
	}
	if errors.Is(err, ErrNoSession) {
		// Disabled, or the password is another one or the factor gone, since it was checked.
		if err := h.signer.NotStarted(r.Context(), person); err != nil {
			return fmt.Errorf("sign in: %w", err)
		}
		return h.signInAgain(w, r, next, &access.Refusal{Kind: access.Unauthenticated, Code: "wrong_credentials", Detail: notTogether})
	}
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	h.site.keepCarried(r, person)
	http.Redirect(w, r, h.site.start(person, next), http.StatusSeeOther)
	return nil
}

// start is where somebody begins who wanted the first page: whoever only reads, at the audit log,
// for no call ever waits for them.
func (s *site) start(p engine.Person, next string) string {
	reads := len(p.Roles) > 0 && !slices.ContainsFunc(p.Roles, func(role string) bool { return role != access.AuditorRole })
	if next == "/" && reads && s.audit {
		return "/audit"
	}
	return next
}

func (h *signInHandler) signOut(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	session, err := h.site.sessions.Get(r, h.site.sessions.name())
	if err == nil {
		session.Options.MaxAge = -1
		err = session.Save(r, w)
	}
	if err != nil {
		return fmt.Errorf("sign out: %w", err)
	}
	h.site.endPush(w, r, p)
	if p.ID != "" {
		if err := h.signer.SignedOut(r.Context(), p); err != nil {
			h.site.logger.ErrorContext(r.Context(), "sign-out not recorded", "person", p.ID, "error", err)
		}
	}
	to := "/login"
	if p.Provider != "" && h.site.sso != nil && h.site.sso.SignOut(r.Context(), p.Provider) != "" {
		to = "/login/sso/" + url.PathEscape(p.Provider) + "/sign-out"
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// SignIn checks credentials. It answers engine.Person with VerifiedBy, or an
// error wrapping a *access.Refusal (wrong_credentials 401, too_many_attempts 429)
// that is the same whether or not the account exists, or an
// *identity.SecondStep. code may be "". remote is the caller's address, and known what
// Known made for their browser, or "".
type SignIn interface {
	SignIn(ctx context.Context, email, password, code, remote, known string) (engine.Person, error)
	// Known is what a browser keeps in which a person has just signed in, in place of
	// what it kept before: wrong passwords of others keep it from nothing.
	Known(known string, p engine.Person) string
	// NotStarted records that somebody who signed in has no session all the same.
	NotStarted(ctx context.Context, p engine.Person) error
	// SignedOut records that the person signed out.
	SignedOut(ctx context.Context, p engine.Person) error
}
