//go:build !nodev

package devserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	v12 "go.temporal.io/server/schema/postgresql/v12"
	"go.temporal.io/server/tools/common/schema"
	"go.temporal.io/server/tools/sql"
)

// The name and version of the schema that comes with the server.
const (
	mainSchema  = "postgresql/v12/temporal"
	mainVersion = v12.Version
)

// SQLSTATE codes.
const (
	noSuchDatabase      = "3D000"
	duplicateDatabase   = "42P04"
	insufficientRights  = "42501"
	noSuchFile          = "58P01"
	featureNotSupported = "0A000"
)

// store is the server's database.
type store struct {
	database        string
	schema, version string
	conns           int
}

// prepare makes the database and its schema where they are missing and updates a schema that is older than the server.
func (s store) prepare(ctx context.Context, postgres *pgx.ConnConfig, log *logger) error {
	conn, err := s.open(ctx, postgres)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	version, err := s.current(ctx, conn)
	if err != nil || version == s.version {
		return err
	}
	tool, err := sql.NewConnection(s.sql(postgres), log)
	if err != nil {
		return fmt.Errorf("connect to database %s: %w", s.database, err)
	}
	defer tool.Close()
	if version == "" {
		err = schema.NewSetupSchemaTask(tool, &schema.SetupConfig{SchemaName: s.schema, InitialVersion: s.version}, log).Run()
	} else {
		err = schema.NewUpdateSchemaTask(tool, &schema.UpdateConfig{DBName: s.database, SchemaName: s.schema}, log).Run()
	}
	switch code(err) {
	case noSuchFile, featureNotSupported:
		return fmt.Errorf("set up database %s: this Postgres lacks the extensions that belong to it, install its contrib package "+
			"(dnf install postgresql-contrib, apk add postgresql-contrib): %w", s.database, err)
	}
	if err != nil {
		return fmt.Errorf("set up database %s: %w", s.database, err)
	}
	return nil
}

// open connects to the database, which it creates when there is none.
func (s store) open(ctx context.Context, postgres *pgx.ConnConfig) (*pgx.Conn, error) {
	cfg := postgres.Copy()
	cfg.Database = s.database
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if code(err) == noSuchDatabase {
		if err := s.create(ctx, postgres); err != nil {
			return nil, err
		}
		conn, err = pgx.ConnectConfig(ctx, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to database %s: %w", s.database, err)
	}
	return conn, nil
}

func (s store) create(ctx context.Context, postgres *pgx.ConnConfig) error {
	cfg := postgres.Copy()
	cfg.Database = "postgres"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("create database %s: %w", s.database, err)
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{s.database}.Sanitize())
	switch code(err) {
	case duplicateDatabase:
		return nil
	case insufficientRights:
		return fmt.Errorf("database %s does not exist and role %s may not create it: %w", s.database, cfg.User, err)
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", s.database, err)
	}
	return nil
}

// current is the version of the schema in the database, empty when there is none. The server's tools write the version last and
// cannot resume, so tables without one are what an interrupted setup left: nothing was ever kept in them, and they go.
func (s store) current(ctx context.Context, conn *pgx.Conn) (string, error) {
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('schema_version') IS NOT NULL").Scan(&exists); err != nil {
		return "", fmt.Errorf("look up schema of database %s: %w", s.database, err)
	}
	if !exists {
		return "", nil
	}
	var version string
	err := conn.QueryRow(ctx, "SELECT curr_version FROM schema_version WHERE db_name = $1", s.database).Scan(&version)
	if err == nil {
		return version, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("look up schema version of database %s: %w", s.database, err)
	}
	var foreign int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM schema_version").Scan(&foreign); err != nil {
		return "", fmt.Errorf("look up schema version of database %s: %w", s.database, err)
	}
	if foreign > 0 {
		return "", fmt.Errorf("database %s holds the state of another server", s.database)
	}
	if _, err := conn.Exec(ctx, "DROP SCHEMA public CASCADE; CREATE SCHEMA public"); err != nil {
		return "", fmt.Errorf("clear interrupted setup of database %s: %w", s.database, err)
	}
	return "", nil
}

// code is the SQLSTATE of an error, empty when it has none.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
