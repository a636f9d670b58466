package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/report"
	"holdpoint/internal/store"
	"holdpoint/internal/worker"
)

// TestErasureIsOnRecord: what was erased, why and by which rule is an event that
// names no argument; so is who tried in vain; and what is left can be read by
// everybody who could read it before.
func TestErasureIsOnRecord(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	denied, aged := h.open(payment(1)), h.open(payment(2))
	for _, a := range []approval.Approval{denied, aged} {
		if err := h.vote("ada", a, false); err != nil {
			t.Fatal(err)
		}
		h.settle(a.ID)
	}
	by := access.PersonInitiator(h.people["owner"], "console", "r1")
	ask := admin.EraseRequest{ApprovalID: denied.ID, Reason: "request 4711"}
	if _, err := h.Retention.Erase(ctx, by, ask, nil); code(err) != "kept_recent" {
		t.Errorf("below the floor: %v", err)
	}
	h.db.Exec(`UPDATE retention_floor SET shortest = '0'`)
	hold, err := h.Retention.PlaceHold(ctx, by, admin.HoldRequest{Covers: admin.CoversPerson, Subject: "ada@example.com", Reason: "case 1"}, nil)
	if err != nil || hold.Subject != h.people["ada"].ID {
		t.Fatalf("%+v, %v", hold, err)
	}
	if _, err := h.Retention.Erase(ctx, by, ask, nil); code(err) != "kept_held" {
		t.Errorf("under a hold: %v", err)
	}
	retention := &worker.Retention{Store: h.Store, After: time.Nanosecond, Logger: h.Logger}
	if n, err := retention.Walk(ctx); n != 0 || err != nil {
		t.Errorf("retention erased %d under a hold, %v", n, err)
	}
	if err := h.Retention.ReleaseHold(ctx, by, hold.ID, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Retention.ReleaseHold(ctx, by, hold.ID, nil); code(err) != "not_found" {
		t.Errorf("released twice: %v", err)
	}
	if _, err := h.Retention.Erase(ctx, by, ask, nil); err != nil {
		t.Fatal(err)
	}
	if n, err := retention.Walk(ctx); n != 1 || err != nil {
		t.Errorf("retention erased %d, %v", n, err)
	}
	got := []string{}
	events, err := h.Events(ctx, store.EventFilter{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Type != engine.Erased && e.Type != engine.Held {
			continue
		}
		var p struct {
			Covers, Subject, Rule, Reason, Older string
			Parts                                []string
		}
		if err := json.Unmarshal(e.SafePayload, &p); err != nil || p.Subject == "" || p.Reason == "" {
			t.Errorf("the event %s says %s", e.ID, e.SafePayload)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s %s %d", e.Type, e.Outcome, e.Reasons[0].Code, e.Actor.Kind, p.Rule, len(p.Parts)))
	}
	want := []string{
		"erasure DENY kept_recent human request 0", "hold ALLOW HOLD_PLACED human  0", "erasure DENY kept_held human request 0", "hold ALLOW HOLD_RELEASED human  0",
		"erasure ALLOW ERASED_ON_REQUEST human request 1", "erasure ALLOW ERASED_BY_AGE system age 1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	listed, err := h.Reports.List(ctx, "erasures", report.ListQuery{Count: true})
	rows := []string{}
	for _, row := range listed.Rows {
		rows = append(rows, strings.Join([]string{row["act"], row["covers"], row["of"], row["approval_id"], row["rule"], row["reason"], row["released_by"], row["by"]}, " "))
	}
	wanted := []string{
		"held person ada   case 1 owner owner", "erased approval " + denied.Call.Tool + " " + denied.ID + " request request 4711  owner",
		"erased approval " + aged.Call.Tool + " " + aged.ID + " age retention  retention",
	}
	if err != nil || !slices.Equal(rows, wanted) {
		t.Errorf("as rows: got\n%s\nwant\n%s\n%v", strings.Join(rows, "\n"), strings.Join(wanted, "\n"), err)
	}
	card, err := h.Queries.Card(ctx, h.people["ben"], denied.ID, gate.Excerpt)
	if err != nil || card.Arguments != nil || card.Document != nil || card.Approval.ErasedAt.IsZero() || card.Shown || len(card.Timeline) == 0 {
		t.Errorf("the card of what was erased: %+v, %v", card, err)
	}
	if v, err := h.Queries.ForAgent(ctx, h.agent, denied.ID); err != nil || v.Approval.Status != approval.Denied || v.Approval.ErasedAt.IsZero() {
		t.Errorf("the agent reads %+v, %v", v, err)
	}
}

func TestEraseIsAskedRight(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx, by := context.Background(), access.Initiator{}
	long := strings.Repeat("x", access.MaxReason+1)
	for want, q := range map[string]admin.EraseRequest{
		"no_subject": {Reason: "x"}, "reason_required": {ApprovalID: "apr_x", Reason: " "}, "reason_too_long": {ApprovalID: "apr_x", Reason: long},
		"not_found": {ApprovalID: "apr_x", Reason: "x"},
	} {
		if _, err := h.Retention.Erase(ctx, by, q, nil); code(err) != want {
			t.Errorf("%+v: got %v, want %s", q, err, want)
		}
	}
	if _, err := h.Retention.Erase(ctx, by, admin.EraseRequest{Person: "nobody@example.com", Reason: "x"}, nil); code(err) != "not_found" {
		t.Errorf("nobody: %v", err)
	}
	for want, q := range map[string]admin.HoldRequest{
		"covers": {Covers: "x", Subject: "x", Reason: "x"}, "no_subject": {Covers: admin.CoversAgent, Reason: "x"}, "reason_required": {Covers: admin.CoversEverything},
		"not_found": {Covers: admin.CoversApproval, Subject: store.NewID("apr"), Reason: "x"},
	} {
		if _, err := h.Retention.PlaceHold(ctx, by, q, nil); code(err) != want {
			t.Errorf("%+v: got %v, want %s", q, err, want)
		}
	}
	for _, why := range []string{"missing", "erased", "held", "pending", "running", "unknown", "owed", "spendable", "granted", "recent", "young"} {
		if admin.NotErasableText(admin.CoversApproval, why) == admin.NotErasableText(admin.CoversApproval, "") {
			t.Errorf("%s is not said in words", why)
		}
	}
}
