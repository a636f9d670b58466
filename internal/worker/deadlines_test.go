package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// settling settles what is due in the real store, but for one approval that fails every time.
type settling struct {
	gate.Settler
	fails string
	asked chan string
}

func (s *settling) SettleDue(ctx context.Context, ids []string) (found map[string]gate.Settlement, err error) {
	for _, id := range ids {
		s.asked <- id
		if id == s.fails {
			err = errors.New("it cannot be read")
		}
	}
	others := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == s.fails })
	found, failed := s.Settler.SettleDue(ctx, others)
	if err != nil {
		found[s.fails] = gate.Settlement{}
	}
	return found, cmp.Or(failed, err)
}

// openWaiting opens an approval that a person with the role r decides.
func openWaiting(ctx context.Context, t testing.TB, db *storetest.Database, s *store.Store, expires time.Duration) string {
	t.Helper()
	id := store.NewID("apr")
	e := storetest.Event()
	e.Type, e.AgentID, e.ToolName, e.ApprovalID, e.Outcome = engine.Decided, "bot", "t", id, engine.RequireApproval
	sealed, err := db.Sealer.Seal(id, []byte("{}"))
	if err == nil {
		_, err = s.Submit(ctx, store.Submission{Event: e, Opening: &store.Opening{
			ID: id, Call: engine.Call{Dialect: "aana", AgentID: "bot", Tool: "t", Digest: "sha256:" + strings.Repeat("0", 64)},
			MaxState: "none", Requirements: []engine.Requirement{{Kind: engine.Review, Role: "r", Needed: 1}}, ExpiresIn: expires,
			Sealed: sealed, ArgumentsSize: 2,
		}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Whatever is due is settled by what the database says, once for each moment; one that
// cannot be keeps nobody waiting, and comes again later. Without Temporal nothing is.
func TestDeadlines(t *testing.T) {
	db := storetest.New(t)
	s := db.Runtime()
	db.Agent("bot", "Bot", db.Person(engine.Person{Name: "owner", Roles: []string{"r"}}))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	open := func(expires time.Duration) string { return openWaiting(ctx, t, db, s, expires) }
	status := func(id string) approval.Status {
		r, err := s.Approvals.Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return r.Approval.Status
	}
	settler := &settling{asked: make(chan string, 1000), Settler: gate.Settler{Store: s, Sealer: db.Sealer, Validity: time.Hour, Logger: slog.New(slog.DiscardHandler)}}
	away := errors.New("Temporal is away")
	ready := away
	d := &Deadlines{Store: s, Settler: settler, Logger: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return ready }, later: map[string]time.Time{}}
	var soon []string
	for range 5 {
		soon = append(soon, open(30*time.Minute))
	}
	far := open(2 * time.Hour)
	settler.fails = soon[2]
	// As their workflows do: from then on each waits for its own deadline.
	for _, id := range append(slices.Clone(soon), far) {
		if _, err := settler.Settle(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	// By the database's clock an hour passes: nothing is due before, on any machine.
	db.Ahead(time.Hour)
	s = db.Runtime()
	settler.Store, d.Store = s, s
	if _, err := d.once(ctx); !errors.Is(err, away) || len(settler.asked) != 0 {
		t.Fatalf("without Temporal: %v, and %d were settled", err, len(settler.asked))
	}
	ready = nil
	if _, err := d.once(ctx); err == nil {
		t.Error("that one could not be settled is not said")
	}
	for i, id := range soon {
		want := approval.Expired
		if i == 2 {
			want = approval.Pending
		}
		if got := status(id); got != want {
			t.Errorf("%d is %s, want %s", i, got, want)
		}
	}
	if got := status(far); got != approval.Pending {
		t.Errorf("the one with an hour to go is %s", got)
	}
	// The one that failed is left alone for a while, and then settled.
	if len(d.later) != 1 || d.later[soon[2]].IsZero() {
		t.Errorf("left alone are %v, want %s", d.later, soon[2])
	}
	d.later[soon[2]] = time.Now().Add(time.Hour)
	if wait, err := d.once(ctx); err != nil || wait <= 0 || len(settler.asked) != len(soon) {
		t.Errorf("at once again: wait %s, %v, %d questions", wait, err, len(settler.asked))
	}
	settler.fails = ""
	running, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	changes := s.Approvals.Changes(running, soon[2])
	go func() { defer close(done); d.Run(running) }()
	for status(soon[2]) != approval.Expired {
		select {
		case <-changes:
		case <-ctx.Done():
			t.Fatal("what had failed is never settled")
		}
	}
	stop()
	<-done
	if got := status(far); got != approval.Pending {
		t.Errorf("the one with an hour to go is %s", got)
	}
}

// What is due at the same moment shares a transaction. One that cannot be settled takes none of
// the others with it, and one that somebody has in hand keeps none waiting.
func TestDueTogether(t *testing.T) {
	db := storetest.New(t)
	s := db.Runtime()
	db.Agent("bot", "Bot", db.Person(engine.Person{Name: "owner", Roles: []string{"r"}}))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	settler := &gate.Settler{Store: s, Sealer: db.Sealer, Validity: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	var all []string
	for range 12 {
		id := openWaiting(ctx, t, db, s, 30*time.Minute)
		if _, err := settler.Settle(ctx, id); err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	early, held, fails, others := openWaiting(ctx, t, db, s, 2*time.Hour), all[0], all[1], all[2:]
	if _, err := settler.Settle(ctx, early); err != nil {
		t.Fatal(err)
	}
	db.Ahead(time.Hour)
	s = db.Runtime()
	settler.Store = s
	conn := db.Connect(db.URL)
	transactions := func() (n int) {
		if err := conn.QueryRow(ctx, `SELECT count(DISTINCT xact) FROM events WHERE type = 'settled'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := s.Approvals.Change(ctx, held, nil, func(*store.Change) error {
		found, err := settler.SettleDue(ctx, append([]string{held, early}, others[:5]...))
		if err != nil || len(found) != 5 || !found[others[0]].Over {
			t.Errorf("beside one that somebody has in hand: %v, %v", found, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := transactions(); n != 1 {
		t.Errorf("five have taken %d transactions", n)
	}
	db.Exec(`CREATE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$`)
	db.Exec(`CREATE TRIGGER refuses BEFORE UPDATE ON approvals FOR EACH ROW WHEN (OLD.id = '` + fails + `') EXECUTE FUNCTION refuses()`)
	found, err := settler.SettleDue(ctx, append([]string{held, early, fails}, others[5:]...))
	if one, here := found[fails]; err == nil || len(found) != 7 || !here || one.Over {
		t.Errorf("with one that cannot be settled: %v, %v", found, err)
	}
	rows, err := conn.Query(ctx, `SELECT a.id, a.status, (SELECT count(*) FROM events e WHERE e.approval_id = a.id AND e.type = 'settled') FROM approvals a`)
	if err != nil {
		t.Fatal(err)
	}
	var id string
	var status approval.Status
	var events int
	if _, err := pgx.ForEachRow(rows, []any{&id, &status, &events}, func() error {
		if waits := id == early || id == fails; waits != (status == approval.Pending) || waits != (events == 0) || events > 1 {
			t.Errorf("%s is %s, with %d events", id, status, events)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// What people have decided is settled soon: at once where the approval's workflow has not
// begun, and else after a while that is the workflow's. Who settles is told of it, and what
// somebody has in hand, or has settled, is left to them.
func TestDecided(t *testing.T) {
	db := storetest.New(t)
	s := db.Runtime()
	db.Agent("bot", "Bot", db.Person(engine.Person{Name: "owner", Roles: []string{"r"}}))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	conn := db.Connect(db.URL)
	settler := &settling{asked: make(chan string, 10), Settler: gate.Settler{Store: s, Sealer: db.Sealer, Validity: time.Hour, Logger: slog.New(slog.DiscardHandler)}}
	d := &Deadlines{Store: s, Settler: settler, Logger: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil }, later: map[string]time.Time{}}
	begun, decided, waiting := openWaiting(ctx, t, db, s, time.Hour), openWaiting(ctx, t, db, s, time.Hour), openWaiting(ctx, t, db, s, time.Hour)
	if _, err := settler.Settle(ctx, begun); err != nil {
		t.Fatal(err)
	}
	if _, err := d.once(ctx); err != nil || len(settler.asked) != 0 {
		t.Fatalf("what was opened just now: %v, %d were settled", err, len(settler.asked))
	}
	if _, err := conn.Exec(ctx, "LISTEN holdpoint_decided"); err != nil {
		t.Fatal(err)
	}
	person := db.Person(engine.Person{Name: "ada", Roles: []string{"r"}})
	ada := engine.Actor{Kind: engine.HumanActor, ID: person.ID}
	for id, want := range map[string]time.Duration{decided: 0, begun: store.SettledWithin} {
		err := s.Approvals.Change(ctx, id, nil, func(c *store.Change) error {
			err := c.AddFact(approval.Fact{Kind: approval.Vote, Denial: approval.WrongArgs, Actor: ada, Voter: approval.Voter{Identity: person.Identity, Roles: person.Roles, Active: true}})
			if err != nil {
				return err
			}
			e := gate.ApprovalEvent(db.Sealer, engine.Voted, engine.RequireApproval, c.Approval, ada, "")
			err = e.SetPayload(c.Approval.Facts[0].Payload())
			c.AddEvent(e)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.WaitForNotification(ctx); err != nil {
			t.Fatalf("nobody is told: %v", err)
		}
		var after time.Duration
		if err := conn.QueryRow(ctx, `SELECT a.wake_at - f.at FROM approvals a JOIN facts f ON f.approval_id = a.id WHERE a.id = $1`, id).Scan(&after); err != nil || after != want {
			t.Errorf("it is due %s after the vote, want %s (%v)", after, want, err)
		}
	}
	if err := s.Approvals.Change(ctx, decided, nil, func(*store.Change) error {
		found, err := settler.SettleDue(ctx, []string{decided})
		if len(found) > 0 || err != nil {
			t.Errorf("while somebody has it in hand: %v, %v", found, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	db.Ahead(store.SettledWithin)
	s = db.Runtime()
	settler.Store, d.Store = s, s
	if _, err := d.once(ctx); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]approval.Status{decided: approval.Denied, begun: approval.Denied, waiting: approval.Pending} {
		if r, err := s.Approvals.Get(ctx, id); err != nil || r.Approval.Status != want {
			t.Errorf("it is %s, want %s (%v)", r.Approval.Status, want, err)
		}
	}
	found, err := settler.SettleDue(ctx, []string{decided, waiting})
	if _, again := found[waiting]; err != nil || len(found) != 1 || !again {
		t.Errorf("settled once more: %v, %v", found, err)
	}
}
