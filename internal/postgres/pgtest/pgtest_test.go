package pgtest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdpoint/internal/postgres/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestDatabase(t *testing.T) {
	var first string
	t.Run("fresh", func(t *testing.T) {
		first = pgtest.Database(t)
		second := pgtest.Database(t)
		if first == second {
			t.Fatalf("two databases with one URL: %s", first)
		}
		for _, url := range []string{first, second} {
			conn := connect(t, url)
			if _, err := conn.Exec(t.Context(), "CREATE TABLE only_here ()"); err != nil {
				t.Errorf("not empty: %v", err)
			}
		}
	})
	conn, err := pgx.Connect(t.Context(), first)
	if err == nil {
		_ = conn.Close(t.Context())
		t.Error("the database is still there after its test")
	}
}

// made counts the schemas that were made in this binary, by however many runs of the test.
var made int

// The schema is made once; each database is a copy of it, with the rights to the database itself.
func TestMigrated(t *testing.T) {
	migrate := func(ctx context.Context, url string) ([]string, error) {
		made++
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close(ctx) }()
		_, err = conn.Exec(ctx, `CREATE TABLE here (n int); INSERT INTO here VALUES (1); DO $$ BEGIN EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database()); END $$`)
		return nil, err
	}
	for range 2 {
		conn := connect(t, pgtest.Migrated(t, migrate))
		var rows int
		var public bool
		if err := conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM here), EXISTS (
			SELECT FROM pg_database, aclexplode(datacl) WHERE datname = current_database() AND privilege_type = 'TEMPORARY' AND grantee = 0)`).Scan(&rows, &public); err != nil {
			t.Fatal(err)
		}
		if rows != 1 || public {
			t.Errorf("%d rows; everybody may make temporary tables: %t", rows, public)
		}
		if _, err := conn.Exec(t.Context(), `INSERT INTO here VALUES (2)`); err != nil {
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("the schema was made %d times", made)
	}
}

func TestServerIsShared(t *testing.T) {
	if got, want := pgtest.Server(t).PID(), pgtest.Server(t).PID(); got != want {
		t.Errorf("second call started another server: pid %d, then %d", want, got)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
