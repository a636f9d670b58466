package gate_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// again reads a person as they stand now, as a session would.
func (h *harness) again(who string) {
	h.t.Helper()
	p, err := h.Store.People.Get(context.Background(), h.people[who].ID)
	if err != nil {
		h.t.Fatal(err)
	}
	h.people[who] = p
}

// give replaces somebody's roles.
func (h *harness) give(who string, roles ...string) {
	h.t.Helper()
	h.db.Exec(`UPDATE people SET roles = $2 WHERE id = $1`, h.people[who].ID, append([]string{}, roles...))
	h.again(who)
}

func (h *harness) delegate(who, deputy string) store.Delegation {
	h.t.Helper()
	d, err := h.Delegations.Create(context.Background(), admin.DelegateRequest{
		By: h.people[who], DeputyID: h.people[deputy].ID, Until: time.Now().Add(time.Hour), Reason: "on the train", Channel: "console",
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

func (h *harness) inbox(who string) (ids []string) {
	h.t.Helper()
	page, err := h.Queries.Inbox(context.Background(), h.people[who], gate.InboxSearch{})
	if err != nil {
		h.t.Fatal(err)
	}
	if page.All != len(page.Rows) || page.Found != len(page.Rows) {
		h.t.Errorf("%s sees %d of %d", who, len(page.Rows), page.All)
	}
	for _, a := range page.Rows {
		ids = append(ids, a.ID)
	}
	return ids
}

func (h *harness) history(who string) (ids []string) {
	h.t.Helper()
	page, err := h.Histories.History(context.Background(), h.people[who], gate.HistorySearch{Limit: 100, Counts: true})
	if err != nil {
		h.t.Fatal(err)
	}
	if page.Found != len(page.Rows) {
		h.t.Errorf("%s sees %d of %d", who, len(page.Rows), page.Found)
	}
	for _, a := range page.Rows {
		ids = append(ids, a.ID)
	}
	return ids
}

// sees says whether the person sees the pending and the ended approval in every
// way in which one can; the ways have to agree.
func (h *harness) sees(who string, pending, ended approval.Approval) bool {
	h.t.Helper()
	ctx := context.Background()
	_, card := h.Queries.Card(ctx, h.people[who], pending.ID, gate.Unrecorded)
	_, read := h.Queries.ForPerson(ctx, h.people[who], ended.ID)
	_, commented := h.Contributions.Comment(ctx, gate.Contribution{Person: h.people[who], ApprovalID: pending.ID, Comment: "x", Channel: "api"}, nil)
	ways := []bool{
		slices.Contains(h.inbox(who), pending.ID), slices.Contains(h.history(who), ended.ID), code(card) != "not_found", code(read) != "not_found", code(commented) != "not_found",
	}
	if slices.Contains(ways, true) && slices.Contains(ways, false) {
		h.t.Errorf("%s sees the approvals in some ways only: %v", who, ways)
	}
	return ways[0]
}

func (h *harness) given(a approval.Approval) int {
	h.t.Helper()
	return h.get(a.ID).Approval.State.Requirements[0].Given
}

func TestDeputySeesWhileInForce(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	ended, pending := h.open(deferred), h.open(deferred)
	if err := h.vote("ben", ended, true); err != nil {
		t.Fatal(err)
	}
	h.settle(ended.ID)
	if h.sees("stranger", pending, ended) {
		t.Fatal("a stranger sees it")
	}
	ahead, err := h.Delegations.Create(ctx, admin.DelegateRequest{
		By: h.people["ada"], DeputyID: h.people["stranger"].ID, From: time.Now().Add(2 * time.Hour), Until: time.Now().Add(3 * time.Hour), Reason: "later",
	})
	if err != nil {
		t.Fatal(err)
	}
	if h.sees("stranger", pending, ended) {
		t.Error("seen before it begins")
	}
	d := h.delegate("ada", "stranger")
	if !h.sees("stranger", pending, ended) {
		t.Error("a deputy does not see what they stand in for")
	}
	card, err := h.Queries.Card(ctx, h.people["stranger"], pending.ID, gate.Unrecorded)
	if err != nil || card.CannotVote != nil || !slices.Equal(card.InPlaceOf, []string{h.people["ada"].ID}) {
		t.Errorf("the card: in place of %v, %v, %v", card.InPlaceOf, card.CannotVote, err)
	}
	if card, err = h.Queries.Card(ctx, h.people["ben"], pending.ID, gate.Unrecorded); err != nil || card.InPlaceOf != nil || card.CannotVote != nil {
		t.Errorf("one who speaks for themselves: in place of %v, %v, %v", card.InPlaceOf, card.CannotVote, err)
	}
	// Its time is over: a delegation cannot be changed, so time is moved.
	h.db.Exec(`ALTER TABLE delegations DISABLE TRIGGER delegations_guard`)
	h.db.Exec(`UPDATE delegations SET from_at = from_at - interval '2 hours', until_at = clock_timestamp() WHERE id = $1`, d.ID)
	h.db.Exec(`ALTER TABLE delegations ENABLE TRIGGER delegations_guard`)
	if h.sees("stranger", pending, ended) {
		t.Error("seen after its end")
	}
	if got := code(h.vote("stranger", pending, true)); got != "not_found" {
		t.Errorf("a vote after its end: %q", got)
	}
	if err := h.Delegations.Revoke(ctx, h.people["ada"], ahead.ID, "console", ""); err != nil {
		t.Error(err)
	}
}

// A deputy gets a say, not what somebody sees for another reason.
func TestDeputyOfTheRequestingSide(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ended, pending := h.open(deferred), h.open(deferred)
	if err := h.vote("ben", ended, true); err != nil {
		t.Fatal(err)
	}
	h.settle(ended.ID)
	h.give("cleo", access.AuditorRole)
	for _, who := range []string{"owner", "cleo"} {
		h.delegate(who, "stranger")
		if h.sees("stranger", pending, ended) {
			t.Errorf("the deputy of %s sees what only that one's own side or office shows", who)
		}
	}
	if got := code(h.vote("stranger", pending, true)); got != "not_found" {
		t.Errorf("the deputy of the requesting side votes: %q", got)
	}
	// The other way round: somebody of the requesting side stands in for a reviewer.
	h.give("owner", "nothing")
	h.delegate("ada", "owner")
	for _, yes := range []bool{true, false} {
		if got := code(h.vote("owner", pending, yes)); got != "self_review" {
			t.Errorf("one of the requesting side votes %t as a deputy: %q", yes, got)
		}
	}
	if slices.Contains(h.inbox("owner"), pending.ID) {
		t.Error("it is in the inbox of the requesting side")
	}
	// And through somebody of the requesting side.
	h.give("dina")
	h.delegate("owner", "dina")
	if got := code(h.vote("dina", pending, true)); got != "not_found" {
		t.Errorf("a chain through the requesting side: %q", got)
	}
}

// Where it takes two noes, somebody's deputies have nothing to say once that one has said
// no, and the numbers of their inboxes say so too. Their own no they may take back.
func TestDeputyAfterANo(t *testing.T) {
	two := routing(time.Hour, 2)
	two.Default.Deny = 2
	h := newHarness(t, two)
	h.give("cleo")
	h.delegate("ada", "stranger")
	h.delegate("ada", "cleo")
	theirs, other := h.open(deferred), h.open(deferred)
	if err := h.vote("ada", theirs, false); err != nil {
		t.Fatal(err)
	}
	if err := h.vote("cleo", other, false); err != nil { // in Ada's place
		t.Fatal(err)
	}
	for who, want := range map[string][]string{"ada": {theirs.ID, other.ID}, "stranger": nil, "cleo": {other.ID}, "ben": {theirs.ID, other.ID}} {
		if got := h.inbox(who); len(got) != len(want) || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("the inbox of %s: got %v, want %v", who, got, want)
		}
	}
}

func TestDelegationLoop(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	h.give("ben")
	h.delegate("ada", "ben")
	h.delegate("ben", "ada")
	a := h.open(deferred)
	if got := code(h.vote("ben", a, true)); got != "" {
		t.Fatal(got)
	}
	for _, who := range []string{"ada", "ada2", "ben"} {
		if got := code(h.vote(who, a, true)); got != "already_voted" {
			t.Errorf("%s in the loop votes as well: %q", who, got)
		}
	}
	if n := h.given(a); n != 1 {
		t.Fatalf("the loop counts %d times", n)
	}
	// With both having the role, each has a voice of their own, and no more.
	h.give("ben", "reviewer")
	b := h.open(deferred)
	for _, step := range []struct{ who, want string }{{"ben", ""}, {"ada", ""}, {"ben", "already_decided"}} {
		if got := code(h.vote(step.who, b, true)); got != step.want {
			t.Errorf("%s: %q, want %q", step.who, got, step.want)
		}
	}
	for _, f := range h.get(b.ID).Approval.Facts {
		if len(f.Via) > 0 {
			t.Errorf("a vote in the place of %v where the own say was enough", f.Via)
		}
	}
}

func TestDeputyAndDelegatorNeverBoth(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	h.delegate("ada", "stranger")
	for _, order := range [][2]string{{"ada", "stranger"}, {"stranger", "ada"}, {"ada2", "stranger"}, {"stranger", "ada2"}} {
		a := h.open(deferred)
		if got := code(h.vote(order[0], a, true)); got != "" {
			t.Fatal(got)
		}
		if got := code(h.vote(order[1], a, true)); got != "already_voted" {
			t.Errorf("%s after %s: %q", order[1], order[0], got)
		}
		if n := h.given(a); n != 1 {
			t.Errorf("%v count %d times", order, n)
		}
	}
	for range 10 {
		a := h.open(deferred)
		var group sync.WaitGroup
		errs := make([]error, 3)
		for i, who := range []string{"ada", "stranger", "ada2"} {
			group.Go(func() { errs[i] = h.vote(who, a, true) })
		}
		group.Wait()
		voted := slices.DeleteFunc(errs, func(err error) bool { return err != nil })
		if n := h.given(a); n != 1 || len(voted) != 1 {
			t.Fatalf("at once: %d voted, and %d count", len(voted), n)
		}
	}
	// A change of mind is theirs together.
	a := h.open(deferred)
	if err := h.vote("stranger", a, true); err != nil {
		t.Fatal(err)
	}
	if got := code(h.vote("ada", a, false)); got != "" {
		t.Errorf("the delegator takes it back: %q", got)
	}
	h.settle(a.ID)
	if got := h.get(a.ID).Approval.Status; got != approval.Denied {
		t.Errorf("after the no: %s", got)
	}
}

func TestDelegationChain(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	line := []string{"ada", "ben", "cleo", "dina", "emil"}
	for i, who := range line[1:] {
		h.give(who)
		h.delegate(line[i], who)
	}
	a := h.open(deferred)
	if got := code(h.vote("emil", a, true)); got != "not_found" {
		t.Errorf("the fourth in line votes: %q", got)
	}
	if got := code(h.vote("dina", a, true)); got != "" {
		t.Fatal(got)
	}
	facts := h.get(a.ID).Approval.Facts
	want := []string{h.people["cleo"].ID, h.people["ben"].ID, h.people["ada"].ID}
	if len(facts) != 1 || !slices.Equal(facts[0].Via, want) {
		t.Fatalf("%+v, want a vote in the place of %v", facts, want)
	}
	for _, who := range []string{"ada", "ben", "cleo"} {
		if got := code(h.vote(who, a, true)); got != "already_voted" {
			t.Errorf("%s of the chain votes as well: %q", who, got)
		}
	}
	events, err := h.Events(context.Background(), store.EventFilter{ApprovalID: a.ID}, 100)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(events, func(e engine.Event) bool { return e.Type == engine.Voted && e.Outcome != engine.Deny })
	if i < 0 || !strings.Contains(string(events[i].SafePayload), `"in_place_of"`) || !strings.Contains(string(events[i].SafePayload), want[2]) {
		t.Errorf("the vote's event does not say in whose place: %+v", events)
	}
	// A link that is gone breaks the chain, and its vote is void.
	h.db.Exec(`UPDATE people SET disabled_at = clock_timestamp() WHERE id = $1`, h.people["ben"].ID)
	if n := h.given(a); n != 0 {
		t.Errorf("a vote through somebody disabled counts %d", n)
	}
	if got := code(h.vote("dina", h.open(deferred), true)); got != "not_found" {
		t.Errorf("through somebody disabled: %q", got)
	}
}

func TestDelegationRevokedBetweenPageAndVote(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	for _, by := range []string{"ada", "stranger"} {
		a, d := h.open(deferred), h.delegate("ada", "stranger")
		if _, err := h.Queries.Card(ctx, h.people["stranger"], a.ID, gate.Excerpt); err != nil {
			t.Fatal(err)
		}
		if err := h.Delegations.Revoke(ctx, h.people["ben"], d.ID, "console", ""); code(err) != "not_found" {
			t.Errorf("somebody else revokes it: %v", err)
		}
		if err := h.Delegations.Revoke(ctx, h.people[by], d.ID, "console", ""); err != nil {
			t.Fatal(err)
		}
		if got := code(h.vote("stranger", a, true)); got != "not_found" {
			t.Errorf("revoked by %s: a vote is %q", by, got)
		}
		if err := h.Delegations.Revoke(ctx, h.people[by], d.ID, "console", ""); code(err) != "not_found" {
			t.Errorf("revoked twice: %v", err)
		}
	}
}

func TestDeputyDecidesWhatTakesAHuman(t *testing.T) {
	h := newPolicyHarness(t)
	h.give("dina")
	h.delegate("ada", "dina")
	a := *h.check(params("deploy", "")).Approval
	p := h.people["dina"]
	p.VerifiedBy, p.VerifiedAt = "passkey", time.Now().Add(-time.Hour)
	h.people["dina"] = p
	if got := code(h.vote("dina", a, true)); got != "verification_required" {
		t.Errorf("with an old proof: %q", got)
	}
	p.VerifiedBy, p.VerifiedAt = "passkey", time.Now().Add(-time.Minute)
	h.people["dina"] = p
	if got := code(h.vote("dina", a, true)); got != "" {
		t.Errorf("with a fresh proof: %q", got)
	}
	if n := h.given(a); n != 1 {
		t.Errorf("%d given", n)
	}
}

// What a role asks of those who have it is asked of their deputies.
func TestDeputyOfARoleThatNeedsASecondFactor(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	h.config.SecondFactorRoles = []string{"reviewer"}
	var err error
	if h.Gate, err = gate.New(h.config); err != nil {
		t.Fatal(err)
	}
	h.delegate("ada", "stranger")
	a := h.open(deferred)
	for _, yes := range []bool{true, false} {
		if got := code(h.vote("stranger", a, yes)); got != "second_factor_needed" {
			t.Errorf("with a password alone: %q", got)
		}
	}
	p := h.people["stranger"]
	p.ProviderMFA = true
	h.people["stranger"] = p
	if err := h.vote("stranger", a, true); err != nil || h.given(a) != 1 {
		t.Errorf("with more than one factor at the provider: %v, %d given", err, h.given(a))
	}
	// Somebody with the role is asked by the doors, where they sign in.
	if err := h.vote("ben", a, true); err != nil {
		t.Errorf("for themselves: %v", err)
	}
}

func TestRoleLostByTheDelegator(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	h.delegate("ada", "stranger")
	a := h.open(deferred)
	if err := h.vote("stranger", a, true); err != nil {
		t.Fatal(err)
	}
	h.db.Exec(`DELETE FROM outbox`)
	h.give("ada", "gardener")
	if n := h.given(a); n != 0 {
		t.Errorf("the vote counts %d", n)
	}
	if !h.pokedAt(a.ID) {
		t.Error("what waits is not looked at again")
	}
	if got := code(h.vote("stranger", a, true)); got != "not_found" {
		t.Errorf("a deputy of somebody without the role: %q", got)
	}
	// The delegate has no role of theirs that it asks for, and is gone.
	h.give("ada", "reviewer")
	h.db.Exec(`DELETE FROM outbox`)
	h.db.Exec(`UPDATE people SET disabled_at = clock_timestamp() WHERE id = $1`, h.people["stranger"].ID)
	if n := h.given(a); n != 0 || !h.pokedAt(a.ID) {
		t.Errorf("a disabled deputy's vote counts %d", n)
	}
}

// What a person has handed on is void when their account is disabled, and stays so: whoever was in it may
// have said it.
func TestVoidDelegationStaysVoid(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	ctx := context.Background()
	h.delegate("ada", "stranger")
	a := h.open(deferred)
	holds := func(what string, want bool) {
		t.Helper()
		absences, err := h.Delegations.Absences(ctx, h.people["stranger"])
		if err != nil {
			t.Fatal(err)
		}
		if in, listed := slices.Contains(h.inbox("stranger"), a.ID), len(absences.For) > 0; in != want || listed != want {
			t.Errorf("%s: in the deputy’s inbox %t, listed %t, want %t", what, in, listed, want)
		}
	}
	holds("before", true)
	h.db.Exec(`UPDATE people SET disabled_at = clock_timestamp() WHERE id = $1`, h.people["ada"].ID)
	if got := code(h.vote("stranger", a, true)); got != "not_found" {
		t.Errorf("a deputy of somebody who is disabled: %q", got)
	}
	h.db.Exec(`UPDATE people SET disabled_at = NULL WHERE id = $1`, h.people["ada"].ID)
	holds("enabled again", false)
	if got := code(h.vote("stranger", a, true)); got != "not_found" {
		t.Errorf("a deputy of somebody who was disabled: %q", got)
	}
	h.delegate("ada", "stranger") // and nothing overlaps
	holds("handed on anew", true)
	if err := h.vote("stranger", a, true); err != nil || h.given(a) != 1 {
		t.Errorf("a deputy’s vote of then counts %d: %v", h.given(a), err)
	}
}

// pokedAt reports whether the approval is in the outbox.
func (h *harness) pokedAt(id string) (there bool) {
	h.t.Helper()
	conn := h.db.Connect(h.db.URL)
	if err := conn.QueryRow(context.Background(), `SELECT EXISTS (SELECT FROM outbox WHERE approval_id = $1)`, id).Scan(&there); err != nil {
		h.t.Fatal(err)
	}
	return there
}
