package admin

import (
	"context"
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
func (r Registry) RegisterAgent(ctx context.Context, by access.By, a registry.Agent, once *access.Once[access.Done]) error {
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
	if err := unfitting(a.Check()); err != nil {
		return err
	}
	e := by.Event("AGENT_REGISTERED", fmt.Sprintf("The agent was registered with trust level %s.", a.Trust), a.ID, "")
	if r.Owner {
		// By their ids: an address would stay in the log when the person is erased.
		var owner engine.Person
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
	err = change(ctx, a, once, e)
	if errors.Is(err, store.ErrNotFound) {
		err = noSuchOwner
	}
	return r.administered(ctx, err)
}

// RevokeAgent ends an agent's registration, or restores it: a revoked agent's
// calls are refused, and what was approved for it cannot be redeemed.
func (r Registry) RevokeAgent(ctx context.Context, by access.By, id string, revoke bool, once *access.Once[access.Done]) error {
	code, message := "AGENT_REVOKED", "The agent's registration was revoked."
	if !revoke {
		code, message = "AGENT_RESTORED", "The agent's registration was restored."
	}
	return r.administered(ctx, missing(r.Store.Registry.RevokeAgent(ctx, id, revoke, once, by.Event(code, message, id, "")), "agent", revoke))
}

var noSuchOwner = &access.Refusal{Kind: access.Invalid, Code: "no_such_owner", Detail: "owner: there is nobody with this e-mail address."}

// RegisterTool registers a tool or replaces what is registered of it.
func (r Registry) RegisterTool(ctx context.Context, by access.By, t registry.Tool, once *access.Once[access.Done]) error {
	if err := unfitting(t.Check()); err != nil {
		return err
	}
	if registry.ConfusableName(t.Name) {
		return &access.Refusal{Kind: access.Invalid, Code: "tool_name_unclear", Detail: "tool_name holds characters or a mixture of scripts that Unicode advises against in names, so that it could be taken for another tool."}
	}
	return r.administered(ctx, r.Store.Registry.RegisterTool(ctx, t, once, by.Event("TOOL_REGISTERED", "The tool was registered.", "", t.Name)))
}

// RevokeTool ends a tool's registration, or restores it.
func (r Registry) RevokeTool(ctx context.Context, by access.By, name string, revoke bool, once *access.Once[access.Done]) error {
	code, message := "TOOL_REVOKED", "The tool's registration was revoked."
	if !revoke {
		code, message = "TOOL_RESTORED", "The tool's registration was restored."
	}
	return r.administered(ctx, missing(r.Store.Registry.RevokeTool(ctx, name, revoke, once, by.Event(code, message, "", name)), "tool", revoke))
}

// PutSettings replaces the settings: limits, delegation, trust, tools.
func (r Registry) PutSettings(ctx context.Context, by access.By, s registry.Settings, once *access.Once[access.Done]) error {
	if err := unfitting(s.Check()); err != nil {
		return err
	}
	return r.administered(ctx, r.Store.Registry.PutSettings(ctx, s, once, by.Event("SETTINGS_CHANGED", "The settings for all agents were changed.", "", "")))
}

// ThrowKillSwitch throws the kill switch of an agent, or of all for "". Once it returns
// nil nothing is granted to them any more, by any gate: no call, no approval,
// no redemption.
func (r Registry) ThrowKillSwitch(ctx context.Context, by access.By, agentID, reason string, once *access.Once[access.Done]) error {
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
func (r Registry) ReleaseKillSwitch(ctx context.Context, by access.By, agentID string, once *access.Once[access.Done]) error {
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
	if err == nil && r.Refresh != nil {
		r.Refresh(ctx)
	}
	return err
}

// unfitting is the refusal of what must not be registered.
func unfitting(errs []error) error {
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
