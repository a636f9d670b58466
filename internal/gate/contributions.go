package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/identity"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Vote records a person's vote under the approval's lock and returns where that
// leaves the approval. The page that the person saw must still be true: its
// digest and version are compared, not trusted.
func (g *Contributions) Vote(ctx context.Context, v VoteRequest, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	by, fact := v.actor(), voteFact(v)
	if r := checkVote(v); r != nil {
		return approval.Approval{}, g.refuse(ctx, r, g.voteRefused(v, by))
	}
	if v.Approve {
		if err := g.mustHaveSeen(ctx, v, by); err != nil {
			return approval.Approval{}, err
		}
	}
	if v.Signed.Given() {
		// A repetition has its answer, and its challenge is used up.
		if err := g.Repeated(ctx, once.Of()); err != nil {
			return approval.Approval{}, err
		}
		var err error
		var refused *access.Refusal
		if fact, err = g.takeSigned(ctx, v.Person, v.ApprovalID, v.Signed, fact); errors.As(err, &refused) {
			return approval.Approval{}, g.refuse(ctx, refused, g.voteRefused(v, by))
		} else if err != nil {
			return approval.Approval{}, err
		}
	}
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Voted, c.Approval.Decision.Outcome, c.Approval, by, v.RequestID)
	}
	return g.contribute(ctx, v.ApprovalID, once, fact, event, func(c *store.Change) error { return g.voteAllowed(ctx, c, v, fact) })
}

func (v VoteRequest) actor() engine.Actor {
	return engine.Actor{Kind: engine.HumanActor, ID: v.Person.ID, Channel: v.Channel}
}

// voteFact is the fact that a vote comes to.
func voteFact(v VoteRequest) approval.Fact {
	f := approval.Fact{Kind: approval.Vote, Actor: v.actor(), Yes: v.Approve, Comment: v.Comment, Voter: voter(v.Person)}
	if v.Approve {
		f.Details = approval.Details{Proof: proof(v.Person), Constraints: v.Constraints, ValidFor: engine.Duration(v.ValidFor)}
	} else {
		f.Denial = v.Denial
	}
	return f
}

// voteAllowed refuses a vote of somebody who may not see the approval, of a page that
// is no longer true, and of constraints that cannot be kept to.
func (g *Contributions) voteAllowed(ctx context.Context, c *store.Change, v VoteRequest, f approval.Fact) error {
	if err := visible(c, v.Person); err != nil {
		return err
	}
	if err := sameCard(c.Approval, v.Digest, v.Version); err != nil {
		return err
	}
	if _, err := approval.Tighten(c.Approval.Decision.Constraints, v.Constraints); err != nil {
		return &access.Refusal{Kind: access.Invalid, Code: "not_tighter", Detail: "A reviewer can only make constraints narrower: " + err.Error() + "."}
	}
	if err := g.keptTo(ctx, c, v.Constraints); err != nil {
		return err
	}
	if _, err := approval.Constraints(c.Approval.Decision.Constraints, append(slices.Clone(c.Approval.State.Counted), f)); err != nil {
		return &access.Refusal{Kind: access.Invalid, Code: "not_tighter", Detail: "Somebody else has set other constraints with their vote: " + err.Error() + "."}
	}
	return nil
}

// keptTo refuses constraints of a vote that the call is outside of already: it could not run.
func (g *Contributions) keptTo(ctx context.Context, c *store.Change, constraints json.RawMessage) error {
	if len(constraints) == 0 {
		return nil
	}
	args := canon.Object()
	document, err := g.Sealer.Open(c.Approval.ID, c.Sealed)
	if err == nil {
		args, err = arguments(c.Approval, document, c.Approval.Plan.OpenedAt)
	}
	if err != nil && !errors.Is(err, seal.ErrErased) {
		g.Logger.ErrorContext(ctx, "arguments not read", "approval", c.Approval.ID, "error", err)
		return notReadable
	}
	if err := approval.Bounds(c.Approval.Decision.Constraints, constraints, args); err != nil {
		return &access.Refusal{Kind: access.Invalid, Code: "not_tighter", Detail: "A reviewer can only make the call's own limits narrower: " + err.Error() + "."}
	}
	return nil
}

// sameCard refuses what somebody does on a page that is no longer true.
func sameCard(a approval.Approval, digest string, version int) error {
	if digest == a.Call.Digest && version == a.Version {
		return nil
	}
	// Who comes late is told what happened, not that the page is old.
	if err := settledRefusal(a); err != nil {
		return err
	}
	return &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "What you looked at is no longer what would be approved. Look at it again."}
}

// proof is when and how the person last proved who they are; nil for never. A password
// and a provider of single sign-on prove nothing once there is a second factor.
func proof(p engine.Person) *approval.Proof {
	if p.VerifiedBy == "" || p.VerifiedAt.IsZero() || (p.VerifiedBy == identity.Password || p.VerifiedBy == identity.Provider) && len(p.Factors) > 0 {
		return nil
	}
	return &approval.Proof{Method: p.VerifiedBy, At: p.VerifiedAt}
}

// Proved reports whether the person has just proved who they are.
func Proved(p engine.Person, now time.Time) bool { return proof(p).Fresh(now) }

// checkVote refuses what makes no sense in any state of the approval.
func checkVote(v VoteRequest) *access.Refusal {
	switch {
	case len(v.Comment) > MaxComment:
		return &access.Refusal{Kind: access.Invalid, Code: "comment_too_long", Detail: fmt.Sprintf("The comment has %d bytes; at most %d are kept.", len(v.Comment), MaxComment)}
	case v.ValidFor < 0 || v.ValidFor > 0 && v.ValidFor < time.Second:
		return &access.Refusal{Kind: access.Invalid, Code: "valid_for", Detail: "How long the permission is good has to be a second or more."}
	case len(v.Constraints) > maxConstraints:
		return &access.Refusal{Kind: access.Invalid, Code: "constraints_too_long", Detail: fmt.Sprintf("The constraints have %d bytes; at most %d are kept.", len(v.Constraints), maxConstraints)}
	case !v.Approve && !v.Denial.Valid():
		return &access.Refusal{Kind: access.Invalid, Code: "denial_kind", Detail: "A denial says which kind it is: wrong_args, not_now, never or needs_info."}
	}
	return nil
}

func (g *Contributions) voteRefused(v VoteRequest, by engine.Actor) engine.Event {
	return engine.Event{ID: store.NewEventID(), Type: engine.Voted, RequestID: v.RequestID, ApprovalID: store.LoggableApprovalID(v.ApprovalID), SafePayload: []byte(`{}`), Actor: by}
}

// mustHaveSeen refuses to take an approval from somebody who has not been shown all of
// the arguments (unseen).
func (g *Contributions) mustHaveSeen(ctx context.Context, v VoteRequest, by engine.Actor) error {
	r, _, err := g.readFor(ctx, v.Person, v.ApprovalID)
	switch {
	case errors.Is(err, access.NoSuchApproval):
		return nil // contribute refuses it, and records the refusal
	case err != nil:
		return err
	case settledRefusal(r.Approval) != nil:
		return nil // contribute refuses it, and records the refusal
	}
	var refused *access.Refusal
	if err := g.unseen(ctx, r.Approval, r.Sealed, r.Answers, r.Size, v.Digest, g.wasRead(ctx, v.ApprovalID, v.Person.ID)); !errors.As(err, &refused) {
		return err
	}
	return g.refuse(ctx, refused, g.event(engine.Voted, engine.Deny, r.Approval, by, v.RequestID))
}

// hasSeen refuses, under the lock of a change, what mustHaveSeen refuses.
func (g *Contributions) hasSeen(ctx context.Context, c *store.Change, p engine.Person, digest string) error {
	return g.unseen(ctx, c.Approval, c.Sealed, c.Answers, c.Size, digest, func(key string) (bool, error) { return c.WasRead(p.ID, key) })
}

// wasRead asks what a person has been shown, outside of any change.
func (g *core) wasRead(ctx context.Context, id, personID string) func(key string) (bool, error) {
	return func(key string) (bool, error) { return g.Store.Approvals.WasRead(ctx, id, personID, key) }
}

// AnswerRequest is what the requesting side says to an approval that asks.
type AnswerRequest struct {
	ApprovalID string
	// Confirmed says that the user confirmed this very action; false, that the
	// user does not want it.
	Confirmed bool
	Comment   string
	// Values is what the approval's form asks for; the zero Value when nothing was
	// sent. It is kept as arguments are.
	Values canon.Value
	// Digest is that of the call which the user was shown. It may be "" as long as
	// nobody has edited the call.
	Digest    string
	RequestID string
}

// Answer records what a runtime says on its user's behalf. An agent's own key
// cannot confirm anything: the one who asks does not answer.
func (g *Contributions) Answer(ctx context.Context, p access.Principal, r AnswerRequest, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	by := p.Actor()
	fact := approval.Fact{Kind: approval.Reply, Actor: by, Yes: r.Confirmed, Comment: r.Comment}
	if !r.Confirmed {
		fact.Denial = approval.Never
	}
	if r.Confirmed { // what comes with a no is not looked at
		for name := range r.Values.All() {
			fact.Details.Supplied = append(fact.Details.Supplied, name)
		}
		fact.Details.Supplied = words(fact.Details.Supplied)
	}
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Answered, c.Approval.Decision.Outcome, c.Approval, by, r.RequestID)
	}
	return g.contribute(ctx, r.ApprovalID, once, fact, event, func(c *store.Change) error {
		if p.AgentID == "" || p.AgentID != c.Approval.Call.AgentID {
			return access.NoSuchApproval
		}
		if p.Kind != access.RuntimeKey {
			return &access.Refusal{Kind: access.Forbidden, Code: "agent_cannot_confirm", Detail: "An agent's own key cannot confirm a call. A key of kind runtime can, on its user's behalf."}
		}
		if err := bounds(r.Comment); err != nil || !r.Confirmed {
			return err
		}
		if r.Digest != c.Approval.Call.Digest && (r.Digest != "" || edits(c.Approval)) {
			if err := settledRefusal(c.Approval); err != nil {
				return err
			}
			return &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "The call is not the one that the user was shown: somebody has changed its arguments. Show it again, and say in digest which call was confirmed."}
		}
		return supplied(c.Approval, r.Values)
	}, func(c *store.Change) error {
		if r.Values.Len() == 0 || !r.Confirmed {
			return nil
		}
		return g.keepAnswers(c, r.Values)
	})
}

// edits reports whether somebody has changed the call's arguments.
func edits(a approval.Approval) bool {
	return slices.ContainsFunc(a.Facts, func(f approval.Fact) bool { return f.Kind == approval.Edit })
}

// Cancel takes back a call that still waits.
func (g *Contributions) Cancel(ctx context.Context, p access.Principal, id, requestID string, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	by := p.Actor()
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Cancelled, c.Approval.Decision.Outcome, c.Approval, by, requestID)
	}
	return g.contribute(ctx, id, once, approval.Fact{Kind: approval.Cancel, Actor: by}, event, func(c *store.Change) error {
		if p.AgentID == "" || p.AgentID != c.Approval.Call.AgentID {
			return access.NoSuchApproval
		}
		return nil
	})
}

// Withdraw takes back a change of the rules that still waits: by the person or the key that
// proposed it, or by its author.
func (g *Contributions) Withdraw(ctx context.Context, by access.Initiator, person engine.Person, id string, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Cancelled, c.Approval.Decision.Outcome, c.Approval, by.Actor, by.RequestID)
	}
	return g.contribute(ctx, id, once, approval.Fact{Kind: approval.Cancel, Actor: by.Actor}, event, func(c *store.Change) error {
		if !MayWithdraw(c.Approval, by.Actor, person) {
			return access.NoSuchApproval
		}
		return nil
	})
}

// WithdrawInPerson is Withdraw by a person.
func (g *Contributions) WithdrawInPerson(ctx context.Context, s Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	return g.Withdraw(ctx, access.Initiator{Actor: s.actor(), RequestID: s.RequestID}, s.Person, s.ApprovalID, once)
}

// MayWithdraw reports whether somebody may take back a change of the rules. person is nobody for a
// key.
func MayWithdraw(a approval.Approval, by engine.Actor, person engine.Person) bool {
	if a.Call.Dialect != DialectChange {
		return false
	}
	// Of a change of what is set up, those who gain by it are on the requesting side as well.
	author := person.Identity != "" && slices.Contains(a.Plan.Excluded, person.Identity) && !store.ByEntries(store.ChangeUnder(a.Call.Tool))
	return author || a.RequestedBy.Kind == by.Kind && a.RequestedBy.ID == by.ID && by.ID != ""
}

// errLate says that the deadline passed between looking and writing.
var errLate = errors.New("the fact came at or after the deadline")

// maxFacts is how many facts an approval may have before only facts that decide it
// are added: each further one reads all of them again.
const maxFacts = 500

// maxSaidByOne is how many of them may be of one person, agent or key: nobody takes the others'
// words by their own.
const maxSaidByOne = 100

var (
	tooMuchSaid      = &access.Refusal{Kind: access.Conflict, Code: "too_much_said", Detail: fmt.Sprintf("%d things have been said of this call already. It can only be decided now.", maxFacts)}
	tooMuchSaidByOne = &access.Refusal{Kind: access.Conflict, Code: "too_much_said", Detail: fmt.Sprintf("You have said %d things of this call already. Leave the rest to others.", maxSaidByOne)}
)

// said is how many of the facts that decide nothing an actor has contributed.
func said(facts []approval.Fact, by engine.Actor) (n int) {
	for _, f := range facts {
		if f.Actor.Kind == by.Kind && f.Actor.ID == by.ID && !decides(f.Kind) {
			n++
		}
	}
	return n
}

func decides(kind approval.FactKind) bool {
	switch kind {
	case approval.Vote, approval.Reply, approval.Cancel, approval.Verification, approval.BreakGlass:
		return true
	case approval.TicketLink, approval.TicketCheck, approval.Question, approval.Information, approval.Comment, approval.Claim, approval.Unclaim,
		approval.Extend, approval.Escalate, approval.Edit, approval.Reopen:
	}
	return false
}

// contribute appends a fact and its event under the approval's lock, or
// records why not. allowed is the caller's own rule, asked first; then writes
// what comes with the fact.
func (g *Contributions) contribute(ctx context.Context, id string, once *access.Idempotency[approval.Approval], f approval.Fact, event func(*store.Change) engine.Event, allowed func(*store.Change) error, then ...func(*store.Change) error) (approval.Approval, error) {
	for {
		result, err := change(ctx, g.core, id, once, event, func(c *store.Change) (approval.Approval, error) {
			var none approval.Approval
			if err := allowed(c); err != nil {
				return none, err
			}
			if err := settledRefusal(c.Approval); err != nil {
				return none, err
			}
			if f.Yes && c.Kill != nil {
				return none, killedRefusal
			}
			if len(c.Approval.Facts)+len(c.Approval.Unlogged) >= maxFacts && !decides(f.Kind) {
				return none, tooMuchSaid
			}
			if !decides(f.Kind) && f.Actor.Kind != engine.SystemActor && said(c.Approval.Facts, f.Actor) >= maxSaidByOne {
				return none, tooMuchSaidByOne
			}
			f := f
			if p := f.Details.Proof; p != nil && p.At.IsZero() {
				f.Details.Proof = &approval.Proof{Method: p.Method, At: c.Now}
			}
			f.Signed = f.Details.Signature != nil // verifySigned checks it below
			f, err := g.admitted(c, f)
			if err == nil {
				err = verifySigned(c, event(c), f)
			}
			if err != nil {
				return none, err
			}
			deadline := c.Approval.State.Deadline
			if err := c.AddFact(f); err != nil {
				return none, err
			}
			if !c.Now.Before(deadline) {
				return none, errLate
			}
			for _, write := range then {
				if err := write(c); err != nil {
					return none, err
				}
			}
			e := event(c)
			e.Reasons = []engine.Reason{f.Statement().Reason}
			if err := setFact(&e, c); err != nil {
				return none, err
			}
			c.AddEvent(e)
			return c.Approval, nil
		})
		switch {
		case errors.Is(err, errLate):
			continue // rolled back; the next attempt finds that it is over
		case errors.Is(err, store.ErrNotFound):
			return approval.Approval{}, g.refuse(ctx, access.NoSuchApproval, engine.Event{
				ID: store.NewEventID(), Type: engine.Refusal, ApprovalID: store.LoggableApprovalID(id),
				SafePayload: []byte(`{}`), Actor: f.Actor,
			})
		case err != nil:
			return approval.Approval{}, err
		}
		return result, nil
	}
}

// voteNotInLog is the refusal of a second yes where the first one was forged: the
// database keeps one for each person and edition.
var voteNotInLog = &access.Refusal{Kind: access.Conflict, Code: "vote_not_in_log", Detail: "The database has a yes in your name that the audit log does not have. It was not cast here and counts for nothing, but keeps yours from being recorded. You can deny, or have the arguments edited; tell whoever runs this."}

// settledRefusal is the refusal of anything new for an approval that is over.
func settledRefusal(a approval.Approval) error {
	switch a.Status {
	case approval.Expired:
		return admission(approval.ErrExpired)
	case approval.Approved, approval.Denied, approval.Cancelled:
		return &access.Refusal{Kind: access.Conflict, Code: "already_" + string(a.Status), Detail: fmt.Sprintf("This call is already %s.", a.Status)}
	case approval.Pending:
	}
	return nil
}

// admission turns a reason of the state machine into a refusal.
func admission(err error) error {
	for _, r := range []struct {
		err    error
		kind   access.Kind
		code   string
		detail string
	}{
		{approval.ErrDecided, access.Conflict, "already_decided", "This call is already decided."},
		{approval.ErrExpired, access.Expired, "expired", "The time for this is over: its deadline has passed."},
		{approval.ErrSelfReview, access.Forbidden, "self_review", "You belong to the side that asks for this, so somebody else has to decide it."},
		{approval.ErrMachine, access.Forbidden, "machine_principal", "Only a signed-in person can decide this."},
		{approval.ErrNotEligible, access.Forbidden, "not_eligible", "You do not have the role that this asks for at this stage."},
		{approval.ErrAlreadyVoted, access.Conflict, "already_voted", "You have voted on this already."},
		{approval.ErrNothingToAnswer, access.Conflict, "nothing_to_answer", "This call is not waiting for an answer."},
		{approval.ErrNotNeeded, access.Conflict, "not_needed", "The places that you could fill are filled; others have to decide the rest."},
		{approval.ErrNoTicketWanted, access.Conflict, "no_ticket_wanted", "This call is not waiting for a ticket."},
		{approval.ErrNoProofWanted, access.Conflict, "no_proof_wanted", "This call is not waiting for a proof of identity."},
		{approval.ErrNotAccountable, access.Forbidden, "not_accountable", "Only a person who answers for this call can do that."},
		{approval.ErrNotFresh, access.Forbidden, "verification_required", "Prove who you are once more: this takes a proof that is at most five minutes old."},
		{approval.ErrNotSigned, access.Forbidden, "signature_required", "Only what your own passkey has signed counts here. Vote on the call's page, which asks your passkey; if you have none yet, add one on the page of your account."},
		{approval.ErrAsked, access.Conflict, "already_asked", "A question is open already. Wait for its answer."},
		{approval.ErrNotClaimed, access.Conflict, "not_claimed", "You have not claimed this."},
		{approval.ErrTooLong, access.Invalid, "too_long", "It cannot be given that much more time."},
		{approval.ErrNoReason, access.Invalid, "reason_required", "Say why."},
		{approval.ErrNotBreakable, access.Conflict, "not_breakable", "What this waits for cannot be skipped in an emergency."},
	} {
		if errors.Is(err, r.err) {
			return &access.Refusal{Kind: r.kind, Code: r.code, Detail: r.detail}
		}
	}
	return err
}

// lastFact is the fact that was added last.
func lastFact(c *store.Change) approval.Fact { return c.Approval.Facts[len(c.Approval.Facts)-1] }

// voter is a person's standing.
func voter(p engine.Person) approval.Voter {
	return approval.Voter{Identity: p.Identity, Roles: p.Roles, Active: !p.Disabled, SecondFactor: len(p.Factors) > 0 || p.ProviderMFA}
}

// mayRead reports whether the person may see the approval: those whose role it
// asks for, the requesting side, auditors and administrators.
func mayRead(p engine.Person, a approval.Approval) bool {
	// Who may break the glass has to see what for.
	if access.ReadsEverything(p) || p.Has(approval.BreakGlassRole) {
		return true
	}
	for _, identity := range a.Plan.Excluded {
		if identity == p.Identity {
			return true
		}
	}
	return asksFor(a, p.Roles)
}

// Reviewers lists, for a role, the human beings among people who have it; for
// the role "" everybody who has a role that decides. Accounts of one human being
// are one.
func Reviewers(people []engine.Person) func(role string) []string {
	return func(role string) []string {
		var who []string
		for _, p := range people {
			decides := slices.ContainsFunc(p.Roles, func(r string) bool { return r != access.AdminRole && r != access.AuditorRole })
			// Whoever is not on call now may be when it matters.
			has := p.Has(role) || strings.HasPrefix(role, engine.OnCallPrefix)
			if !p.Disabled && (role == "" && decides || role != "" && has) {
				who = append(who, p.Identity)
			}
		}
		slices.Sort(who)
		return slices.Compact(who)
	}
}
