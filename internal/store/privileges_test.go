package store

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdpoint/engine"
	"holdpoint/internal/postgres/pgtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// privileges lists, one a line, everything that the runtime and the reader may do,
// and what everybody may.
const privileges = `
	SELECT line FROM (
		SELECT format('%s: %s %s', grantee, string_agg(privilege_type, ', ' ORDER BY privilege_type), table_name) AS line
		FROM information_schema.table_privileges
		WHERE table_schema = 'public' AND grantee IN ('holdpoint_runtime', 'holdpoint_reader', 'holdpoint_people', 'PUBLIC') GROUP BY grantee, table_name
		UNION ALL
		SELECT format('%s: %s %s (%s)', c.grantee, c.privilege_type, c.table_name, string_agg(c.column_name, ', ' ORDER BY c.column_name))
		FROM information_schema.column_privileges c
		WHERE c.table_schema = 'public' AND c.grantee IN ('holdpoint_runtime', 'holdpoint_reader', 'holdpoint_people', 'PUBLIC')
		  AND NOT EXISTS (SELECT FROM information_schema.table_privileges t
			WHERE t.table_schema = 'public' AND (t.grantee, t.table_name, t.privilege_type) = (c.grantee, c.table_name, c.privilege_type))
		GROUP BY c.grantee, c.privilege_type, c.table_name
		UNION ALL
		SELECT format('%s: EXECUTE %s%s', coalesce(r.rolname, 'PUBLIC'), p.proname, CASE WHEN p.prosecdef THEN ' (as its owner)' ELSE '' END)
		FROM pg_proc p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a LEFT JOIN pg_roles r ON r.oid = a.grantee
		WHERE p.pronamespace = 'public'::regnamespace AND a.grantee <> p.proowner AND p.prorettype <> 'trigger'::regtype
		UNION ALL
		SELECT format('%s: %s sequence %s', r.rolname, a.privilege_type, c.relname)
		FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
		WHERE c.relkind = 'S' AND c.relnamespace = 'public'::regnamespace AND a.grantee <> c.relowner) lines
	ORDER BY line COLLATE "C"`

// TestPrivileges holds what each role may do against what is written down: every
// right that is added or taken away is a change of testdata/privileges.txt, which
// somebody has read.
func TestPrivileges(t *testing.T) {
	ctx := context.Background()
	url := migrated(t)
	conn := connect(t, url)
	rows, err := conn.Query(ctx, privileges)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(lines, "\n") + "\n"
	golden := filepath.Join("testdata", "privileges.txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the privileges are not those of %s (go test ./internal/store -run TestPrivileges -update):\n%s", golden, difference(string(want), got))
	}
}

// TestReaderExports: what an export takes, the reader's role may do: it says so in
// the log, and reads all of it or a part.
func TestReaderExports(t *testing.T) {
	ctx := context.Background()
	runtime, owner := open(t)
	conn := connect(t, owner)
	s, err := Open(ctx, Config{URL: readerURL(t, conn), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.CheckSchema(ctx); err == nil || !strings.Contains(err.Error(), `"store_reader" may export the log`) || strings.Contains(err.Error(), "migrate") {
		t.Errorf("what a reader is told of the schema: %v", err)
	}
	for list := range reportLists { // they read more than the log, and say so
		if _, err := s.Reports.List(ctx, ListQuery{List: list, Until: time.Now(), Admin: "admin", Auditor: "auditor", Limit: 1}); err != nil && !errors.Is(err, ErrUnavailable) {
			t.Errorf("the report %s: %v", list, err)
		}
	}
	e := event("")
	e.Type, e.Outcome, e.AgentID, e.ToolName = engine.Exported, engine.Allow, "", ""
	if e.Actor.ID, err = s.Events.DatabaseUser(ctx); err != nil || e.Actor.ID != "store_reader" {
		t.Fatalf("it is logged in as %q: %v", e.Actor.ID, err)
	}
	own := engine.Actor{Kind: engine.ServiceActor, ID: e.Actor.ID, Channel: "cli"}
	for _, e.Actor = range []engine.Actor{{Kind: engine.HumanActor, ID: own.ID, Channel: "cli"}, {Kind: engine.ServiceActor, ID: "usr_1", Channel: "cli"}, {Kind: engine.ServiceActor, ID: own.ID, Channel: "console"}} {
		if err := s.Events.RecordExport(ctx, e); err == nil {
			t.Errorf("a reader says that %+v exports", e.Actor)
		}
	}
	e.Actor = own
	follow(t, runtime)
	if err := s.Events.RecordExport(ctx, e); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, `SELECT advance_log(0, (SELECT root FROM log_head), sha256('x'), ARRAY[(SELECT max(seq) FROM events)], ARRAY['x'], '{}', '{}', '{}', '')`); err != nil {
		t.Fatal(err)
	}
	if placed, err := s.Log.CatchUp(ctx, 0); err != nil || !placed {
		t.Errorf("it does not see that the log has caught up: %v %v", placed, err)
	}
	if _, err := s.Log.LatestCheckpoint(ctx, 0); err != nil {
		t.Error(err)
	}
	if _, err := s.Log.LatestCheckpoint(ctx, 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("nobody has witnessed anything: %v", err)
	}
	for _, f := range []EventFilter{{}, {Type: "export"}, {Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}} {
		f.Limit = 10
		if filed, err := s.Events.Placed(ctx, f); err != nil || len(filed) != 1 || filed[0].ID != e.ID {
			t.Errorf("%+v: %d events, %v", f, len(filed), err)
		}
	}
	if _, err := s.Submit(ctx, Submission{Event: event("")}); err == nil {
		t.Error("it may append any event")
	}
}

// readerURL is that of a login that only reads.
func readerURL(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	if _, err := conn.Exec(t.Context(), `DO $$ BEGIN CREATE ROLE store_reader LOGIN PASSWORD 'reads' IN ROLE holdpoint_reader;
		EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`); err != nil {
		t.Fatal(err)
	}
	return pgtest.Server(t).URL("store_reader", "reads", conn.Config().Database)
}

// follow leads the log until the test is over, as a worker does, and gives no event a place. It tells of each
// number up to which events can be read.
func follow(t *testing.T, s *Store) <-chan int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	safe, over := make(chan int64, 1000), make(chan error, 1)
	wanted := s.Log.Wanted(ctx)
	go func() {
		_, err := s.Log.Lead(ctx, func(ctx context.Context, l *LogLeader) error {
			for {
				n, err := l.HighWaterMark(ctx)
				if err != nil {
					return err
				}
				safe <- n
				select {
				case <-wanted:
				case <-ctx.Done():
					return nil
				}
			}
		})
		over <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return safe
}

// TestReaderHoldsNothingUp: a login that only reads, records an export and leaves its transaction open keeps no kill
// switch from being thrown, and no event from its place. What it records is appended once it is committed.
func TestReaderHoldsNothingUp(t *testing.T) {
	ctx := t.Context()
	s, owner := open(t)
	conn := connect(t, owner)
	reader := connect(t, readerURL(t, conn))
	export := event("")
	export.Type, export.AgentID, export.ToolName, export.Actor = engine.Exported, "", "", engine.Actor{Kind: engine.ServiceActor, ID: "store_reader", Channel: "cli"}
	record := func(db interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	}, e engine.Event,
	) error {
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Exec(ctx, `SELECT record_export($1::text::uuid, $2)`, e.ID, body)
		return err
	}
	tx, err := reader.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := record(tx, export); err != nil {
		t.Fatal(err)
	}

	if _, err := conn.Exec(ctx, `SET lock_timeout = '10s'; INSERT INTO kill_switches (agent_id, reason, thrown_by) VALUES ('another', 'it has to stop', 'olga')`); err != nil {
		t.Fatalf("a kill switch, while a reader records an export: %v", err)
	}
	if _, err := s.Submit(ctx, Submission{Event: event("")}); err != nil {
		t.Fatal(err)
	}
	number := func(id string) (n int64) {
		if err := conn.QueryRow(ctx, `SELECT coalesce((SELECT seq FROM events WHERE event_id = $1::text::uuid), 0)`, id).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	var last int64
	if err := conn.QueryRow(ctx, `SELECT max(seq) FROM events`).Scan(&last); err != nil {
		t.Fatal(err)
	}
	safe := follow(t, s)
	look := func() {
		if _, err := conn.Exec(ctx, `SELECT pg_notify('holdpoint_log_wanted', '')`); err != nil {
			t.Fatal(err)
		}
	}
	// reads waits until events are read up to the number; one look may find the transaction before still busy.
	reads := func(wanted func() int64) bool {
		for limit := time.After(20 * time.Second); ; look() {
			select {
			case n := <-safe:
				if w := wanted(); w > 0 && n >= w {
					return true
				}
			case <-limit:
				return false
			}
		}
	}
	if !reads(func() int64 { return last }) {
		t.Error("an event has no place, while a reader records an export")
	}
	if number(export.ID) != 0 {
		t.Error("what is not committed is appended")
	}

	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	look()
	if !reads(func() int64 { return number(export.ID) }) {
		t.Error("what a reader has recorded is not appended")
	}

	// Nobody fills the disk by it.
	if tx, err = reader.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for range 100 {
		export.ID = uuid.NewString()
		if err := record(tx, export); err != nil {
			t.Fatal(err)
		}
	}
	export.ID = uuid.NewString()
	if err := record(tx, export); err == nil || !strings.Contains(err.Error(), "is a worker running?") {
		t.Errorf("the 101st export that waits: %v", err)
	}
}

// difference lists the lines that only one of two texts has.
func difference(want, got string) string {
	var out strings.Builder
	for _, side := range []struct{ sign, of, in string }{{"- ", want, got}, {"+ ", got, want}} {
		for line := range strings.Lines(side.of) {
			if !strings.Contains(side.in, line) {
				out.WriteString(side.sign + line)
			}
		}
	}
	return out.String()
}
