package web

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/web/views"
)

// What has to be typed to turn the switch of all agents.
const (
	typeStop    = "STOP"
	typeRelease = "RELEASE"
)

// KillSwitches turns the kill switch of an agent, or of all for "". Every turn is on
// record with who made it.
type KillSwitches interface {
	ThrowKillSwitch(ctx context.Context, by access.Initiator, agentID, reason string, once *access.Idempotency[access.Done]) error
	ReleaseKillSwitch(ctx context.Context, by access.Initiator, agentID string, once *access.Idempotency[access.Done]) error
}

// switchForm reads a form that turns a kill switch. A switch is activated with a
// reason, and turned either way only with an explicit second step.
func switchForm(form url.Values, confirm string) (throw bool, reason, failure string) {
	throw = form.Get("switch") == "throw"
	reason = strings.TrimSpace(form.Get("reason"))
	switch {
	case !throw && form.Get("switch") != "release":
		return throw, reason, "The form said neither to activate nor to release."
	case !strings.EqualFold(strings.TrimSpace(form.Get("confirm")), confirm):
		return throw, reason, "Nothing was switched: the confirmation is missing."
	case throw && reason == "":
		return throw, reason, "Nothing was switched: give a reason, for whoever finds everything refused."
	}
	return throw, reason, ""
}

// turn activates or releases a kill switch.
func turn(ctx context.Context, switches KillSwitches, p engine.Person, agentID, reason string, throw bool) error {
	if throw {
		return switches.ThrowKillSwitch(ctx, by(p), agentID, reason, nil)
	}
	return switches.ReleaseKillSwitch(ctx, by(p), agentID, nil)
}

func kill(k registry.Kill, name func(string) string) views.Kill {
	who := cmp.Or(name(k.By), "the command line")
	return views.Kill{On: true, AgentID: k.AgentID, Reason: k.Reason, By: who, At: k.At}
}
