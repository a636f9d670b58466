package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// veto ends a call before it is judged.
type veto struct {
	source  string // killSwitchVeto or rateLimiterVeto: the event's plugin_source
	finding engine.Finding
	// outcome is the event's: DENY, KILL_SWITCH or RATE_LIMITED.
	outcome engine.Outcome
	// refusal, when set, is what the caller is answered instead of a decision.
	refusal *access.Refusal
}

// The two vetoes, in the order in which they are asked.
const (
	killSwitchVeto  = "kill_switch"
	rateLimiterVeto = "rate_limiter"
)

// vetoed asks whether a call may be judged: the kill switch, then the rate
// limiter. The first veto ends it; nil is none. An error is an outage.
func (g *Gate) vetoed(ctx context.Context, p *Proposal) (*veto, error) {
	v, err := g.guard(ctx, killSwitchVeto, func() (*veto, error) { return g.killSwitch(p.Call.AgentID), nil })
	if v != nil || err != nil {
		return v, err
	}
	return g.guard(ctx, rateLimiterVeto, func() (*veto, error) { return g.rateLimiter(ctx, p) })
}

// guard asks one veto. If it fails or panics, it refuses the call with
// PLUGIN_ERROR. What it panicked with is not logged: it may quote an argument.
func (g *Gate) guard(ctx context.Context, source string, ask func() (*veto, error)) (v *veto, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panicked (%T)", r)
		}
		if err == nil || access.IsUnavailable(err) {
			return
		}
		g.Logger.ErrorContext(ctx, "a veto failed; the call is refused", "veto", source, "error", err)
		v, err = &veto{source: source, outcome: engine.Deny, finding: engine.Finding{
			Source: source, Code: "PLUGIN_ERROR", Message: fmt.Sprintf("The check %s failed, so the call is refused.", source), Route: engine.Refuse,
		}}, nil
	}()
	return ask()
}

// killSwitch refuses calls of stopped agents. It asks what this process
// remembers; the append of a grant asks the database itself.
func (g *Gate) killSwitch(agentID string) *veto {
	f, killed := g.Judge().Registry.Killed(agentID)
	if !killed {
		return nil
	}
	return &veto{source: killSwitchVeto, finding: f, outcome: engine.KillSwitch}
}

// killedSince is the veto of a call that a switch stopped while it was judged.
func killedSince(agentID string, killed *registry.Snapshot) *veto {
	f, ok := killed.Killed(agentID)
	if !ok {
		// It was on when the call was to be granted, and is released by now.
		f = engine.Finding{Source: registry.Source, Code: registry.AgentKill, Message: "A kill switch was on when this call was to be granted.", Route: engine.Refuse}
	}
	return &veto{source: killSwitchVeto, finding: f, outcome: engine.KillSwitch}
}

// isKilled reports whether the store refused a grant because of a kill switch.
func isKilled(err error) bool { return errors.Is(err, store.ErrKilled) }

// rateLimiter counts the call against its agent's limits. A call that is
// refused later has counted all the same.
func (g *Gate) rateLimiter(ctx context.Context, p *Proposal) (*veto, error) {
	limits := g.Judge().Registry.LimitsOf(p.Call.AgentID)
	if limits == (registry.Limits{}) {
		return nil, nil
	}
	x, err := g.Store.Registry.TakeCall(ctx, p.Call.AgentID, p.Call.Tool, p.session, limits)
	if err != nil {
		return nil, err
	}
	v := &veto{source: rateLimiterVeto, outcome: engine.RateLimited, finding: engine.Finding{Source: rateLimiterVeto, Route: engine.Refuse}}
	f := &v.finding
	switch x.Limit {
	case "":
		return nil, nil
	case "agent":
		f.Code, f.Message = "RATE_LIMIT_AGENT", fmt.Sprintf("The agent may make %d calls in %s.", limits.Agent.Calls, time.Duration(limits.Agent.Per))
	case "tool":
		f.Code, f.Message = "RATE_LIMIT_TOOL", fmt.Sprintf("The agent may call this tool %d times in %s.", limits.Tool.Calls, time.Duration(limits.Tool.Per))
	default:
		f.Code, f.Message = "SESSION_LIMIT_EXCEEDED", "The session has had its calls or its time. Calls that name no session share one."
		v.outcome = engine.Deny
		return v, nil
	}
	v.refusal = &access.Refusal{Kind: access.RateLimited, Code: f.Code, Detail: f.Message, RetryAfter: max(x.RetryAfter, time.Second)}
	return v, nil
}

// asking is what vetoes are asked about before anything has been read of what
// an agent sent.
func (g *Gate) asking(p access.Principal, dialect, tool, requestID string) Proposal {
	return Proposal{
		Call:  engine.Call{Dialect: dialect, RequestID: requestID, AgentID: p.AgentID, Tool: tool, Environment: g.Judge().Environment},
		claim: registry.Claim{AgentID: p.AgentID, Tool: tool}, session: p.KeyID,
	}
}
