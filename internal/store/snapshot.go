package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Snapshot is the database at one moment: what a copy of it says of itself. It is held
// until Close, so that another connection can read the same moment.
type Snapshot struct {
	// Name is what other connections name it by.
	Name         string
	At           time.Time
	Installation string
	// Server is the major version of Postgres, and Bytes what the database takes on disk.
	Server int
	Bytes  int64
	// Head is how far the audit log has come, Checkpoint the note of its last checkpoint
	// (nil for none), and Unplaced how many events have no place in it yet.
	Head       LogHead
	Checkpoint []byte
	Unplaced   int64
	// Waiting is how many approvals wait, and Unspent how many permissions can be spent.
	Waiting, Unspent int64
	// DataKeys are those that records may be sealed with, and SigningKeys those that were
	// published.
	DataKeys, SigningKeys []string

	conn *pgxpool.Conn
}

// Snapshot takes one. It needs the owner's login, and a connection of its own.
func (s *Store) Snapshot(ctx context.Context) (*Snapshot, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, translate(err)
	}
	n := &Snapshot{conn: conn}
	if err := n.read(ctx); err != nil {
		n.Close()
		return nil, fmt.Errorf("look at the database: %w", translate(err))
	}
	return n, nil
}

func (n *Snapshot) read(ctx context.Context) error {
	// It lasts as long as it takes to copy the database.
	for _, sql := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`, `SET LOCAL statement_timeout = 0`, `SET LOCAL idle_in_transaction_session_timeout = 0`} {
		if _, err := n.conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	err := n.conn.QueryRow(ctx, `SELECT pg_export_snapshot(), clock_timestamp(), (SELECT id::text FROM installation), current_setting('server_version_num')::int / 10000,
			pg_database_size(current_database()), (SELECT note FROM log_checkpoints ORDER BY size DESC LIMIT 1),
			(SELECT count(*) FROM events WHERE seq > (SELECT seq FROM log_head)), (SELECT count(*) FROM approvals WHERE status = 'pending'),
			(SELECT count(*) FROM tokens WHERE `+unspent+`)`).
		Scan(&n.Name, &n.At, &n.Installation, &n.Server, &n.Bytes, &n.Checkpoint, &n.Unplaced, &n.Waiting, &n.Unspent)
	if err != nil {
		return err
	}
	if n.Head, err = logHead(ctx, n.conn); err != nil {
		return err
	}
	for sql, into := range map[string]*[]string{
		`SELECT id FROM data_keys WHERE emptied_at IS NULL OR emptied_at <= sealed_at ORDER BY created_at, id`: &n.DataKeys,
		`SELECT kid FROM signing_keys ORDER BY published_at, kid`:                                              &n.SigningKeys,
	} {
		rows, err := n.conn.Query(ctx, sql)
		if err != nil {
			return err
		}
		if *into, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
	}
	return nil
}

// unspent is of permissions that can still be spent.
const unspent = `redeemed_at IS NULL AND stale_at IS NULL AND valid_until > clock_timestamp()`

// Close gives it up.
func (n *Snapshot) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := n.conn.Exec(ctx, `ROLLBACK`); err != nil {
		_ = n.conn.Conn().Close(ctx)
	}
	n.conn.Release()
}
