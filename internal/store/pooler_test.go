package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/internal/freeport"
)

// pooled starts a real pgbouncer before the database of a URL, and returns the URL that
// leads through it. It is shut down after the test.
func pooled(t *testing.T, direct, mode string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program = "/usr/sbin/pgbouncer"; !isFile(program) {
			if os.Getenv("CI") != "" {
				t.Fatal("pgbouncer is not installed")
			}
			t.Skip("pgbouncer is not installed")
		}
	}
	to, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	port, err := freeport.Find(0)
	if err != nil {
		t.Fatal(err)
	}
	// As root it refuses to run, so it runs as somebody who can read what is there.
	dir, err := os.MkdirTemp("", "holdpoint-pooler-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	password, _ := to.User.Password()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { // #nosec G306 -- of a database that ends with the test
			t.Fatal(err)
		}
		return path
	}
	users := write("users", fmt.Sprintf("%q %q\n", to.User.Username(), password))
	settings := write("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = %s
`, to.Hostname(), to.Port(), port, users, mode))
	if err := os.Chmod(dir, 0o755); err != nil { // #nosec G302 -- as above
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), program, settings)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(nobody.Uid)
		gid, _ := strconv.Atoi(nobody.Gid)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} // #nosec G115 -- they are ids
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	through := *to
	through.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for deadline := time.Now().Add(20 * time.Second); ; {
		conn, err := pgx.Connect(context.Background(), through.String())
		if err == nil {
			_ = conn.Close(context.Background())
			return through.String()
		}
		select {
		case end := <-ended:
			t.Fatalf("pgbouncer ended: %v\n%s", end, &said)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("pgbouncer does not answer: %v", err)
		}
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// A pooler that lends connections by the transaction is refused, in a line that says what to do:
// it would give everybody the lead of the log.
func TestAPoolerOfTransactionsIsRefused(t *testing.T) {
	direct, sealer := migrated(t), newSealer(t)
	through := pooled(t, direct, "transaction")
	for range 3 { // it makes no difference how many connections it has by now
		if _, err := Open(t.Context(), Config{URL: through, Sealer: sealer}); !errors.Is(err, ErrPooler) {
			t.Fatalf("opened through it: %v", err)
		}
	}
	one, err := Open(t.Context(), Config{URL: direct, Sealer: sealer})
	if err != nil {
		t.Fatal(err)
	}
	one.Close()
}

// Through a pooler that lends connections by the session everything works as it does
// directly: what sessions are set to, changes that are heard, and one leader.
func TestThroughAPoolerOfSessions(t *testing.T) {
	through := pooled(t, migrated(t), "session")
	sealer := newSealer(t)
	open := func() *Store {
		s, err := Open(t.Context(), Config{URL: through, Sealer: sealer})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	first, second := open(), open()
	var limit string
	if err := first.pool.QueryRow(t.Context(), `SHOW statement_timeout`).Scan(&limit); err != nil || limit != "10s" {
		t.Errorf("statement_timeout is %s (%v)", limit, err)
	}

	// The listening begins by itself: what is told until then is heard by nobody.
	changes, deadline := first.Outbox.Changes(t.Context()), time.After(20*time.Second)
	for heard := false; !heard; {
		if _, err := second.pool.Exec(t.Context(), `SELECT pg_notify($1, '')`, outboxChannel); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changes:
			heard = true
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatal("a change was not heard")
		}
	}

	led, err := first.Log.Lead(t.Context(), func(ctx context.Context, _ *LogLeader) error {
		other, err := second.Log.Lead(ctx, func(context.Context, *LogLeader) error { return nil })
		if err == nil && other {
			err = errors.New("two lead at once")
		}
		return err
	})
	if err != nil || !led {
		t.Errorf("the lead: %v, %v", led, err)
	}
}
