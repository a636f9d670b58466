package gate

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/store"
)

// Vote records a person's vote under the approval's lock and returns where that
// leaves the approval. The page that the person saw must still be true: its
// digest and version are compared, not trusted.
func (g *Gate) Vote(ctx context.Context, v VoteRequest, once *Once) (approval.Approval, error) {
	by := engine.Actor{Kind: engine.HumanActor, ID: v.Person.ID, Channel: v.Channel}
	fact := approval.Fact{Kind: approval.Vote, Actor: by, Yes: v.Approve, Comment: v.Comment, Voter: voter(v.Person)}
	if !v.Approve {
		fact.Denial = v.Denial
	}
	if r := checkVote(v); r != nil {
		return approval.Approval{}, g.refuse(ctx, r, g.voteRefused(v, by))
	}
	if v.Approve {
		if err := g.mustHaveSeen(ctx, v, by); err != nil {
			return approval.Approval{}, err
		}
	}
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Voted, c.Approval.Decision.Outcome, c.Approval, by, v.RequestID)
	}
	return g.contribute(ctx, v.ApprovalID, once, fact, event, func(c *store.Change) error {
		if !mayRead(v.Person, c.Approval) {
			return notFound
		}
		if v.Digest != c.Approval.Call.Digest || v.Version != c.Approval.Version {
			// Who comes late is told what happened, not that the page is old.
			if err := settledRefusal(c.Approval); err != nil {
				return err
			}
			return &Refusal{Status: 409, Code: "stale", Detail: "What you looked at is no longer what would be approved. Look at it again."}
		}
		return nil
	})
}

// checkVote refuses what makes no sense in any state of the approval.
func checkVote(v VoteRequest) *Refusal {
	switch {
	case len(v.Comment) > MaxComment:
		return &Refusal{Status: 422, Code: "comment_too_long", Detail: fmt.Sprintf("The comment has %d bytes; at most %d are kept.", len(v.Comment), MaxComment)}
	case !v.Approve && !v.Denial.Valid():
		return &Refusal{Status: 422, Code: "denial_kind", Detail: "A denial says which kind it is: wrong_args, not_now, never or needs_info."}
	}
	return nil
}

func (g *Gate) voteRefused(v VoteRequest, by engine.Actor) engine.Event {
	return engine.Event{ID: newEventID(), Type: engine.Voted, RequestID: v.RequestID, ApprovalID: formed(v.ApprovalID), SafePayload: []byte(`{}`), Actor: by}
}

// mustHaveSeen refuses to take an approval of long arguments from somebody who
// has not been shown all of them.
func (g *Gate) mustHaveSeen(ctx context.Context, v VoteRequest, by engine.Actor) error {
	r, err := g.Store.Get(ctx, v.ApprovalID)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && !mayRead(v.Person, r.Approval):
		return nil // contribute says so, and records it
	case err != nil || r.Size <= g.LongArguments:
		return err
	}
	shown, err := g.Store.WasShown(ctx, v.ApprovalID, v.Person.ID, v.Digest)
	if err != nil || shown {
		return err
	}
	if settled := settledRefusal(r.Approval); settled != nil {
		return nil // likewise
	}
	return g.refuse(ctx, &Refusal{
		Status: 409, Code: "arguments_not_shown",
		Detail: "The arguments are long. Have all of them shown before you approve.",
	}, g.event(engine.Voted, engine.Deny, r.Approval, by, v.RequestID))
}

// AnswerRequest is what the requesting side says to an approval that asks.
type AnswerRequest struct {
	ApprovalID string
	// Confirmed says that the user confirmed this very action; false, that the
	// user does not want it.
	Confirmed bool
	Comment   string
	RequestID string
}

// Answer records what a runtime says on its user's behalf. An agent's own key
// cannot confirm anything: the one who asks does not answer.
func (g *Gate) Answer(ctx context.Context, p Principal, r AnswerRequest, once *Once) (approval.Approval, error) {
	by := p.actor()
	fact := approval.Fact{Kind: approval.Reply, Actor: by, Yes: r.Confirmed, Comment: r.Comment}
	if !r.Confirmed {
		fact.Denial = approval.Never
	}
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Answered, c.Approval.Decision.Outcome, c.Approval, by, r.RequestID)
	}
	return g.contribute(ctx, r.ApprovalID, once, fact, event, func(c *store.Change) error {
		if p.AgentID == "" || p.AgentID != c.Approval.Call.AgentID {
			return notFound
		}
		if p.Kind != RuntimeKey {
			return &Refusal{Status: 403, Code: "agent_cannot_confirm", Detail: "An agent's own key cannot confirm a call. A key of kind runtime can, on its user's behalf."}
		}
		if len(r.Comment) > MaxComment {
			return &Refusal{Status: 422, Code: "comment_too_long", Detail: fmt.Sprintf("The comment has %d bytes; at most %d are kept.", len(r.Comment), MaxComment)}
		}
		return nil
	})
}

// Cancel takes back a call that still waits.
func (g *Gate) Cancel(ctx context.Context, p Principal, id, requestID string, once *Once) (approval.Approval, error) {
	by := p.actor()
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Cancelled, c.Approval.Decision.Outcome, c.Approval, by, requestID)
	}
	return g.contribute(ctx, id, once, approval.Fact{Kind: approval.Cancel, Actor: by}, event, func(c *store.Change) error {
		if p.AgentID == "" || p.AgentID != c.Approval.Call.AgentID {
			return notFound
		}
		return nil
	})
}

// formed is the id if it has an approval's form, else "": a caller's own text
// is not put on record.
func formed(id string) string {
	if store.ValidApprovalID(id) {
		return id
	}
	return ""
}

// errLate says that the deadline passed between looking and writing.
var errLate = errors.New("the fact came at or after the deadline")

// contribute appends a fact and its event under the approval's lock, or
// records why not. allowed is the caller's own rule, asked first.
func (g *Gate) contribute(ctx context.Context, id string, once *Once, f approval.Fact, event func(*store.Change) engine.Event, allowed func(*store.Change) error) (approval.Approval, error) {
	for {
		result, err := g.change(ctx, id, once, event, func(c *store.Change) (any, error) {
			if err := allowed(c); err != nil {
				return nil, err
			}
			if err := settledRefusal(c.Approval); err != nil {
				return nil, err
			}
			if f.Yes && c.Kill != nil {
				return nil, killedRefusal
			}
			if err := approval.Admit(c.Approval.Plan, c.Approval.Facts, f, c.Now); err != nil {
				return nil, admission(err)
			}
			deadline := c.Approval.State.Deadline
			if err := c.AddFact(f); err != nil {
				return nil, err
			}
			if !c.Now.Before(deadline) {
				return nil, errLate
			}
			e := event(c)
			e.Reasons = []engine.Reason{{Code: factCode(f), Message: factMessage(f)}}
			c.AddEvent(e)
			return c.Approval, nil
		})
		switch {
		case errors.Is(err, errLate):
			continue // rolled back; the next look says that it is over
		case errors.Is(err, store.ErrNotFound):
			return approval.Approval{}, g.refuse(ctx, notFound, engine.Event{
				ID: newEventID(), Type: engine.Refusal, ApprovalID: formed(id),
				SafePayload: []byte(`{}`), Actor: f.Actor,
			})
		case err != nil:
			return approval.Approval{}, err
		}
		return result.(approval.Approval), nil
	}
}

// settledRefusal is the refusal of anything new for an approval that is over.
func settledRefusal(a approval.Approval) error {
	switch a.Status {
	case approval.Expired:
		return admission(approval.ErrExpired)
	case approval.Approved, approval.Denied, approval.Cancelled:
		return &Refusal{Status: 409, Code: "already_" + string(a.Status), Detail: fmt.Sprintf("This call is already %s.", a.Status)}
	case approval.Pending:
	}
	return nil
}

// admission turns a reason of the state machine into a refusal.
func admission(err error) error {
	for _, r := range []struct {
		err    error
		status int
		code   string
		detail string
	}{
		{approval.ErrDecided, 409, "already_decided", "This call is already decided."},
		{approval.ErrExpired, 410, "expired", "The time for this is over: its deadline has passed."},
		{approval.ErrSelfReview, 403, "self_review", "You belong to the side that asks for this, so somebody else has to decide it."},
		{approval.ErrMachine, 403, "machine_principal", "Only a signed-in person can decide this."},
		{approval.ErrNotEligible, 403, "not_eligible", "You do not have the role that this asks for at this stage."},
		{approval.ErrAlreadyVoted, 409, "already_voted", "You have voted on this already."},
		{approval.ErrNothingToAnswer, 409, "nothing_to_answer", "This call is not waiting for an answer."},
	} {
		if errors.Is(err, r.err) {
			return &Refusal{Status: r.status, Code: r.code, Detail: r.detail}
		}
	}
	return err
}

func factCode(f approval.Fact) string {
	switch {
	case f.Kind == approval.Vote && f.Yes:
		return "VOTE_APPROVE"
	case f.Kind == approval.Vote:
		return "VOTE_DENY"
	case f.Kind == approval.Reply && f.Yes:
		return "ANSWER_CONFIRMED"
	case f.Kind == approval.Reply:
		return "ANSWER_DECLINED"
	}
	return strings.ToUpper(string(f.Kind))
}

func factMessage(f approval.Fact) string {
	switch {
	case f.Kind == approval.Vote && f.Yes:
		return "Approved by a reviewer."
	case f.Kind == approval.Vote:
		return "Denied by a reviewer: " + string(f.Denial) + "."
	case f.Kind == approval.Reply && f.Yes:
		return "The runtime says that its user confirmed the call."
	case f.Kind == approval.Reply:
		return "The runtime says that its user does not want the call."
	}
	return "The requesting side took the call back."
}

// voter is a person's standing.
func voter(p engine.Person) approval.Voter {
	return approval.Voter{Identity: p.Identity, Roles: p.Roles, Active: !p.Disabled}
}

// Roles that read everything and decide nothing by themselves.
const (
	AuditorRole = "auditor"
	AdminRole   = "admin"
)

// readsAll reports whether the person may see every approval.
func readsAll(p engine.Person) bool { return p.Has(AuditorRole) || p.Has(AdminRole) }

// mayRead reports whether the person may see the approval: those whose role it
// asks for, the requesting side, auditors and administrators.
func mayRead(p engine.Person, a approval.Approval) bool {
	if readsAll(p) {
		return true
	}
	for _, identity := range a.Plan.Excluded {
		if identity == p.Identity {
			return true
		}
	}
	for _, r := range a.Plan.Requirements {
		if p.Has(r.Role) || slices.ContainsFunc(r.Escalation, func(e engine.Escalation) bool { return p.Has(e.Role) }) {
			return true
		}
	}
	return false
}

// Reviewers lists, for a role, the human beings among people who have it; for
// the role "" everybody who has a role that decides. Accounts of one human being
// are one.
func Reviewers(people []engine.Person) func(role string) []string {
	return func(role string) []string {
		var who []string
		for _, p := range people {
			decides := slices.ContainsFunc(p.Roles, func(r string) bool { return r != AdminRole && r != AuditorRole })
			if !p.Disabled && (role == "" && decides || role != "" && p.Has(role)) {
				who = append(who, p.Identity)
			}
		}
		slices.Sort(who)
		return slices.Compact(who)
	}
}

// ValidEmail reports whether text is one bare e-mail address.
func ValidEmail(text string) bool {
	address, err := mail.ParseAddress(text)
	return err == nil && address.Address == text
}
