package gate_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"testing"
	"time"

	"holdpoint/engine/audit"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/store"
)

// TestRecordsWhileTheLogFallsBehind: what is committed is listed, and once, though
// it gets its place at that very moment.
func TestRecordsWhileTheLogFallsBehind(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	private, _, err := audit.NewKey(rand.Reader, "test.example/log")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := audit.ParseKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	sequenced, written := make(chan struct{}), make(chan string, 200)
	q := &auditlog.Sequencer{Store: h.Store, Keys: keys, Logger: slog.New(slog.DiscardHandler), Every: time.Millisecond}
	go func() { q.Run(ctx); close(sequenced) }()
	reads := make(chan int)
	impatient := auditlog.New(auditlog.Config{Store: h.Store, Wait: 1})
	go func() {
		var known []string
		n := 0
		defer func() { reads <- n }()
		for open := true; open; {
			select {
			case id, more := <-written:
				if open = more; more {
					known = append(known, id)
				}
				continue
			default:
			}
			records, err := impatient.Records(context.Background(), store.EventFilter{}, 10_000)
			if err != nil {
				t.Error(err)
				return
			}
			listed := map[string]int{}
			for _, r := range records {
				listed[r.ID]++
				if r.Type == "decision" {
					listed[r.ApprovalID]++
				}
			}
			for _, id := range known {
				if listed[id] != 1 {
					t.Errorf("of %d approvals, %s is listed %d times", len(known), id, listed[id])
					return
				}
			}
			for id, n := range listed {
				if n != 1 {
					t.Errorf("%s is listed %d times", id, n)
					return
				}
			}
			n++
		}
	}()
	for range cap(written) {
		written <- h.open(another(deferred)).ID
	}
	close(written)
	if n := <-reads; n < 20 && !t.Failed() {
		t.Errorf("only %d reads", n)
	}
	stop()
	<-sequenced
}
