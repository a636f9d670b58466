package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/audit"
)

// ErrMoved is returned when the log was appended to since, by somebody else.
var ErrMoved = errors.New("the log has moved")

// LogHead is how far the audit log has come.
type LogHead struct {
	Size int64
	Root tlog.Hash
	// Seq is the number of the last event that has a place, in order of appending.
	Seq int64
	At  time.Time
}

// NumberedRecord is a record and its number in order of appending, which has gaps.
type NumberedRecord struct {
	Seq int64
	audit.Record
}

// Head reads how far the log has come.
func (s Log) Head(ctx context.Context) (LogHead, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return logHead(ctx, s.pool)
}

func logHead(ctx context.Context, q querier) (LogHead, error) {
	var h LogHead
	var root []byte
	err := q.QueryRow(ctx, `SELECT size, root, seq, moved_at FROM log_head`).Scan(&h.Size, &root, &h.Seq, &h.At)
	copy(h.Root[:], root)
	return h, translate(err)
}

// Delay is for how long the oldest event without a place in the log has waited
// for it; 0 when all have theirs. Where events get numbers that never will, it is
// for how long the log has stood still.
func (s Log) Delay(ctx context.Context) (time.Duration, error) {
	return value[time.Duration](ctx, s.db, `SELECT `+logDelay+` FROM log_head h`)
}

// logDelay is Delay, of log_head h.
const logDelay = `CASE WHEN (SELECT last_value FROM events_seq_seq) < h.seq THEN clock_timestamp() - h.moved_at
	ELSE coalesce((SELECT clock_timestamp() - e.appended_at FROM events e WHERE e.seq > h.seq ORDER BY e.seq LIMIT 1), interval '0') END`

// Tiles reads tiles of the log.
func (s Log) Tiles(ctx context.Context) audit.Tiles {
	return func(level int, n int64, width int) ([]tlog.Hash, error) {
		ctx, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		return logTile(ctx, s.pool, level, n, width)
	}
}

func logTile(ctx context.Context, q querier, level int, n int64, width int) ([]tlog.Hash, error) {
	var data []byte
	err := q.QueryRow(ctx, `SELECT substring(hashes FOR $3) FROM log_tiles WHERE level = $1 AND n = $2 AND length(hashes) >= $3`,
		level, n, width*tlog.HashSize).Scan(&data)
	if err != nil {
		return nil, fmt.Errorf("read tile %d of level %d: %w", n, level, translate(err))
	}
	return audit.ParseHashes(data)
}

// Checkpoint is a checkpoint as it was signed, with what witnesses have added.
type Checkpoint struct {
	Size         int64
	Root         tlog.Hash
	Note         []byte
	At           time.Time
	Cosignatures []string // whole lines, in order of the witnesses' names
}

// Signed is the note with all cosignatures.
func (c Checkpoint) Signed() []byte {
	signed := append([]byte(nil), c.Note...)
	for _, line := range c.Cosignatures {
		signed = append(signed, line...)
	}
	return signed
}

// checkpointRows are of log_checkpoints c.
var checkpointRows = newRows(func(c *Checkpoint) columns {
	return columns{
		{"c.size", &c.Size},
		{"c.root", hashField{&c.Root}},
		{"c.note", &c.Note},
		{"c.at", &c.At},
		{"coalesce((SELECT array_agg(s.line ORDER BY s.name) FROM log_cosignatures s WHERE s.size = c.size), '{}')", &c.Cosignatures},
	}
})

// hashField is the field of a hash.
type hashField struct{ *tlog.Hash }

// ScanBytes is called by pgx.
func (h hashField) ScanBytes(v []byte) error {
	copy(h.Hash[:], v)
	return nil
}

// LatestCheckpoint is the last checkpoint that at least so many witnesses have
// signed. ErrNotFound: there is none yet.
func (s Log) LatestCheckpoint(ctx context.Context, witnessed int) (Checkpoint, error) {
	if witnessed <= 0 {
		return s.checkpoint(ctx, `SELECT `+checkpointRows.names+` FROM log_checkpoints c ORDER BY c.size DESC LIMIT 1`)
	}
	// From the cosignatures: while a witness is away, there may be a day of checkpoints
	// that have none, and everybody may ask.
	return s.checkpoint(ctx, `SELECT `+checkpointRows.names+` FROM log_checkpoints c
		WHERE c.size = (SELECT w.size FROM log_cosignatures w GROUP BY w.size HAVING count(*) >= $1 ORDER BY w.size DESC LIMIT 1)`, witnessed)
}

// CheckpointAt is the checkpoint of this size. ErrNotFound: none was signed there.
func (s Log) CheckpointAt(ctx context.Context, size int64) (Checkpoint, error) {
	return s.checkpoint(ctx, `SELECT `+checkpointRows.names+` FROM log_checkpoints c WHERE c.size = $1`, size)
}

func (s Log) checkpoint(ctx context.Context, sql string, args ...any) (Checkpoint, error) {
	return checkpointRows.queryOne(ctx, s.db, sql, args...)
}

// Checkpoints lists checkpoints from the newest on, below a size; 0 for all.
func (s Log) Checkpoints(ctx context.Context, below int64, limit int) ([]Checkpoint, error) {
	return checkpointRows.query(ctx, s.db, `SELECT `+checkpointRows.names+` FROM log_checkpoints c WHERE $1 = 0 OR c.size < $1 ORDER BY c.size DESC LIMIT $2`, below, limit)
}

// Cosign keeps a witness's signature of a checkpoint, once.
func (s Log) Cosign(ctx context.Context, size int64, witness, line string) error {
	return s.exec(ctx, `INSERT INTO log_cosignatures (size, name, line) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, size, witness, line)
}

const recordColumns = `e.event_id::text, e.appended_at, e.type, e.outcome, e.agent_id, e.tool_name, coalesce(e.approval_id, ''), e.body`

func recordInto(r *audit.Record) []any {
	return []any{&r.ID, &r.At, &r.Type, &r.Outcome, &r.AgentID, &r.ToolName, &r.ApprovalID, &r.Body}
}

// Leaves reads the records of n leaves from a place on, in order. A leaf whose
// event is gone has an empty ID: there is a place for it, and nothing in it.
func (s Log) Leaves(ctx context.Context, from int64, n int) ([]audit.Record, error) {
	return collect(ctx, s.db, scanRecord, `SELECT p.leaf, coalesce(e.event_id::text, ''), coalesce(e.appended_at, 'epoch'), coalesce(e.type, ''), coalesce(e.outcome, ''),
			coalesce(e.agent_id, ''), coalesce(e.tool_name, ''), coalesce(e.approval_id, ''), coalesce(e.body, '')
		FROM generate_series($1::bigint, $1 + $2 - 1) p (leaf) LEFT JOIN log_entries l ON l.leaf = p.leaf LEFT JOIN events e ON e.seq = l.seq ORDER BY p.leaf`, from, n)
}

// LeafOf is the record of the event of this id, and whether it has a place yet;
// ErrNotFound when there is no such event.
func (s Log) LeafOf(ctx context.Context, eventID string) (audit.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r := audit.Record{Leaf: -1}
	err := s.pool.QueryRow(ctx, `SELECT coalesce(l.leaf, -1), `+recordColumns+` FROM events e LEFT JOIN log_entries l ON l.seq = e.seq WHERE e.event_id = $1::text::uuid`, eventID).
		Scan(append([]any{&r.Leaf}, recordInto(&r)...)...)
	return r, translate(err)
}

// Changes returns a channel that receives whenever the log has grown.
func (s Log) Changes(ctx context.Context) <-chan struct{} {
	return s.changes.subscribe(ctx, logChannel)
}

// Wanted returns a channel that receives whenever somebody waits for the log.
func (s Log) Wanted(ctx context.Context) <-chan struct{} {
	return s.changes.subscribe(ctx, logWantedChannel)
}

// CatchUp waits until every event that is committed now has its place in the log,
// for as long as within, and reports whether they have.
func (s Log) CatchUp(ctx context.Context, within time.Duration) (bool, error) {
	wait, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	changed := s.Changes(wait)
	var last int64
	if err := s.within(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, `SELECT coalesce(max(seq), 0) FROM events`).Scan(&last)
	}); err != nil {
		return false, translate(err)
	}
	for asked := false; ; asked = true {
		head, err := s.Head(ctx)
		if err != nil || head.Seq >= last {
			return err == nil, err
		}
		if !asked && within > 0 {
			if err := s.within(ctx, func(ctx context.Context) error {
				_, err := s.pool.Exec(ctx, `SELECT pg_notify('`+logWantedChannel+`', '')`)
				return err
			}); err != nil {
				return false, translate(err)
			}
		}
		select {
		case <-changed:
		case <-wait.Done():
			return false, nil
		}
	}
}
