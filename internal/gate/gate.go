package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/token"
	"holdpoint/internal/access"
	"holdpoint/internal/identity"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Config is what a Gate is made of. Store and Sealer are required; zero values
// elsewhere mean the defaults that are named.
type Config struct {
	Store  *store.Store
	Sealer *seal.Sealer
	// Judge returns the judge of this moment: rules may change while a gate runs.
	Judge func() *Judge
	// Refresh, when set, makes Judge look again at once at what it is made of.
	Refresh func(context.Context)
	Logger  *slog.Logger
	// Ring are the keys of this process's own that sign tokens; Issuer is their iss. A
	// new one is published for KeyDelay before it signs (TokenKeys).
	Ring     token.Ring
	KeyDelay time.Duration
	Issuer   string
	// TokenTTL is how long one signed token lives; token.DefaultTTL where it is 0.
	TokenTTL time.Duration
	// MaxPending is how many approvals of one agent may wait at once: 1,000.
	MaxPending int
	// Lease is how long an agent has to say what became of a redeemed call before
	// nobody knows: 15 minutes. A redemption may ask for more, up to MaxLease.
	Lease time.Duration
	// Tickets looks tickets up; nil where no tracker is configured, and no ticket is
	// taken.
	Tickets Tracker
	// Settler approves accepted calls whose callers want a token; nil where there
	// are no such tokens.
	Settler *Settler
	// Factors asks people's passkeys to sign; nil where nobody can.
	Factors *identity.Factors
	// SecondFactorRoles are roles by which only people with a second factor decide, also in
	// somebody else's place.
	SecondFactorRoles []string
}

// longArguments is the largest size, in bytes, of canonical arguments that people may approve
// without having been shown all of them.
const longArguments = 4096

// MaxLease is the longest lease that a redemption may ask for.
const MaxLease = 24 * time.Hour

// Gate is the life of a call: it judges what is proposed, and redeems what was
// approved. What people and agents do meanwhile is in its parts. It is safe for
// concurrent use, and any number of processes may run one each on the same
// database.
type Gate struct {
	*core
	Contributions *Contributions
	Queries       *Queries
	Histories     *Histories
	Grants        *Grants
	Drafts        *Drafts
	TokenKeys     *TokenKeys
	reading       chan struct{} // holds whoever is reading a document
}

type (
	// Contributions are what people, agents and runtimes add to an approval: votes,
	// answers, questions, tickets, edits, and what became of a call that ran.
	Contributions struct{ *core }
	// Queries read approvals for people and agents.
	Queries struct {
		*core
		policies  formerPolicies
		targets   recent[formerTargets] // by tool
		summaries recent[callSummary]   // by approval
	}
	// Histories search what was decided, and export what they find.
	Histories struct{ *core }
	// Grants are standing grants: approvals of calls that are yet to come.
	Grants struct{ *core }
	// Drafts are what people have written and not sent.
	Drafts struct{ *core }
	// core is what the parts of a gate share.
	core struct {
		Config
		keys *TokenKeys
	}
)

// New returns a gate.
func New(cfg Config) (*Gate, error) {
	if cfg.Store == nil || cfg.Sealer == nil || cfg.Judge == nil {
		return nil, errors.New("a gate needs a store, a sealer and a judge")
	}
	if len(cfg.Ring.IDs()) == 0 || cfg.Issuer == "" {
		return nil, errors.New("a gate needs a signing key and an issuer")
	}
	cfg.TokenTTL = cmp.Or(cfg.TokenTTL, token.DefaultTTL)
	cfg.MaxPending = cmp.Or(cfg.MaxPending, 1000)
	cfg.Lease = cmp.Or(cfg.Lease, 15*time.Minute)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &core{cfg, newTokenKeys(cfg)}
	return &Gate{core: c, TokenKeys: c.keys, Contributions: &Contributions{c}, Queries: &Queries{core: c}, Histories: &Histories{c}, Grants: &Grants{c}, Drafts: &Drafts{c}, reading: make(chan struct{}, 1)}, nil
}

// Repeated returns *Replay when a person's request was answered before, and a
// refusal when its key was used for something else.
func (g *core) Repeated(ctx context.Context, request *access.Request) error {
	if request == nil {
		return nil
	}
	err := g.Store.Answered(ctx, request)
	if errors.Is(err, store.ErrOtherRequest) {
		return access.OtherRequest
	}
	return err
}

// event starts an event about an approval.
func (g *core) event(kind engine.EventType, outcome engine.Outcome, a approval.Approval, by engine.Actor, requestID string) engine.Event {
	return ApprovalEvent(g.Sealer, kind, outcome, a, by, requestID)
}

// ApprovalEvent starts an event of the given type about an approval: it names
// the call by the keyed hash of its digest and never by its arguments.
func ApprovalEvent(s *seal.Sealer, kind engine.EventType, outcome engine.Outcome, a approval.Approval, by engine.Actor, requestID string) engine.Event {
	requestID = cmp.Or(requestID, a.Call.RequestID)
	return engine.Event{
		ID: store.NewEventID(), Type: kind, RequestID: requestID, AgentID: a.Call.AgentID, ToolName: a.Call.Tool,
		Outcome: outcome, Reasons: []engine.Reason{}, SafePayload: json.RawMessage(`{}`), ApprovalID: a.ID, Actor: by,
		DigestHMAC: s.Digest(a.Call.Digest), PolicyDigest: a.Decision.PolicyDigest, PrevOutcome: a.Decision.Outcome,
	}
}

// RecordRejection appends the refusal of a request to the audit log. The request
// itself, which may hold anything, is not kept.
func (g *core) RecordRejection(ctx context.Context, t access.RejectedRequest) error {
	_, err := g.Store.Submit(ctx, store.Submission{Event: engine.Event{
		ID: store.NewEventID(), Type: engine.Refusal, RequestID: t.RequestID,
		AgentID: t.AgentID, Outcome: engine.Deny, Reasons: []engine.Reason{{Code: t.Code, Message: t.Message}}, SafePayload: t.Payload, Actor: t.Actor,
	}})
	return err
}

// refuse appends the refusal of something that somebody wanted of an approval,
// and returns the refusal. An outage comes back instead of it.
func (g *core) refuse(ctx context.Context, r *access.Refusal, e engine.Event) error {
	return access.Refuse(ctx, g.Store, r, e)
}

// change runs fn under the approval's lock. A *Refusal that fn returns is
// recorded in the same transaction, with what event says, and returned.
func change[T any](ctx context.Context, g *core, id string, once *access.Idempotency[T], event func(*store.Change) engine.Event, fn func(*store.Change) (T, error)) (T, error) {
	var result T
	var refused *access.Refusal
	err := g.Store.Approvals.Change(ctx, id, once.Of(), func(c *store.Change) error {
		var err error
		refused = nil
		if result, err = fn(c); errors.As(err, &refused) {
			e := event(c)
			e.Outcome, e.Reasons = engine.Deny, []engine.Reason{{Code: refused.Code, Message: refused.Detail}}
			c.AddEvent(e)
		} else if err != nil {
			return err
		}
		if once != nil {
			c.SaveReply(once.Render(result, err))
		}
		return nil
	})
	var none T
	switch {
	case errors.Is(err, store.ErrOtherRequest):
		return none, access.OtherRequest
	case errors.Is(err, store.ErrUnstorable):
		return none, access.UnstorableText
	case err != nil:
		return none, err
	case refused != nil:
		return none, refused
	}
	return result, nil
}
