package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// VersionTable is the table by which programs know that a database is theirs: what is
// restored has no use before it has rows.
const VersionTable = versionTable

// PrepareRestore makes an empty database ready for the contents of another: the roles
// that rights are granted to, and what migrations change of the database itself. A
// database that has anything in it is refused. It returns the server's major version.
func PrepareRestore(ctx context.Context, ownerURL string) (server int, err error) {
	db, err := openOwner(ctx, ownerURL)
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	var name, found string
	var things int
	err = db.QueryRowContext(ctx, `SELECT current_database(), current_setting('server_version_num')::int / 10000, count(*), coalesce(min(t.name), '') FROM (
			SELECT c.relname::text AS name FROM pg_class c WHERE c.relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname IN ('pg_catalog', 'pg_toast', 'information_schema'))
			UNION ALL SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
				AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')) t`).Scan(&name, &server, &things, &found)
	if err != nil {
		return 0, fmt.Errorf("look at the database: %w", hideURL(err))
	}
	if things > 0 {
		return 0, fmt.Errorf("the database %q is not empty: it has %d tables, indexes and functions, such as %q. "+
			"Nothing was changed: restore into an empty database, which you make beside it (CREATE DATABASE … OWNER …)", name, things, found)
	}
	for _, role := range []string{"holdpoint_runtime", "holdpoint_reader", "holdpoint_people"} {
		// As the migrations that made them; another restore may do so at the same moment.
		_, err := db.ExecContext(ctx, `DO $$ BEGIN
			IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '`+role+`') THEN
				CREATE ROLE `+role+` NOLOGIN;
			END IF;
		EXCEPTION
			WHEN duplicate_object OR unique_violation THEN NULL;
			WHEN insufficient_privilege THEN
				RAISE EXCEPTION 'the role `+role+` does not exist and % may not create it: run CREATE ROLE `+role+` NOLOGIN as an administrator', current_user;
		END $$`)
		if err != nil {
			return 0, fmt.Errorf("make the roles: %w", hideURL(err))
		}
	}
	_, err = db.ExecContext(ctx, `DO $$ BEGIN
			EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
		EXCEPTION WHEN insufficient_privilege THEN NULL;
		END $$`)
	return server, hideURL(err)
}

// ClosedByRestore is what a restored database does not let go on.
type ClosedByRestore struct {
	// Stopped says that this has stopped all agents: they were not stopped before.
	Stopped bool
	// Tokens are the approvals whose permission cannot be spent any more, Grants how many
	// standing grants vote no more, and Sessions how many people have to sign in again.
	Tokens           []string
	Grants, Sessions int64
	Links            int64
	// Waiting is how many approvals were handed to Temporal again.
	Waiting int64
}

// CloseRestored takes from a database that was restored what may have been used since
// the copy was made, and stops every agent, in one transaction with the events that tell
// of it: a permission that was spent after that moment would be spent twice. What waits
// is put into the outbox.
func (s *Store) CloseRestored(ctx context.Context, by, reason string, tell func(ClosedByRestore) ([]engine.Event, error)) (c ClosedByRestore, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		c = ClosedByRestore{}
		stopped, err := tx.Exec(ctx, `INSERT INTO kill_switches (agent_id, reason, thrown_by) VALUES ('', $1, $2) ON CONFLICT DO NOTHING`, reason, by)
		if err != nil {
			return translate(err)
		}
		c.Stopped = stopped.RowsAffected() == 1
		rows, err := tx.Query(ctx, `UPDATE tokens SET stale_at = clock_timestamp() WHERE `+unspent+` RETURNING approval_id`)
		if err != nil {
			return translate(err)
		}
		if c.Tokens, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return translate(err)
		}
		for _, step := range []struct {
			sql   string
			count *int64
			args  []any
		}{
			{`UPDATE standing_grants SET revoked_at = clock_timestamp(), revoked_by = $1 WHERE revoked_at IS NULL AND uses < max_uses AND expires_at > clock_timestamp()`, &c.Grants, []any{by}},
			{`DELETE FROM sessions`, &c.Sessions, nil},
			{`DELETE FROM password_links`, &c.Links, nil},
			{`DELETE FROM challenges`, new(int64), nil},
			{`DELETE FROM slack_links`, new(int64), nil},
			{`DELETE FROM slack_codes`, new(int64), nil},
			{`INSERT INTO outbox (approval_id) SELECT a.id FROM approvals a WHERE a.status = 'pending'
				AND NOT EXISTS (SELECT FROM outbox o WHERE o.approval_id = a.id)`, new(int64), nil},
		} {
			tag, err := tx.Exec(ctx, step.sql, step.args...)
			if err != nil {
				return translate(err)
			}
			*step.count = tag.RowsAffected()
		}
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM approvals WHERE status = 'pending'`).Scan(&c.Waiting); err != nil {
			return translate(err)
		}
		events, err := tell(c)
		if err != nil {
			return err
		}
		batch := &pgx.Batch{}
		queueEvents(batch, events, nil)
		return translate(tx.SendBatch(ctx, batch).Close())
	})
	return c, err
}
