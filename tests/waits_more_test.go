package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// problem is what a refusal says beside its code.
type problem struct {
	Code, Successor string
}

// grant is what redeeming a token answers.
type grant struct {
	Redeemed    bool
	Constraints map[string]any
	LeaseUntil  time.Time `json:"lease_until"`
}

// edit changes the arguments of what the approval was.
func (c *client) edit(a approval, args map[string]any) answer {
	return c.act(a.ID, "edits", seen(a, map[string]any{"arguments": args, "comment": "It has to be this."}))
}

// TestEditIsAnotherCall: changed arguments have another digest; what was said of
// the former ones is void, and whoever wrote them does not approve them.
func TestEditIsAnotherCall(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	before, after := map[string]any{"to": "x", "n": 1}, map[string]any{"to": "y", "n": 1}
	a := agent.hold("orders_edited", before)
	d.reviewer(t, ada).approve(a)
	d.as(t, d.Owner).edit(a, after).want(t, 403, "self_review")
	d.reviewer(t, ben).edit(a, before).want(t, 422, "nothing_changed")
	d.reviewer(t, ben).act(a.ID, "edits", seen(a, map[string]any{"arguments": after, "comment": ""})).want(t, 422, "reason_required")
	d.reviewer(t, ben).act(a.ID, "edits", seen(a, map[string]any{"arguments": []any{1}, "comment": "x"})).want(t, 422)
	agent.edit(a, after).want(t, 403, "machine_principal")
	b := d.reviewer(t, ben).edit(a, after).want(t, 200).approval(t)
	if b.Digest == a.Digest || b.Edition != 2 || b.Version == a.Version || b.Requirements[0].Given != 0 || b.Status != "pending" || !b.ExpiresAt.Equal(a.ExpiresAt) {
		t.Fatalf("after the edit: %+v", b)
	}
	// What is no longer true is not voted on.
	d.reviewer(t, cleo).vote(a, "approve").want(t, 409, "stale")
	d.reviewer(t, ada).edit(a, map[string]any{"to": "z"}).want(t, 409, "stale")
	d.reviewer(t, ben).vote(b, "approve").want(t, 403, "self_review")
	d.reviewer(t, ben).edit(b, map[string]any{"to": "z"}).want(t, 403, "self_review")
	d.reviewer(t, ada).approve(b)
	if got := agent.get(a.ID); got.Status != "pending" || got.Requirements[0].Given != 1 {
		t.Errorf("one of the second edition: %+v", got.Requirements)
	}
	d.reviewer(t, cleo).approve(b)
	got := agent.wait(a.ID)
	if got.Status != "approved" || got.Edited == nil || got.Edited.Arguments["to"] != "y" || !slices.Equal(got.Edited.Changed, []string{"to"}) || got.Edited.Comment == "" {
		t.Fatalf("the agent reads %+v", got)
	}
	if seen := d.reviewer(t, ada).get(a.ID); seen.Edited == nil || seen.Edited.Arguments != nil {
		t.Errorf("a reviewer reads the arguments from the API: %+v", seen.Edited)
	}
	if claims := verifyToken(t, d.URL, got.Token); claims["digest"] != b.Digest {
		t.Errorf("the token is for %v, want %s", claims["digest"], b.Digest)
	}
	agent.redeem(got.Token, "orders_edited", before).want(t, 403, "arguments_mismatch")
	agent.redeem(got.Token, "orders_edited", after).want(t, 200)
	if story := d.admin(t).story(a.ID); !containsInOrder(story, []string{"vote REQUIRE_APPROVAL VOTE_APPROVE", "settled APPROVED APPROVED"}) ||
		!slices.ContainsFunc(story, func(line string) bool { return strings.HasPrefix(line, "edit REQUIRE_APPROVAL ") }) {
		t.Errorf("story %q", story)
	}
}

// TestEditRaisesQuorum: the rules judge the changed call, and of both the
// stricter counts.
func TestEditRaisesQuorum(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	a := agent.checked("pay", map[string]any{"amount": 90})
	if a.Requirements[0].Needed != 1 {
		t.Fatalf("got %+v", a.Requirements)
	}
	d.reviewer(t, dina).edit(a, map[string]any{"amount": 20000}).want(t, 422, "edit_refused")
	b := d.reviewer(t, dina).edit(a, map[string]any{"amount": 500}).want(t, 200).approval(t)
	if len(b.Requirements) != 1 || b.Requirements[0].Needed != 2 {
		t.Fatalf("500 takes %+v", b.Requirements)
	}
	d.reviewer(t, ada).approve(b)
	if got, err := agent.await(a.ID, time.Second); err == nil {
		t.Errorf("one was enough: %+v", got)
	}
	// And back again: what was asked for stays asked.
	c := d.reviewer(t, emil).edit(b, map[string]any{"amount": 80}).want(t, 200).approval(t)
	if c.Edition != 3 || c.Requirements[0].Needed != 2 {
		t.Errorf("80 takes %+v", c.Requirements)
	}
	d.reviewer(t, ada).approve(c)
	d.reviewer(t, ben).approve(c)
	got := agent.wait(a.ID)
	if got.Status != "approved" || got.Edited.Arguments["amount"] != 80.0 {
		t.Fatalf("got %+v", got)
	}
	for _, amount := range []int{90, 500} {
		agent.redeem(got.Token, "pay", map[string]any{"amount": amount}).want(t, 403, "arguments_mismatch")
	}
	agent.redeem(got.Token, "pay", map[string]any{"amount": 80}).want(t, 200)
}

// TestEditsAndVotesAtOnce: a vote counts for what its voter saw, or not at all.
func TestEditsAndVotesAtOnce(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	who := []*client{d.reviewer(t, ada), d.reviewer(t, ben), d.reviewer(t, cleo), d.reviewer(t, dina)}
	inRounds(t, func(i int) error {
		a, err := opened(agent, "orders_raced")
		if err != nil {
			return err
		}
		answers := make([]answer, 4)
		together(4, func(k int) {
			if k < 2 {
				answers[k] = who[(i+k)%4].edit(a, map[string]any{"by": k})
			} else {
				answers[k] = who[(i+k)%4].vote(a, "approve")
			}
		})
		got := agent.get(a.ID)
		edits := statuses(answers[:2])[200]
		// Two votes end it before anybody edits; else one edit is taken, and no vote counts.
		switch {
		case edits == 0 && statuses(answers[2:])[200] == 2:
			if end, err := agent.await(a.ID, settleWithin); err != nil || end.Status != "approved" || end.Digest != a.Digest {
				return fmt.Errorf("approved as it was: %v %+v", err, end)
			}
		case edits == 1 && got.Edition == 2 && got.Requirements[0].Given == 0 && got.Digest != a.Digest && got.Status == "pending":
			agent.cancel(a.ID)
		default:
			return fmt.Errorf("%v: %+v", answers, got)
		}
		return nil
	})
}

// TestTighten: a vote may make the permission narrower, never wider, and the
// token and redeeming it say so.
func TestTighten(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	args := map[string]any{"amount": 300}
	a := agent.checked("pay", args)
	vote := func(who int, more map[string]any) answer {
		return d.reviewer(t, who).do("POST", approvalPath(a.ID)+"/votes", with(a, more))
	}
	for _, wider := range []map[string]any{{"max_amount": 2000}, {"allow_currencies": []string{"EUR", "CHF"}}, {"max_amount": "500"}, {"max_amount": 299}} {
		vote(ada, map[string]any{"constraints": wider}).want(t, 422, "not_tighter")
	}
	vote(ada, map[string]any{"valid_for": "-1s"}).want(t, 422)
	vote(ada, map[string]any{"constraints": []any{}}).want(t, 422)
	if got := agent.get(a.ID); got.Requirements[0].Given != 0 {
		t.Fatalf("after that: %+v", got)
	}
	vote(ada, map[string]any{"constraints": map[string]any{"max_amount": 400, "min_amount": 10, "dry_run": true}, "valid_for": "90s"}).want(t, 200)
	vote(ben, map[string]any{"constraints": map[string]any{"max_amount": 600, "allow_currencies": []string{"EUR"}}, "valid_for": "10m"}).want(t, 200)
	got := agent.wait(a.ID)
	claims := verifyToken(t, d.URL, got.Token)
	if life := claims["exp"].(float64) - claims["iat"].(float64); life > 90 || life < 60 {
		t.Errorf("the token lives %v s, want at most 90", life)
	}
	var spent grant
	agent.redeem(got.Token, "pay", args).want(t, 200).into(t, &spent)
	for name, constraints := range map[string]map[string]any{"token": claims["constraints"].(map[string]any), "redeemed": spent.Constraints} {
		// Of the two amounts the smaller one; and everything else that either said.
		if constraints["max_amount"] != 400.0 || constraints["min_amount"] != 10.0 || constraints["dry_run"] != true || fmt.Sprint(constraints["allow_currencies"]) != "[EUR]" {
			t.Errorf("%s: %v", name, constraints)
		}
	}
	b := agent.checked("pay", map[string]any{"amount": 5})
	d.reviewer(t, ada).do("POST", approvalPath(b.ID)+"/votes", with(b, map[string]any{"valid_for": "1s"})).want(t, 200)
	token := agent.wait(b.ID)
	past(token.EndedAt.Add(1200 * time.Millisecond))
	if token.Token != "" {
		agent.redeem(token.Token, "pay", map[string]any{"amount": 5}).want(t, 401, "token_expired")
	}
	if again := agent.get(b.ID); again.Token != "" {
		t.Errorf("a permission of a second is good after more: %+v", again)
	}
}

// spend redeems with what the things are now that the call depends on.
func (c *client) spend(token, tool string, args any, now map[string]string) answer {
	return c.do("POST", "/v1/tokens/redeem", map[string]any{"token": token, "tool_name": tool, "arguments": args, "preconditions": now})
}

// TestPreconditions: a call that depends on something runs only while that is as
// it was. Otherwise people are asked anew, once.
func TestPreconditions(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	args := map[string]any{"row": 7}
	propose := func() approval {
		return agent.hold("conditional", args, header{"Holdpoint-Preconditions", `{"etag":"v1","branch":"main"}`})
	}
	for _, wrong := range []string{`[]`, `{"a":1}`, `{"a":"b","a":"c"}`, `x`} {
		agent.propose(event("conditional", "defer", args), header{"Holdpoint-Preconditions", wrong}).want(t, 400, "preconditions")
	}
	a := propose()
	if a.Preconditions["etag"] != "v1" {
		t.Errorf("got %+v", a)
	}
	d.reviewer(t, ada).approve(a)
	token := agent.wait(a.ID).Token
	agent.redeem(token, "conditional", args).want(t, 422, "preconditions_required")
	agent.spend(token, "conditional", args, map[string]string{"etag": "v1"}).want(t, 422, "preconditions_required")
	agent.spend(token, "conditional", map[string]any{"row": 8}, map[string]string{"etag": "v2", "branch": "main"}).want(t, 403, "arguments_mismatch")
	agent.spend(token, "conditional", args, map[string]string{"etag": "v1", "branch": "main"}).want(t, 200)

	b := propose()
	d.reviewer(t, ada).approve(b)
	token = agent.wait(b.ID).Token
	// However often, and however many at once: people are asked once.
	now := map[string]string{"etag": "v2", "branch": "main"}
	answers := make([]answer, 8)
	together(len(answers), func(i int) { answers[i] = agent.spend(token, "conditional", args, now) })
	answers = append(answers, agent.spend(token, "conditional", args, now), agent.spend(token, "conditional", args, map[string]string{"etag": "v1", "branch": "main"}))
	successors := map[string]int{}
	for _, got := range answers {
		var p problem
		got.want(t, 409, "stale").into(t, &p)
		successors[p.Successor]++
	}
	if len(successors) != 1 || successors[""] != 0 {
		t.Fatalf("successors %v, want one", successors)
	}
	next := agent.get(b.ID).Successor
	if successors[next] != len(answers) {
		t.Errorf("the approval names %q, the refusals %v", next, successors)
	}
	if n := d.count(t, `SELECT count(*) FROM approvals WHERE digest = $1 AND status = 'pending'`, b.Digest); n != 1 {
		t.Errorf("people are asked %d times", n)
	}
	c := agent.get(next)
	if c.Status != "pending" || c.Digest != b.Digest || c.Preconditions["etag"] != "v2" {
		t.Fatalf("the successor: %+v", c)
	}
	d.reviewer(t, ada).approve(c)
	token = agent.wait(c.ID).Token
	agent.spend(token, "conditional", args, now).want(t, 200)
	if got := agent.get(b.ID); got.Token != "" || got.Execution != "none" {
		t.Errorf("the stale one: %+v", got)
	}
}

// TestMemory: whoever asks the very same again gets the same answer; something
// else is something else.
func TestMemory(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	args := map[string]any{"row": newID("")}
	a := agent.checked("pay", args)
	deny := func(a approval, kind string) {
		t.Helper()
		body := ballot(a, "deny")
		body["kind"] = kind
		d.reviewer(t, ada).do("POST", approvalPath(a.ID)+"/votes", body).want(t, 200)
		if got := agent.wait(a.ID); got.Status != "denied" {
			t.Fatalf("got %+v", got)
		}
	}
	deny(a, "never")
	var again securityResult
	answer := agent.do("POST", "/v1/tool-calls/check", params("pay", args)).want(t, 200)
	if answer.into(t, &again); again.Allowed || again.Approval == nil || again.Approval.ID != a.ID || again.Approval.Status != "denied" || again.Approval.Denial.Kind != "never" {
		t.Errorf("asked again: %s", answer)
	}
	if n := d.count(t, `SELECT count(*) FROM approvals WHERE digest = $1`, a.Digest); n != 1 {
		t.Errorf("there are %d approvals of it", n)
	}
	agent.checked("pay", map[string]any{"row": newID("")})
	// The same call of another agent is another call.
	must(t, nil, "", "agent", "set", "forgetful", "--data", d.dir, "--owner", d.Owner.Email)
	other := d.client(t).with(d.newKey(t, "--agent", "forgetful"))
	other.do("POST", "/v1/tool-calls/check", map[string]any{"toolName": "pay", "toolArgs": args, "agentId": "forgetful"}).want(t, 202)
	// Who was told to say more may ask at once.
	more := agent.checked("pay", map[string]any{"row": newID(""), "why": ""})
	deny(more, "needs_info")
	late := agent.hold("memory", map[string]any{"row": 1})
	deny(late, "not_now")
	agent.propose(event("memory", "defer", map[string]any{"row": 1})).want(t, 200)
	agent.checked("pay", map[string]any{"row": more.Digest[7:]})
}

// TestPolicyChangedWhileWaiting: what people have approved is judged by the rules
// in force. Stricter ones ask people again, for the stricter of both; rules that
// refuse it end it.
func TestPolicyChangedWhileWaiting(t *testing.T) {
	ownPrograms(t)
	rules := func(version int, small, wire string) string {
		text := strings.Replace(waitsPolicy, "VERSION", fmt.Sprint(version), 1)
		i := strings.Index(text, "  - id: small")
		text = text[:i] + strings.Replace(text[i:], "outcome: REQUIRE_APPROVAL\n    approver_role: finance-approver\n", small, 1)
		return strings.Replace(text, "outcome: REQUIRE_HUMAN\n    approver_role: reviewer\n", wire, 1)
	}
	one := "outcome: REQUIRE_APPROVAL\n    approver_role: finance-approver\n"
	two := one + "    approval: {quorum: 2}\n"
	human := "outcome: REQUIRE_HUMAN\n    approver_role: reviewer\n"
	d := startWith(t, map[string]string{"policy.yaml": rules(1, one, human)})
	agent := d.agent(t)
	put := func(version int, small, wire string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(d.dir, "policy.yaml"), []byte(rules(version, small, wire)), 0o644); err != nil {
			t.Fatal(err)
		}
		eventually(t, settleWithin, "the rules are in force", func() bool {
			var r struct {
				Version string `json:"policy_version"`
			}
			d.admin(t).do("GET", "/v1/admin/rules", nil).want(t, 200).into(t, &r)
			return r.Version == fmt.Sprint(version)
		})
	}
	args := map[string]any{"amount": 5}
	reopened, refused := agent.checked("pay", args), agent.checked("wire", none())
	denied := agent.checked("pay", map[string]any{"amount": 6})
	d.reviewer(t, ada).vote(denied, "deny").want(t, 200)
	agent.wait(denied.ID)
	agent.do("POST", "/v1/tool-calls/check", params("pay", map[string]any{"amount": 6})).want(t, 200)

	put(2, two, "outcome: DENY\n")
	// Memory is of what was denied under these rules.
	agent.checked("pay", map[string]any{"amount": 6})

	d.reviewer(t, ada).approve(reopened)
	eventually(t, settleWithin, "it is reopened", func() bool { return agent.get(reopened.ID).Edition == 2 })
	got := agent.get(reopened.ID)
	if got.Status != "pending" || got.Requirements[0].Needed != 2 || got.Requirements[0].Given != 0 || got.Version == reopened.Version || got.Digest != reopened.Digest || !got.ExpiresAt.Equal(reopened.ExpiresAt) {
		t.Fatalf("reopened: %+v", got)
	}
	d.reviewer(t, ben).vote(reopened, "approve").want(t, 409, "stale")
	d.reviewer(t, ada).approve(got)
	d.reviewer(t, ben).approve(got)
	got = agent.wait(reopened.ID)
	if got.Status != "approved" {
		t.Fatalf("got %+v", got)
	}
	if story := d.admin(t).story(reopened.ID); !containsInOrder(story, []string{"reopen REQUIRE_APPROVAL policy_changed", "settled APPROVED APPROVED"}) {
		t.Errorf("story %q", story)
	}
	agent.redeem(got.Token, "pay", args).want(t, 200)

	d.reviewer(t, ada).approve(refused)
	if got := agent.wait(refused.ID); got.Status != "denied" || got.Reasons[0].Code != "policy_changed" || got.Token != "" {
		t.Errorf("refused by the rules in force: %+v", got)
	}

	// Rules that ask for less ask people for nothing twice, and loosen nothing.
	looser := agent.checked("pay", map[string]any{"amount": 8})
	put(3, one, human)
	d.reviewer(t, ada).approve(looser)
	if got, err := agent.await(looser.ID, time.Second); err == nil {
		t.Errorf("one was enough: %+v", got)
	}
	d.reviewer(t, ben).approve(looser)
	if got := agent.wait(looser.ID); got.Status != "approved" || got.Edition != 1 {
		t.Errorf("got %+v", got)
	}
	// Other people than before: both are asked.
	both := agent.checked("pay", map[string]any{"amount": 9})
	put(4, "outcome: REQUIRE_HUMAN\n    approver_role: security-approver\n", human)
	d.reviewer(t, dina).approve(both)
	eventually(t, settleWithin, "it is reopened", func() bool { return agent.get(both.ID).Edition == 2 })
	got = agent.get(both.ID)
	if len(got.Requirements) != 2 || got.Requirements[0].Kind != "review" || got.Requirements[0].Role != "finance-approver" ||
		got.Requirements[1].Kind != "human" || got.Requirements[1].Role != "security-approver" {
		t.Fatalf("the stricter of both: %+v", got.Requirements)
	}
	d.reviewer(t, dina).approve(got)
	d.anew(t, d.Reviewers[ben]).approve(got)
	if got := agent.wait(both.ID); got.Status != "approved" {
		t.Errorf("got %+v", got)
	}
}

// TestBreakGlass: in an emergency two people let something through for which they
// have not the role, or one alone whom somebody else then looks after.
func TestBreakGlass(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	args := map[string]any{"n": 1}
	glass := func(a approval, more map[string]any) map[string]any { return seen(a, more) }
	why := map[string]any{"comment": "The site is down."}
	a := agent.hold("glass_x", args)
	breaker, second := d.anew(t, d.Reviewers[dina]), d.anew(t, d.Reviewers[emil])
	d.reviewer(t, ada).act(a.ID, "break-glass", glass(a, why)).want(t, 403, "not_eligible")
	agent.act(a.ID, "break-glass", glass(a, why)).want(t, 403, "machine_principal")
	alias := d.newPerson(t, "--role", "break-glass", "--same-as", d.Owner.Email)
	d.as(t, alias).act(a.ID, "break-glass", glass(a, why)).want(t, 403, "self_review")
	breaker.act(a.ID, "break-glass", glass(a, map[string]any{"comment": " "})).want(t, 422, "reason_required")
	d.forget(t, d.Reviewers[dina])
	breaker.act(a.ID, "break-glass", glass(a, why)).want(t, 403, "verification_required")
	breaker = d.anew(t, d.Reviewers[dina])
	old := a
	old.Version++
	breaker.act(a.ID, "break-glass", glass(old, why)).want(t, 409, "stale")
	breaker.act(a.ID, "break-glass", glass(a, why)).want(t, 200)
	breaker.act(a.ID, "break-glass", glass(a, why)).want(t, 409, "already_voted")
	if got, err := agent.await(a.ID, time.Second); err == nil {
		t.Errorf("one was enough: %+v", got)
	}
	second.act(a.ID, "break-glass", glass(a, why)).want(t, 200)
	got := agent.wait(a.ID)
	if got.Status != "approved" || got.Reasons[0].Code != "BREAK_GLASS" {
		t.Fatalf("got %+v", got)
	}
	if want := []string{"break_glass REQUIRE_APPROVAL BREAK_GLASS", "break_glass REQUIRE_APPROVAL BREAK_GLASS", "settled APPROVED BREAK_GLASS"}; !containsInOrder(d.admin(t).story(a.ID), want) {
		t.Errorf("story %q", d.admin(t).story(a.ID))
	}
	d.reviewer(t, ada).act(a.ID, "afterwards", map[string]any{"justified": true, "comment": "It was."}).want(t, 409, "nothing_owed")
	agent.redeem(got.Token, "glass_x", args).want(t, 200)

	// Alone.
	b := agent.hold("glass_x", map[string]any{"n": 2})
	breaker.act(b.ID, "break-glass", glass(b, map[string]any{"comment": "Nobody else is awake.", "alone": true})).want(t, 200)
	if got := agent.wait(b.ID); got.Status != "approved" {
		t.Fatalf("got %+v", got)
	}
	fine := map[string]any{"justified": true, "comment": "It had to be."}
	breaker.act(b.ID, "afterwards", fine).want(t, 403, "self_review")
	d.as(t, d.Owner).act(b.ID, "afterwards", fine).want(t, 403, "self_review")
	d.reviewer(t, ada).act(b.ID, "afterwards", map[string]any{"justified": true, "comment": ""}).want(t, 422, "reason_required")
	d.reviewer(t, ada).act(b.ID, "afterwards", fine).want(t, 200)
	d.reviewer(t, ben).act(b.ID, "afterwards", fine).want(t, 409, "nothing_owed")
	if story := d.admin(t).story(b.ID); !slices.Contains(story, "review_afterwards ALLOW REVIEWED_AFTERWARDS") {
		t.Errorf("story %q", story)
	}
}

// TestLease: of a call whose agent does not say in time what became of it nobody
// knows anything, until a person finds out.
func TestLease(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	run := func(n int, lease int) (approval, grant) {
		t.Helper()
		a := agent.hold("leased", map[string]any{"n": n})
		d.reviewer(t, ada).approve(a)
		var spent grant
		agent.do("POST", "/v1/tokens/redeem", map[string]any{
			"token": agent.wait(a.ID).Token, "tool_name": "leased", "arguments": map[string]any{"n": n}, "lease_seconds": lease,
		}).want(t, 200).into(t, &spent)
		return a, spent
	}
	report := func(a approval) answer {
		return agent.do("POST", "/v1/executions", map[string]any{"approval_id": a.ID, "outcome": "succeeded"})
	}
	longer, granted := run(1, 600)
	if got := agent.get(longer.ID); got.Execution != "redeemed" || !got.LeaseUntil.Equal(granted.LeaseUntil) || granted.LeaseUntil.Sub(longer.OpenedAt) < 10*time.Minute {
		t.Errorf("its lease: %+v, redeemed with %s", got, granted.LeaseUntil)
	}
	inTime, _ := run(2, 600)
	report(inTime).want(t, 200)
	a, spent := run(3, 0)
	if lease := spent.LeaseUntil.Sub(a.OpenedAt); lease > healWithin {
		t.Errorf("the settings' lease lasts %s", lease)
	}
	past(spent.LeaseUntil)
	eventually(t, healWithin, "nobody knows what became of it", func() bool { return agent.get(a.ID).Execution == "unknown" })
	report(a).want(t, 409, "lease_ended")
	if got := agent.get(a.ID); got.Execution != "unknown" {
		t.Errorf("a late report settles it silently: %+v", got)
	}
	if got := agent.get(longer.ID).Execution; got != "redeemed" {
		t.Errorf("who asked for more time has %q", got)
	}
	report(longer).want(t, 200)
	found := map[string]any{"outcome": "succeeded", "comment": "It is in the ledger."}
	d.reviewer(t, ada).act(a.ID, "reconciliation", found).want(t, 403, "not_accountable")
	d.as(t, d.Owner).act(a.ID, "reconciliation", map[string]any{"outcome": "succeeded", "comment": " "}).want(t, 422, "reason_required")
	d.as(t, d.Owner).act(a.ID, "reconciliation", map[string]any{"outcome": "unknown", "comment": "x"}).want(t, 422)
	d.as(t, d.Owner).act(a.ID, "reconciliation", found).want(t, 200)
	d.as(t, d.Owner).act(a.ID, "reconciliation", found).want(t, 409, "not_unknown")
	d.as(t, d.Owner).act(inTime.ID, "reconciliation", found).want(t, 409, "not_unknown")
	if got := agent.get(a.ID).Execution; got != "succeeded" {
		t.Errorf("execution is %q", got)
	}
	if want := []string{"redeem ALLOW REDEEMED", "execution ALLOW EXECUTION_UNKNOWN", "execution DENY lease_ended", "execution ALLOW EXECUTION_RECONCILED"}; !containsInOrder(d.admin(t).story(a.ID), want) {
		t.Errorf("story %q", d.admin(t).story(a.ID))
	}
}
