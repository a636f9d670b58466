package store

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// However the database is set: what is answered is on its disk, and it does not keep
// the locks of a program that was cut off.
func TestConnectionsAskForWhatIsPromised(t *testing.T) {
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
