package gate_test

import (
	"context"
	"encoding/json"
	"maps"
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

func TestWhoMayDelegateToWhom(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	h.give("emil", access.AdminRole)
	h.db.Exec(`UPDATE people SET disabled_at = clock_timestamp() WHERE id = $1`, h.people["dina"].ID)
	id := func(who string) string { return h.people[who].ID }
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	good := admin.DelegateRequest{By: h.people["ada"], DeputyID: id("ben"), Until: in(24 * time.Hour), Reason: "away", Channel: "console"}
	for name, c := range map[string]struct {
		change func(*admin.DelegateRequest)
		want   string
	}{
		"nobody":                    {func(r *admin.DelegateRequest) { r.DeputyID = "" }, "no_deputy"},
		"somebody who is not there": {func(r *admin.DelegateRequest) { r.DeputyID = "usr_x" }, "nobody"},
		"a text":                    {func(r *admin.DelegateRequest) { r.DeputyID = "a\x00b" }, "nobody"},
		"oneself":                   {func(r *admin.DelegateRequest) { r.DeputyID = id("ada") }, "own_deputy"},
		"the own other account":     {func(r *admin.DelegateRequest) { r.DeputyID = id("ada2") }, "own_deputy"},
		"a disabled person":         {func(r *admin.DelegateRequest) { r.DeputyID = id("dina") }, "nobody"},
		"a disabled person, by an admin": {func(r *admin.DelegateRequest) {
			r.By, r.PersonID, r.DeputyID = h.people["emil"], id("cleo"), id("dina")
		}, "disabled"},
		"until never":           {func(r *admin.DelegateRequest) { r.Until = time.Time{} }, "until_missing"},
		"until yesterday":       {func(r *admin.DelegateRequest) { r.From, r.Until = in(-48*time.Hour), in(-24*time.Hour) }, "until_too_early"},
		"backwards":             {func(r *admin.DelegateRequest) { r.From, r.Until = in(48*time.Hour), in(24*time.Hour) }, "until_too_early"},
		"for a year":            {func(r *admin.DelegateRequest) { r.Until = in(365 * 24 * time.Hour) }, "too_long"},
		"just too long":         {func(r *admin.DelegateRequest) { r.From, r.Until = in(time.Hour), in(91*24*time.Hour) }, "too_long"},
		"in two years":          {func(r *admin.DelegateRequest) { r.From, r.Until = in(700*24*time.Hour), in(701*24*time.Hour) }, "too_far"},
		"without a reason":      {func(r *admin.DelegateRequest) { r.Reason = " " }, "reason_required"},
		"with a long reason":    {func(r *admin.DelegateRequest) { r.Reason = strings.Repeat("x", access.MaxReason+1) }, "reason_too_long"},
		"with a strange reason": {func(r *admin.DelegateRequest) { r.Reason = "a\x00b" }, "unfit_text"},
		"somebody else's":       {func(r *admin.DelegateRequest) { r.PersonID = id("cleo") }, "not_yours"},
		"by an admin to themselves": {func(r *admin.DelegateRequest) {
			r.By, r.PersonID, r.DeputyID = h.people["emil"], id("cleo"), id("emil")
		}, "own_deputy"},
	} {
		r := good
		c.change(&r)
		if _, err := h.Delegations.Create(ctx, r); code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if a, err := h.Delegations.Absences(ctx, h.people["emil"]); err != nil || len(a.All) > 0 {
		t.Fatalf("what was refused is there: %+v, %v", a.All, err)
	}
	for _, step := range []struct {
		from, until time.Duration
		want        string
	}{
		{0, 24 * time.Hour, ""}, {time.Hour, 2 * time.Hour, "overlaps"}, {23 * time.Hour, 48 * time.Hour, "overlaps"}, {-time.Hour, time.Hour, "overlaps"}, {25 * time.Hour, 48 * time.Hour, ""},
	} {
		r := good
		r.From, r.Until = in(step.from), in(step.until)
		if _, err := h.Delegations.Create(ctx, r); code(err) != step.want {
			t.Errorf("from %s until %s: %v, want %q", step.from, step.until, err, step.want)
		}
	}
	byAdmin := good
	byAdmin.By, byAdmin.PersonID, byAdmin.DeputyID = h.people["emil"], id("cleo"), id("ben")
	d, err := h.Delegations.Create(ctx, byAdmin)
	if err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string][3]int{"ada": {2, 0, 0}, "ben": {0, 3, 0}, "cleo": {1, 0, 0}, "emil": {0, 0, 3}, "stranger": {0, 0, 0}} {
		a, err := h.Delegations.Absences(ctx, h.people[who])
		if got := [3]int{len(a.Mine), len(a.For), len(a.All)}; err != nil || got != want {
			t.Errorf("%s sees %v, %v, want %v", who, got, err, want)
		}
		if slices.ContainsFunc(a.People, func(p engine.Person) bool { return p.Disabled }) {
			t.Error("a disabled person is offered")
		}
	}
	for who, want := range map[string][]string{"ada": {"ada", "ada again", "ben", "cleo", "owner"}, "stranger": {"stranger"}} {
		a, err := h.Delegations.Absences(ctx, h.people[who])
		var offered []string
		for _, p := range a.People {
			offered = append(offered, p.Name)
		}
		slices.Sort(offered)
		if err != nil || !slices.Equal(offered, want) {
			t.Errorf("%s is offered %v, %v, want %v", who, offered, err, want)
		}
	}
	byAddress := good
	byAddress.By, byAddress.DeputyID = h.people["stranger"], strings.ToUpper(h.people["ada"].Email)
	byAddress.PersonID = ""
	if d, err := h.Delegations.Create(ctx, byAddress); err != nil || d.DeputyID != id("ada") {
		t.Errorf("named by address: %+v, %v", d, err)
	}
	byAddress.DeputyID = "nobody@example.com"
	if _, err := h.Delegations.Create(ctx, byAddress); code(err) != "nobody" {
		t.Errorf("nobody's address: %v", err)
	}
	// Whoever tries one address after the other is not told for long which of them there is, and is on record.
	guessed, answers := byAddress, map[string]int{}
	guessed.By = h.people["ben"]
	for range 20 {
		_, err := h.Delegations.Create(ctx, guessed)
		answers[code(err)]++
	}
	guessed.DeputyID = h.people["cleo"].Email
	_, err = h.Delegations.Create(ctx, guessed)
	answers["there is one: "+code(err)]++
	if want := map[string]int{"nobody": 10, "too_many_attempts": 10, "there is one: too_many_attempts": 1}; !maps.Equal(answers, want) {
		t.Errorf("guessing is answered %v, want %v", answers, want)
	}
	if n, err := h.Store.Events.CountBy(ctx, id("ben"), "nobody", time.Hour); err != nil || n != 10 {
		t.Errorf("%d guesses are on record, %v", n, err)
	}
	if err := h.Delegations.Revoke(ctx, h.people["emil"], d.ID, "console", ""); err != nil {
		t.Errorf("an administrator revokes it: %v", err)
	}
	events, err := h.Events(ctx, store.EventFilter{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"DELEGATION_MADE", "DELEGATION_REVOKED"} {
		i := slices.IndexFunc(events, func(e engine.Event) bool {
			return e.Type == engine.Admin && len(e.Reasons) > 0 && e.Reasons[0].Code == want && strings.Contains(string(e.SafePayload), d.ID)
		})
		if i < 0 {
			t.Fatalf("no event %s", want)
		}
		var payload struct {
			Person, Deputy string
			From, Until    time.Time
		}
		e := events[i]
		if err := json.Unmarshal(e.SafePayload, &payload); err != nil || payload.Person != id("cleo") || payload.Deputy != id("ben") || payload.From.IsZero() || payload.Until.IsZero() ||
			strings.Contains(string(e.SafePayload), "away") || e.Actor.ID != id("emil") {
			t.Errorf("%s: %s by %s, %v", want, e.SafePayload, e.Actor.ID, err)
		}
	}
	if !slices.ContainsFunc(events, func(e engine.Event) bool {
		return e.Outcome == engine.Deny && len(e.Reasons) > 0 && e.Reasons[0].Code == "not_yours"
	}) {
		t.Error("that somebody wanted to dispose of somebody else's say is not on record")
	}
}

func TestSuggestedReviewers(t *testing.T) {
	r := routing(time.Hour, 1)
	r.Default.Suggested = []string{"stranger@example.com"}
	h := newHarness(t, r)
	a := h.open(deferred)
	if got := code(h.vote("stranger", a, true)); got != "not_found" {
		t.Errorf("somebody who is suggested has a say: %q", got)
	}
}

// The roles of an office stay with who has it: a deputy who sees the call for another reason does not decide
// by them, be it that the rule itself asks for them.
func TestNobodyDecidesByAnOfficeOfSomebodyElse(t *testing.T) {
	for _, office := range []string{access.AdminRole, access.AuditorRole, approval.BreakGlassRole} {
		t.Run(office, func(t *testing.T) {
			by := routing(time.Hour, 1)
			by.Default.Role = office
			h := newHarness(t, by)
			h.give("ada", office)
			h.give("stranger", access.AuditorRole)
			if office == access.AuditorRole {
				h.give("stranger", approval.BreakGlassRole)
			}
			h.delegate("ada", "stranger")
			a := h.open(deferred)
			card, err := h.Queries.Card(context.Background(), h.people["stranger"], a.ID, gate.Unrecorded)
			if err != nil {
				t.Fatal(err)
			}
			if card.CannotVote == nil || len(card.InPlaceOf) > 0 {
				t.Errorf("the card offers a vote in the place of %v", card.InPlaceOf)
			}
			for _, yes := range []bool{true, false} {
				if got := code(h.vote("stranger", a, yes)); got != "not_eligible" {
					t.Errorf("a vote %t: %q", yes, got)
				}
			}
			if got := code(h.vote("ada", a, true)); got != "" {
				t.Errorf("who has the office: %q", got)
			}
		})
	}
}

// Nobody speaks for somebody by a delegation that they have made for that one as an administrator, however many
// are in between, and whoever was named first.
func TestAdministratorGivesThemselvesNoSay(t *testing.T) {
	for name, first := range map[string]bool{"the deputy's deputy already": true, "the deputy's deputy later": false} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, routing(time.Hour, 1))
			h.give("emil", access.AdminRole)
			h.give("ben")
			if first {
				h.delegate("ben", "emil")
			}
			if _, err := h.Delegations.Create(context.Background(), admin.DelegateRequest{
				By: h.people["emil"], PersonID: h.people["ada"].ID, DeputyID: h.people["ben"].ID, Until: time.Now().Add(time.Hour), Reason: "ill", Channel: "console",
			}); err != nil {
				t.Fatal(err)
			}
			if !first {
				h.delegate("ben", "emil")
			}
			a := h.open(deferred)
			if got := code(h.vote("emil", a, true)); got != "not_eligible" {
				t.Errorf("the administrator votes in the place of whom they have given a deputy: %q", got)
			}
			if slices.Contains(h.inbox("emil"), a.ID) {
				t.Error("it is in their inbox")
			}
			if got := code(h.vote("ben", a, true)); got != "" {
				t.Errorf("the deputy: %q", got)
			}
		})
	}
}

// Nobody fills somebody else's page: who names deputies without end is stopped, and what the others have made stays to be seen.
func TestDelegationsOfOnePersonAreBounded(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	create := func(i int) (store.Delegation, error) {
		begins := time.Now().Add(time.Duration(i+1) * time.Hour)
		return h.Delegations.Create(ctx, admin.DelegateRequest{
			By: h.people["stranger"], DeputyID: h.people["ada"].ID, From: begins, Until: begins.Add(time.Minute), Reason: "x", Channel: "console",
		})
	}
	var last store.Delegation
	for i := range store.MaxDelegations {
		var err error
		if last, err = create(i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := create(store.MaxDelegations); code(err) != "too_many" {
		t.Errorf("one too many: %v", err)
	}
	h.delegate("ada", "ben") // nobody else is kept from it
	if err := h.Delegations.Revoke(ctx, h.people["ada"], last.ID, "console", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := create(store.MaxDelegations); err != nil {
		t.Errorf("after one was revoked: %v", err)
	}
}
