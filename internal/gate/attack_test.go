package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

// edit changes the call's amount, on the page of a.
func (h *harness) edit(who string, a approval.Approval, arguments string) (approval.Approval, error) {
	return h.Contributions.Edit(context.Background(), gate.EditRequest{
		Contribution: h.says(who, a.ID, "less is enough"), Arguments: parse(h.t, arguments), Digest: a.Call.Digest, Version: a.Version,
	}, nil)
}

// What a user has confirmed is the call that the user was shown: once it has been
// edited, an answer says which call it is about.
func TestAnAnswerIsAboutWhatTheUserSaw(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	a := h.open(asked)
	after, err := h.edit("ada", a, `{"amount":99999,"to":"ada"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{"", a.Call.Digest} {
		if _, err := h.Contributions.Answer(ctx, h.runtime, gate.AnswerRequest{ApprovalID: a.ID, Confirmed: true, Digest: digest}, nil); code(err) != "stale" {
			t.Errorf("an answer about %q, after an edit: %q", digest, code(err))
		}
	}
	if _, err := h.Contributions.Answer(ctx, h.runtime, gate.AnswerRequest{ApprovalID: a.ID, Confirmed: true, Digest: after.Call.Digest}, nil); err != nil {
		t.Errorf("an answer about the edited call: %v", err)
	}
	b := h.open(another(asked))
	if _, err := h.Contributions.Answer(ctx, h.runtime, gate.AnswerRequest{ApprovalID: b.ID, Confirmed: true, Digest: a.Call.Digest}, nil); code(err) != "stale" {
		t.Errorf("an answer about another call: %q", code(err))
	}
	if _, err := h.edit("ada", b, `{"amount":1}`); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Contributions.Answer(ctx, h.runtime, gate.AnswerRequest{ApprovalID: b.ID}, nil); err != nil {
		t.Errorf("a user who does not want it: %v", err)
	}
}

// A yes that became void because somebody had no say any more does not come back with
// their say, and whoever has got one since may say yes once.
func TestVoidVoteStaysVoid(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	h.join("temp", "other")
	h.delegate("ada", "temp")
	a := h.open(deferred)
	if err := h.vote("temp", a, true); err != nil {
		t.Fatal(err)
	}
	h.give("ada", "other") // the yes was ada's, who has no say any more
	h.give("temp", "reviewer")
	if got := h.given(a); got != 0 {
		t.Fatalf("given %d, want 0", got)
	}
	if err := h.vote("temp", a, true); err != nil {
		t.Errorf("their own yes: %v", err)
	}
	h.give("ada", "reviewer")
	if got := h.given(a); got != 1 {
		t.Errorf("given %d once ada is a reviewer again, want 1", got)
	}
	if err := h.vote("temp", a, true); code(err) != "already_voted" {
		t.Errorf("a second yes: %v", err)
	}
	if err := h.vote("temp", a, false); err != nil {
		t.Errorf("their no: %v", err)
	}
}

// What was said before an account was disabled stays void when it is enabled again: it may
// have been in other hands. The person may say it again, and counts once.
func TestEnabledAgainVotesAnew(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	a := h.open(deferred)
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	for _, turn := range []string{`UPDATE people SET disabled_at = clock_timestamp() WHERE id = $1`, `UPDATE people SET disabled_at = NULL, since = '{}' WHERE id = $1`} {
		h.db.Exec(turn, h.people["ada"].ID)
		if got := h.given(a); got != 0 {
			t.Fatalf("given %d after %s, want 0", got, turn)
		}
	}
	if err := h.vote("ben", a, true); err != nil {
		t.Fatal(err)
	}
	if h.settle(a.ID); h.get(a.ID).Approval.Status.Terminal() {
		t.Fatal("one yes of before and one of now end it")
	}
	if err := h.vote("ada", a, true); err != nil {
		t.Fatalf("ada again: %v", err)
	}
	h.settle(a.ID)
	if got := h.get(a.ID).Approval; got.Status != approval.Approved {
		t.Errorf("the approval is %s, want approved", got.Status)
	}
}

// A question stops the clock while it is open, and not for what it might have
// stayed open when the call is edited meanwhile.
func TestEditGivesUnusedPauseBack(t *testing.T) {
	r := routing(time.Hour, 1)
	r.Default.PauseFor = engine.Duration(24 * time.Hour)
	h := newHarness(t, r)
	a := h.open(deferred)
	until := a.Plan.ExpiresAt
	amounts := []string{`{"amount":1}`, `{"amount":2}`, `{"amount":3}`}
	for i, who := range []string{"ada", "ben", "cleo"} {
		if _, err := h.Contributions.Ask(context.Background(), h.says(who, a.ID, "why?"), nil); err != nil {
			t.Fatal(err)
		}
		var err error
		if a, err = h.edit(who, h.get(a.ID).Approval, amounts[i]); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.State.ExpiresAt.Sub(until); got > time.Minute {
		t.Errorf("three edits have won %s", got)
	}
	if left := time.Duration(a.Plan.PauseFor); left >= 24*time.Hour || left < 23*time.Hour {
		t.Errorf("questions may stop the clock for another %s", left)
	}
}

// A change holds a lock and a connection; if it waited for a second one, changes at once
// could have all of them and wait for each other until they give up.
func TestAChangeTakesOneConnection(t *testing.T) {
	db := storetest.New(t)
	db.Connections = 1
	h := harnessOn(t, db, routing(time.Hour, 3))
	h.give("dina", "reviewer", approval.BreakGlassRole)
	key := h.passkey("cleo")
	a, err := h.edit("ada", h.open(deferred), `{"amount":12}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.casts(h.ballot("ben", a, true)); err != nil {
		t.Fatal(err)
	}
	a = h.get(a.ID).Approval
	if err := h.casts(h.signs(h.ballot("cleo", a, true), key)); err != nil {
		t.Fatal(err)
	}
	a = h.get(a.ID).Approval
	if a, err = h.Contributions.BreakGlass(context.Background(), h.says("dina", a.ID, "the house is on fire"), true, a.Call.Digest, a.Version, nil); err != nil || a.State.Status != approval.Approved {
		t.Fatalf("%v %+v", err, a.State)
	}
}

// A password proves nothing once there is a second factor.
func TestAPasswordIsNoProofBesideASecondFactor(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	h.give("ben", "reviewer", approval.BreakGlassRole)
	a := h.open(deferred)
	s := h.says("ben", a.ID, "the house is on fire")
	s.Person.VerifiedBy, s.Person.Factors = "password", []string{"totp"}
	if _, err := h.Contributions.BreakGlass(context.Background(), s, true, a.Call.Digest, a.Version, nil); code(err) != "verification_required" {
		t.Errorf("broke the glass by password: %q", code(err))
	}
	s.Person.Factors = nil
	if _, err := h.Contributions.BreakGlass(context.Background(), s, true, a.Call.Digest, a.Version, nil); err != nil {
		t.Errorf("broke the glass without a second factor: %v", err)
	}
}

// What was sent with a no is not looked at, and not kept.
func TestDeniedAnswerKeepsNoNames(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	a := h.open(asked)
	values := parse(t, `{"canary name":"canary-value","`+strings.Repeat("x", 5000)+`":1}`)
	if _, err := h.Contributions.Answer(context.Background(), h.runtime, gate.AnswerRequest{ApprovalID: a.ID, Values: values}, nil); err != nil {
		t.Fatal(err)
	}
	v := h.get(a.ID)
	facts, err := json.Marshal(v.Approval.Facts)
	if err != nil {
		t.Fatal(err)
	}
	events, err := h.Events(context.Background(), store.EventFilter{ApprovalID: a.ID}, 100)
	if err != nil {
		t.Fatal(err)
	}
	logged, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(facts)+string(logged), "canary name") {
		t.Error("the names that came with a no are on record")
	}
}

// What a person has said of a broken glass stays said, whatever the programs write.
func TestBreakGlassReviewIsSaidOnce(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	h.give("ben", approval.BreakGlassRole)
	a := h.open(deferred)
	if _, err := h.Contributions.BreakGlass(ctx, h.says("ben", a.ID, "now"), true, a.Call.Digest, a.Version, nil); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	if _, err := h.Contributions.ReviewBreakGlass(ctx, h.says("ada", a.ID, "that was wrong"), false, nil); err != nil {
		t.Fatal(err)
	}
	conn := h.db.Connect(h.db.RuntimeURL)
	for _, sql := range []string{
		`UPDATE afterwards SET justified = true`, `UPDATE afterwards SET comment = 'fine'`,
		`UPDATE afterwards SET done_at = NULL, person_id = NULL, justified = NULL`,
	} {
		if _, err := conn.Exec(ctx, sql); err == nil {
			t.Errorf("%s: changed", sql)
		}
	}
}

// What a runtime has said for one of its users keeps nobody else from the call.
func TestRuntimesDenialIsNotRemembered(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	a := h.open(asked)
	if _, err := h.Contributions.Answer(ctx, h.runtime, gate.AnswerRequest{ApprovalID: a.ID}, nil); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	checked, err := h.PreToolCheck(ctx, h.agent, parse(t, asked), gate.Request{}, nil)
	if err != nil || checked.Approval == nil || checked.Approval.ID == a.ID {
		t.Errorf("the same call for the next user: %+v, %v", checked.Approval, err)
	}
	b := *checked.Approval
	if err := h.vote("ada", b, false); err != nil {
		t.Fatal(err)
	}
	h.settle(b.ID)
	if checked, err = h.PreToolCheck(ctx, h.agent, parse(t, asked), gate.Request{}, nil); err != nil || checked.Approval == nil || checked.Approval.ID != b.ID {
		t.Errorf("the same call after a person's no: %+v, %v", checked.Approval, err)
	}
}

// Whoever has edited a call does not approve its successor either.
func TestAnEditorDoesNotApproveTheSuccessor(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	checked, err := h.PreToolCheck(ctx, h.agent, parse(t, deferred), gate.Request{Circumstances: approval.Circumstances{Preconditions: map[string]string{"etag": "1"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	edited := `{"amount":99,"to":"ada"}`
	a, err := h.edit("ada", *checked.Approval, edited)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.vote("ben", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	var refusal *access.Refusal
	_, err = h.Redeem(ctx, h.agent, gate.RedeemRequest{
		Token: h.get(a.ID).Token, Tool: "pay", Arguments: parse(t, edited), Preconditions: map[string]string{"etag": "2"},
	}, nil)
	if !errors.As(err, &refusal) || refusal.Successor == "" {
		t.Fatalf("redeemed a stale call: %v", err)
	}
	next := h.get(refusal.Successor).Approval
	if err := h.vote("ada", next, true); code(err) != "self_review" {
		t.Errorf("the editor votes for the successor: %q", code(err))
	}
	if err := h.vote("ben", next, true); err != nil {
		t.Errorf("somebody else: %v", err)
	}
}

// What cannot be kept is refused, and is no failure of ours.
func TestUnfitTextsAreRefused(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	a := h.open(deferred)
	for _, text := range []string{"a\x00b", "a\xff"} {
		_, _, err := h.Queries.Session(ctx, h.people["ada"], "bot", text, gate.Unrecorded)
		if code(access.FromStore(err)) != "unfit_text" && code(err) != "not_found" {
			t.Errorf("a session: %v", err)
		}
		for what, err := range map[string]error{
			"comment": second(h.Contributions.Comment(ctx, h.says("ada", a.ID, text), nil)), "question": second(h.Contributions.Ask(ctx, h.says("ada", a.ID, text), nil)),
			"edit":   second(h.Contributions.Edit(ctx, gate.EditRequest{Contribution: h.says("ada", a.ID, text), Arguments: parse(t, `{"amount":1}`), Digest: a.Call.Digest, Version: a.Version}, nil)),
			"vote":   second(h.Contributions.Vote(ctx, gate.VoteRequest{Person: h.people["ada"], ApprovalID: a.ID, Approve: true, Comment: text, Digest: a.Call.Digest, Version: a.Version}, nil)),
			"answer": second(h.Contributions.Inform(ctx, h.agent, a.ID, text, text, nil)),
		} {
			if c := code(err); c != "unfit_text" && c != "nothing_to_answer" {
				t.Errorf("%s of %q: %v", what, text, err)
			}
		}
	}
}

func second(_ approval.Approval, err error) error { return err }

// However much is said of a call, it can be decided, and no more is taken.
func TestFactsAreBounded(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	a := h.open(deferred)
	h.db.Exec(`INSERT INTO facts (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment)
		SELECT $1, 'comment', 'human', $2, 'api', false, '', 'x' FROM generate_series(1, 500)`, a.ID, h.people["ada"].ID)
	if _, err := h.Contributions.Comment(ctx, h.says("ada", a.ID, "one more"), nil); code(err) != "too_much_said" {
		t.Errorf("a comment: %q", code(err))
	}
	if _, err := h.Contributions.Claim(ctx, h.says("ada", a.ID, ""), nil); code(err) != "too_much_said" {
		t.Errorf("a claim: %q", code(err))
	}
	if err := h.vote("ada", a, true); err != nil {
		t.Errorf("a vote: %v", err)
	}
	h.settle(a.ID)
	h.want("after five hundred remarks", h.get(a.ID).Approval, approval.Approved)
}

// A reviewer who has changed the arguments does not answer, for the requesting side, what another one asks.
func TestEditorDoesNotAnswerForTheAgent(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	a, err := h.edit("ben", h.open(deferred), `{"q":"another"}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Contributions.Ask(ctx, h.says("cleo", a.ID, "For whom is it?"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Contributions.InformInPerson(ctx, h.says("ben", a.ID, "For the landlord."), nil); code(err) != "not_accountable" {
		t.Errorf("the editor answers: %v", err)
	}
	if _, err := h.Contributions.InformInPerson(ctx, h.says("owner", a.ID, "For the landlord."), nil); err != nil {
		t.Errorf("the owner: %v", err)
	}
}

// Nobody says so much of a call that the others cannot say anything any more.
func TestNobodyTakesTheOthersWords(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	a := h.open(deferred)
	for i := range 100 {
		if _, err := h.Contributions.Comment(ctx, h.says("owner", a.ID, fmt.Sprint(i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Contributions.Comment(ctx, h.says("owner", a.ID, "one more"), nil); code(err) != "too_much_said" {
		t.Errorf("one more: %v", err)
	}
	if _, err := h.Contributions.Ask(ctx, h.says("ben", a.ID, "why?"), nil); err != nil {
		t.Errorf("another one: %v", err)
	}
	if err := h.vote("ada", a, true); err != nil {
		t.Error(err)
	}
}

// What is wrong with supplied values is put on record without a word of them.
func TestInvalidValuesAreNotOnRecord(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	h.rules.Policy = bundle(t, `{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2099-01-01T00:00:00Z","defaults":{"outcome":"DENY"},"rules":[
		{"id":"form","description":"It asks.","match":{"tool_name":"pay","environment":"*"},"outcome":"REQUIRE_APPROVAL","approver_role":"reviewer",
		"approval":{"ask":{"type":"object","properties":{"city":{"type":"string","maxLength":3}},"additionalProperties":false}}}]}`)
	h.judgeBy(h.rules)
	a := h.open(asked)
	if _, err := h.Contributions.Answer(context.Background(), h.runtime, gate.AnswerRequest{ApprovalID: a.ID, Confirmed: true}, nil); err != nil {
		t.Fatal(err)
	}
	for _, values := range []string{`{"canary-4111111111111111":1}`, `{"city":"canary-city"}`, `{"city":{"canary-inner":1}}`} {
		if _, err := h.Contributions.Answer(context.Background(), h.runtime, gate.AnswerRequest{ApprovalID: a.ID, Confirmed: true, Values: parse(t, values)}, nil); code(err) != "values_invalid" {
			t.Errorf("%s: %v", values, err)
		}
	}
	events, err := h.Events(context.Background(), store.EventFilter{ApprovalID: a.ID}, 100)
	if err != nil {
		t.Fatal(err)
	}
	logged, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(logged), "canary") {
		t.Error("what was supplied is on record")
	}
}

// What a rule asks for is supplied by the person who answers for the call, or by
// the role's; a reviewer's mere yes supplies nothing.
func TestAPersonSuppliesWhatIsAskedFor(t *testing.T) {
	h := newPolicyHarness(t)
	h.rules.Policy = bundle(t, `{"version":"2","generated_at":"2026-01-02T00:00:00Z","expires_at":"2099-01-01T00:00:00Z","defaults":{"outcome":"DENY"},"rules":[
		{"id":"pay","description":"Payments.","match":{"tool_name":"pay","environment":"*"},"outcome":"REQUIRE_APPROVAL","approver_role":"reviewer",
		"approval":{"ask":{"type":"object","properties":{"cost_center":{"type":"string","minLength":3}},"required":["cost_center"]}}}]}`)
	h.judgeBy(h.rules)
	a := *h.check(params("pay", "")).Approval
	if a.Plan.Requirements[0].Kind != engine.Answer || len(a.Plan.Requirements[0].Form) == 0 {
		t.Fatalf("got %+v", a.Plan.Requirements)
	}
	if got := code(h.vote("ada", a, true)); got != "not_eligible" {
		t.Errorf("a vote instead of an answer: %q", got)
	}
	supply := func(who, values string) error {
		_, err := h.Contributions.AnswerInPerson(context.Background(), h.says(who, a.ID, ""), parse(t, values), a.Call.Digest, a.Version, nil)
		return err
	}
	for _, tc := range []struct{ who, values, want string }{
		{"stranger", `{"cost_center":"4711"}`, "not_found"},
		{"owner", `{"cost_center":"47"}`, "values_invalid"},
		{"owner", `{}`, "values_invalid"},
		{"owner", `{"cost_center":"canary-4711"}`, ""},
		{"owner", `{"cost_center":"4711"}`, "nothing_to_answer"},
	} {
		if got := code(supply(tc.who, tc.values)); got != tc.want {
			t.Errorf("%s supplies %s: %q, want %q", tc.who, tc.values, got, tc.want)
		}
	}
	card, err := h.Queries.Card(context.Background(), h.people["ada"], a.ID, gate.Excerpt)
	if err != nil || string(card.Answers) != `{"cost_center":"canary-4711"}` {
		t.Errorf("the card shows %s, %v", card.Answers, err)
	}
	events, err := h.Events(context.Background(), store.EventFilter{ApprovalID: a.ID}, 100)
	logged, _ := json.Marshal(events)
	if err != nil || strings.Contains(string(logged), "canary") {
		t.Errorf("an event holds what was supplied: %v", err)
	}
	for _, who := range []string{"ada", "ben"} {
		if err := h.vote(who, a, true); err != nil && code(err) != "already_approved" && code(err) != "already_decided" {
			t.Fatal(err)
		}
	}
	h.settle(a.ID)
	if got := h.get(a.ID).Approval; got.Status != approval.Approved {
		t.Errorf("got %s, %+v, %+v", got.Status, got.State.Requirements, got.Decision.Findings)
	}
}
