package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdpoint/engine"
)

// The payloads of an approval's events: everybody who has the log can compute
// from them how the approval ended. They are in the events' safe_payload, and
// their JSON names never change.
//
//	decision, edit, reopen   EditionPayload: who is excluded, and the terms
//	vote, answer, …          FactPayload: the fact
//	settled                  SettledPayload: the plan, the facts, and the roles that
//	                         their authors had when they were read

// EditionPayload is the payload of an event that begins an edition; the event has
// the requirements.
type EditionPayload struct {
	Excluded []string `json:"excluded"`
	Terms    Terms    `json:"terms"`
	// ExpiresIn is the time from the edition's beginning to the overall deadline,
	// before extensions and pauses; 0 when unknown.
	ExpiresIn engine.Duration `json:"expires_in,omitempty"`
	// KeyedFacts says that the approval's facts have keyed hashes (Details.Mac).
	KeyedFacts bool `json:"keyed_facts,omitempty"`
}

// EditionPayload is the payload of the event that begins the plan's edition.
func (p Plan) EditionPayload() *EditionPayload {
	a := &EditionPayload{Excluded: p.Excluded, Terms: p.Terms, KeyedFacts: true}
	if !p.ExpiresAt.IsZero() {
		a.ExpiresIn = engine.Duration(p.ExpiresAt.Sub(p.began()))
	}
	if a.Excluded == nil {
		a.Excluded = []string{}
	}
	return a
}

// Check reports what contradicts itself in what an edition asks; nil says nothing.
func (e *EditionPayload) Check() error {
	if e == nil {
		return nil
	}
	for _, who := range e.Terms.ByClaim {
		if !slices.Contains(e.Excluded, who) || slices.Contains(e.Terms.Accountable, who) {
			return errors.New("somebody is excluded by claim who is not excluded, or by registration")
		}
	}
	return nil
}

// FactPayload is the payload of a fact's event: everything but the actor, whom the
// event names, and free texts. A comment is there as a digest, which whoever has
// the comment and its salt can compare.
type FactPayload struct {
	Fact *FactRecord `json:"fact,omitempty"`
	// Asked is set when the fact begins an edition.
	Asked     *EditionPayload `json:"asked,omitempty"`
	InPlaceOf []string        `json:"in_place_of,omitempty"`
	Details
}

// FactRecord is what the payloads of all facts have.
type FactRecord struct {
	Seq     int64     `json:"seq"`
	At      time.Time `json:"at"`
	Kind    FactKind  `json:"kind"`
	Edition int       `json:"edition"`
	Yes     bool      `json:"yes"`
	Denial  Denial    `json:"denial,omitempty"`
	// CommentDigest is that of the comment; "" for none.
	CommentDigest string `json:"comment_digest,omitempty"`
}

// CommentPayload is the payload for a comment that belongs to no fact: on a call
// with an unknown result, and on the review of a broken glass.
type CommentPayload struct {
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

// Payload is the payload of the fact's event. The fact has its number and time.
func (f Fact) Payload() FactPayload {
	t := FactPayload{InPlaceOf: f.Via, Details: f.Details, Fact: &FactRecord{
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

// EditionPayload is the payload of a fact that begins an edition with the plan p.
func (f Fact) EditionPayload(p Plan) FactPayload {
	t := f.Payload()
	t.Asked = p.EditionPayload()
	return t
}

// fact turns the payload back into the fact. Of a comment it knows only that there was one.
func (t FactPayload) fact(actor engine.Actor, v Voter) Fact {
	f := Fact{
		Seq: t.Fact.Seq, At: t.Fact.At, Kind: t.Fact.Kind, Edition: t.Fact.Edition, Yes: t.Fact.Yes, Denial: t.Fact.Denial,
		Actor: actor, Via: t.InPlaceOf, Details: t.Details, Voter: v,
	}
	if t.Fact.CommentDigest != "" {
		f.Comment = t.Fact.CommentDigest
	}
	return f
}

// SettledPayload is the payload of the event that ends an approval; the event has
// the requirements.
type SettledPayload struct {
	// At is when the facts were read; Reached is their status at that time.
	At      time.Time `json:"at"`
	Reached Status    `json:"reached"`

	OpenedAt  time.Time `json:"opened_at"`
	ExpiresAt time.Time `json:"expires_at"`
	BeganAt   time.Time `json:"began_at,omitzero"`
	Edition   int       `json:"edition"`
	EditionPayload

	// Facts holds the Seqs of all facts that there were, in order.
	Facts []int64 `json:"facts"`
	// Behind is who contributed which facts, each person once.
	Behind []VoterFacts `json:"behind,omitempty"`
	// ValidUntil is until when its token can be spent, where there is one.
	ValidUntil time.Time `json:"valid_until,omitzero"`
}

// VoterFacts is a person as they were when the facts were read, and the facts that
// they contributed.
type VoterFacts struct {
	VoterRecord
	Facts []int64 `json:"facts"`
}

// VoterRecord is a Voter in JSON.
type VoterRecord struct {
	Identity string        `json:"identity"`
	Roles    []string      `json:"roles,omitempty"`
	Active   bool          `json:"active"`
	Via      []VoterRecord `json:"via,omitempty"`
}

func recordOf(v Voter) VoterRecord {
	t := VoterRecord{Identity: v.Identity, Roles: v.Roles, Active: v.Active}
	for _, other := range v.Via {
		t.Via = append(t.Via, recordOf(other))
	}
	return t
}

func (t VoterRecord) voter() Voter {
	v := Voter{Identity: t.Identity, Roles: t.Roles, Active: t.Active}
	for _, other := range t.Via {
		v.Via = append(v.Via, other.voter())
	}
	return v
}

func (t VoterRecord) same(other VoterRecord) bool {
	return t.Identity == other.Identity && t.Active == other.Active && slices.Equal(t.Roles, other.Roles) &&
		slices.EqualFunc(t.Via, other.Via, VoterRecord.same)
}

// PayloadRequirements returns requirements as events hold them: without the people whom they
// suggest. Those are e-mail addresses, and a suggestion gives nobody a vote.
func PayloadRequirements(requirements []engine.Requirement) []engine.Requirement {
	told := slices.Clone(requirements)
	for i := range told {
		told[i].Suggested = nil
	}
	return told
}

// SettledPayload is the payload of the event that ends the approval, with the State
// that ends it, which was computed at at.
func (a Approval) SettledPayload(state State, at time.Time) SettledPayload {
	e := SettledPayload{
		At: at, Reached: state.Status, OpenedAt: a.Plan.OpenedAt, ExpiresAt: a.Plan.ExpiresAt, BeganAt: a.Plan.BeganAt, Edition: a.Plan.Edition,
		EditionPayload: *a.Plan.EditionPayload(), Facts: []int64{},
	}
	for _, f := range a.Facts {
		e.Facts = append(e.Facts, f.Seq)
		if f.Voter.Identity == "" && len(f.Voter.Via) == 0 {
			continue
		}
		v := recordOf(f.Voter)
		i := slices.IndexFunc(e.Behind, func(b VoterFacts) bool { return b.same(v) })
		if i < 0 {
			i, e.Behind = len(e.Behind), append(e.Behind, VoterFacts{VoterRecord: v})
		}
		e.Behind[i].Facts = append(e.Behind[i].Facts, f.Seq)
	}
	return e
}

// LoggedFact is a fact as the log has it: its payload and its actor.
type LoggedFact struct {
	FactPayload
	Actor engine.Actor
	// Signed says that its signature was verified.
	Signed bool
}

// Accounts calls of for each account that has contributed to the facts, or in whose
// place somebody has, with the identity that the payload tells of it.
func (e SettledPayload) Accounts(facts []LoggedFact, of func(seq int64, account, identity string) error) error {
	for _, b := range e.Behind {
		for _, f := range facts {
			if f.Fact == nil || !slices.Contains(b.Facts, f.Fact.Seq) {
				continue
			}
			if err := of(f.Fact.Seq, f.Actor.ID, b.Identity); err != nil {
				return err
			}
			for i, other := range b.Via {
				if i >= len(f.InPlaceOf) {
					break
				}
				if err := of(f.Fact.Seq, f.InPlaceOf[i], other.Identity); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Replay computes from the log how an approval ended: the State that Advance
// returns for the facts at the time when they were read. The facts must be exactly
// those of the payload, and each actor must be one human being in all of them.
func (e SettledPayload) Replay(requirements []engine.Requirement, facts []LoggedFact) (State, error) {
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
		replayed[i].Signed = f.Signed
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
