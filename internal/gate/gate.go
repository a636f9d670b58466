package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/token"
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
	// Plugins are asked after the gate's own.
	Plugins []Plugin
	Logger  *slog.Logger
	// Ring signs tokens; Issuer is their iss.
	Ring   token.Ring
	Issuer string
	// TokenTTL is how long one signed token lives: 10 minutes.
	TokenTTL time.Duration
	// MaxPending is how many approvals of one agent may wait at once: 1,000.
	MaxPending int
	// Lease is how long an agent has to say what became of a redeemed call before
	// nobody knows: 15 minutes. A redemption may ask for more, up to MaxLease.
	Lease time.Duration
	// Witnessed is how many witnesses have to have signed the checkpoint that is
	// served to everybody.
	Witnessed int
	// Tickets looks tickets up; nil where no tracker is configured, and no ticket is
	// taken.
	Tickets Tracker
	// LongArguments is the size in bytes of canonical arguments from which on
	// approving needs all of them to have been shown: 4,096.
	LongArguments int
}

// MaxLease is the longest lease that a redemption may ask for.
const MaxLease = 24 * time.Hour

// Gate judges calls and takes what people and agents contribute afterwards. It
// is safe for concurrent use, and any number of processes may run one each on
// the same database.
type Gate struct {
	Config
	*Registrar
	reading chan struct{} // holds whoever is reading a document
	stalled atomic.Int64  // when the log was last found to stand still, in ns; 0 for never
	// tiles are those of the log that proofs have needed; the others hold whoever
	// reads the public log.
	tiles                   *tileCache
	logReaders, logBundlers chan struct{}
}

// New returns a gate.
func New(cfg Config) (*Gate, error) {
	if cfg.Store == nil || cfg.Sealer == nil || cfg.Judge == nil {
		return nil, errors.New("a gate needs a store, a sealer and a judge")
	}
	if len(cfg.Ring.IDs()) == 0 || cfg.Issuer == "" {
		return nil, errors.New("a gate needs a signing key and an issuer")
	}
	if cfg.TokenTTL == 0 {
		cfg.TokenTTL = 10 * time.Minute
	}
	if cfg.MaxPending == 0 {
		cfg.MaxPending = 1000
	}
	if cfg.Lease == 0 {
		cfg.Lease = 15 * time.Minute
	}
	if cfg.LongArguments == 0 {
		cfg.LongArguments = 4096
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Gate{
		Config: cfg, Registrar: &Registrar{store: cfg.Store, refresh: cfg.Refresh}, reading: make(chan struct{}, 1),
		tiles: newTileCache(keptTiles), logReaders: make(chan struct{}, logReaders), logBundlers: make(chan struct{}, logBundlers),
	}, nil
}

// The kept answers of repeated requests, for the doors that must not know the store.
type (
	// Once says how to keep the answer to a request that may be repeated.
	Once = store.Once
	// Reply is an answer as it goes over the wire.
	Reply = store.Reply
	// Replay is the error that stands for "this was answered before".
	Replay = store.Replay
)

// Principal is who an API key belongs to.
type Principal struct {
	KeyID    string
	AgentID  string // "" for an admin key
	Kind     string // agent, runtime or admin
	Scopes   []string
	MaxState string // the highest authorization_state that it may claim
}

// The kinds of key.
const (
	AgentKey   = "agent"
	RuntimeKey = "runtime"
	AdminKey   = "admin"
)

// Actor is the principal as the audit log names it: an agent's own key acts as
// the agent, a runtime's or an administrator's as a service.
func (p Principal) Actor() engine.Actor {
	if p.Kind == AgentKey {
		return engine.Actor{Kind: engine.AgentActor, ID: p.AgentID, Channel: "api"}
	}
	return engine.Actor{Kind: engine.ServiceActor, ID: p.KeyID, Channel: "api"}
}

// unavailable reports whether an error is an outage of the event store.
func unavailable(err error) bool { return errors.Is(err, store.ErrUnavailable) }

// IsUnavailable reports whether err means that the event store could not be
// asked: nothing was granted, and the caller may try again.
func IsUnavailable(err error) bool { return unavailable(err) }

// Repeated returns *Replay when a person's request was answered before, and a
// refusal when its key was used for something else.
func (g *Gate) Repeated(ctx context.Context, once *Once) error {
	if once == nil {
		return nil
	}
	err := g.Store.Answered(ctx, once)
	if errors.Is(err, store.ErrOtherRequest) {
		return otherRequest
	}
	return err
}

// Unfit is err, or the refusal of a text that no database can keep.
func Unfit(err error) error {
	if errors.Is(err, store.ErrUnfit) {
		return unfit
	}
	return err
}

// newEventID is a random UUID version 4.
func newEventID() string { return uuid.NewString() }

// event starts an event about an approval.
func (g *Gate) event(kind engine.EventType, outcome engine.Outcome, a approval.Approval, by engine.Actor, requestID string) engine.Event {
	return ApprovalEvent(g.Sealer, kind, outcome, a, by, requestID)
}

// ApprovalEvent starts an event of the given type about an approval: it names
// the call by the keyed hash of its digest and never by its arguments.
func ApprovalEvent(s *seal.Sealer, kind engine.EventType, outcome engine.Outcome, a approval.Approval, by engine.Actor, requestID string) engine.Event {
	if requestID == "" {
		requestID = a.Call.RequestID
	}
	return engine.Event{
		ID: newEventID(), Type: kind, RequestID: requestID, AgentID: a.Call.AgentID, ToolName: a.Call.Tool,
		Outcome: outcome, Reasons: []engine.Reason{}, SafePayload: json.RawMessage(`{}`), ApprovalID: a.ID, Actor: by,
		DigestHMAC: s.Digest(a.Call.Digest), PolicyDigest: a.Decision.PolicyDigest, PrevOutcome: a.Decision.Outcome,
	}
}

// Turned is what a door knows of a request that it turns away.
type Turned struct {
	RequestID, AgentID string
	Actor              engine.Actor
	Code, Message      string
	// Route is the door: "POST /v1/pre-tool-check".
	Route  string
	Status int
}

// TurnAway appends the refusal of a request to the audit log. The request
// itself, which may hold anything, is not kept.
func (g *Gate) TurnAway(ctx context.Context, t Turned) error {
	payload, err := json.Marshal(map[string]any{"route": t.Route, "status": t.Status})
	if err != nil {
		return fmt.Errorf("encode refusal: %w", err)
	}
	_, err = g.Store.Submit(ctx, store.Submission{Event: engine.Event{
		ID: newEventID(), Type: engine.Refusal, RequestID: t.RequestID,
		AgentID: t.AgentID, Outcome: engine.Deny, Reasons: []engine.Reason{{Code: t.Code, Message: t.Message}}, SafePayload: payload, Actor: t.Actor,
	}})
	return err
}

// refuse appends the refusal of something that somebody wanted of an approval,
// and returns the refusal. An outage comes back instead of it.
func (g *Gate) refuse(ctx context.Context, r *Refusal, e engine.Event) error {
	e.Outcome, e.Reasons = engine.Deny, []engine.Reason{{Code: r.Code, Message: r.Detail}}
	if _, err := g.Store.Submit(ctx, store.Submission{Event: e}); err != nil {
		return err
	}
	return r
}

// change runs fn under the approval's lock. A *Refusal that fn returns is
// recorded in the same transaction, with what event says, and returned.
func (g *Gate) change(ctx context.Context, id string, once *Once, event func(*store.Change) engine.Event, fn func(*store.Change) (any, error)) (any, error) {
	var result any
	var refused *Refusal
	err := g.Store.Approvals.Change(ctx, id, once, func(c *store.Change) (any, error, error) {
		result, refused = nil, nil
		got, err := fn(c)
		if errors.As(err, &refused) {
			e := event(c)
			e.Outcome, e.Reasons = engine.Deny, []engine.Reason{{Code: refused.Code, Message: refused.Detail}}
			c.AddEvent(e)
			return nil, refused, nil
		}
		result = got
		return got, nil, err
	})
	switch {
	case errors.Is(err, store.ErrOtherRequest):
		return nil, otherRequest
	case errors.Is(err, store.ErrNotFound):
		return nil, store.ErrNotFound
	case errors.Is(err, store.ErrUnfit):
		return nil, unfit
	case err != nil:
		return nil, err
	case refused != nil:
		return nil, refused
	}
	return result, nil
}

var otherRequest = &Refusal{
	Status: 422, Code: "idempotency_key_reused",
	Detail: "This Idempotency-Key was used for a different request. Use a new key for a new request.",
}

var unfit = &Refusal{Status: 422, Code: "unfit_text", Detail: "A text holds a character that cannot be kept, such as NUL."}

// notFound is the one answer for an approval that is not there and for one that
// is somebody else's.
var notFound = &Refusal{Status: 404, Code: "not_found", Detail: "There is no such approval."}
