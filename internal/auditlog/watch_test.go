package auditlog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"holdpoint/engine/audit"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/auditlog/floor"
)

// fullFloor is one on a full disk, until it is given room. It counts the tries.
type fullFloor struct {
	floor.File
	mu    sync.Mutex
	full  bool
	hangs chan struct{}
	tries int
}

func (f *fullFloor) Keep(ctx context.Context, note []byte) error {
	f.mu.Lock()
	full, hangs := f.full, f.hangs
	f.tries++
	f.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	if full {
		return errors.New("no space left on device")
	}
	return f.File.Keep(ctx, note)
}

// said is a logger and what it was told.
func newLog() (*slog.Logger, *output) {
	out := &output{}
	return slog.New(slog.NewTextHandler(out, nil)), out
}

// A floor that is full does not stop the log. It is said, once, and what it
// missed is kept when there is room again.
func TestFullFloor(t *testing.T) {
	t.Parallel()
	in := install(t)
	ctx, conn := context.Background(), connect(t, in.owner)
	path := filepath.Join(t.TempDir(), "floor")
	f := &fullFloor{File: floor.File{Path: path}, full: true}
	log, out := newLog()
	w := newWire(t, in.app)
	in.run(in.sequencer(func(q *auditlog.Sequencer) {
		q.Store, q.Floors, q.Logger = openStore(t, w.url), []auditlog.Floor{f}, log
	}))
	for range 5 {
		must(t, write(ctx, conn, 2))
		in.placed(conn, goesOn)
	}
	eventually(t, goesOn, "it is said", func() bool { return strings.Contains(out.String(), "no space left") })
	f.mu.Lock()
	f.full = false
	f.mu.Unlock()
	in.floorIs(conn, path)
	if got := strings.Count(out.String(), "level=ERROR"); got != 1 {
		t.Errorf("said %d times:\n%s", got, out)
	}
	in.check()
}

// Nor does one that hangs.
func TestHangingFloor(t *testing.T) {
	in := install(t)
	ctx, conn := context.Background(), connect(t, in.owner)
	f := &fullFloor{File: floor.File{Path: filepath.Join(t.TempDir(), "floor")}, hangs: make(chan struct{})}
	in.run(in.sequencer(func(q *auditlog.Sequencer) { q.Floors = []auditlog.Floor{f} }))
	for range 5 {
		must(t, write(ctx, conn, 2))
		in.placed(conn, goesOn)
	}
	close(f.hangs)
	in.floorIs(conn, f.Path)
}

// A process that is stopped just after a commit has its checkpoint in its floor when it ends.
func TestStopKeepsTheFloor(t *testing.T) {
	t.Parallel()
	in := install(t)
	ctx, conn := context.Background(), connect(t, in.owner)
	file := floor.File{Path: filepath.Join(t.TempDir(), "floor")}
	for range 5 {
		must(t, write(ctx, conn, 2))
		running, stop := context.WithCancel(ctx)
		in.sequencer(func(q *auditlog.Sequencer) {
			q.Floors = []auditlog.Floor{file}
			q.At = func(step string) {
				if step == "appended" {
					stop()
				}
			}
		}).Run(running)
		size, err := auditlog.FloorSize(ctx, file)
		if want := in.check(); err != nil || size != want {
			t.Errorf("the floor has %d of %d events (%v)", size, want, err)
		}
	}
}

// Who does not lead keeps their floor up to date as well.
func TestFollowerKeepsItsFloor(t *testing.T) {
	t.Parallel()
	in := install(t)
	ctx, conn := context.Background(), connect(t, in.owner)
	w := newWire(t, in.app)
	in.run(in.sequencer(func(q *auditlog.Sequencer) { q.Store = openStore(t, w.url) }))
	must(t, write(ctx, conn, 2))
	in.placed(conn, goesOn)
	path := filepath.Join(t.TempDir(), "floor")
	follower := in.sequencer(func(q *auditlog.Sequencer) {
		q.Floors = []auditlog.Floor{floor.File{Path: path}}
		q.At = func(step string) {
			if step == "append" {
				t.Error("the follower appends")
			}
		}
	})
	in.run(follower)
	in.floorIs(conn, path)
	must(t, write(ctx, conn, 2))
	in.placed(conn, goesOn)
	in.floorIs(conn, path)
}

// grown is a log of n events, in batches, whose floor stands at the n/2-th or so.
func grown(t *testing.T, n int) (in *installation, f floor.File) {
	t.Helper()
	in = install(t)
	conn := connect(t, in.owner)
	f = floor.File{Path: filepath.Join(t.TempDir(), "floor")}
	fill(t, conn, n/2)
	stop := in.run(in.sequencer(func(q *auditlog.Sequencer) { q.Floors = []auditlog.Floor{f} }))
	in.placed(conn, goesOn)
	in.floorIs(conn, f.Path)
	stop()
	fill(t, conn, n-n/2)
	stop = in.run(in.sequencer(nil))
	in.placed(conn, goesOn)
	stop()
	in.check()
	return in, f
}

// rewrite changes the event of a leaf and makes the whole tree again, as somebody
// with all rights and much time would, and signs the last checkpoint with a key.
// Of the tiles it leaves those alone that keep says.
func (in *installation) rewrite(conn execer, leaf int64, key audit.Key, keep func(level int, n int64) bool) {
	in.t.Helper()
	ctx := context.Background()
	exec := func(sql string, args ...any) {
		in.t.Helper()
		_, err := conn.Exec(ctx, sql, args...)
		must(in.t, err)
	}
	exec(`SET session_replication_role = replica`)
	exec(`UPDATE events SET body = convert_to(replace(convert_from(body, 'UTF8'), 'accept', 'refuse'), 'UTF8') WHERE seq = (SELECT seq FROM log_entries WHERE leaf = $1)`, leaf)
	var tree audit.Tree
	tiles := []audit.Tile{}
	full := func(tile audit.Tile) {
		tile.Hashes = append(tile.Hashes[:0:0], tile.Hashes...)
		tiles = append(tiles, tile)
	}
	rows, err := conn.Query(ctx, `SELECT event_id::text, appended_at, e.type, e.outcome, e.agent_id, e.tool_name, body FROM events e JOIN log_entries USING (seq) ORDER BY leaf`)
	must(in.t, err)
	for rows.Next() {
		r := audit.Record{Leaf: tree.Size()}
		must(in.t, rows.Scan(&r.ID, &r.At, &r.Type, &r.Outcome, &r.AgentID, &r.ToolName, &r.Body))
		tree.Append(audit.LeafHash(r.Entry()), full)
	}
	must(in.t, rows.Err())
	for _, tile := range append(tiles, tree.Partial()...) {
		if keep == nil || !keep(tile.Level, tile.N) {
			exec(`UPDATE log_tiles SET hashes = $3 WHERE level = $1 AND n = $2`, tile.Level, tile.N, tile.Data())
		}
	}
	root := tree.Root()
	note, err := audit.Sign(audit.Checkpoint{Origin: key.Name(), Size: tree.Size(), Root: root}, key)
	must(in.t, err)
	exec(`UPDATE log_head SET root = $1`, root[:])
	exec(`UPDATE log_checkpoints SET root = $1, note = $2 WHERE size = $3`, root[:], note, tree.Size())
}

// A log that was cut or rewritten is refused by whoever has a floor: before it
// sequences, and without the key.
func TestFloorRefusesARewrittenLog(t *testing.T) {
	t.Parallel()
	other := func(t *testing.T) audit.Key {
		in := install(t)
		return in.keys[0]
	}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, in *installation, conn execer)
		want   string
	}{
		{"the tail was cut", func(t *testing.T, _ *installation, conn execer) {
			_, err := conn.Exec(context.Background(), `SET session_replication_role = replica; DELETE FROM log_entries; DELETE FROM log_tiles; DELETE FROM log_checkpoints;
				UPDATE log_head SET size = 0, seq = 0, root = sha256('')`)
			must(t, err)
		}, "a checkpoint of 300 events is kept outside the database, and the database has 0"},
		{"rewritten with the key", func(_ *testing.T, in *installation, conn execer) { in.rewrite(conn, 3, in.keys[0], nil) }, "its first 300 events are not those"},
		{"rewritten with another key", func(t *testing.T, in *installation, conn execer) { in.rewrite(conn, 3, other(t), nil) }, "its first 300 events are not those"},
		// The floor's edge is left as it was: leaf 260 is in the tile of leaves 256 to
		// 511, which ended at 300 then.
		{"rewritten around the edge", func(_ *testing.T, in *installation, conn execer) {
			in.rewrite(conn, 260, in.keys[0], func(level int, n int64) bool { return level == 0 && n == 1 })
		}, "its first 300 events are not those"},
		{"a tile is gone", func(t *testing.T, _ *installation, conn execer) {
			_, err := conn.Exec(context.Background(), `SET session_replication_role = replica; DELETE FROM log_tiles WHERE level = 1`)
			must(t, err)
		}, "its first 300 events are not those"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in, f := grown(t, 600)
			ctx, conn := context.Background(), connect(t, in.owner)
			tt.change(t, in, conn)
			before := size(t, conn)
			q := in.sequencer(nil)
			q.Floors = []auditlog.Floor{f}
			for who, err := range map[string]error{"with the key": q.Check(ctx), "without": auditlog.CheckFloor(ctx, q.Store, f)} {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: %v, want %q", who, err, tt.want)
				}
			}
			log, out := newLog()
			q.Logger = log
			_, err := conn.Exec(ctx, `RESET session_replication_role`)
			must(t, err)
			fill(t, conn, 5)
			in.run(q)
			eventually(t, goesOn, "it is said", func() bool { return strings.Contains(out.String(), "not the one that was signed") })
			if got := size(t, conn); got != before {
				t.Errorf("it went on: %d leaves, and %d before", got, before)
			}
		})
	}
}

// forgetful is a floor that has nothing when it is asked, whatever it was given.
type forgetful struct{ given output }

func (f *forgetful) Load(context.Context) ([]byte, error) { return nil, nil }

func (f *forgetful) Keep(_ context.Context, note []byte) error {
	_, err := f.given.Write(note)
	return err
}

// A running leader, and one that follows, notice that the database has gone back
// under them, without a floor that says so; nothing is signed on top of it.
func TestDatabaseGoesBackUnderneath(t *testing.T) {
	t.Parallel()
	in := install(t)
	ctx, conn := context.Background(), connect(t, in.owner)
	leaderLog, leader := newLog()
	followerLog, follower := newLog()
	kept := map[string]*forgetful{"the leader": {}, "the follower": {}}
	in.run(in.sequencer(func(q *auditlog.Sequencer) {
		q.Logger, q.Floors = leaderLog, []auditlog.Floor{kept["the leader"]}
	}))
	fill(t, conn, 10)
	in.placed(conn, goesOn)
	in.run(in.sequencer(func(q *auditlog.Sequencer) {
		q.Logger, q.Floors = followerLog, []auditlog.Floor{kept["the follower"]}
	}))
	_, err := conn.Exec(ctx, `CREATE TABLE old_head AS TABLE log_head; CREATE TABLE old_tiles AS TABLE log_tiles`)
	must(t, err)
	fill(t, conn, 10)
	in.placed(conn, goesOn)
	for name, floor := range kept {
		eventually(t, goesOn, name+" has seen it", func() bool { return strings.Contains(floor.given.String(), "\n20\n") })
	}
	_, err = conn.Exec(ctx, `BEGIN; SET LOCAL session_replication_role = replica; DELETE FROM log_head; INSERT INTO log_head TABLE old_head; DELETE FROM log_tiles; INSERT INTO log_tiles TABLE old_tiles;
		DELETE FROM log_entries WHERE leaf >= 10; DELETE FROM log_checkpoints WHERE size > 10; DELETE FROM events WHERE seq > (SELECT seq FROM old_head); COMMIT`)
	must(t, err)
	for name, out := range map[string]*output{"the leader": leader, "the follower": follower} {
		eventually(t, goesOn, name+" says it", func() bool { return strings.Contains(out.String(), "a checkpoint of 20 events is kept") })
	}
	fill(t, conn, 3)
	eventually(t, goesOn, "the sequencing stops", func() bool { return strings.Contains(leader.String(), "the audit log does not go on") })
	if got := size(t, conn); got != 10 {
		t.Errorf("%d leaves, want 10: nobody was to go on", got)
	}
}

// What is in the floor's file and is no checkpoint of this log is refused, and
// left as it is.
func TestDamagedFloor(t *testing.T) {
	in, f := grown(t, 40)
	note, err := os.ReadFile(f.Path)
	must(t, err)
	stranger, other := grown(t, 10)
	_ = stranger
	foreign, err := os.ReadFile(other.Path)
	must(t, err)
	origin := bytes.Replace(note, []byte("log.example.com/sequencer\n"), []byte("log.example.com/other\n"), 1)
	for _, tt := range []struct {
		name          string
		content       []byte
		want, without string // without the key; "" when nothing can be seen
	}{
		{"empty", nil, "it is no checkpoint", "it is no checkpoint"},
		{"cut", note[:30], "has not signed it", "it is no checkpoint"},
		{"text", []byte("hello\n"), "has not signed it", "it is no checkpoint"},
		{"huge", bytes.Repeat([]byte("x"), 1<<20), "it is no checkpoint", "it is no checkpoint"},
		{"a size changed", bytes.Replace(note, []byte("\n20\n"), []byte("\n19\n"), 1), "has not signed it", "It was rewritten"},
		{"a signature changed", append(note[:len(note)-8:len(note)-8], "AAAAAA=\n"...), "has not signed it", ""},
		{"of another log of that name", foreign, "has not signed it", "It was rewritten"},
		{"of another log", origin, `of the log "log.example.com/other"`, `of the log "log.example.com/other", and the database's log is "log.example.com/sequencer"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must(t, os.WriteFile(f.Path, tt.content, 0o600))
			q := in.sequencer(nil)
			q.Floors = []auditlog.Floor{f}
			if err := q.Check(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("with the key: %v, want %q", err, tt.want)
			}
			if err := auditlog.CheckFloor(t.Context(), q.Store, f); (err == nil) != (tt.without == "") || err != nil && !strings.Contains(err.Error(), tt.without) {
				t.Errorf("without: %v, want %q", err, tt.without)
			}
			log, out := newLog()
			q.Logger = log
			in.run(q)
			eventually(t, goesOn, "it is said", func() bool { return strings.Contains(out.String(), "level=ERROR") })
			if got, err := os.ReadFile(f.Path); err != nil || !bytes.Equal(got, tt.content) {
				t.Error("the file was written over")
			}
		})
	}
	must(t, os.Remove(f.Path))
	must(t, os.Mkdir(f.Path, 0o700))
	if err := in.sequencer(func(q *auditlog.Sequencer) { q.Floors = []auditlog.Floor{f} }).Check(t.Context()); err == nil {
		t.Error("a floor that is a directory is taken")
	}
}

// Whoever has another key of the log's name signs nothing on top of what the log's
// own key has signed, with and without a floor; whoever has both goes on.
func TestAnotherKeySignsNothing(t *testing.T) {
	in, _ := grown(t, 10)
	other := install(t).keys
	if other[0].Name() != in.keys[0].Name() {
		t.Fatal("the keys have different names")
	}
	ctx, conn := t.Context(), connect(t, in.owner)
	if err := auditlog.CheckKey(ctx, openStore(t, in.app), in.keys); err != nil {
		t.Errorf("with the log's own key: %v", err)
	}
	if err := auditlog.CheckKey(ctx, openStore(t, in.app), other); !errors.Is(err, auditlog.ErrOtherKey) {
		t.Errorf("with another key: %v", err)
	}
	log, out := newLog()
	q := in.sequencer(func(q *auditlog.Sequencer) { q.Keys, q.Logger = other, log })
	err := q.Check(ctx)
	if !errors.Is(err, auditlog.ErrOtherKey) {
		t.Errorf("Check: %v", err)
	}
	if said := auditlog.RefuseStart(err, "").Error(); !strings.Contains(said, "log_key_file") || !strings.Contains(said, "Nothing was started") {
		t.Errorf("to start says %q", said)
	}
	fill(t, conn, 5)
	stop := in.run(q)
	eventually(t, goesOn, "it is said", func() bool {
		return strings.Contains(out.String(), "does not go on") && strings.Contains(out.String(), auditlog.ErrOtherKey.Error())
	})
	stop()
	if got := size(t, conn); got != 10 {
		t.Errorf("it went on: %d leaves", got)
	}
	both := append(append([]audit.Key{}, in.keys...), other...)
	stop = in.run(in.sequencer(func(q *auditlog.Sequencer) { q.Keys = both }))
	in.placed(conn, goesOn)
	stop()
	in.check()
	// The last checkpoint bears both: the old key may go.
	if err := in.sequencer(func(q *auditlog.Sequencer) { q.Keys = other }).Check(ctx); err != nil {
		t.Errorf("with the new key after both have signed: %v", err)
	}
	// Nor does it help to take the checkpoints away.
	_, err = conn.Exec(ctx, `SET session_replication_role = replica; DELETE FROM log_checkpoints`)
	must(t, err)
	if err := in.sequencer(func(q *auditlog.Sequencer) { q.Keys = other }).Check(ctx); !errors.Is(err, auditlog.ErrBehind) {
		t.Errorf("a log without checkpoints: %v", err)
	}
}
