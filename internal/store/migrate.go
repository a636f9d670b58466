package store

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the database/sql driver that goose runs on
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"holdpoint/migrations"
)

// Migrate brings the schema up to date as the owner role and returns the names
// of the migrations that it ran. Several processes may do so at once: they
// take turns.
func Migrate(ctx context.Context, ownerURL string) ([]string, error) {
	provider, closeDB, err := migrator(ownerURL)
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
	provider, closeDB, err := migrator(ownerURL)
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

func migrator(ownerURL string) (*goose.Provider, func(), error) {
	db, err := sql.Open("pgx", ownerURL)
	if err != nil {
		return nil, nil, fmt.Errorf("read the database URL: %w", hideURL(err))
	}
	closeDB := func() { _ = db.Close() }
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		closeDB()
		return nil, nil, fmt.Errorf("make the migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		closeDB()
		return nil, nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, closeDB, nil
}
