package audit

import (
	"encoding/json"
	"errors"
	"fmt"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/passkey"
)

// Contradiction is the first thing that a Replay finds wrong with events which are all
// that there are of an approval and of the passkeys that have signed its facts; nil for
// nothing.
func Contradiction(events []engine.Event) error {
	log := Replay{Whole: true}
	for _, e := range events {
		if err := log.Event(e); err != nil {
			return err
		}
	}
	return nil
}

// signed verifies the signature of a fact, where it has one, and refuses a fact that
// lacks one.
func (r *Replay) signed(a *openApproval, e engine.Event, p payload) (bool, error) {
	if p.Signature == nil {
		if approval.LacksSignature(a.requirements, p.Fact.Kind) {
			return false, errors.New("what it contributes to takes the signature of a passkey, and it has none")
		}
		return false, nil
	}
	err := approval.VerifySigned(e, &r.keys)
	switch {
	case errors.Is(err, passkey.ErrUnknown) && !r.Whole:
		r.Count.SignedUnknown++
		if r.unknown != nil {
			r.unknown(e)
		}
	case err != nil:
		return false, fmt.Errorf("its signature is none: %w", err)
	default:
		r.Count.Signed++
		r.signer(e)
	}
	if a.nonces[p.Signature.Nonce] {
		return false, errors.New("its signature has been given before")
	}
	if a.nonces == nil {
		a.nonces = map[string]bool{}
	}
	a.nonces[p.Signature.Nonce] = true
	return true, nil
}

// signer counts a fact for the passkey that has signed it.
func (r *Replay) signer(e engine.Event) {
	var told approval.FactPayload
	if json.Unmarshal(e.SafePayload, &told) != nil || told.Signature == nil {
		return // it would not have been verified
	}
	if r.signers == nil {
		r.signers = map[Signer]int{}
	}
	id, _ := told.Signature.Credential.MarshalText() // it cannot fail
	if who := (Signer{e.Actor.ID, string(id)}); r.signers[who] > 0 || len(r.signers) < maxRecent {
		r.signers[who]++
	}
}

// Signer is a passkey of a person's, by its credential id in base64url.
type Signer struct{ Person, Credential string }

// Signed is how many facts each passkey has signed.
func (r *Replay) Signed() map[Signer]int { return r.signers }
