package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/contract"
	"holdpoint/internal/store"
)

// Bounds of what an event may name, in bytes. The contract sets none; the audit
// log must.
const (
	maxToolName  = 512
	maxRequestID = 256
)

// Checked is the gate's answer to a proposed call.
type Checked struct {
	Route    engine.Route
	Envelope contract.Envelope
	// Approval is set when the call waits.
	Approval *approval.Approval
}

// PreToolCheck judges an Agent Action Contract event and returns once the
// decision's event is durable: accepted and refused calls are over with that,
// a waiting one has its approval. A *Refusal means that the call was not
// judged; a *Replay that it was answered before.
func (g *Gate) PreToolCheck(ctx context.Context, p Principal, doc canon.Value, requestID string, once *Once) (Checked, error) {
	j := g.Judge.AANA(p, doc, time.Now())
	if j.Call.RequestID == "" {
		j.Call.RequestID = requestID
	}
	if !j.Valid && (len(j.Call.Tool) > maxToolName || unclear(j.Call.Tool)) {
		j.Call.Tool = "" // the contract refuses it anyway; its text is not for the log
	}
	if r := bounded(j.Call); r != nil {
		return Checked{}, g.refuse(ctx, r, engine.Event{
			ID: newEventID(), Type: engine.Refusal, RequestID: requestID, AgentID: p.AgentID,
			SafePayload: json.RawMessage(`{}`), Actor: p.actor(),
		})
	}
	rule := g.Judge.Rule(j.Call)
	j.Decision = j.Decision.Require(rule.Apply(j.Decision.Requirements))
	checked := Checked{Route: j.Decision.Route, Envelope: j.Result.Envelope(j.Decision)}
	sub := store.Submission{Event: g.decided(p, j, checked.Envelope)}
	if j.Decision.Route.Waits() {
		opening, err := g.opening(ctx, p, j, rule)
		if err != nil {
			return Checked{}, err
		}
		sub.Opening = opening
		sub.Event.ApprovalID, sub.Event.Requirements = opening.ID, opening.Requirements
	}
	finish := func(stored store.Stored) Checked {
		if o := sub.Opening; o != nil {
			checked.Approval = opened(o, stored)
		}
		return checked
	}
	if once != nil {
		render := once.Render
		kept := *once
		kept.Render = func(result any, err error) Reply { return render(finish(result.(store.Stored)), err) }
		sub.Once = &kept
	}
	stored, err := g.Store.Submit(ctx, sub)
	if errors.Is(err, store.ErrOtherRequest) {
		return Checked{}, otherRequest
	}
	if err != nil {
		return Checked{}, err
	}
	return finish(stored), nil
}

// bounded refuses a call whose names are too long to be kept in the log.
func bounded(c engine.Call) *Refusal {
	if len(c.Tool) > maxToolName {
		return &Refusal{Status: 422, Code: "field_too_long", Detail: fmt.Sprintf("tool_name has %d bytes; at most %d are accepted.", len(c.Tool), maxToolName)}
	}
	if unclear(c.Tool) {
		return &Refusal{Status: 422, Code: "tool_name_unclear", Detail: "tool_name holds invisible characters, surrounding blanks or letters of several scripts, so that it could be taken for another tool."}
	}
	if len(c.RequestID) > maxRequestID {
		return &Refusal{Status: 422, Code: "field_too_long", Detail: fmt.Sprintf("request_id has %d bytes; at most %d are accepted.", len(c.RequestID), maxRequestID)}
	}
	return nil
}

// unclear reports whether a tool's name could be taken for another's: by what
// cannot be seen in it, or by letters of several scripts.
func unclear(name string) bool {
	if strings.TrimSpace(name) != name {
		return true
	}
	script := ""
	for _, r := range name {
		switch {
		case r < utf8.RuneSelf && unicode.IsPrint(r) && !unicode.IsLetter(r):
			continue
		case !unicode.IsPrint(r) || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			return true // beyond ASCII, only letters, digits and their marks
		}
		for _, s := range []string{"Latin", "Cyrillic", "Greek", "Armenian", "Cherokee"} {
			if unicode.Is(unicode.Scripts[s], r) {
				if script != "" && script != s {
					return true
				}
				script = s
			}
		}
	}
	return false
}

// decided is the event of a judgement.
func (g *Gate) decided(p Principal, j Judgement, envelope contract.Envelope) engine.Event {
	e := engine.Event{
		ID: newEventID(), Type: engine.Decided, RequestID: j.Call.RequestID, AgentID: p.AgentID, ToolName: j.Call.Tool,
		Outcome: j.Decision.Outcome, Reasons: engine.Reasons(j.Decision.Findings), SafePayload: safePayload(j, envelope), Actor: p.actor(),
		PolicyDigest: j.Decision.PolicyDigest,
	}
	if j.Valid {
		e.DigestHMAC = g.Sealer.Digest(j.Call.Digest)
	}
	return e
}

// safePayload says what was called without saying with what: classification
// and the names of arguments, never a value.
func safePayload(j Judgement, envelope contract.Envelope) json.RawMessage {
	payload := map[string]any{"dialect": j.Call.Dialect, "route": j.Decision.Route}
	if j.Valid {
		payload["tool_category"], payload["risk_domain"] = j.Call.Category, j.Call.RiskDomain
		payload["authorization_state"] = j.Event.State
		payload["argument_count"], payload["evidence_ref_count"] = j.Event.Arguments.Len(), len(j.Event.Evidence)
		payload["argument_keys"] = envelope.ArchitectureDecision.AuditEvent.ProposedArgumentKeys
	}
	encoded, err := json.Marshal(payload)
	if err != nil {
		// Strings, numbers and routes always encode; an event without its
		// payload is still better than none.
		return json.RawMessage(`{}`)
	}
	return encoded
}

// opening prepares the approval of a waiting call.
func (g *Gate) opening(ctx context.Context, p Principal, j Judgement, rule approval.Rule) (*store.Opening, error) {
	pending, err := g.Store.PendingCount(ctx, p.AgentID)
	if err != nil {
		return nil, err
	}
	if pending >= g.MaxPending {
		r := &Refusal{
			Status: 429, Code: "too_many_pending", RetryAfter: 30 * time.Second,
			Detail: fmt.Sprintf("%d calls of this agent are waiting for people already. Cancel some or wait.", pending),
		}
		e := g.decided(p, j, j.Result.Envelope(j.Decision))
		e.Outcome, e.Reasons = engine.RateLimited, []engine.Reason{{Code: r.Code, Message: r.Detail}}
		if _, err := g.Store.Submit(ctx, store.Submission{Event: e}); err != nil {
			return nil, err
		}
		return nil, r
	}
	excluded, err := g.requestingSide(ctx, p, j.Event)
	if err != nil {
		return nil, err
	}
	id := store.NewID("apr")
	box, err := g.Sealer.Seal(id, j.Document.Canonical())
	if err != nil {
		return nil, fmt.Errorf("seal the arguments of %s: %w", id, err)
	}
	return &store.Opening{
		ID: id, Call: j.Call, RequestedBy: p.actor(), MaxState: p.MaxState, Decision: j.Decision,
		Requirements: j.Decision.Requirements, Excluded: excluded, ExpiresIn: time.Duration(rule.ExpiresIn),
		Sealed: box, ArgumentsSize: len(j.Event.Arguments.Canonical()),
	}, nil
}

// requestingSide lists the identities that may not decide: the agent's owner,
// and the person on whose behalf the call is made when it is one of ours.
func (g *Gate) requestingSide(ctx context.Context, p Principal, e contract.Event) ([]string, error) {
	var side []string
	agent, err := g.Store.Agent(ctx, p.AgentID)
	if err != nil {
		return nil, fmt.Errorf("read agent %s: %w", p.AgentID, err)
	}
	if agent.OwnerIdentity != "" {
		side = append(side, agent.OwnerIdentity)
	}
	if ref := e.Subject.Ref; ref != "" {
		people, err := g.Store.Identities(ctx, addresses(ref), strings.TrimSpace(ref))
		if err != nil {
			return nil, err
		}
		side = append(side, people...)
	}
	return side, nil
}

// addresses are the e-mail addresses that a reference to a person may mean,
// however it is spelt: with white space, as a mailto link, with a name.
func addresses(ref string) []string {
	ref = strings.ToLower(strings.TrimSpace(ref))
	ref = strings.TrimPrefix(ref, "mailto:")
	ref, _, _ = strings.Cut(ref, "?")
	found := []string{strings.TrimRight(ref, ".")}
	if parsed, err := mail.ParseAddress(ref); err == nil {
		found = append(found, strings.TrimRight(parsed.Address, "."))
	}
	if i, j := strings.LastIndexByte(ref, '<'), strings.LastIndexByte(ref, '>'); i >= 0 && j > i {
		found = append(found, strings.TrimRight(strings.TrimSpace(ref[i+1:j]), "."))
	}
	return found
}

// opened is the approval as it is at the moment of its opening.
func opened(o *store.Opening, stored store.Stored) *approval.Approval {
	a := &approval.Approval{
		ID: o.ID, Call: o.Call, Decision: o.Decision, Version: 1, Revision: 1, Status: approval.Pending,
		Execution: approval.NotRun, RequestedBy: o.RequestedBy,
		Plan: approval.Plan{OpenedAt: stored.OpenedAt.UTC(), ExpiresAt: stored.ExpiresAt.UTC(), Requirements: o.Requirements, Excluded: o.Excluded},
	}
	a.State = approval.Advance(a.Plan, nil, a.Plan.OpenedAt)
	return a
}
