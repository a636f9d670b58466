package worker

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/internal/store/storetest"
)

// BenchmarkDeadlines gives how many approvals a second time out that are due at the same
// moment, and what each takes of Postgres' log.
//
//	go test ./internal/worker -run '^$' -bench Deadlines -benchtime 1x
func BenchmarkDeadlines(b *testing.B) {
	const approvals = 3000
	for range b.N {
		db := storetest.New(b)
		s := db.Runtime()
		db.Agent("bot", "Bot", db.Person(engine.Person{Name: "owner", Roles: []string{"r"}}))
		ctx := context.Background()
		conn := db.Connect(db.URL)
		settler := gate.Settler{Store: s, Sealer: db.Sealer, Validity: time.Hour, Logger: slog.New(slog.DiscardHandler)}
		var group sync.WaitGroup
		for range 16 {
			group.Go(func() {
				for range approvals / 16 {
					if _, err := settler.Settle(ctx, openWaiting(ctx, b, db, s, 30*time.Minute)); err != nil {
						b.Error(err)
					}
				}
			})
		}
		group.Wait()
		db.Ahead(time.Hour)
		s = db.Runtime()
		settler.Store = s
		d := &Deadlines{Store: s, Settler: &settler, Logger: settler.Logger, Ready: func(context.Context) error { return nil }, later: map[string]time.Time{}}
		var log string
		if err := conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text FROM pg_stat_reset()`).Scan(&log); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		for {
			wait, err := d.once(ctx)
			if err != nil {
				b.Fatal(err)
			}
			if wait > 0 {
				break
			}
		}
		took := time.Since(began)
		var bytes float64
		var settled int
		if err := conn.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::pg_lsn)::float8, count(*) FILTER (WHERE status = $2) FROM approvals`, log, approval.Expired).
			Scan(&bytes, &settled); err != nil {
			b.Fatal(err)
		}
		if settled != approvals/16*16 {
			b.Fatalf("%d of %d have timed out", settled, approvals)
		}
		b.ReportMetric(float64(settled)/took.Seconds(), "settled/s")
		b.ReportMetric(bytes/float64(settled), "log-bytes/settled")
	}
}
