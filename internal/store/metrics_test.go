package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
)

// BenchmarkMetrics gives what one reading takes while 10,000 approvals wait, for ten
// roles, beside 20,000 that have ended.
//
//	go test ./internal/store -run '^$' -bench Metrics -benchtime 100x
func BenchmarkMetrics(b *testing.B) {
	s, owner := open(b)
	ctx := context.Background()
	const waiting, ended = 10_000, 20_000
	var group sync.WaitGroup
	for worker := range 64 {
		group.Go(func() {
			for i := worker; i < waiting+ended; i += 64 {
				id := NewID("apr")
				o := opening(id, time.Hour)
				o.Requirements = []engine.Requirement{{Kind: engine.Review, Role: fmt.Sprintf("role-%d", i%10), Needed: 1}}
				if _, err := s.Submit(ctx, Submission{Event: event(id), Opening: o}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	for _, sql := range []string{
		`SET session_replication_role = replica`,
		fmt.Sprintf(`UPDATE approvals SET status = 'denied', ended_at = clock_timestamp(), open_to = '{}' WHERE id IN (SELECT id FROM approvals LIMIT %d)`, ended),
		`VACUUM ANALYZE approvals`,
	} {
		if _, err := connect(b, owner).Exec(ctx, sql); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		f, err := s.Metrics(ctx)
		if err != nil || len(f.ByRole) != 10 || f.ByKind[0].N != waiting {
			b.Fatalf("%+v %v", f, err)
		}
	}
}
