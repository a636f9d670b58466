package gate_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// exports are the events of exports, by code, the first one first.
func (h *harness) exports() (codes []string, last engine.Event) {
	h.t.Helper()
	events, err := h.Events(context.Background(), store.EventFilter{Type: string(engine.Exported)}, 100)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range events {
		codes, last = append(codes, e.Reasons[0].Code), e
	}
	return codes, last
}

// recordedFirst is a file that looks, at its first byte, whether its beginning is on
// record, and that breaks off where it is told to.
type recordedFirst struct {
	bytes.Buffer
	h      *harness
	broken error
	codes  string
}

func (f *recordedFirst) Write(data []byte) (int, error) {
	if f.codes == "" {
		codes, _ := f.h.exports()
		f.codes = strings.Join(codes, " ")
	}
	if f.broken != nil {
		return 0, f.broken
	}
	return f.Buffer.Write(data)
}

// TestExportHistory: what a search finds is a file that no spreadsheet computes, without
// arguments, and on record before its first byte.
func TestExportHistory(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	h.people["formula"] = h.db.Person(engine.Person{Email: "formula@example.com", Name: "=2+3", Roles: []string{"reviewer"}})
	h.people["aude"] = h.db.Person(engine.Person{Email: "aude@example.com", Name: "Aude", Roles: []string{access.AuditorRole}})
	for _, yes := range []bool{true, false} {
		a := h.open(another(deferred))
		if err := h.vote("formula", a, yes); err != nil {
			t.Fatal(err)
		}
		h.settle(a.ID)
	}
	h.open(deferred) // waits
	by := func(who string) access.Initiator { return access.PersonInitiator(h.people[who], "console", "req-1") }
	if err := h.Histories.ExportHistory(ctx, by("ada"), h.people["ada"], gate.HistorySearch{}, &bytes.Buffer{}, func() error { return nil }); code(err) != "not_yours" {
		t.Errorf("a reviewer exports: %v", err)
	}
	disabled := h.people["aude"]
	disabled.Disabled = true
	if gate.MayExportHistory(disabled) {
		t.Error("somebody who is disabled may export")
	}
	if codes, _ := h.exports(); len(codes) != 0 {
		t.Errorf("a refused export is on record as %v", codes)
	}
	file := &recordedFirst{h: h}
	flushed := 0
	err := h.Histories.ExportHistory(ctx, by("aude"), h.people["aude"], gate.HistorySearch{DecidedBy: "=2+3"}, file, func() error { flushed++; return nil })
	if err != nil || file.codes != "EXPORT_BEGUN" || flushed != 1 {
		t.Fatalf("%v, recorded %q, flushed %d times", err, file.codes, flushed)
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(file.Bytes()))
	if strings.Contains(file.String(), "canary-argument") {
		t.Error("arguments are in the file")
	}
	rows, err := csv.NewReader(&file.Buffer).ReadAll()
	if err != nil || len(rows) != 3 || rows[0][0] != "approval" || rows[1][7] != "denied" || rows[2][7] != "approved" {
		t.Fatalf("%v, %v", rows, err)
	}
	for _, row := range rows[1:] {
		if row[13] != "[U+003D]2+3" || row[14] != h.people["formula"].ID || row[12] == "" || strings.HasPrefix(row[12], "-") {
			t.Errorf("%q", row)
		}
	}
	codes, last := h.exports()
	if strings.Join(codes, " ") != "EXPORT_BEGUN EXPORTED" || last.Actor.ID != h.people["aude"].ID {
		t.Errorf("on record: %v, %+v", codes, last.Actor)
	}
	for _, want := range []string{digest, `"approval_history"`, `"decided_by"`} {
		if !strings.Contains(string(last.SafePayload), want) {
			t.Errorf("%s lacks %s", last.SafePayload, want)
		}
	}
	gone := errors.New("the reader is gone")
	if err := h.Histories.ExportHistory(ctx, by("aude"), h.people["aude"], gate.HistorySearch{}, &recordedFirst{h: h, broken: gone}, func() error { return nil }); !errors.Is(err, gone) {
		t.Errorf("a broken export: %v", err)
	}
	if codes, _ := h.exports(); strings.Join(codes, " ") != "EXPORT_BEGUN EXPORTED EXPORT_BEGUN" {
		t.Errorf("on record after a broken export: %v", codes)
	}
}

// Whoever is turned away is on record each time, and pushes nothing of what happened off the card.
func TestRefusalsHideNothing(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	ctx := context.Background()
	a := h.open(deferred)
	if got := code(h.vote("stranger", a, true)); got != "not_found" {
		t.Fatal(got)
	}
	h.db.Exec(`SELECT append_events(array_agg(gen_random_uuid()), array_agg('vote'::text), array_agg('DENY'::text), array_agg(e.agent_id), array_agg(e.tool_name), array_agg(e.approval_id), array_agg(e.body))
		FROM events e, generate_series(1, 3000) WHERE e.approval_id = $1 AND e.outcome = 'DENY'`, a.ID)
	if err := h.vote("ben", a, true); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Contributions.Comment(ctx, gate.Contribution{Person: h.people["cleo"], ApprovalID: a.ID, Comment: "not this one", Channel: "console"}, nil); err != nil {
		t.Fatal(err)
	}
	card, err := h.Queries.Card(ctx, h.people["ada"], a.ID, gate.Unrecorded)
	if err != nil {
		t.Fatal(err)
	}
	told := map[engine.EventType]int{}
	for i, e := range card.Timeline {
		if told[e.Type]++; i > 0 && e.Timestamp.Before(card.Timeline[i-1].Timestamp) {
			t.Fatal("the timeline is not in order")
		}
	}
	if told[engine.Decided] != 1 || told[engine.Commented] != 1 || told[engine.Voted] != 1+200 {
		t.Errorf("the timeline tells of %v", told)
	}
}
