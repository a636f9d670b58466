package store

import (
	"context"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
)

// BenchmarkInbox gives what the inboxes take of two people, when 10,000 approvals wait
// for one of them and two for the other.
//
//	go test ./internal/store -run '^$' -bench Inbox -benchtime 20x
func BenchmarkInbox(b *testing.B) {
	s, owner := open(b)
	ctx := context.Background()
	const waiting = 10_000
	var group sync.WaitGroup
	for worker := range 64 {
		group.Go(func() {
			for i := worker; i < waiting+2; i += 64 {
				id, role := NewID("apr"), "many"
				if i >= waiting {
					role = "few"
				}
				o := opening(id, time.Hour)
				o.Requirements = []engine.Requirement{{Kind: engine.Review, Role: role, Needed: 1}}
				if _, err := s.Submit(ctx, Submission{Event: event(id), Opening: o}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	if _, err := connect(b, owner).Exec(ctx, `ANALYZE approvals`); err != nil {
		b.Fatal(err)
	}
	for _, who := range []struct {
		role string
		want int
	}{{"few", 2}, {"many", 200}} {
		b.Run(who.role, func(b *testing.B) {
			for b.Loop() {
				list, _, err := s.Approvals.Inbox(ctx, "p", []Eligibility{{Roles: []string{who.role}, Voices: []string{"p"}}}, 200)
				if err != nil || len(list) != who.want {
					b.Fatalf("%d, %v", len(list), err)
				}
			}
		})
	}
}
