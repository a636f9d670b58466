package gate_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// shows puts a card of the approval before somebody, as a console would.
func (h *harness) shows(who string, a approval.Approval, text string) (digest string, err error) {
	card := h.card(who, a.ID)
	open := audit.Card{ApprovalID: a.ID, Edition: card.Approval.Plan.Edition, CallDigest: card.Approval.Call.Digest, Salt: card.Salt}.Open()
	rendered := []byte(open + text + string(card.Arguments) + audit.CardEnd)
	return audit.Digest(rendered), h.Queries.Show(context.Background(), h.people[who], "console", gate.SeenCard{Approval: card.Approval, Card: rendered})
}

// cardOf is what the last event of a type says of somebody's card; "" for nothing.
func (h *harness) cardOf(id string, kind engine.EventType) (digest string) {
	h.t.Helper()
	events, err := h.Events(context.Background(), store.EventFilter{ApprovalID: id}, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range events {
		if e.Type != kind || e.Outcome == engine.Deny {
			continue
		}
		var payload struct {
			Card string `json:"card_digest"`
		}
		if err := json.Unmarshal(e.SafePayload, &payload); err != nil {
			h.t.Fatal(err)
		}
		digest = payload.Card
	}
	return digest
}

func TestShownIsOnRecordOncePerPersonAndCard(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	a := h.open(deferred)
	var first, second string
	for i, step := range []struct {
		who, text string
		events    int
	}{
		{"ada", "one", 1}, {"ada", "one", 1}, {"ben", "one", 2}, {"ada", "two", 3}, {"ada", "one", 3}, {"ada", "two", 3}, {"ada", "one", 3},
	} {
		digest, err := h.shows(step.who, a, step.text)
		if err != nil {
			t.Fatal(err)
		}
		if step.text == "one" {
			first = digest
		} else {
			second = digest
		}
		if got := h.events(a.ID, engine.Shown); got != step.events {
			t.Errorf("step %d: %d events, want %d", i, got, step.events)
		}
	}
	if first == second || h.cardOf(a.ID, engine.Shown) != second {
		t.Errorf("the log names %s, want %s", h.cardOf(a.ID, engine.Shown), second)
	}
	// What a vote names is what was shown last, which is not what was shown first.
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	if got := h.cardOf(a.ID, engine.Voted); got != first {
		t.Errorf("the vote names the card %q, want %q", got, first)
	}
	// Who has looked at no page has seen no card.
	if err := h.vote("cleo", a, true); err != nil {
		t.Fatal(err)
	}
	if got := h.cardOf(a.ID, engine.Voted); got != "" {
		t.Errorf("a vote of somebody who was shown nothing names %q", got)
	}
}

func TestCardOfAFormerEdition(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	a := h.open(deferred)
	if _, err := h.shows("ada", a, "before"); err != nil {
		t.Fatal(err)
	}
	edited, err := h.edit("ben", a, `{"amount":1,"to":"canary-argument"}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.vote("ada", edited, true); err != nil {
		t.Fatal(err)
	}
	if got := h.cardOf(a.ID, engine.Voted); got != "" {
		t.Errorf("the vote names a card of other arguments: %q", got)
	}
}

func TestErasingTakesTheCards(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	a := h.open(deferred)
	digest, err := h.shows("ada", a, "kept")
	if err != nil {
		t.Fatal(err)
	}
	box, err := h.Store.Cards.Get(ctx, a.ID, digest)
	if err != nil || strings.Contains(string(box.Data), "canary-argument") {
		t.Fatalf("the card is kept in the open: %v", err)
	}
	card, err := gate.OpenCard(h.Sealer, a.ID, box)
	if err != nil || audit.Digest(card) != digest || !strings.Contains(string(card), "canary-argument") {
		t.Fatalf("the card is not what was shown: %s, %v", card, err)
	}
	other := h.open(another(deferred))
	if _, err := gate.OpenCard(h.Sealer, other.ID, box); err == nil {
		t.Error("a card opens as another approval's")
	}
	if err := h.vote("ada", a, false); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	seen := h.card("ada", a.ID)
	h.db.Exec(`UPDATE retention_floor SET shortest = interval '0'`)
	if _, err := h.Retention.Erase(ctx, access.PersonInitiator(h.people["owner"], "cli", ""), admin.EraseRequest{ApprovalID: a.ID, Reason: "asked for"}, nil); err != nil {
		t.Fatal(err)
	}
	h.db.Exec(`DO $$ BEGIN IF EXISTS (SELECT FROM cards_shown WHERE approval_id = '` + a.ID + `' AND digest <> 'sha256:' || repeat('0', 64)) THEN RAISE 'the digest of the call is still there'; END IF; END $$`)
	box, err = h.Store.Cards.Get(ctx, a.ID, digest)
	if err != nil || box.Key != nil || len(box.Data) != 0 {
		t.Errorf("the card outlives the arguments: %d bytes, %v", len(box.Data), err)
	}
	// Who was about to be shown it is not, and nothing is kept.
	err = h.Queries.Show(ctx, h.people["ben"], "console", gate.SeenCard{Approval: seen.Approval, Card: []byte("<div>late</div>")})
	if err == nil || h.events(a.ID, engine.Shown) != 1 {
		t.Errorf("an erased card is shown: %v, %d events", err, h.events(a.ID, engine.Shown))
	}
}
