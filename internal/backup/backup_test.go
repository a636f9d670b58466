package backup

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/internal/access"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/auditlog/floor"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
	"holdpoint/internal/store/logtest"
	"holdpoint/internal/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// site is an installation, of which a copy is made.
type site struct {
	*storetest.Database
	t      testing.TB
	app    *store.Store
	keys   []audit.Key
	public []note.Verifier
	floor  floor.File
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{Database: storetest.New(t), t: t, floor: floor.File{Path: filepath.Join(t.TempDir(), "floor")}}
	s.app = s.Runtime()
	s.keys, s.public = newLogKey(t)
	return s
}

func newLogKey(t testing.TB) ([]audit.Key, []note.Verifier) {
	t.Helper()
	private, public, err := audit.NewKey(rand.Reader, "log.example.com/copies")
	must(t, err)
	keys, err := audit.ParseKeys(private)
	must(t, err)
	verifiers, err := audit.ParseVerifiers(public)
	must(t, err)
	return keys, verifiers
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened is an approval that waits, and settled one that has ended.
func (s *site) opened() string {
	s.t.Helper()
	id := store.NewID("apr")
	e := engine.Event{ID: uuid.NewString(), Type: engine.Decided, Outcome: engine.RequireApproval, AgentID: "bot", ToolName: "pay", ApprovalID: id, Reasons: []engine.Reason{}, SafePayload: []byte(`{}`)}
	_, err := s.app.Submit(s.t.Context(), store.Submission{Event: e, Opening: &store.Opening{
		ID: id, Call: engine.Call{Dialect: "aana", AgentID: "bot", Tool: "pay", Digest: "sha256:" + strings.Repeat("0", 64)}, MaxState: "none",
		Requirements: []engine.Requirement{{Kind: engine.Review, Role: "r", Needed: 1}}, ExpiresIn: time.Hour, Sealed: seal.Box{Data: []byte("private"), Key: []byte("k")}, ArgumentsSize: 2,
	}})
	must(s.t, err)
	return id
}

func (s *site) settled(status approval.Status, by engine.Person) string {
	s.t.Helper()
	id, jti := s.opened(), ""
	if status == approval.Approved {
		jti = store.NewID("tok")
	}
	must(s.t, s.app.Approvals.Change(s.t.Context(), id, nil, func(c *store.Change) error {
		vote := approval.Fact{Kind: approval.Vote, Actor: engine.Actor{Kind: engine.HumanActor, ID: by.ID}, Yes: status == approval.Approved}
		if status == approval.Denied {
			vote.Denial = approval.Never
		}
		if err := c.AddFact(vote); err != nil {
			return err
		}
		return c.Settle(status, []engine.Reason{}, jti, time.Hour, nil)
	}))
	return id
}

// sequence gives every event its place, in the database at url, and keeps the floor.
func (s *site) sequence(on *store.Store, floors ...auditlog.Floor) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	q := &auditlog.Sequencer{Store: on, Keys: s.keys, Floors: floors, Logger: slog.New(slog.NewTextHandler(s.t.Output(), nil)), Every: 20 * time.Millisecond}
	var running sync.WaitGroup
	running.Go(func() { q.Run(ctx) })
	defer running.Wait()
	defer cancel()
	until := time.Now().Add(time.Minute)
	for {
		all, err := on.Log.CatchUp(ctx, 10*time.Second)
		must(s.t, err)
		head, err := on.Log.Head(ctx)
		must(s.t, err)
		kept := head.Size
		if len(floors) > 0 {
			kept, err = auditlog.FloorSize(ctx, floors[0])
			must(s.t, err)
		}
		if all && kept == head.Size {
			return
		}
		if time.Now().After(until) {
			s.t.Fatal("the log does not catch up")
		}
	}
}

func (s *site) copied() (string, Manifest) {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), "copy")
	m, err := Make(s.t.Context(), Options{Store: s.Owner(), URL: s.URL, Dir: dir, Program: "test"})
	must(s.t, err)
	return dir, m
}

// into is a restore of a copy into a database.
func (s *site) into(url, dir string) RestoreOptions {
	return RestoreOptions{
		Dir: dir, URL: url, Keys: s.public, Floor: s.floor, By: func(context.Context, *store.Store) (access.Initiator, error) {
			return access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "tester", Channel: "cli"}}, nil
		},
		Open: func(ctx context.Context) (*store.Store, error) {
			return store.Open(ctx, store.Config{URL: url, Sealer: s.Sealer, Timeout: time.Minute})
		},
	}
}

func value[T any](t testing.TB, url, sql string, args ...any) (v T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	must(t, conn.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// rights are all that anybody but the owner may do in a database, and which triggers
// and constraints there are.
const rights = `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
	SELECT format('%s %s %s', c.relname, r.rolname, a.privilege_type) AS line FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
		WHERE c.relnamespace = 'public'::regnamespace
	UNION ALL SELECT format('%s.%s %s %s', c.relname, t.attname, r.rolname, a.privilege_type) FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid
		CROSS JOIN LATERAL aclexplode(t.attacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE c.relnamespace = 'public'::regnamespace
	UNION ALL SELECT format('%s() %s %s', p.proname, r.rolname, a.privilege_type) FROM pg_proc p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
		LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE p.pronamespace = 'public'::regnamespace
	UNION ALL SELECT format('schema %s %s', r.rolname, a.privilege_type) FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE n.nspname = 'public'
	UNION ALL SELECT format('trigger %s %s', tgrelid::regclass, tgname) FROM pg_trigger WHERE NOT tgisinternal
	UNION ALL SELECT format('constraint %s %s', conrelid::regclass, conname) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
	UNION ALL SELECT format('index %s', indexdef) FROM pg_indexes WHERE schemaname = 'public'
	UNION ALL SELECT format('temporary %s', has_database_privilege('public', current_database(), 'TEMPORARY'))) lines`

// TestRestore: what comes back is what was there, with everybody's rights, and nothing
// of it can be spent that may have been spent since.
func TestRestore(t *testing.T) {
	s := newSite(t)
	ada := s.Person(engine.Person{Name: "ada", Roles: []string{"admin"}})
	ben := s.Person(engine.Person{Name: "ben", Roles: []string{}})
	s.Agent("bot", "Bot", ada)
	checked := sha256.Sum256([]byte("x"))
	ada.PasswordChecked = checked[:]
	must(t, s.app.Sessions.Create(t.Context(), []byte(strings.Repeat("s", 32)), ada, time.Hour))
	s.Exec(`UPDATE retention_floor SET shortest = '0'`)
	waits, spendable, private, open := s.opened(), s.settled(approval.Approved, ada), s.settled(approval.Denied, ada), s.opened()
	s.Exec(`INSERT INTO standing_grants (id, person_id, agent_id, tool, environment, sealed, reason, max_uses, expires_at)
		VALUES ('gra_1', $1, 'bot', 'pay', '', 'x', 'busy', 3, now() + interval '1 hour')`, ada.ID)
	s.sequence(s.app, s.floor)
	dir, m := s.copied()
	if m.Waiting != 2 || m.Unspent != 1 || m.Log == nil || m.Log.Size < 4 || m.Unplaced != 0 || !slices.Equal(m.Keys.Data, []string{}) || len(m.Keys.Log) != 1 {
		t.Errorf("the manifest %+v", m)
	}
	for name, mode := range map[string]os.FileMode{".": 0o700, manifestFile: 0o600, dumpFile: 0o600, checkpointFile: 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	s.opened()
	s.sequence(s.app, s.floor)
	size, err := auditlog.FloorSize(t.Context(), s.floor)
	must(t, err)

	target := pgtest.Database(t)
	restoring := s.into(target, dir)
	restoring.LoseTail, restoring.Erased = strconv.FormatInt(size, 10), []string{private, open, ben.ID, "apr_" + strings.Repeat("z", 26)}
	done, err := Restore(t.Context(), restoring)
	must(t, err)
	if done.Lost == nil || *done.Lost != (LostRange{m.Log.Size + 1, size}) || done.Verified != m.Log.Size || !slices.Equal(done.Tokens, []string{spendable}) || done.Grants != 1 || done.Sessions != 1 || done.Waiting != 2 {
		t.Errorf("it did %+v", done)
	}
	if !slices.Equal(done.Erased, []string{private, ben.ID}) || len(done.NotErased) != 1 || done.NotErased[open] != "pending" {
		t.Errorf("erased again %q, kept %q", done.Erased, done.NotErased)
	}
	if got := value[bool](t, target, `SELECT sealed = '' AND erased_at IS NOT NULL FROM approvals WHERE id = $1`, private); !got {
		t.Error("what was erased is back")
	}
	if got := value[bool](t, target, `SELECT stale_at IS NOT NULL FROM tokens WHERE approval_id = $1`, spendable); !got {
		t.Error("a permission can be spent that may have been spent")
	}
	if got := value[int](t, target, `SELECT count(*) FROM outbox WHERE approval_id = ANY ($1)`, []string{waits, open}); got != 2 {
		t.Errorf("%d of those that wait are handed to Temporal", got)
	}
	// Of the owner, the same rights by another name.
	if want, got := value[string](t, s.URL, rights), value[string](t, target, rights); got != want {
		t.Errorf("the rights are others:\n%s\nwant\n%s", got, want)
	}
	s.goesOn(target, size)
}

// goesOn checks that programs take a database for their own, and that its log goes on.
func (s *site) goesOn(target string, size int64) {
	s.t.Helper()
	runtime := strings.Replace(s.RuntimeURL, "/"+name(s.t, s.URL), "/"+name(s.t, target), 1)
	app := s.Open(runtime)
	must(s.t, app.CheckSchema(s.t.Context()))
	if excess, err := app.ExcessRights(s.t.Context()); err != nil || len(excess) > 0 {
		s.t.Errorf("the runtime role may %q, %v", excess, err)
	}
	s.sequence(app)
	logtest.Check(s.t, target, s.keys[0].Public)
	type lost struct {
		Lost  LostRange `json:"lost"`
		Floor string    `json:"floor"`
	}
	var told struct {
		Payload lost `json:"safe_payload"`
	}
	must(s.t, json.Unmarshal(value[[]byte](s.t, target, `SELECT body FROM events WHERE event_code(body) = 'RESTORED_FROM_BACKUP'`), &told))
	note, err := s.floor.Load(s.t.Context())
	must(s.t, err)
	if told.Payload.Lost.To != size || told.Payload.Floor != string(note) {
		s.t.Errorf("the log says %+v of what was lost", told)
	}
	if got := value[int](s.t, target, `SELECT count(*) FROM kill_switches WHERE agent_id = ''`); got != 1 {
		s.t.Error("agents are not stopped")
	}
	if err := auditlog.CheckFloor(s.t.Context(), app, s.floor); !errors.Is(err, auditlog.ErrBehind) {
		s.t.Errorf("the former floor: %v", err)
	}
}

func name(t testing.TB, url string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	must(t, err)
	return cfg.Database
}

// TestRestoreIsRefused: for whatever reason, the database stays empty.
func TestRestoreIsRefused(t *testing.T) {
	s := newSite(t)
	s.Agent("bot", "Bot", s.Person(engine.Person{Name: "ada", Roles: []string{}}))
	s.opened()
	s.sequence(s.app, s.floor)
	dir, m := s.copied()
	at := m.Log.Size
	s.opened()
	s.sequence(s.app, s.floor)
	ahead, err := auditlog.FloorSize(t.Context(), s.floor)
	must(t, err)
	_, others := newLogKey(t)
	target := pgtest.Database(t)
	damaged := func(file, from, to string) string {
		copied := filepath.Join(t.TempDir(), "damaged")
		must(t, os.CopyFS(copied, os.DirFS(dir)))
		data, err := os.ReadFile(filepath.Join(copied, file))
		must(t, err)
		changed := strings.Replace(string(data), from, to, 1)
		if changed == string(data) {
			t.Fatalf("%s has no %q", file, from)
		}
		must(t, os.WriteFile(filepath.Join(copied, file), []byte(changed), 0o600))
		return copied
	}
	for _, of := range []struct {
		what, want string
		edit       func(*RestoreOptions)
	}{
		{"one that is not empty", `"` + name(t, s.URL) + `" is not empty`, func(r *RestoreOptions) { r.URL = s.URL }},
		{"a damaged dump", "database.dump is not the file that the manifest names", func(r *RestoreOptions) { r.Dir = damaged(dumpFile, "PGDMP", "PGDMQ") }},
		{"a checkpoint that was changed", "checkpoint is not the file that the manifest names", func(r *RestoreOptions) { r.Dir = damaged(checkpointFile, "log.example.com", "lag.example.com") }},
		{"another size in the manifest", "is not the checkpoint that the manifest describes", func(r *RestoreOptions) { r.Dir = damaged(manifestFile, `"origin": "log`, `"origin": "lag`) }},
		{"another schema", "restore it by the program that made it (test)", func(r *RestoreOptions) {
			r.Dir = damaged(manifestFile, `"schema": `+strconv.Itoa(m.Schema), `"schema": 7`)
		}},
		{"another format", "has the format 9", func(r *RestoreOptions) { r.Dir = damaged(manifestFile, `"format": 1`, `"format": 9`) }},
		{"another file", "names other files", func(r *RestoreOptions) {
			r.Dir = damaged(manifestFile, `"name": "checkpoint"`, `"name": "../checkpoint"`)
		}},
		{"no backup", "is no backup", func(r *RestoreOptions) { r.Dir = t.TempDir() }},
		{"another log's key", "the log has not signed it", func(r *RestoreOptions) { r.Keys = others }},
		{"a floor ahead", LostRange{at + 1, ahead}.String() + " if you restore it", func(r *RestoreOptions) { r.LoseTail = "" }},
		{"a floor ahead, and another number", "--lose-tail " + strconv.FormatInt(ahead, 10), func(r *RestoreOptions) { r.LoseTail = strconv.FormatInt(at, 10) }},
		{"a floor ahead that is said to be unknown", "lost if you restore it", func(r *RestoreOptions) { r.LoseTail = Unknown }},
		{"no floor", "--lose-tail unknown", func(r *RestoreOptions) { r.Floor, r.LoseTail = nil, "" }},
		{"a newer Postgres", "restore it into 99 or newer", func(r *RestoreOptions) {
			r.Dir = damaged(manifestFile, `"postgres": `+strconv.Itoa(m.Postgres), `"postgres": 99`)
		}},
		{"a newer pg_dump", "pg_restore is of Postgres", func(r *RestoreOptions) {
			r.Dir = damaged(manifestFile, `"pg_dump": `+strconv.Itoa(m.Dump), `"pg_dump": 99`)
		}},
	} {
		r := s.into(target, dir)
		r.LoseTail = strconv.FormatInt(ahead, 10)
		of.edit(&r)
		if _, err := Restore(t.Context(), r); err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%s: %v, want %q", of.what, err, of.want)
		}
		if n := value[int](t, target, `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace`); n != 0 {
			t.Fatalf("%s: the database has %d relations now", of.what, n)
		}
	}

	// Cut off when everything is in it but for what makes it safe.
	r := s.into(target, dir)
	r.LoseTail, r.Open = strconv.FormatInt(ahead, 10), func(context.Context) (*store.Store, error) { return nil, errors.New("cut off") }
	if _, err := Restore(t.Context(), r); err == nil || !strings.Contains(err.Error(), "no program takes it for its own") {
		t.Errorf("cut off: %v", err)
	}
	if got := value[bool](t, target, `SELECT bool_or(has_table_privilege(r, c.oid, 'SELECT, INSERT, UPDATE, DELETE') OR has_any_column_privilege(r, c.oid, 'SELECT, UPDATE'))
		FROM pg_class c, unnest('{holdpoint_runtime,holdpoint_reader,holdpoint_people}'::text[]) r WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'`); got {
		t.Error("a program that has looked before reads or writes a database that was restored halfway")
	}
	taken := func(url string) bool {
		app, err := store.Open(t.Context(), store.Config{URL: url, Sealer: s.Sealer, Timeout: time.Minute})
		if err != nil {
			return false
		}
		defer app.Close()
		return app.CheckSchema(t.Context()) == nil
	}
	runtime := strings.Replace(s.RuntimeURL, "/"+name(t, s.URL), "/"+name(t, target), 1)
	if taken(runtime) || taken(target) {
		t.Error("a program takes a database for its own that was restored halfway")
	}
	if names, err := store.Migrate(t.Context(), target); err == nil {
		t.Errorf("migrate makes one of it, by %q", names)
	}
	if taken(runtime) || taken(target) {
		t.Error("a program takes it for its own after migrate has refused it")
	}
}

// TestRestoredToItsFloor: nothing is lost, and nothing has to be said.
func TestRestoredToItsFloor(t *testing.T) {
	s := newSite(t)
	s.Agent("bot", "Bot", s.Person(engine.Person{Name: "ada", Roles: []string{}}))
	s.opened()
	s.sequence(s.app, s.floor)
	dir, _ := s.copied()
	target := pgtest.Database(t)
	r := s.into(target, dir)
	r.LoseTail = "3"
	if _, err := Restore(t.Context(), r); err == nil || !strings.Contains(err.Error(), "nothing is known to be lost") {
		t.Errorf("got %v", err)
	}
	r.LoseTail = ""
	done, err := Restore(t.Context(), r)
	must(t, err)
	if done.Lost != nil || done.Floor == nil || done.Floor.Size != done.Verified {
		t.Errorf("it did %+v", done)
	}
	app := s.Open(strings.Replace(s.RuntimeURL, "/"+name(t, s.URL), "/"+name(t, target), 1))
	s.sequence(app, s.floor) // it continues what the floor has
	must(t, auditlog.CheckFloor(t.Context(), app, s.floor))
}

// TestBackupReplacesNothing, and leaves nothing of one that was cut off.
func TestBackupReplacesNothing(t *testing.T) {
	s := newSite(t)
	dir, m := s.copied()
	if m.Log != nil {
		t.Errorf("an empty log has the checkpoint %+v", m.Log)
	}
	making := Options{Store: s.Owner(), URL: s.URL, Dir: dir}
	if _, err := Make(t.Context(), making); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("got %v", err)
	}
	making.Dir += "-2"
	ctx, cancel := context.WithCancel(t.Context())
	making.URL = strings.Replace(s.URL, "sslmode=disable", "sslmode=disable&pool_max_conns=7&sslmode=verify-full", 1)
	making.URL = strings.Replace(making.URL, "sslmode=disable&", "", 1)
	if _, err := Make(ctx, making); err == nil || strings.Contains(err.Error(), "pool_max_conns") {
		t.Errorf("without TLS, where it has to be: %v", err)
	}
	cancel()
	making.URL = s.URL
	if _, err := Make(ctx, making); err == nil {
		t.Error("it is made although nobody waits for it")
	}
	left, err := filepath.Glob(dir + "*")
	if err != nil || len(left) != 1 {
		t.Errorf("left are %q, %v", left, err)
	}
}

// TestLostRangeOfOneEvent: one event is told as one.
func TestLostRangeOfOneEvent(t *testing.T) {
	for l, want := range map[LostRange]string{{16, 16}: "event 16 is lost", {16, 17}: "events 16 to 17 are lost"} {
		if got := l.String(); got != want {
			t.Errorf("%d to %d is told as %q, want %q", l.From, l.To, got, want)
		}
	}
}
