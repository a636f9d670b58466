package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"go.temporal.io/sdk/client"

	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

func idsOf(list []store.DueNotification) (ids []string) {
	for _, n := range list {
		ids = append(ids, n.ID)
	}
	return ids
}

// stubborn is a Temporal that does not take some workflows, and counts what it is asked.
type stubborn struct {
	client.Client
	mu    sync.Mutex
	takes func(id string) bool
	asked map[string]int
	ahead []string // of which it is asked to take them before others
}

func (s *stubborn) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[o.ID]++
	if o.Priority.PriorityKey == ahead {
		s.ahead = append(s.ahead, o.ID)
	}
	if !s.takes(o.ID) {
		return nil, errors.New("deadline exceeded")
	}
	return nil, nil
}

// Notifications that Temporal does not take keep no other ones waiting, and an outage is not tried for all.
func TestNoNotificationHoldsUpOthers(t *testing.T) {
	db := storetest.New(t)
	s := db.Runtime()
	db.Exec(`INSERT INTO endpoints (id, kind, name, settings, created_by) VALUES ('end_a', 'webhook', 'a', '{}', 'olga')`)
	var ids []string
	for range 40 {
		ids = append(ids, store.NewID("ntf"))
		db.Exec(`INSERT INTO notifications (id, endpoint_id, tell, body) VALUES ($1, 'end_a', 'test', '{}')`, ids[len(ids)-1])
	}
	first := ids[:3]
	temporal := &stubborn{asked: map[string]int{}, takes: func(id string) bool { return !slices.Contains(first, id) }}
	d := &Dispatcher{Store: s, Temporal: temporal, Logger: slog.New(slog.DiscardHandler)}
	if _, err := d.startDue(t.Context()); err == nil {
		t.Error("nobody is told of what Temporal did not take")
	}
	list, err := s.Notifications.Due(t.Context(), 100)
	due := idsOf(list)
	if slices.Sort(due); err != nil || !slices.Equal(due, slices.Sorted(slices.Values(first))) {
		t.Errorf("%d are left, %v; want the three that were not taken", len(due), err)
	}
	for _, id := range ids {
		if n := temporal.asked[id]; n != 1 {
			t.Errorf("asked %d times about %s", n, id)
		}
	}

	db.Exec(`UPDATE notifications SET started_at = NULL`)
	away := &stubborn{asked: map[string]int{}, takes: func(string) bool { return false }}
	d.Temporal = away
	if _, err := d.startDue(t.Context()); err == nil || len(away.asked) > 2*dispatchParallel {
		t.Errorf("while it is away %d are tried, %v", len(away.asked), err)
	}
}

// What is urgent waits for nothing that was to be told before: neither here nor in Temporal's queue.
func TestUrgentNotificationsPrecedeOthers(t *testing.T) {
	db := storetest.New(t)
	s := db.Runtime()
	db.Exec(`INSERT INTO endpoints (id, kind, name, settings, created_by) VALUES ('end_a', 'webhook', 'a', '{}', 'olga')`)
	db.Exec(`INSERT INTO notifications (id, endpoint_id, tell, body, due_at) SELECT 'ntf_' || lpad(i::text, 4, '0'), 'end_a', 'opened', '{}', clock_timestamp() - interval '1 hour' FROM generate_series(1, 300) i`)
	db.Exec(`INSERT INTO notifications (id, endpoint_id, tell, body) VALUES ('ntf_glass', 'end_a', 'break_glass', '{}'), ('ntf_later', 'end_a', 'opened', '{}')`)
	due, err := s.Notifications.Due(t.Context(), 100)
	if err != nil || len(due) != 100 || due[0] != (store.DueNotification{ID: "ntf_glass", Precedes: true}) || due[1] != (store.DueNotification{ID: "ntf_0001"}) {
		t.Fatalf("%d due, %v, %v", len(due), due[:min(len(due), 2)], err)
	}
	temporal := &stubborn{asked: map[string]int{}, takes: func(string) bool { return true }}
	d := &Dispatcher{Store: s, Temporal: temporal, Logger: slog.New(slog.DiscardHandler)}
	if _, err := d.startDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(temporal.ahead) != 1 || temporal.ahead[0] != "ntf_glass" {
		t.Errorf("Temporal is asked to take %v before others", temporal.ahead)
	}
}
