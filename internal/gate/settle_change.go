package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Documents says whether a document may come into force now, in place of another, and whose keys
// have signed it; the error says in a sentence why not (rules.Keeper).
type Documents interface {
	MayComeIntoForce(kind string, body []byte, in store.Replacing) (signedBy []string, err error)
}

// openRuleChange reads what is sealed of a change of the rules: exactly what people approved.
func openRuleChange(s *seal.Sealer, a approval.Approval, box seal.Box) (RuleChange, error) {
	document, err := s.Open(a.ID, box)
	if err != nil {
		return RuleChange{}, err
	}
	doc, err := canon.Parse(document)
	if err != nil {
		return RuleChange{}, err
	}
	r, p, err := ruleChange(doc)
	if err == nil && (p.Call.Digest != a.Call.Digest || a.Call.Dialect != DialectChange || a.Call.AgentID != store.RulesAgent) {
		err = fmt.Errorf("what is sealed is not the change that %s is about", a.ID)
	}
	return r, err
}

// applicable is what an approval proposes, if that may come into force now; obstacle says why it
// may not.
func (s *Settler) applicable(c *store.Change) (p store.Proposal, r RuleChange, obstacle string, err error) {
	if r, err = openRuleChange(s.Sealer, c.Approval, c.Sealed); err != nil {
		return p, r, "What is sealed of the change cannot be read.", nil //nolint:nilerr // it ends all the same, with no
	}
	if p, err = c.Proposal(); err != nil {
		return p, r, "", err
	}
	switch {
	case p.Digest() != r.Document || p.Replaces != r.Replaces || p.Kind != r.Kind:
		return p, r, "What the database would put in force is not what people approved.", nil
	case c.Approval.State.Broken:
		return p, r, "The glass was broken for it, and a change of the rules takes what its rule asks for. Propose it again.", nil
	case p.InForce != p.Replaces:
		return p, r, "Something else has come into force since it was proposed. Propose it again, so that people see the difference to that.", nil
	case p.Guard != nil && !covers(c.Approval, p.Guard.Rule):
		return p, r, "The rule for such changes asks for more than was given. Propose it again.", nil
	case s.Documents == nil:
		return p, r, "", errors.New("this process puts no rules in force")
	case store.ByEntries(p.Kind):
		obstacle, err = s.obstacle(c, p)
		return p, r, obstacle, err
	}
	if p.SignedBy, err = s.Documents.MayComeIntoForce(p.Kind, p.Body, p.Replacing); err != nil {
		return p, r, "It may not come into force any more: " + err.Error(), nil
	}
	return p, r, "", nil
}

// obstacle says what stands in the way of a change of entries.
func (s *Settler) obstacle(c *store.Change, p store.Proposal) (obstacle string, err error) {
	entries, err := p.Entries()
	if err != nil {
		return "What it proposes cannot be read.", nil //nolint:nilerr // it ends all the same, with no
	}
	if p.Kind == store.RolesChange {
		may, err := c.MayGiveRoles()
		if err != nil {
			return "", err
		}
		if !may {
			return "The worker has no login that gives roles (database_people_url). Set it, and propose the change again.", nil
		}
	}
	return c.Stand(entries, access.AdminRole)
}

// covers reports whether an approval asked for all that a rule asks for now.
func covers(a approval.Approval, rule approval.Rule) bool {
	if len(a.Plan.Requirements) != 1 {
		return false
	}
	asked := a.Plan.Requirements[0]
	return asked.Kind.PeopleDecide() && asked.Kind.Traits().FreshProof && asked.Role == rule.Role && asked.Needed >= rule.Needed && (asked.Signed || !rule.Signed)
}

// endChange is the end of a change of the rules that people approved.
func (s *Settler) endChange(c *store.Change) (ending, error) {
	_, _, obstacle, err := s.applicable(c)
	if err != nil {
		return ending{}, err
	}
	if obstacle != "" {
		return ending{status: approval.Denied, reasons: []engine.Reason{{Code: "policy_changed", Message: obstacle}}}, nil
	}
	return ending{status: approval.Approved, reasons: []engine.Reason{endReason(c.Approval)}}, nil
}

// begin spends the token of a change that was approved, which nobody else can, and puts it in
// force when its time has come.
func (s *Settler) begin(c *store.Change) (Settlement, error) {
	r, err := openRuleChange(s.Sealer, c.Approval, c.Sealed)
	if err != nil {
		return Settlement{}, err
	}
	wait := max(r.From.Sub(c.Now), 0)
	if err := c.Redeem(settlerActor.ID, wait); err != nil {
		return Settlement{}, err
	}
	e := s.event(engine.Redeemed, engine.Allow, c)
	e.Reasons = []engine.Reason{{Code: "REDEEMED", Message: "The change comes into force once, by what people approved."}}
	c.AddEvent(e)
	if wait > 0 {
		return Settlement{WakeIn: wait}, nil
	}
	return s.comeIntoForce(c)
}

// scheduled sees to a change that was approved and whose time had not come.
func (s *Settler) scheduled(c *store.Change) (Settlement, error) {
	if c.Approval.Execution != approval.Redeemed || c.Token == nil || c.Token.LeaseUntil == nil {
		return Settlement{Over: true}, nil
	}
	if left := c.Token.LeaseUntil.Sub(c.Now); left > 0 {
		return Settlement{WakeIn: left}, c.Wake(*c.Token.LeaseUntil)
	}
	return s.comeIntoForce(c)
}

// comeIntoForce puts in force what people approved, or says why it may not be any more.
func (s *Settler) comeIntoForce(c *store.Change) (Settlement, error) {
	p, r, obstacle, err := s.applicable(c)
	if err != nil {
		return Settlement{}, err
	}
	e := s.event(engine.Executed, engine.Allow, c)
	if obstacle != "" {
		e.Reasons = []engine.Reason{{Code: "EXECUTION_FAILED", Message: obstacle}}
		c.AddEvent(e)
		return Settlement{Over: true}, c.Executed(approval.Failed)
	}
	if store.ByEntries(p.Kind) {
		return s.putEntries(c, p, e)
	}
	if err := c.PutInForce(p, settlerActor.ID); err != nil {
		return Settlement{}, fmt.Errorf("put in force what %s proposes: %w", c.Approval.ID, err)
	}
	e.Reasons = []engine.Reason{{Code: "EXECUTION_SUCCEEDED", Message: "The change is in force."}}
	c.AddEvent(e)
	in, err := ActivationEvent(p.Document, r.Version, c.Approval.ID, p.InForce)
	if err != nil {
		return Settlement{}, err
	}
	in.Actor = settlerActor
	if err := errors.Join(sayBehind(&in, c.Approval), p.SayWhoSigned(&in)); err != nil {
		return Settlement{}, err
	}
	c.AddEvent(in)
	return Settlement{Over: true}, c.Executed(approval.Succeeded)
}

// putEntries makes the change of entries that people approved, with the events of changes that
// are made at once.
func (s *Settler) putEntries(c *store.Change, p store.Proposal, e engine.Event) (Settlement, error) {
	entries, err := p.Entries()
	if err != nil {
		return Settlement{}, err
	}
	for i := range entries {
		entries[i].EventID = store.NewEventID()
	}
	done, err := c.PutEntries(entries)
	if err != nil {
		return Settlement{}, fmt.Errorf("make the change that %s proposes: %w", c.Approval.ID, err)
	}
	if !done {
		e.Reasons = []engine.Reason{{Code: "EXECUTION_FAILED", Message: "The database does not take the change as it was approved. Nothing was changed. Propose it again."}}
		c.AddEvent(e)
		return Settlement{Over: true}, c.Executed(approval.Failed)
	}
	e.Reasons = []engine.Reason{{Code: "EXECUTION_SUCCEEDED", Message: "The change is made."}}
	c.AddEvent(e)
	for _, n := range entries {
		e, err := n.Of(engine.Event{ID: n.EventID, Type: engine.Admin, Outcome: engine.Allow, ApprovalID: c.Approval.ID, Actor: settlerActor}, c.Now)
		if err == nil {
			err = sayBehind(&e, c.Approval)
		}
		if err != nil {
			return Settlement{}, err
		}
		c.AddEvent(e)
	}
	return Settlement{Over: true}, c.Executed(approval.Succeeded)
}

// sayBehind has the event of a change say who is behind it: who proposed it, and the ids of the
// people by whose votes it is made. Settlement, its actor, only carries it out.
func sayBehind(e *engine.Event, a approval.Approval) error {
	by := []string{}
	for _, vote := range a.State.Counted {
		if !slices.Contains(by, vote.Actor.ID) {
			by = append(by, vote.Actor.ID)
		}
	}
	return errors.Join(e.AddToPayload("proposed_by", a.RequestedBy), e.AddToPayload("approved_by", by))
}

// ActivationEvent is the event of a document's coming into force, in place of another, by an
// approval; "" where there was none. version is a policy's.
func ActivationEvent(d store.Document, version, approvalID, replaces string) (engine.Event, error) {
	e := engine.Event{ID: store.NewEventID(), Type: engine.Admin, Outcome: engine.Allow, ApprovalID: approvalID}
	e.Reasons = []engine.Reason{{Code: "TOOL_CONTRACTS_ACTIVATED", Message: "Tool contracts were put in force."}}
	if d.Kind == store.PolicyDocument {
		e.PolicyDigest = d.KnownAs
		e.Reasons = []engine.Reason{{Code: "POLICY_ACTIVATED", Message: fmt.Sprintf("Policy version %.64q was put in force.", version)}}
	}
	said := struct {
		Document string `json:"document"`
		Means    string `json:"means"`
		Replaces string `json:"replaces,omitempty"`
	}{d.Digest(), d.KnownAs, replaces}
	return e, e.SetPayload(said)
}

// ApprovedRules reports whether people approved what is in force of a kind: nil where nobody
// had to be asked, or where the approval that it names bears it out.
func ApprovedRules(ctx context.Context, s *store.Store, sealer *seal.Sealer, d store.Document) error {
	if d.ApprovalID == "" {
		return nil // the database lets nobody but its owner do without
	}
	record, err := s.Approvals.Get(ctx, d.ApprovalID)
	if err != nil {
		return err
	}
	// A token is read only where the programs have made it, of facts that the log bears out.
	if record.Approval.Status != approval.Approved || record.Token == nil || record.Token.RedeemedAt == nil {
		return fmt.Errorf("approval %s, by which it is in force, has not been given", d.ApprovalID)
	}
	r, err := openRuleChange(sealer, record.Approval, record.Sealed)
	switch {
	case err != nil:
		return fmt.Errorf("approval %s, by which it is in force, cannot be read: %w", d.ApprovalID, err)
	case r.Kind != d.Kind || r.Document != d.Digest():
		return fmt.Errorf("approval %s, by which it is in force, is of something else", d.ApprovalID)
	case d.ActivatedAt.Before(r.From.Add(-time.Second)):
		return fmt.Errorf("approval %s, by which it is in force, is for later", d.ApprovalID)
	}
	return nil
}
