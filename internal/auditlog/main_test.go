package auditlog_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/store"
	"holdpoint/internal/store/logtest"
)

var long = flag.Bool("long", false, "sequence a backlog of 200,000 events instead of 30,000")

// A test binary that is started with an order is a sequencer, and nothing else.
func TestMain(m *testing.M) {
	if order := os.Getenv(orderVariable); order != "" {
		sequence(order)
		return
	}
	pgtest.Main(m)
}

// installation is a database with an empty log, and the log's key.
type installation struct {
	t     testing.TB
	owner string // URL of the superuser
	app   string // URL of the runtime role
	key   string // private
	keys  []audit.Key
}

func install(t testing.TB) *installation {
	t.Helper()
	owner := pgtest.Migrated(t, store.Migrate)
	conn := connect(t, owner)
	in := &installation{t: t, owner: owner, app: pgtest.Server(t).URL("log_app", "app", conn.Config().Database)}
	in.prepare(conn)
	return in
}

// prepare makes role, agent and key.
func (in *installation) prepare(conn *pgx.Conn) {
	in.t.Helper()
	if _, err := conn.Exec(context.Background(), `DO $$ BEGIN CREATE ROLE log_app LOGIN PASSWORD '`+pgtest.Verifier("app")+`' IN ROLE holdpoint_runtime;
		EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
		INSERT INTO agents (id, name) VALUES ('bot', 'Bot')`); err != nil {
		in.t.Fatal(err)
	}
	var err error
	if in.key, _, err = audit.NewKey(rand.Reader, "log.example.com/sequencer"); err != nil {
		in.t.Fatal(err)
	}
	if in.keys, err = audit.ParseKeys(in.key); err != nil {
		in.t.Fatal(err)
	}
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func openStore(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), store.Config{URL: url, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// sequencer makes a sequencer on a store of its own.
func (in *installation) sequencer(edit func(*auditlog.Sequencer)) *auditlog.Sequencer {
	in.t.Helper()
	q := &auditlog.Sequencer{Store: openStore(in.t, in.app), Keys: in.keys, Logger: slog.New(slog.NewTextHandler(in.t.Output(), nil)), Every: 20 * time.Millisecond}
	if edit != nil {
		edit(q)
	}
	return q
}

// run runs a sequencer until the test ends, or stop is called.
func (in *installation) run(q *auditlog.Sequencer) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { q.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	in.t.Cleanup(stop)
	return stop
}

// check fails the test for everything that is wrong with the log.
func (in *installation) check() int64 {
	in.t.Helper()
	return logtest.Check(in.t, in.owner, in.keys[0].Public)
}

// querier is a connection, or a transaction on one.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// execer is a superuser's connection.
type execer interface {
	querier
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// write appends n events in one statement, as the store does.
func write(ctx context.Context, q querier, n int) error {
	ids, types, outcomes := make([]string, n), make([]string, n), make([]string, n)
	agents, tools, approvals, bodies := make([]string, n), make([]string, n), make([]string, n), make([][]byte, n)
	for i := range n {
		e := event()
		var err error
		if bodies[i], err = json.Marshal(e); err != nil {
			return err
		}
		ids[i], types[i], outcomes[i], agents[i], tools[i] = e.ID, string(e.Type), string(e.Outcome), e.AgentID, e.ToolName
	}
	var written int
	if err := q.QueryRow(ctx, `SELECT written FROM append_events($1::text[]::uuid[], $2, $3, $4, $5, $6, $7)`,
		ids, types, outcomes, agents, tools, approvals, bodies).Scan(&written); err != nil {
		return err
	}
	if written != n {
		return fmt.Errorf("%d of %d events were written", written, n)
	}
	return nil
}

// event is one that is not all ASCII, and has numbers of several kinds.
func event() engine.Event {
	return engine.Event{
		ID: uuid.NewString(), Type: engine.Decided, Outcome: engine.Allow, AgentID: "bot", ToolName: "search", Actor: engine.Actor{Kind: engine.AgentActor, ID: "bot", Channel: "api"},
		Reasons:     []engine.Reason{{Code: "because", Message: "naïve \"quotes\" \u2028 <tag> 😀\t"}},
		SafePayload: []byte(`{"n":1.5,"big":1e21,"small":1e-7,"zero":0,"list":[null,true,{"\ufb33":1,"😀":2,"a":3}],"text":"` + strings.Repeat("x", 300) + `"}`),
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// size is the log's size.
func size(t testing.TB, q querier) (n int64) {
	t.Helper()
	must(t, q.QueryRow(context.Background(), `SELECT size FROM log_head`).Scan(&n))
	return n
}

// eventually waits until something holds, looking again and again.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > within {
			t.Fatalf("not within %s: %s", within, what)
		}
		<-time.After(5 * time.Millisecond)
	}
	return time.Since(began)
}

// placed waits until all events that are committed have their places.
func (in *installation) placed(conn querier, within time.Duration) time.Duration {
	in.t.Helper()
	return eventually(in.t, within, "every event has its place", func() bool {
		var missing bool
		err := conn.QueryRow(context.Background(), `SELECT EXISTS (SELECT FROM events e LEFT JOIN log_entries l USING (seq) WHERE l.seq IS NULL)`).Scan(&missing)
		return err == nil && !missing
	})
}
