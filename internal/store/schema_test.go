package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdpoint/internal/postgres/pgtest"
	"holdpoint/migrations"
)

// TestCheckSchema: a program runs on the schema that it knows, and on newer ones that say
// that it may.
func TestCheckSchema(t *testing.T) {
	ctx := context.Background()
	url := migrated(t)
	s, err := Open(ctx, Config{URL: url, Sealer: newSealer(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conn := connect(t, url)
	runtime := func() *Store {
		t.Helper()
		// As the runtime role, without a password.
		s, err := Open(ctx, Config{URL: url + "&options=-c%20role%3Dholdpoint_runtime", Sealer: s.sealer})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}()
	check := func(what, want string) {
		t.Helper()
		err := runtime.CheckSchema(ctx)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	check("as it was migrated", "")
	exec(`INSERT INTO schema_migrations (version_id, is_applied) VALUES (9999, true)`)
	check("a newer one that only adds", "")
	exec(fmt.Sprintf(`UPDATE schema_compatibility SET oldest = %d`, SchemaVersion()+1))
	check("a newer one that has taken something away", "version 9999, and this program knows it up to version")
	exec(`ALTER TABLE schema_compatibility RENAME TO gone`)
	check("a newer one that does not say", "version 9999, and this program knows it up to version")
	exec(`ALTER TABLE gone RENAME TO schema_compatibility`)
	if _, err := runtime.pool.Exec(ctx, `UPDATE schema_compatibility SET oldest = 1`); err == nil {
		t.Error("the runtime role says which programs the schema fits")
	}
	list, err := Migrations(ctx, url)
	if last := list[len(list)-1]; err != nil || last.Version != 9999 || last.SQL != "" || last.AppliedAt == nil {
		t.Errorf("%+v %v", last, err)
	}
	exec(`DELETE FROM schema_migrations WHERE version_id > 12`)
	check("an older one", "version 12, and this program needs version")
	exec(`REVOKE SELECT ON schema_migrations FROM holdpoint_runtime`)
	check("one that older programs have migrated", "run holdpoint migrate")
}

// TestPlanSaysWhatIsMissing, and what is locked of what was there before.
func TestPlanSaysWhatIsMissing(t *testing.T) {
	ctx := context.Background()
	url := pgtest.Database(t)
	list, err := Migrations(ctx, url)
	if err != nil || len(list) != SchemaVersion() || slices.ContainsFunc(list, func(m Migration) bool { return m.AppliedAt != nil }) {
		t.Fatalf("of an empty database: %v %v", list, err)
	}
	var tables int
	if err := connect(t, url).QueryRow(ctx, `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables); err != nil || tables != 0 {
		t.Errorf("looking has made %d tables, %v", tables, err)
	}
	migrate(t, url, migrations.FS, baseline)
	if list, err = Migrations(ctx, url); err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if (m.AppliedAt != nil) != (m.Version <= baseline) {
			t.Errorf("%d: %v", m.Version, m.AppliedAt)
		}
		switch m.Version {
		case 10:
			if got := m.Locks(); !slices.Contains(got, "approvals: nobody writes to it while the index is built") {
				t.Errorf("%s: %v", m.Name, got)
			}
		case 16:
			if got := m.Locks(); !slices.Contains(got, "approvals: nobody reads or writes it until the migration is done") || strings.Contains(m.SQL, "+goose") || strings.Contains(m.SQL, "DROP COLUMN due_at") {
				t.Errorf("%s: %v\n%s", m.Name, got, m.SQL)
			}
		case 20:
			if got := m.Locks(); slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, "snoozes") }) {
				t.Errorf("%s locks what it makes: %v", m.Name, got)
			}
		}
	}
}
