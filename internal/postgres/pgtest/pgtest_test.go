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
