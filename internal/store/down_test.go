package store_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/pressly/goose/v3"

	"holdpoint/internal/postgres/pgtest"
	"holdpoint/migrations"
)

// Every migration can be taken back and made again.
func TestMigrationsGoDownAndUp(t *testing.T) {
	db, err := sql.Open("pgx", pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS)
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
	}
}
