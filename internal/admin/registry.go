package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// Snapshot is everything that is registered, as it is now.
func (r Registry) Snapshot(ctx context.Context) (*registry.Snapshot, error) {
	return r.Store.Registry.Snapshot(ctx)
}

// NewAgent is an agent of which nothing is registered yet but its id.
func NewAgent(id string) registry.Agent {
	return registry.Agent{ID: id, Name: id, Trust: engine.Basic}
}

// RegisterAgent registers an agent or replaces what is registered of it. What
// policy sees of the agent is this, from the next call on. A gate changes agents
// that there are; new ones, their names and their owners come by command.
func (r Registry) RegisterAgent(ctx context.Context, by access.Initiator, a registry.Agent, once *access.Idempotency[access.Done]) error {
	if a.Roles == nil {
		a.Roles = []string{}
	}
	if a.Capabilities == nil {
		a.Capabilities = []string{}
	}
	change := r.Store.Registry.RegisterAgent
	known, err := r.Store.People.Agent(ctx, a.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if !r.Owner {
		switch {
		case err != nil:
			return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such agent. “holdpoint key create --agent ID” makes one, with its key."}
		case a.Name != "" && a.Name != known.Name || a.Owner != "" && a.Owner != known.OwnerEmail:
			return &access.Refusal{Kind: access.Invalid, Code: "by_command", Detail: "An agent's name and owner are changed by command: “holdpoint agent set ID --owner EMAIL”."}
		}
		a.Name, change = known.Name, r.Store.Registry.ChangeAgent
	}
	if err := invalidEntry(a.Check()); err != nil {
		return err
	}
	e := by.Event("AGENT_REGISTERED", fmt.Sprintf("The agent was registered with trust level %s.", a.Trust), a.ID, "")
	var owner engine.Person
	if r.Owner {
		// By their ids: an address would stay in the log when the person is erased.
		if a.Owner != "" {
			if owner, _, err = r.Store.People.ByEmail(ctx, strings.ToLower(a.Owner)); errors.Is(err, store.ErrNotFound) {
				return noSuchOwner
			} else if err != nil {
				return err
			}
		}
		if err := e.SetPayload(map[string]string{"owner_before": known.OwnerID, "owner": owner.ID}); err != nil {
			return err
		}
	}
	waits, err := r.waits(ctx, by, store.AgentEntry, a.ID, "agent "+a.ID, func(was registered) (any, error) {
		profile, err := store.AgentProfile(a)
		return registered{profile, was.Revoked}, err
	}, e)
	if err != nil {
		return err
	}
	if waits == nil {
		if err = change(ctx, a, once, e); errors.Is(err, store.ErrNotFound) {
			err = noSuchOwner
		}
		return r.administered(ctx, err)
	}
	if r.Owner { // whose agent it is, and what it is called, waits for nobody
		if owner.Identity != "" {
			waits.subjects = append(waits.subjects, owner.Identity)
		}
		if err := r.named(ctx, by, a, e); err != nil {
			return err
		}
	}
	return r.hold(ctx, by, store.SettingsChange, "", *waits)
}

// named makes an agent that is new, and sets the name and owner of any.
func (r Registry) named(ctx context.Context, by access.Initiator, a registry.Agent, e engine.Event) error {
	known, err := r.Store.Registry.Snapshot(ctx)
	if err != nil {
		return err
	}
	was, there := known.Agents[a.ID]
	if !there {
		was = NewAgent(a.ID)
		was.Roles, was.Capabilities = []string{}, []string{}
	}
	if there && was.Name == a.Name && was.Owner == a.Owner {
		return nil
	}
	was.Name, was.Owner = a.Name, a.Owner
	e.Reasons = by.Event("AGENT_REGISTERED", fmt.Sprintf("The agent was registered with trust level %s.", was.Trust), a.ID, "").Reasons
	e.ID = store.NewEventID()
	err = r.Store.Registry.RegisterAgent(ctx, was, nil, e)
	if errors.Is(err, store.ErrNotFound) {
		err = noSuchOwner
	}
	return r.administered(ctx, err)
}

// registered is what is registered of a tool or an agent, as entries have it.
type registered struct {
	Profile json.RawMessage `json:"profile"`
	Revoked bool            `json:"revoked"`
}

// waits is the change of a tool or an agent where it takes an approval, nil where it is made
// at once: revoking is, and so is what changes nothing.
func (r Registry) waits(ctx context.Context, by access.Initiator, what, id, name string, becomes func(was registered) (any, error), e engine.Event) (*changeItem, error) {
	_, guarded, err := r.guarded(ctx, by, store.SettingsChange)
	if err != nil || !guarded {
		return nil, err
	}
	text, err := r.Store.Rules.EntryNow(ctx, what, id)
	if err != nil {
		return nil, err
	}
	var was registered
	if err := json.Unmarshal(text, &was); err != nil {
		return nil, fmt.Errorf("read what is registered of %s: %w", name, err)
	}
	to, err := becomes(was)
	if err != nil {
		return nil, err
	}
	i, err := r.newItem(ctx, what, id, name, to, e)
	if err != nil || i.was == i.becomes {
		return nil, err
	}
	if what == store.AgentEntry {
		i.subjects, err = r.owner(ctx, id)
	}
	return &i, err
}

// owner is the identity of whoever owns an agent, who gains by what it may do.
func (r Config) owner(ctx context.Context, agentID string) ([]string, error) {
	agent, err := r.Store.People.Agent(ctx, agentID)
	if errors.Is(err, store.ErrNotFound) || err == nil && agent.OwnerID == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := r.Store.People.Get(ctx, agent.OwnerID)
	return []string{p.Identity}, err
}

// restored is the change of a tool or an agent that is revoked no more, where it takes an
// approval.
func (r Registry) restored(ctx context.Context, by access.Initiator, what, id string, e engine.Event) error {
	i, err := r.waits(ctx, by, what, id, what+" "+id, func(was registered) (any, error) {
		if was.Profile == nil {
			return nil, missing(store.ErrNotFound, what, false)
		}
		return registered{was.Profile, false}, nil
	}, e)
	if err != nil || i == nil {
		return err
	}
	return r.hold(ctx, by, store.SettingsChange, "", *i)
}

// RevokeAgent ends an agent's registration, or restores it: a revoked agent's
// calls are refused, and what was approved for it cannot be redeemed.
func (r Registry) RevokeAgent(ctx context.Context, by access.Initiator, id string, revoke bool, once *access.Idempotency[access.Done]) error {
	code, message := "AGENT_REVOKED", "The agent's registration was revoked."
	if !revoke {
		code, message = "AGENT_RESTORED", "The agent's registration was restored."
	}
	e := by.Event(code, message, id, "")
	if !revoke {
		if err := r.restored(ctx, by, store.AgentEntry, id, e); err != nil {
			return err
		}
	}
	return r.administered(ctx, missing(r.Store.Registry.RevokeAgent(ctx, id, revoke, once, e), "agent", revoke))
}

var noSuchOwner = &access.Refusal{Kind: access.Invalid, Code: "no_such_owner", Detail: "owner: there is nobody with this e-mail address."}

// RegisterTool registers a tool or replaces what is registered of it.
func (r Registry) RegisterTool(ctx context.Context, by access.Initiator, t registry.Tool, once *access.Idempotency[access.Done]) error {
	if err := invalidEntry(t.Check()); err != nil {
		return err
	}
	if registry.ConfusableName(t.Name) {
		return &access.Refusal{Kind: access.Invalid, Code: "tool_name_unclear", Detail: "tool_name holds characters or a mixture of scripts that Unicode advises against in names, so that it could be taken for another tool."}
	}
	e := by.Event("TOOL_REGISTERED", "The tool was registered.", "", t.Name)
	waits, err := r.waits(ctx, by, store.ToolEntry, t.Name, "tool "+t.Name, func(was registered) (any, error) {
		profile, err := store.ToolProfile(t)
		return registered{profile, was.Revoked}, err
	}, e)
	if err != nil {
		return err
	}
	if waits != nil {
		return r.hold(ctx, by, store.SettingsChange, "", *waits)
	}
	return r.administered(ctx, r.Store.Registry.RegisterTool(ctx, t, once, e))
}

// RevokeTool ends a tool's registration, or restores it.
func (r Registry) RevokeTool(ctx context.Context, by access.Initiator, name string, revoke bool, once *access.Idempotency[access.Done]) error {
	code, message := "TOOL_REVOKED", "The tool's registration was revoked."
	if !revoke {
		code, message = "TOOL_RESTORED", "The tool's registration was restored."
	}
	e := by.Event(code, message, "", name)
	if !revoke {
		if err := r.restored(ctx, by, store.ToolEntry, name, e); err != nil {
			return err
		}
	}
	return r.administered(ctx, missing(r.Store.Registry.RevokeTool(ctx, name, revoke, once, e), "tool", revoke))
}

// PutSettings replaces the settings: limits, delegation, trust, tools.
func (r Registry) PutSettings(ctx context.Context, by access.Initiator, s registry.Settings, once *access.Idempotency[access.Done]) error {
	if err := invalidEntry(s.Check()); err != nil {
		return err
	}
	e := by.Event("SETTINGS_CHANGED", "The settings for all agents were changed.", "", "")
	if _, guarded, err := r.guarded(ctx, by, store.SettingsChange); err != nil {
		return err
	} else if guarded {
		i, err := r.newItem(ctx, store.SettingsEntry, "", "settings for all agents", s, e)
		if err != nil {
			return err
		}
		if i.was != i.becomes { // what changes nothing waits for nobody
			return r.hold(ctx, by, store.SettingsChange, "", i)
		}
	}
	return r.administered(ctx, r.Store.Registry.PutSettings(ctx, s, once, e))
}

// ThrowKillSwitch throws the kill switch of an agent, or of all for "". Once it returns
// nil nothing is granted to them any more, by any gate: no call, no approval,
// no redemption.
func (r Registry) ThrowKillSwitch(ctx context.Context, by access.Initiator, agentID, reason string, once *access.Idempotency[access.Done]) error {
	if len(reason) > access.MaxReason || !utf8.ValidString(reason) {
		return &access.Refusal{Kind: access.Invalid, Code: "reason_too_long", Detail: fmt.Sprintf("The reason has %d bytes; at most %d are kept.", len(reason), access.MaxReason)}
	}
	if agentID != "" {
		if _, err := r.Store.People.Agent(ctx, agentID); errors.Is(err, store.ErrNotFound) {
			return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such agent."}
		} else if err != nil {
			return err
		}
	}
	kill := registry.Kill{AgentID: agentID, Reason: reason, By: by.Actor.ID}
	code, message := registry.AgentKill, "The agent's kill switch was activated."
	if agentID == "" {
		code, message = registry.GlobalKill, "The kill switch for all agents was activated."
	}
	e := by.Event(code, message, agentID, "")
	e.Outcome = engine.KillSwitch
	if err := e.SetPayload(map[string]string{"reason": reason}); err != nil {
		return err
	}
	err := r.Store.Registry.ThrowKillSwitch(ctx, kill, once, e)
	var kept *access.Replay
	if errors.As(err, &kept) {
		// That it was thrown once is no answer to whoever wants it on now.
		known, failed := r.Store.Registry.Snapshot(ctx)
		if failed != nil {
			return failed
		}
		if _, on := known.Kills[agentID]; !on {
			err = &access.Refusal{Kind: access.Conflict, Code: "released_since", Detail: "This request threw the switch before, and it has been released since. Use a new Idempotency-Key to throw it again."}
		}
	}
	if errors.Is(err, store.ErrConflict) {
		err = &access.Refusal{Kind: access.Conflict, Code: "already_on", Detail: "This kill switch is on already."}
	}
	return r.administered(ctx, err)
}

// ReleaseKillSwitch ends a kill switch.
func (r Registry) ReleaseKillSwitch(ctx context.Context, by access.Initiator, agentID string, once *access.Idempotency[access.Done]) error {
	message := "The agent's kill switch was released."
	if agentID == "" {
		message = "The kill switch for all agents was released."
	}
	err := r.Store.Registry.ReleaseKillSwitch(ctx, agentID, once, by.Event("KILL_SWITCH_RELEASED", message, agentID, ""))
	if errors.Is(err, store.ErrNotFound) {
		err = &access.Refusal{Kind: access.Conflict, Code: "not_on", Detail: "This kill switch is not on."}
	}
	return r.administered(ctx, err)
}

// administered translates what the store says, and makes this process look at
// once at what has changed; the others are told by the database.
func (r Config) administered(ctx context.Context, err error) error {
	if errors.Is(err, store.ErrOtherRequest) {
		return access.OtherRequest
	}
	if errors.Is(err, store.ErrUnstorable) {
		return access.UnstorableText
	}
	if errors.Is(err, store.ErrGuarded) {
		return cannotHold // the rule for it has come between
	}
	if err == nil && r.Refresh != nil {
		r.Refresh(ctx)
	}
	return err
}

// invalidEntry is the refusal of what must not be registered.
func invalidEntry(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return &access.Refusal{Kind: access.Invalid, Code: "invalid_body", Detail: errors.Join(errs...).Error()}
}

func missing(err error, what string, revoke bool) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if revoke {
		return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such " + what + " that is not revoked already."}
	}
	return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such " + what + " that is revoked."}
}
