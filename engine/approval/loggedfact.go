package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/passkey"
)

// NotInLog is the reason of the event that reports a fact which no event confirms.
var NotInLog = engine.Reason{Code: "FACT_NOT_IN_LOG", Message: "The database has a fact of which no event tells the same, or without the signature that it takes. It was written around the programs, and counts for nothing."}

// UnloggedPayload is the payload of that event: what the row says of itself.
type UnloggedPayload struct {
	Unlogged struct {
		FactRecord
		Actor engine.Actor `json:"actor"`
	} `json:"unlogged"`
}

// UnloggedPayload returns the payload of the event that reports f as unlogged.
func (f Fact) UnloggedPayload() (p UnloggedPayload) {
	p.Unlogged.FactRecord, p.Unlogged.Actor = *f.Payload().Fact, f.Actor
	return p
}

// Authentic returns the bytes that the keyed hash of a fact (Details.Mac) covers: the approval,
// the nonce, the actor, and what the fact's event tells, without number and time, which the
// database gives, and without the hash itself.
func (f Fact) Authentic(approvalID string) ([]byte, error) {
	nonce, _, _ := strings.Cut(f.Details.Mac, ".")
	p := f.Payload()
	p.Mac, p.Fact.Seq, p.Fact.At = "", 0, time.Time{}
	told, err := json.Marshal(struct {
		Approval, Nonce string
		Actor           engine.Actor
		FactPayload
	}{approvalID, nonce, f.Actor, p})
	if err != nil {
		return nil, fmt.Errorf("encode a fact: %w", err)
	}
	return told, nil
}

// HoldAgainst compares the facts of a pending approval with its events, and moves those to
// Unlogged
//   - of which no event tells the same: approval, kind, contributor, content, edition and time;
//   - that are not authentic, and the later of two with one keyed hash. authentic is nil for a
//     caller without the key. It is not asked about an approval that began when facts had no hash;
//   - whose signature none of their actor's passkeys made, or that lack one though only signed
//     ones can count.
//
// The events are in the order in which they were appended, with those of the passkeys of
// everybody who has signed. Nothing is compared once the approval has ended: erasures take
// words out of facts then, of which the events keep the digests.
func (a *Approval) HoldAgainst(events []engine.Event, authentic func(Fact) bool) {
	if a.Final != nil || len(a.Facts) == 0 {
		return
	}
	claims, keyed := map[int64][]loggedClaim{}, false
	var keys passkey.Keys
	var known nonces
	for _, e := range events {
		if e.Type == engine.Admin {
			_ = keys.Event(e) // what the log does not bear out changes nothing
		}
		var told signedPayload
		if e.ApprovalID != a.ID || e.Outcome == engine.Deny || json.Unmarshal(e.SafePayload, &told) != nil {
			continue
		}
		keyed = keyed || e.Type == engine.Decided && told.Asked != nil && told.Asked.KeyedFacts
		if told.Fact == nil {
			continue
		}
		i := slices.IndexFunc(a.Facts, func(f Fact) bool { return f.Seq == told.Fact.Seq })
		if i >= 0 && a.Facts[i].Actor == e.Actor && slices.Contains(FactKindsOf(e.Type), a.Facts[i].Kind) {
			signed := told.Signature != nil && told.verify(e, &keys) == nil && known.fresh(told.Signature.Nonce)
			claims[told.Fact.Seq] = append(claims[told.Fact.Seq], loggedClaim{told.FactPayload, signed})
		}
	}
	logged, spent := a.Facts[:0:0], map[string]bool{}
	for _, f := range a.Facts {
		i := slices.IndexFunc(claims[f.Seq], func(c loggedClaim) bool { return f.Payload().same(c.FactPayload) })
		good := i >= 0
		if keyed && authentic != nil {
			good = good && authentic(f) && !spent[f.Details.Mac]
		}
		if good && f.Details.Signature != nil {
			f.Signed = claims[f.Seq][i].signed && f.unaltered()
			good = f.Signed
		} else if good && f.Edition == a.Plan.Edition {
			good = !LacksSignature(a.Plan.Requirements, f.Kind)
		}
		if good {
			spent[f.Details.Mac] = true
			logged = append(logged, f)
		} else {
			a.Unlogged = append(a.Unlogged, f)
		}
	}
	a.Facts = logged
}

// loggedClaim is what an event tells of a fact, and whether its signature is good.
type loggedClaim struct {
	FactPayload
	signed bool
}

// Differs reports whether the fact differs from its event in more than the comment, which may
// have been erased since.
func (f Fact) Differs(e engine.Event) bool {
	var told FactPayload
	if json.Unmarshal(e.SafePayload, &told) != nil || told.Fact == nil || e.Actor != f.Actor {
		return true
	}
	is, was := f.Payload(), *told.Fact
	is.Fact.CommentDigest, was.CommentDigest = "", ""
	told.Fact = &was
	return !is.same(told)
}

// same reports whether both payloads tell of the same fact; what an edition asks for
// is not the fact's.
func (t FactPayload) same(other FactPayload) bool {
	t.Asked, other.Asked = nil, nil
	x, err1 := json.Marshal(t)
	y, err2 := json.Marshal(other)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
