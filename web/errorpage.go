package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/httpstatus"
	"holdpoint/web/views"
)

// keeping is an error whose page shows what the person wrote, so that it is not lost.
func keeping(err error, comment string) error { return commentedError{err, comment} }

type commentedError struct {
	error
	comment string
}

func (e commentedError) Unwrap() error { return e.error }

// fail shows an error as a page: what a person can do something about as what
// it is, anything else as an outage, in which nothing was decided. Who has hung up is shown
// nothing: what was begun for them ended with that, and is no outage.
func (s *site) fail(w http.ResponseWriter, r *http.Request, p engine.Person, err error) {
	if hungUp(r.Context()) {
		w.WriteHeader(httpstatus.ClientGone)
		return
	}
	if !errors.Is(err, errNotRendered) {
		status, m := s.failure(w, r, p, err)
		err = s.render(w, r, status, views.MessagePage(m))
	}
	if err != nil {
		s.logger.ErrorContext(r.Context(), "page not rendered", "path", r.URL.Path, "error", err)
		http.Error(w, "This page could not be shown.", http.StatusInternalServerError)
	}
}

// failure is the page of an error.
func (s *site) failure(w http.ResponseWriter, r *http.Request, p engine.Person, err error) (int, views.Message) {
	var kept commentedError
	errors.As(err, &kept)
	m := views.Message{Frame: s.frame(p, "Not available", ""), Comment: kept.comment, LinkText: "Go to the inbox", LinkTo: "/"}
	if to := parent(r); r.Method == http.MethodPost && to != "/" {
		m.LinkText, m.LinkTo = "Back to the page", to
		if strings.HasPrefix(to, "/approvals/") {
			m.LinkText = "Back to the card"
		}
	}
	var refusal *access.Refusal
	err = access.FromStore(err)
	if !errors.As(err, &refusal) {
		s.logger.ErrorContext(r.Context(), "request not served", "method", r.Method, "path", r.URL.Path, "error", err)
		m.Heading = "Holdpoint cannot answer right now"
		m.Lines = []string{"Nothing was decided, and nothing that you sent was recorded. Try again in a moment; what waits for you goes on waiting."}
		w.Header().Set("Retry-After", "5")
		return http.StatusServiceUnavailable, m
	}
	m.Heading = heading(refusal)
	m.Title = m.Heading
	m.Lines = strings.Split(refusal.Detail, "\n")
	if refusal.Code == notOpen {
		m.LinkText, m.LinkTo = "Go to the inbox", "/"
	}
	if refusal.Code == notShown {
		m.LinkText, m.LinkTo = "Show everything", cardURL(r.PathValue("id"))+"?full=1"
	}
	if refusal.Code == noFactor {
		m.LinkText, m.LinkTo = "Go to your account", "/account"
	}
	if refusal.Code == notVerified {
		m.LinkText, m.LinkTo = "Prove who you are", verifyURL(parent(r))
	}
	retryAfter(w, refusal)
	return httpstatus.Of(refusal.Kind), m
}

func hungUp(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

func heading(refusal *access.Refusal) string {
	if refusal.Code == notShown {
		return "There is more to read first"
	}
	if strings.HasPrefix(refusal.Code, "sso_") {
		return "That did not work at the provider"
	}
	switch refusal.Code {
	case notVerified:
		return "Prove who you are first"
	case noFactor:
		return "Add a second factor first"
	case notOpen:
		return "This page is not open to you"
	case killSwitch:
		return "A kill switch is on, so your vote was not recorded"
	}
	switch httpstatus.Of(refusal.Kind) {
	case http.StatusNotFound:
		return "Not found"
	case http.StatusForbidden:
		return "This is not yours to decide"
	case http.StatusConflict, http.StatusGone:
		return "This has changed"
	case http.StatusRequestEntityTooLarge:
		return "That is too long"
	case http.StatusTooManyRequests:
		return "Too many requests"
	}
	return "That did not work"
}

// parent is the page on which the form was that a POST carries.
func parent(r *http.Request) string {
	id := url.PathEscape(r.PathValue("id"))
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/approvals/"):
		return "/approvals/" + id
	case strings.HasPrefix(path, "/grants/"):
		return "/grants"
	case strings.HasPrefix(path, "/sessions/"):
		return sessionURL(r.PathValue("agent"), r.PathValue("session"))
	case strings.HasPrefix(path, "/agents/"):
		return "/agents/" + id
	case strings.HasPrefix(path, "/audit/"):
		return erasuresURL
	case strings.HasPrefix(path, "/admin/"):
		return "/admin"
	case strings.HasPrefix(path, "/account/"):
		return "/account"
	case strings.HasPrefix(path, "/notifications/"):
		return "/notifications"
	case path == "/policies", path == "/account":
		return path
	case strings.HasPrefix(path, "/people/") && id != "":
		return "/people/" + id
	case strings.HasPrefix(path, "/away"):
		return "/away"
	}
	return "/"
}

// renderJSON answers a script.
func (s *site) renderJSON(w http.ResponseWriter, r *http.Request, body any, err error) {
	if err != nil && hungUp(r.Context()) {
		w.WriteHeader(httpstatus.ClientGone)
		return
	}
	status := http.StatusOK
	var refusal *access.Refusal
	err = access.FromStore(err)
	switch {
	case errors.As(err, &refusal):
		status, body = httpstatus.Of(refusal.Kind), map[string]string{"code": refusal.Code, "detail": refusal.Detail}
		retryAfter(w, refusal)
	case err != nil:
		s.logger.ErrorContext(r.Context(), "request not served", "method", r.Method, "path", r.URL.Path, "error", err)
		status, body = http.StatusServiceUnavailable, map[string]string{"code": "unavailable", "detail": "Holdpoint cannot answer right now. Try again in a moment."}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the reader is gone: there is nobody to tell
}

// refused is a refusal that a form can show beside what was entered; anything
// else is for a page of its own.
func refused(err error) (string, bool) {
	var refusal *access.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != access.Invalid {
		return "", false
	}
	return refusal.Detail, true
}

func invalid(code, detail string) error {
	return &access.Refusal{Kind: access.Invalid, Code: code, Detail: detail}
}

var errNoPage = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is nothing at this address."}

var errChanged = &access.Refusal{
	Kind: access.Conflict, Code: "changed", Detail: "Somebody has changed this since you opened the page, so nothing was saved. Open it again and look at what is there now.",
}

func retryAfter(w http.ResponseWriter, refusal *access.Refusal) {
	if seconds := int(refusal.RetryAfter.Seconds()); seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
}

// notShown is the code of a refusal to approve arguments that the person has
// not seen whole.
const notShown = "arguments_not_shown"

// killSwitch is the code of a refusal to approve anything of a stopped agent.
const killSwitch = "kill_switch"

// notVerified is the code of a refusal of what takes a fresh proof.
const notVerified = "verification_required"
