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
//
// Most of what tests cost is databases and connections, so both are made as cheaply as Postgres can.
package pgtest

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

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
	admin   *pgxpool.Pool // a superuser's, to the database postgres
	copying string        // how CREATE DATABASE copies a template
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
	if shared.admin != nil {
		shared.admin.Close()
	}
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
		shared.err = begin()
	}
	if shared.err != nil {
		t.Fatalf("pgtest: %v", shared.err)
	}
	return shared.server
}

// begin starts the cluster and connects to it.
func begin() (err error) {
	if shared.dir, err = TempDir("pg"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := postgres.Start(ctx, postgres.Config{Dir: shared.dir, NoSync: true, Progress: func(string) {}})
	if err != nil {
		return err
	}
	shared.server = server
	own, err := url.Parse(server.SuperuserURL("postgres"))
	if err != nil {
		return err
	}
	if shared.admin, err = pgxpool.New(ctx, own.String()); err != nil {
		return err
	}
	password, _ := own.User.Password()
	if _, err = shared.admin.Exec(ctx, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", own.User.Username(), Verifier(password))); err != nil {
		return fmt.Errorf("set the superuser's verifier: %w", err)
	}
	// Since version 15 Postgres copies a template by way of its log, which costs twice as much here, unless it is told otherwise.
	if err = shared.admin.QueryRow(ctx, "SELECT CASE WHEN current_setting('server_version_num')::int >= 150000 THEN 'STRATEGY file_copy' ELSE '' END").Scan(&shared.copying); err != nil {
		return fmt.Errorf("read the server's version: %w", err)
	}
	return nil
}

// Verifier is what Postgres keeps of a password, for CREATE ROLE … PASSWORD. It is of one iteration of SCRAM's derivation
// and not of 4,096, which every connection of a test would spend again: the password is checked all the same.
func Verifier(password string) string {
	salt := []byte(rand.Text()[:16])
	salted, err := pbkdf2.Key(sha256.New, password, salt, 1, sha256.Size)
	if err != nil {
		panic(err) // only of lengths that FIPS 140 forbids, if it is on
	}
	of := func(key []byte, text string) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	stored, encode := sha256.Sum256(of(salted, "Client Key")), base64.StdEncoding.EncodeToString
	return "SCRAM-SHA-256$1:" + encode(salt) + "$" + encode(stored[:]) + ":" + encode(of(salted, "Server Key"))
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
		execute(t, "CREATE DATABASE "+template)
		if _, shared.migrateErr = migrate(t.Context(), server.SuperuserURL(template)); shared.migrateErr == nil {
			// Nobody is to be connected to what is copied.
			execute(t, "ALTER DATABASE "+template+" ALLOW_CONNECTIONS false")
		}
	})
	if shared.migrateErr != nil {
		t.Fatalf("pgtest: %v", shared.migrateErr)
	}
	return create(t, "CREATE DATABASE %s TEMPLATE "+template+" "+shared.copying,
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
	execute(t, statements...)
	t.Cleanup(func() { execute(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	return server.SuperuserURL(name)
}

func execute(t testing.TB, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, statement := range statements {
		if _, err := shared.admin.Exec(ctx, statement); err != nil {
			t.Fatalf("pgtest: %s: %v", statement, err)
		}
	}
}
