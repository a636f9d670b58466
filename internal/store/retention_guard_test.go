package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdpoint/engine/approval"
)

// refusedAs is the code by which Postgres refuses statements, "" when it does not;
// nothing of them stays.
func refusedAs(t testing.TB, conn *pgx.Conn, statements ...string) string {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, statement := range statements {
		if _, err = tx.Exec(t.Context(), statement); err != nil {
			break
		}
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}

// TestOnlyAnErasureErases: the runtime role can do none of it but by the two
// functions, and even the owner only with it on record, and nothing more.
func TestOnlyAnErasureErases(t *testing.T) {
	a := newArchive(t, "0")
	id, pending, other := a.ended(approval.Denied), a.mustOpen(t, time.Hour), a.ended(approval.Denied)
	a.hold(CoversPerson, "usr_eve")
	runtime, err := pgx.Connect(t.Context(), a.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = runtime.Close(context.Background()) }()
	for _, statement := range []string{
		`UPDATE facts SET comment = '[erased]'`, `UPDATE facts SET details = '{}'`, `DELETE FROM facts`, `UPDATE reconciliations SET comment = '[erased]'`, `DELETE FROM card_views`,
		`UPDATE card_views SET digest = ''`, `UPDATE notifications SET body = '{}'`, `UPDATE idempotency SET body = ''`, `UPDATE people SET name = 'x'`,
		`UPDATE approvals SET erased_at = now()`, `UPDATE approvals SET session = ''`, `UPDATE approvals SET preconditions = '{}'`, `UPDATE standing_grants SET sealed_key = NULL`, `UPDATE delegations SET reason = ''`,
		`INSERT INTO erasures (covers, subject, rule, reason, erased_by, parts, event_id) VALUES ('approval', 'x', 'request', 'x', 'x', '{}', gen_random_uuid())`,
		`UPDATE erasures SET reason = ''`, `DELETE FROM erasures`, `TRUNCATE erasures`,
		`UPDATE legal_holds SET reason = ''`, `UPDATE legal_holds SET released_at = now()`, `UPDATE legal_holds SET subject = ''`, `DELETE FROM legal_holds`, `TRUNCATE legal_holds`,
		`INSERT INTO legal_holds (id, covers, subject, reason, placed_by, placed_event, released_at) VALUES ('hold_1', 'everything', '', 'x', 'x', gen_random_uuid(), now())`,
		`UPDATE retention_floor SET shortest = '0'`, `DELETE FROM retention_floor`, `INSERT INTO retention_floor DEFAULT VALUES`, `TRUNCATE retention_floor`,
		`ALTER TABLE approvals DISABLE TRIGGER ALL`, `CREATE OR REPLACE FUNCTION held(approval text) RETURNS boolean LANGUAGE sql AS 'SELECT false'`,
	} {
		if code := refusedAs(t, runtime, statement); code != "42501" {
			t.Errorf("%s: got %q", statement, code)
		}
	}
	for _, statement := range []string{
		`UPDATE approvals SET sealed_key = NULL WHERE status <> 'pending'`, `UPDATE approvals SET sealed = '' WHERE status <> 'pending'`, `UPDATE approvals SET answers_key = NULL WHERE status <> 'pending'`,
		`UPDATE approvals SET digest = '` + zeroDigest + `' WHERE status <> 'pending'`, `UPDATE approvals SET sealed_key = 'z' WHERE id = '` + pending + `'`,
	} {
		if code := refusedAs(t, runtime, statement); code != "23514" {
			t.Errorf("%s: got %q", statement, code)
		}
	}
	call := `SELECT erase_approval('` + id + `', 'x', 'x', '` + uuid.NewString() + `')`
	for _, isolation := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		if code := refusedAs(t, runtime, `SET TRANSACTION ISOLATION LEVEL `+isolation, call); code != "0A000" {
			t.Errorf("%s would not see a hold: %q", isolation, code)
		}
	}
	if code := refusedAs(t, runtime, call, `SET CONSTRAINTS ALL IMMEDIATE`); code != "23514" {
		t.Errorf("without an event: %q", code)
	}
	// Nor with that of another one, or of something else.
	told := func(kind, of string) string {
		return `SELECT append_events(ARRAY['EVENT'::uuid], ARRAY['` + kind + `'], ARRAY['ALLOW'], ARRAY[''], ARRAY[''], ARRAY['` + of + `'], ARRAY['{}'::bytea])`
	}
	for _, by := range []struct{ kind, of, want string }{{"erasure", id, ""}, {"erasure", other, "23514"}, {"erasure", "", "23514"}, {"decision", id, "23514"}} {
		event := uuid.NewString()
		call := `SELECT erase_approval('` + id + `', 'x', 'x', '` + event + `')`
		if code := refusedAs(t, runtime, call, strings.Replace(told(by.kind, by.of), "EVENT", event, 1), `SET CONSTRAINTS ALL IMMEDIATE`); code != by.want {
			t.Errorf("with an event %v: %q", by, code)
		}
	}
	// A hold without an event is none, either.
	if code := refusedAs(t, runtime, `INSERT INTO legal_holds (id, covers, subject, reason, placed_by, placed_event) VALUES ('hold_1', 'everything', '', 'x', 'x', gen_random_uuid())`, `SET CONSTRAINTS ALL IMMEDIATE`); code != "23514" {
		t.Errorf("a hold without an event: %q", code)
	}
	// The owner, by mistake.
	for statement, want := range map[string]string{
		`UPDATE facts SET comment = '[erased]' WHERE comment <> ''`: "42501", `UPDATE facts SET details = details - 'salt'`: "42501", `DELETE FROM facts`: "42501",
		`UPDATE approvals SET erased_at = now() WHERE id = '` + id + `'`: "23514", `DELETE FROM erasures`: "", `UPDATE erasures SET reason = 'x'`: "", `DELETE FROM legal_holds`: "42501", `UPDATE legal_holds SET covers = 'everything', subject = ''`: "23514",
	} {
		if code := refusedAs(t, a.owner, statement); code != want {
			t.Errorf("the owner, %s: got %q, want %q", statement, code, want)
		}
	}
	// With the erasure on record, exactly the blanks, and of nothing else.
	begun := `INSERT INTO erasures (covers, subject, rule, reason, erased_by, parts, event_id) VALUES ('approval', '` + id + `', 'request', 'x', 'x', '{}', gen_random_uuid())`
	blank := `UPDATE approvals SET sealed = '', sealed_key = NULL, sealed_size = 0, answers = NULL, answers_key = NULL, digest = '` + zeroDigest + `', session = '', preconditions = '{}', erased_at = now()`
	where := ` WHERE id = '` + id + `'`
	if code := refusedAs(t, a.owner, begun, blank+where, `UPDATE facts SET comment = erased_words(comment), details = details - 'salt' - 'digest' - 'constraints' #- '{ticket,title}' WHERE approval_id = '`+id+`'`); code != "" {
		t.Errorf("an erasure: %q", code)
	}
	for _, more := range []string{
		`tool = 'x'`, `requested_by = '{}'`, `decision = '{}'`, `requirements = '[]'`, `excluded = '{x}'`, `ended_at = now()`, `reasons = '[{}]'`, `final = '{}'`, `execution = 'redeemed'`, `status = 'approved'`,
		`edition = 2`, `version = 9`, `terms = '{"a":1}'`, `max_state = 'x'`, `wake_at = now()`, `successor = id`,
	} {
		if code := refusedAs(t, a.owner, begun, blank+`, `+more+where); code != "23514" {
			t.Errorf("an erasure that also sets %s: %q", more, code)
		}
	}
	for _, statement := range []string{
		`UPDATE approvals SET sealed_key = NULL` + where, strings.Replace(blank, `sealed = '', `, ``, 1) + where, strings.Replace(blank, `answers_key = NULL, `, ``, 1) + where, blank + ` WHERE id = '` + other + `'`,
		blank + ` WHERE id = '` + pending + `'`,
	} {
		if code := refusedAs(t, a.owner, begun, statement); code != "23514" {
			t.Errorf("half an erasure, or another one's: %s: %q", statement, code)
		}
	}
	for _, set := range []string{
		`comment = ''`, `comment = 'I approve'`, `yes = NOT yes`, `at = now()`, `actor_id = 'usr_ben', comment = erased_words(comment)`, `kind = 'vote', yes = true`, `edition = 2`, `details = '{"alone": true}'`, `denial = 'not_now'`, `via = '{usr_eve}'`, `channel = 'x'`,
	} {
		if code := refusedAs(t, a.owner, begun, `UPDATE facts SET `+set+` WHERE approval_id = '`+id+`' AND kind = 'vote'`); code != "42501" {
			t.Errorf("an erasure that sets a fact's %s: %q", set, code)
		}
	}
	if code := refusedAs(t, a.owner, begun, `UPDATE facts SET comment = erased_words(comment) WHERE approval_id = '`+other+`'`); code != "42501" {
		t.Errorf("the facts of another one: %q", code)
	}
	if excess, err := a.ExcessRights(t.Context()); err != nil || len(excess) != 0 {
		t.Errorf("the runtime role has %v, %v", excess, err)
	}
}

// TestHoldAndErasureAtOnce: whichever of a hold and an erasure comes first is seen by
// the other; no erasure commits after a hold that it did not see.
func TestHoldAndErasureAtOnce(t *testing.T) {
	a := newArchive(t, "0")
	placing := func() (*pgx.Conn, pgx.Tx) {
		conn, err := pgx.Connect(t.Context(), a.url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return conn, tx
	}
	place := func(tx pgx.Tx) error {
		id := uuid.NewString()
		_, err := tx.Exec(t.Context(), `SELECT append_events(ARRAY['`+id+`'::uuid], ARRAY['hold'], ARRAY['ALLOW'], ARRAY[''], ARRAY[''], ARRAY[''], ARRAY['{}'::bytea])`)
		if err == nil {
			_, err = tx.Exec(t.Context(), `INSERT INTO legal_holds (id, covers, subject, reason, placed_by, placed_event) VALUES ($1, 'everything', '', 'x', 'x', $2)`, NewID("hold"), id)
		}
		return err
	}
	waits := func(done <-chan error) {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for a.text(`SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == "0" {
			select {
			case err := <-done:
				t.Fatalf("it did not wait: %v", err)
			case <-deadline:
				t.Fatal("nobody waits")
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	for name, erase := range map[string]func(id string) error{
		"on request": func(id string) error { return a.erase(Erasure{Subject: id}) },
		"by age": func(id string) error {
			erased, _, _, err := a.Retention.EraseDue(t.Context(), time.Nanosecond, ErasureCursor{}, 100, byAge, tell)
			if err == nil && len(erased) == 0 {
				err = &NotErasable{Why: "held"}
			}
			return err
		},
	} {
		// The hold is first, and has not committed when the erasure begins.
		id := a.ended(approval.Denied)
		_, tx := placing()
		if err := place(tx); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- erase(id) }()
		waits(done)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		var kept *NotErasable
		if err := <-done; !errors.As(err, &kept) || kept.Why != "held" {
			t.Errorf("%s: a hold was not seen: %v", name, err)
		}
		if got := must(a.Approvals.Get(t.Context(), id))(t); !got.Approval.ErasedAt.IsZero() {
			t.Errorf("%s: erased under a hold", name)
		}
		for _, h := range must(a.Retention.Holds(t.Context()))(t) {
			if h.ReleasedAt == nil {
				a.release(h.ID)
			}
		}
	}
	// The erasure is first: the hold is not placed before it has committed.
	id := a.ended(approval.Denied)
	eraser, erasing := placing()
	defer func() { _ = eraser.Close(context.Background()) }()
	e := uuid.NewString()
	if _, err := erasing.Exec(t.Context(), `SELECT append_events(ARRAY['`+e+`'::uuid], ARRAY['erasure'], ARRAY['ALLOW'], ARRAY[''], ARRAY[''], ARRAY['`+id+`'], ARRAY['{}'::bytea])`); err != nil {
		t.Fatal(err)
	}
	if _, err := erasing.Exec(t.Context(), `SELECT erase_approval($1, 'x', 'x', $2)`, id, e); err != nil {
		t.Fatal(err)
	}
	_, tx := placing()
	placed := make(chan error, 1)
	go func() { placed <- place(tx) }()
	waits(placed)
	if err := erasing.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-placed; err != nil {
		t.Fatal(err)
	}
	var erasedBefore bool
	if err := tx.QueryRow(t.Context(), `SELECT erased_at IS NOT NULL FROM approvals WHERE id = $1`, id).Scan(&erasedBefore); err != nil || !erasedBefore {
		t.Errorf("who placed the hold does not see what was erased before: %v, %v", erasedBefore, err)
	}
}

func byAge(id string) Erasure {
	return Erasure{Covers: CoversApproval, Subject: id, ByAge: true, Older: time.Nanosecond, Reason: "retention", By: "retention", EventID: uuid.NewString()}
}

// TestEraseDueAtOnce: several workers erase everything that nothing keeps, once.
func TestEraseDueAtOnce(t *testing.T) {
	a := newArchive(t, "0")
	var ids []string
	for range 30 {
		ids = append(ids, a.ended(approval.Denied))
	}
	a.hold(CoversApproval, ids[3])
	pending := a.mustOpen(t, time.Hour)
	var mu sync.Mutex
	var erased []string
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			var place ErasureCursor
			for done := false; !done; {
				some, next, end, err := a.Retention.EraseDue(context.Background(), time.Nanosecond, place, 4, byAge, tell)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, e := range some {
					erased = append(erased, e.Subject)
				}
				mu.Unlock()
				place, done = next, end
			}
		})
	}
	workers.Wait()
	want := slices.Delete(slices.Clone(ids), 3, 4)
	slices.Sort(want)
	slices.Sort(erased)
	if !slices.Equal(erased, want) {
		t.Errorf("erased %d of %d", len(erased), len(want))
	}
	if got := a.text(`SELECT count(*) || ',' || count(*) FILTER (WHERE rule = 'age') FROM erasures`); got != "29,29" {
		t.Errorf("on record: %s", got)
	}
	if got := must(a.Approvals.Get(t.Context(), pending))(t); got.Sealed.Key == nil {
		t.Error("what waits was erased")
	}
	// What is younger stays.
	if some, _, done, err := a.Retention.EraseDue(t.Context(), time.Hour, ErasureCursor{}, 100, byAge, tell); err != nil || len(some) != 0 || !done {
		t.Errorf("younger: %v, %v, %v", some, done, err)
	}
	// The list pages through all of them, and tells what is still there.
	seen := map[string]bool{}
	for cursor := ""; ; {
		page, next, err := a.Retention.Erasures(t.Context(), cursor, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			seen[e.Subject] = true
			if !e.ByAge || e.Older != time.Microsecond && e.Older != 0 || e.Tool != "t" || e.AgentID != "bot" {
				t.Errorf("got %+v", e)
			}
		}
		if cursor = next; next == "" {
			break
		}
	}
	due := must(a.Retention.NextDue(t.Context(), 10))(t)
	if len(seen) != 29 || len(due) != 1 || due[0].ID != ids[3] || due[0].Why != "held" {
		t.Errorf("%d erasures are listed, due: %+v", len(seen), due)
	}
	if _, _, err := a.Retention.Erasures(t.Context(), "bm9uc2Vuc2U", 10); !errors.Is(err, ErrNotFound) {
		t.Errorf("a bad cursor: %v", err)
	}
}

func TestMinimum(t *testing.T) {
	s, owner := open(t)
	f := must(s.Retention.Minimum(t.Context()))(t)
	if f.Shortest != 72*time.Hour || f.Allows(72*time.Hour) != nil || f.Allows(71*time.Hour) == nil {
		t.Errorf("got %+v", f)
	}
	if err := s.Retention.SetMinimum(t.Context(), 0, "runtime", false, "", event("")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("the runtime sets the floor: %v", err)
	}
	admin, err := Open(t.Context(), Config{URL: owner, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.Retention.SetMinimum(t.Context(), 5*time.Hour, "me", true, "", event("")); !errors.Is(err, ErrNotFound) {
		t.Errorf("a guarded floor is lowered without an approval: %v", err)
	}
	for _, set := range []struct {
		to      time.Duration
		guarded bool
	}{{80 * time.Hour, true}, {5 * time.Hour, false}} {
		if err := admin.Retention.SetMinimum(t.Context(), set.to, "me", set.guarded, "", event("")); err != nil {
			t.Fatal(err)
		}
	}
	if f := must(s.Retention.Minimum(t.Context()))(t); f.Shortest != 5*time.Hour || f.ChangedBy != "me" {
		t.Errorf("got %+v", f)
	}
}
