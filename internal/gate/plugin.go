package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// Plugin looks at every call, before and after it is judged, and at what became
// of it. Any of its functions may be nil. A plugin whose Before or After fails
// or panics refuses the call with PLUGIN_ERROR, unless it declares FailOpen.
type Plugin struct {
	Name     string
	FailOpen bool
	// Before may veto a call: then it is not judged, and no later plugin is asked.
	Before func(context.Context, Proposal) (*Veto, error)
	// After may add findings and requirements to a decision, which can only
	// make it stricter. The first plugin that says anything has the last word.
	After func(context.Context, Proposal, engine.Decision) (*engine.Opinion, error)
	// Executed is told what became of a redeemed call. It can change nothing
	// any more; its error is put on record.
	Executed func(context.Context, approval.Approval, ExecutionRequest) error
}

// Veto ends a call before it is judged.
type Veto struct {
	Finding engine.Finding
	// Outcome is the event's: DENY, KILL_SWITCH or RATE_LIMITED.
	Outcome engine.Outcome
	// Refusal, when set, is what the caller is answered instead of a decision.
	Refusal *access.Refusal
}

// plugins are those of every gate, in the order in which they are asked, before
// any that its configuration adds.
func (g *core) plugins() []Plugin {
	return append([]Plugin{
		{Name: "kill_switch", Before: g.killSwitch},
		{Name: "rate_limiter", Before: g.rateLimiter},
	}, g.Plugins...)
}

// killSwitch refuses calls of stopped agents. It asks what this process
// remembers; the append of a grant asks the database itself.
func (g *core) killSwitch(_ context.Context, p Proposal) (*Veto, error) {
	f, killed := g.Judge().Registry.Killed(p.Call.AgentID)
	if !killed {
		return nil, nil
	}
	return &Veto{Finding: f, Outcome: engine.KillSwitch}, nil
}

// killedSince is the veto of a call that a switch stopped while it was judged.
func killedSince(agentID string, killed *registry.Snapshot) *Veto {
	f, ok := killed.Killed(agentID)
	if !ok {
		// It was on when the call was to be granted, and is released by now.
		f = engine.Finding{Source: registry.Source, Code: registry.AgentKill, Message: "A kill switch was on when this call was to be granted.", Route: engine.Refuse}
	}
	return &Veto{Finding: f, Outcome: engine.KillSwitch}
}

// rateLimiter counts the call against its agent's limits. A call that is
// refused later has counted all the same.
func (g *core) rateLimiter(ctx context.Context, p Proposal) (*Veto, error) {
	limits := g.Judge().Registry.LimitsOf(p.Call.AgentID)
	if limits == (registry.Limits{}) {
		return nil, nil
	}
	x, err := g.Store.Registry.TakeCall(ctx, p.Call.AgentID, p.Call.Tool, p.session, limits)
	if err != nil {
		return nil, err
	}
	limited := func(code, message string) *Veto {
		return &Veto{
			Finding: engine.Finding{Source: "rate_limiter", Code: code, Message: message, Route: engine.Refuse}, Outcome: engine.RateLimited,
			Refusal: &access.Refusal{Kind: access.RateLimited, Code: code, Detail: message, RetryAfter: max(x.RetryAfter, time.Second)},
		}
	}
	switch x.Limit {
	case "":
		return nil, nil
	case "agent":
		return limited("RATE_LIMIT_AGENT", fmt.Sprintf("The agent may make %d calls in %s.", limits.Agent.Calls, time.Duration(limits.Agent.Per))), nil
	case "tool":
		return limited("RATE_LIMIT_TOOL", fmt.Sprintf("The agent may call this tool %d times in %s.", limits.Tool.Calls, time.Duration(limits.Tool.Per))), nil
	default:
		return &Veto{Outcome: engine.Deny, Finding: engine.Finding{
			Source: "rate_limiter", Code: "SESSION_LIMIT_EXCEEDED", Route: engine.Refuse,
			Message: "The session has had its calls or its time. Calls that name no session share one.",
		}}, nil
	}
}

// asking is what plugins are asked about before anything has been read of what
// an agent sent.
func (g *Gate) asking(p access.Principal, dialect, tool, requestID string) Proposal {
	return Proposal{
		Call:  engine.Call{Dialect: dialect, RequestID: requestID, AgentID: p.AgentID, Tool: tool, Environment: g.Judge().Environment},
		claim: registry.Claim{AgentID: p.AgentID, Tool: tool}, session: p.KeyID,
	}
}

// before asks every plugin in order; the first veto ends it. name is whose.
func (g *core) before(ctx context.Context, p Proposal) (v *Veto, name string, err error) {
	return g.ask(ctx, g.plugins(), p)
}

func (g *core) ask(ctx context.Context, plugins []Plugin, p Proposal) (v *Veto, name string, err error) {
	for _, plugin := range plugins {
		if plugin.Before == nil {
			continue
		}
		err := guard(func() (err error) { v, err = plugin.Before(ctx, p); return err })
		switch {
		case access.IsUnavailable(err):
			return nil, "", err
		case err != nil && !plugin.FailOpen:
			g.Logger.ErrorContext(ctx, "a plugin failed; the call is refused", "plugin", plugin.Name, "error", err)
			return &Veto{Outcome: engine.Deny, Finding: pluginError(plugin.Name)}, plugin.Name, nil
		case err != nil:
			g.Logger.WarnContext(ctx, "a plugin failed; it declares that calls go on without it", "plugin", plugin.Name, "error", err)
		case v != nil:
			return v, plugin.Name, nil
		}
	}
	return nil, "", nil
}

// after lets plugins make the decision stricter; the first one that does ends
// it. name is whose.
func (g *core) after(ctx context.Context, p Proposal, j Judgement) (_ Judgement, name string) {
	for _, plugin := range g.plugins() {
		if plugin.After == nil {
			continue
		}
		var o *engine.Opinion
		err := guard(func() (err error) { o, err = plugin.After(ctx, p, j.Decision); return err })
		if err != nil {
			g.Logger.ErrorContext(ctx, "a plugin failed after the decision", "plugin", plugin.Name, "fail_open", plugin.FailOpen, "error", err)
			if plugin.FailOpen {
				continue
			}
			o = &engine.Opinion{Findings: []engine.Finding{pluginError(plugin.Name)}}
		}
		if o != nil {
			j.Decision = j.Tighten(*o)
			return j, plugin.Name
		}
	}
	return j, ""
}

func pluginError(name string) engine.Finding {
	return engine.Finding{Source: name, Code: "PLUGIN_ERROR", Message: fmt.Sprintf("The plugin %s failed, so the call is refused.", name), Route: engine.Refuse}
}

// guard turns a panic into an error. Its value is not shown: it may quote an
// argument.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panicked (%T)", r)
		}
	}()
	return f()
}

// isKilled reports whether the store refused a grant because of a kill switch.
func isKilled(err error) bool { return errors.Is(err, store.ErrKilled) }
