package auditlog_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine/audit"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/auditlog/floor"
)

// steps are a sequencer's, in order; the last two belong to its floors.
var steps = []string{"safe", "read", "sign", "append", "appended", "told", "keep", "kept"}

// goesOn is how soon the log has to go on after whatever has happened: 5 s, and
// much more for a machine that others use as well, which may stand still for long.
const goesOn = 5*time.Second + 25*time.Second

// Two transactions have numbers and have not committed, and nothing with a later
// id has ended. The higher number must not get a place before the lower one.
func TestLowerNumberThatCommitsLater(t *testing.T) {
	in := install(t)
	ctx := context.Background()
	first, second, reader := connect(t, in.app), connect(t, in.app), connect(t, in.owner)
	must(t, write(ctx, reader, 1))
	low, err := first.Begin(ctx)
	must(t, err)
	must(t, write(ctx, low, 1))
	high, err := second.Begin(ctx)
	must(t, err)
	must(t, write(ctx, high, 1))
	// It looks while both run, and once more after the higher one is there.
	looks, looked := looking()
	in.run(in.sequencer(func(q *auditlog.Sequencer) { q.At = looks }))
	looked(t, 3)
	must(t, high.Commit(ctx))
	looked(t, 3)
	must(t, low.Commit(ctx))
	in.placed(reader, goesOn)
	if got := in.check(); got != 3 {
		t.Errorf("%d leaves, want 3", got)
	}
}

// looking returns what a sequencer is to call at its steps, and what waits until
// it has looked so many times from then on.
func looking() (at func(step string), looked func(t testing.TB, times int64)) {
	var count atomic.Int64
	return func(step string) {
			if step == "safe" {
				count.Add(1)
			}
		}, func(t testing.TB, times int64) {
			t.Helper()
			until := count.Load() + times
			eventually(t, goesOn, "the sequencer looks", func() bool { return count.Load() >= until })
		}
}

// appenders write events until stop is called: in single statements, in long
// transactions that take a number early and commit late or not at all, and in
// some that have an id long before they have a number. Connections that break are
// made again. stop returns how many events were committed for certain.
func appenders(t testing.TB, url string) (stop func() int64) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var committed atomic.Int64
	pause := func(most time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(most)):
		}
	}
	transaction := func(conn *pgx.Conn, before, after time.Duration, commit bool) error {
		ctx := context.WithoutCancel(ctx)
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		var id string
		if err := tx.QueryRow(ctx, `SELECT pg_current_xact_id()::text`).Scan(&id); err != nil {
			return err
		}
		pause(before)
		n := 1 + rand.IntN(5)
		if err := write(ctx, tx, n); err != nil {
			return err
		}
		pause(after)
		if !commit {
			return nil
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		committed.Add(int64(n))
		return nil
	}
	for i := range 6 {
		running.Go(func() {
			for ctx.Err() == nil {
				conn, err := pgx.Connect(context.Background(), url)
				for err == nil && ctx.Err() == nil {
					switch i {
					case 0:
						err = transaction(conn, 1, 400*time.Millisecond, true)
					case 1:
						err = transaction(conn, 1, 400*time.Millisecond, false)
					case 2:
						err = transaction(conn, 400*time.Millisecond, 1, true)
					default:
						n := 1 + rand.IntN(10)
						if err = write(context.Background(), conn, n); err == nil {
							committed.Add(int64(n))
						}
						pause(100 * time.Millisecond)
					}
				}
				if conn != nil {
					_ = conn.Close(context.Background())
				}
				pause(50 * time.Millisecond)
			}
		})
	}
	stop = sync.OnceValue(func() int64 { cancel(); running.Wait(); return committed.Load() })
	t.Cleanup(func() { stop() })
	return stop
}

// finish stops the appenders, waits until all has its place, and checks.
func (in *installation) finish(conn querier, stop func() int64) {
	in.t.Helper()
	committed := stop()
	in.placed(conn, goesOn)
	if got := in.check(); got < committed {
		in.t.Errorf("%d leaves, and %d events were committed", got, committed)
	}
}

// In process: a sequencer that ends at a step, or whose connection is cut there,
// leaves a log with which another one goes on.
func TestSequencerEndsAtEveryStep(t *testing.T) {
	t.Parallel()
	in := install(t)
	conn := connect(t, in.owner)
	stop := appenders(t, in.app)
	file := floor.File{Path: t.TempDir() + "/floor"}
	for _, way := range []string{"ends", "is cut"} {
		for _, step := range steps {
			before := size(t, conn)
			q := in.sequencer(nil)
			q.Floors = []auditlog.Floor{file}
			var once sync.Once
			there := make(chan struct{})
			q.At = func(at string) {
				if at != step {
					return
				}
				once.Do(func() {
					defer close(there)
					if way == "ends" {
						runtime.Goexit()
					}
					_, err := conn.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
						AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
					if err != nil {
						t.Error(err)
					}
				})
			}
			end := in.run(q)
			select {
			case <-there:
			case <-time.After(goesOn):
				t.Fatalf("it did not come to %q", step)
			}
			if way == "ends" {
				end()
			}
			next := end
			if way == "ends" {
				next = in.run(in.sequencer(nil))
			}
			eventually(t, goesOn, "the log goes on after one "+way+" at "+step, func() bool { return size(t, conn) > before })
			next()
		}
		in.check()
	}
	in.run(in.sequencer(nil))
	in.finish(conn, stop)
}

// What an old leader appends after another one has gone on is refused.
func TestAppendOfAnOldLeader(t *testing.T) {
	in := install(t)
	ctx, conn := context.Background(), connect(t, in.owner)
	must(t, write(ctx, conn, 5))
	var once sync.Once
	overtaken := make(chan error, 1)
	in.run(in.sequencer(func(q *auditlog.Sequencer) {
		q.At = func(step string) {
			if step == "append" {
				// It knows of five; the other one appends six.
				once.Do(func() { overtaken <- errors.Join(write(ctx, conn, 1), in.advance(ctx, conn)) })
			}
		}
	}))
	must(t, <-overtaken)
	must(t, write(ctx, conn, 3))
	in.placed(conn, goesOn)
	if got := in.check(); got != 9 {
		t.Errorf("%d leaves, want 9", got)
	}
	var at6, at5 bool
	must(t, conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM log_checkpoints WHERE size = 6), EXISTS (SELECT FROM log_checkpoints WHERE size = 5)`).Scan(&at6, &at5))
	if !at6 || at5 {
		t.Errorf("a checkpoint of six: %t, of five: %t; the old leader's five were to be refused", at6, at5)
	}
}

// advance appends all that there is to an empty log, as a leader without a lock.
func (in *installation) advance(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT seq, event_id::text, appended_at, type, outcome, agent_id, tool_name, body FROM events ORDER BY seq`)
	if err != nil {
		return err
	}
	var tree audit.Tree
	var seqs []int64
	var actors []string
	var seq int64
	var r audit.Record
	if _, err := pgx.ForEachRow(rows, []any{&seq, &r.ID, &r.At, &r.Type, &r.Outcome, &r.AgentID, &r.ToolName, &r.Body}, func() error {
		r.Leaf = tree.Size()
		tree.Append(audit.LeafHash(r.Entry()), nil)
		seqs, actors = append(seqs, seq), append(actors, r.Actor())
		return nil
	}); err != nil {
		return err
	}
	root, empty := tree.Root(), new(audit.Tree).Root()
	note, err := audit.Sign(audit.Checkpoint{Origin: in.keys[0].Name(), Size: tree.Size(), Root: root}, in.keys[0])
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `SELECT advance_log(0, $1, $2, $3, $4, '{0}', '{0}', $5, $6)`, empty[:], root[:], seqs, actors, [][]byte{tree.Partial()[0].Data()}, note)
	return err
}
