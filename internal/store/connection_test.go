package store

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdpoint/internal/postgres/pgtest"
)

// TestCauseOfNoConnection: whatever the URL says of TLS, the line that is shown names the
// cause, and no password.
func TestCauseOfNoConnection(t *testing.T) {
	is, err := url.Parse(pgtest.Server(t).URL("nobody", "secret-word", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct{ mode, host, want string }{
		{"disable", is.Host, "database_url: the event store is unavailable: connect: " + is.Host + " says FATAL: password authentication failed for user \"nobody\" (SQLSTATE 28P01): give the URL the password that the role has"},
		{"prefer", is.Host, "password authentication failed for user"},
		{"allow", is.Host, "password authentication failed for user"},
		{"require", is.Host, "server refused TLS connection, which sslmode in the URL asks for"},
		{"prefer", "127.0.0.1:1", "refused"},
		{"require", "127.0.0.1:1", "connection refused"},
	} {
		to := *is
		to.Host, to.RawQuery = of.host, "sslmode="+of.mode
		_, err := Open(context.Background(), Config{URL: to.String()})
		if err == nil || !strings.Contains(err.Error(), of.want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%s at %s: %v, want %q", of.mode, of.host, err, of.want)
		}
	}
	missing := *is
	missing.User, missing.Path, missing.RawQuery = nil, "/nowhere", "sslmode=prefer"
	with, err := url.Parse(pgtest.Server(t).SuperuserURL("nowhere"))
	if err != nil {
		t.Fatal(err)
	}
	missing.User = with.User
	if _, err := Open(context.Background(), Config{URL: missing.String()}); err == nil || !strings.Contains(err.Error(), `database "nowhere" does not exist`) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

// However the database is set: what is answered is on its disk, and it does not keep
// the locks of a program that was cut off.
func TestConnectionSettings(t *testing.T) {
	ctx := context.Background()
	url, sealer := migrated(t), newSealer(t)
	conn := connect(t, url)
	for _, of := range []struct{ set, want string }{{"off", "on"}, {"remote_apply", "remote_apply"}} {
		if _, err := conn.Exec(ctx, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = `+of.set+`', current_database()); END $$`); err != nil {
			t.Fatal(err)
		}
		s, err := Open(ctx, Config{URL: url, Sealer: sealer})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for name, want := range map[string]string{
			"synchronous_commit": of.want, "statement_timeout": "10s", "idle_in_transaction_session_timeout": "10s",
			"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3",
		} {
			var got string
			if err := s.pool.QueryRow(ctx, `SHOW `+name, pgx.QueryExecModeSimpleProtocol).Scan(&got); err != nil || got != want {
				t.Errorf("synchronous_commit %s: %s is %s, want %s (%v)", of.set, name, got, want, err)
			}
		}
	}
}
