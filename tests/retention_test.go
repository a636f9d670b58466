package tests

import (
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestRetention: a retention below the floor is refused at load; one above it
// erases what is old enough, but for what a hold covers.
func TestRetention(t *testing.T) {
	ownPrograms(t)
	const keepAll = "routing:\n  default: {role: reviewer, needed: 1, expires_in: 1h}\n"
	const briefly = "retention: 1s\n" + keepAll
	d := startDev(t, func(o *devOptions) { o.policy = keepAll })
	agent := d.agent(t)
	ended := func(n int) approval {
		t.Helper()
		a := agent.hold("kept", map[string]any{"n": n})
		d.reviewer(t, 0).act(a.ID, "votes", seen(a, map[string]any{"decision": "deny", "kind": "not_now", "comment": "private"})).want(t, 200)
		return agent.wait(a.ID)
	}
	held, old := ended(1), ended(2)
	waiting := agent.hold("kept", map[string]any{"n": 3})

	// Below the floor, for everybody and everywhere.
	admin := d.admin(t)
	admin.do("POST", "/v1/admin/erasures", map[string]any{"approval_id": old.ID, "reason": "x"}).want(t, 409, "kept_recent")
	admin.do("POST", "/v1/admin/erasures", map[string]any{"approval_id": waiting.ID, "reason": "x"}).want(t, 409, "kept_pending")
	admin.do("POST", "/v1/admin/erasures", map[string]any{"approval_id": "apr_" + strings.Repeat("a", 26), "reason": "x"}).want(t, 404, "not_found")
	admin.do("POST", "/v1/admin/erasures", map[string]any{"approval_id": old.ID, "person": "x", "reason": "x"}).want(t, 422, "no_subject")
	admin.do("POST", "/v1/admin/erasures", map[string]any{"approval_id": old.ID, "reason": " "}).want(t, 422, "reason_required")
	agent.do("POST", "/v1/admin/erasures", map[string]any{"approval_id": old.ID, "reason": "x"}).want(t, 403, "scope_missing")
	if c := cli(t, nil, "", "erase", "approval", old.ID, "--reason", "x", "--yes", "--data", d.dir); c.code != 1 || !strings.Contains(c.err, "floor") {
		t.Errorf("the command below the floor: %+v", c)
	}
	if c := cli(t, nil, "", "erase", "approval", old.ID, "--reason", "x", "--data", d.dir); c.code != 1 || !strings.Contains(c.err, "--yes") {
		t.Errorf("with nobody to ask: %+v", c)
	}
	if story := admin.story(old.ID); !containsInOrder(story, []string{"erasure DENY kept_recent", "erasure DENY kept_recent"}) {
		t.Errorf("who tried is not on record: %q", story)
	}

	// Holds, by program, by page and by command.
	var hold struct{ ID string }
	key := header{"Idempotency-Key", newID("k_")}
	body := map[string]any{"covers": "approval", "subject": held.ID, "reason": "case 1"}
	first := admin.do("POST", "/v1/admin/holds", body, key).want(t, 200)
	if again := admin.do("POST", "/v1/admin/holds", body, key).want(t, 200); string(again.Body) != string(first.Body) {
		t.Errorf("a repetition places another: %s", again)
	}
	first.into(t, &hold)
	admin.do("POST", "/v1/admin/holds", map[string]any{"covers": "agent", "subject": "nobody", "reason": "x"}).want(t, 404, "not_found")
	owner := d.as(t, d.Owner)
	owner.do("POST", "/audit/holds", url.Values{"covers": {"person"}, "subject": {d.Reviewers[4].Email}, "reason": {"case 2"}}).want(t, 303)
	owner.do("POST", "/audit/holds", url.Values{"covers": {"person"}, "subject": {"nobody@example.com"}, "reason": {"case 2"}}).want(t, 422)
	d.as(t, d.Auditor).do("POST", "/audit/holds", url.Values{"covers": {"everything"}, "reason": {"x"}}).want(t, 403)
	page := string(d.as(t, d.Auditor).do("GET", "/audit/erasures", nil).want(t, 200).Body)
	if !strings.Contains(page, "case 1") || !strings.Contains(page, "case 2") || !strings.Contains(page, held.ID) || strings.Contains(page, `data-testid="release-hold"`) {
		t.Errorf("the page for auditors: %s", page)
	}
	if c := cli(t, nil, "", "erase", "person", d.Reviewers[4].Email, "--reason", "x", "--yes", "--data", d.dir); c.code != 1 || !strings.Contains(c.err, "legal hold") {
		t.Errorf("a person who is held: %+v", c)
	}
	listed := must(t, nil, "", "hold", "list", "--data", d.dir)
	other := regexp.MustCompile(`(hold_[a-z0-9]+)\s+person`).FindStringSubmatch(listed)
	if other == nil || !strings.Contains(listed, hold.ID) {
		t.Fatalf("listed: %s", listed)
	}
	owner.do("POST", "/audit/holds/"+other[1]+"/release", url.Values{}).want(t, 422)
	owner.do("POST", "/audit/holds/"+other[1]+"/release", url.Values{"confirm": {"yes"}}).want(t, 303)
	must(t, nil, "", "hold", "release", must(t, nil, "", "hold", "add", "--agent", "demo-agent", "--reason", "case 3", "--data", d.dir)[len("placed "):][:31], "--data", d.dir)

	// Refused at load.
	if err := d.program.stop(); err != nil {
		t.Fatal(err)
	}
	writeSettings(t, d, briefly)
	if _, err := launchDev(devBinary(t), devOptions{dir: d.dir}); err == nil || !strings.Contains(err.Error(), "retention: 1s is below the database's floor of 72h0m0s") {
		t.Fatalf("below the floor it starts: %v", err)
	}
	writeSettings(t, d, keepAll)
	d = d.again(t, nil)
	must(t, nil, "", "retention", "set-floor", "1s", "--data", d.dir)
	if shown := must(t, nil, "", "retention", "show", "--data", d.dir); !strings.Contains(shown, "sooner than 1s after its end") || !strings.Contains(shown, old.ID) || !strings.Contains(shown, "legal hold") {
		t.Errorf("shown: %s", shown)
	}
	if err := d.program.stop(); err != nil {
		t.Fatal(err)
	}
	writeSettings(t, d, briefly)
	d = d.again(t, nil)
	agent, admin = d.agent(t), d.admin(t)
	eventually(t, settleWithin, "what is old enough is erased", func() bool {
		return strings.Contains(string(agent.do("GET", approvalPath(old.ID), nil).Body), `"erased_at"`)
	})
	for _, id := range []string{held.ID, waiting.ID} {
		if a := agent.do("GET", approvalPath(id), nil); strings.Contains(string(a.Body), `"erased_at"`) {
			t.Errorf("%s was erased: %s", id, a)
		}
	}
	if story := admin.story(old.ID); !containsInOrder(story, []string{"settled REJECTED", "erasure ALLOW ERASED_BY_AGE"}) && !containsInOrder(story, []string{"erasure ALLOW ERASED_BY_AGE"}) {
		t.Errorf("story %q", story)
	}
	card := string(d.as(t, d.Owner).do("GET", "/approvals/"+old.ID, nil).want(t, 200).Body)
	if strings.Contains(card, "private") || !strings.Contains(card, `data-testid="erased"`) || !strings.Contains(card, "[erased]") {
		t.Errorf("the card: %s", card)
	}
	if history := string(d.as(t, d.Owner).do("GET", "/history", nil).want(t, 200).Body); strings.Count(history, `data-testid="erased"`) != 1 {
		t.Error("the history does not say what was erased")
	}
	report := string(d.as(t, d.Owner).do("GET", "/audit/erasures", nil).want(t, 200).Body)
	if !strings.Contains(report, old.ID) || !strings.Contains(report, "older than 1s") || !strings.Contains(report, "legal hold") {
		t.Errorf("the report: %s", report)
	}
	// Released, it can go.
	admin.do("POST", "/v1/admin/holds/release", map[string]any{"hold_id": hold.ID}).want(t, 200)
	admin.do("POST", "/v1/admin/holds/release", map[string]any{"hold_id": hold.ID}).want(t, 404, "not_found")
	admin.do("POST", "/v1/admin/erasures", map[string]any{"approval_id": held.ID, "reason": "request"}).want(t, 200)
	agent.cancel(waiting.ID).want(t, 200)
}

func writeSettings(t *testing.T, d *dev, text string) {
	t.Helper()
	writeFile(t, d.dir+"/settings.yaml", text)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
