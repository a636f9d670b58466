package approval

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/passkey"
)

// Signature is what a person's passkey has signed of their vote, or of their breaking
// of the glass: the Challenge of its payload.
type Signature struct {
	passkey.Assertion
	// Nonce is drawn anew for each signature, so that none is good for two facts.
	Nonce string `json:"nonce"`
	// ConstraintsDigest is that of the constraints that the vote sets; "" for none.
	ConstraintsDigest string `json:"constraints_digest,omitempty"`
}

// statement is what is signed, in its RFC 8785 form (engine/passkey): only what the
// event of the fact has, so that the log proves it alone.
type statement struct {
	V        string `json:"v"` // "holdpoint-vote-v1"
	Approval string `json:"approval"`
	Edition  int    `json:"edition"`
	// Call is the keyed digest of the call, and Card the digest of what the person was
	// shown of it; "" for who was shown none.
	Call string `json:"call"`
	Card string `json:"card,omitempty"`
	// Person is the account that signs, for those in whose place it votes.
	Person    string   `json:"person"`
	InPlaceOf []string `json:"in_place_of,omitempty"`
	// Decision is "approve", "deny" or "break_glass".
	Decision    string          `json:"decision"`
	Denial      Denial          `json:"denial,omitempty"`
	Alone       bool            `json:"alone,omitempty"`
	Comment     string          `json:"comment,omitempty"`     // its digest
	Constraints string          `json:"constraints,omitempty"` // their digest
	ValidFor    engine.Duration `json:"valid_for,omitempty"`
	Nonce       string          `json:"nonce"`
}

// signedPayload is the payload of an event whose fact somebody has signed.
type signedPayload struct {
	FactPayload
	CardDigest string `json:"card_digest"`
}

// SignedEvent is an event as it tells of what somebody is about to sign: the payload of
// f, and the card that they were shown.
func SignedEvent(e engine.Event, f Fact, card string) (engine.Event, error) {
	var err error
	e.Actor = f.Actor
	if e.SafePayload, err = json.Marshal(signedPayload{f.Payload(), card}); err != nil {
		return e, fmt.Errorf("encode what is signed: %w", err)
	}
	return e, nil
}

// ErrUnsigned says that the event of a vote has no signature.
var ErrUnsigned = errors.New("it is not signed")

// Challenge is what a passkey signs of the fact of an event: a vote, or the breaking of
// the glass.
func Challenge(e engine.Event) (challenge [sha256.Size]byte, err error) {
	var t signedPayload
	if err := json.Unmarshal(e.SafePayload, &t); err != nil {
		return challenge, fmt.Errorf("read what is signed: %w", err)
	}
	return t.challenge(e)
}

func (t signedPayload) challenge(e engine.Event) (challenge [sha256.Size]byte, err error) {
	if t.Fact == nil || t.Signature == nil || e.Actor.Kind != engine.HumanActor {
		return challenge, ErrUnsigned
	}
	s := statement{
		V: "holdpoint-vote-v1", Approval: e.ApprovalID, Edition: t.Fact.Edition, Call: e.DigestHMAC, Card: t.CardDigest, Person: e.Actor.ID, InPlaceOf: t.InPlaceOf,
		Denial: t.Fact.Denial, Comment: t.Fact.CommentDigest, Constraints: t.Signature.ConstraintsDigest, ValidFor: t.ValidFor, Nonce: t.Signature.Nonce,
	}
	switch {
	case t.Fact.Kind == Vote && t.Fact.Yes && t.Grant == "":
		s.Decision = "approve"
	case t.Fact.Kind == Vote && !t.Fact.Yes:
		s.Decision = "deny"
	case t.Fact.Kind == BreakGlass:
		s.Decision, s.Alone = "break_glass", t.Alone
	default:
		return challenge, fmt.Errorf("nobody signs a fact of kind %s", t.Fact.Kind)
	}
	return passkey.Challenge(s)
}

// maxNonce is the longest that a nonce may be.
const maxNonce = 64

// VerifySigned reports why the signature that the fact of an event carries is none that
// its actor's passkeys have made of it, by the keys that the log knows at that time, or
// nil. The error is ErrUnsigned where it carries none, and passkey.ErrUnknown where
// the log does not know the passkey.
func VerifySigned(e engine.Event, keys *passkey.Keys) error {
	var t signedPayload
	if err := json.Unmarshal(e.SafePayload, &t); err != nil {
		return ErrUnsigned
	}
	return t.verify(e, keys)
}

func (t signedPayload) verify(e engine.Event, keys *passkey.Keys) error {
	challenge, err := t.challenge(e)
	if err != nil {
		return err
	}
	if t.Signature.Nonce == "" || len(t.Signature.Nonce) > maxNonce {
		return errors.New("its nonce is none")
	}
	return keys.Verify(e.Actor.ID, challenge, t.Signature.Assertion)
}

// ConstraintsDigest is the digest of what a vote sets, by the salt that lies beside it;
// "" for nothing. The database may have written the JSON in its own way.
func ConstraintsDigest(salt string, constraints json.RawMessage) string {
	if len(constraints) == 0 {
		return ""
	}
	v, err := canon.Parse(constraints)
	if err != nil {
		return CommentDigest(salt, string(constraints))
	}
	return CommentDigest(salt, string(v.Canonical()))
}

// unaltered reports whether what the log has only a digest of is what was signed.
func (f Fact) unaltered() bool {
	return f.Details.Signature.ConstraintsDigest == ConstraintsDigest(f.Details.Salt, f.Details.Constraints)
}

// signedOnly reports whether only signed votes can count by the requirements, as all
// that people may vote on demand it; and whether the glass, which approves all that is
// left, can be broken by a signed fact only.
func signedOnly(requirements []engine.Requirement) (votes, glass bool) {
	if len(requirements) == 0 {
		return false, false
	}
	votes = slices.ContainsFunc(requirements, func(r engine.Requirement) bool { return r.Signed }) &&
		!slices.ContainsFunc(requirements, func(r engine.Requirement) bool { return r.Kind.Traits().VotesCount && !r.Signed })
	return votes, requirements[len(requirements)-1].Signed
}

// LacksSignature reports whether an unsigned fact of a kind cannot have come in by the
// programs, because the requirements demand a signature of every such fact.
func LacksSignature(requirements []engine.Requirement, kind FactKind) bool {
	votes, glass := signedOnly(requirements)
	return kind == Vote && votes || kind == BreakGlass && glass
}

// nonces are those of the signatures that have been seen.
type nonces []string

// fresh reports whether a nonce comes for the first time.
func (n *nonces) fresh(nonce string) bool {
	if slices.Contains(*n, nonce) {
		return false
	}
	*n = append(*n, nonce)
	return true
}
