package gate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/internal/store/storetest"
)

// tasks are what a person is asked for beside deciding.
func (h *harness) tasks(who string) gate.Tasks {
	h.t.Helper()
	e, err := h.Queries.Tasks(context.Background(), h.people[who])
	if err != nil {
		h.t.Fatal(err)
	}
	return e
}

func (h *harness) says(who, id, text string) gate.Contribution {
	p := h.people[who]
	p.VerifiedBy, p.VerifiedAt = "totp", time.Now()
	return gate.Contribution{Person: p, ApprovalID: id, Comment: text, Channel: "console"}
}

func (h *harness) card(who, id string) gate.Card {
	h.t.Helper()
	c, err := h.Queries.Card(context.Background(), h.people[who], id, gate.Unrecorded)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// join adds somebody with these roles.
func (h *harness) join(name string, roles ...string) {
	h.t.Helper()
	h.people[name] = h.db.Person(engine.Person{Name: name, Roles: roles})
}

// A question is found by the side that is asked, and by nobody else.
func TestQuestionsWaitForTheRequestingSide(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	a := h.open(deferred)
	if e := h.tasks("owner"); len(e.Mine) != 0 {
		t.Errorf("nothing is asked yet: %+v", e.Mine)
	}
	if _, err := h.Contributions.Ask(ctx, h.says("ada", a.ID, "What for?"), nil); err != nil {
		t.Fatal(err)
	}
	if e := h.tasks("owner"); len(e.Mine) != 1 || e.Mine[0].ID != a.ID {
		t.Errorf("the owner is asked: %+v", e.Mine)
	}
	if e := h.tasks("ben"); len(e.Mine) != 0 {
		t.Errorf("a reviewer is asked nothing: %+v", e.Mine)
	}
	if _, err := h.Contributions.InformInPerson(ctx, h.says("owner", a.ID, "For the invoice."), nil); err != nil {
		t.Fatal(err)
	}
	if e := h.tasks("owner"); len(e.Mine) != 0 {
		t.Errorf("it is answered: %+v", e.Mine)
	}
}

// What is owed after an end is found by those who can give it.
func TestWhatIsOwedAfterwards(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	h.join("fay", approval.BreakGlassRole)
	a := h.open(deferred)
	if c := h.card("fay", a.ID); c.CannotVote == nil {
		t.Error("who may break the glass has a vote")
	}
	if _, err := h.Contributions.BreakGlass(ctx, h.says("fay", a.ID, "fire"), true, a.Call.Digest, a.Version, nil); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	for who, want := range map[string]int{"ben": 1, "fay": 0, "owner": 0, "stranger": 0} {
		if e := h.tasks(who); len(e.Reviews) != want {
			t.Errorf("%s: %d to look at afterwards, want %d", who, len(e.Reviews), want)
		}
	}
	if c := h.card("ben", a.ID); c.BreakGlassReview == nil || c.BreakGlassReview.DoneAt != nil {
		t.Errorf("the card says nothing of what is owed: %+v", c.BreakGlassReview)
	}
	if err := h.redeem(h.agent, h.get(a.ID).Token, "pay", args); err != nil {
		t.Fatal(err)
	}
	if c := h.card("ben", a.ID); c.LeaseUntil.IsZero() {
		t.Error("the card names no lease")
	}
	if _, err := h.Executed(ctx, h.agent, gate.ExecutionRequest{ApprovalID: a.ID, Outcome: approval.Unknown}, nil); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string]int{"owner": 1, "ben": 0, "fay": 0} {
		if e := h.tasks(who); len(e.Unknown) != want {
			t.Errorf("%s: %d of unknown fate, want %d", who, len(e.Unknown), want)
		}
	}
	if _, err := h.Contributions.ReviewBreakGlass(ctx, h.says("ben", a.ID, "there was no fire"), false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Contributions.Reconcile(ctx, h.says("owner", a.ID, "the ledger has it"), approval.Succeeded, nil); err != nil {
		t.Fatal(err)
	}
	if b, o := h.tasks("ben"), h.tasks("owner"); len(b.Reviews)+len(o.Unknown) != 0 {
		t.Errorf("still owed: %+v, %+v", b, o)
	}
	c := h.card("ben", a.ID)
	if c.BreakGlassReview == nil || c.BreakGlassReview.DoneAt == nil || c.BreakGlassReview.Justified || c.BreakGlassReview.Comment != "there was no fire" {
		t.Errorf("afterwards: %+v", c.BreakGlassReview)
	}
	if c.Reconciled == nil || c.Reconciled.Outcome != approval.Succeeded || c.Reconciled.PersonID != h.people["owner"].ID {
		t.Errorf("reconciled: %+v", c.Reconciled)
	}
}

// A session's calls are found together by those who may see them.
func TestSessionTogether(t *testing.T) {
	h := newPolicyHarness(t)
	ctx := context.Background()
	const named = `,"sessionId":"quarter-end/17"`
	first, second := *h.check(params("pay", named)).Approval, *h.check(params("deploy", named)).Approval
	if first.Session == "" || first.Session != second.Session {
		t.Fatalf("sessions %q and %q", first.Session, second.Session)
	}
	cards, full, err := h.Queries.Session(ctx, h.people["ada"], "bot", first.Session, gate.Excerpt)
	if err != nil || full || len(cards) != 2 || cards[0].Approval.ID != first.ID || cards[0].Session != 2 || string(cards[0].Arguments) != string(parse(t, args).Canonical()) {
		t.Fatalf("got %d cards, %v, %v", len(cards), full, err)
	}
	if err := h.vote("ada", first, false); err != nil {
		t.Fatal(err)
	}
	h.settle(first.ID)
	cards, _, err = h.Queries.Session(ctx, h.people["ada"], "bot", first.Session, gate.Excerpt)
	if err != nil || len(cards) != 2 || cards[0].Approval.ID != second.ID {
		t.Errorf("what waits does not come first: %v", err)
	}
	h.join("nobody", "unrelated")
	if _, _, err := h.Queries.Session(ctx, h.people["nobody"], "bot", first.Session, gate.Excerpt); code(err) != "not_found" {
		t.Errorf("somebody without a say: %v", err)
	}
	if _, _, err := h.Queries.Session(ctx, h.people["ada"], "other-bot", first.Session, gate.Excerpt); code(err) != "not_found" {
		t.Errorf("another agent's: %v", err)
	}
}

// A colleague whom a call is passed on to could decide it, has it in their inbox as
// claimed, and is named in the event.
func TestPassOn(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	ctx := context.Background()
	h.join("gone", "reviewer")
	h.db.Disable(h.people["gone"].ID, storetest.Event())
	a := h.open(deferred)
	pass := func(who, to string) error {
		_, err := h.Contributions.PassOn(ctx, h.says(who, a.ID, "you know them"), to, nil)
		return err
	}
	if got := h.card("ada", a.ID).Colleagues; len(got) != 6 || got[0].Name != "ada" {
		t.Errorf("it could be passed on to %+v", got)
	}
	if err := h.vote("cleo", a, true); err != nil {
		t.Fatal(err)
	}
	for who, to := range map[string]string{
		"themselves": h.people["ada"].ID, "their other account": h.people["ada2"].ID, "who has voted": h.people["cleo"].ID, "the requesting side": h.people["owner"].Email, "without the role": h.people["stranger"].Email,
		"disabled": h.people["gone"].Email, "nobody": "nobody@example.com", "no address": "ben", "none": "", "bytes": "\xff@\x00",
	} {
		if got := code(pass("ada", to)); got != "cannot_pass_on" {
			t.Errorf("%s: %q", who, got)
		}
	}
	if got := code(pass("stranger", h.people["ben"].ID)); got != "not_found" {
		t.Errorf("by a stranger: %q", got)
	}
	if got := code(pass("owner", h.people["ben"].ID)); got != "self_review" {
		t.Errorf("by the requesting side: %q", got)
	}
	if err := pass("ada", strings.ToUpper(h.people["ben"].Email)); err != nil {
		t.Fatal(err)
	}
	if got := code(pass("dina", h.people["ben"].ID)); got != "cannot_pass_on" {
		t.Errorf("to whoever has it: %q", got)
	}
	page, err := h.Queries.Inbox(ctx, h.people["ben"], gate.InboxSearch{ClaimedBy: h.people["ben"].ID})
	if err != nil || len(page.Rows) != 1 || page.Rows[0].State.Claim.Claimant() != h.people["ben"].ID {
		t.Errorf("ben finds %v %+v", err, page.Rows)
	}
	if !slices.ContainsFunc(h.everything(), func(e engine.Event) bool {
		return e.Type == engine.Claimed && e.Outcome != engine.Deny && e.Reasons[0].Code == "PASSED_ON" && strings.Contains(string(e.SafePayload), `"for":"`+h.people["ben"].ID)
	}) {
		t.Error("no event tells of it")
	}
	if err := h.vote("dina", a, true); err != nil {
		t.Errorf("somebody else decides: %v", err)
	}
	if got := code(pass("ada", h.people["ben"].ID)); got != "already_decided" {
		t.Errorf("when it is over: %q", got)
	}
}
