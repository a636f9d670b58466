package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine/audit"
)

// streamSpan is how many places of the log one reading looks at, so that a filter
// that nothing passes does not read the whole log in one statement.
const streamSpan = 10_000

// maxStreamError is how much of an error is kept, in bytes.
const maxStreamError = 500

// StreamPosition is how far a stream of the log has come.
type StreamPosition struct {
	Name string
	Leaf int64     // the next one to send: so many events are behind it
	At   time.Time // when it was moved
	// Error is what keeps it, since FailingAt; "" while nothing does.
	Error     string
	FailingAt time.Time
	// Size is the log's: Size - Leaf events are yet to be looked at, the oldest of
	// which is Oldest old by the database's clock.
	Size   int64
	Oldest time.Duration
}

// Behind is how many events have yet to be looked at, those that the stream's
// filter will pass over among them.
func (p StreamPosition) Behind() int64 { return p.Size - p.Leaf }

// StreamWanted says which events a stream is to have; empty lists mean all.
type StreamWanted struct{ Types, Outcomes []string }

// StreamLeader is the one process that sends a stream. What it reads and writes
// goes over the connection that holds the lock: when that is lost, so is the lead.
type StreamLeader struct {
	store *db
	conn  *pgx.Conn
	name  string
}

// askLeader has Postgres ask the machine of a leader that says nothing whether it is
// there, and give the lead away after 25 seconds without an answer. Left to the
// system that is two hours, in which nobody would send. A leader may well say nothing
// for as long as its receiver takes.
const askLeader = `SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3`

// Lead calls lead while this process alone sends the stream of this name,
// and reports whether it did: another process may have the lead. It returns what
// lead returns.
func (s Streams) Lead(ctx context.Context, name string, lead func(context.Context, *StreamLeader) error) (bool, error) {
	sum := sha256.Sum256([]byte("holdpoint log stream " + name))
	lock := int64(binary.BigEndian.Uint64(sum[:])) // #nosec G115 -- any number will do
	return s.lead(ctx, lock, func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.within(ctx, func(ctx context.Context) error {
			_, err := conn.Exec(ctx, askLeader)
			return err
		}); err != nil {
			return translate(err)
		}
		return lead(ctx, &StreamLeader{store: s.db, conn: conn, name: name})
	})
}

// positionRows are of log_positions p and log_head h.
var positionRows = newRows(func(p *StreamPosition) columns {
	return columns{
		{"p.name", &p.Name},
		{"p.leaf", &p.Leaf},
		{"p.at", &p.At},
		{"p.last_error", &p.Error},
		{"coalesce(p.failing_at, 'epoch')", &p.FailingAt},
		{"h.size", &p.Size},
		{"coalesce(clock_timestamp() - (SELECT l.at FROM log_entries l WHERE l.leaf = p.leaf), interval '0')", &p.Oldest},
	}
})

var positions = `SELECT ` + positionRows.names + ` FROM log_positions p CROSS JOIN log_head h ORDER BY p.name`

// Positions lists how far streams have come, by name; those that have never
// run are not there.
func (s Streams) Positions(ctx context.Context) (list []StreamPosition, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		list, err = positionRows.all(s.pool.Query(ctx, positions))
		return err
	})
	return list, translate(err)
}

// Position reads how far the stream has come. One that has never run begins at
// the log's first event, or behind its last one.
func (l *StreamLeader) Position(ctx context.Context, beginning bool) (p StreamPosition, err error) {
	err = l.store.within(ctx, func(ctx context.Context) error {
		if _, err := l.conn.Exec(ctx, `INSERT INTO log_positions (name, leaf) SELECT $1, CASE WHEN $2 THEN 0 ELSE size END FROM log_head ON CONFLICT DO NOTHING`,
			l.name, beginning); err != nil {
			return err
		}
		p, err = positionRows.one(l.conn.QueryRow(ctx, `SELECT `+positionRows.names+` FROM log_positions p CROSS JOIN log_head h WHERE p.name = $1`, l.name))
		return err
	})
	return p, translate(err)
}

// Next reads events that are wanted, in the log's order: up to limit of them, and
// no more once their bodies have come to size bytes. All places of the log before
// upTo have been looked at. A record whose event is gone has an empty ID.
func (l *StreamLeader) Next(ctx context.Context, from int64, wanted StreamWanted, limit, size int) (records []audit.Record, upTo int64, err error) {
	var found int
	err = l.store.within(ctx, func(ctx context.Context) error {
		// First, and by itself: what is below the head is there to be read.
		if err := l.conn.QueryRow(ctx, `SELECT least(size, $1::bigint + $2) FROM log_head`, from, streamSpan).Scan(&upTo); err != nil {
			return err
		}
		if upTo <= from {
			return nil
		}
		rows, err := l.conn.Query(ctx, `SELECT q.found, q.leaf, q.id, q.at, q.type, q.outcome, q.agent, q.tool, q.approval, q.body FROM (
				SELECT p.leaf, coalesce(e.event_id::text, '') AS id, coalesce(e.appended_at, p.at) AS at, coalesce(e.type, '') AS type, coalesce(e.outcome, '') AS outcome,
					coalesce(e.agent_id, '') AS agent, coalesce(e.tool_name, '') AS tool, coalesce(e.approval_id, '') AS approval, coalesce(e.body, '') AS body,
					coalesce(sum(length(e.body)) OVER (ORDER BY p.leaf ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before, count(*) OVER () AS found
				FROM (SELECT l.leaf, l.seq, l.at FROM log_entries l
					WHERE l.leaf >= $1 AND l.leaf < $2 AND (cardinality($3::text[]) = 0 OR l.type = ANY ($3)) AND (cardinality($4::text[]) = 0 OR l.outcome = ANY ($4))
					ORDER BY l.leaf LIMIT $5) p
				LEFT JOIN events e ON e.seq = p.seq) q
			WHERE q.before < $6 ORDER BY q.leaf`, from, upTo, listed(wanted.Types), listed(wanted.Outcomes), limit, size)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r audit.Record
			if err := rows.Scan(append([]any{&found, &r.Leaf}, recordInto(&r)...)...); err != nil {
				return err
			}
			records = append(records, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, from, translate(err)
	}
	if n := len(records); n > 0 && (n < found || n == limit) {
		upTo = records[n-1].Leaf + 1
	}
	return records, upTo, nil
}

func listed(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts
}

// Taken moves the position: the receiver has taken all before to. ErrMoved: it is
// not at from any more, because somebody has set it back.
func (l *StreamLeader) Taken(ctx context.Context, from, to int64) error {
	return l.update(ctx, `UPDATE log_positions SET leaf = $3, at = clock_timestamp(), last_error = '', failing_at = NULL WHERE name = $1 AND leaf = $2`, l.name, from, to)
}

// Failed keeps what keeps the stream, and since when.
func (l *StreamLeader) Failed(ctx context.Context, cause error) error {
	text := strings.ReplaceAll(strings.ToValidUTF8(cause.Error(), "\uFFFD"), "\x00", "\uFFFD")
	for len(text) > maxStreamError {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
	}
	return l.update(ctx, `UPDATE log_positions SET last_error = $2, failing_at = coalesce(failing_at, clock_timestamp()) WHERE name = $1`, l.name, text)
}

func (l *StreamLeader) update(ctx context.Context, sql string, args ...any) error {
	return l.store.within(ctx, func(ctx context.Context) error {
		tag, err := l.conn.Exec(ctx, sql, args...)
		if err != nil {
			return translate(fmt.Errorf("move the stream %s: %w", l.name, err))
		}
		if tag.RowsAffected() == 0 {
			return ErrMoved
		}
		return nil
	})
}
