package worker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"holdpoint/internal/gate"
	"holdpoint/internal/store"
	"holdpoint/workflows"
)

// settledAs says what of each approval's settlement, and of others that somebody has them in hand.
type settledAs map[string]gate.Settlement

func (s settledAs) SettleDue(_ context.Context, ids []string) (map[string]gate.Settlement, error) {
	found := maps.Clone(s)
	maps.DeleteFunc(found, func(id string, _ gate.Settlement) bool { return !slices.Contains(ids, id) })
	var err error
	if slices.Contains(ids, "apr_fails") {
		err = errors.New("it cannot be read")
	}
	return found, err
}

// TestWorkflowsBeginWhenThereIsSomethingToDo: a workflow is started with a delay only where it
// is known that nothing is to be looked at before.
func TestWorkflowsBeginWhenThereIsSomethingToDo(t *testing.T) {
	settler := settledAs{
		"apr_waits":  {WakeIn: time.Hour},
		"apr_over":   {Over: true},
		"apr_ticket": {WakeIn: time.Hour, CheckTicket: true},
		"apr_due":    {WakeIn: -time.Second},
	}
	messages := []store.Message{
		{ApprovalID: "apr_changed", Wait: time.Hour},
		{ApprovalID: "apr_lease", MayWait: true, Wait: time.Minute},
		{ApprovalID: "apr_waits", MayWait: true},
		{ApprovalID: "apr_over", MayWait: true},
		{ApprovalID: "apr_ticket", MayWait: true},
		{ApprovalID: "apr_due", MayWait: true},
		{ApprovalID: "apr_held", MayWait: true},
		{ApprovalID: "apr_fails", MayWait: true},
	}
	var away error
	r := &Relay{Settler: settler, Ready: func(context.Context) error { return away }, Logger: slog.New(slog.DiscardHandler)}
	want := map[string]time.Duration{
		"apr_lease": time.Minute + workflows.TimerDelay("apr_lease"),
		"apr_waits": time.Hour + workflows.TimerDelay("apr_waits"),
	}
	if got := r.delays(t.Context(), messages); !maps.Equal(got, want) {
		t.Errorf("delays %v, want %v", got, want)
	}
	away = errors.New("Temporal is away")
	delete(want, "apr_waits")
	if got := r.delays(t.Context(), messages); !maps.Equal(got, want) {
		t.Errorf("without Temporal: %v, want %v", got, want)
	}
}
