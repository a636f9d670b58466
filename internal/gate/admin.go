package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/store"
)

// Registrar changes what is registered of agents and tools, the limits, and the
// kill switches. Every change is on record with who made it.
type Registrar struct {
	store *store.Store
	// refresh is called after every change, when it is set: other processes are
	// told by the database.
	refresh func(context.Context)
	// owns says that the store is open as the role that owns the database, which
	// alone may say what agents there are and who answers for them.
	owns bool
}

// NewRegistrar returns a registrar for a store that is open as the role that
// owns the database.
func NewRegistrar(s *store.Store) *Registrar { return &Registrar{store: s, owns: true} }

// By is who administers: a person, a key or the command line.
type By struct {
	Actor     engine.Actor
	RequestID string
}

// Administrator is the principal as the one who administers.
func (p Principal) Administrator(requestID string) By { return By{p.Actor(), requestID} }

// PersonAdministers is a signed-in person as the one who administers.
func PersonAdministers(p engine.Person, channel, requestID string) By {
	return By{engine.Actor{Kind: engine.HumanActor, ID: p.ID, Channel: channel}, requestID}
}

// MayAdminister reports whether the person may change agents, tools and switches.
func MayAdminister(p engine.Person) bool { return p.Has(AdminRole) && !p.Disabled }

// MayReadRules reports whether the person may see policies, agents and tools.
func MayReadRules(p engine.Person) bool { return readsAll(p) }

// Registry is everything that is registered, as it is now.
func (r *Registrar) Registry(ctx context.Context) (*registry.Snapshot, error) {
	return r.store.Registry.Snapshot(ctx)
}

// RegisterAgent registers an agent or replaces what is registered of it. What
// policy sees of the agent is this, from the next call on. A gate changes agents
// that there are; new ones, their names and their owners come by command.
func (r *Registrar) RegisterAgent(ctx context.Context, by By, a registry.Agent, once *Once) error {
	if a.Roles == nil {
		a.Roles = []string{}
	}
	if a.Capabilities == nil {
		a.Capabilities = []string{}
	}
	change := r.store.Registry.RegisterAgent
	known, err := r.store.People.Agent(ctx, a.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if !r.owns {
		switch {
		case err != nil:
			return &Refusal{Status: 404, Code: "not_found", Detail: "There is no such agent. “holdpoint key create --agent ID” makes one, with its key."}
		case a.Name != "" && a.Name != known.Name || a.Owner != "" && a.Owner != known.OwnerEmail:
			return &Refusal{Status: 422, Code: "by_command", Detail: "An agent's name and owner are changed by command: “holdpoint agent set ID --owner EMAIL”."}
		}
		a.Name, change = known.Name, r.store.Registry.ChangeAgent
	}
	if err := unfitting(a.Check()); err != nil {
		return err
	}
	e := by.event("AGENT_REGISTERED", fmt.Sprintf("The agent was registered with trust level %s.", a.Trust), a.ID, "")
	if r.owns {
		// By their ids: an address would stay in the log when the person is erased.
		var owner engine.Person
		if a.Owner != "" {
			if owner, _, err = r.store.People.ByEmail(ctx, strings.ToLower(a.Owner)); errors.Is(err, store.ErrNotFound) {
				return noSuchOwner
			} else if err != nil {
				return err
			}
		}
		if e.SafePayload, err = json.Marshal(map[string]string{"owner_before": known.OwnerID, "owner": owner.ID}); err != nil {
			return fmt.Errorf("encode who answers for %s: %w", a.ID, err)
		}
	}
	err = change(ctx, a, once, e)
	if errors.Is(err, store.ErrNotFound) {
		err = noSuchOwner
	}
	return r.administered(ctx, err)
}

// RevokeAgent ends an agent's registration, or restores it: a revoked agent's
// calls are refused, and what was approved for it cannot be redeemed.
func (r *Registrar) RevokeAgent(ctx context.Context, by By, id string, revoke bool, once *Once) error {
	code, message := "AGENT_REVOKED", "The agent's registration was revoked."
	if !revoke {
		code, message = "AGENT_RESTORED", "The agent's registration was restored."
	}
	return r.administered(ctx, missing(r.store.Registry.RevokeAgent(ctx, id, revoke, once, by.event(code, message, id, "")), "agent", revoke))
}

var noSuchOwner = &Refusal{Status: 422, Code: "no_such_owner", Detail: "owner: there is nobody with this e-mail address."}

// RegisterTool registers a tool or replaces what is registered of it.
func (r *Registrar) RegisterTool(ctx context.Context, by By, t registry.Tool, once *Once) error {
	if err := unfitting(t.Check()); err != nil {
		return err
	}
	if unclear(t.Name) {
		return &Refusal{Status: 422, Code: "tool_name_unclear", Detail: "tool_name holds letters of several scripts, so that it could be taken for another tool."}
	}
	return r.administered(ctx, r.store.Registry.RegisterTool(ctx, t, once, by.event("TOOL_REGISTERED", "The tool was registered.", "", t.Name)))
}

// RevokeTool ends a tool's registration, or restores it.
func (r *Registrar) RevokeTool(ctx context.Context, by By, name string, revoke bool, once *Once) error {
	code, message := "TOOL_REVOKED", "The tool's registration was revoked."
	if !revoke {
		code, message = "TOOL_RESTORED", "The tool's registration was restored."
	}
	return r.administered(ctx, missing(r.store.Registry.RevokeTool(ctx, name, revoke, once, by.event(code, message, "", name)), "tool", revoke))
}

// PutSettings replaces the settings: limits, delegation, trust, tools.
func (r *Registrar) PutSettings(ctx context.Context, by By, s registry.Settings, once *Once) error {
	if err := unfitting(s.Check()); err != nil {
		return err
	}
	return r.administered(ctx, r.store.Registry.PutSettings(ctx, s, once, by.event("SETTINGS_CHANGED", "The settings for all agents were changed.", "", "")))
}

// MaxReason bounds the reason of a kill switch, in bytes.
const MaxReason = 1000

// Throw throws the kill switch of an agent, or of all for "". Once it returns
// nil nothing is granted to them any more, by any gate: no call, no approval,
// no redemption.
func (r *Registrar) Throw(ctx context.Context, by By, agentID, reason string, once *Once) error {
	if len(reason) > MaxReason || !utf8.ValidString(reason) {
		return &Refusal{Status: 422, Code: "reason_too_long", Detail: fmt.Sprintf("The reason has %d bytes; at most %d are kept.", len(reason), MaxReason)}
	}
	if agentID != "" {
		if _, err := r.store.People.Agent(ctx, agentID); errors.Is(err, store.ErrNotFound) {
			return &Refusal{Status: 404, Code: "not_found", Detail: "There is no such agent."}
		} else if err != nil {
			return err
		}
	}
	kill := registry.Kill{AgentID: agentID, Reason: reason, By: by.Actor.ID}
	code, message := registry.AgentKill, "The agent's kill switch was thrown."
	if agentID == "" {
		code, message = registry.GlobalKill, "The kill switch for all agents was thrown."
	}
	e := by.event(code, message, agentID, "")
	e.Outcome = engine.KillSwitch
	encoded, err := json.Marshal(map[string]string{"reason": reason})
	if err != nil {
		return fmt.Errorf("encode the reason: %w", err)
	}
	e.SafePayload = encoded
	err = r.store.Registry.ThrowKillSwitch(ctx, kill, once, e)
	var kept *Replay
	if errors.As(err, &kept) {
		// That it was thrown once is no answer to whoever wants it on now.
		known, failed := r.store.Registry.Snapshot(ctx)
		if failed != nil {
			return failed
		}
		if _, on := known.Kills[agentID]; !on {
			err = &Refusal{Status: 409, Code: "released_since", Detail: "This request threw the switch before, and it has been released since. Use a new Idempotency-Key to throw it again."}
		}
	}
	if errors.Is(err, store.ErrConflict) {
		err = &Refusal{Status: 409, Code: "already_on", Detail: "This kill switch is on already."}
	}
	return r.administered(ctx, err)
}

// Release ends a kill switch.
func (r *Registrar) Release(ctx context.Context, by By, agentID string, once *Once) error {
	message := "The agent's kill switch was released."
	if agentID == "" {
		message = "The kill switch for all agents was released."
	}
	err := r.store.Registry.ReleaseKillSwitch(ctx, agentID, once, by.event("KILL_SWITCH_RELEASED", message, agentID, ""))
	if errors.Is(err, store.ErrNotFound) {
		err = &Refusal{Status: 409, Code: "not_on", Detail: "This kill switch is not on."}
	}
	return r.administered(ctx, err)
}

// event records an act of administration.
func (b By) event(code, message, agentID, tool string) engine.Event {
	return engine.Event{
		ID: newEventID(), Type: engine.Admin, RequestID: b.RequestID, AgentID: agentID, ToolName: tool, Outcome: engine.Allow,
		Reasons: []engine.Reason{{Code: code, Message: message}}, SafePayload: json.RawMessage(`{}`), Actor: b.Actor,
	}
}

// administered translates what the store says, and makes this process look at
// once at what has changed; the others are told by the database.
func (r *Registrar) administered(ctx context.Context, err error) error {
	if errors.Is(err, store.ErrOtherRequest) {
		return otherRequest
	}
	if errors.Is(err, store.ErrUnfit) {
		return unfit
	}
	if err == nil && r.refresh != nil {
		r.refresh(ctx)
	}
	return err
}

// unfitting is the refusal of what must not be registered.
func unfitting(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return &Refusal{Status: 422, Code: "invalid_body", Detail: errors.Join(errs...).Error()}
}

func missing(err error, what string, revoke bool) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if revoke {
		return &Refusal{Status: 404, Code: "not_found", Detail: "There is no such " + what + " that is not revoked already."}
	}
	return &Refusal{Status: 404, Code: "not_found", Detail: "There is no such " + what + " that is revoked."}
}
