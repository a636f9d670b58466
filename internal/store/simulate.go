package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// Past lists up to limit approvals of any status in order of id, after
// the given one, with their facts and sealed documents: for judging all of
// them again bit by bit. The next page begins after the last one's id.
func (s Approvals) Past(ctx context.Context, after string, limit int) ([]Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var page []Record
	// One snapshot: an approval and its facts belong together.
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+approvalRows.names+`, sealed, sealed_key, sealed_size, clock_timestamp() FROM approvals
			WHERE id > $1 ORDER BY id LIMIT $2`, after, limit)
		if err != nil {
			return err
		}
		page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Record, error) {
			var r Record
			var err error
			r.Approval, err = approvalRows.one(row, &r.Sealed.Data, &r.Sealed.Key, &r.Size, &r.Now)
			return r, err
		})
		if err != nil {
			return err
		}
		facts := &pgx.Batch{}
		for i := range page {
			queueFacts(facts, s.sealer, &page[i].Approval)
		}
		return tx.SendBatch(ctx, facts).Close()
	})
	if err != nil {
		return nil, translate(err)
	}
	for i := range page {
		page[i].Approval.ComputeState(page[i].Now)
	}
	return page, nil
}

// DecidedAtOnce is how many calls of a tool got an outcome without waiting.
type DecidedAtOnce struct {
	Tool    string
	Outcome engine.Outcome
	Count   int
}

// CountDecidedAtOnce counts the decisions, from since on, that opened no
// approval, by tool and outcome. Nothing is kept of their arguments.
func (s Reports) CountDecidedAtOnce(ctx context.Context, since time.Time) ([]DecidedAtOnce, error) {
	return collect(ctx, s.db, pgx.RowToStructByPos[DecidedAtOnce], `SELECT tool_name, outcome, count(*) FROM events
		WHERE type = $1 AND approval_id IS NULL AND appended_at >= $2 GROUP BY tool_name, outcome ORDER BY tool_name, outcome`, string(engine.Decided), since)
}
