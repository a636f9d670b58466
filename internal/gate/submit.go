package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/dialect/aana"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// Bounds of what an event may name, in bytes. The contract sets none; the audit
// log must.
const (
	maxToolName  = 512
	maxRequestID = 256
)

// Request is what a door knows of the request that carries a proposal.
type Request struct {
	ID string
	// Circumstances name a session only where the document has no place for one.
	approval.Circumstances
	// WantToken asks for a token for a call that is accepted at once, too.
	WantToken bool
	// Separate asks for an approval of its own where the same call waits already.
	Separate bool
	// DryRun judges the call and records that it was a dry run: nothing is opened, and
	// nothing is permitted.
	DryRun bool
}

// Bounds of preconditions.
const (
	maxPreconditions = 10
	maxPrecondition  = 200
)

// checkPreconditions refuses preconditions that cannot be kept.
func checkPreconditions(conditions map[string]string) *access.Refusal {
	if len(conditions) > maxPreconditions {
		return &access.Refusal{Kind: access.Invalid, Code: "preconditions", Detail: fmt.Sprintf("There are %d preconditions; at most %d are kept.", len(conditions), maxPreconditions)}
	}
	for name, value := range conditions {
		if name == "" || len(name) > maxPrecondition || len(value) > maxPrecondition || strings.ContainsRune(name+value, 0) || !utf8.ValidString(name+value) {
			return &access.Refusal{Kind: access.Invalid, Code: "preconditions", Detail: fmt.Sprintf("A precondition has a name and a text, of at most %d bytes each.", maxPrecondition)}
		}
	}
	return nil
}

// Outcome is what became of a proposal: the decision, the event that tells of
// it, and the approval when it waits.
type Outcome struct {
	Judgement
	Event engine.Event
	// Approval is what it waits for, or that by which people denied this very call
	// before.
	Approval *approval.Approval
	// Joined says that the approval waited already when the call was proposed again.
	Joined bool
}

// submit takes a proposal through the pipeline and returns once the decision's
// event is durable: the kill switch or the rate limiter may veto it, every check
// judges it; a call that waits has its approval.
func (g *Gate) submit(ctx context.Context, p access.Principal, proposal *Proposal, r Request, once *access.Idempotency[Outcome]) (Outcome, error) {
	judge := g.Judge()
	if _, known := judge.Registry.Agents[p.AgentID]; !known && g.Refresh != nil {
		// Its key is good, so it is new: this process has yet to hear of it.
		g.Refresh(ctx)
		judge = g.Judge()
	}
	proposal.Call.RequestID = cmp.Or(proposal.Call.RequestID, r.ID)
	proposal.dryRun = r.DryRun
	proposal.Call.Environment = judge.Environment
	proposal.Call = judge.asRegistered(proposal.Call)
	proposal.session = cmp.Or(proposal.session, r.Session)
	named := proposal.session
	if proposal.session == "" {
		proposal.session = p.KeyID // calls that name no session share their key's
	}
	wrong := bounded(proposal.Call)
	if wrong == nil && (len(named) > maxRequestID || !utf8.ValidString(named) || strings.ContainsRune(named, 0)) {
		wrong = &access.Refusal{Kind: access.Invalid, Code: "field_too_long", Detail: fmt.Sprintf("A session's name is a text of at most %d bytes.", maxRequestID)}
	}
	if wrong == nil {
		wrong = checkPreconditions(r.Preconditions)
	}
	if wrong == nil {
		wrong = checkSubjects(proposal.subjects)
	}
	if wrong != nil {
		return Outcome{}, g.refuse(ctx, wrong, engine.Event{
			ID: store.NewEventID(), Type: engine.Refusal, RequestID: r.ID, AgentID: p.AgentID,
			SafePayload: json.RawMessage(`{}`), Actor: p.Actor(),
		})
	}
	if err := g.answered(ctx, p, once.Of()); err != nil {
		return Outcome{}, err
	}
	if !proposal.asked {
		v, err := g.vetoed(ctx, proposal)
		if err != nil {
			return Outcome{}, err
		}
		if v != nil {
			return g.refuseVetoed(ctx, p, proposal, v, once)
		}
	}
	j := judge.Judge(proposal, g.Store.Clock())
	rule := judge.Routing.For(proposal.Call)
	j.Decision = j.Require(rule.Apply(j.Requirements))
	sub := store.Submission{Event: g.decided(p, proposal, j.Decision)}
	if j.Route.Waits() {
		if before, err := g.deniedBefore(ctx, proposal, j.Decision); before != nil || err != nil {
			if err != nil {
				return Outcome{}, err
			}
			return g.remember(ctx, p, proposal, j, before, once)
		}
	}
	if token := r.WantToken && g.Settler != nil && j.Route == engine.Accept; (token || j.Route.Waits()) && !r.DryRun {
		if j.ExpiresIn > 0 {
			rule.ExpiresIn = j.ExpiresIn
		}
		opening, err := g.opening(ctx, p, proposal, judge, j.Decision, rule)
		if err != nil {
			return Outcome{}, err
		}
		if token {
			opening.Terms.AcceptedAs, opening.Requirements = string(proposal.state), []engine.Requirement{}
		}
		opening.Terms.Stakes = judge.stakes(proposal, j.Policy)
		opening.Circumstances = r.Circumstances
		opening.Session = named
		opening.Binding = proposal.binding
		sub.Opening = opening
		// The database says when it begins; until when it may last counts from there.
		asked := approval.Plan{Excluded: opening.Excluded, Terms: opening.Terms, ExpiresAt: time.Time{}.Add(opening.ExpiresIn)}.EditionPayload()
		if err := sub.Event.AddToPayload("asked", asked); err != nil {
			return Outcome{}, err
		}
		sub.Event.ApprovalID, sub.Event.Requirements = opening.ID, approval.PayloadRequirements(opening.Requirements)
		opening.Joins = !token && !r.Separate
	}
	o, err := g.join(ctx, p, proposal, j, sub, once)
	if isKilled(err) {
		if g.Refresh != nil {
			g.Refresh(ctx)
		}
		return g.refuseVetoed(ctx, p, proposal, killedSince(p.AgentID, g.Judge().Registry), once)
	}
	return o, err
}

// answered returns *Replay when a request was answered before. A repetition costs
// no limit anything, and it is no way around a kill switch: whoever one stops
// gets no former answer that may have granted something.
func (g *Gate) answered(ctx context.Context, p access.Principal, request *access.Request) error {
	if request == nil {
		return nil
	}
	return g.unlessKilled(ctx, p.AgentID, p.Actor(), g.Store.Answered(ctx, request))
}

// unlessKilled turns a kept answer into a refusal while a switch stops the agent.
func (g *Gate) unlessKilled(ctx context.Context, agentID string, by engine.Actor, err error) error {
	var kept *access.Replay
	switch {
	case errors.Is(err, store.ErrOtherRequest):
		return access.OtherRequest
	case !errors.As(err, &kept):
		return err
	}
	killed, failed := g.Store.Registry.Killed(ctx, agentID)
	switch {
	case failed != nil:
		return failed
	case killed:
		return g.refuse(ctx, killedRefusal, engine.Event{
			ID: store.NewEventID(), Type: engine.Refusal, AgentID: agentID, SafePayload: json.RawMessage(`{}`), Actor: by,
		})
	}
	return err
}

// refuseVetoed refuses a proposal that a veto has stopped.
func (g *Gate) refuseVetoed(ctx context.Context, p access.Principal, proposal *Proposal, v *veto, once *access.Idempotency[Outcome]) (Outcome, error) {
	d := engine.Evaluate(proposal.Call, g.Judge().Digest(), always(engine.CheckResult{Findings: []engine.Finding{v.finding}}))
	e := g.decided(p, proposal, d)
	e.Outcome, e.PluginSource = v.outcome, v.source
	if v.refusal == nil {
		return g.store(ctx, Judgement{Decision: d}, store.Submission{Event: e}, once)
	}
	// The next attempt may be let through: it is not answered from memory.
	if _, err := g.Store.Submit(ctx, store.Submission{Event: e}); err != nil {
		return Outcome{}, err
	}
	return Outcome{}, v.refusal
}

// store makes the decision durable, and keeps the answer for a repetition.
func (g *Gate) store(ctx context.Context, j Judgement, sub store.Submission, once *access.Idempotency[Outcome]) (Outcome, error) {
	finish := func(stored store.SubmitResult) Outcome {
		o := Outcome{Judgement: j, Event: sub.Event}
		o.Event.Timestamp = stored.At
		if sub.Opening != nil {
			o.Approval = opened(sub.Opening, stored)
		}
		return o
	}
	sub.Idempotency = access.Adapt(once, finish)
	stored, err := g.Store.Submit(ctx, sub)
	if err != nil {
		return Outcome{}, g.unlessKilled(ctx, sub.Event.AgentID, sub.Event.Actor, err)
	}
	return finish(stored), nil
}

// bounded refuses a call whose names are too long to be kept in the log.
func bounded(c engine.Call) *access.Refusal {
	if len(c.Tool) > maxToolName {
		return &access.Refusal{Kind: access.Invalid, Code: "field_too_long", Detail: fmt.Sprintf("tool_name has %d bytes; at most %d are accepted.", len(c.Tool), maxToolName)}
	}
	if reservedTool(c.Tool) {
		return &access.Refusal{Kind: access.Invalid, Code: "tool_name_reserved", Detail: "tool_name is one under which changes of the rules wait for people; no agent's tool is called so."}
	}
	if registry.ConfusableName(c.Tool) {
		return &access.Refusal{Kind: access.Invalid, Code: "tool_name_unclear", Detail: "tool_name holds invisible characters, surrounding blanks or letters of several scripts, so that it could be taken for another tool."}
	}
	if len(c.RequestID) > maxRequestID {
		return &access.Refusal{Kind: access.Invalid, Code: "field_too_long", Detail: fmt.Sprintf("request_id has %d bytes; at most %d are accepted.", len(c.RequestID), maxRequestID)}
	}
	return nil
}

// decided is the event of a decision.
func (g *Gate) decided(p access.Principal, proposal *Proposal, d engine.Decision) engine.Event {
	e := engine.Event{
		ID: store.NewEventID(), Type: engine.Decided, RequestID: proposal.Call.RequestID, AgentID: p.AgentID, ToolName: proposal.Call.Tool,
		Outcome: d.Outcome, Reasons: boundedReasons(d.StrictestFirst()), SafePayload: safePayload(proposal, d), Actor: p.Actor(),
		PolicyDigest: d.PolicyDigest,
	}
	if proposal.Valid {
		e.DigestHMAC = g.Sealer.Digest(proposal.Call.Digest)
	}
	if proposal.dryRun {
		e.Reasons = append(e.Reasons, engine.Reason{Code: "DRY_RUN", Message: "The caller asked for a dry run: the call was judged, nothing was opened, and nobody is asked."})
	}
	return e
}

// Bounds of the reasons that one event tells.
const (
	maxReasons = 50
	maxMessage = 1000
)

// boundedReasons are what an event says of findings: the first of very many, and of a
// very long message the beginning.
func boundedReasons(findings []engine.Finding) []engine.Reason {
	reasons := engine.Reasons(findings[:min(len(findings), maxReasons)])
	for i, r := range reasons {
		if len(r.Message) > maxMessage {
			reasons[i].Message = strings.ToValidUTF8(r.Message[:maxMessage], "") + "…"
		}
	}
	if more := len(findings) - len(reasons); more > 0 {
		reasons = append(reasons, engine.Reason{Code: "more_findings", Message: fmt.Sprintf("There are %d more.", more)})
	}
	return reasons
}

// safePayload says what was called without saying with what: classification
// and the names of arguments, as far as they have the form of names, never a
// value.
func safePayload(p *Proposal, d engine.Decision) json.RawMessage {
	var few [16]payloadMember
	members := append(few[:0], payloadMember{"dialect", p.Call.Dialect}, payloadMember{"route", d.Route})
	if p.dryRun {
		members = append(members, payloadMember{"dry_run", true})
	}
	if p.Valid {
		members = append(members, p.safe...)
		keys := p.keys
		if keys == nil {
			keys = aana.ArgumentKeys(p.Arguments)
		}
		members = append(members, payloadMember{"argument_count", p.Arguments.Len()}, payloadMember{"argument_keys", words(keys)})
	}
	encoded, err := appendPayload(make([]byte, 0, 512), members)
	if err != nil {
		// Strings, numbers and routes always encode; an event without its
		// payload is still better than none.
		return json.RawMessage(`{}`)
	}
	return encoded
}

// payloadMember is a member of an event's payload.
type payloadMember struct {
	name  string
	value any
}

// appendPayload appends an object as encoding/json writes it: sorted by names, of which
// none is there twice.
func appendPayload(dst []byte, members []payloadMember) ([]byte, error) {
	slices.SortFunc(members, func(a, b payloadMember) int { return strings.Compare(a.name, b.name) })
	before := byte('{')
	for _, m := range members {
		dst = append(engine.AppendJSONString(append(dst, before), m.name), ':')
		before = ','
		switch v := m.value.(type) {
		case string:
			dst = engine.AppendJSONString(dst, v)
		case []string:
			dst = engine.AppendJSONStrings(dst, v)
		case int:
			dst = strconv.AppendInt(dst, int64(v), 10)
		case bool:
			dst = strconv.AppendBool(dst, v)
		case engine.Route:
			name, err := v.MarshalText()
			if err != nil {
				return nil, err
			}
			dst = engine.AppendJSONString(dst, string(name))
		default:
			encoded, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			dst = append(dst, encoded...)
		}
	}
	if before == '{' {
		dst = append(dst, before)
	}
	return append(dst, '}'), nil
}

// opening prepares the approval of a call that waits, or wants a token.
func (g *Gate) opening(ctx context.Context, p access.Principal, proposal *Proposal, judge *Judge, d engine.Decision, rule approval.Rule) (*store.Opening, error) {
	side, err := g.requestingSide(ctx, p, proposal)
	if err != nil {
		return nil, err
	}
	id := store.NewID("apr")
	box, err := g.Sealer.Seal(id, proposal.Document.Canonical())
	if err != nil {
		return nil, fmt.Errorf("seal the arguments of %s: %w", id, err)
	}
	now := g.Store.Clock()
	return &store.Opening{
		ID: id, Call: proposal.Call, RequestedBy: p.Actor(), MaxState: p.MaxState, Decision: d,
		Requirements: d.Requirements, Excluded: side.excluded(), ExpiresIn: judge.Routing.Expiry(rule, now).Sub(now),
		// The registered owner answers for the call. Whom else the agent names as
		// its side neither decides nor answers for it: an agent does not choose who does.
		Terms: judge.Routing.Terms(rule, d.Requirements, side.owner, side.byClaim()), Sealed: box, ArgumentsSize: len(proposal.Arguments.Canonical()),
	}, nil
}

// opened is the approval as it is at the moment of its opening.
func opened(o *store.Opening, stored store.SubmitResult) *approval.Approval {
	a := &approval.Approval{
		ID: o.ID, Call: o.Call, Decision: o.Decision, Version: 1, Revision: 1, Status: approval.Pending,
		Execution: approval.NotRun, RequestedBy: o.RequestedBy,
		Circumstances: o.Circumstances,
		Plan: approval.Plan{
			OpenedAt: stored.OpenedAt.UTC(), ExpiresAt: stored.ExpiresAt.UTC(), Requirements: o.Requirements, Excluded: o.Excluded, Edition: 1, Terms: o.Terms,
		},
	}
	a.State = approval.Advance(a.Plan, nil, a.Plan.OpenedAt)
	return a
}
