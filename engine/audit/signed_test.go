package audit

import (
	"slices"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/passkey"
	"holdpoint/internal/passkeytest"
)

// enrols adds a passkey of a person's, signed by another one of theirs.
func (w *world) enrols(id string, by *passkeytest.Authenticator) *passkeytest.Authenticator {
	a := passkeytest.New(w, "console.example.com")
	w.changes(passkey.Add, id, a.Key(), by)
	return a
}

// changes adds or removes a passkey.
func (w *world) changes(what, id string, key passkey.Key, by *passkeytest.Authenticator) {
	act, code := w.keys().Next(what, id, key), passkey.Added
	if what == passkey.Remove {
		code = passkey.Removed
	}
	var signed *passkey.Assertion
	if by != nil {
		challenge, err := passkey.Challenge(act)
		if err != nil {
			w.Fatal(err)
		}
		made := by.Assert(challenge[:])
		signed = &made
	}
	w.add(engine.Event{
		Type: engine.Admin, Outcome: engine.Allow, Actor: human(id), Reasons: []engine.Reason{{Code: code, Message: "A passkey came or went."}},
		SafePayload: w.json(passkey.NewChange(act, signed)),
	})
}

func (w *world) keys() *passkey.Keys {
	keys := &passkey.Keys{}
	for _, e := range w.events {
		_ = keys.Event(e)
	}
	return keys
}

func (w *world) resets(id string) {
	w.add(engine.Event{
		Type: engine.Admin, Outcome: engine.Allow, Actor: engine.Actor{Kind: engine.ServiceActor, ID: "key_admin"}, Reasons: []engine.Reason{{Code: passkey.Reset, Message: "Reset."}},
		SafePayload: w.json(map[string]string{"subject": id, "person": id}),
	})
}

// signs has the passkey sign a fact, as it is at this moment.
func (w *world) signs(a *waiting, f approval.Fact, by *passkeytest.Authenticator) approval.Fact {
	f.Details.Salt, f.Details.Signature, f.Signed = w.uuid(), &approval.Signature{Nonce: w.uuid()}, true
	f.Edition = a.Plan.Edition
	f.Details.Signature.ConstraintsDigest = approval.ConstraintsDigest(f.Details.Salt, f.Details.Constraints)
	e, err := approval.SignedEvent(w.about(a, typeOf[f.Kind], a.outcome, f.Actor), f, "")
	if err != nil {
		w.Fatal(err)
	}
	challenge, err := approval.Challenge(e)
	if err != nil {
		w.Fatal(err)
	}
	f.Details.Signature.Assertion = by.Assert(challenge[:])
	return f
}

func signedReview(role string, n int) engine.Requirement {
	r := review(role, n)
	r.Signed = true
	return r
}

// signed is an approval that took two signed votes.
func (w *world) signed() {
	ben, cleo := w.enrols("usr_ben", nil), w.enrols("usr_cleo", nil)
	other := w.ask("pay", time.Hour, approval.Terms{}, signedReview("finance", 2))
	w.say(other, w.signs(other, no("usr_ben"), ben))
	a := w.ask("pay", time.Hour, approval.Terms{}, signedReview("finance", 2))
	vote := yes("usr_ben")
	vote.Details.ValidFor = engine.Duration(5 * time.Minute)
	w.say(a, w.signs(a, vote, ben))
	w.say(a, w.signs(a, yes("usr_cleo"), cleo))
	w.settle(a, "")
	w.redeem(a)
}

func TestSignedVotesAreVerified(t *testing.T) {
	w := newWorld(t, 7)
	w.signed()
	// A second passkey, signed by the first, signs as well; a removed one has.
	ben := w.enrols("usr_ada", nil)
	second := w.enrols("usr_ada", ben)
	a := w.ask("pay", time.Hour, approval.Terms{}, signedReview("reviewer", 1))
	w.say(a, w.signs(a, yes("usr_ada"), second))
	w.changes(passkey.Remove, "usr_ada", second.Key(), ben)
	w.settle(a, "")
	// What nobody demanded may be signed, and glass be broken.
	b := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 1))
	w.say(b, w.signs(b, yes("usr_ada"), ben))
	w.settle(b, "")
	w.resets("usr_ada")
	dina := w.enrols("usr_dina", nil)
	c := w.ask("pay", time.Hour, approval.Terms{}, signedReview("reviewer", 2))
	glass := approval.Fact{Kind: approval.BreakGlass, Yes: true, Actor: human("usr_dina"), Comment: "an emergency", Details: approval.Details{Alone: true, Proof: &approval.Proof{Method: "passkey", At: w.now}}}
	if !w.say(c, w.signs(c, glass, dina)) || !w.settle(c, "") {
		t.Fatal("signed glass approves nothing")
	}
	l := newLog(t, "log.example.com", w.events)
	r := verify(l.verifier(), l.whole())
	if len(r.Problems) != 0 {
		t.Fatal(r.Problems)
	}
	if got := r.Approvals; got.Signed != 6 || got.Signers != 5 || got.Resets != 1 || got.SignedUnknown != 0 {
		t.Errorf("%+v", got)
	}
	// A part of the log has the votes, and not whose the passkeys are.
	part := verify(l.verifier(), l.export(Filter{ApprovalID: a.ID}, func(r Record) bool { return r.ApprovalID == a.ID }))
	if got := part.Approvals; len(part.Problems) != 0 || got.Signed != 0 || got.SignedUnknown != 1 || got.Ended != 1 {
		t.Errorf("%v, %+v", part.Problems, got)
	}
}

// TestForgedSignedVotes: the operator has the key of the log and every row, and not the
// passkeys. The replay names what nobody's passkey has signed.
func TestForgedSignedVotes(t *testing.T) {
	signature := func(t *testing.T, events []engine.Event, n int) map[string]any {
		var found map[string]any
		telling(t, slices.Clone(events), engine.Voted, n, func(_ *engine.Event, p map[string]any) { found = in(p, "signature") })
		return found
	}
	const none = "its signature is none"
	for name, f := range map[string]forgery{
		"unsigned": {want: "takes the signature of a passkey, and it has none", edit: func(t *testing.T, events []engine.Event) []engine.Event {
			return telling(t, events, engine.Voted, 2, func(_ *engine.Event, p map[string]any) { delete(p, "signature") })
		}},
		"a no turned into a yes": {want: none, edit: func(t *testing.T, events []engine.Event) []engine.Event {
			return telling(t, events, engine.Voted, 0, func(_ *engine.Event, p map[string]any) { in(p, "fact")["yes"] = true; delete(in(p, "fact"), "denial") })
		}},
		"another comment": {want: none, edit: func(t *testing.T, events []engine.Event) []engine.Event {
			return telling(t, events, engine.Voted, 1, func(_ *engine.Event, p map[string]any) { in(p, "fact")["comment_digest"] = "sha256:00" })
		}},
		"a longer permission": {want: none, edit: func(t *testing.T, events []engine.Event) []engine.Event {
			return telling(t, events, engine.Voted, 1, func(_ *engine.Event, p map[string]any) { p["valid_for"] = "10m0s" })
		}},
		"another card": {want: none, edit: func(t *testing.T, events []engine.Event) []engine.Event {
			return telling(t, events, engine.Voted, 1, func(_ *engine.Event, p map[string]any) { p["card_digest"] = "sha256:00" })
		}},
		"constraints left out": {want: none, edit: func(t *testing.T, events []engine.Event) []engine.Event {
			return telling(t, events, engine.Voted, 1, func(_ *engine.Event, p map[string]any) { in(p, "signature")["constraints_digest"] = "sha256:00" })
		}},
		"the signature of another approval": {want: none, edit: func(t *testing.T, events []engine.Event) []engine.Event {
			other := signature(t, events, 0)
			return telling(t, events, engine.Voted, 1, func(_ *engine.Event, p map[string]any) { p["signature"] = other })
		}},
		"the signature of another person": {want: none, edit: func(t *testing.T, events []engine.Event) []engine.Event {
			other := signature(t, events, 2)
			return telling(t, events, engine.Voted, 1, func(_ *engine.Event, p map[string]any) { p["signature"] = other })
		}},
		"in another's name": {want: none, edit: func(t *testing.T, events []engine.Event) []engine.Event {
			return telling(t, events, engine.Voted, 1, func(e *engine.Event, _ map[string]any) { e.Actor.ID = "usr_cleo" })
		}},
		"without its passkey": {want: none, edit: func(t *testing.T, events []engine.Event) []engine.Event { return drop(t, events, engine.Admin, 0) }},
		"with a passkey that came afterwards": {want: none, edit: func(t *testing.T, events []engine.Event) []engine.Event {
			i := find(t, events, engine.Admin, 0)
			e := events[i]
			e.Timestamp = events[len(events)-1].Timestamp
			return append(slices.Delete(events, i, i+1), e)
		}},
		"removed before": {want: "none of theirs has signed", edit: func(t *testing.T, events []engine.Event) []engine.Event {
			i := find(t, events, engine.Admin, 1)
			e := events[find(t, events, engine.Admin, 0)]
			e.Reasons, e.Timestamp = []engine.Reason{{Code: passkey.Removed, Message: "x"}}, events[i].Timestamp
			return slices.Insert(events, i+1, e)
		}},
		"said again": {want: "has been given before", make: func(w *world) {
			ben := w.enrols("usr_ben", nil)
			a := w.ask("pay", time.Hour, approval.Terms{}, signedReview("finance", 2))
			first := w.signs(a, yes("usr_ben"), ben)
			w.say(a, first)
			w.say(a, w.signs(a, no("usr_ben"), ben))
			w.append(a, first)
			e := w.about(a, engine.Voted, a.outcome, first.Actor)
			e.SafePayload = w.json(a.Facts[len(a.Facts)-1].Payload())
			w.add(e)
		}, edit: func(_ *testing.T, events []engine.Event) []engine.Event { return events }},
		"glass without a signature": {want: "takes the signature of a passkey, and it has none", make: func(w *world) {
			a := w.ask("pay", time.Hour, approval.Terms{}, signedReview("finance", 2))
			glass := approval.Fact{Kind: approval.BreakGlass, Yes: true, Signed: true, Actor: human("usr_dina"), Comment: "x", Details: approval.Details{Alone: true, Proof: &approval.Proof{Method: "passkey", At: w.now}}}
			w.say(a, glass)
			w.settle(a, "")
		}, edit: func(_ *testing.T, events []engine.Event) []engine.Event { return events }},
		"a second passkey that nobody signed": {want: "none of theirs has signed", make: func(w *world) {
			w.enrols("usr_ben", nil)
			w.enrols("usr_ben", nil)
		}, edit: func(_ *testing.T, events []engine.Event) []engine.Event { return events }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 9)
			if f.make == nil {
				f.make = (*world).signed
			}
			f.make(w)
			l := newLog(t, "log.example.com", f.edit(t, slices.Clone(w.events)))
			mustName(t, verify(l.verifier(), l.whole()), f.want, "event ")
		})
	}
}
