package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the database/sql driver that goose runs on
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"holdpoint/migrations"
)

// versionTable lists the migrations that a database has had.
const versionTable = "schema_migrations"

// ErrBeforeBaseline says that a database was made by a program older than the
// baseline of version 0.1.0. Those programs listed their migrations, with numbers
// that mean other ones now, in goose_db_version.
var ErrBeforeBaseline = errors.New("the database was made before version 0.1.0, whose migrations begin anew and cannot change it: use an empty database")

// Migrate brings the schema up to date as the owner role and returns the names
// of the migrations that it ran. Several processes may do so at once: they
// take turns.
func Migrate(ctx context.Context, ownerURL string) ([]string, error) {
	provider, closeDB, err := migrator(ctx, ownerURL)
	if err != nil {
		return nil, err
	}
	defer closeDB()
	results, err := provider.Up(ctx)
	var names []string
	for _, r := range results {
		if r.Error == nil {
			names = append(names, r.Source.Path)
		}
	}
	if err != nil {
		return names, fmt.Errorf("migrate: %w", hideURL(err))
	}
	return names, nil
}

// PendingMigrations reports how many migrations the database lacks.
func PendingMigrations(ctx context.Context, ownerURL string) (int, error) {
	provider, closeDB, err := migrator(ctx, ownerURL)
	if err != nil {
		return 0, err
	}
	defer closeDB()
	status, err := provider.Status(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the migrations' state: %w", hideURL(err))
	}
	pending := 0
	for _, m := range status {
		if m.State == goose.StatePending {
			pending++
		}
	}
	return pending, nil
}

func migrator(ctx context.Context, ownerURL string) (*goose.Provider, func(), error) {
	db, err := sql.Open("pgx", ownerURL)
	if err != nil {
		return nil, nil, fmt.Errorf("read the database URL: %w", hideURL(err))
	}
	closeDB := func() { _ = db.Close() }
	var old bool
	err = db.QueryRowContext(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL AND to_regclass('installation') IS NOT NULL AND to_regclass($1) IS NULL`, versionTable).Scan(&old)
	if err == nil && old {
		err = ErrBeforeBaseline
	}
	if err != nil {
		closeDB()
		return nil, nil, fmt.Errorf("migrate: %w", hideURL(err))
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		closeDB()
		return nil, nil, fmt.Errorf("make the migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithTableName(versionTable), goose.WithSessionLocker(locker))
	if err != nil {
		closeDB()
		return nil, nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, closeDB, nil
}
