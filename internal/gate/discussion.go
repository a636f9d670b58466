package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/identity"
	"holdpoint/internal/store"
)

// Contribution is something that a person contributes to an approval beside a vote.
type Contribution struct {
	Person     engine.Person
	ApprovalID string
	Comment    string // at most MaxComment bytes
	RequestID  string
	Channel    string // "console" or "api"
	// Signed answers the challenge of SignBreakGlass; zero elsewhere.
	Signed identity.Proof
}

func (s Contribution) actor() engine.Actor {
	return engine.Actor{Kind: engine.HumanActor, ID: s.Person.ID, Channel: s.Channel}
}

// contributeFact adds a person's fact to an approval that they may see.
func (g *Contributions) contributeFact(ctx context.Context, s Contribution, kind engine.EventType, f approval.Fact, once *access.Idempotency[approval.Approval], allowed func(*store.Change) error, then ...func(*store.Change) error) (approval.Approval, error) {
	f.Actor, f.Comment, f.Voter = s.actor(), s.Comment, voter(s.Person)
	event := func(c *store.Change) engine.Event {
		return g.event(kind, c.Approval.Decision.Outcome, c.Approval, f.Actor, s.RequestID)
	}
	return g.contribute(ctx, s.ApprovalID, once, f, event, func(c *store.Change) error {
		if err := visible(c, s.Person); err != nil {
			return err
		}
		if r := bounds(s.Comment); r != nil {
			return r
		}
		if allowed == nil {
			return nil
		}
		return allowed(c)
	}, then...)
}

func bounds(comment string) error {
	if len(comment) > MaxComment {
		return &access.Refusal{Kind: access.Invalid, Code: "comment_too_long", Detail: fmt.Sprintf("The comment has %d bytes; at most %d are kept.", len(comment), MaxComment)}
	}
	return nil
}

// Comment adds a remark that everybody who may see the approval can read. It
// decides nothing.
func (g *Contributions) Comment(ctx context.Context, s Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return g.contributeFact(ctx, s, engine.Commented, approval.Fact{Kind: approval.Comment}, once, func(*store.Change) error {
		if s.Comment == "" {
			return admission(approval.ErrNoReason)
		}
		return nil
	})
}

// Ask asks the requesting side for more information. The clock stands still for
// the answer as the approval's rule says.
func (g *Contributions) Ask(ctx context.Context, s Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return g.contributeFact(ctx, s, engine.Asked, approval.Fact{Kind: approval.Question}, once, nil)
}

// Claim says that the person is looking at it, for half an hour or until Unclaim.
// It keeps nobody else from deciding.
func (g *Contributions) Claim(ctx context.Context, s Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return g.contributeFact(ctx, s, engine.Claimed, approval.Fact{Kind: approval.Claim}, once, nil)
}

// PassOn claims it for a colleague, who is told: to is their id or e-mail address. They
// have to be somebody who could approve it now. It keeps nobody else from deciding.
func (g *Contributions) PassOn(ctx context.Context, s Contribution, to string, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	id := strings.TrimSpace(to)
	if strings.Contains(id, "@") {
		colleague, _, err := g.Store.People.ByEmail(ctx, strings.ToLower(id))
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrUnstorable) {
			return approval.Approval{}, err
		}
		id = colleague.ID
	}
	f := approval.Fact{Kind: approval.Claim, Details: approval.Details{For: id}}
	return g.contributeFact(ctx, s, engine.Claimed, f, once, func(c *store.Change) error {
		if c.Approval.State.Status != approval.Pending {
			return nil // contribute refuses it
		}
		may, err := couldApprove(c, id, s.Person)
		switch {
		case err != nil:
			return err
		case !may:
			return notTheirs
		case c.Approval.State.Claim != nil && c.Approval.State.Claim.Claimant() == id:
			return alreadyTheirs
		}
		return nil
	})
}

var (
	notTheirs     = &access.Refusal{Kind: access.Invalid, Code: "cannot_pass_on", Detail: "Choose a colleague who could approve this call now: who has the role, has not voted, and is not of the requesting side."}
	alreadyTheirs = &access.Refusal{Kind: access.Invalid, Code: "cannot_pass_on", Detail: "Your colleague has it already."}
)

// couldApprove reports, under the lock, whether a yes of the person would count now, and
// they are another human being than by.
func couldApprove(c *store.Change, id string, by engine.Person) (bool, error) {
	everybody, err := c.Everybody()
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(everybody, func(p engine.Person) bool { return p.ID == id })
	if i < 0 || everybody[i].Identity == by.Identity {
		return false, nil
	}
	chains, err := c.StandsIn(id)
	if err != nil {
		return false, err
	}
	_, err = delegate{everybody[i], chains}.mayVote(c.Approval, c.Now)
	return err == nil, nil
}

// Unclaim takes a claim back.
func (g *Contributions) Unclaim(ctx context.Context, s Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return g.contributeFact(ctx, s, engine.Claimed, approval.Fact{Kind: approval.Unclaim}, once, nil)
}

// Extend gives the approval more time, where its rule lets the person do so.
func (g *Contributions) Extend(ctx context.Context, s Contribution, by time.Duration, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return g.contributeFact(ctx, s, engine.Extended, approval.Fact{Kind: approval.Extend, Details: approval.Details{By: engine.Duration(by)}}, once, nil)
}

// Inform answers a reviewer's question for the requesting side: by its agent, its
// runtime, or a person who answers for the call.
func (g *Contributions) Inform(ctx context.Context, p access.Principal, id, text, requestID string, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	by := p.Actor()
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Asked, c.Approval.Decision.Outcome, c.Approval, by, requestID)
	}
	return g.contribute(ctx, id, once, approval.Fact{Kind: approval.Information, Actor: by, Comment: text}, event, func(c *store.Change) error {
		if p.AgentID == "" || p.AgentID != c.Approval.Call.AgentID {
			return access.NoSuchApproval
		}
		return bounds(text)
	})
}

// InformInPerson is Inform by somebody who answers for the call.
func (g *Contributions) InformInPerson(ctx context.Context, s Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return g.contributeFact(ctx, s, engine.Asked, approval.Fact{Kind: approval.Information}, once, func(c *store.Change) error {
		if c.Approval.State.Question != nil && HasEdited(s.Person, c.Approval) {
			return admission(approval.ErrNotAccountable)
		}
		return nil
	})
}

// HasEdited reports whether the person has changed the call's arguments. That excludes them from
// deciding, and makes them nobody who could answer for the requesting side.
func HasEdited(p engine.Person, a approval.Approval) bool {
	return slices.ContainsFunc(a.Facts, func(f approval.Fact) bool { return f.Kind == approval.Edit && f.Voter.Identity == p.Identity }) &&
		!slices.Contains(a.Plan.Accountable, p.Identity)
}

// StepUp records that the person who answers for the call has just proved who
// they are, for this very call; or that they do not want it.
func (g *Contributions) StepUp(ctx context.Context, s Contribution, method string, yes bool, digest string, version int, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	f := approval.Fact{Kind: approval.Verification, Yes: yes}
	if yes {
		f.Details.Proof = &approval.Proof{Method: method} // of the moment at which it is taken in
	} else {
		f.Denial = approval.Never
	}
	return g.contributeFact(ctx, s, engine.Proved, f, once, func(c *store.Change) error {
		return sameCard(c.Approval, digest, version)
	})
}

// MayStepUp refuses, before a code is spent on it, what StepUp would refuse.
func (g *Contributions) MayStepUp(ctx context.Context, s Contribution, digest string, version int) error {
	r, _, err := g.readFor(ctx, s.Person, s.ApprovalID)
	if err == nil {
		err = sameCard(r.Approval, digest, version)
	}
	if err == nil {
		err = settledRefusal(r.Approval)
	}
	if err == nil {
		f := approval.Fact{
			Kind: approval.Verification, Yes: true, Actor: s.actor(), Voter: voter(s.Person),
			Details: approval.Details{Proof: &approval.Proof{Method: "passkey", At: r.Now}},
		}
		if why := approval.Admit(r.Approval.Plan, r.Approval.Facts, f, r.Now); why != nil {
			err = admission(why)
		}
	}
	var refused *access.Refusal
	if !errors.As(err, &refused) {
		return err
	}
	return g.refuse(ctx, refused, engine.Event{
		ID: store.NewEventID(), Type: engine.Proved, RequestID: s.RequestID, ApprovalID: store.LoggableApprovalID(s.ApprovalID), SafePayload: []byte(`{}`), Actor: s.actor(),
	})
}

// glassFact is the fact that breaking the glass comes to.
func glassFact(s Contribution, alone bool) approval.Fact {
	return approval.Fact{Kind: approval.BreakGlass, Yes: true, Details: approval.Details{Proof: proof(s.Person), Alone: alone}}
}

// MayBeBroken reports whether the glass can be broken for an approval at all. Nobody gets round
// what a change of the rules takes: in an emergency whoever owns the database makes it.
func MayBeBroken(a approval.Approval) bool { return a.Call.Dialect != DialectChange }

// breakable is sameCard for breaking the glass.
func breakable(a approval.Approval, digest string, version int) error {
	if !MayBeBroken(a) {
		return &access.Refusal{Kind: access.Conflict, Code: "not_breakable", Detail: "Nobody breaks the glass for a change of the rules. In an emergency whoever owns the database makes it by command, with --unapproved."}
	}
	return sameCard(a, digest, version)
}

// BreakGlass approves in an emergency what the person has not the role for: two
// people do, or one alone, which somebody else has to look at afterwards. It
// takes a reason and a fresh proof of who the person is.
func (g *Contributions) BreakGlass(ctx context.Context, s Contribution, alone bool, digest string, version int, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	f := glassFact(s, alone)
	if s.Signed.Given() {
		var err error
		var refused *access.Refusal
		if f, err = g.takeSigned(ctx, s.Person, s.ApprovalID, s.Signed, f); errors.As(err, &refused) {
			return approval.Approval{}, g.refuse(ctx, refused, engine.Event{
				ID: store.NewEventID(), Type: engine.Broken, RequestID: s.RequestID, ApprovalID: store.LoggableApprovalID(s.ApprovalID), SafePayload: []byte(`{}`), Actor: s.actor(),
			})
		} else if err != nil {
			return approval.Approval{}, err
		}
	}
	return g.contributeFact(ctx, s, engine.Broken, f, once, func(c *store.Change) error {
		if err := breakable(c.Approval, digest, version); err != nil {
			return err
		}
		if c.Approval.Status.Terminal() {
			return nil // contribute refuses it
		}
		return g.hasSeen(ctx, c, s.Person, digest)
	})
}
