package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/policy"
	"holdpoint/engine/policysim"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/simulation"
	"holdpoint/internal/store"
)

// Proposal is a document that people are to approve before it comes into force.
type Proposal struct {
	Kind string
	Data []byte
	Name string // its file's
	// Reason is why, for those who decide.
	Reason string
	// From is when it comes into force at the earliest; zero is as soon as it is approved.
	From time.Time
	// Author has written it; nil where nobody knows who has.
	Author *engine.Person
	By     access.Initiator
	// Idempotency keeps the answer for a repetition; nil keeps none.
	Idempotency *access.Idempotency[gate.OpenedRuleChange]
}

var (
	// ErrProposed is the error of a file that waits for its approval, or was denied it.
	ErrProposed = errors.New("it takes an approval")
	// errInForce is the error of proposing what is in force.
	errInForce = errors.New("it is in force already")
	// errNotGuarded is the error of proposing what nobody has to approve.
	errNotGuarded = errors.New("nobody has to approve such a change here: “holdpoint changes require” has people asked")
)

// Limits of what a simulation for those who decide takes.
const (
	simulated    = 2000 // approvals
	simulateFor  = 20 * time.Second
	maxFindings  = 12 << 10 // bytes
	maxAhead     = 90 * 24 * time.Hour
	maxReasonLen = access.MaxReason
)

// Propose checks a document as Import does and has people decide about it. The error has one
// line for each mistake.
func (k *Keeper) Propose(ctx context.Context, p Proposal) (gate.OpenedRuleChange, error) {
	if p.Idempotency != nil {
		if err := k.Store.Answered(ctx, p.Idempotency.Of()); err != nil {
			return gate.OpenedRuleChange{}, err
		}
	}
	r, err := k.prepared(ctx, p)
	if err != nil {
		return gate.OpenedRuleChange{}, err
	}
	r.Idempotency = p.Idempotency
	return gate.OpenRuleChange(ctx, k.Store, k.Sealer, r)
}

// Preview is what people would be asked to approve. Nothing is proposed.
func (k *Keeper) Preview(ctx context.Context, p Proposal) (gate.RuleChange, error) {
	r, err := k.prepared(ctx, p)
	return r.RuleChange, err
}

// prepared is a proposal, checked.
func (k *Keeper) prepared(ctx context.Context, p Proposal) (gate.RuleChangeRequest, error) {
	var none gate.RuleChangeRequest
	guards, err := k.Store.Rules.Guards(ctx)
	if err != nil {
		return none, err
	}
	guard, guarded := guards[p.Kind]
	proposer, err := k.person(ctx, p.By)
	if err != nil {
		return none, err
	}
	var side []string
	switch {
	case proposer == nil:
	case p.Author == nil:
		p.Author = proposer
	case p.Author.Identity != proposer.Identity:
		side = []string{proposer.Identity} // neither of them approves it
	}
	now := k.Store.Clock()
	switch p.Reason = strings.TrimSpace(p.Reason); {
	case !guarded:
		return none, errNotGuarded
	case p.Reason == "":
		return none, errors.New("say why: those who decide read it")
	case len(p.Reason) > maxReasonLen:
		return none, fmt.Errorf("the reason has %d bytes; at most %d are kept", len(p.Reason), maxReasonLen)
	case p.From.Sub(now) > maxAhead:
		return none, fmt.Errorf("a change comes into force within %d days", int(maxAhead.Hours()/24))
	}
	in, err := k.read(ctx, p.Kind, p.Data, p.Name)
	if err != nil {
		return none, err
	}
	if in.bundle != nil && in.bundle.Expired(p.From) {
		return none, errors.New("it expires before it would come into force")
	}
	active, digests, err := k.Store.Rules.ActiveDocuments(ctx)
	if err != nil {
		return none, err
	}
	if digests[p.Kind] == in.Digest() {
		return none, errInForce
	}
	former, replaces := active[p.Kind]
	signing, err := k.Store.Rules.Signing(ctx)
	if err != nil {
		return none, err
	}
	back, err := k.Store.Rules.WasInForce(ctx, p.Kind, in.Digest())
	if err != nil {
		return none, err
	}
	signedBy, err := k.allowed(in)(store.Replacing{Former: former.Body, Back: back, Signing: signing})
	if err != nil {
		return none, err
	}
	changed, err := difference("in force", "proposed", string(former.Body), string(in.Body))
	if err != nil {
		return none, err
	}
	c := gate.RuleChange{
		Kind: p.Kind, Document: in.Digest(), Replaces: digests[p.Kind], Version: in.version, Reason: p.Reason, Difference: changed,
	}
	for _, f := range signedBy {
		key, _ := signing.Key(f)
		c.SignedBy = append(c.SignedBy, nameOf(key)+" <"+key.Person.Email+"> with "+f)
	}
	if p.From.After(now) {
		c.From = p.From.UTC().Truncate(time.Second)
	}
	if in.bundle != nil {
		c.Until = in.bundle.ExpiresAt
		old, problems := policy.Load(former.Body, policy.Options{})
		if replaces && !policy.HasErrors(problems) {
			c.Former = old.Version
		}
		c.Simulation = k.simulate(ctx, in.bundle, old)
	}
	return gate.RuleChangeRequest{
		RuleChange: c, Body: in.Body, KnownAs: in.KnownAs, Author: p.Author, Subjects: side, By: p.By, Guard: guard,
		Routing: k.Routing, Environment: k.Environment, Rules: k.Judge().Digest(),
	}, nil
}

// simulate says what a policy would have made of the approvals that are on record, beside
// the one in force. That it cannot be said keeps nobody from proposing it.
func (k *Keeper) simulate(ctx context.Context, next, old *policy.Bundle) string {
	ctx, cancel := context.WithTimeout(ctx, simulateFor)
	defer cancel()
	result, err := simulation.Run(ctx, simulation.Config{Store: k.Store, Sealer: k.Sealer, Next: next, Against: old, Max: simulated})
	if err != nil {
		k.Logger.WarnContext(ctx, "a proposed policy was not simulated", "error", err)
		return "It was not simulated: the recorded approvals could not be read in time."
	}
	report := policysim.Compare(result.Cases, nil)
	changed := 0
	for _, c := range report.Changes {
		if c.Old != nil {
			changed += c.Count
		}
	}
	text := fmt.Sprintf("%d recorded approvals judged again: %d as by the policy in force, %d otherwise.\n", report.Calls, report.Same, changed) + report.Text()
	if len(text) > maxFindings {
		text = strings.ToValidUTF8(text[:maxFindings], "") + "\n… and more: see “holdpoint policy simulate”.\n"
	}
	return text
}

// proposeFile proposes what a file has, unless that was done: once for each document that it
// would replace. Nobody knows who has written a file.
func (k *Keeper) proposeFile(ctx context.Context, in incoming, name string) error {
	_, digests, err := k.Store.Rules.ActiveDocuments(ctx)
	if err != nil {
		return err
	}
	id, status, err := k.Store.Rules.Proposed(ctx, in.Digest(), digests[in.Kind])
	if errors.Is(err, store.ErrNotFound) {
		by := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: k.By, Channel: "engine"}}
		opened, err := k.Propose(ctx, Proposal{Kind: in.Kind, Data: in.Body, Name: name, Reason: "It is in the file that the settings name.", By: by})
		switch {
		case errors.Is(err, gate.AlreadyProposed):
			return fmt.Errorf("%s: %w, which another process has just asked for", name, ErrProposed)
		case err != nil:
			return err
		}
		return fmt.Errorf("%s: %w: %s waits for %d × %s", name, ErrProposed, opened.ApprovalID, opened.Needed, opened.Role)
	}
	if err != nil {
		return err
	}
	if status == approval.Pending {
		return fmt.Errorf("%s: %w, and waits for it as %s", name, ErrProposed, id)
	}
	return fmt.Errorf("%s: %w, and %s ended as %s: change the file, or propose it with “holdpoint policy propose”", name, ErrProposed, id, status)
}

// MayComeIntoForce reports why a document may not come into force now, in place of another, and
// whose keys have signed it (gate.Documents). It asks no database: whoever asks holds a connection
// of it.
func (k *Keeper) MayComeIntoForce(kind string, body []byte, r store.Replacing) (signedBy []string, err error) {
	in, err := k.check(kind, body, "the "+kind, nil)
	if err != nil {
		return nil, err
	}
	return k.allowed(in)(r)
}

// approved holds a document in force against the approval that it names, once for each:
// refused is why people have not approved it, and err that it could not be looked up.
func (k *Keeper) approved(ctx context.Context, d store.Document) (refused, err error) {
	if d.ApprovalID == "" {
		return nil, nil
	}
	name := d.Digest() + " by " + d.ApprovalID
	if former := k.born[d.Kind]; former.digest == name {
		return former.err, nil
	}
	if k.Sealer == nil {
		return errors.New("its approval cannot be read here: there is no data key"), nil
	}
	refused = gate.ApprovedRules(ctx, k.Store, k.Sealer, d)
	if access.IsUnavailable(refused) {
		return nil, fmt.Errorf("read the approval of the rules in force: %w", refused)
	}
	k.born[d.Kind] = kept[error]{digest: name, err: refused}
	return refused, nil
}

// ActivateAround puts a document in force without asking anybody, whether or not people should
// have approved it: in an emergency, by whoever owns the database. It is on record as that.
func (k *Keeper) ActivateAround(ctx context.Context, by access.Initiator, kind string, data []byte, name, reason string) (changed bool, err error) {
	if reason = strings.TrimSpace(reason); reason == "" || len(reason) > maxReasonLen {
		return false, fmt.Errorf("say why, in at most %d bytes", maxReasonLen)
	}
	in, err := k.read(ctx, kind, data, name)
	if err != nil {
		return false, err
	}
	e, err := gate.ActivationEvent(in.Document, in.version, "", "")
	if err != nil {
		return false, err
	}
	guards, err := k.Store.Rules.Guards(ctx)
	if err != nil {
		return false, err
	}
	if _, guarded := guards[kind]; guarded {
		e.Reasons = append(e.Reasons, engine.Reason{Code: "NOBODY_ASKED", Message: "People should have approved it, and were not asked."})
	}
	e.Actor, e.RequestID = by.Actor, by.RequestID
	if err := e.AddToPayload("reason", reason); err != nil {
		return false, err
	}
	return k.Store.Rules.ActivateAround(ctx, in.Document, by.Actor.ID, e, k.allowed(in))
}
