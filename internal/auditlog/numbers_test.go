package auditlog_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"holdpoint/internal/auditlog"
)

// An event with a number below the last one that has a place gets none. Whoever has
// the numbers given out anew must not stop the log in silence.
func TestNumbersSetBack(t *testing.T) {
	in := install(t)
	ctx, conn := context.Background(), connect(t, in.owner)
	set := func(last int) {
		t.Helper()
		var now int64
		must(t, conn.QueryRow(ctx, `SELECT setval('events_seq_seq', $1)`, last).Scan(&now))
	}
	out := &output{}
	in.run(in.sequencer(func(q *auditlog.Sequencer) { q.Logger = slog.New(slog.NewTextHandler(out, nil)) }))
	must(t, write(ctx, conn, 1))
	set(1000)
	must(t, write(ctx, conn, 1))
	in.placed(conn, goesOn)
	s := openStore(t, in.app)
	if delay, err := s.Log.Delay(ctx); err != nil || delay != 0 {
		t.Errorf("the log is %s behind: %v", delay, err)
	}
	set(500)
	must(t, write(ctx, conn, 1))
	eventually(t, goesOn, "it is said", func() bool {
		return strings.Contains(out.String(), "events get numbers below those of events that have places")
	})
	if delay, err := s.Log.Delay(ctx); err != nil || delay <= 0 {
		t.Errorf("the log is %s behind: %v", delay, err)
	}
	set(1001)
	must(t, write(ctx, conn, 2))
	eventually(t, goesOn, "it goes on", func() bool {
		var size int
		must(t, conn.QueryRow(ctx, `SELECT size FROM log_head`).Scan(&size))
		return size == 4
	})
	if delay, err := s.Log.Delay(ctx); err != nil || delay != 0 {
		t.Errorf("the log is %s behind: %v", delay, err)
	}
}
