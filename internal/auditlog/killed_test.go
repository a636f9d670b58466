package auditlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/internal/postgres"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/store"
)

// Processes that are killed at every step, one after another and several at once,
// while others write.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	in := install(t)
	conn := connect(t, in.owner)
	stop := appenders(t, in.app)
	path := filepath.Join(t.TempDir(), "floor")
	for round := 1; round <= 3; round++ {
		for _, step := range steps {
			before := size(t, conn)
			dying := []*child{in.child(order{Step: step, Nth: round, Signal: syscall.SIGKILL, Floor: path})}
			if round > 1 {
				// Another one waits for its turn, and dies as well.
				dying = append(dying, in.child(order{Step: step, Nth: 1, Signal: syscall.SIGKILL, Floor: path}))
			}
			for _, c := range dying {
				c.dies(20 * time.Second)
			}
			next := in.child(order{Floor: path})
			eventually(t, goesOn, fmt.Sprintf("the log goes on after a death at %q, time %d", step, round), func() bool { return size(t, conn) > before })
			next.kill() // whatever it is doing
		}
		in.check()
	}
	in.child(order{Floor: path})
	in.finish(conn, stop)
	in.floorIs(conn, path)
}

// floorIs waits until the floor's file has the log's last checkpoint.
func (in *installation) floorIs(conn querier, path string) {
	in.t.Helper()
	eventually(in.t, goesOn, "the floor has the last checkpoint", func() bool {
		var note []byte
		must(in.t, conn.QueryRow(context.Background(), `SELECT note FROM log_checkpoints ORDER BY size DESC LIMIT 1`).Scan(&note))
		got, err := os.ReadFile(path)
		return err == nil && string(got) == string(note)
	})
}

// Three processes at once, each killed again and again wherever it is.
func TestSequencersKilledAtRandom(t *testing.T) {
	t.Parallel()
	in := install(t)
	conn := connect(t, in.owner)
	stop := appenders(t, in.app)
	running := []*child{in.child(order{}), in.child(order{}), in.child(order{})}
	for round := range 12 {
		before := size(t, conn)
		took := eventually(t, goesOn, "the log goes on", func() bool { return size(t, conn) > before+20 })
		t.Logf("round %d: 20 further events have a place after %s", round, took)
		running[round%3].kill()
		running[round%3] = in.child(order{})
		if round%4 == 3 {
			in.check()
		}
	}
	in.finish(conn, stop)
}

// A leader that stands still at a step loses the lead; when it wakes up, what it
// was about to do is refused, and it follows or leads again.
func TestStoppedLeader(t *testing.T) {
	t.Parallel()
	in := install(t)
	conn := connect(t, in.owner)
	stop := appenders(t, in.app)
	for _, step := range []string{"read", "append", "appended"} {
		sleeper := in.child(order{Step: step, Nth: 3, Signal: syscall.SIGSTOP})
		sleeper.stopped(20 * time.Second)
		before := size(t, conn)
		other := in.child(order{})
		took := eventually(t, goesOn, "the log goes on without "+step, func() bool { return size(t, conn) > before })
		t.Logf("a leader stood still at %q: another one went on after %s", step, took)
		before = size(t, conn)
		must(t, sleeper.cmd.Process.Signal(syscall.SIGCONT))
		eventually(t, goesOn, "the log goes on", func() bool { return size(t, conn) > before+20 })
		in.check()
		other.kill()
		before = size(t, conn)
		eventually(t, goesOn, "the one that woke up leads again", func() bool { return size(t, conn) > before })
		sleeper.kill()
		if strings.Contains(sleeper.out.String(), "was signed") {
			t.Errorf("the one that woke up says\n%s", sleeper.out)
		}
	}
	in.child(order{})
	in.finish(conn, stop)
}

// Postgres is killed and started again, under two sequencers and load.
func TestPostgresKilled(t *testing.T) {
	t.Parallel()
	dir, err := pgtest.TempDir("log")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// The others know one address only. Who asks for any port is given none below
	// 32768, so that this one stays free while the server is away.
	must(t, os.Mkdir(filepath.Join(dir, "pg"), 0o711))
	must(t, os.WriteFile(filepath.Join(dir, "pg", "port"), []byte(strconv.Itoa(20000+rand.IntN(10000))), 0o600))
	start := func() *postgres.Server {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s, err := postgres.Start(ctx, postgres.Config{Dir: filepath.Join(dir, "pg"), NoSync: true})
		must(t, err)
		return s
	}
	server := start()
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, server.SuperuserURL("postgres"))
	must(t, err)
	_, err = admin.Exec(ctx, `CREATE DATABASE log`)
	must(t, err)
	must(t, admin.Close(ctx))
	in := &installation{t: t, owner: server.SuperuserURL("log"), app: server.URL("log_app", "app", "log")}
	_, err = store.Migrate(ctx, in.owner)
	must(t, err)
	conn, err := pgx.Connect(ctx, in.owner)
	must(t, err)
	in.prepare(conn)
	_ = conn.Close(ctx)
	stop := appenders(t, in.app)
	path := filepath.Join(t.TempDir(), "floor")
	for range 2 {
		in.child(order{Floor: path, Timeout: 5 * time.Second}) // as in production, because Postgres goes away
	}
	for round := range 4 {
		conn := connect(t, in.owner)
		before := size(t, conn)
		eventually(t, goesOn, "the log goes on", func() bool { return size(t, conn) > before+30 })
		_ = conn.Close(ctx)
		must(t, syscall.Kill(server.PID(), syscall.SIGKILL))
		<-server.Done()
		_ = server.Stop(ctx)
		server = start()
		if server.SuperuserURL("log") != in.owner {
			t.Fatal("the server has another address now: somebody took its port")
		}
		conn = connect(t, in.owner)
		before = size(t, conn)
		took := eventually(t, goesOn, "the log goes on", func() bool { return size(t, conn) > before })
		t.Logf("round %d: the log went on %s after Postgres was there again", round, took)
		in.check()
	}
	conn = connect(t, in.owner)
	in.finish(conn, stop)
	in.floorIs(conn, path)
}
