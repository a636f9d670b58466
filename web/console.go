package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"holdpoint/engine"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/web/static"
	"holdpoint/web/views"
)

// Config is what a Console is made of.
type Config struct {
	Desk   Desk
	Office Office
	// Notices administers who is told; without it there is no page for that.
	Notices Notices
	// InForce says what is judged by at the moment of asking.
	InForce  func() InForce
	SignIn   SignIn
	Sessions Sessions
	// SecondStep finishes the sign-ins that SignIn says lack one.
	SecondStep SecondStep
	// Factors are people's second factors; nil when nobody can have any.
	Factors *identity.Factors
	// Absences may be nil: nobody can then say that they are away.
	Absences Absences
	// Prover checks proofs for single approvals; nil when nobody can give any.
	Prover Prover
	// Names may be nil: lists then show ids.
	Names Names
	// Grants may be nil: there are no pages for standing grants then.
	Grants Grants
	// Retention may be nil: there is no page for erasures and holds then. KeepFor
	// is how long approvals are kept after their end; 0 for ever.
	Retention Retention
	KeepFor   time.Duration
	// Reports may be nil: there are no reports for auditors then.
	Reports Reports
	// Log may be nil: there are no pages for the audit log then.
	Log Log
	// LogKeys are the public keys of the audit log, one name+hash+base64 each, as
	// far as this process knows them.
	LogKeys []string
	// Floor returns the checkpoint that is kept outside the database, nil for none;
	// Floor itself is nil where this process does not know of any.
	Floor func(context.Context) ([]byte, error)
	// SessionTTL is how long a session lasts at most; 12 hours when zero.
	SessionTTL time.Duration
	// Secure says that people reach the console over TLS: the cookie is then
	// called __Host-holdpoint and is Secure.
	Secure bool
	// Remote is the caller's address, for the limit on attempts to sign in; nil
	// takes the connection's. Behind a proxy this has to know which to trust.
	Remote func(*http.Request) string
	// Stopping, when it closes, ends the event streams, which would otherwise
	// keep a server from shutting down. It may be nil.
	Stopping <-chan struct{}
	// Clock is time.Now when nil.
	Clock  func() time.Time
	Logger *slog.Logger
}

// Console serves the pages.
type Console struct {
	cfg     Config
	store   *sessionStore
	streams streams
}

// New makes a console, or says what is missing.
func New(c Config) (*Console, error) {
	if c.Desk == nil || c.Office == nil || c.InForce == nil || c.SignIn == nil || c.Sessions == nil {
		return nil, errors.New("console: Desk, Office, InForce, SignIn and Sessions are needed")
	}
	if c.SessionTTL < 0 {
		return nil, fmt.Errorf("console: a session cannot last %s", c.SessionTTL)
	}
	if c.SessionTTL == 0 {
		c.SessionTTL = 12 * time.Hour
	}
	if c.Remote == nil {
		c.Remote = func(r *http.Request) string {
			if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
				return host
			}
			return r.RemoteAddr
		}
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Console{
		cfg:   c,
		store: &sessionStore{sessions: c.Sessions, ttl: c.SessionTTL, secure: c.Secure, now: c.Clock},
	}, nil
}

// Register adds the console's routes. Everything that is neither these nor
// somebody else's is for NotFound.
func (c *Console) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /login", c.signInForm)
	mux.HandleFunc("POST /login", c.signIn)
	mux.HandleFunc("POST /logout", c.signOut)
	mux.HandleFunc("GET /{$}", c.signed(c.inbox))
	mux.HandleFunc("GET /live", c.liveInbox)
	mux.HandleFunc("GET /approvals/{id}", c.signed(c.approval))
	mux.HandleFunc("POST /approvals/{id}/votes", c.signed(c.vote))
	mux.HandleFunc("GET /approvals/{id}/live", c.liveApproval)
	c.registerActions(mux)
	mux.HandleFunc("GET /history", c.signed(c.history))
	c.registerAccount(mux)
	c.registerOffice(mux)
	c.registerAway(mux)
	c.registerNotices(mux)
	mux.Handle("GET /static/", static.Handler())
	c.registerGrants(mux)
	c.registerRetention(mux)
	c.registerReports(mux)
	c.registerAudit(mux)
}

// Signed returns the person of the request's session, or false without a live
// one. An error means that nobody can tell, and nothing may be done.
func (c *Console) Signed(r *http.Request) (engine.Person, bool, error) {
	session, err := c.store.Get(r, c.store.name())
	if err != nil {
		return engine.Person{}, false, fmt.Errorf("look up the session: %w", err)
	}
	person, ok := session.Values[personKey{}].(engine.Person)
	return person, ok, nil
}

// NotFound is the page for addresses that do not exist.
func (c *Console) NotFound(w http.ResponseWriter, r *http.Request) {
	person, _, _ := c.Signed(r) // only decides whether the page has its navigation
	c.fail(w, r, person, errNoPage)
}

// signed is a handler for signed-in people only; everybody else is sent to
// sign in and comes back afterwards.
func (c *Console) signed(h func(http.ResponseWriter, *http.Request, engine.Person)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		person, ok, err := c.Signed(r)
		if err != nil {
			c.fail(w, r, person, err)
			return
		}
		if !ok {
			next := parent(r)
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				next = r.URL.RequestURI()
			}
			http.Redirect(w, r, signInURL(next), http.StatusSeeOther)
			return
		}
		h(w, r, person)
	}
}

// render writes a page. It is rendered whole before its first byte is written,
// so that no page ends in the middle.
func (c *Console) render(w http.ResponseWriter, r *http.Request, status int, page templ.Component) {
	var b bytes.Buffer
	if err := page.Render(r.Context(), &b); err != nil {
		c.cfg.Logger.ErrorContext(r.Context(), "page not rendered", "path", r.URL.Path, "error", err)
		http.Error(w, "This page could not be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader is gone: there is nobody to tell
}

func (c *Console) frame(p engine.Person, title, here string) views.Frame {
	f := views.Frame{
		Title: title, Person: displayName(p), Here: here, Now: c.cfg.Clock(), Rules: gate.MayReadRules(p), Admin: gate.MayAdminister(p),
		Away:   c.cfg.Absences != nil,
		Grants: c.cfg.Grants != nil,
		Audit:  c.cfg.Log != nil && gate.MayReadRules(p),
	}
	if k, on := c.cfg.InForce().Registered.Kills[""]; on && p.ID != "" {
		f.AllStopped = views.Kill{On: true, Reason: k.Reason, At: k.At}
	}
	return f
}

// stopped is the kill switch that stops an agent, or nil.
func (c *Console) stopped(agentID string) *engine.Finding {
	if f, on := c.cfg.InForce().Registered.Killed(agentID); on {
		return &f
	}
	return nil
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
	case strings.HasPrefix(path, "/away"):
		return "/away"
	}
	return "/"
}

func displayName(p engine.Person) string {
	if p.Name != "" {
		return p.Name
	}
	return p.Email
}

// names looks display names up; an id without one, and any id while they cannot
// be had, stands for itself.
func (c *Console) names(ctx context.Context, ids ...string) func(id string) string {
	var known map[string]string
	if c.cfg.Names != nil && len(ids) > 0 {
		var err error
		if known, err = c.cfg.Names.Names(ctx, ids); err != nil {
			c.cfg.Logger.WarnContext(ctx, "names not found", "error", err)
		}
	}
	return func(id string) string {
		if name := known[id]; name != "" {
			return name
		}
		return id
	}
}

var errNoPage = &gate.Refusal{Status: http.StatusNotFound, Code: "not_found", Detail: "There is nothing at this address."}
