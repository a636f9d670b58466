package gate_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/grant"
	"holdpoint/engine/policy"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

// grantingHarness is a harness in which grants vote.
func grantingHarness(t testing.TB, r approval.Routing) *harness {
	t.Helper()
	h := newHarness(t, r)
	return h
}

// payment is a call of the tool pay.
func payment(amount int) string {
	return fmt.Sprintf(`{"tool_name":"pay","tool_category":"write","authorization_state":"none","evidence_refs":["x:1"],"risk_domain":"finance",`+
		`"proposed_arguments":{"amount":%d,"to":"canary-argument"},"recommended_route":"accept"}`, amount)
}

// upTo is the pattern of payments of up to an amount.
func upTo(amount float64) grant.Pattern {
	return grant.Pattern{Matchers: []grant.Matcher{
		{Path: "/amount", Op: grant.AtMost, Value: canon.Number(amount)},
		{Path: "/to", Op: grant.Equals, Value: canon.String("canary-argument")},
	}}
}

// proved is a person who has just proved who they are.
func (h *harness) proved(who string) engine.Person {
	h.t.Helper()
	p, err := h.Store.People.Get(context.Background(), h.people[who].ID)
	if err != nil {
		h.t.Fatal(err)
	}
	now, err := h.Store.Now(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	p.VerifiedAt, p.VerifiedBy = now, "totp"
	return p
}

func (h *harness) wish(who string, a approval.Approval, p grant.Pattern, uses int) gate.GrantRequest {
	return gate.GrantRequest{
		Contribution: gate.Contribution{Person: h.proved(who), ApprovalID: a.ID, Comment: "small payments to our landlord", Channel: "console"},
		Pattern:      p, Digest: a.Call.Digest, For: time.Hour, Uses: uses,
	}
}

func (h *harness) grant(who string, a approval.Approval, p grant.Pattern, uses int) gate.Grant {
	h.t.Helper()
	made, err := h.Grants.Save(context.Background(), h.wish(who, a, p, uses))
	if err != nil {
		h.t.Fatal(err)
	}
	return made
}

// decided opens a call and settles it once.
func (h *harness) decided(doc string) approval.Approval {
	h.t.Helper()
	id := h.open(doc).ID
	h.settle(id)
	return h.get(id).Approval
}

func (h *harness) want(what string, a approval.Approval, want approval.Status) {
	h.t.Helper()
	if a.Status != want {
		h.t.Errorf("%s: %s, want %s", what, a.Status, want)
	}
}

func (h *harness) uses(id string) int {
	h.t.Helper()
	g, _, err := h.Store.Grants.Get(context.Background(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return g.Uses
}

func TestGrantVotesTenTimes(t *testing.T) {
	h := grantingHarness(t, routing(time.Hour, 1))
	seen := h.open(payment(50))
	g := h.grant("ada", seen, upTo(100), 10)
	if h.settle(seen.ID).Over {
		t.Error("it voted for the call that was there before it")
	}
	for i := range 10 {
		a := h.decided(payment(90 + i))
		h.want(fmt.Sprint("call ", i), a, approval.Approved)
		f := a.Facts[0]
		if len(a.Facts) != 1 || f.Actor.ID != h.people["ada"].ID || f.Actor.Channel != "grant" || f.Details.Grant != g.ID || f.Actor.Kind != engine.HumanActor {
			t.Fatalf("call %d was approved by %+v", i, a.Facts)
		}
		if h.get(a.ID).Token == "" {
			t.Error("the agent has no token")
		}
	}
	h.want("the eleventh", h.decided(payment(1)), approval.Pending)
	h.want("too much", h.decided(payment(101)), approval.Pending)
	list, now, err := h.Grants.ForPerson(context.Background(), h.people["ben"])
	if err != nil || len(list) != 1 || list[0].Uses != 10 || len(list[0].UsedBy) != 10 || list[0].Live(now) || list[0].MayRevoke || len(list[0].Pattern.Matchers) != 2 {
		t.Errorf("listed as %+v, %v", list, err)
	}
}

func TestGrantIsForItsAgentToolAndEnvironment(t *testing.T) {
	h := grantingHarness(t, routing(time.Hour, 1))
	h.grant("ada", h.open(payment(50)), upTo(100), 10)
	h.want("another tool", h.decided(strings.Replace(payment(5), `"pay"`, `"pay2"`, 1)), approval.Pending)
	other, err := h.PreToolCheck(context.Background(), access.Principal{KeyID: "k", AgentID: "other-bot", Kind: access.AgentKey, MaxState: "authenticated"}, parse(t, payment(5)), gate.Request{}, nil)
	if err != nil || other.Approval == nil {
		t.Fatal(err)
	}
	if h.settle(other.Approval.ID).Over {
		t.Error("it voted for another agent")
	}
	h.judgeBy(gate.Rules{Environment: "prod", Routing: routing(time.Hour, 1)})
	h.want("another environment", h.decided(payment(5)), approval.Pending)
	h.judgeBy(gate.Rules{Environment: "test", Routing: routing(time.Hour, 1)})
	// The same arguments, held for a reason that nobody has seen.
	more := h.decided(strings.Replace(payment(5), `"evidence_refs":["x:1"]`, `"evidence_refs":[]`, 1))
	h.want("another reason", more, approval.Pending)
	h.want("the call that it is for", h.decided(payment(5)), approval.Approved)
}

// TestGrantIsForWhereTheCallRuns: a call that says that it runs somewhere else than the one
// that somebody saw, which the card would have told in red, is no call like it.
func TestGrantIsForWhereTheCallRuns(t *testing.T) {
	h := grantingHarness(t, routing(time.Hour, 1))
	at := func(names string) string {
		return strings.Replace(payment(5), `"amount":5,`, `"amount":5,`+names+`,`, 1)
	}
	like := func(m ...grant.Matcher) grant.Pattern {
		return grant.Pattern{Matchers: append(m, upTo(100).Matchers...)}
	}
	h.grant("ada", h.open(at(`"env":"test","note":"x"`)), like(grant.Matcher{Path: "/env", Op: grant.Any}, grant.Matcher{Path: "/note", Op: grant.Any}), 10)
	h.want("there", h.decided(at(`"env":"test","note":"y"`)), approval.Approved)
	h.want("elsewhere", h.decided(at(`"env":"production","note":"y"`)), approval.Pending)
	h.want("in other letters", h.decided(at(`"env":"TEST","note":"y"`)), approval.Pending)
	h.want("nowhere", h.decided(at(`"env":"","note":"y"`)), approval.Approved)
	// Who has seen a call for another environment has seen where the next one runs.
	h.grant("ada", h.open(at(`"stage":"production"`)), like(grant.Matcher{Path: "/stage", Op: grant.Prefix, Value: canon.String("pro")}), 10)
	h.want("the same other one", h.decided(at(`"stage":"production"`)), approval.Approved)
	h.want("a third one", h.decided(at(`"stage":"prominent"`)), approval.Pending)
	// And so has who spells out which ones are meant.
	h.grant("ada", h.open(at(`"environment":"one"`)), like(grant.Matcher{Path: "/environment", Op: grant.OneOf, Value: canon.Array(canon.String("one"), canon.String("two"))}), 10)
	h.want("one that is spelled out", h.decided(at(`"environment":"two"`)), approval.Approved)

	// What a document says of it counts as what an argument does.
	asks, problems := policy.Load([]byte(`{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2036-01-01T00:00:00Z","rules":[],"defaults":{"outcome":"REQUIRE_APPROVAL"}}`), policy.Options{})
	if asks == nil {
		t.Fatal(problems)
	}
	h.judgeBy(gate.Rules{Environment: "test", Routing: routing(time.Hour, 1), Policy: asks})
	check := func(environment string, amount int) approval.Approval {
		doc := fmt.Sprintf(`{"toolName":"move","toolArgs":{"amount":%d,"to":"canary-argument"},"agentId":"bot","environment":%q}`, amount, environment)
		checked, _, err := h.CheckToolCall(context.Background(), h.agent, parse(t, doc), gate.Request{}, nil)
		if err != nil || checked.Approval == nil {
			t.Fatal(checked.Event.Reasons, err)
		}
		h.settle(checked.Approval.ID)
		return h.get(checked.Approval.ID).Approval
	}
	h.grant("ada", check("test", 5), upTo(100), 10)
	h.want("a document for there", check("test", 6), approval.Approved)
	h.want("a document for elsewhere", check("production", 7), approval.Pending)
}

func TestGrantEnds(t *testing.T) {
	h := grantingHarness(t, routing(time.Hour, 1))
	g := h.grant("ada", h.open(payment(50)), upTo(100), 10)
	by := access.PersonInitiator(h.people["ben"], "console", "req")
	if got := code(h.Grants.Revoke(context.Background(), h.people["stranger"], g.ID, by, nil)); got != "not_found" {
		t.Errorf("a stranger revokes: %q", got)
	}
	if got := code(h.Grants.Revoke(context.Background(), h.people["owner"], "gra_x", by, nil)); got != "not_found" {
		t.Errorf("of no grant: %q", got)
	}
	h.want("before", h.decided(payment(1)), approval.Approved)
	waiting := h.open(payment(2))
	if err := h.Grants.Revoke(context.Background(), h.people["ben"], g.ID, by, nil); err != nil {
		t.Fatal(err)
	}
	h.settle(waiting.ID)
	h.want("revoked between", h.get(waiting.ID).Approval, approval.Pending)
	if got := code(h.Grants.Revoke(context.Background(), h.people["ada"], g.ID, by, nil)); got != "grant_over" {
		t.Errorf("twice: %q", got)
	}
	late := h.grant("ada", h.open(payment(50)), upTo(100), 10)
	waiting = h.open(payment(2))
	h.db.Exec(`ALTER TABLE standing_grants DISABLE TRIGGER USER`)
	h.db.Exec(`UPDATE standing_grants SET created_at = created_at - interval '1 hour', expires_at = expires_at - interval '1 hour' WHERE id = $1`, late.ID)
	h.db.Exec(`ALTER TABLE standing_grants ENABLE TRIGGER USER`)
	h.settle(waiting.ID)
	h.want("after its time", h.get(waiting.ID).Approval, approval.Pending)
	if n := h.uses(late.ID); n != 0 {
		t.Errorf("%d uses after its time", n)
	}
	conn := h.db.Connect(h.db.RuntimeURL)
	for _, sql := range []string{
		`UPDATE standing_grants SET uses = uses + 1`, `UPDATE standing_grants SET uses = 0`, `UPDATE standing_grants SET revoked_at = NULL`,
		`UPDATE standing_grants SET expires_at = expires_at + interval '1 hour'`, `UPDATE standing_grants SET max_uses = 1000`, `DELETE FROM standing_grants`,
	} {
		if _, err := conn.Exec(context.Background(), sql); err == nil {
			t.Errorf("the runtime role may: %s", sql)
		}
	}
}

func TestGrantsAtOnce(t *testing.T) {
	h := grantingHarness(t, routing(time.Hour, 2))
	seen := h.open(payment(50))
	// Everybody takes both, and one of them runs out.
	scarce, plenty := h.grant("ada", seen, upTo(100), 10), h.grant("ben", seen, upTo(100), 1000)
	var ids []string
	for i := range 20 {
		ids = append(ids, h.open(payment(i)).ID)
	}
	var wg sync.WaitGroup
	for _, id := range append(ids, ids...) {
		wg.Go(func() {
			if _, err := h.settler.Settle(context.Background(), id); err != nil {
				t.Errorf("settle %s: %v", id, err)
			}
		})
	}
	wg.Wait()
	approved := 0
	for _, id := range ids {
		if h.get(id).Approval.Status == approval.Approved {
			approved++
		}
	}
	if a, b := h.uses(scarce.ID), h.uses(plenty.ID); approved != 10 || a != 10 || b != 20 {
		t.Errorf("%d of 20 approved; one grant used %d of 10 times, the other %d", approved, a, b)
	}
}

func TestGrantsAndQuorum(t *testing.T) {
	h := grantingHarness(t, routing(time.Hour, 2))
	seen := h.open(payment(50))
	first := h.grant("ada", seen, upTo(100), 10)
	h.grant("ada2", seen, upTo(100), 10) // the same human being
	a := h.decided(payment(1))
	h.want("one person's grants", a, approval.Pending)
	if given := a.State.Requirements[0].Given; given != 1 || len(a.Facts) != 1 {
		t.Fatalf("%d of 2 given, %d facts", given, len(a.Facts))
	}
	h.settle(a.ID)
	if n := h.uses(first.ID); n != 1 || len(h.get(a.ID).Approval.Facts) != 1 {
		t.Errorf("settled again: %d uses", n)
	}
	if err := h.vote("ben", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	h.want("with one vote more", h.get(a.ID).Approval, approval.Approved)

	second := h.grant("ben", seen, upTo(100), 10)
	third := h.grant("cleo", seen, upTo(100), 10)
	h.want("two people's grants", h.decided(payment(2)), approval.Approved)
	if b, c := h.uses(second.ID), h.uses(third.ID); b != 1 || c != 0 {
		t.Errorf("the second was used %d times, and the third, which was not needed, %d", b, c)
	}
}

func TestGrantsNeverStandForHumansOrAgainstAPerson(t *testing.T) {
	r := routing(time.Hour, 1)
	h := grantingHarness(t, r)
	g := h.grant("ada", h.open(payment(50)), upTo(100), 10)
	a := h.open(payment(1))
	h.db.Exec(`ALTER TABLE approvals DISABLE TRIGGER approvals_guard`)
	h.db.Exec(`UPDATE approvals SET requirements = jsonb_set(requirements, '{0,kind}', '"human"') WHERE id = $1`, a.ID)
	h.db.Exec(`ALTER TABLE approvals ENABLE TRIGGER approvals_guard`)
	h.settle(a.ID)
	if a = h.get(a.ID).Approval; a.Plan.Requirements[0].Kind != engine.Human {
		t.Fatalf("it asks for %s", a.Plan.Requirements[0].Kind)
	}
	h.want("human", a, approval.Pending)
	if _, err := h.Grants.Save(context.Background(), h.wish("ben", a, upTo(100), 10)); code(err) != "human_only" {
		t.Errorf("a grant from a card for humans: %v", err)
	}

	// What the requesting side has to fill in is not filled in by a yes.
	a = h.open(payment(1))
	h.db.Exec(`ALTER TABLE approvals DISABLE TRIGGER approvals_guard`)
	h.db.Exec(`UPDATE approvals SET requirements = '[{"kind":"answer","role":"reviewer","needed":1,"form":{"type":"object"}}]' WHERE id = $1`, a.ID)
	h.db.Exec(`ALTER TABLE approvals ENABLE TRIGGER approvals_guard`)
	h.settle(a.ID)
	h.want("a form", h.get(a.ID).Approval, approval.Pending)
	if _, err := h.Grants.Save(context.Background(), h.wish("ben", a, upTo(100), 10)); code(err) != "not_eligible" {
		t.Errorf("a grant from a card with a form: %v", err)
	}

	// Ada denies where it takes two to deny: her grant does not take that back.
	two := r
	two.Default.Deny = 2
	h.judgeBy(gate.Rules{Environment: "test", Routing: two})
	a = h.open(payment(2))
	if err := h.vote("ada", a, false); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	h.want("denied by its maker", h.get(a.ID).Approval, approval.Pending)
	h.judgeBy(gate.Rules{Environment: "test", Routing: r})

	if err := h.Registry.ThrowKillSwitch(context.Background(), access.PersonInitiator(h.people["ada"], "console", "r"), "bot", "stop", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Grants.Save(context.Background(), h.wish("ben", a, upTo(100), 10)); code(err) != "kill_switch" {
		t.Errorf("a grant for a stopped agent: %v", err)
	}
	if err := h.Registry.ReleaseKillSwitch(context.Background(), access.PersonInitiator(h.people["ada"], "console", "r"), "bot", nil); err != nil {
		t.Fatal(err)
	}
	a = h.open(payment(3))
	if err := h.Registry.ThrowKillSwitch(context.Background(), access.PersonInitiator(h.people["ada"], "console", "r"), "", "stop all", nil); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	if got := h.get(a.ID).Approval; got.Status != approval.Pending || len(got.Facts) > 0 {
		t.Errorf("under a kill switch: %s with %d facts", got.Status, len(got.Facts))
	}
	if n := h.uses(g.ID); n != 0 {
		t.Errorf("%d uses for nothing", n)
	}
}

// A grant is worth no more than its maker is when it is used.
func TestGrantIsItsMakersVote(t *testing.T) {
	for name, change := range map[string]func(h *harness){
		"disabled": func(h *harness) {
			h.db.Exec(`UPDATE people SET disabled_at = clock_timestamp() WHERE id = $1`, h.people["ada"].ID)
		},
		"role lost": func(h *harness) {
			h.db.Exec(`UPDATE people SET roles = '{other}' WHERE id = $1`, h.people["ada"].ID)
		},
		"owner of the agent": func(h *harness) {
			h.db.Exec(`UPDATE agents SET owner_id = $1 WHERE id = 'bot'`, h.people["ada"].ID)
		},
		"twin owns the agent": func(h *harness) {
			h.db.Exec(`UPDATE agents SET owner_id = $1 WHERE id = 'bot'`, h.people["ada2"].ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := grantingHarness(t, routing(time.Hour, 1))
			g := h.grant("ada", h.open(payment(50)), upTo(100), 10)
			h.want("before", h.decided(payment(1)), approval.Approved)
			change(h)
			h.want("after", h.decided(payment(2)), approval.Pending)
			if n := h.uses(g.ID); n != 1 {
				t.Errorf("%d uses", n)
			}
		})
	}
}

func TestGrantAndEditions(t *testing.T) {
	h := grantingHarness(t, routing(time.Hour, 2))
	seen := h.open(payment(50))
	g := h.grant("ada", seen, upTo(100), 10)
	edit := func(a approval.Approval, amount int) approval.Approval {
		t.Helper()
		a, err := h.Contributions.Edit(context.Background(), gate.EditRequest{
			Contribution: gate.Contribution{Person: h.people["dina"], ApprovalID: a.ID, Comment: "not that much", Channel: "console"},
			Arguments:    parse(t, fmt.Sprintf(`{"amount":%d,"to":"canary-argument"}`, amount)), Digest: a.Call.Digest, Version: a.Version,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.settle(a.ID)
		return h.get(a.ID).Approval
	}
	given := func(a approval.Approval) int { return a.State.Requirements[0].Given }
	small := h.decided(payment(60))
	if given(small) != 1 {
		t.Fatalf("%d given", given(small))
	}
	if large := edit(small, 6000); given(large) != 0 || large.Plan.Edition != 2 {
		t.Errorf("after an edit beyond the grant %d are given", given(large))
	}
	large := h.decided(payment(7000))
	if given(large) != 0 {
		t.Fatalf("%d given for what is too much", given(large))
	}
	if small = edit(large, 70); given(small) != 1 {
		t.Errorf("after an edit to what the grant is for %d are given", given(small))
	}
	if n := h.uses(g.ID); n != 2 {
		t.Errorf("%d uses", n)
	}
}
