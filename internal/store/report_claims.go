package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ClaimCounts is how often an agent's word excluded people from deciding: somebody, or
// anybody at all for the Identity "". Before counts the same of the period before, which
// is as long. Opened and Widened, of the agent as a whole, count all its approvals of
// the period, and those that were widened because claims left too few.
type ClaimCounts struct {
	AgentID, Identity string
	Times, Before     int
	Opened, Widened   int
}

// Claimed counts, for each agent, the approvals opened in a period that exclude people
// by claim; until is not in it.
func (s Reports) Claimed(ctx context.Context, since, until time.Time) ([]ClaimCounts, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	var list []ClaimCounts
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, reportTimeout.Milliseconds())); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, claimed, since.Add(-until.Sub(since)), since, until)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ClaimCounts])
		return err
	})
	return list, translate(err)
}

const claimed = `WITH opened AS (
		SELECT id, agent_id, opened_at >= $2 AS late, terms->'excluded_by_claim' AS claims FROM approvals WHERE opened_at >= $1 AND opened_at < $3)
	SELECT agent_id, '', count(*) FILTER (WHERE late AND claims IS NOT NULL), count(*) FILTER (WHERE NOT late AND claims IS NOT NULL), count(*) FILTER (WHERE late),
		count(*) FILTER (WHERE late AND claims IS NOT NULL AND EXISTS (
			SELECT FROM facts f WHERE f.approval_id = id AND f.kind = 'escalate' AND f.details ? 'widened'))
	FROM opened GROUP BY agent_id HAVING bool_or(claims IS NOT NULL)
	UNION ALL
	SELECT agent_id, who, count(*) FILTER (WHERE late), count(*) FILTER (WHERE NOT late), 0, 0
	FROM opened, jsonb_array_elements_text(claims) who GROUP BY agent_id, who
	ORDER BY 1, 2`
