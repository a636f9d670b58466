package tests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// sound is a history in which everything is as it should be: one approval of
// two stages that was approved, redeemed and reported, one denied, one
// cancelled, one expired, one pending.
func sound() history {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	two := []requirement{{Kind: "answer", Role: "reviewer", Needed: 1}, {Kind: "review", Role: "reviewer", Needed: 2, Within: "30s"}}
	one := []requirement{{Kind: "review", Role: "reviewer", Needed: 1}}
	h := history{now: at(100)}
	h.approvals = []approvalRow{
		{id: "apr_a", status: "approved", execution: "succeeded", opened: start, expires: at(60), ended: at(5), requirements: two, excluded: []string{"olga"}},
		{id: "apr_d", status: "denied", execution: "none", opened: start, expires: at(60), ended: at(5), requirements: one},
		{id: "apr_c", status: "cancelled", execution: "none", opened: start, expires: at(60), ended: at(5), requirements: one},
		{id: "apr_e", status: "expired", execution: "none", opened: start, expires: at(60), ended: at(31.1), requirements: two},
		{id: "apr_p", status: "pending", execution: "none", opened: start, expires: at(600), requirements: one},
	}
	for i := range h.approvals {
		h.approvals[i].edition = 1
	}
	vote := func(seq int64, s float64, id, who string, yes bool) factRow {
		return factRow{seq: seq, at: at(s), approval: id, kind: "vote", actorKind: "human", actor: "usr_" + who, yes: yes, identity: who, roles: []string{"reviewer"}}
	}
	runtime := func(seq int64, id string) factRow {
		return factRow{seq: seq, at: at(1), approval: id, kind: "answer", actorKind: "service", actor: "key_r", yes: true}
	}
	h.facts = []factRow{
		runtime(1, "apr_a"), vote(2, 2, "apr_a", "ada", true), vote(3, 4, "apr_a", "ben", true), vote(4, 3, "apr_d", "ada", false),
		{seq: 5, at: at(3), approval: "apr_c", kind: "cancel", actorKind: "agent", actor: "bot", yes: false},
		runtime(6, "apr_e"), vote(7, 3, "apr_e", "ada", true),
	}
	event := func(kind, outcome, id string) {
		seq := int64(len(h.events) + 1)
		e := eventRow{seq: seq, at: at(float64(seq)), id: fmt.Sprintf("e%d", seq), kind: kind, outcome: outcome, agent: "bot", tool: "tool", approval: id}
		e.body, _ = json.Marshal(map[string]any{
			"event_id": e.id, "type": kind, "outcome": outcome, "agent_id": "bot", "tool_name": "tool", "approval_id": id,
			"reasons": []any{}, "safe_payload": map[string]any{}, "actor": map[string]any{"kind": "agent"}, "request_id": "r_" + kind + id,
		})
		h.events = append(h.events, e)
	}
	for _, a := range h.approvals {
		event("decision", "REQUIRE_APPROVAL", a.id)
	}
	for _, e := range [][3]string{
		{"answer", "REQUIRE_APPROVAL", "apr_a"},
		{"vote", "REQUIRE_APPROVAL", "apr_a"},
		{"vote", "REQUIRE_APPROVAL", "apr_a"},
		{"vote", "REQUIRE_APPROVAL", "apr_d"},
		{"cancel", "REQUIRE_APPROVAL", "apr_c"},
		{"settled", "APPROVED", "apr_a"},
		{"settled", "REJECTED", "apr_d"},
		{"settled", "REJECTED", "apr_c"},
		{"settled", "TIMEOUT", "apr_e"},
		{"redeem", "DENY", "apr_a"},
		{"redeem", "ALLOW", "apr_a"},
		{"execution", "ALLOW", "apr_a"},
	} {
		event(e[0], e[1], e[2])
	}
	h.tokens = []tokenRow{{jti: "tok_a", approval: "apr_a", redeemed: true}}
	h.answers = []answered{{"r_decisionapr_a", "decision", "apr_a"}, {"r_voteapr_a", "vote", "apr_a"}, {"r_redeemapr_a", "redeem", "apr_a"}}
	return h
}

// TestCheckerFindsBrokenHistories breaks one promise after the other: a checker
// that cannot find them would be worth nothing.
func TestCheckerFindsBrokenHistories(t *testing.T) {
	if got := sound().violations(); len(got) > 0 {
		t.Fatalf("a sound history is said to break: %q", got)
	}
	without := func(h *history, kind, id string) {
		h.events = slices.DeleteFunc(h.events, func(e eventRow) bool { return e.kind == kind && e.approval == id && e.outcome != "DENY" })
	}
	again := func(h *history, kind, id string) {
		for _, e := range h.events {
			if e.kind == kind && e.approval == id && e.outcome != "DENY" {
				e.seq, e.id = int64(len(h.events)+1), "again"
				e.body = []byte(strings.Replace(string(e.body), `"event_id":"e`, `"event_id":"again","x":"e`, 1))
				h.events = append(h.events, e)
				return
			}
		}
	}
	for name, c := range map[string]struct {
		want   string
		damage func(*history)
	}{
		"terminal without event":         {"I2: apr_d", func(h *history) { without(h, "settled", "apr_d") }},
		"two terminal events":            {"I2: apr_a", func(h *history) { again(h, "settled", "apr_a") }},
		"terminal event of a pending":    {"I2: apr_d", func(h *history) { h.approvals[1].status = "pending" }},
		"event of another state":         {"I2: apr_d", func(h *history) { h.approvals[1].status = "cancelled" }},
		"end of an unknown approval":     {"I2: apr_x", func(h *history) { again(h, "settled", "apr_a"); h.events[len(h.events)-1].approval = "apr_x" }},
		"state that there is not":        {"I2: apr_d", func(h *history) { h.approvals[1].status = "done" }},
		"redeemed twice":                 {"I3: apr_a", func(h *history) { again(h, "redeem", "apr_a") }},
		"two tokens":                     {"I3: apr_a", func(h *history) { h.tokens = append(h.tokens, tokenRow{"tok_b", "apr_a", false}) }},
		"token of a denied call":         {"I3: apr_d", func(h *history) { h.tokens = append(h.tokens, tokenRow{"tok_b", "apr_d", false}) }},
		"approved without token":         {"I3: apr_a", func(h *history) { h.tokens = nil }},
		"redeemed without spending":      {"I3: apr_a", func(h *history) { h.tokens[0].redeemed = false }},
		"spent without event":            {"I3: apr_a", func(h *history) { without(h, "redeem", "apr_a") }},
		"ran without redeeming":          {"I3: apr_d", func(h *history) { h.approvals[1].execution = "succeeded" }},
		"one vote short":                 {"I5: apr_a", func(h *history) { h.facts = slices.Delete(h.facts, 2, 3) }},
		"one person with two accounts":   {"I5: apr_a", func(h *history) { h.facts[2].identity = "ada" }},
		"vote of the owner":              {"I5: apr_a", func(h *history) { h.facts[2].identity = "olga" }},
		"vote without the role":          {"I5: apr_a", func(h *history) { h.facts[2].roles = []string{"auditor"} }},
		"vote of a machine":              {"I5: apr_a", func(h *history) { h.facts[2].actorKind = "service" }},
		"vote of somebody disabled":      {"I5: apr_a", func(h *history) { h.facts[1].disabled = h.approvals[0].opened.Add(3 * time.Second) }},
		"vote after the deadline":        {"I5: apr_a", func(h *history) { h.facts[2].at = h.approvals[0].opened.Add(31*time.Second + time.Millisecond) }},
		"answer of the agent itself":     {"I5: apr_a", func(h *history) { h.facts[0].actorKind = "agent" }},
		"approved after a cancellation":  {"I5: apr_a", func(h *history) { h.facts[0].kind = "cancel" }},
		"vote on another edition":        {"I5: apr_a", func(h *history) { h.facts[2].edition = 2 }},
		"an edition out of nothing":      {"I4: apr_a", func(h *history) { h.approvals[0].edition = 2 }},
		"deputy without a delegation":    {"I5: apr_a", func(h *history) { h.facts[2].unfounded = true }},
		"deputy of who has voted":        {"I5: apr_a", func(h *history) { h.facts[2].via, h.facts[2].speaker = []string{"ada"}, []string{"reviewer"} }},
		"deputy of the owner":            {"I5: apr_a", func(h *history) { h.facts[2].via, h.facts[2].speaker = []string{"olga"}, []string{"reviewer"} }},
		"deputy of who has not the role": {"I5: apr_a", func(h *history) { h.facts[2].via, h.facts[2].speaker = []string{"cleo"}, []string{"auditor"} }},
		"a decision without a proof":     {"I5: apr_a", func(h *history) { h.approvals[0].requirements[1].Kind = "human" }},
		"one person for two groups": {"I5: apr_a", func(h *history) {
			h.approvals[0].requirements[1].AnyOf = []group{{"reviewer", 3}, {"auditor", 1}}
		}},
		"one no of two": {"I2: apr_d", func(h *history) { h.approvals[1].requirements[0].Deny = 2 }},
		"a glass that nobody may break": {"I5: apr_a", func(h *history) {
			h.facts[2].kind, h.facts[2].details.Alone, h.facts[2].comment = "break_glass", true, "It burns."
		}},
		"a glass that nobody looks at": {"I5: apr_a was let through", func(h *history) {
			f := &h.facts[2]
			f.kind, f.details.Alone, f.comment, f.roles = "break_glass", true, "It burns.", []string{"break-glass"}
			_ = json.Unmarshal([]byte(`{"method":"totp","at":"2026-01-02T03:04:08Z"}`), &f.details.Proof) // as it is in the database
		}},
		"escalated too early": {"I5: apr_a", func(h *history) {
			h.facts[2].roles, h.approvals[0].requirements[1].Escalation = []string{"chief"}, []escalation{{"10s", "chief"}}
		}},
		"widened without a claim": {"I5: apr_a", func(h *history) {
			h.facts[2].roles, h.approvals[0].terms.IfTooFew = []string{"chief"}, "chief"
			h.facts = append(h.facts, factRow{seq: 2, at: h.facts[1].at, approval: "apr_a", kind: "escalate", actorKind: "system", edition: 1, details: details{Widened: []int{1}}})
		}},
		"widened beside what was": {"I5: apr_a", func(h *history) {
			h.facts[2].roles, h.approvals[0].terms.IfTooFew, h.approvals[0].terms.ByClaim = []string{"chief"}, "chief", []string{"olga"}
			h.facts = append(h.facts, factRow{seq: 2, at: h.facts[1].at, approval: "apr_a", kind: "escalate", actorKind: "system", edition: 1, details: details{Widened: []int{0}}})
		}},
		"time that the clock stood still": {"I6: apr_e", func(h *history) {
			h.approvals[3].terms.PauseFor = "5s"
			h.facts = append(h.facts, factRow{seq: 8, at: h.facts[6].at.Add(time.Second), approval: "apr_e", kind: "question", actorKind: "human", edition: 1})
		}},
		"a lease that is over": {"I6: apr_a", func(h *history) {
			h.approvals[0].execution, h.approvals[0].leaseUntil = "redeemed", h.now.Add(-time.Minute)
		}},
		"approved after a denial":        {"I5: apr_a", func(h *history) { h.facts[1].yes = false }},
		"nothing required":               {"I5: apr_a", func(h *history) { h.approvals[0].requirements = nil }},
		"accepted, and no event says so": {"I5: apr_a", func(h *history) { h.approvals[0].requirements, h.approvals[0].terms.AcceptedAs = nil, "confirmed" }},
		"expired early":                  {"I6: apr_e", func(h *history) { h.approvals[3].ended = h.approvals[3].opened.Add(31*time.Second - time.Millisecond) }},
		"expired though approved":        {"I2: apr_e", func(h *history) { f := h.facts[6]; f.seq, f.identity = 8, "ben"; h.facts = append(h.facts, f) }},
		"deadline missed":                {"I6: apr_p", func(h *history) { h.now = h.approvals[4].expires.Add(time.Minute) }},
		"denied by nobody":               {"I2: apr_d", func(h *history) { h.facts = slices.Delete(h.facts, 3, 4) }},
		"cancelled by nobody":            {"I2: apr_c", func(h *history) { h.facts = slices.Delete(h.facts, 4, 5) }},
		"event that is no JSON":          {"I8: the body", func(h *history) { h.events[3].body = []byte(`{"event_id":`) }},
		"event that says something else": {"I8: event 1", func(h *history) { h.events[0].outcome = "ALLOW" }},
		"event without an actor": {"I8: event 1", func(h *history) {
			h.events[0].body = []byte(strings.Replace(string(h.events[0].body), `"agent"}`, `""}`, 1))
		}},
		"event with a time of its own": {"I8: the body", func(h *history) {
			h.events[0].body = []byte(strings.Replace(string(h.events[0].body), `{`, `{"seq":1,`, 1))
		}},
		"event twice": {"I8: event id", func(h *history) { h.events = append(h.events, h.events[0]) }},
		"end before the votes": {"I8: the events of apr_d", func(h *history) {
			i := slices.IndexFunc(h.events, func(e eventRow) bool { return e.kind == "vote" && e.approval == "apr_d" })
			h.events = append(h.events, h.events[i])
			h.events = slices.Delete(h.events, i, i+1)
		}},
		"approval out of nothing":     {"I1: apr_p", func(h *history) { without(h, "decision", "apr_p") }},
		"answer without event":        {"I1: a 2xx", func(h *history) { h.answers = append(h.answers, answered{"r_none", "vote", "apr_a"}) }},
		"answer whose event is lost":  {"I1: a 2xx", func(h *history) { without(h, "vote", "apr_a") }},
		"answer to a refused request": {"I1: a 2xx", func(h *history) { without(h, "redeem", "apr_a") }},
	} {
		h := sound()
		c.damage(&h)
		if got := h.violations(); !slices.ContainsFunc(got, func(v string) bool { return strings.HasPrefix(v, c.want) }) {
			t.Errorf("%s: got %q, want one that begins with %q", name, got, c.want)
		}
	}
}
