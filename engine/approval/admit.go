package approval

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
)

// Why a fact is not admitted. Each is a refusal with its own stable code.
var (
	ErrDecided         = errors.New("the approval is already decided")
	ErrExpired         = errors.New("the approval's deadline has passed")
	ErrSelfReview      = errors.New("somebody of the requesting side cannot review it")
	ErrMachine         = errors.New("only a signed-in person can decide this")
	ErrNotEligible     = errors.New("the person has not the role that this approval asks for")
	ErrAlreadyVoted    = errors.New("the person has already voted")
	ErrNotNeeded       = errors.New("the places that the person could fill are filled")
	ErrNothingToAnswer = errors.New("the approval is not waiting for an answer")
	ErrNoTicketWanted  = errors.New("the approval is not waiting for a ticket")
	ErrNoProofWanted   = errors.New("the approval is not waiting for a proof of identity")
	ErrNotAccountable  = errors.New("the person does not answer for the call")
	ErrNotFresh        = errors.New("the person has to prove again who they are")
	ErrNotSigned       = errors.New("the person's passkey has to sign it")
	ErrAsked           = errors.New("a question is open already")
	ErrNotClaimed      = errors.New("the approval is not claimed by this person")
	ErrTooLong         = errors.New("it cannot be extended that far")
	ErrNoReason        = errors.New("a reason is required")
	ErrNotBreakable    = errors.New("what it waits for cannot be skipped in an emergency")
)

// Admit reports why a new fact must be refused, or nil when it may be appended
// at now. A fact that Admit lets through always changes what Advance returns,
// but for a comment.
func Admit(p Plan, facts []Fact, f Fact, now time.Time) error {
	f.Edition, f.At, f.Seq = p.Edition, now, math.MaxInt64
	m := replay(p, facts, now)
	switch m.Status {
	case Expired:
		return ErrExpired
	case Approved, Denied, Cancelled:
		return ErrDecided
	case Pending:
	}
	return m.admit(&f)
}

// admit is the one rule by which facts count: Advance skips what it refuses.
func (m *machine) admit(f *Fact) error {
	person := f.Actor.Kind == engine.HumanActor
	switch f.Kind {
	case Cancel, Comment:
		return nil
	case Vote:
		return m.admitVote(f)
	case BreakGlass:
		return m.admitBreak(f)
	case Reply:
		switch {
		case m.traits().Discharger != f.Discharger():
			return ErrNothingToAnswer
		case person && len(m.p.Requirements[m.lo].Form) == 0:
			return ErrNothingToAnswer // a person votes, where nothing has to be supplied
		case person && !m.maySupply(f):
			return ErrNotEligible
		case !person && f.Actor.Kind != engine.ServiceActor:
			return ErrMachine
		}
		return nil
	case TicketLink:
		if m.traits().Discharger != engine.Tracker || f.Details.Ticket == nil {
			return ErrNoTicketWanted
		}
		return nil
	case TicketCheck:
		if m.traits().Discharger != f.Discharger() || m.ticket == nil || f.Actor.Kind != engine.SystemActor || f.Details.Ticket == nil ||
			f.Details.Ticket.Ref != m.ticket.Details.Ticket.Ref || f.Details.Ticket.System != m.ticket.Details.Ticket.System {
			return ErrNoTicketWanted
		}
		return nil
	case Verification:
		return m.admitProof(f)
	case Question, Claim:
		switch {
		case !person:
			return ErrMachine
		case m.excluded(f.Voter):
			return ErrSelfReview
		case !m.mayDeny(f):
			return ErrNotEligible
		case f.Kind == Question && m.question != nil:
			return ErrAsked
		case f.Kind == Question && strings.TrimSpace(f.Comment) == "":
			return ErrNoReason
		case f.Kind == Claim && m.claimed(f.At) && m.claim.Claimant() == f.Claimant():
			return ErrAlreadyVoted
		}
		return nil
	case Unclaim:
		if !m.claimed(f.At) || m.claim.Claimant() != f.Actor.ID {
			return ErrNotClaimed
		}
		return nil
	case Information:
		switch {
		case m.question == nil:
			return ErrNothingToAnswer
		case person && !slices.Contains(m.p.Excluded, f.Voter.Identity):
			return ErrNotAccountable
		case strings.TrimSpace(f.Comment) == "":
			return ErrNoReason
		}
		return nil
	case Extend:
		return m.admitExtension(f)
	case Escalate:
		if f.Actor.Kind != engine.SystemActor || !m.mayEscalate(f) {
			return ErrNotEligible
		}
		return nil
	case Edit, Reopen:
	}
	// A change of the call begins a new edition, and is no fact within one.
	return ErrNotEligible
}

func (m *machine) excluded(v Voter) bool {
	return slices.ContainsFunc(v.identities(), func(who string) bool { return slices.Contains(m.p.Excluded, who) })
}

// admitVote returns ErrNotSigned for a vote that lacks nothing but a signature.
func (m *machine) admitVote(f *Fact) error {
	err := m.admitBallot(f)
	if err == nil || f.Signed {
		return err
	}
	signed := *f
	signed.Signed = true
	if m.admitBallot(&signed) == nil {
		return ErrNotSigned
	}
	return err
}

func (m *machine) admitBallot(f *Fact) error {
	switch {
	case f.Actor.Kind != engine.HumanActor:
		return ErrMachine
	case m.excluded(f.Voter):
		return ErrSelfReview
	case !f.Voter.eligible(m.p):
		return ErrNotEligible
	}
	if !f.Yes {
		switch {
		case !m.mayDeny(f):
			return ErrNotEligible
		case slices.ContainsFunc(m.noes, func(n *Fact) bool { return shareVoice(n.Voter, f.Voter) }):
			return ErrAlreadyVoted
		}
		return nil
	}
	kind := m.traits()
	switch {
	case !kind.VotesCount || m.kind().Confirms() && len(m.p.Requirements[m.lo].Form) > 0: // a yes supplies nothing
		return ErrNotEligible
	case !m.mayFill(f):
		return ErrNotEligible
	case slices.ContainsFunc(m.yeses, func(b *Fact) bool { return shareVoice(b.Voter, f.Voter) }):
		return ErrAlreadyVoted
	case slices.ContainsFunc(m.noes, func(n *Fact) bool { return silences(f.Voter, n.Voter) }):
		return ErrAlreadyVoted
	case kind.FreshProof && f.Details.Grant != "":
		return ErrMachine
	case kind.FreshProof && !f.Details.Proof.Fresh(f.At):
		return ErrNotFresh
	case m.filled(append(slices.Clone(m.ballots), m.ballot(f))) <= m.filled(m.ballots):
		return ErrNotNeeded
	}
	return nil
}

func (m *machine) admitBreak(f *Fact) error {
	switch {
	case f.Actor.Kind != engine.HumanActor:
		return ErrMachine
	case m.excluded(f.Voter):
		return ErrSelfReview
	case !f.Voter.eligible(m.p) || len(f.Voter.Via) > 0 || !slices.Contains(f.Voter.Roles, BreakGlassRole):
		return ErrNotEligible
	case !m.traits().BreakGlass:
		return ErrNotBreakable
	case strings.TrimSpace(f.Comment) == "":
		return ErrNoReason
	case !f.Signed && slices.ContainsFunc(m.p.Requirements[m.lo:], func(r engine.Requirement) bool { return r.Signed }):
		return ErrNotSigned
	case !f.Details.Proof.Fresh(f.At):
		return ErrNotFresh
	case !f.Details.Alone && slices.ContainsFunc(m.breakers, func(b *Fact) bool { return b.Voter.Identity == f.Voter.Identity }):
		return ErrAlreadyVoted
	}
	return nil
}

func (m *machine) admitProof(f *Fact) error {
	switch {
	case m.traits().Discharger != f.Discharger():
		return ErrNoProofWanted
	case f.Actor.Kind != engine.HumanActor:
		return ErrMachine
	case !f.Voter.Active || !slices.Contains(m.p.Accountable, f.Voter.Identity):
		return ErrNotAccountable
	case f.Yes && (!f.Details.Proof.Fresh(f.At) || f.Details.Proof.Method == "password" || f.Details.Proof.Method == "sso"):
		return ErrNotFresh
	}
	return nil
}

func (m *machine) admitExtension(f *Fact) error {
	by := time.Duration(f.Details.By)
	allowed := func(role string) bool { return slices.Contains(f.Voter.Roles, role) }
	switch {
	case f.Actor.Kind != engine.HumanActor:
		return ErrMachine
	case m.excluded(f.Voter):
		return ErrSelfReview
	case !f.Voter.eligible(m.p) || !slices.ContainsFunc(m.p.Extenders, allowed):
		return ErrNotEligible
	case by <= 0 || m.overall().Add(by).Sub(m.p.OpenedAt) > MaxExpiresIn:
		return ErrTooLong
	}
	return nil
}

// silences reports whether a yes of v would take back a no in which v had no part: who stands
// in for a person cannot overrule that person.
func silences(v, no Voter) bool {
	return shareVoice(v, no) && !slices.Contains(no.identities(), v.Identity)
}

func shareVoice(a, b Voter) bool {
	other := b.identities()
	return slices.ContainsFunc(a.identities(), func(who string) bool { return slices.Contains(other, who) })
}

// maySupply reports whether the voter may supply what an answer asks for: those
// who answer for the call, and the people of the role.
func (m *machine) maySupply(f *Fact) bool {
	v := f.Voter
	return v.Active && len(v.Via) == 0 && (slices.Contains(m.p.Accountable, v.Identity) || m.mayVoteOn(m.lo, f))
}
