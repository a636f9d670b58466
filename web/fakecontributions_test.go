package web

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/internal/store"
)

// contribute adds a fact by the real rules, with the event that tells of it.
func (m *fakeGate) contribute(s gate.Contribution, kind engine.EventType, f approval.Fact) (approval.Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return approval.Approval{}, m.broken
	}
	c, ok := m.cards[s.ApprovalID]
	if !ok {
		return approval.Approval{}, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such approval."}
	}
	a := &c.Approval
	if a.Status.Terminal() {
		return *a, &access.Refusal{Kind: access.Conflict, Code: "already_" + string(a.Status), Detail: "This call is already " + string(a.Status) + "."}
	}
	f.Seq, f.At, f.Edition, f.Comment = int64(len(a.Facts)+1), m.now(), a.Plan.Edition, s.Comment
	f.Actor, f.Voter = engine.Actor{Kind: engine.HumanActor, ID: s.Person.ID, Channel: s.Channel}, m.voter(s.Person)
	if err := approval.Admit(a.Plan, a.Facts, f, m.now()); err != nil {
		refusal := &access.Refusal{Kind: access.Forbidden, Code: "refused", Detail: err.Error()}
		if errors.Is(err, approval.ErrNotFresh) {
			refusal.Code = "verification_required"
		}
		return *a, refusal
	}
	m.facts = append(m.facts, f)
	a.Facts = append(a.Facts, f)
	a.Revision++
	c.Timeline = append(c.Timeline, engine.Event{Type: kind, Timestamp: f.At, Actor: f.Actor})
	m.advance(c)
	m.notify()
	return *a, nil
}

func (m *fakeGate) Comment(_ context.Context, s gate.Contribution, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return m.contribute(s, engine.Commented, approval.Fact{Kind: approval.Comment})
}

func (m *fakeGate) Ask(_ context.Context, s gate.Contribution, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return m.contribute(s, engine.Asked, approval.Fact{Kind: approval.Question})
}

func (m *fakeGate) InformInPerson(_ context.Context, s gate.Contribution, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return m.contribute(s, engine.Asked, approval.Fact{Kind: approval.Information})
}

func (m *fakeGate) Claim(_ context.Context, s gate.Contribution, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return m.contribute(s, engine.Claimed, approval.Fact{Kind: approval.Claim})
}

func (m *fakeGate) WithdrawInPerson(_ context.Context, s gate.Contribution, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return m.contribute(s, engine.Cancelled, approval.Fact{Kind: approval.Cancel})
}

func (m *fakeGate) Unclaim(_ context.Context, s gate.Contribution, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return m.contribute(s, engine.Claimed, approval.Fact{Kind: approval.Unclaim})
}

func (m *fakeGate) PassOn(_ context.Context, s gate.Contribution, to string, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return m.contribute(s, engine.Claimed, approval.Fact{Kind: approval.Claim, Details: approval.Details{For: to}})
}

func (m *fakeGate) Extend(_ context.Context, s gate.Contribution, by time.Duration, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return m.contribute(s, engine.Extended, approval.Fact{Kind: approval.Extend, Details: approval.Details{By: engine.Duration(by)}})
}

func (m *fakeGate) AttachTicketInPerson(_ context.Context, s gate.Contribution, system, ref string, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return m.contribute(s, engine.Ticketed, approval.Fact{Kind: approval.TicketLink, Details: approval.Details{Ticket: &approval.Ticket{System: system, Ref: ref}}})
}

func (m *fakeGate) MayStepUp(_ context.Context, s gate.Contribution, digest string, version int) error {
	if a := m.cards[s.ApprovalID].Approval; digest != a.Call.Digest || version != a.Version {
		return &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "The card changed after you opened it."}
	}
	return nil
}

func (m *fakeGate) StepUp(_ context.Context, s gate.Contribution, method string, yes bool, digest string, version int, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	if a := m.cards[s.ApprovalID].Approval; digest != a.Call.Digest || version != a.Version {
		return a, &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "The card changed after you opened it."}
	}
	f := approval.Fact{Kind: approval.Verification, Yes: yes, Denial: approval.Never}
	if yes {
		f.Denial, f.Details.Proof = "", &approval.Proof{Method: method, At: m.now()}
	}
	return m.contribute(s, engine.Proved, f)
}

func (m *fakeGate) AnswerInPerson(_ context.Context, s gate.Contribution, values canon.Value, digest string, version int, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	if a := m.cards[s.ApprovalID].Approval; digest != a.Call.Digest || version != a.Version {
		return a, &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "The card changed after you opened it."}
	}
	m.supplied = values
	return m.contribute(s, engine.Answered, approval.Fact{Kind: approval.Reply, Yes: true})
}

func (m *fakeGate) BreakGlass(_ context.Context, s gate.Contribution, alone bool, digest string, version int, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	if a := m.cards[s.ApprovalID].Approval; digest != a.Call.Digest || version != a.Version {
		return a, &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "The card changed after you opened it."}
	}
	f := approval.Fact{Kind: approval.BreakGlass, Yes: true, Details: approval.Details{Alone: alone}}
	if s.Person.VerifiedBy != "" {
		f.Details.Proof = &approval.Proof{Method: s.Person.VerifiedBy, At: s.Person.VerifiedAt}
	}
	a, err := m.contribute(s, engine.Broken, f)
	if err == nil && a.State.Owed {
		m.cards[s.ApprovalID].BreakGlassReview = &store.BreakGlassReview{DueSince: m.now()}
	}
	return a, err
}

// Edit begins a new edition, as the gate does.
func (m *fakeGate) Edit(_ context.Context, r gate.EditRequest, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cards[r.ApprovalID]
	a := &c.Approval
	switch {
	case r.Digest != a.Call.Digest || r.Version != a.Version:
		return *a, &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "The card changed after you opened it."}
	case strings.TrimSpace(r.Comment) == "":
		return *a, &access.Refusal{Kind: access.Invalid, Code: "reason_required", Detail: "Say why you change the arguments: the agent learns of it."}
	}
	before, err := canon.Parse(c.Arguments)
	if err != nil {
		return *a, err
	}
	var changed []string
	for name, v := range r.Arguments.All() {
		if old, there := before.Get(name); !there || string(old.Canonical()) != string(v.Canonical()) {
			changed = append(changed, name)
		}
	}
	by := engine.Actor{Kind: engine.HumanActor, ID: r.Person.ID, Channel: r.Channel}
	a.Facts = append(a.Facts, approval.Fact{
		Seq: int64(len(a.Facts) + 1), At: m.now(), Kind: approval.Edit, Edition: a.Plan.Edition, Actor: by, Voter: m.voter(r.Person), Comment: r.Comment,
		Details: approval.Details{Changed: changed},
	})
	a.Plan.Edition, a.Version, a.Revision = max(a.Plan.Edition, 1)+1, a.Version+1, a.Revision+1
	a.Plan.Excluded = append(a.Plan.Excluded, r.Person.Identity)
	a.Call.Digest, c.Arguments = canon.Digest(a.Call.Tool, r.Arguments), r.Arguments.Canonical()
	c.Timeline = append(c.Timeline, engine.Event{Type: engine.Edited, Timestamp: m.now(), Actor: by})
	m.advance(c)
	m.notify()
	return *a, nil
}

func (m *fakeGate) Reconcile(_ context.Context, s gate.Contribution, outcome approval.Execution, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cards[s.ApprovalID]
	if !gate.MayReconcile(s.Person, c.Approval) {
		return c.Approval, &access.Refusal{Kind: access.Forbidden, Code: "not_accountable", Detail: "Somebody who answers for the call finds out."}
	}
	if outcome != approval.Succeeded && outcome != approval.Failed {
		return c.Approval, &access.Refusal{Kind: access.Invalid, Code: "outcome", Detail: "Say that the call succeeded, or that it failed."}
	}
	c.Reconciled = &store.Reconciliation{PersonID: s.Person.ID, Outcome: outcome, SaltedComment: store.SaltedComment{Comment: s.Comment}, At: m.now()}
	c.Approval.Execution = outcome
	return c.Approval, nil
}

func (m *fakeGate) ReviewBreakGlass(_ context.Context, s gate.Contribution, justified bool, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, now := m.cards[s.ApprovalID], m.now()
	if !gate.MayReviewBreakGlass(s.Person, c.Approval) || c.BreakGlassReview == nil || c.BreakGlassReview.DoneAt != nil {
		return c.Approval, &access.Refusal{Kind: access.Forbidden, Code: "self_review", Detail: "Somebody else has to look at it."}
	}
	c.BreakGlassReview.PersonID, c.BreakGlassReview.Justified, c.BreakGlassReview.Comment, c.BreakGlassReview.DoneAt = s.Person.ID, justified, s.Comment, &now
	return c.Approval, nil
}

func (m *fakeGate) Tasks(_ context.Context, p engine.Person) (gate.Tasks, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var e gate.Tasks
	for _, c := range m.sorted() {
		switch a := c.Approval; {
		case gate.MayReconcile(p, a):
			e.Unknown = append(e.Unknown, a)
		case c.BreakGlassReview != nil && c.BreakGlassReview.DoneAt == nil && gate.MayReviewBreakGlass(p, a):
			e.Reviews = append(e.Reviews, a)
		case gate.AwaitsRequester(p, a):
			e.Mine = append(e.Mine, a)
		}
	}
	return e, m.broken
}

func (m *fakeGate) sorted() []*gate.Card {
	var list []*gate.Card
	for _, c := range m.cards {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *gate.Card) int { return strings.Compare(a.Approval.ID, b.Approval.ID) })
	return list
}

func (m *fakeGate) Session(ctx context.Context, p engine.Person, agentID, session string, look gate.Display) ([]gate.Card, bool, error) {
	var cards []gate.Card
	for _, c := range m.sorted() {
		if c.Approval.Call.AgentID != agentID || c.Approval.Session != session {
			continue
		}
		card, err := m.Card(ctx, p, c.Approval.ID, look)
		if err != nil {
			return nil, false, err
		}
		cards = append(cards, card)
	}
	if len(cards) == 0 {
		return nil, false, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such session."}
	}
	return cards, false, nil
}

// Methods and Verify make fakeGate a Prover: the good code is 123456, and what a
// proof was bound to is kept.
func (m *fakeGate) Methods(_ context.Context, p engine.Person) ([]string, error) {
	if len(p.Factors) == 0 {
		return []string{"password"}, m.broken
	}
	return p.Factors, m.broken
}

func (m *fakeGate) Verify(_ context.Context, p engine.Person, purpose, boundTo string, proof identity.Proof) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proved = append(m.proved, purpose+" "+boundTo)
	if proof.Code != "123456" {
		return "", &access.Refusal{Kind: access.Forbidden, Code: "verification_failed", Detail: "That is not the right code."}
	}
	return "totp", nil
}

func constraints(text string) func(*gate.Card) {
	return func(c *gate.Card) {
		c.Approval.Decision.Constraints = json.RawMessage(text)
		c.Permits = c.Approval.Decision.Constraints
	}
}
