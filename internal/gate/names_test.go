package gate_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

func TestStrangeIDsAreNotFound(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	for _, id := range []string{"", "apr_", "apr_\x00", "\xff", strings.Repeat("x", 300_000), "apr_" + strings.Repeat("A", 26), "../../etc"} {
		if _, err := h.Queries.ForAgent(ctx, h.agent, id); code(err) != "not_found" {
			t.Errorf("read %.20q: %v", id, err)
		}
		if _, err := h.Contributions.Cancel(ctx, h.agent, id, "", nil); code(err) != "not_found" {
			t.Errorf("cancel %.20q: %v", id, err)
		}
		if _, err := h.Executed(ctx, h.agent, gate.ExecutionRequest{ApprovalID: id, Outcome: approval.Failed}, nil); code(err) != "not_found" {
			t.Errorf("report %.20q: %v", id, err)
		}
		if _, err := h.Contributions.Vote(ctx, gate.VoteRequest{Person: h.people["ada"], ApprovalID: id, Approve: true}, nil); code(err) != "not_found" {
			t.Errorf("vote %.20q: %v", id, err)
		}
	}
	events, err := h.Events(ctx, store.EventFilter{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.ApprovalID != "" {
			t.Errorf("an event of %.20q", e.ApprovalID)
		}
	}
	a := h.open(deferred)
	v := gate.VoteRequest{Person: h.people["ada"], ApprovalID: a.ID, Approve: true, Digest: a.Call.Digest, Version: a.Version, Comment: "a\x00b"}
	if _, err := h.Contributions.Vote(ctx, v, nil); code(err) != "unfit_text" {
		t.Errorf("a comment with a NUL: %v", err)
	}
}

func TestTheSubjectDoesNotDecide(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	for _, ref := range []string{
		"ada@example.com", "ADA@Example.COM", " ada@example.com ", "mailto:ada@example.com", "Ada <ada@example.com>",
		"<ada@example.com>", "ada@example.com.", "mailto:ada@example.com?subject=x", "ada2@example.com", h.people["ada"].ID, h.people["ada"].Identity,
	} {
		subject, err := json.Marshal(ref)
		if err != nil {
			t.Fatal(err)
		}
		a := h.open(strings.Replace(deferred, `"recommended_route"`, `"authorization_subject":{"subject_type":"employee","subject_ref":`+string(subject)+`},"recommended_route"`, 1))
		if got := code(h.vote("ada", a, true)); got != "self_review" {
			t.Errorf("%q: %q", ref, got)
		}
		if got := code(h.vote("ben", a, true)); got != "" {
			t.Errorf("%q keeps Ben out: %q", ref, got)
		}
	}
}

func TestToolNamesAreWhatTheySeem(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	for name, want := range map[string]string{
		"send_payment": "", "fs.read-file/2": "", "größe_prüfen": "", "платеж": "", "支払い": "", "run tool": "",
		" pay": "tool_name_unclear", "pay ": "tool_name_unclear", "p\u200bay": "tool_name_unclear", "p\u0430y": "tool_name_unclear",
		"Tシャツ": "", "한국어": "", "pay\u115f": "tool_name_unclear", "\u3164": "tool_name_unclear", "pay\uffa0": "tool_name_unclear",
		"ꓑay": "tool_name_unclear", "ⲣay": "tool_name_unclear", "payן": "tool_name_unclear", "payا": "tool_name_unclear", "ᗷuy": "tool_name_unclear",
		"ɡet": "tool_name_unclear", "pɑy": "tool_name_unclear", "раура": "tool_name_unclear",
		"pay\u2010now": "tool_name_unclear", "pay\u202e": "tool_name_unclear", "a\u00a0b": "tool_name_unclear",
	} {
		_, err := h.PreToolCheck(context.Background(), h.agent, parse(t, strings.Replace(deferred, `"pay"`, `"`+name+`"`, 1)), gate.Request{}, nil)
		if got := code(err); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// What has not the contract's structure is refused by the contract, whatever
// its tool is called, and no strange name gets into the log.
func TestInvalidEventsAreRefusedNotTurnedAway(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	for _, name := range []string{`" "`, `""`, `"p\u200b"`, `7`, `"` + strings.Repeat("x", 5000) + `"`} {
		checked, err := h.PreToolCheck(context.Background(), h.agent, parse(t, `{"tool_name":`+name+`}`), gate.Request{}, nil)
		if err != nil || checked.Route != engine.Refuse || len(checked.Envelope.ValidationErrors) == 0 {
			t.Errorf("%.20s: %s, %v", name, checked.Route, err)
		}
	}
	events, err := h.Events(context.Background(), store.EventFilter{AgentID: "bot"}, 100)
	if err != nil || len(events) != 5 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for _, e := range events {
		if e.ToolName != "" {
			t.Errorf("the log names the tool %.20q", e.ToolName)
		}
	}
}
