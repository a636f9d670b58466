package store

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/pressly/goose/v3"

	"holdpoint/internal/postgres/pgtest"
	"holdpoint/migrations"
)

// Every migration can be taken back, leaves nothing, and can be made again.
func TestMigrationsGoDownAndUp(t *testing.T) {
	db, err := sql.Open("pgx", pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithTableName(versionTable))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := p.Up(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, err := p.DownTo(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		var left string
		if err := db.QueryRow(`SELECT coalesce(string_agg(name, ', '), '') FROM (
			SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname NOT LIKE $1 || '%'
			UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace) objects`, versionTable).Scan(&left); err != nil || left != "" {
			t.Errorf("left behind: %s %v", left, err)
		}
	}
}

// A database that was made before the baseline has other migrations under the same
// numbers: nothing is done to it.
func TestMigrateBeforeBaseline(t *testing.T) {
	ctx := context.Background()
	url := pgtest.Database(t)
	conn := connect(t, url)
	if _, err := conn.Exec(ctx, `CREATE TABLE goose_db_version (version_id bigint); INSERT INTO goose_db_version VALUES (0), (1), (2); CREATE TABLE installation ()`); err != nil {
		t.Fatal(err)
	}
	if names, err := Migrate(ctx, url); !errors.Is(err, ErrBeforeBaseline) || len(names) != 0 {
		t.Errorf("got %v, %v", names, err)
	}
	if _, err := Migrations(ctx, url); !errors.Is(err, ErrBeforeBaseline) {
		t.Errorf("got %v", err)
	}
	var tables int
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables); err != nil || tables != 2 {
		t.Errorf("there are %d tables, want 2: %v", tables, err)
	}
	// Another program's goose_db_version in the same schema says nothing of ours.
	if _, err := conn.Exec(ctx, `DROP TABLE installation`); err != nil {
		t.Fatal(err)
	}
	if _, err := Migrate(ctx, url); err != nil {
		t.Error(err)
	}
}
