// Package storetest gives tests a migrated database of their own, in the roles in which Holdpoint uses one: the program's,
// which may do what the migrations grant and no more, and the owner's, in which the commands add people and agents. It never
// skips a test, and nothing of it is left after the test.
package storetest

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Database is of one test.
type Database struct {
	URL        string // of a superuser
	RuntimeURL string // of a member of the runtime role
	PeopleURL  string // of a member of the runtime role and of the one that writes accounts
	Sealer     *seal.Sealer
	// Connections is how many a store opened from now on may take; 0 means 24.
	Connections int
	// Observer is of every store opened from now on; it may be nil.
	Observer store.Observer
	owner    *store.Store
	t        testing.TB

	using sync.Mutex
	kept  *pgx.Conn // of a superuser, for Exec; nil until then
}

// roles are made once: they are the cluster's, not the database's.
var roles sync.Once

// New makes a database with a data key of its own. The package's TestMain calls pgtest.Main.
func New(t testing.TB) *Database {
	t.Helper()
	d := &Database{URL: pgtest.Migrated(t, store.Migrate), t: t}
	key, err := seal.ParseKey(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	if d.Sealer, err = seal.New(key); err != nil {
		t.Fatal(err)
	}
	roles.Do(func() {
		for name, in := range map[string]string{"test_app": "holdpoint_runtime", "test_people": "holdpoint_runtime, holdpoint_people"} {
			d.Exec(fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE %s", name, pgtest.Verifier(name), in))
		}
	})
	cfg, err := pgx.ParseConfig(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	d.RuntimeURL = pgtest.Server(t).URL("test_app", "test_app", cfg.Database)
	d.PeopleURL = pgtest.Server(t).URL("test_people", "test_people", cfg.Database)
	return d
}

// Runtime opens the store as a program does.
func (d *Database) Runtime() *store.Store { d.t.Helper(); return d.open(d.RuntimeURL, "") }

// Open opens it as whoever a URL logs in.
func (d *Database) Open(url string) *store.Store { d.t.Helper(); return d.open(url, "") }

// Administering opens it as a program does that may change accounts as well.
func (d *Database) Administering() *store.Store {
	d.t.Helper()
	return d.open(d.RuntimeURL, d.PeopleURL)
}

// Owner is the store as the commands have it.
func (d *Database) Owner() *store.Store {
	d.t.Helper()
	if d.owner == nil {
		d.owner = d.open(d.URL, "")
	}
	return d.owner
}

func (d *Database) open(url, people string) *store.Store {
	d.t.Helper()
	s, err := store.Open(context.Background(), store.Config{URL: url, PeopleURL: people, Sealer: d.Sealer, MaxConns: cmp.Or(d.Connections, 24), Timeout: time.Minute, Observer: d.Observer})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(s.Close)
	return s
}

// Ahead sets the database's clock ahead of the programs', for every connection from now
// on. Times of the schema's own tests and of Postgres itself stay as they are.
func (d *Database) Ahead(by time.Duration) {
	d.t.Helper()
	d.Exec(fmt.Sprintf(`DO $$ DECLARE one record; BEGIN
		CREATE SCHEMA ahead;
		GRANT USAGE ON SCHEMA ahead TO PUBLIC;
		CREATE FUNCTION ahead.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
			'SELECT pg_catalog.clock_timestamp() + make_interval(secs => %f)';
		EXECUTE format('ALTER DATABASE %%I SET search_path = ahead, pg_catalog, public', current_database());
		FOR one IN SELECT oid::regprocedure AS name, proconfig FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proconfig IS NOT NULL LOOP
			EXECUTE format('ALTER FUNCTION %%s SET search_path = ahead, pg_catalog, public, pg_temp', one.name);
		END LOOP;
		FOR one IN SELECT d.adrelid::regclass AS tab, a.attname AS col FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
			WHERE pg_get_expr(d.adbin, d.adrelid) = 'clock_timestamp()' LOOP
			EXECUTE format('ALTER TABLE %%s ALTER COLUMN %%I SET DEFAULT ahead.clock_timestamp()', one.tab, one.col);
		END LOOP;
	END $$`, by.Seconds()))
	d.using.Lock()
	defer d.using.Unlock()
	_ = d.kept.Close(context.Background()) // it has the former clock
}

// Connect connects to one of the database's URLs.
func (d *Database) Connect(url string) *pgx.Conn {
	d.t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Exec runs SQL as a superuser. Nothing of its session is left for the next one.
func (d *Database) Exec(sql string, args ...any) {
	d.t.Helper()
	ctx := context.Background()
	var conn *pgx.Conn
	if d.using.TryLock() {
		defer d.using.Unlock()
		if d.kept == nil || d.kept.IsClosed() {
			d.kept = d.uncached()
		}
		conn = d.kept
	} else { // the kept one is waiting for something
		conn = d.uncached()
	}
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		d.t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, `DISCARD ALL`); err != nil {
		d.t.Fatal(err)
	}
}

// uncached is a superuser's connection that reads and plans each statement anew, however the schema was changed meanwhile.
func (d *Database) uncached() *pgx.Conn {
	d.t.Helper()
	return d.Connect(d.URL + "&default_query_exec_mode=describe_exec")
}

// Person adds somebody. Without an ID and identity they are new, without an address it is name@example.com.
func (d *Database) Person(p engine.Person) engine.Person {
	d.t.Helper()
	p.ID = cmp.Or(p.ID, store.NewID("usr"))
	p.Identity, p.Email = cmp.Or(p.Identity, p.ID), cmp.Or(p.Email, p.Name+"@example.com")
	if err := d.Owner().People.Create(context.Background(), p, "x", Event()); err != nil {
		d.t.Fatal(err)
	}
	return p
}

// Disable keeps somebody out, as the commands do; e is the event that tells of it.
func (d *Database) Disable(person string, e engine.Event) {
	d.t.Helper()
	_, err := d.Owner().People.Change(context.Background(), person, "", "admin", nil, func(store.LockedAccount) (store.AccountEdit, engine.Event, error) {
		return store.AccountEdit{Disable: true, SignOut: true}, e, nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// Agent adds an agent, of basic trust.
func (d *Database) Agent(id, name string, owner engine.Person) {
	d.t.Helper()
	a := registry.Agent{ID: id, Name: name, Owner: owner.Email, Trust: engine.Basic}
	if err := d.Owner().Registry.RegisterAgent(context.Background(), a, nil, Event()); err != nil {
		d.t.Fatal(err)
	}
}

// Event is one of an administrator's change.
func Event() engine.Event {
	return engine.Event{ID: uuid.NewString(), Type: engine.Admin, Outcome: engine.Allow, SafePayload: []byte(`{}`)}
}
