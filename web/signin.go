package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// maxForm bounds a form's body, in bytes.
const maxForm = 64 << 10

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

func (c *Console) signInForm(w http.ResponseWriter, r *http.Request) {
	person, ok, err := c.site.person(r)
	if err != nil {
		c.site.fail(w, r, person, err)
		return
	}
	next := localPath(r.URL.Query().Get("next"))
	if ok {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	c.site.render(w, r, http.StatusOK, views.SignInPage(views.SignIn{Frame: c.site.frame(person, "Sign in", ""), Next: next}))
}

func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	person, _, err := c.site.person(r)
	if err != nil {
		c.site.fail(w, r, person, err)
		return
	}
	if err := readForm(w, r); err != nil {
		c.site.fail(w, r, person, err)
		return
	}
	email, next := strings.TrimSpace(r.PostForm.Get("email")), localPath(r.PostForm.Get("next"))
	person, err = c.cfg.SignIn.SignIn(r.Context(), email, r.PostForm.Get("password"), r.PostForm.Get("code"), c.cfg.Remote(r))
	var second *identity.SecondStep
	if errors.As(err, &second) {
		c.secondStep(w, r, second.Pending, next)
		return
	}
	var refusal *gate.Refusal
	if errors.As(err, &refusal) {
		v := views.SignIn{Frame: c.site.frame(person, "Sign in", ""), Email: email, Next: next}
		v.Person = ""
		status := http.StatusUnauthorized
		v.Failure = "That email address and password do not go together."
		if refusal.Status == http.StatusTooManyRequests {
			status = http.StatusTooManyRequests
			v.Failure = "Too many attempts. Wait a while, then try again."
			retryAfter(w, refusal)
		}
		c.site.render(w, r, status, views.SignInPage(v))
		return
	}
	if err != nil {
		c.site.fail(w, r, person, fmt.Errorf("sign in: %w", err))
		return
	}
	c.signedIn(w, r, person, next)
}

// signedIn starts a session for somebody who has proved who they are.
func (c *Console) signedIn(w http.ResponseWriter, r *http.Request, person engine.Person, next string) {
	session, err := c.site.sessions.Get(r, c.site.sessions.name())
	if err == nil {
		session.Values[personKey{}] = person
		err = session.Save(r, w)
	}
	if err != nil {
		person.Name, person.Email = "", ""
		c.site.fail(w, r, person, fmt.Errorf("sign in: %w", err))
		return
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	session, err := c.site.sessions.Get(r, c.site.sessions.name())
	if err != nil {
		person, _, _ := c.site.person(r)
		c.site.fail(w, r, person, fmt.Errorf("sign out: %w", err))
		return
	}
	person, was, _ := c.site.person(r) // the same lookup as above, which went well
	session.Options.MaxAge = -1
	if err := session.Save(r, w); err != nil {
		c.site.fail(w, r, person, fmt.Errorf("sign out: %w", err))
		return
	}
	if was {
		if err := c.cfg.SignIn.SignedOut(r.Context(), person); err != nil {
			c.site.logger.ErrorContext(r.Context(), "sign-out not recorded", "person", person.ID, "error", err)
		}
	}
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// readForm reads a form's body into r.PostForm, or refuses it.
func readForm(w http.ResponseWriter, r *http.Request) error { return readFormOf(w, r, maxForm) }

// readFormOf is readForm for forms of up to limit bytes.
func readFormOf(w http.ResponseWriter, r *http.Request, limit int64) error {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/x-www-form-urlencoded" {
		return &gate.Refusal{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Detail: "This address takes a form."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	err := r.ParseForm()
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return &gate.Refusal{Status: http.StatusRequestEntityTooLarge, Code: "body_too_large", Detail: "That is more than this form takes."}
	}
	if err != nil {
		return &gate.Refusal{Status: http.StatusBadRequest, Code: "bad_form", Detail: "The form could not be read."}
	}
	for name, values := range r.PostForm {
		for _, text := range append(values, name) {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return &gate.Refusal{Status: http.StatusUnprocessableEntity, Code: "unfit_text", Detail: "The form holds a character that cannot be kept, such as NUL. Take it out and send it again."}
			}
		}
	}
	return nil
}
