package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"holdpoint/engine"
	"holdpoint/internal/seal"
)

// DataKeys keeps which data keys records are sealed with, and wraps the records' own keys
// by another data key.
type DataKeys struct{ *db }

// sealedColumns are all columns of records' own keys, each with what the record is sealed
// under as SQL.
var sealedColumns = []struct{ table, column, name string }{
	{"approvals", "sealed_key", `id`},
	{"approvals", "answers_key", `id || '/answers'`},
	{"cards", "sealed_key", `'card of ' || approval_id`},
	{"former_documents", "sealed_key", `approval_id`},
	{"standing_grants", "sealed_key", `id`},
	{"drafts", "sealed_key", `'draft ' || approval_id || ' ' || person_id || ' ' || form`},
	{"endpoints", "sealed_key", `id`},
	{"endpoints", "next_sealed_key", `id`},
	{"push_subscriptions", "sealed_key", `'push ' || id || ' ' || person_id`},
	{"idempotency", "body_key", `'reply ' || octet_length(credential) || ':' || credential || ' ' || key`},
	{"totp_factors", "secret_key", `'totp ' || person_id`},
}

// DataKey is a data key as the database knows it.
type DataKey struct {
	ID string
	// SealedAt is when a process last had it seal, and EmptiedAt when nothing was found
	// under it; nil for never.
	CreatedAt, SealedAt time.Time
	EmptiedAt           *time.Time
	// Idle is how long no process has had it seal.
	Idle time.Duration
}

// Empty says that nothing is sealed with the key.
func (k DataKey) Empty() bool { return k.EmptiedAt != nil && k.EmptiedAt.After(k.SealedAt) }

// Keep says that this process seals with a data key, or is about to. With e it is on
// record when it is the first process that does.
func (s DataKeys) Keep(ctx context.Context, id string, e engine.Event) error {
	err := s.change(ctx, `UPDATE data_keys SET sealed_at = clock_timestamp() WHERE id = $1`, id)
	if errors.Is(err, ErrNotFound) {
		err = s.admin(ctx, e, `INSERT INTO data_keys (id) VALUES ($1) ON CONFLICT DO NOTHING`, id)
	}
	if errors.Is(err, ErrNotFound) {
		return nil // another process was first
	}
	return err
}

// ErrRetired is of a data key that nothing is sealed with any more.
var ErrRetired = errors.New("nothing is sealed with it any more")

// Use is Keep for a command, whose data keys may be older than those of the programs that
// run: a key that was found to be empty is ErrRetired, until one of those has it seal again.
func (s DataKeys) Use(ctx context.Context, id string, e engine.Event) error {
	use := func() error {
		return s.change(ctx, `UPDATE data_keys SET sealed_at = clock_timestamp() WHERE id = $1 AND (emptied_at IS NULL OR emptied_at <= sealed_at)`, id)
	}
	err := use()
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	if err = s.admin(ctx, e, `INSERT INTO data_keys (id) VALUES ($1) ON CONFLICT DO NOTHING`, id); !errors.Is(err, ErrNotFound) {
		return err
	}
	// It is there: another process was first, or the key is empty.
	if err = use(); errors.Is(err, ErrNotFound) {
		return fmt.Errorf("data key %s: %w", id, ErrRetired)
	}
	return err
}

// Retired says that a data key was taken out of its file. It takes the owner's login.
func (s DataKeys) Retired(ctx context.Context, id string, e engine.Event) error {
	return s.admin(ctx, e, `UPDATE data_keys SET emptied_at = clock_timestamp() WHERE id = $1`, id)
}

// List lists the data keys that were ever sealed with, the oldest first.
func (s DataKeys) List(ctx context.Context) ([]DataKey, error) {
	return collect(ctx, s.db, func(row pgx.CollectableRow) (k DataKey, err error) {
		var idle float64
		err = row.Scan(&k.ID, &k.CreatedAt, &k.SealedAt, &k.EmptiedAt, &idle)
		k.Idle = time.Duration(idle * float64(time.Second))
		return k, err
	}, `SELECT id, created_at, sealed_at, emptied_at, extract(epoch FROM clock_timestamp() - sealed_at)::float8 FROM data_keys ORDER BY created_at, id`)
}

// Count counts the records that are sealed with each data key, by its id; those of the
// installation's first are under "". It reads every table that has any.
func (s DataKeys) Count(ctx context.Context) (map[string]int64, error) {
	var parts []string
	for _, c := range sealedColumns {
		parts = append(parts, fmt.Sprintf(`SELECT wrapped_by(%[2]s) AS id, count(*) AS n FROM %[1]s WHERE %[2]s IS NOT NULL GROUP BY 1`, c.table, c.column))
	}
	counts := map[string]int64{}
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return nil, translate(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	// As long as it takes: it is asked for by a command, or where the start is refused.
	if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
		return nil, translate(err)
	}
	rows, err := tx.Query(ctx, `SELECT id, sum(n)::bigint FROM (`+strings.Join(parts, ` UNION ALL `)+`) counted GROUP BY id`)
	if err != nil {
		return nil, translate(err)
	}
	var id string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&id, &n}, func() error {
		counts[id] = n
		return nil
	})
	return counts, translate(err)
}

// Check refuses data keys without which something cannot be read. It counts only when a
// key is missing that was not found to be empty.
func (s DataKeys) Check(ctx context.Context, keys *seal.Keys) error {
	known, err := s.List(ctx)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42P01" {
		return nil // a schema from before there could be more than one
	}
	if err != nil {
		return fmt.Errorf("read the data keys: %w", err)
	}
	// Whether the first key is empty is only known of a first key that has a row; its id
	// is nowhere else, so any row that is not empty may be its.
	missing := keys.First() == "" && !slices.ContainsFunc(known, DataKey.Empty)
	for _, k := range known {
		missing = missing || !k.Empty() && !slices.Contains(keys.IDs(), k.ID)
	}
	if !missing {
		return nil
	}
	s.log.Info("counting what is sealed: data_key lacks a data key that records may need; when none does, holdpoint keys reseal notes it, and nothing is counted any more")
	counts, err := s.Count(ctx)
	if err != nil {
		return fmt.Errorf("count what is sealed with each data key: %w", err)
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		if id == "" && keys.First() == "" || id != "" && !slices.Contains(keys.IDs(), id) {
			errs = append(errs, fmt.Errorf("data_key: %d records are sealed with %s, which is not in it: put it back, and run holdpoint keys reseal before it is retired (docs/keys.md)", counts[id], dataKeyName(id)))
		}
	}
	return errors.Join(errs...)
}

func dataKeyName(id string) string {
	if id == "" {
		return "the installation's first data key"
	}
	return "the data key " + id
}

// SealedPart is a column of records' own keys, as large as it was when it was asked for.
type SealedPart struct {
	Name   string // table.column
	Blocks int64
	index  int
}

// Parts lists what Rewrap goes through.
func (s DataKeys) Parts(ctx context.Context) ([]SealedPart, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var parts []SealedPart
	for i, c := range sealedColumns {
		p := SealedPart{Name: c.table + "." + c.column, index: i}
		if err := s.pool.QueryRow(ctx, `SELECT pg_relation_size($1::regclass) / current_setting('block_size')::bigint`, c.table).Scan(&p.Blocks); err != nil {
			return nil, translate(err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// Rewrap wraps, in one transaction, the records' own keys in blocks [from, to) of a part
// by the data key that seals, and returns how many, and the names of those that no key
// opens: they were written around the programs, and stay as they are. Rows that somebody
// else works on are left for another time, so that it waits for nobody. It takes the
// owner's login.
func (s DataKeys) Rewrap(ctx context.Context, part SealedPart, from, to int64) (done int, broken []string, err error) {
	c := sealedColumns[part.index]
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL holdpoint.rewrapping = 'on'`); err != nil {
			return translate(err)
		}
		rows, err := tx.Query(ctx, fmt.Sprintf(`SELECT ctid, %[3]s, %[2]s FROM %[1]s
			WHERE ctid >= $1::tid AND ctid < $2::tid AND %[2]s IS NOT NULL AND wrapped_by(%[2]s) <> $3 FOR UPDATE SKIP LOCKED`, c.table, c.column, c.name),
			pgtype.TID{BlockNumber: uint32(from), Valid: true}, pgtype.TID{BlockNumber: uint32(to), Valid: true}, s.SealsAs()) // #nosec G115 -- Postgres' own limit
		if err != nil {
			return translate(err)
		}
		var at pgtype.TID
		var name string
		var wrapped []byte
		changes := &pgx.Batch{}
		_, err = pgx.ForEachRow(rows, []any{&at, &name, &wrapped}, func() error {
			again, err := s.sealer.Rewrap(name, wrapped)
			if err != nil {
				broken = append(broken, part.Name+" of "+name)
				return nil
			}
			changes.Queue(fmt.Sprintf(`UPDATE %[1]s SET %[2]s = $2 WHERE ctid = $1`, c.table, c.column), at, again)
			wrapped = nil
			return nil
		})
		if err != nil {
			return translate(err)
		}
		done = changes.Len()
		return translate(tx.SendBatch(ctx, changes).Close())
	})
	return done, broken, err
}

// Seals is the id of the data key that seals.
func (s DataKeys) Seals() string { return s.sealer.Keys().IDs()[0] }

// SealsAs is the id by which Count knows what is sealed now.
func (s DataKeys) SealsAs() string {
	if id := s.Seals(); id != s.sealer.Keys().First() {
		return id
	}
	return ""
}

// idleFor is how long no process has to have had a data key seal before nothing can be
// on its way under it any more: several times as long as Keep is called apart.
const idleFor = 2 * time.Minute

// Emptied notes which data keys nothing is sealed with, nor will be, and returns those of
// them that are among the keys, and the counts of the others as Count does. A key that has
// yet to seal is none of them. It takes the owner's login.
func (s DataKeys) Emptied(ctx context.Context) (empty []string, counts map[string]int64, err error) {
	// Who has it seal is asked before anything is counted: what they have sealed is
	// counted then.
	known, err := s.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	if counts, err = s.Count(ctx); err != nil {
		return nil, nil, err
	}
	keys := s.sealer.Keys()
	var ids []string
	var used []time.Time
	for _, k := range known {
		n := counts[k.ID]
		if keys.First() == k.ID || keys.First() == "" && !slices.Contains(keys.IDs(), k.ID) {
			n += counts[""] // which are its, or may be
		}
		if n == 0 && k.ID != s.Seals() && k.Idle >= idleFor {
			ids, used = append(ids, k.ID), append(used, k.SealedAt)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// What was used while it was counted is not empty.
	rows, err := s.pool.Query(ctx, `UPDATE data_keys SET emptied_at = clock_timestamp()
		WHERE (id, sealed_at) IN (SELECT * FROM unnest($1::text[], $2::timestamptz[])) RETURNING id`, ids, used)
	if err != nil {
		return nil, counts, translate(err)
	}
	empty, err = pgx.CollectRows(rows, pgx.RowTo[string])
	empty = slices.DeleteFunc(empty, func(id string) bool { return !slices.Contains(keys.IDs(), id) })
	return empty, counts, translate(err)
}
