package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/authzen"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// EditRequest is a reviewer's change of a waiting call's arguments.
type EditRequest struct {
	Contribution
	Arguments canon.Value // an object: all arguments as they are to be
	Digest    string      // of the arguments that the page showed
	Version   int
}

// Edit changes the arguments of a waiting call. It is another call then: it has
// another digest, the rules judge it anew, and of what they ask for and what was
// asked for before, the stricter counts. All that was said of the former
// arguments is void, and whoever edits does not approve: somebody else looks at
// what they wrote. What the rules refuse is not taken on.
func (g *Contributions) Edit(ctx context.Context, r EditRequest, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	by := r.actor()
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Edited, c.Approval.Decision.Outcome, c.Approval, by, r.RequestID)
	}
	write := func(c *store.Change) (approval.Approval, error) {
		var none approval.Approval
		if err := g.mayEdit(ctx, c, r); err != nil {
			return none, err
		}
		edited, err := g.edited(c, r)
		if err != nil {
			return none, err
		}
		f := approval.Fact{
			Kind: approval.Edit, Actor: by, Comment: r.Comment, Voter: voter(r.Person),
			Details: approval.Details{Digest: edited.Digest, Changed: edited.changed},
		}
		deadline := c.Approval.State.Deadline
		if err := c.AddFact(f); err != nil {
			return none, err
		}
		if !c.Now.Before(deadline) {
			return none, errLate
		}
		fact := lastFact(c)
		if err := c.Amend(edited.Amendment); err != nil {
			return none, err
		}
		e := event(c)
		e.Outcome, e.Requirements = c.Approval.Decision.Outcome, approval.PayloadRequirements(edited.Requirements)
		e.Reasons = []engine.Reason{f.Statement().Reason}
		if err := e.SetPayload(fact.EditionPayload(c.Approval.Plan)); err != nil {
			return none, err
		}
		c.AddEvent(e)
		return c.Approval, nil
	}
	for {
		result, err := change(ctx, g.core, r.ApprovalID, once, event, write)
		if errors.Is(err, errLate) {
			continue // rolled back; the next attempt finds that it is over
		}
		return g.resultFor(ctx, r.Contribution, engine.Edited, result, err)
	}
}

// mayEdit refuses an edit by somebody who has no say or has not been shown all of the
// arguments, or of what nobody can edit.
func (g *Contributions) mayEdit(ctx context.Context, c *store.Change, r EditRequest) error {
	if err := visible(c, r.Person); err != nil {
		return err
	}
	if err := settledRefusal(c.Approval); err != nil {
		return err
	}
	if err := sameCard(c.Approval, r.Digest, r.Version); err != nil {
		return err
	}
	if err := bounds(r.Comment); err != nil {
		return err
	}
	switch {
	case c.Kill != nil:
		return killedRefusal
	case c.Approval.State.Status == approval.Expired:
		return admission(approval.ErrExpired)
	case c.Approval.State.Status != approval.Pending:
		return admission(approval.ErrDecided)
	case c.Approval.Call.Dialect == DialectChange:
		return &access.Refusal{Kind: access.Conflict, Code: "not_editable", Detail: "A change of the rules is approved as it was proposed. Deny it, and say what to change."}
	case c.Approval.Call.Dialect == DialectThreeGate:
		return &access.Refusal{Kind: access.Conflict, Code: "not_editable", Detail: "A tool request is signed for as the document that it is. Deny it, and say what to change."}
	case strings.TrimSpace(r.Comment) == "":
		return &access.Refusal{Kind: access.Invalid, Code: "reason_required", Detail: "Say why you change the arguments: the agent learns of it."}
	case r.Arguments.Kind() != canon.ObjectKind:
		return &access.Refusal{Kind: access.Invalid, Code: "arguments", Detail: "The arguments have to be a JSON object."}
	}
	// Whoever could ask about it could decide it.
	_, err := g.admitted(c, approval.Fact{Kind: approval.Claim, Actor: r.actor(), Voter: voter(r.Person)})
	var refused *access.Refusal
	if err != nil && !(errors.As(err, &refused) && refused.Code == "already_voted") { // who has voted has taken it on already
		return err
	}
	return g.hasSeen(ctx, c, r.Person, r.Digest)
}

type edition struct {
	store.Amendment
	changed []string
}

// edited judges the changed call.
func (g *Contributions) edited(c *store.Change, r EditRequest) (edition, error) {
	a := c.Approval
	text, err := g.Sealer.Open(a.ID, c.Sealed)
	if err != nil {
		return edition{}, fmt.Errorf("open the arguments of %s: %w", a.ID, err)
	}
	doc, err := canon.Parse(text)
	if err != nil {
		return edition{}, fmt.Errorf("read the arguments of %s: %w", a.ID, err)
	}
	doc, before, err := withArguments(a.Call.Dialect, doc, r.Arguments)
	if err != nil {
		return edition{}, fmt.Errorf("change the arguments of %s: %w", a.ID, err)
	}
	if string(before.Canonical()) == string(r.Arguments.Canonical()) {
		return edition{}, &access.Refusal{Kind: access.Invalid, Code: "nothing_changed", Detail: "These are the arguments that there are."}
	}
	p, err := g.proposeAgain(a, doc, c.MaxState)
	if err != nil {
		return edition{}, &access.Refusal{Kind: access.Invalid, Code: "edit_invalid", Detail: "With these arguments it is no call that can be judged."}
	}
	// No veto is asked: it is no further call to count, and the lock knows of kill
	// switches.
	judge := g.Judge()
	j := judge.Judge(&p, g.Store.Clock())
	if j.Route == engine.Refuse {
		var why []string
		for _, f := range j.StrictestFirst() {
			if f.Route == engine.Refuse {
				why = append(why, f.Code)
			}
		}
		return edition{}, &access.Refusal{Kind: access.Invalid, Code: "edit_refused", Detail: "The rules refuse the call with these arguments: " + strings.Join(why, ", ") + "."}
	}
	rule := judge.Routing.For(p.Call)
	d := j.Require(rule.Apply(j.Requirements))
	former := a.Decision
	former.Requirements = a.Plan.Requirements
	// What was asked for stays asked: an edit loosens nothing.
	both := former.Stricter(d)
	both.Findings = mergeFindings(d.Findings, both.Findings)
	if both.Constraints, err = approval.Tighten(former.Constraints, j.Constraints); err != nil {
		return edition{}, &access.Refusal{Kind: access.Invalid, Code: "edit_refused", Detail: "With these arguments the rules set constraints that are wider than those before, and an edit loosens nothing. Deny it, and let the agent ask anew."}
	}
	excluded := append(slices.Clone(a.Plan.Excluded), r.Person.Identity)
	slices.Sort(excluded)
	// Whoever edits is excluded by that from here on, whatever the agent claims.
	byClaim := slices.DeleteFunc(slices.Clone(a.Plan.ByClaim), func(who string) bool { return who == r.Person.Identity })
	box, err := g.Sealer.Seal(a.ID, doc.Canonical())
	if err != nil {
		return edition{}, fmt.Errorf("seal the arguments of %s: %w", a.ID, err)
	}
	terms := judge.Routing.Terms(rule, both.Requirements, a.Plan.Accountable, byClaim)
	terms.Stakes = judge.stakes(&p, j.Policy)
	return edition{store.Amendment{
		Digest: p.Call.Digest, Decision: both, Requirements: both.Requirements, Excluded: slices.Compact(excluded),
		Terms: terms, Sealed: &box, ArgumentsSize: len(r.Arguments.Canonical()),
	}, changed(before, r.Arguments)}, nil
}

// mergeFindings is the first list, and what of the second it lacks.
func mergeFindings(first, second []engine.Finding) []engine.Finding {
	merged := slices.Clone(first)
	for _, f := range second {
		if !slices.Contains(merged, f) {
			merged = append(merged, f)
		}
	}
	return merged
}

// changed names the arguments that are different, never their values.
func changed(before, after canon.Value) []string {
	var names []string
	for name, value := range after.All() {
		if old, there := before.Get(name); !there || string(old.Canonical()) != string(value.Canonical()) {
			names = append(names, name)
		}
	}
	for name := range before.All() {
		if _, there := after.Get(name); !there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return words(names)
}

// withArguments is a dialect's document with other arguments, and those that it
// had.
func withArguments(dialect string, doc, arguments canon.Value) (canon.Value, canon.Value, error) {
	path := []string{"proposed_arguments"}
	if dialect == DialectAuthZEN {
		return authzen.WithArguments(doc, arguments)
	}
	if dialect == DialectSPM {
		path = []string{"toolArgs"}
		if _, full := doc.Get("action"); full {
			path = []string{"action", "tool_args"}
		}
	}
	return replace(doc, path, arguments)
}

func replace(v canon.Value, path []string, with canon.Value) (canon.Value, canon.Value, error) {
	if len(path) == 0 {
		return with, v, nil
	}
	inner, there := v.Get(path[0])
	if v.Kind() != canon.ObjectKind || !there && len(path) > 1 {
		return v, canon.Value{}, fmt.Errorf("the document has no %s", path[0])
	}
	if !there {
		inner = canon.Object()
	}
	inner, old, err := replace(inner, path[1:], with)
	if err != nil {
		return v, old, err
	}
	members := slices.DeleteFunc(slices.Clone(v.Members()), func(m canon.Member) bool { return m.Name == path[0] })
	return canon.Object(append(members, canon.Member{Name: path[0], Value: inner})...), old, nil
}
