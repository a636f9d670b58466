// Package pgtest gives tests a real Postgres: one private cluster for a test binary, started when the first test asks for it,
// and fresh databases in it. A machine without Postgres fails these tests; it never skips them.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		url := pgtest.Database(t)
//		…
//	}
//
// The cluster runs without fsync: what is committed survives kill -9 of the server, not a crash of the machine.
package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/internal/postgres"
)

const prefix = "holdpoint-pgtest-"

// shared is the cluster of this test binary. A variable of the package, because the testing package offers nothing else that
// all tests of a binary have in common.
var shared struct {
	sync.Mutex
	entered bool
	dir     string
	server  *postgres.Server
	err     error
}

// Main runs the tests of a package and stops the cluster after the last of them. It is the whole body of TestMain:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
func Main(m *testing.M) {
	shared.Lock()
	shared.entered = true
	shared.Unlock()
	m.Run() // TestMain's caller exits with its result
	stop()
}

func stop() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := shared.server.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
		}
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
}

// Server is the cluster that all tests of this binary share. Tests that stop or kill their server start one of their own with
// package postgres instead.
func Server(t testing.TB) *postgres.Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.entered {
		t.Fatal("pgtest: the package needs func TestMain(m *testing.M) { pgtest.Main(m) }")
	}
	if shared.server == nil && shared.err == nil {
		sweep()
		shared.server, shared.err = begin()
	}
	if shared.err != nil {
		t.Fatalf("pgtest: %v", shared.err)
	}
	return shared.server
}

func begin() (*postgres.Server, error) {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	shared.dir = dir
	// Open for passing through, so that as root the server can run as an ordinary user.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return postgres.Start(ctx, postgres.Config{Dir: dir, NoSync: true, Progress: func(string) {}})
}

// sweep removes what test binaries that were killed left behind: their servers end with them, their directories stay.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*")) // the pattern is well-formed
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < time.Hour {
			continue // perhaps one that is being made
		}
		lock, err := os.Open(filepath.Join(dir, "lock"))
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}

// Database makes an empty database, dropped again after the test, and returns its URL for the superuser.
func Database(t testing.TB) string {
	t.Helper()
	server := Server(t)
	name := "t_" + strings.ToLower(rand.Text()[:16])
	execute(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	return server.SuperuserURL(name)
}

func execute(t testing.TB, server *postgres.Server, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.SuperuserURL("postgres"))
	if err != nil {
		t.Fatalf("pgtest: connect: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("pgtest: %s: %v", statement, err)
	}
}
