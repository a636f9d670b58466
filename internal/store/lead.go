package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/audit"
)

// logLock is the number of the advisory lock that whoever appends to the log
// holds, for as long as their connection lives.
const logLock = 4703514210561396083

// LogLeader is the one process that gives events their places. What it does goes
// over the connection that holds the lock: when that is lost, so is the lead.
type LogLeader struct {
	store *Store
	conn  *pgx.Conn
	// bound and until: once no transaction with an id below until runs any more, no
	// event with a number up to bound can come any more.
	bound, until int64
	safe         int64
}

// LeadLog calls lead while this process alone gives events their places, and
// reports whether it did: another process may have the lead. It returns what
// lead returns.
func (s *Store) LeadLog(ctx context.Context, lead func(context.Context, *LogLeader) error) (bool, error) {
	return s.lead(ctx, logLock, func(ctx context.Context, conn *pgx.Conn) error { return lead(ctx, &LogLeader{store: s, conn: conn}) })
}

// lead calls do while this process alone holds the advisory lock of this number,
// and reports whether it did. The connection that holds the lock is the leader's
// own: however long it leads, the pool has all of its connections for others.
func (s *Store) lead(ctx context.Context, lock int64, do func(context.Context, *pgx.Conn) error) (bool, error) {
	pooled, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, translate(err)
	}
	var led bool
	if err := s.within(ctx, func(ctx context.Context) error {
		return pooled.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, lock).Scan(&led)
	}); err != nil || !led {
		if err != nil {
			// A connection that may hold the lock must not go back to the pool.
			_ = pooled.Conn().Close(context.WithoutCancel(ctx))
		}
		pooled.Release()
		return false, translate(err)
	}
	conn := pooled.Hijack()
	// The lock ends with its connection.
	defer func() {
		_ = s.within(context.WithoutCancel(ctx), func(ctx context.Context) error { return conn.Close(ctx) })
	}()
	return true, do(ctx, conn)
}

// within calls do under the store's timeout.
func (s *Store) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return do(ctx)
}

// Head reads how far the log has come, and the tree of it from its tiles.
func (l *LogLeader) Head(ctx context.Context) (head LogHead, tree *audit.Tree, err error) {
	err = l.store.within(ctx, func(ctx context.Context) error {
		if head, err = logHead(ctx, l.conn); err != nil {
			return err
		}
		tree, err = audit.OpenTree(head.Size, func(level int, n int64, width int) ([]tlog.Hash, error) {
			return logTile(ctx, l.conn, level, n, width)
		})
		return err
	})
	return head, tree, err
}

// Safe is a number up to which no further event can come: every event with such
// a number is committed, or never will be. It waits a little for transactions
// that run; with many long ones it lags behind.
//
// A transaction has its id before it takes numbers (append_events). So when all
// transactions are over that had an id when the last number was read, no lower
// number can come any more.
func (l *LogLeader) Safe(ctx context.Context) (int64, error) {
	err := l.store.within(ctx, func(ctx context.Context) error {
		if l.bound == l.safe {
			if err := l.conn.QueryRow(ctx, `SELECT last_value FROM events_seq_seq`).Scan(&l.bound); err != nil {
				return err
			}
			if l.bound == l.safe {
				return nil
			}
			// A statement of its own: its snapshot comes after the number was read.
			if err := l.conn.QueryRow(ctx, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint`).Scan(&l.until); err != nil {
				return err
			}
		}
		for range 10 {
			var oldest int64
			if err := l.conn.QueryRow(ctx, `SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint`).Scan(&oldest); err != nil {
				return err
			}
			if oldest >= l.until {
				l.safe = l.bound
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(2 * time.Millisecond):
			}
		}
		return nil
	})
	return l.safe, translate(err)
}

// Next reads up to limit events with numbers above after, up to upTo.
func (l *LogLeader) Next(ctx context.Context, after, upTo int64, limit int) (list []Numbered, err error) {
	err = l.store.within(ctx, func(ctx context.Context) error {
		rows, err := l.conn.Query(ctx, `SELECT e.seq, `+recordColumns+` FROM events e WHERE e.seq > $1 AND e.seq <= $2 ORDER BY e.seq LIMIT $3`, after, upTo, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r := Numbered{Record: audit.Record{Leaf: -1}}
			if err := rows.Scan(append([]any{&r.Seq}, recordInto(&r.Record)...)...); err != nil {
				return err
			}
			list = append(list, r)
		}
		return rows.Err()
	})
	return list, translate(err)
}

// Advance is what an append to the log adds.
type Advance struct {
	From LogHead
	Root tlog.Hash // the new one
	// Seqs are the events' numbers and Actors who they name, in order.
	Seqs   []int64
	Actors []string
	// Tiles are those that have changed, as they are now.
	Tiles      []audit.Tile
	Checkpoint []byte
}

// Append gives events their places, in one transaction. ErrMoved: the log is not
// at From any more. ErrUnavailable: it may or may not have been done.
func (l *LogLeader) Append(ctx context.Context, a Advance) error {
	levels, ns, hashes := make([]int16, len(a.Tiles)), make([]int64, len(a.Tiles)), make([][]byte, len(a.Tiles))
	for i, t := range a.Tiles {
		levels[i], ns[i], hashes[i] = int16(t.Level), t.N, t.Data() // #nosec G115 -- there are eight levels
	}
	err := l.store.within(ctx, func(ctx context.Context) error {
		_, err := l.conn.Exec(ctx, `SELECT advance_log($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			a.From.Size, a.From.Root[:], a.Root[:], a.Seqs, a.Actors, levels, ns, hashes, a.Checkpoint)
		return err
	})
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "HPK02" {
		return ErrMoved
	}
	return translate(err)
}
