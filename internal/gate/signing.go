package gate

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/identity"
	"holdpoint/internal/store"
)

// drawn is the random part of a signed statement. It is drawn before the statement is
// signed, and kept with the challenge, so that nobody chooses it.
type drawn struct{ Nonce, Salt string }

// signature is the fact with room for a passkey's signature, as it is to be signed.
func (d drawn) signature(f approval.Fact) approval.Fact {
	f.Details.Salt = d.Salt
	f.Details.Signature = &approval.Signature{Nonce: d.Nonce, ConstraintsDigest: approval.ConstraintsDigest(d.Salt, f.Details.Constraints)}
	if f.Yes {
		f.Details.Proof = &approval.Proof{Method: identity.Passkey} // of the moment at which it is taken in
	}
	return f
}

// SignVote starts the signing of a vote by the person's passkey, for Vote to be given
// with the answer. It refuses what Vote would refuse, and who has no passkey that the
// log knows (no_signing_key). Nothing is recorded of it.
func (g *Contributions) SignVote(ctx context.Context, v VoteRequest) (identity.Ceremony, error) {
	if r := checkVote(v); r != nil {
		return identity.Ceremony{}, r
	}
	return g.sign(ctx, v.Person, v.ApprovalID, voteFact(v), engine.Voted, func(c *store.Change, f approval.Fact) error {
		if err := g.voteAllowed(ctx, c, v, f); err != nil || !v.Approve {
			return err
		}
		return g.hasSeen(ctx, c, v.Person, v.Digest)
	})
}

// SignBreakGlass is SignVote for BreakGlass.
func (g *Contributions) SignBreakGlass(ctx context.Context, s Contribution, alone bool, digest string, version int) (identity.Ceremony, error) {
	if err := bounds(s.Comment); err != nil {
		return identity.Ceremony{}, err
	}
	f := glassFact(s, alone)
	f.Actor, f.Comment, f.Voter = s.actor(), s.Comment, voter(s.Person)
	return g.sign(ctx, s.Person, s.ApprovalID, f, engine.Broken, func(c *store.Change, _ approval.Fact) error {
		if err := visible(c, s.Person); err != nil {
			return err
		}
		if err := breakable(c.Approval, digest, version); err != nil {
			return err
		}
		return g.hasSeen(ctx, c, s.Person, digest)
	})
}

// sign asks the person's passkey to sign a fact as its event would tell of it now.
func (g *Contributions) sign(ctx context.Context, p engine.Person, id string, f approval.Fact, kind engine.EventType, allowed func(*store.Change, approval.Fact) error) (identity.Ceremony, error) {
	if g.Factors == nil {
		return identity.Ceremony{}, identity.NoSigningKey
	}
	d := drawn{rand.Text(), rand.Text()}
	f = d.signature(f)
	var challenge [sha256.Size]byte
	err := g.Store.Approvals.Change(ctx, id, nil, func(c *store.Change) error {
		if err := allowed(c, f); err != nil {
			return err
		}
		if err := settledRefusal(c.Approval); err != nil {
			return err
		}
		f := f
		if f.Signed = true; f.Yes {
			f.Details.Proof = &approval.Proof{Method: identity.Passkey, At: c.Now}
		}
		f, err := g.admitted(c, f)
		if err != nil {
			return err
		}
		e, err := signedEvent(c, g.event(kind, c.Approval.Decision.Outcome, c.Approval, f.Actor, ""), f)
		if err == nil {
			challenge, err = approval.Challenge(e)
		}
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return identity.Ceremony{}, access.NoSuchApproval
	case err != nil:
		return identity.Ceremony{}, err
	}
	return g.Factors.BeginSigning(ctx, p, identity.ForVote, id, challenge, d)
}

// signedEvent is the event of a fact as it tells of what is signed.
func signedEvent(c *store.Change, e engine.Event, f approval.Fact) (engine.Event, error) {
	card, err := c.SeenCard(f.Actor.ID)
	if err != nil {
		return e, err
	}
	f.Edition = c.Approval.Plan.Edition
	return approval.SignedEvent(e, f, card)
}

// takeSigned takes what the person's passkey has signed into the fact. Whether that is
// the fact, verifySigned says.
func (g *Contributions) takeSigned(ctx context.Context, p engine.Person, id string, proof identity.Proof, f approval.Fact) (approval.Fact, error) {
	if g.Factors == nil {
		return f, identity.NoSigningKey
	}
	var d drawn
	made, err := g.Factors.Signed(ctx, p, identity.ForVote, id, proof, &d)
	if err != nil {
		return f, err
	}
	f = d.signature(f)
	f.Details.Signature.Assertion = made
	return f, nil
}

var signatureInvalid = &access.Refusal{Kind: access.Conflict, Code: "signature_invalid", Detail: "What your passkey has signed is not this: something has changed since, on the page or of the call. Look at it again, and sign it again."}

// verifySigned refuses a fact whose signature is none of it by its contributor's
// passkeys, as the log knows them.
func verifySigned(c *store.Change, e engine.Event, f approval.Fact) error {
	if f.Details.Signature == nil {
		return nil
	}
	keys, err := c.Keys(f.Actor.ID)
	if err != nil {
		return err
	}
	if e, err = signedEvent(c, e, f); err != nil {
		return err
	}
	if approval.VerifySigned(e, keys) != nil {
		return signatureInvalid
	}
	return nil
}

// signing fills in what of the person's vote takes a signature, and whether they can
// give one where it takes that or a fresh proof.
func (g *Queries) signing(ctx context.Context, card *Card, p engine.Person) (err error) {
	a := card.Approval
	if a.Status.Terminal() {
		return nil
	}
	card.SignYes, card.SignNo = a.NeedsSignature(voter(p), true, card.Now), a.NeedsSignature(voter(p), false, card.Now)
	if len(card.InPlaceOf) > 0 {
		for i, r := range a.Plan.Requirements {
			card.SignYes = card.SignYes || r.Signed && i < len(a.State.Requirements) && a.State.Requirements[i].Status == approval.Waiting
		}
		card.SignNo = card.SignYes
	}
	asked := card.SignYes || card.SignNo || a.NeedsProof() || slices.ContainsFunc(a.Plan.Requirements, func(r engine.Requirement) bool { return r.Signed })
	if asked && g.Factors != nil {
		card.CanSign, err = g.Factors.Signs(ctx, p)
	}
	return err
}
