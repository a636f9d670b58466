package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// readOnly is what a standby answers to whoever writes.
const readOnly = "25006"

// hostTimeout bounds the wait for one host where the URL names several: the next one
// has to get its turn while the caller still waits.
const hostTimeout = 2 * time.Second

// connectsLike sets how every connection of the store is made.
func (s *Store) connectsLike(pc *pgxpool.Config) {
	c := pc.ConnConfig
	c.ConnectTimeout = s.timeout
	c.RuntimeParams["application_name"] = "holdpoint"
	if severalHosts(&c.Config) {
		c.ConnectTimeout = min(s.timeout, hostTimeout)
		if c.ValidateConnect == nil {
			// Whatever the URL says, or does not: a standby cannot be worked on.
			c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		}
	}
	former := c.OnPgError
	c.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		// A server that has become a standby: the next connection finds the new primary.
		return err.Code != readOnly && (former == nil || former(conn, err))
	}
	// These are set by a statement, not at the start of the connection, because a pooler
	// between us and Postgres refuses or forgets what it is asked for there.
	set := fmt.Sprintf(`SELECT
		-- The server gives up as well: a client that is gone must not leave a lock.
		set_config('statement_timeout', '%[1]d', false), set_config('idle_in_transaction_session_timeout', '%[1]d', false),
		-- A program that was cut off between a statement and its commit holds locks, also
		-- that of the kill switches, until Postgres notices that nobody is there any more.
		set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '3', false),
		-- Whoever grants something sees what was committed before, a kill switch too, however the
		-- role or the database is set.
		set_config('default_transaction_isolation', 'read committed', false),
		-- What is answered has to be durable, however the role or the database is set.
		CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END`, 2*s.timeout.Milliseconds())
	pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		inUTC(conn)
		takesEventColumns(conn)
		_, err := conn.Exec(ctx, set)
		return err
	}
}

// severalHosts reports whether there is more than one host to try. The same host is
// there twice where TLS is preferred.
func severalHosts(c *pgconn.Config) bool {
	return slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != c.Host || f.Port != c.Port })
}

// ErrPooler says that the connections are those of a pooler that lends them by the transaction.
var ErrPooler = errors.New("the database URL leads to a pooler that lends connections by the transaction (pgbouncer: pool_mode = transaction): " +
	"who signs the log is found by a lock of a session, and changes are heard on one; give the address of Postgres itself, or of a pool with pool_mode = session")

// refusePooler refuses a pooler of transactions. With one, two sessions of ours that are
// open at the same time, and idle, are served by one session of Postgres: the lock that
// makes one worker the log's only leader would be everybody's.
func (s *Store) refusePooler(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var open []*pgxpool.Conn
	defer func() {
		for _, conn := range open {
			conn.Release()
		}
	}()
	seen := map[string]bool{}
	for _, pool := range []*pgxpool.Pool{s.pool, s.reserve, s.reserve} {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return translate(err)
		}
		open = append(open, conn)
		var session string
		if err := conn.QueryRow(ctx, `SELECT pg_postmaster_start_time() || ' ' || pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&session); err != nil {
			return translate(err)
		}
		if seen[session] {
			return ErrPooler
		}
		seen[session] = true
	}
	return nil
}

// replicated returns when whatever was committed before is as durable as Postgres is
// set to make it. A commit that waits for a standby and is given up is there for all to
// see, and yet would be lost with its server; so an answer that rests on an earlier
// commit, of which nobody knows whether it was waited for, waits for one of its own.
func replicated(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, writeNothing)
	return translate(err)
}

// writeNothing makes its transaction write to the log of Postgres, and nothing else, so
// that its commit is waited for.
const writeNothing = `SELECT pg_logical_emit_message(true, 'holdpoint', '')`
