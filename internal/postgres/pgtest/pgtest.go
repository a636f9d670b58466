// Package pgtest gives tests a real Postgres: one private cluster for a test binary, started when the first test asks for it,
// and fresh databases in it. A machine without Postgres fails these tests; it never skips them.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		url := pgtest.Migrated(t, store.Migrate)
//		…
//	}
//
// The cluster is in memory if there is room, and runs without fsync: what is committed survives kill -9 of the server, not a crash of the machine.
package pgtest

import (
	"context"
	"crypto/rand"
	"flag"
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

const (
	prefix   = "holdpoint-test-"
	template = "migrated"
	// memory is where Linux keeps files in memory, room what tests need there at most.
	memory = "/dev/shm"
	room   = 4 << 30
)

// shared is the cluster of this test binary. A variable of the package, because the testing package offers nothing else that
// all tests of a binary have in common.
var shared struct {
	sync.Mutex
	entered bool
	dir     string
	server  *postgres.Server
	err     error

	migrated   sync.Once
	migrateErr error
}

// Main runs the tests of a package and stops the cluster after the last of them. It is the whole body of TestMain:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
func Main(m *testing.M) {
	shared.Lock()
	shared.entered = true
	shared.Unlock()
	parallel()
	m.Run() // TestMain's caller exits with its result
	stop()
}

// parallel lets more tests run at once than there are processors, unless -parallel says how many: those that call t.Parallel
// wait for databases, processes and deadlines more than they compute.
func parallel() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "8") // the flag is there, and a number
	}
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
		shared.server, shared.err = begin()
	}
	if shared.err != nil {
		t.Fatalf("pgtest: %v", shared.err)
	}
	return shared.server
}

func begin() (*postgres.Server, error) {
	var err error
	if shared.dir, err = TempDir("pg"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return postgres.Start(ctx, postgres.Config{Dir: shared.dir, NoSync: true, Progress: func(string) {}})
}

// TempDir makes a directory for clusters, which its caller removes. It is in memory if there is room and TMPDIR says nothing
// else: on a disk, files of databases that are made and dropped cost more time than the tests. Benchmarks are of the disk.
func TempDir(name string) (string, error) {
	parent := os.TempDir()
	var fs syscall.Statfs_t
	bench := flag.Lookup("test.bench")
	if os.Getenv("TMPDIR") == "" && (bench == nil || bench.Value.String() == "") && syscall.Statfs(memory, &fs) == nil && uint64(fs.Bsize)*fs.Bavail >= room {
		parent = memory
	}
	sweep(parent)
	dir, err := os.MkdirTemp(parent, prefix+name+"-")
	if err != nil {
		return "", err
	}
	// Open for passing through, so that as root the server can run as an ordinary user.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", err
	}
	// Locked until this process ends: it is never closed.
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	return dir, syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
}

// sweep removes what test binaries that were killed left behind: their servers end with them, their directories stay.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, prefix+"*")) // the pattern is well-formed
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue // perhaps one that is being made
		}
		lock, err := os.Open(dir)
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
	return create(t, "CREATE DATABASE %s")
}

// Migrated is Database with a schema. migrate is run for the first test of the binary; the others get copies of what it made,
// which takes a tenth of the time. A binary has one schema.
func Migrated(t testing.TB, migrate func(ctx context.Context, url string) ([]string, error)) string {
	t.Helper()
	server := Server(t)
	shared.migrated.Do(func() {
		execute(t, server, "CREATE DATABASE "+template)
		if _, shared.migrateErr = migrate(t.Context(), server.SuperuserURL(template)); shared.migrateErr == nil {
			// Nobody is to be connected to what is copied.
			execute(t, server, "ALTER DATABASE "+template+" ALLOW_CONNECTIONS false")
		}
	})
	if shared.migrateErr != nil {
		t.Fatalf("pgtest: %v", shared.migrateErr)
	}
	return create(t, "CREATE DATABASE %s TEMPLATE "+template,
		// Who may connect and make temporary tables is not copied with it.
		"UPDATE pg_database SET datacl = (SELECT datacl FROM pg_database WHERE datname = '"+template+"') WHERE datname = '%s'")
}

// create makes a database for the duration of the test, by statements with a place for its name, and returns its URL.
func create(t testing.TB, statements ...string) string {
	t.Helper()
	server := Server(t)
	name := "t_" + strings.ToLower(rand.Text()[:16])
	for i, statement := range statements {
		statements[i] = fmt.Sprintf(statement, name)
	}
	execute(t, server, statements...)
	t.Cleanup(func() { execute(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	return server.SuperuserURL(name)
}

func execute(t testing.TB, server *postgres.Server, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.SuperuserURL("postgres"))
	if err != nil {
		t.Fatalf("pgtest: connect: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("pgtest: %s: %v", statement, err)
		}
	}
}
