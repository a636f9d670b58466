package store

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/postgres/pgtest"
)

// Whoever has the runtime role appends no grant by a snapshot of before a kill switch.
func TestNothingIsAppendedByAnOldSnapshot(t *testing.T) {
	s, owner := open(t)
	database := connect(t, owner).Config().Database
	grant := `SELECT append_events(ARRAY[gen_random_uuid()], ARRAY['decision'], ARRAY['ALLOW'], ARRAY['bot'], ARRAY['t'], ARRAY[''], ARRAY['{}'::bytea])`
	before := map[string]*pgx.Conn{}
	want := map[string]string{"REPEATABLE READ": "0A000", "SERIALIZABLE": "0A000", "READ COMMITTED": "HPK01"}
	for level := range want {
		conn := connect(t, pgtest.Server(t).URL("store_app", "app", database))
		for _, statement := range []string{`BEGIN ISOLATION LEVEL ` + level, `SELECT FROM kill_switches`} { // from here on it has its snapshot
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		before[level] = conn
	}
	e := event("")
	e.Outcome = engine.KillSwitch
	if err := s.Registry.ThrowKillSwitch(t.Context(), registry.Kill{AgentID: "bot", Reason: "x", By: "olga"}, nil, e); err != nil {
		t.Fatal(err)
	}
	for level, code := range want {
		var refused *pgconn.PgError
		if _, err := before[level].Exec(t.Context(), grant); !errors.As(err, &refused) || refused.Code != code {
			t.Errorf("a grant after the switch, %s: %v, want %s", level, err, code)
		}
	}
}
