package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine/approval"
	"holdpoint/internal/seal"
)

// SealedCall is a call as it is sealed, with what it takes to read it.
type SealedCall struct {
	// Approval has its id, its call's agent, dialect and tool, and its plan's terms.
	Approval approval.Approval
	Box      seal.Box // empty where it was erased, and where the document is left out
	Erased   bool
	// Size is how many bytes its canonical arguments have.
	Size int
}

var sealedCallRows = newRows(func(a *approval.Approval) columns {
	c := &a.Call
	return columns{{"id", &a.ID}, {"agent_id", &c.AgentID}, {"dialect", &c.Dialect}, {"tool", &c.Tool}, {"terms", &a.Plan.Terms}}
})

// SealedCalls reads the calls of approvals, in no order; the document is left out where it has
// more than size bytes of arguments.
func (s Reports) SealedCalls(ctx context.Context, ids []string, size int) ([]SealedCall, error) {
	return collect(ctx, s.db, func(row pgx.CollectableRow) (d SealedCall, err error) {
		d.Approval, err = sealedCallRows.one(row, &d.Erased, &d.Size, &d.Box.Data, &d.Box.Key)
		return d, err
	}, `SELECT `+sealedCallRows.names+`, sealed_key IS NULL, sealed_size,
			CASE WHEN sealed_size <= $2 THEN sealed END, CASE WHEN sealed_size <= $2 THEN sealed_key END FROM approvals WHERE id = ANY ($1)`, ids, size)
}
