package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/fair"
	"holdpoint/internal/identity"
	"holdpoint/internal/rules"
	"holdpoint/web/static"
)

// Config is what a Console is made of.
type Config struct {
	// Approvals, by what is done with them.
	Inbox         Inbox
	History       History
	Cards         Cards
	Votes         Votes
	Contributions Contributions
	Requirements  Requirements
	Edits         Edits
	CallSessions  CallSessions
	Outcomes      Outcomes
	Changes       Changes
	// Drafts may be nil: what people write is not kept then until they send it.
	Drafts Drafts
	// What is registered, by what is done with it.
	Agents   Agents
	Tools    Tools
	Settings Settings
	// Notifications says who is told; without it there is no page for that.
	Notifications Notifications
	// Push has people's browsers notified; it may be nil.
	Push Push
	// Slack links people's accounts in Slack; it may be nil.
	Slack Slack
	// InForce says what is judged by at the moment of asking.
	InForce func() InForce
	// Stops receives after a kill switch was turned, once InForce has it, until the context
	// ends. It may be nil: open pages hear of it when something else changes.
	Stops    func(context.Context) <-chan struct{}
	SignIn   SignIn
	Sessions Sessions
	// PasswordLinks may be nil: there is no page then on which people set a password by
	// a link.
	PasswordLinks PasswordLinks
	// SSO may be nil: people sign in with passwords alone then. With SSOOnly, the form for
	// a password is folded away.
	SSO     SSO
	SSOOnly bool
	// SecondFactorRoles are those whose people do nothing without a second factor.
	SecondFactorRoles []string
	// SecondStep finishes the sign-ins that SignIn says lack one.
	SecondStep SecondStep
	// Factors are people's second factors; nil when nobody can have any.
	Factors *identity.Factors
	// People may be nil: there are no pages for them then; they take Factors, too. OnCall
	// may be nil.
	People People
	OnCall OnCall
	// AccessReviews may be nil: there are no pages for them then; they take People and Factors.
	AccessReviews AccessReviews
	// RuleChanges may be nil: changes of the rules are proposed by command only then.
	RuleChanges RuleChanges
	// APIKeys may be nil: there are no pages for them then.
	APIKeys APIKeys
	// Delegations may be nil: nobody can then say that they are away.
	Delegations Delegations
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
	// Exporter may be nil: the log is not exported from a page then.
	Exporter Exporter
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

// Console serves the pages, a handler each group of them.
type Console struct {
	site   *site
	groups []group
}

// group serves pages that belong together.
type group interface{ register(mux *http.ServeMux) }

// New makes a console, or says what is missing.
func New(c Config) (*Console, error) {
	if c.InForce == nil || slices.Contains([]any{
		c.Inbox, c.History, c.Cards, c.Votes, c.Contributions, c.Requirements, c.Edits, c.CallSessions, c.Outcomes, c.Changes,
		c.Agents, c.Tools, c.Settings, c.SignIn, c.Sessions,
	}, nil) {
		return nil, errors.New("console: what serves approvals and what is registered, InForce, SignIn and Sessions are needed")
	}
	if c.SessionTTL < 0 {
		return nil, fmt.Errorf("console: a session cannot last %s", c.SessionTTL)
	}
	c.SessionTTL = cmp.Or(c.SessionTTL, 12*time.Hour)
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
	shared := &site{
		sessions: &sessionStore{sessions: c.Sessions, signer: c.SignIn, ttl: c.SessionTTL, secure: c.Secure},
		inForce:  c.InForce, displayNames: c.Names, clock: c.Clock, secure: c.Secure, logger: c.Logger, drafts: c.Drafts, push: c.Push,
		sso: c.SSO, ssoOnly: c.SSOOnly, factorRoles: c.SecondFactorRoles,
		making:      fair.NewLimit(mostPages),
		reporting:   fair.NewLimit(mostReports),
		delegations: c.Delegations != nil, grants: c.Grants != nil, audit: c.Log != nil,
	}
	page := &cardHandler{site: shared, cards: c.Cards, inbox: c.Inbox, requirements: c.Requirements, prover: c.Prover, factors: c.Factors}
	groups := []group{
		&signInHandler{site: shared, signer: c.SignIn, links: c.PasswordLinks, second: c.SecondStep, factors: c.Factors, remote: c.Remote},
		&accountHandler{site: shared, factors: c.Factors, push: c.Push, slack: c.Slack},
		&inboxHandler{shared, c.Inbox}, &historyHandler{shared, c.History, c.Inbox}, &liveHandler{site: shared, inbox: c.Inbox, approvals: c.Changes, stops: c.Stops, stopping: c.Stopping},
		page, &voteHandler{shared, c.Votes, page}, &contributionHandler{shared, c.Contributions, c.Requirements}, &outcomeHandler{shared, c.Outcomes},
		&answerHandler{shared, c.Cards, c.Requirements}, &editHandler{shared, c.Cards, c.Edits}, &sessionHandler{shared, c.CallSessions, c.Votes},
		&bulkHandler{site: shared, cards: c.Cards, votes: c.Votes, factors: c.Factors},
		&policyHandler{shared}, &agentHandler{shared, c.Agents}, &toolHandler{shared, c.Tools}, &adminHandler{shared, c.Settings}, &componentHandler{shared},
	}
	if c.RuleChanges != nil {
		shared.ruleChanges = c.RuleChanges
		groups = append(groups, &changeHandler{shared, c.RuleChanges})
	}
	if c.Drafts != nil {
		groups = append(groups, &draftHandler{shared})
	}
	if c.Factors != nil {
		groups = append(groups, &verifyHandler{site: shared, factors: c.Factors})
	}
	if c.People != nil && c.Factors != nil {
		shared.people = true
		groups = append(groups, &peopleHandler{freshProof: freshProof{shared, c.Factors}, people: c.People, onCall: c.OnCall})
	}
	if c.AccessReviews != nil && c.People != nil && c.Factors != nil {
		shared.reviews = c.AccessReviews
		groups = append(groups, &accessReviewHandler{shared, c.AccessReviews, c.People, c.Factors})
	}
	if c.OnCall != nil && c.Factors != nil {
		shared.onCall = true
		groups = append(groups, &onCallHandler{freshProof{shared, c.Factors}, c.OnCall})
	}
	if c.APIKeys != nil && c.Factors != nil {
		shared.keys = true
		groups = append(groups, &keyHandler{freshProof{shared, c.Factors}, c.APIKeys, c.Agents})
	}
	if c.Grants != nil {
		groups = append(groups, &grantHandler{shared, c.Grants, c.Cards})
	}
	if c.Delegations != nil {
		groups = append(groups, &delegationHandler{freshProof{shared, c.Factors}, c.Delegations})
	}
	if c.Notifications != nil {
		shared.notifications = true
		groups = append(groups, &notificationHandler{shared, c.Notifications})
	}
	if c.Retention != nil {
		groups = append(groups, &retentionHandler{site: shared, holds: c.Retention, erasures: c.Retention, keepFor: c.KeepFor})
	}
	if c.Reports != nil {
		groups = append(groups, &reportHandler{shared, c.Reports})
	}
	if c.Log != nil {
		groups = append(groups, &auditHandler{site: shared, log: c.Log, registry: c.Agents}, &eventHandler{shared, c.Log, c.LogKeys},
			&checkpointHandler{site: shared, log: c.Log, keys: c.LogKeys, floor: c.Floor})
	}
	if c.Exporter != nil {
		groups = append(groups, &exportHandler{shared, c.Exporter, c.LogKeys, fair.NewLimit(mostExports)})
	}
	return &Console{site: shared, groups: groups}, nil
}

// Register adds the console's routes. Everything that is neither these nor
// somebody else's is for NotFound.
func (c *Console) Register(mux *http.ServeMux) {
	for _, g := range c.groups {
		g.register(mux)
	}
	mux.Handle("GET /static/", static.Handler())
	mux.HandleFunc("GET /sw.js", static.Worker)
}

// Signed returns the person of the request's session, or false without a live
// one. An error means that nobody can tell, and nothing may be done.
// Somebody whose role needs a second factor that they do not have is refused
// (second_factor_needed).
func (c *Console) Signed(r *http.Request) (engine.Person, bool, error) {
	p, ok, err := c.site.person(r)
	if err == nil {
		err = c.site.withFactor(p)
	}
	return p, ok, err
}

// NotFound is the page for addresses that do not exist.
// A program gets a problem instead: what it asked for may be a door of another system.
func (c *Console) NotFound(w http.ResponseWriter, r *http.Request) {
	if !asksForPage(r) {
		problem(w, http.StatusNotFound, "no_such_route", "There is nothing at this address for this method. /docs lists what there is.")
		return
	}
	person, _, _ := c.site.person(r) // only decides whether the page has its navigation
	c.site.fail(w, r, person, errNoPage)
}

// InForce is what this process judges by at this moment.
type InForce struct {
	rules.Status
	// Registered is what is registered, as it was last read. It is never nil.
	Registered *registry.Snapshot
}
