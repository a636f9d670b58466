package gate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/internal/store"
	"holdpoint/workflows"
)

// Who has yet to hear of the rules in force looks first, as often as they change, and
// holds no approval meanwhile.
func TestSettlingCatchesUpFirst(t *testing.T) {
	h := newHouse(t, routing(time.Hour, 1))
	ctx, a := t.Context(), h.open(deferred)
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	looked, unable := 0, errors.New("Postgres is away")
	h.settler.Judge = stricter{h.judge.Load()} // what it knows before it looks
	h.settler.Behind = func(store.RulesInForce) bool { return looked < 2 }
	h.settler.CatchUp = func(context.Context) error { return unable }
	if _, err := h.settler.Settle(ctx, workflows.SettleInput{ApprovalID: a.ID, Version: 2}); !errors.Is(err, unable) {
		t.Errorf("got %v", err)
	}
	if got := h.get(a.ID); got.Approval.Status != approval.Pending {
		t.Fatalf("it is %s, by rules that may be old", got.Approval.Status)
	}
	h.settler.CatchUp = func(ctx context.Context) error {
		looked++
		h.settler.Judge = h.judge.Load()
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return h.Store.Approvals.Change(ctx, a.ID, nil, func(*store.Change) (any, error, error) { return nil, nil, nil })
	}
	h.settle(a.ID)
	if got := h.get(a.ID); got.Approval.Status != approval.Approved || looked != 2 {
		t.Errorf("it is %s, and was looked for %d times", got.Approval.Status, looked)
	}
}
