package gate_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/passkey"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/internal/passkeytest"
	"holdpoint/internal/store"
)

// signing is routing that demands signed votes.
func signing(needed int) approval.Routing {
	r := routing(time.Hour, needed)
	r.Default.Signed = true
	return r
}

// passkey gives somebody a passkey that the log knows.
func (h *harness) passkey(who string) *passkeytest.Authenticator {
	h.t.Helper()
	p, a := h.people[who], passkeytest.New(h.t, "console.example.com")
	p.VerifiedBy, p.VerifiedAt = identity.Password, time.Now()
	c, err := h.Factors.BeginPasskey(context.Background(), p)
	if err == nil {
		err = h.Factors.FinishPasskey(context.Background(), p, "laptop", c.ChallengeID, a.Create(c.PublicKey))
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

func (h *harness) ballot(who string, a approval.Approval, approve bool) gate.VoteRequest {
	v := gate.VoteRequest{Person: h.people[who], ApprovalID: a.ID, Approve: approve, Digest: a.Call.Digest, Version: a.Version, Comment: "as agreed", Channel: "console"}
	if !approve {
		v.Denial = approval.Never
	}
	return v
}

// signs has a passkey sign a vote.
func (h *harness) signs(v gate.VoteRequest, a *passkeytest.Authenticator) gate.VoteRequest {
	h.t.Helper()
	c, err := h.Contributions.SignVote(context.Background(), v)
	if err != nil {
		h.t.Fatal(err)
	}
	v.Signed = identity.Proof{ChallengeID: c.ChallengeID, Assertion: a.Get(c.PublicKey)}
	return v
}

func (h *harness) casts(v gate.VoteRequest) error {
	_, err := h.Contributions.Vote(context.Background(), v, nil)
	return err
}

// everything is all events, in the order in which they were appended.
func (h *harness) everything() []engine.Event {
	h.t.Helper()
	list, err := h.Events(context.Background(), store.EventFilter{}, 10000)
	if err != nil {
		h.t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b engine.Event) int { return a.Timestamp.Compare(b.Timestamp) })
	return list
}

func TestSignedVoteSettles(t *testing.T) {
	h := newHarness(t, signing(1))
	a := h.open(deferred)
	if !a.State.Requirements[0].Signed {
		t.Fatalf("it asks for %+v", a.State.Requirements)
	}
	key := h.passkey("ada")
	if got := code(h.vote("ada", a, true)); got != "signature_required" {
		t.Errorf("an unsigned yes: %q", got)
	}
	if got := code(h.vote("ada", a, false)); got != "signature_required" {
		t.Errorf("an unsigned no: %q", got)
	}
	if _, err := h.Contributions.SignVote(t.Context(), h.ballot("ben", a, true)); code(err) != "no_signing_key" {
		t.Errorf("who has no passkey: %v", err)
	}
	if _, err := h.Contributions.SignVote(t.Context(), h.ballot("owner", a, true)); code(err) != "self_review" {
		t.Errorf("the requesting side: %v", err)
	}
	v := h.ballot("ada", a, true)
	v.Constraints, v.ValidFor = json.RawMessage(`{ "max_amount": 100000 }`), 10*time.Minute
	if err := h.casts(h.signs(v, key)); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	got := h.get(a.ID)
	h.want("with a signed vote", got.Approval, approval.Approved)
	if got.Token == "" {
		t.Error("there is no token")
	}
	if err := h.redeem(h.agent, got.Token, "pay", args); err != nil {
		t.Error(err)
	}
	log := audit.Replay{Whole: true}
	for _, e := range h.everything() {
		if err := log.Event(e); err != nil {
			t.Error(err)
		}
	}
	if done := log.Done(); done.Signed != 1 || done.Signers != 1 || done.Ended != 1 {
		t.Errorf("%+v", done)
	}
	// A no is signed as well, and takes no proof.
	b := h.open(another(deferred))
	if err := h.casts(h.signs(h.ballot("ada", b, false), key)); err != nil {
		t.Fatal(err)
	}
	h.settle(b.ID)
	h.want("with a signed no", h.get(b.ID).Approval, approval.Denied)
}

// What one passkey has signed is good for nothing else at the door.
func TestSignatureIsOfOneVote(t *testing.T) {
	h := newHarness(t, signing(2))
	ada, ben := h.passkey("ada"), h.passkey("ben")
	a, other := h.open(deferred), h.open(another(deferred))
	for name, try := range map[string]struct {
		vote func() gate.VoteRequest
		want string
	}{
		"another comment":     {func() gate.VoteRequest { v := h.signs(h.ballot("ada", a, true), ada); v.Comment = "no"; return v }, "signature_invalid"},
		"a no used as a yes":  {func() gate.VoteRequest { v := h.signs(h.ballot("ada", a, false), ada); v.Approve = true; return v }, "signature_invalid"},
		"a longer permission": {func() gate.VoteRequest { v := h.signs(h.ballot("ada", a, true), ada); v.ValidFor = time.Hour; return v }, "signature_invalid"},
		"other constraints": {func() gate.VoteRequest {
			v := h.ballot("ada", a, true)
			v.Constraints = json.RawMessage(`{"max_amount":100000}`)
			v = h.signs(v, ada)
			v.Constraints = nil
			return v
		}, "signature_invalid"},
		"another approval": {func() gate.VoteRequest {
			v := h.ballot("ada", a, true)
			v.Signed = h.signs(h.ballot("ada", other, true), ada).Signed
			return v
		}, "verification_failed"},
		"another person's": {func() gate.VoteRequest {
			v := h.ballot("ada", a, true)
			v.Signed = h.signs(h.ballot("ben", a, true), ben).Signed
			return v
		}, "verification_failed"},
		"another person's passkey": {func() gate.VoteRequest { return h.signs(h.ballot("ada", a, true), ben) }, "verification_failed"},
		"another origin": {func() gate.VoteRequest {
			liar := *ada
			liar.Origin = "https://console.example.org"
			return h.signs(h.ballot("ada", a, true), &liar)
		}, "verification_failed"},
		"another port": {func() gate.VoteRequest {
			liar := *ada
			liar.Origin += ":8443"
			return h.signs(h.ballot("ada", a, true), &liar)
		}, "verification_failed"},
		"another host": {func() gate.VoteRequest {
			liar := *ada
			liar.RPID = "example.com"
			return h.signs(h.ballot("ada", a, true), &liar)
		}, "verification_failed"},
		"no user verification": {func() gate.VoteRequest {
			liar := *ada
			liar.Flags = 1
			return h.signs(h.ballot("ada", a, true), &liar)
		}, "verification_failed"},
		"nothing": {func() gate.VoteRequest {
			v := h.ballot("ada", a, true)
			v.Signed.Assertion = []byte(`{}`)
			return v
		}, "verification_failed"},
	} {
		if got := code(h.casts(try.vote())); got != try.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	v := h.signs(h.ballot("ada", a, true), ada)
	if err := h.casts(v); err != nil {
		t.Fatal(err)
	}
	if got := code(h.casts(v)); got != "verification_failed" {
		t.Errorf("the same again: %q", got)
	}
	// An edit makes another call of it: what was signed is of the former.
	v = h.signs(h.ballot("ben", a, true), ben)
	if _, err := h.edit("cleo", a, `{"amount":1,"to":"ada"}`); err != nil {
		t.Fatal(err)
	}
	if got := code(h.casts(v)); got != "stale" {
		t.Errorf("after an edit: %q", got)
	}
	now := h.get(a.ID).Approval
	v.Digest, v.Version = now.Call.Digest, now.Version
	if got := code(h.casts(v)); got != "verification_failed" {
		t.Errorf("after an edit, on its page: %q", got)
	}
	// So does a card that is another than when it was signed.
	v = h.signs(h.ballot("ben", now, true), ben)
	if err := h.Queries.Show(t.Context(), h.people["ben"], "console", gate.SeenCard{Approval: now, Card: []byte("another card")}); err != nil {
		t.Fatal(err)
	}
	if got := code(h.casts(v)); got != "signature_invalid" {
		t.Errorf("after another card: %q", got)
	}
	if err := h.casts(h.signs(h.ballot("ben", now, true), ben)); err != nil {
		t.Error(err)
	}
}

// A passkey that was removed signs nothing any more, and no vote of the database's own.
func TestRemovedPasskeySignsNothing(t *testing.T) {
	h := newHarness(t, signing(1))
	ada, ctx := h.passkey("ada"), t.Context()
	a := h.open(deferred)
	v := h.signs(h.ballot("ada", a, true), ada)
	p := h.people["ada"]
	p.VerifiedBy, p.VerifiedAt = identity.Passkey, time.Now()
	c, err := h.Factors.BeginRemoval(ctx, p, ada.Credential)
	if err == nil {
		err = h.Factors.RemovePasskey(ctx, p, ada.Credential, identity.Proof{ChallengeID: c.ChallengeID, Assertion: ada.Get(c.PublicKey)})
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := code(h.casts(v)); got != "verification_failed" {
		t.Errorf("a vote that a removed passkey signed: %q", got)
	}
	if _, err := h.Contributions.SignVote(ctx, h.ballot("ada", a, true)); code(err) != "no_signing_key" {
		t.Errorf("a removed passkey is asked: %v", err)
	}
}

// keyed writes a row of facts with the keyed hash that only the data key makes, and the
// event that the gate would append: the intruder has both, and nobody's passkey.
func (i intruder) keyed(a approval.Approval, f approval.Fact) approval.Fact {
	i.t.Helper()
	f.Edition = a.Plan.Edition
	f.Details.Mac = "FORGED" + uuid.NewString() + "."
	told, err := f.Authentic(a.ID)
	if err != nil {
		i.t.Fatal(err)
	}
	f.Details.Mac += hex.EncodeToString(i.db.Sealer.Fact(told))
	conn := i.db.Connect(i.db.RuntimeURL)
	if err := conn.QueryRow(context.Background(), `INSERT INTO facts (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment, details)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING seq, at`,
		a.ID, f.Kind, f.Actor.Kind, f.Actor.ID, f.Actor.Channel, f.Yes, f.Denial, f.Comment, f.Details).Scan(&f.Seq, &f.At); err != nil {
		i.t.Fatal(err)
	}
	e := gate.ApprovalEvent(i.db.Sealer, engine.Voted, a.Decision.Outcome, a, f.Actor, "")
	if e, err = approval.SignedEvent(e, f, ""); err != nil {
		i.t.Fatal(err)
	}
	i.appends(e)
	return f
}

// signature is over the fact as the intruder's event tells of it, by a passkey.
func (i intruder) signature(a approval.Approval, f approval.Fact, by *passkeytest.Authenticator) approval.Fact {
	i.t.Helper()
	f.Edition = a.Plan.Edition
	f.Details.Signature = &approval.Signature{Nonce: uuid.NewString()}
	e, err := approval.SignedEvent(gate.ApprovalEvent(i.db.Sealer, engine.Voted, a.Decision.Outcome, a, f.Actor, ""), f, "")
	if err != nil {
		i.t.Fatal(err)
	}
	challenge, err := approval.Challenge(e)
	if err != nil {
		i.t.Fatal(err)
	}
	f.Details.Signature.Assertion = by.Assert(challenge[:])
	return f
}

// verified is what a verifier of the whole log says.
func (h *harness) verified() error {
	h.t.Helper()
	log := audit.Replay{Whole: true}
	for _, e := range h.everything() {
		if err := log.Event(e); err != nil {
			return err
		}
	}
	return nil
}

// Whoever holds the runtime role and the data key, but nobody's passkey, settles
// nothing where votes are signed, and whoever verifies the log finds it.
func TestForgedSignedVotes(t *testing.T) {
	h := newHarness(t, signing(1))
	i, ada, ben := h.intruder(), h.passkey("ada"), h.passkey("ben")
	own := passkeytest.New(t, "console.example.com")
	if err := h.verified(); err != nil {
		t.Fatal(err)
	}
	for name, forge := range map[string]func(a approval.Approval) approval.Fact{
		"unsigned":             func(approval.Approval) approval.Fact { return h.yes("ada") },
		"by a passkey of ours": func(a approval.Approval) approval.Fact { return i.signature(a, h.yes("ada"), own) },
		"by another person's":  func(a approval.Approval) approval.Fact { return i.signature(a, h.yes("ada"), ben) },
		"of another approval": func(a approval.Approval) approval.Fact {
			return i.signature(h.open(another(deferred)), h.yes("ada"), ada)
		},
		"a no made a yes": func(a approval.Approval) approval.Fact {
			f := h.yes("ada")
			f.Yes, f.Denial = false, approval.Never
			f = i.signature(a, f, ada)
			f.Yes, f.Denial = true, ""
			return f
		},
		"another comment": func(a approval.Approval) approval.Fact {
			f := i.signature(a, h.yes("ada"), ada)
			f.Comment, f.Details.Salt = "fine", "salt"
			return f
		},
		"an altered signature": func(a approval.Approval) approval.Fact {
			f := i.signature(a, h.yes("ada"), ada)
			f.Details.Signature.Signature[8] ^= 1
			return f
		},
		"a yes from somebody without a passkey": func(approval.Approval) approval.Fact { return h.yes("cleo") },
	} {
		t.Run(name, func(t *testing.T) {
			a := h.open(another(deferred))
			f := i.keyed(a, forge(a))
			h.settle(a.ID)
			got := h.get(a.ID)
			h.want("with a forged vote", got.Approval, approval.Pending)
			if given := got.Approval.State.Requirements[0].Given; given != 0 || got.Token != "" {
				t.Errorf("%d votes count, and the token is %q", given, got.Token)
			}
			if got := h.alarms(a.ID); !slices.Equal(got, []int64{f.Seq}) {
				t.Errorf("the log tells of the facts %v", got)
			}
			if audit.Contradiction(h.about(a.ID)) == nil || h.verified() == nil {
				t.Error("whoever verifies the log finds nothing")
			}
		})
	}
}

// about are the events of an approval, and of everybody's passkeys.
func (h *harness) about(id string) []engine.Event {
	return slices.DeleteFunc(h.everything(), func(e engine.Event) bool { return e.ApprovalID != id && e.Type != engine.Admin })
}

// Nor does a passkey help that the intruder writes beside those that are there, or what
// was signed for a vote that was taken back.
func TestForgedPasskeySignsNothing(t *testing.T) {
	h := newHarness(t, signing(2))
	i, ada := h.intruder(), h.passkey("ada")
	own := passkeytest.New(t, "console.example.com")
	key := own.Key()
	told, err := json.Marshal(passkey.Change{Factor: "passkey", Person: h.people["ada"].ID, Passkey: &key})
	if err != nil {
		t.Fatal(err)
	}
	i.exec(`INSERT INTO passkeys (credential_id, person_id, public_key, sign_count, aaguid, transports, name, backup_eligible, backed_up)
		SELECT $1, person_id, public_key, 0, aaguid, transports, 'x', false, false FROM passkeys WHERE person_id = $2`, own.Credential, h.people["ada"].ID)
	i.appends(engine.Event{
		Type: engine.Admin, Outcome: engine.Allow, Reasons: []engine.Reason{{Code: passkey.Added, Message: "A passkey was added."}}, SafePayload: told,
		Actor: engine.Actor{Kind: engine.HumanActor, ID: h.people["ada"].ID, Channel: "console"},
	})
	if err := h.verified(); err == nil || !strings.Contains(err.Error(), "none of theirs has signed") {
		t.Errorf("whoever verifies the log finds %v", err)
	}
	a := h.open(deferred)
	i.keyed(a, i.signature(a, h.yes("ada"), own))
	h.settle(a.ID)
	if given := h.get(a.ID).Approval.State.Requirements[0].Given; given != 0 {
		t.Error("a vote by a forged passkey counts")
	}
	// A yes, a no, and the yes again.
	b := h.open(another(deferred))
	if err := h.casts(h.signs(h.ballot("ada", b, true), ada)); err != nil {
		t.Fatal(err)
	}
	if err := h.casts(h.signs(h.ballot("ada", b, false), ada)); err != nil {
		t.Fatal(err)
	}
	h.want("after a no", h.get(b.ID).Approval, approval.Pending)
}

// Nor by changing what the approval asks for, nor by writing its end and token.
func TestForgedEndOfSignedApproval(t *testing.T) {
	h := newHarness(t, signing(1))
	i, ada := h.intruder(), h.passkey("ada")
	a := h.open(deferred)
	i.writes(a, approval.Fact{Kind: approval.Reopen, Actor: engine.Actor{Kind: engine.SystemActor, ID: "settle", Channel: "engine"}})
	i.exec(`UPDATE approvals SET requirements = (SELECT jsonb_agg(r - 'signed') FROM jsonb_array_elements(requirements) r), edition = 2 WHERE id = $1`, a.ID)
	i.keyed(h.get(a.ID).Approval, h.yes("ada"))
	h.settle(a.ID)
	got := h.get(a.ID)
	h.want("with requirements that were changed", got.Approval, approval.Denied)
	if why := got.Approval.Reasons; len(why) != 1 || why[0].Code != "recheck_failed" {
		t.Errorf("got %+v", why)
	}

	approved, forged := h.open(another(deferred)), h.open(another(deferred))
	if err := h.casts(h.signs(h.ballot("ada", approved, true), ada)); err != nil {
		t.Fatal(err)
	}
	h.settle(approved.ID)
	if h.get(approved.ID).Token == "" {
		t.Fatal("an approved call has no token")
	}
	i.keyed(forged, h.yes("ada"))
	id := store.NewID("tok")
	id += hex.EncodeToString(i.db.Sealer.Row("token", forged.ID, id)[:16])
	i.exec(`UPDATE approvals SET status = 'approved', reasons = '[]', final = (SELECT final FROM approvals WHERE id = $2) WHERE id = $1`, forged.ID, approved.ID)
	i.exec(`INSERT INTO tokens (jti, approval_id, valid_until) VALUES ($2, $1, now() + interval '1 h')`, forged.ID, id)
	if got := h.get(forged.ID); got.Approval.Status != approval.Approved || got.Token != "" {
		t.Errorf("it is %s, with the token %q", got.Approval.Status, got.Token)
	}
}

// Where a fresh proof is due, what the voter's passkey signs is the proof.
func TestSignedVoteIsItsOwnProof(t *testing.T) {
	h := newPolicyHarness(t)
	ada, stranger := h.passkey("ada"), h.passkey("stranger")
	a := h.check(params("deploy", "")).Approval
	if _, err := h.Contributions.Vote(t.Context(), h.ballot("ada", *a, true), nil); code(err) != "verification_required" {
		t.Errorf("without a proof: %v", err)
	}
	card, err := h.Queries.Card(t.Context(), h.people["ada"], a.ID, gate.Unrecorded)
	if err != nil || card.SignYes || !card.CanSign {
		t.Errorf("the card says that it takes a signature: %t, and that Ada can sign: %t, %v", card.SignYes, card.CanSign, err)
	}
	for who, key := range map[string]*passkeytest.Authenticator{"ada": ada, "stranger": stranger} {
		if err := h.casts(h.signs(h.ballot(who, *a, true), key)); err != nil {
			t.Fatal(err)
		}
	}
	h.settle(a.ID)
	h.want("with signed votes of two groups", h.get(a.ID).Approval, approval.Approved)
	if err := h.verified(); err != nil {
		t.Error(err)
	}
}

// Breaking the glass of what takes signed votes is signed as well.
func TestBreakGlassIsSigned(t *testing.T) {
	h := newHarness(t, signing(1))
	h.join("eve", approval.BreakGlassRole)
	a := h.open(deferred)
	s := h.says("eve", a.ID, "the building is on fire")
	s.Person.VerifiedBy, s.Person.VerifiedAt = identity.Password, time.Now()
	breaks := func(s gate.Contribution) error {
		_, err := h.Contributions.BreakGlass(t.Context(), s, true, a.Call.Digest, a.Version, nil)
		return err
	}
	if got := code(breaks(s)); got != "signature_required" {
		t.Errorf("unsigned: %q", got)
	}
	key := h.passkey("eve")
	sign := func(alone bool) gate.Contribution {
		t.Helper()
		c, err := h.Contributions.SignBreakGlass(t.Context(), s, alone, a.Call.Digest, a.Version)
		if err != nil {
			t.Fatal(err)
		}
		signed := s
		signed.Signed = identity.Proof{ChallengeID: c.ChallengeID, Assertion: key.Get(c.PublicKey)}
		return signed
	}
	if got := code(breaks(sign(false))); got != "signature_invalid" {
		t.Errorf("signed for two, and done alone: %q", got)
	}
	if err := breaks(sign(true)); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	h.want("with signed glass", h.get(a.ID).Approval, approval.Approved)
	if err := h.verified(); err != nil {
		t.Error(err)
	}
}
