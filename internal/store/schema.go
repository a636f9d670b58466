package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"holdpoint/migrations"
)

// Migration is a step of the schema.
type Migration struct {
	Version int
	Name    string // of its file
	// AppliedAt is nil while the database lacks it.
	AppliedAt *time.Time
	// SQL is what it runs, with its comments; "" for one that this program does not know.
	SQL string
}

// embedded are the migrations of this program, in order.
func embedded() ([]Migration, error) {
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return nil, err
	}
	list := make([]Migration, len(names))
	for i, name := range names {
		version, err := versionOf(name)
		if err != nil {
			return nil, err
		}
		body, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			return nil, err
		}
		up, _, _ := strings.Cut(string(body), "-- +goose Down")
		list[i] = Migration{Version: version, Name: name, SQL: strings.TrimSpace(forGoose.ReplaceAllString(up, ""))}
	}
	slices.SortFunc(list, func(a, b Migration) int { return a.Version - b.Version })
	return list, nil
}

// SchemaVersion is the number of the last migration that this program knows: it works on
// a schema of that version, and on newer ones that say so.
func SchemaVersion() int {
	names, _ := fs.Glob(migrations.FS, "*.sql") // the pattern is a good one
	last := 0
	for _, name := range names {
		if version, err := versionOf(name); err == nil {
			last = max(last, version)
		}
	}
	return last
}

func versionOf(name string) (int, error) {
	number, _, _ := strings.Cut(name, "_")
	version, err := strconv.Atoi(number)
	if err != nil {
		return 0, fmt.Errorf("migration %s has no number", name)
	}
	return version, nil
}

// Migrations lists all migrations that this program or the database knows, in order. It
// changes nothing.
func Migrations(ctx context.Context, ownerURL string) ([]Migration, error) {
	list, err := embedded()
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	db, err := openOwner(ctx, ownerURL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	applied, err := appliedTo(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("read which migrations the database has had: %w", hideURL(err))
	}
	for version, at := range applied {
		i, known := slices.BinarySearchFunc(list, version, func(m Migration, v int) int { return m.Version - v })
		if !known {
			list = slices.Insert(list, i, Migration{Version: version, Name: "of a newer program"})
		}
		list[i].AppliedAt = &at
	}
	return list, nil
}

// appliedTo are the migrations that a database has had.
func appliedTo(ctx context.Context, db *sql.DB) (map[int]time.Time, error) {
	var there bool
	if err := db.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, versionTable).Scan(&there); err != nil || !there {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, `SELECT version_id, tstamp FROM `+versionTable+` WHERE is_applied AND version_id > 0`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	applied := map[int]time.Time{}
	for rows.Next() {
		var version int
		var at time.Time
		if err := rows.Scan(&version, &at); err != nil {
			return nil, err
		}
		applied[version] = at
	}
	return applied, rows.Err()
}

var (
	forGoose = regexp.MustCompile(`(?m)^-- \+goose .*\n`)

	created = regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`)
	altered = regexp.MustCompile(`(?m)^ALTER TABLE (?:ONLY )?(\w+)`)
	indexed = regexp.MustCompile(`(?m)^CREATE (?:UNIQUE )?INDEX \w+ ON (\w+)`)
	dropped = regexp.MustCompile(`(?m)^DROP INDEX (\w+)`)
	trigger = regexp.MustCompile(`(?m)^CREATE (?:CONSTRAINT )?TRIGGER .* ON (\w+)`)
	written = regexp.MustCompile(`(?m)^(?:UPDATE|DELETE FROM|INSERT INTO) (\w+)`)
)

// Locks says which tables that were there before the migration locks while it runs, and
// against what.
func (m Migration) Locks() (lines []string) {
	fresh := map[string]bool{}
	for _, found := range created.FindAllStringSubmatch(m.SQL, -1) {
		fresh[found[1]] = true
	}
	for _, of := range []struct {
		statement *regexp.Regexp
		says      string
	}{
		{altered, "%s: nobody reads or writes it until the migration is done"},
		{dropped, "the table of index %s: nobody reads or writes it until the migration is done"},
		{trigger, "%s: nobody writes to it until the migration is done"},
		{indexed, "%s: nobody writes to it while the index is built"},
		{written, "%s: rows of it are written"},
	} {
		for _, found := range of.statement.FindAllStringSubmatch(m.SQL, -1) {
			if line := fmt.Sprintf(of.says, found[1]); !fresh[found[1]] && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// CheckSchema refuses a schema that this program cannot work on, in one line that says
// what to do. That is an older one, and a newer one from which something was taken away
// that programs of this version use.
func (s *Store) CheckSchema(ctx context.Context) error {
	var has int
	err := s.within(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable+` WHERE is_applied`).Scan(&has)
	})
	var refused *pgconn.PgError
	want := SchemaVersion()
	switch {
	case errors.As(err, &refused) && refused.Code == "42501":
		// Whoever migrates lets the programs read it, and nobody else.
		if login, err := s.Events.DatabaseUser(ctx); err == nil && login != "" {
			return fmt.Errorf("the database's login %q may export the log, and no more: this takes one of another role (docs/database.md)", login)
		}
		return fmt.Errorf("the database's schema is older than this program, which needs version %d: run holdpoint migrate", want)
	case errors.As(err, &refused) && refused.Code == "42P01":
		return errors.New("the database has no Holdpoint schema yet: run holdpoint migrate")
	case err != nil:
		return fmt.Errorf("read the schema's version: %w", translate(err))
	case has < want:
		return fmt.Errorf("the database's schema has version %d, and this program needs version %d: run holdpoint migrate", has, want)
	case has > want:
		var oldest int
		err := s.within(ctx, func(ctx context.Context) error {
			return s.pool.QueryRow(ctx, `SELECT oldest FROM schema_compatibility`).Scan(&oldest)
		})
		if err == nil && oldest <= want {
			s.log.WarnContext(ctx, "the database's schema is newer than this program, and still fits it: replace it by the newer program", "schema", has, "program", want)
			return nil
		}
		if err != nil && !errors.As(err, &refused) {
			return fmt.Errorf("read which programs the schema fits: %w", translate(err))
		}
		return fmt.Errorf("the database's schema has version %d, and this program knows it up to version %d only: run the newer program", has, want)
	}
	return nil
}
