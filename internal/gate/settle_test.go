package gate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"holdpoint/activities"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
	"holdpoint/workflows"
)

// Who has yet to hear of the rules in force looks first, as often as they change, and
// holds no approval meanwhile.
func TestSettlingCatchesUpFirst(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx, a := t.Context(), h.open(deferred)
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	looked, unable := 0, errors.New("Postgres is away")
	rules := &changing{CurrentRules: stricter{fixed{h.judge.Load()}}} // what it knows before it looks
	rules.behind = func() bool { return looked < 2 }
	rules.catchUp = func(context.Context) error { return unable }
	h.settler.Rules = rules
	if _, err := h.settler.Settle(ctx, a.ID); !errors.Is(err, unable) {
		t.Errorf("got %v", err)
	}
	if got := h.get(a.ID); got.Approval.Status != approval.Pending {
		t.Fatalf("it is %s, by rules that may be old", got.Approval.Status)
	}
	rules.catchUp = func(ctx context.Context) error {
		looked++
		rules.CurrentRules = fixed{h.judge.Load()}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return h.Store.Approvals.Change(ctx, a.ID, nil, func(*store.Change) error { return nil })
	}
	h.settle(a.ID)
	if got := h.get(a.ID); got.Approval.Status != approval.Approved || looked != 2 {
		t.Errorf("it is %s, and was looked for %d times", got.Approval.Status, looked)
	}
}

// changing are rules that somebody changes.
type changing struct {
	gate.CurrentRules
	behind  func() bool
	catchUp func(context.Context) error
}

func (c *changing) Behind(store.RulesInForce) bool { return c.behind() }

func (c *changing) CatchUp(ctx context.Context) error { return c.catchUp(ctx) }

// That an approval does not exist is told to Temporal as final: it would ask for ever.
func TestSettlingWhatIsNotThereIsFinal(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	id := store.NewID("apr")
	_, settling := activities.Settle{Settler: h.settler}.Settle(t.Context(), workflows.SettleInput{ApprovalID: id, Version: workflows.Version})
	checker := &gate.TicketChecker{Store: h.Store, Sealer: h.Sealer, Logger: h.Logger}
	_, checking := activities.CheckTicket{Checker: checker}.CheckTicket(t.Context(), workflows.CheckTicketInput{ApprovalID: id})
	for _, err := range []error{settling, checking} {
		var final *temporal.ApplicationError
		if !errors.As(err, &final) || !final.NonRetryable() || final.Type() != "not_found" {
			t.Errorf("got %v", err)
		}
	}
}
