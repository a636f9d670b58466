package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// simulated is what "policy simulate --json" says.
type simulated struct {
	Calls   int
	Changes []struct {
		Tool     string
		Old, New struct{ Outcome, Rule, Terms string }
		Count    int
		Examples []string
	}
	Passing []struct {
		ID, Tool, By, Name, At, Kind string
		Accepted                     bool
	} `json:"passing_denials"`
	Unreplayable []struct {
		Tool     string
		Outcomes map[string]int
	}
}

// TestSimulateRecorded: a new policy is held against what has been decided. It
// names the past denial that it would let through, counts what cannot be judged
// again, and never tells an argument.
func TestSimulateRecorded(t *testing.T) {
	d := onShared(t)
	const canary = "argument-that-nobody-may-see"
	check := func(tool string, args map[string]any) answer {
		return d.agent(t).do("POST", "/v1/tool-calls/check", map[string]any{"toolName": tool, "toolArgs": args, "agentId": "demo-agent", "userInput": canary})
	}
	waiting := func(a answer) approval {
		var v struct{ Approval approval }
		a.want(t, 202).into(t, &v)
		return v.Approval
	}
	denied := waiting(check("issue_refund", map[string]any{"amount": 60, "reason": canary}))
	asked := waiting(check("issue_refund", map[string]any{"amount": 4000, "reason": canary}))
	check("get_balance", map[string]any{"account": canary}).want(t, 200)
	tool := newID("simulated_")
	event := d.agent(t).hold(tool, map[string]any{"text": canary})
	d.reviewer(t, 0).vote(denied, "deny").want(t, 200)
	d.reviewer(t, 0).vote(event, "deny").want(t, 200)
	d.agent(t).wait(denied.ID)
	d.agent(t).wait(event.ID)

	former, err := os.ReadFile(filepath.Join(d.dir, "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(t.TempDir(), "next.yaml")
	text := strings.NewReplacer(
		"amount: {gt: 0, lte: 50}", "amount: {gt: 0, lte: 65}", "amount: {gt: 50, lte: 500}", "amount: {gt: 65, lte: 500}",
		"amount: {gt: 500}", "amount: {gt: 5000}",
		"rules:\n", "rules:\n  - {id: watched, description: This tool is watched., match: {tool_name: "+tool+", environment: \"*\"}, outcome: REQUIRE_HUMAN, approver_role: reviewer}\n",
	).Replace(string(former))
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	simulate := func(want int, more ...string) (out simulated) {
		t.Helper()
		got := cli(t, nil, "", append([]string{"policy", "simulate", next, "--data", d.dir, "--json"}, more...)...)
		if got.code != want || strings.Contains(got.out+got.err, canary) {
			t.Fatalf("exit %d, want %d\n%s%s", got.code, want, got.out, got.err)
		}
		if err := json.Unmarshal([]byte(got.out), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := simulate(1)
	var accepted []string
	named := false
	for _, p := range out.Passing {
		accepted = append(accepted, p.ID)
		if p.ID == asked.ID || p.ID == event.ID {
			t.Errorf("%s is named: nobody denied it, or its contract still has it reviewed", p.ID)
		}
		if p.ID == denied.ID {
			named = p.Tool == "issue_refund" && strings.HasPrefix(p.By, "usr_") && p.Name != "" && p.At != "" && p.Kind == "not_now" && !p.Accepted
		}
	}
	if !named {
		t.Errorf("the past denial %s is not named in %+v", denied.ID, out.Passing)
	}
	changes := map[string]string{}
	for _, c := range out.Changes {
		changes[c.Tool+" "+c.Old.Rule] = c.Old.Outcome + " → " + c.New.Outcome + " " + c.New.Rule + " " + c.New.Terms
		if c.Count < 1 || len(c.Examples) < 1 {
			t.Errorf("%+v", c)
		}
	}
	for change, want := range map[string]string{
		"issue_refund refund-medium": "REQUIRE_APPROVAL → ALLOW refund-small",
		tool + " ":                   "REQUIRE_APPROVAL → REQUIRE_HUMAN watched human by 1 × reviewer",
	} {
		if !strings.HasPrefix(changes[change], want) {
			t.Errorf("%s: got %q, want %q", change, changes[change], want)
		}
	}
	counted := false
	for _, u := range out.Unreplayable {
		counted = counted || u.Tool == "get_balance" && u.Outcomes["ALLOW"] > 0
	}
	if !counted || out.Calls < 3 {
		t.Errorf("%d calls; what was decided at once is %+v", out.Calls, out.Unreplayable)
	}
	if out := simulate(0, "--accept-denials", strings.Join(accepted, ",")); len(out.Passing) != len(accepted) || !out.Passing[0].Accepted {
		t.Errorf("accepted: %+v", out.Passing)
	}
	// The policy of their time changes nothing.
	got := cli(t, nil, "", "policy", "simulate", filepath.Join(d.dir, "policy.yaml"), "--data", d.dir)
	if got.code != 0 || strings.Contains(got.out, canary) || !strings.Contains(got.out, " 0 change\n") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
}
