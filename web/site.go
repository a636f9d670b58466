package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/fair"
	"holdpoint/web/views"
)

// site is what all page groups share: who has signed in, how a page is rendered,
// and how an error is shown.
type site struct {
	sessions     *sessionStore
	inForce      func() InForce
	displayNames Names // nil where there are no names
	clock        func() time.Time
	secure       bool
	logger       *slog.Logger
	drafts       Drafts // nil where none are kept
	push         Push   // nil where nobody is notified in a browser
	sso          SSO    // nil where there is no single sign-on
	ssoOnly      bool
	factorRoles  []string // need a second factor
	// making are the pages that are being made. One is made once what is in it is known
	// and rendered; how fast its reader takes it is of no matter.
	making *fair.Limit
	// reporting are the reports that are being made, as pages and as files.
	reporting *fair.Limit
	// Which pages there are.
	delegations, grants, audit, people, onCall, keys, notifications bool
	// ruleChanges is nil where changes of the rules are proposed by command only.
	ruleChanges RuleChanges
	// reviews may be nil: nobody reviews accesses then.
	reviews AccessReviews
}

// mostPages bounds how many pages of one person are made at the same time; further ones
// wait. A browser asks for a few at once, and forty would keep the gate from its work.
const mostPages = 4

// mostReports is mostPages for reports, each of which may read all that was recorded in a
// period.
const mostReports = 2

// reports is a handler that waits until fewer than mostReports of the person's are under way.
// Meanwhile, and while it works, it is none of their pages that are being made.
func (s *site) reports(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request, p engine.Person) error {
		fair.Done(r.Context())
		leave, err := s.reporting.Wait(r.Context(), p.ID)
		if err != nil {
			panic(http.ErrAbortHandler) // the reader is gone
		}
		defer leave()
		return h(w, r, p)
	}
}

// person returns the person of the request's session, or false without a live
// one. An error means that nobody can tell, and nothing may be done.
func (s *site) person(r *http.Request) (engine.Person, bool, error) {
	session, err := s.sessions.Get(r, s.sessions.name())
	if err != nil {
		return engine.Person{}, false, fmt.Errorf("look up the session: %w", err)
	}
	person, ok := session.Values[personKey{}].(engine.Person)
	return person, ok, nil
}

// signedIn is a handler for signed-in people only; everybody else is sent to
// sign in and comes back afterwards.
func (s *site) signedIn(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		person, ok, err := s.person(r)
		if err != nil {
			s.fail(w, r, person, err)
			return
		}
		if !ok {
			if r.Method == http.MethodPost && s.signInAgain(w, r) {
				return
			}
			next := parent(r)
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				next = r.URL.RequestURI()
			}
			http.Redirect(w, r, signInURL(next), http.StatusSeeOther)
			return
		}
		if err := s.factorNeeded(r, person); err != nil {
			if !unsafe(r.Method) && asksForPage(r) {
				http.Redirect(w, r, "/account", http.StatusSeeOther)
				return
			}
			s.fail(w, r, person, err)
			return
		}
		if !unsafe(r.Method) {
			leave, err := s.making.Wait(r.Context(), person.ID)
			if err != nil {
				return // the reader is gone
			}
			defer leave()
			r = r.WithContext(fair.With(r.Context(), leave))
		}
		if err := h(w, r, person); err != nil {
			s.fail(w, r, person, err)
		}
	}
}

// takesForm is signedIn for requests that carry a form, which it reads.
func (s *site) takesForm(h handler) http.HandlerFunc { return s.takesFormOf(maxForm, h) }

// takesFormOf is takesForm for forms of up to limit bytes.
func (s *site) takesFormOf(limit int64, h handler) http.HandlerFunc {
	return s.signedIn(func(w http.ResponseWriter, r *http.Request, p engine.Person) error {
		if err := readFormBy(w, r, p, limit); err != nil {
			if fromScript(r) {
				s.renderJSON(w, r, nil, err)
				return nil
			}
			return err
		}
		return s.keepingDraft(h)(w, r, p)
	})
}

// forEverybody is a handler for people who need not have signed in: p.ID is "" then.
func (s *site) forEverybody(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, _, err := s.person(r)
		if err == nil {
			err = h(w, r, p)
		}
		if err != nil {
			s.fail(w, r, p, err)
		}
	}
}

// handler answers a request of a signed-in person. The error that it returns is
// shown as a page; then it has written nothing itself.
type handler = func(http.ResponseWriter, *http.Request, engine.Person) error

// onlyFor lets through whom may says, asked anew at every request, and reads the
// form of a request that carries one.
func (s *site) onlyFor(may func(engine.Person) bool, whom string, h handler) http.HandlerFunc {
	return s.onlyForOf(maxForm, may, whom, h)
}

// onlyForOf is onlyFor for forms of up to limit bytes.
func (s *site) onlyForOf(limit int64, may func(engine.Person) bool, whom string, h handler) http.HandlerFunc {
	return s.signedIn(func(w http.ResponseWriter, r *http.Request, p engine.Person) error {
		if !may(p) {
			return &access.Refusal{Kind: access.Forbidden, Code: notOpen, Detail: "This page is for " + whom + ". " + standing(p)}
		}
		if unsafe(r.Method) {
			if err := readFormBy(w, r, p, limit); err != nil {
				return err
			}
		}
		return h(w, r, p)
	})
}

// forAuditors lets auditors and administrators through.
func (s *site) forAuditors(h handler) http.HandlerFunc {
	return s.onlyFor(access.MayReadRules, "auditors and administrators", h)
}

func (s *site) forAdministrators(h handler) http.HandlerFunc {
	return s.onlyFor(access.MayAdminister, "administrators", h)
}

// notOpen is the code of a refusal to show a page.
const notOpen = "not_open"

func standing(p engine.Person) string {
	if len(p.Roles) == 0 {
		return "Your account has no roles."
	}
	return "Your account has " + plainWord(len(p.Roles), "the role ", "the roles ") + views.Visible(list(p.Roles)) + "."
}

// render writes a page. It is rendered whole before its first byte is written,
// so that no page ends in the middle.
func (s *site) render(w http.ResponseWriter, r *http.Request, status int, page templ.Component) error {
	var b bytes.Buffer
	if err := page.Render(r.Context(), &b); err != nil {
		return fmt.Errorf("%w: %w", errNotRendered, err)
	}
	fair.Done(r.Context())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader is gone: there is nobody to tell
	return nil
}

var errNotRendered = errors.New("page not rendered")

func (s *site) frame(p engine.Person, title, here string) views.Frame {
	f := views.Frame{
		Title: title, Person: displayName(p), PersonID: p.ID, Here: here, Now: s.clock(), Rules: access.MayReadRules(p), Admin: access.MayAdminister(p),
		Delegations: s.delegations, Enrolling: s.lacksFactor(p) != "",
		Grants: s.grants,
		Audit:  s.audit && access.MayReadRules(p),
	}
	if f.Admin {
		f.Pages = views.AdminPages{People: s.people, OnCall: s.onCall, Keys: s.keys, Notifications: s.notifications, Reviews: s.reviews != nil}
	}
	if k, on := s.inForce().Registered.Kills[""]; on && p.ID != "" {
		f.AllStopped = views.Kill{On: true, Reason: k.Reason, At: k.At}
	}
	return f
}

// killsOn names the kill switches that are on of an agent and of all, as far as a page shows
// them; "" for none.
func (s *site) killsOn(agentID string) string {
	kills := s.inForce().Registered.Kills
	return killMark(kills, agentID) + killMark(kills, "")
}

// killMark names an agent's kill switch, or that of all for "", if it is on.
func killMark(kills map[string]registry.Kill, agentID string) string {
	k, on := kills[agentID]
	if !on {
		return ""
	}
	return "." + strconv.FormatInt(k.At.UnixMicro(), 10)
}

// stopped is the kill switch that stops an agent, or nil.
func (s *site) stopped(agentID string) *engine.Finding {
	if f, on := s.inForce().Registered.Killed(agentID); on {
		return &f
	}
	return nil
}

func displayName(p engine.Person) string {
	if p.Name != "" {
		return p.Name
	}
	return p.Email
}

// names looks display names up; an id without one, and any id while they cannot
// be had, stands for itself.
func (s *site) names(ctx context.Context, ids ...string) func(id string) string {
	var known map[string]string
	if s.displayNames != nil && len(ids) > 0 {
		var err error
		if known, err = s.displayNames.Names(ctx, ids); err != nil {
			s.logger.WarnContext(ctx, "names not found", "error", err)
		}
	}
	return nameIn(known)
}

// nameIn finds names; an id without one stands for itself.
func nameIn(known map[string]string) func(id string) string {
	return func(id string) string { return cmp.Or(known[id], id) }
}

// address is where people reach this server, for commands to copy.
func (s *site) address(r *http.Request) string {
	scheme := "http://"
	if s.secure {
		scheme = "https://"
	}
	return scheme + r.Host
}

// Names gives display names. It is for lists, which come without cards.
type Names interface {
	// Names returns the registered names of the people and agents with these
	// ids; an id that has none is left out.
	Names(ctx context.Context, ids []string) (map[string]string, error)
}
