package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
	"holdpoint/internal/access"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// DialectChange is of changes of the rules: people propose them, by no door for calls.
const DialectChange = "change"

// reservedTool reports whether a name is one of those, however it is spelt.
func reservedTool(name string) bool {
	return slices.ContainsFunc(store.ChangeKinds(), func(kind string) bool { return strings.EqualFold(strings.TrimSpace(name), store.ChangeTool(kind)) })
}

// RuleChange is a change of the rules that waits for people. All of it is in the arguments
// that they approve.
type RuleChange struct {
	Kind string // one of store.ChangeKinds
	// Document and Replaces are digests of bytes; Replaces is "" where nothing is in force.
	Document, Replaces string
	// Version and Former are the versions of a policy; "" where there is none.
	Version, Former string
	Reason          string
	// From is when it comes into force at the earliest; zero is at once. Until is when a
	// policy expires by itself.
	From, Until time.Time
	// Difference is a unified diff of both texts. Simulation says what the new one would have
	// made of calls that were decided before; "" where that was not looked at.
	Difference, Simulation string
	// Author is who has written it, "" where nobody knows.
	Author string
	// SignedBy are the people whose keys have signed a policy, with which.
	SignedBy []string
}

// What is what would change, in words.
func (r RuleChange) What() string { return store.ChangeWords(r.Kind) }

// arguments are the change as people approve it.
func (r RuleChange) arguments() canon.Value {
	var members []canon.Member
	text := func(name, value string) {
		if value != "" {
			members = append(members, canon.Member{Name: name, Value: canon.String(value)})
		}
	}
	moment := func(name string, t time.Time) {
		if !t.IsZero() {
			text(name, t.UTC().Format(time.RFC3339))
		}
	}
	text("kind", r.Kind)
	text("document", r.Document)
	text("replaces", r.Replaces)
	text("version", r.Version)
	text("former_version", r.Former)
	text("reason", r.Reason)
	text("author", r.Author)
	if len(r.SignedBy) > 0 {
		list := make([]canon.Value, len(r.SignedBy))
		for i, by := range r.SignedBy {
			list[i] = canon.String(by)
		}
		members = append(members, canon.Member{Name: "signed_by", Value: canon.Array(list...)})
	}
	moment("effective_from", r.From)
	moment("effective_until", r.Until)
	text("difference", r.Difference)
	text("simulation", r.Simulation)
	return canon.Object(members...)
}

// ruleChange reads the change that a sealed document is.
func ruleChange(doc canon.Value) (r RuleChange, p Proposal, err error) {
	args, _ := doc.Get("arguments")
	field := func(name string) string { v, _ := args.Get(name); return v.Str() }
	moment := func(name string) (t time.Time) {
		if text := field(name); text != "" && err == nil {
			t, err = time.Parse(time.RFC3339, text)
		}
		return t
	}
	r = RuleChange{
		Kind: field("kind"), Document: field("document"), Replaces: field("replaces"), Version: field("version"), Former: field("former_version"),
		Reason: field("reason"), From: moment("effective_from"), Until: moment("effective_until"), Author: field("author"),
		Difference: field("difference"), Simulation: field("simulation"),
	}
	signedBy, _ := args.Get("signed_by")
	for _, by := range signedBy.Elements() {
		r.SignedBy = append(r.SignedBy, by.Str())
	}
	tool := store.ChangeTool(r.Kind)
	if tool == "" || err != nil {
		return r, p, errors.New("the sealed document is no change of the rules")
	}
	p = Proposal{
		Call: engine.Call{
			Dialect: DialectChange, AgentID: store.RulesAgent, Tool: tool, RiskDomain: "security", Category: "write", Digest: canon.Digest(tool, args),
		},
		Valid: true, Arguments: args, Document: doc,
	}
	return r, p, nil
}

// OpenedRuleChange is what a change of the rules waits as.
type OpenedRuleChange struct {
	ApprovalID string
	// Needed is how many people have to approve it, and Role of which role.
	Needed    int
	Role      string
	ExpiresAt time.Time
}

// RuleChangeRequest is a change that is proposed. Author is nil where nobody knows who has
// written it: then one person more has to approve it, because nobody can be kept from it.
type RuleChangeRequest struct {
	RuleChange
	Body    []byte
	KnownAs string // the digest of what it means
	Author  *engine.Person
	// Subjects are the identities of those who gain by it: they do not decide either.
	Subjects []string
	// ID is that of the approval, made anew when it is "".
	ID      string
	By      access.Initiator
	Guard   store.Guard
	Routing approval.Routing
	// Environment and Rules are those of now: the rules' digest is what it is judged by.
	Environment, Rules string
	Idempotency        *access.Idempotency[OpenedRuleChange]
	// Submit writes it, with what else is written in the same transaction; nil by itself.
	Submit func(context.Context, store.Submission) (store.SubmitResult, error)
}

// Bounds of what people are asked to read.
const maxDifference = 256 << 10

// AlreadyProposed is the refusal of a change that waits already, just as it is.
var AlreadyProposed = &access.Refusal{Kind: access.Conflict, Code: "already_proposed", Detail: "This very change waits for its approval already."}

// OpenRuleChange has people decide about a change of the rules: it comes into force when
// they have approved it. Its author is on the requesting side.
func OpenRuleChange(ctx context.Context, s *store.Store, sealer *seal.Sealer, r RuleChangeRequest) (OpenedRuleChange, error) {
	var none OpenedRuleChange
	rule, side := r.Guard.Rule, append([]string{}, r.Subjects...)
	if r.Author != nil {
		side, r.RuleChange.Author = append(side, r.Author.Identity), r.Author.Name+" <"+r.Author.Email+">"
	} else if rule.Needed++; rule.Needed > approval.MaxNeeded {
		return none, &access.Refusal{Kind: access.Invalid, Code: "author_unknown", Detail: "Nobody is known to have written it, and more people cannot be asked."}
	}
	if len(r.Difference) > maxDifference {
		return none, &access.Refusal{Kind: access.Invalid, Code: "difference_too_long", Detail: fmt.Sprintf("The difference has %d bytes, and nobody reads more than %d. Change it in several steps.", len(r.Difference), maxDifference)}
	}
	args := r.arguments()
	document := canon.Object(canon.Member{Name: "tool", Value: canon.String(store.ChangeTool(r.Kind))}, canon.Member{Name: "arguments", Value: args})
	_, p, err := ruleChange(document)
	if err != nil {
		return none, err
	}
	p.Call.RequestID, p.Call.Environment = r.By.RequestID, r.Environment
	d := engine.Evaluate(p.Call, r.Rules, always(engine.CheckResult{
		Findings:     []engine.Finding{{Source: "rules", Code: "RULES_CHANGE", Route: engine.Defer, Message: changeWords(r)}},
		Requirements: []engine.Requirement{{Kind: engine.Human, Role: rule.Role, Needed: rule.Needed}},
	}))
	d = d.Require(rule.Apply(d.Requirements))
	now, id := s.Clock(), cmp.Or(r.ID, store.NewID("apr"))
	box, err := sealer.Seal(id, document.Canonical())
	if err != nil {
		return none, fmt.Errorf("seal the arguments of %s: %w", id, err)
	}
	terms := r.Routing.Terms(rule, d.Requirements, nil, nil)
	terms.Stakes = &approval.Stakes{Template: changeTemplate(r.RuleChange), From: "Holdpoint"}
	o := &store.Opening{
		ID: id, Call: p.Call, RequestedBy: r.By.Actor, MaxState: string(aana.None), Decision: d, Requirements: d.Requirements, Excluded: side,
		Terms: terms, ExpiresIn: r.Routing.Expiry(rule, now).Sub(now), Sealed: box, ArgumentsSize: len(args.Canonical()),
		Proposes: &store.ProposedDocument{Document: store.Document{Kind: r.Kind, KnownAs: r.KnownAs, Body: r.Body}, Replaces: r.Replaces},
	}
	e := engine.Event{
		ID: store.NewEventID(), Type: engine.Decided, RequestID: r.By.RequestID, AgentID: store.RulesAgent, ToolName: p.Call.Tool, Outcome: d.Outcome,
		Reasons: engine.Reasons(d.Findings), ApprovalID: id, Actor: r.By.Actor, DigestHMAC: sealer.Digest(p.Call.Digest), PolicyDigest: d.PolicyDigest,
		Requirements: approval.PayloadRequirements(d.Requirements),
	}
	said := map[string]any{"dialect": DialectChange, "route": d.Route, "document": r.Document, "replaces": r.Replaces, "means": r.KnownAs}
	if err := e.SetPayload(said); err != nil {
		return none, err
	}
	asked := approval.Plan{Excluded: o.Excluded, Terms: o.Terms, ExpiresAt: time.Time{}.Add(o.ExpiresIn)}.EditionPayload()
	if err := e.AddToPayload("asked", asked); err != nil {
		return none, err
	}
	opened := OpenedRuleChange{ApprovalID: id, Needed: rule.Needed, Role: rule.Role}
	once := access.Adapt(r.Idempotency, func(stored store.SubmitResult) OpenedRuleChange {
		opened.ExpiresAt = stored.ExpiresAt.UTC()
		return opened
	})
	submit := s.Submit
	if r.Submit != nil {
		submit = r.Submit
	}
	stored, err := submit(ctx, store.Submission{Event: e, Opening: o, Idempotency: once})
	switch {
	case errors.Is(err, store.ErrConflict):
		return none, AlreadyProposed
	case isKilled(err):
		return none, &access.Refusal{Kind: access.Stopped, Code: "kill_switch", Detail: "A kill switch stops every agent. While it is on, no change of the rules is approved either."}
	case err != nil:
		return none, err
	}
	opened.ExpiresAt = stored.ExpiresAt.UTC()
	return opened, nil
}

// changeWords say what is proposed, without quoting it.
func changeWords(r RuleChangeRequest) string {
	if r.Author == nil {
		return "A change of " + r.What() + " takes an approval. Nobody is known to have written it, so one person more decides."
	}
	return "A change of " + r.What() + " takes an approval, by somebody else than its author."
}

// changeTemplate is the sentence that says what a change will do.
func changeTemplate(r RuleChange) string {
	text := "Puts a set of tool contracts in force"
	if store.ByEntries(r.Kind) {
		text = map[string]string{
			store.RolesChange: "Gives people roles", store.RoutingChange: "Changes who is on call", store.SettingsChange: "Changes what is set up",
			store.EndpointsChange: "Has notifications sent to another place", store.RetentionChange: "Ends a legal hold, or lets records be erased earlier",
		}[r.Kind]
	}
	if r.Kind == store.PolicyDocument {
		text = "Puts policy version {version} in force"
		if r.Former != "" {
			text += " in place of {former_version}"
		}
	}
	if !r.From.IsZero() {
		text += ", from {effective_from} on"
	}
	return text + ", because: {reason}"
}

// RuleChangeOf is the change that an approval is about; not ok for a call. Of one whose
// arguments are erased only the kind is known.
func RuleChangeOf(a approval.Approval, document []byte) (r RuleChange, ok bool) {
	if a.Call.Dialect != DialectChange {
		return r, false
	}
	if doc, err := canon.Parse(document); err == nil {
		if r, _, err := ruleChange(doc); err == nil {
			return r, true
		}
	}
	r.Kind = store.ChangeUnder(a.Call.Tool)
	return r, true
}

// ChangeUnder is what is changed by what waits under a tool's name, in words; "" where the name
// is one of a tool.
func ChangeUnder(tool string) string { return store.ChangeWords(store.ChangeUnder(tool)) }
