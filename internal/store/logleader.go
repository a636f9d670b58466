package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/audit"
)

// logLock is the number of the advisory lock that whoever appends to the log
// holds, for as long as their connection lives.
const logLock = 4703514210561396083

// LogLeader is the one process that gives events their places. What it does goes
// over the connection that holds the lock: when that is lost, so is the lead.
type LogLeader struct {
	store *db
	conn  *pgx.Conn
	// Once none of the transactions in writers runs any more, no event with a
	// number up to bound can come any more.
	bound   int64
	writers []string
	safe    int64
}

// leaderSilence is how long the database waits for a leader that says nothing
// before it gives the lead to another one: the leader's machine may be gone, or
// its process may stand still. A leader that works looks several times a second.
const leaderSilence = 3 * time.Second

// Lead calls lead while this process alone gives events their places, and
// reports whether it did: another process may have the lead. It returns what
// lead returns.
func (s Log) Lead(ctx context.Context, lead func(context.Context, *LogLeader) error) (bool, error) {
	return s.lead(ctx, logLock, func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.within(ctx, func(ctx context.Context) error {
			_, err := conn.Exec(ctx, fmt.Sprintf(`SET idle_session_timeout = %d`, leaderSilence.Milliseconds()))
			return err
		}); err != nil {
			return translate(err)
		}
		return lead(ctx, &LogLeader{store: s.db, conn: conn})
	})
}

// lead calls do while this process alone holds the advisory lock of this number,
// and reports whether it did. The connection that holds the lock is the leader's
// own: however long it leads, the pool has all of its connections for others.
func (s *db) lead(ctx context.Context, lock int64, do func(context.Context, *pgx.Conn) error) (bool, error) {
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
func (s *db) within(ctx context.Context, do func(context.Context) error) error {
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

// ErrNumbers is returned when events get numbers below those that have places: they
// would never get one themselves. The sequence was set back, or was not taken along
// when the database was copied.
var ErrNumbers = errors.New("events get numbers below those of events that have places, and would never get one: " +
	"the sequence events_seq_seq was set back, or did not come along when the database was copied")

// HighWaterMark is a number up to which no further event can come: every event with such
// a number is committed, or never will be. It waits a little for transactions
// that run; with many long ones it lags behind.
//
// Whoever takes a number for an event holds a lock on the table, from before that
// until after the commit can be seen. So when all are gone that held it after a
// number was read, no event up to that number can come any more. Transaction ids
// do not tell: a snapshot's upper bound is the last one that has ended, and
// transactions above it may run already. Nor is anybody waited for who writes
// elsewhere.
func (l *LogLeader) HighWaterMark(ctx context.Context) (int64, error) {
	err := l.store.within(ctx, func(ctx context.Context) (err error) {
		if l.bound == l.safe {
			last, err := l.numbered(ctx)
			if err != nil {
				return err
			}
			if l.bound < last {
				return ErrNumbers
			}
			if l.bound == l.safe {
				return nil
			}
			// A statement of its own: it must begin after the number was read.
			if l.writers, err = l.writing(ctx, nil); err != nil {
				return err
			}
		}
		for range 10 {
			if len(l.writers) == 0 {
				l.safe = l.bound
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(2 * time.Millisecond):
			}
			if l.writers, err = l.writing(ctx, l.writers); err != nil {
				return err
			}
		}
		return nil
	})
	return l.safe, translate(err)
}

// exportsAtOnce is how many exports that readers have recorded are appended in one look.
const exportsAtOnce = 20

// numbered reads the last number that an event was given, as the bound, and that of the last
// event with a place. What readers have recorded is appended before.
func (l *LogLeader) numbered(ctx context.Context) (last int64, err error) {
	for range 2 {
		var recorded bool
		err = l.conn.QueryRow(ctx, `SELECT CASE WHEN is_called THEN last_value ELSE 0 END, (SELECT seq FROM log_head), EXISTS (SELECT FROM recorded_exports) FROM events_seq_seq`).
			Scan(&l.bound, &last, &recorded)
		if err != nil || !recorded {
			return last, err
		}
		if _, err = l.conn.Exec(ctx, `SELECT append_recorded_exports($1)`, exportsAtOnce); err != nil {
			return last, err
		}
	}
	return last, nil
}

// writing lists the transactions that write events, or those of them that are in
// among.
func (l *LogLeader) writing(ctx context.Context, among []string) ([]string, error) {
	rows, err := l.conn.Query(ctx, `SELECT DISTINCT virtualtransaction FROM pg_locks
		WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND relation = 'events'::regclass
			AND mode = 'RowExclusiveLock' AND granted AND ($1::text[] IS NULL OR virtualtransaction = ANY ($1))`, among)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// maxRead bounds what is read at once, in bytes of bodies; one event more may be.
const maxRead = 8 << 20

// Next reads up to limit events with numbers above after, up to upTo, and calls each for
// every one of them, whose Body is good until it returns; fewer when they are large.
func (l *LogLeader) Next(ctx context.Context, after, upTo int64, limit int, each func(NumberedRecord)) error {
	return l.store.nextEvents(ctx, l.conn, after, upTo, limit, each)
}

// ReadAhead is Next while the leader appends: over another connection. upTo is a number
// that HighWaterMark has given, so that everybody sees the same events up to it.
func (l *LogLeader) ReadAhead(ctx context.Context, after, upTo int64, limit int, each func(NumberedRecord)) error {
	return l.store.nextEvents(ctx, l.store.pool, after, upTo, limit, each)
}

func (s *db) nextEvents(ctx context.Context, on interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, after, upTo int64, limit int, each func(NumberedRecord),
) error {
	return translate(s.within(ctx, func(ctx context.Context) error {
		// How far the bytes reach is found without the bodies.
		rows, err := on.Query(ctx, `SELECT e.seq, `+recordColumns+` FROM events e
			WHERE e.seq > $1 AND e.seq <= (SELECT max(s.seq) FROM (SELECT n.seq, sum(n.size) OVER (ORDER BY n.seq ROWS UNBOUNDED PRECEDING) - n.size AS before
				FROM (SELECT x.seq, length(x.body) AS size FROM events x WHERE x.seq > $1 AND x.seq <= $2 ORDER BY x.seq LIMIT $3) n) s WHERE s.before < $4)
			ORDER BY e.seq`, after, upTo, limit, maxRead)
		if err != nil {
			return err
		}
		defer rows.Close()
		r := NumberedRecord{Record: audit.Record{Leaf: -1}}
		var body pgtype.DriverBytes // as it was received
		into := append([]any{&r.Seq}, recordInto(&r.Record)...)
		into[len(into)-1] = &body
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return err
			}
			r.Body = body
			each(r)
		}
		return rows.Err()
	}))
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

// PruneCheckpoints removes checkpoints that are no longer needed, by the rule of the schema:
// those of more than a day ago that are not the last one of their hour, and that
// no witness has signed.
func (l *LogLeader) PruneCheckpoints(ctx context.Context) error {
	return translate(l.store.within(ctx, func(ctx context.Context) error {
		_, err := l.conn.Exec(ctx, `SELECT thin_log_checkpoints(20000)`)
		return err
	}))
}
