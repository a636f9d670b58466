package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
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
	provider, db, err := migrator(ctx, ownerURL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	results, err := provider.Up(ctx)
	var names []string
	for _, r := range results {
		if r.Error == nil {
			names = append(names, r.Source.Path)
		}
	}
	if err == nil {
		err = checkVisible(ctx, db)
	}
	if err != nil {
		return names, notMigrated(err)
	}
	return names, nil
}

// grantLock is held while checkVisible looks and grants.
const grantLock = 4703514210561396090

// checkVisible lets the programs read which migrations there were. Two at once would both
// change the same row of Postgres' catalogue.
func checkVisible(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, statement := range []string{
		fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, grantLock),
		`DO $$ BEGIN
			IF NOT has_table_privilege('holdpoint_runtime', '` + versionTable + `', 'SELECT') THEN
				GRANT SELECT ON ` + versionTable + ` TO holdpoint_runtime;
			END IF;
		END $$`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func migrator(ctx context.Context, ownerURL string) (*goose.Provider, *sql.DB, error) {
	db, err := openOwner(ctx, ownerURL)
	if err != nil {
		return nil, nil, err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("make the migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithTableName(versionTable), goose.WithSessionLocker(locker))
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, db, nil
}

// openOwner opens a database that is not older than the baseline.
func openOwner(ctx context.Context, ownerURL string) (*sql.DB, error) {
	db, err := sql.Open("pgx", ownerURL)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", hideURL(err))
	}
	var old bool
	err = db.QueryRowContext(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL AND to_regclass('installation') IS NOT NULL AND to_regclass($1) IS NULL`, versionTable).Scan(&old)
	if err == nil && old {
		err = ErrBeforeBaseline
	}
	if err != nil {
		_ = db.Close()
		return nil, notMigrated(err)
	}
	return db, nil
}

// notMigrated says that a database was not migrated; where it was not reached, which setting says
// where it is.
func notMigrated(err error) error {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return fmt.Errorf("database_admin_url: %w", hideURL(err))
	}
	return fmt.Errorf("migrate: %w", hideURL(err))
}
