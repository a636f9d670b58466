package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"holdpoint/engine"
)

// What the audit log tells of an approval, so that everybody who has the log can
// compute for themselves what it came to. It is in the events' safe_payload, and
// its names stay for ever.
//
//	decision, edit, reopen   Asked: whose side may not decide, and under which terms
//	vote, answer, …          Told: the fact
//	settled                  Ended: the plan, the facts that there were, and who stood
//	                         where when they were read

// Asked is what an event tells of a new edition, beside its requirements.
type Asked struct {
	Excluded []string `json:"excluded"`
	Terms    Terms    `json:"terms"`
	// ExpiresIn is the time from the edition's beginning to the overall deadline,
	// before extensions and pauses; 0 where it is not told.
	ExpiresIn engine.Duration `json:"expires_in,omitempty"`
}

// Asked is what the event that begins the plan's edition tells of it.
func (p Plan) Asked() *Asked {
	a := &Asked{Excluded: p.Excluded, Terms: p.Terms}
	if !p.ExpiresAt.IsZero() {
		a.ExpiresIn = engine.Duration(p.ExpiresAt.Sub(p.began()))
	}
	if a.Excluded == nil {
		a.Excluded = []string{}
	}
	return a
}

// Told is what an event tells of a fact: everything but who, which the event's
// actor says, and free texts. Of a comment it tells that there is one, and a
// digest that can be compared with the comment and its salt.
type Told struct {
	Fact *ToldFact `json:"fact,omitempty"`
	// Asked is set where the fact begins an edition.
	Asked     *Asked   `json:"asked,omitempty"`
	InPlaceOf []string `json:"in_place_of,omitempty"`
	Details
}

// ToldFact is what is told of every fact.
type ToldFact struct {
	Seq     int64     `json:"seq"`
	At      time.Time `json:"at"`
	Kind    FactKind  `json:"kind"`
	Edition int       `json:"edition"`
	Yes     bool      `json:"yes"`
	Denial  Denial    `json:"denial,omitempty"`
	// CommentDigest is that of the comment; "" for none.
	CommentDigest string `json:"comment_digest,omitempty"`
}

// Written is what the event tells of a comment that is no fact's: on what became of
// a call that nobody knew of, and on a broken glass.
type Written struct {
	CommentDigest string `json:"comment_digest,omitempty"`
}

// CommentDigest is "sha256:" and the hex of SHA-256 over salt and comment, each
// after its length; "" for no comment. Without the salt nobody can find out what a
// comment was by trying.
func CommentDigest(salt, comment string) string {
	if comment == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s", len(salt), salt, len(comment), comment))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Told is what an event tells of the fact, once it has its number and time.
func (f Fact) Told() Told {
	t := Told{InPlaceOf: f.Via, Details: f.Details, Fact: &ToldFact{
		Seq: f.Seq, At: f.At, Kind: f.Kind, Edition: f.Edition, Yes: f.Yes, Denial: f.Denial, CommentDigest: CommentDigest(f.Details.Salt, f.Comment),
	}}
	// The digest of a call could be guessed at; the event has a keyed one. Constraints
	// are a person's own words about the call, and can be erased with it.
	t.Salt, t.Digest, t.Constraints = "", "", nil
	if f.Details.Ticket != nil {
		ticket := *f.Details.Ticket
		ticket.Title = "" // somebody's own text, and no part of the record
		t.Ticket = &ticket
	}
	return t
}

// ToldWith is what an event tells of a fact that begins an edition, with the plan
// of that.
func (f Fact) ToldWith(p Plan) Told {
	t := f.Told()
	t.Asked = p.Asked()
	return t
}

// fact is the fact again. A comment that there was is only known to have been.
func (t Told) fact(actor engine.Actor, v Voter) Fact {
	f := Fact{
		Seq: t.Fact.Seq, At: t.Fact.At, Kind: t.Fact.Kind, Edition: t.Fact.Edition, Yes: t.Fact.Yes, Denial: t.Fact.Denial,
		Actor: actor, Via: t.InPlaceOf, Details: t.Details, Voter: v,
	}
	if t.Fact.CommentDigest != "" {
		f.Comment = t.Fact.CommentDigest
	}
	return f
}

// Ended is what the event of an approval's end tells, beside its requirements.
type Ended struct {
	// At is when the facts were read; Reached what they had come to by then.
	At      time.Time `json:"at"`
	Reached Status    `json:"reached"`

	OpenedAt  time.Time `json:"opened_at"`
	ExpiresAt time.Time `json:"expires_at"`
	BeganAt   time.Time `json:"began_at,omitzero"`
	Edition   int       `json:"edition"`
	Asked

	// Facts are the numbers of all that there were, in order.
	Facts []int64 `json:"facts"`
	// Behind is who stood behind which facts, each once.
	Behind []Behind `json:"behind,omitempty"`
	// ValidUntil is until when its token can be spent, where there is one.
	ValidUntil time.Time `json:"valid_until,omitzero"`
}

// Behind is a person's standing when the facts were read, and the facts that they
// stood behind.
type Behind struct {
	ToldVoter
	Facts []int64 `json:"facts"`
}

// ToldVoter is a Voter.
type ToldVoter struct {
	Identity string      `json:"identity"`
	Roles    []string    `json:"roles,omitempty"`
	Active   bool        `json:"active"`
	Via      []ToldVoter `json:"via,omitempty"`
}

func tellVoter(v Voter) ToldVoter {
	t := ToldVoter{Identity: v.Identity, Roles: v.Roles, Active: v.Active}
	for _, other := range v.Via {
		t.Via = append(t.Via, tellVoter(other))
	}
	return t
}

func (t ToldVoter) voter() Voter {
	v := Voter{Identity: t.Identity, Roles: t.Roles, Active: t.Active}
	for _, other := range t.Via {
		v.Via = append(v.Via, other.voter())
	}
	return v
}

func (t ToldVoter) same(other ToldVoter) bool {
	return t.Identity == other.Identity && t.Active == other.Active && slices.Equal(t.Roles, other.Roles) &&
		slices.EqualFunc(t.Via, other.Via, ToldVoter.same)
}

// ToldRequirements are requirements as events tell them: without whom they
// suggest, which are addresses and give nobody a say.
func ToldRequirements(requirements []engine.Requirement) []engine.Requirement {
	told := slices.Clone(requirements)
	for i := range told {
		told[i].Suggested = nil
	}
	return told
}

// Ended is what the event of the approval's end tells, from the State that ends it
// and was computed at a moment.
func (a Approval) Ended(state State, at time.Time) Ended {
	e := Ended{
		At: at, Reached: state.Status, OpenedAt: a.Plan.OpenedAt, ExpiresAt: a.Plan.ExpiresAt, BeganAt: a.Plan.BeganAt, Edition: a.Plan.Edition,
		Asked: *a.Plan.Asked(), Facts: []int64{},
	}
	for _, f := range a.Facts {
		e.Facts = append(e.Facts, f.Seq)
		if f.Voter.Identity == "" && len(f.Voter.Via) == 0 {
			continue
		}
		v := tellVoter(f.Voter)
		i := slices.IndexFunc(e.Behind, func(b Behind) bool { return b.same(v) })
		if i < 0 {
			i, e.Behind = len(e.Behind), append(e.Behind, Behind{ToldVoter: v})
		}
		e.Behind[i].Facts = append(e.Behind[i].Facts, f.Seq)
	}
	return e
}

// Logged is a fact as the log has it: what its event tells, and whom it names.
type Logged struct {
	Told
	Actor engine.Actor
}

// Replay computes from the log what an approval had come to: the State that
// Advance returns for the facts at the moment when they were read. The facts have
// to be exactly those that there were, and everybody one human being in all of
// them.
func (e Ended) Replay(requirements []engine.Requirement, facts []Logged) (State, error) {
	if len(facts) != len(e.Facts) {
		return State{}, fmt.Errorf("it ended with %d facts, and the log has %d", len(e.Facts), len(facts))
	}
	behind := map[int64]Voter{}
	for _, b := range e.Behind {
		for _, seq := range b.Facts {
			if _, twice := behind[seq]; twice {
				return State{}, fmt.Errorf("two people stand behind fact %d", seq)
			}
			behind[seq] = b.voter()
		}
	}
	replayed, known := make([]Fact, len(facts)), map[string]string{}
	for i, f := range facts {
		if f.Fact == nil || f.Fact.Seq != e.Facts[i] {
			return State{}, fmt.Errorf("fact %d is not in the log, or not in its place", e.Facts[i])
		}
		v, told := behind[f.Fact.Seq]
		delete(behind, f.Fact.Seq)
		if !told && f.Actor.Kind == engine.HumanActor {
			return State{}, fmt.Errorf("it does not tell who stands behind fact %d", f.Fact.Seq)
		}
		if told {
			if f.Actor.Kind != engine.HumanActor {
				return State{}, fmt.Errorf("a person stands behind fact %d, which is not one's", f.Fact.Seq)
			}
			if other, spoke := known[f.Actor.ID]; spoke && other != v.Identity {
				return State{}, fmt.Errorf("%s is two people in it", f.Actor.ID)
			}
			known[f.Actor.ID] = v.Identity
			if v.Active && len(v.Via) != len(f.InPlaceOf) {
				return State{}, fmt.Errorf("fact %d is in the place of %d people, and %d are told of", f.Fact.Seq, len(f.InPlaceOf), len(v.Via))
			}
			if f.Fact.Kind == Edit && !slices.Contains(e.Excluded, v.Identity) {
				return State{}, fmt.Errorf("whoever changed the arguments, by fact %d, may vote on them", f.Fact.Seq)
			}
		}
		replayed[i] = f.fact(f.Actor, v)
	}
	for _, b := range e.Behind {
		for _, seq := range b.Facts {
			if _, left := behind[seq]; left {
				return State{}, fmt.Errorf("somebody stands behind fact %d, which there is not", seq)
			}
		}
	}
	p := Plan{OpenedAt: e.OpenedAt, ExpiresAt: e.ExpiresAt, BeganAt: e.BeganAt, Edition: e.Edition, Requirements: requirements, Excluded: e.Excluded, Terms: e.Terms}
	return Advance(p, replayed, e.At), nil
}
