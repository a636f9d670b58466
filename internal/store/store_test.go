package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/seal"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func newSealer(t testing.TB) *seal.Sealer {
	t.Helper()
	key := make([]byte, seal.KeySize)
	rand.Read(key)
	s, err := seal.New(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// migrated is the superuser's URL of a new database with the schema.
func migrated(t testing.TB) string {
	t.Helper()
	return pgtest.Migrated(t, Migrate)
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

// open returns a store that is logged in as a runtime, with one agent, and the
// URL of the owner.
func open(t testing.TB) (*Store, string) {
	t.Helper()
	ctx := context.Background()
	owner := migrated(t)
	conn := connect(t, owner)
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, `DO $$ BEGIN CREATE ROLE store_app LOGIN PASSWORD '`+pgtest.Verifier("app")+`' IN ROLE holdpoint_runtime;
		EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
		INSERT INTO agents (id, name) VALUES ('bot', 'Bot')`); err != nil {
		t.Fatal(err)
	}
	s, err := Open(ctx, Config{URL: pgtest.Server(t).URL("store_app", "app", conn.Config().Database), Sealer: newSealer(t), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, owner
}

func event(approvalID string) engine.Event {
	return engine.Event{
		ID: uuid.NewString(), Type: engine.Decided, Outcome: engine.Allow, AgentID: "bot", ToolName: "t", ApprovalID: approvalID,
		Reasons: []engine.Reason{}, SafePayload: []byte(`{}`),
	}
}

func opening(id string, expires time.Duration) *Opening {
	return &Opening{
		ID: id, Call: engine.Call{Dialect: "aana", AgentID: "bot", Tool: "t", Digest: "sha256:" + strings.Repeat("0", 64)},
		MaxState: "none", Requirements: []engine.Requirement{{Kind: engine.Review, Role: "r", Needed: 1}}, ExpiresIn: expires,
		Sealed: seal.Box{Data: []byte("x"), Key: []byte("y")}, ArgumentsSize: 2,
	}
}

func (s *Store) mustOpen(t testing.TB, expires time.Duration) string {
	t.Helper()
	id := NewID("apr")
	if _, err := s.Submit(context.Background(), Submission{Event: event(id), Opening: opening(id, expires)}); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestMigrateAtOnceAndAgain(t *testing.T) {
	url := pgtest.Database(t)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if _, err := Migrate(context.Background(), url); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	names, err := Migrate(context.Background(), url)
	if err != nil || len(names) != 0 {
		t.Errorf("again: %v, %v", names, err)
	}
	list, err := Migrations(context.Background(), url)
	if n := slices.IndexFunc(list, func(m Migration) bool { return m.AppliedAt == nil || m.SQL == "" }); n >= 0 || err != nil || len(list) != SchemaVersion() {
		t.Errorf("%v, %v", list, err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	ctx := context.Background()
	empty := pgtest.Database(t)
	if _, err := Open(ctx, Config{URL: empty, Sealer: newSealer(t), Timeout: time.Minute}); err == nil || !strings.Contains(err.Error(), "holdpoint migrate") {
		t.Errorf("without a schema: %v", err)
	}
	_, owner := open(t)
	if _, err := Open(ctx, Config{URL: owner, Sealer: newSealer(t), Timeout: time.Minute}); err == nil || !strings.Contains(err.Error(), "data_key: it is not the one") {
		t.Errorf("with another data key: %v", err)
	}
	if _, err := Open(ctx, Config{URL: "postgres://u:hunter2@127.0.0.1:1/x", Sealer: newSealer(t)}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestTimesAreUTC(t *testing.T) {
	here := time.Local
	t.Cleanup(func() { time.Local = here })
	time.Local = time.FixedZone("elsewhere", 7200)
	s, _ := open(t)
	if now, err := s.Now(context.Background()); err != nil || now.Location() != time.UTC {
		t.Errorf("the clock reads %s: %v", now, err)
	}
}

func TestGroupCommitKeepsAllAndOnlyTheGood(t *testing.T) {
	s, _ := open(t)
	var group sync.WaitGroup
	const n = 300
	for i := range n {
		group.Go(func() {
			e := event("")
			if i%50 == 7 {
				e.Outcome = "MAYBE" // the schema knows no such outcome
			}
			_, err := s.Submit(context.Background(), Submission{Event: e})
			if (err != nil) != (i%50 == 7) {
				t.Errorf("event %d: %v", i, err)
			}
			if errors.Is(err, ErrUnavailable) {
				t.Errorf("a bad row looks like an outage: %v", err)
			}
		})
	}
	group.Wait()
	events, err := s.Events.List(context.Background(), EventFilter{Limit: 1000})
	if err != nil || len(events) != n-n/50 {
		t.Errorf("%d events, %v", len(events), err)
	}
	for i := 1; i < len(events); i++ {
		if events[i].Seq != 0 || events[i].Timestamp.Before(events[i-1].Timestamp) || events[i].Timestamp.IsZero() {
			t.Fatalf("event %d is out of order, or has a place that nobody gave it", i)
		}
	}
}

// A disk that fails below Postgres is an outage like any other: nothing was granted, and it may be asked again. As long
// as it fails, whoever asks is told that nothing can be written.
func TestDiskErrorsAreOutages(t *testing.T) {
	ctx := context.Background()
	s, owner := open(t)
	for _, code := range []string{"58030", "58P01", "XX001", "53100"} {
		asOwner(t, owner, `CREATE OR REPLACE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '`+code+`'; END$$`,
			`CREATE TRIGGER fails BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION fails()`)
		if _, err := s.Submit(ctx, Submission{Event: event("")}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", code, err)
		}
		s.writes.tried = time.Time{}
		for range 2 {
			if err := s.Writable(ctx); !errors.Is(err, ErrNoWrites) || s.Ping(ctx) != nil {
				t.Errorf("%s: whether it takes writes: %v", code, err)
			}
		}
		asOwner(t, owner, `DROP TRIGGER fails ON events`)
	}
	s.writes.tried = time.Time{}
	if err := s.Writable(ctx); err != nil {
		t.Errorf("once it is over, whether it takes writes: %v", err)
	}
	if n, err := value[int](ctx, s.db, `SELECT count(*) FROM events`); err != nil || n != 0 {
		t.Errorf("trying it left %d events, %v", n, err)
	}
	if _, err := s.Submit(ctx, Submission{Event: event("")}); err != nil {
		t.Errorf("once it is over: %v", err)
	}
}

// Writing a batch a second time, as after a commit whose answer was lost, is
// writing it once. Anybody else's use of an event's id is a mistake.
func TestSubmissionsAreIdempotent(t *testing.T) {
	s, _ := open(t)
	id := NewID("apr")
	sub := Submission{Event: event(id), Opening: opening(id, time.Hour)}
	first, err := s.Submit(context.Background(), sub)
	if err != nil {
		t.Fatal(err)
	}
	q := &queued{sub: sub}
	if err := s.commit(context.Background(), []*queued{q}, true); err != nil || !q.got.OpenedAt.Equal(first.OpenedAt) || !q.got.ExpiresAt.Equal(first.ExpiresAt) {
		t.Errorf("again: %+v, %v; want %+v", q.got, err, first)
	}
	if _, err := s.Submit(context.Background(), Submission{Event: sub.Event}); !errors.Is(err, ErrConflict) {
		t.Errorf("another submission with the id: %v", err)
	}
	events, err := s.Events.List(context.Background(), EventFilter{ApprovalID: id, Limit: 10})
	if err != nil || len(events) != 1 {
		t.Errorf("%d events, %v", len(events), err)
	}
}

func TestOutbox(t *testing.T) {
	ctx := context.Background()
	s, _ := open(t)
	a, b := s.mustOpen(t, time.Hour), s.mustOpen(t, time.Hour)
	told := map[string]int{}
	relay := func(refuse string) int {
		t.Helper()
		n, err := s.Outbox.Relay(ctx, 10, func(_ context.Context, messages []Message) map[string]bool {
			took := map[string]bool{}
			for _, m := range messages {
				id := m.ApprovalID
				if id != refuse {
					told[id]++
					took[id] = true
				}
			}
			return took
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := relay(b); n != 2 || told[a] != 1 {
		t.Fatalf("claimed %d, told %v", n, told)
	}
	if err := s.Outbox.Poke(ctx, []string{a, b, b}); err != nil {
		t.Fatal(err)
	}
	// b has a message there already and gets no other; a does.
	if n, _, err := s.Outbox.Depth(ctx); err != nil || n != 2 {
		t.Errorf("%d messages, %v", n, err)
	}
	if n := relay(""); n != 2 || told[a] != 2 || told[b] != 1 {
		t.Errorf("claimed %d, told %v", n, told)
	}
	if n := relay(""); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// TestOutboxSaysWhatMayWait: after an approval was opened, or its token spent, nothing is to be
// looked at before its next moment; whatever else comes, it is looked at at once.
func TestOutboxSaysWhatMayWait(t *testing.T) {
	ctx := context.Background()
	a := newArchive(t, "0")
	id := a.mustOpen(t, time.Hour)
	change := func(fn func(c *Change) error) {
		t.Helper()
		if err := a.Approvals.Change(ctx, id, nil, fn); err != nil {
			t.Fatal(err)
		}
	}
	// Nobody has said yet when its next moment is.
	if m := a.take(ctx, t, false); !m.MayWait || m.Wait > 0 {
		t.Errorf("opened: %+v", m)
	}
	change(func(c *Change) error { return c.Wake(c.Approval.State.Wake) })
	if m := a.take(ctx, t, true); !m.MayWait || m.Wait < 59*time.Minute || m.Wait > time.Hour {
		t.Errorf("settled for the first time: %+v", m)
	}
	if err := a.Outbox.Poke(ctx, []string{id}); err != nil {
		t.Fatal(err)
	}
	if m := a.take(ctx, t, true); m.MayWait {
		t.Errorf("found without a workflow: %+v", m)
	}

	id = a.ended(approval.Approved)
	if m := a.take(ctx, t, true); m.MayWait {
		t.Errorf("opened, and changed since: %+v", m)
	}
	change(func(c *Change) error { return c.Redeem("key_1", time.Minute) })
	if m := a.take(ctx, t, true); m.ApprovalID != id || !m.MayWait || m.Wait < 50*time.Second || m.Wait > time.Minute {
		t.Errorf("redeemed: %+v", m)
	}
}

// take claims what the outbox holds, of one approval, and has Temporal take it, or not.
func (a *archive) take(ctx context.Context, t *testing.T, taken bool) (m Message) {
	t.Helper()
	if _, err := a.Outbox.Relay(ctx, 100, func(_ context.Context, messages []Message) map[string]bool {
		if len(messages) != 1 {
			t.Fatalf("messages %+v", messages)
		}
		if m = messages[0]; !taken {
			return nil
		}
		return map[string]bool{m.ApprovalID: true}
	}); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDueAndSweep(t *testing.T) {
	ctx := context.Background()
	s, _ := open(t)
	id := s.mustOpen(t, time.Hour)
	due := func(ahead time.Duration, except ...string) []NextLook {
		t.Helper()
		found, err := s.Outbox.Due(ctx, ahead, 10, except)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	unsettled := func(ago time.Duration, except ...string) []string {
		t.Helper()
		found, err := s.Outbox.Unsettled(ctx, ago, 10, except)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	// Nobody has settled it yet; who opened it only now is left to its workflow.
	if found := unsettled(0); !slices.Equal(found, []string{id}) {
		t.Errorf("never settled: %v", found)
	}
	if found := append(unsettled(time.Hour), unsettled(0, id)...); len(found) != 0 {
		t.Errorf("never settled, although it has just been opened, or was left out: %v", found)
	}
	if found := due(2 * time.Hour); len(found) != 0 {
		t.Errorf("due before it was settled: %v", found)
	}
	if err := s.Approvals.Change(ctx, id, nil, func(c *Change) error { return c.Wake(c.Approval.State.Wake) }); err != nil {
		t.Fatal(err)
	}
	if found := unsettled(0); len(found) != 0 {
		t.Errorf("never settled, although it was: %v", found)
	}
	if found := append(due(time.Second), due(2*time.Hour, id)...); len(found) != 0 {
		t.Errorf("due with an hour to go, or although it was left out: %v", found)
	}
	if found := due(2 * time.Hour); len(found) != 1 || found[0].ID != id || found[0].In < 59*time.Minute || found[0].In > time.Hour {
		t.Errorf("due within two hours: %v", found)
	}
	if page, err := s.Outbox.PendingAfter(ctx, "", 10); err != nil || len(page) != 1 || page[0] != id {
		t.Errorf("pending %v, %v", page, err)
	}
	if page, err := s.Outbox.HandedOver(ctx, "", 10); err != nil || len(page) != 0 {
		t.Errorf("handed over while the message is in the outbox: %v, %v", page, err)
	}
	if _, err := s.Outbox.Relay(ctx, 10, func(context.Context, []Message) map[string]bool { return map[string]bool{id: true} }); err != nil {
		t.Fatal(err)
	}
	if page, err := s.Outbox.HandedOver(ctx, "", 10); err != nil || len(page) != 1 || page[0] != id {
		t.Errorf("handed over %v, %v", page, err)
	}
	if page, err := s.Outbox.HandedOver(ctx, id, 10); err != nil || len(page) != 0 {
		t.Errorf("handed over, after the last: %v, %v", page, err)
	}
}

func TestChangesWakeWhoWaits(t *testing.T) {
	s, _ := open(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	id := s.mustOpen(t, time.Hour)
	mine, all, other := s.Approvals.Changes(ctx, id), s.Approvals.Changes(ctx, ""), s.Approvals.Changes(ctx, "apr_other")
	for done := false; !done; {
		// The first wake-ups may be the listener's own beginning.
		err := s.Approvals.Change(ctx, id, nil, func(c *Change) error {
			return c.AddFact(approval.Fact{Kind: approval.Cancel, Actor: engine.Actor{Kind: engine.AgentActor, ID: "bot"}})
		})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-mine:
			done = true
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("nobody was woken")
		}
	}
	select {
	case <-all:
	case <-ctx.Done():
		t.Fatal("the reader of everything was not woken")
	}
	for len(other) > 0 {
		<-other
	}
	if err := s.Approvals.Change(ctx, id, nil, func(c *Change) error {
		return c.AddFact(approval.Fact{Kind: approval.Cancel, Actor: engine.Actor{Kind: engine.AgentActor, ID: "bot"}})
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-mine:
	case <-ctx.Done():
		t.Fatal("nobody was woken")
	}
	if len(other) != 0 {
		t.Error("another approval's reader was woken")
	}
}

// The database itself stops what the programs must never do.
func TestTheSchemaKeepsThePromises(t *testing.T) {
	ctx := context.Background()
	s, owner := open(t)
	id := s.mustOpen(t, time.Hour)
	if err := s.Approvals.Change(ctx, id, nil, func(c *Change) error { return c.Settle(approval.Denied, nil, "", 0, nil) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Approvals.Change(ctx, id, nil, func(c *Change) error {
		return c.Settle(approval.Approved, nil, "tok", time.Hour, nil)
	}); err == nil {
		t.Error("an ended approval ended otherwise")
	}
	settled := func() error {
		e := event(id)
		e.Type = engine.Settled
		_, err := s.Submit(ctx, Submission{Event: e})
		return err
	}
	if err := settled(); err != nil {
		t.Fatal(err)
	}
	if err := settled(); err == nil {
		t.Error("a second terminal event was written")
	}
	waiting := s.mustOpen(t, time.Hour)
	forged := event(waiting)
	forged.Type = engine.Settled
	if _, err := s.Submit(ctx, Submission{Event: forged}); err == nil {
		t.Error("a terminal event was written for what still waits")
	}
	if excess, err := s.ExcessRights(ctx); err != nil || len(excess) != 0 {
		t.Errorf("the runtime may %v, %v", excess, err)
	}
	runtime := s.pool
	for _, sql := range []string{
		`UPDATE events SET outcome = 'ALLOW'`, `DELETE FROM events`, `TRUNCATE events`, `ALTER TABLE events DISABLE TRIGGER ALL`, `DROP TRIGGER events_append_only ON events`,
		`INSERT INTO events (seq, event_id, type, outcome, agent_id, tool_name, body) OVERRIDING SYSTEM VALUE VALUES (1, gen_random_uuid(), 'x', 'ALLOW', 'a', 't', '')`,
		`INSERT INTO events (event_id, appended_at, type, outcome, agent_id, tool_name, body) VALUES (gen_random_uuid(), now(), 'x', 'ALLOW', 'a', 't', '')`,
		`UPDATE facts SET yes = true`, `DELETE FROM facts`, `TRUNCATE facts`,
		`INSERT INTO facts (approval_id, at, kind, actor_kind, actor_id, channel, yes, denial, comment) VALUES ('x', now(), 'vote', 'human', 'x', '', true, '', '')`,
		`UPDATE approvals SET digest = 'x'`, `UPDATE approvals SET opened_at = now()`, `DELETE FROM approvals`, `UPDATE tokens SET redeemed_at = NULL`, `DELETE FROM tokens`,
		`UPDATE people SET roles = '{admin}'`, `INSERT INTO keys (id) VALUES ('key_x')`, `DELETE FROM revoked_signing_keys`,
		`SELECT setval('events_seq_seq', 1)`, `SET session_replication_role = replica`, `CREATE TABLE x ()`, `CREATE FUNCTION append_only() RETURNS trigger LANGUAGE sql AS ''`,
		`UPDATE installation SET key_check = 'x'`,
		`UPDATE approvals SET reasons = '[1]' WHERE status <> 'pending'`,
		`UPDATE approvals SET status = 'approved' WHERE status = 'pending'`,
		`UPDATE approvals SET sealed_key = NULL WHERE status = 'pending'`,
		`INSERT INTO facts (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment) SELECT id, 'vote', 'human', 'x', '', true, '', '' FROM approvals WHERE status <> 'pending'`,
		`MERGE INTO events e USING (SELECT 1) x ON true WHEN MATCHED THEN DELETE`,
	} {
		if _, err := runtime.Exec(ctx, sql); err == nil {
			t.Errorf("the runtime role could %s", sql)
		}
	}
	conn := connect(t, owner)
	for _, sql := range []string{`UPDATE events SET outcome = 'ALLOW'`, `DELETE FROM events`, `TRUNCATE events`, `DELETE FROM facts WHERE true`} {
		if _, err := conn.Exec(ctx, sql); err == nil && !strings.Contains(sql, "facts") {
			t.Errorf("even the owner could %s without taking a trigger away", sql)
		}
	}
}

func TestForgetReplies(t *testing.T) {
	ctx := context.Background()
	s, _ := open(t)
	once := func(key string) *Idempotency[SubmitResult] {
		return &Idempotency[SubmitResult]{Request: Request{Credential: "c", Key: key, Hash: []byte("r")}, Render: func(SubmitResult, error) Reply { return Reply{Status: 200, Body: []byte("kept")} }}
	}
	id := NewID("apr")
	if _, err := s.Submit(ctx, Submission{Event: event(""), Idempotency: once("a")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Submit(ctx, Submission{Event: event(id), Opening: opening(id, time.Hour), Idempotency: once("b")}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.ForgetReplies(ctx, time.Hour); n != 0 || err != nil {
		t.Errorf("forgot %d too early, %v", n, err)
	}
	if n, err := s.ForgetReplies(ctx, 0); n != 1 || err != nil {
		t.Errorf("forgot %d, %v; want the one whose call does not wait", n, err)
	}
	var replay *Replay
	if _, err := s.Submit(ctx, Submission{Event: event(""), Idempotency: once("b")}); !errors.As(err, &replay) || string(replay.Reply.Body) != "kept" {
		t.Errorf("got %v", err)
	}
	other := once("b")
	other.Hash = []byte("other")
	if _, err := s.Submit(ctx, Submission{Event: event(""), Idempotency: other}); !errors.Is(err, ErrOtherRequest) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkSubmit(b *testing.B) {
	s, _ := open(b)
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Submit(context.Background(), Submission{Event: event("")}); err != nil {
				b.Error(fmt.Errorf("submit: %w", err))
				return
			}
		}
	})
}
