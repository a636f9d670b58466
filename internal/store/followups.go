package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine/approval"
)

// Reconciliation is what a person found out about a call of which nobody knew
// whether it had run.
type Reconciliation struct {
	PersonID string
	Outcome  approval.Execution
	SaltedComment
	At time.Time
}

var breakGlassReviewRows = newRows(func(a *BreakGlassReview) columns {
	return columns{
		{"coalesce(person_id, '')", &a.PersonID},
		{"coalesce(justified, false)", &a.Justified},
		{"comment", &a.Comment},
		{"salt", &a.Salt},
		{"owed_at", &a.DueSince},
		{"done_at", &a.DoneAt},
	}
})

var reconciliationRows = newRows(func(r *Reconciliation) columns {
	return columns{{"person_id", &r.PersonID}, {"outcome", &r.Outcome}, {"comment", &r.Comment}, {"salt", &r.Salt}, {"at", &r.At}}
})

// AfterEnd reads what came after an approval's end: what is owed of it or has
// been said since, and what a person found out; nil for nothing.
func (s Approvals) AfterEnd(ctx context.Context, approvalID string) (*BreakGlassReview, *Reconciliation, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var owed *BreakGlassReview
	var found *Reconciliation
	rows := &pgx.Batch{}
	rows.Queue(`SELECT `+breakGlassReviewRows.names+` FROM afterwards WHERE approval_id = $1`, approvalID).QueryRow(func(row pgx.Row) error {
		a, err := breakGlassReviewRows.one(row)
		if err == nil {
			owed = &a
		}
		return unlessNone(err)
	})
	rows.Queue(`SELECT `+reconciliationRows.names+` FROM reconciliations WHERE approval_id = $1`, approvalID).QueryRow(func(row pgx.Row) error {
		r, err := reconciliationRows.one(row)
		if err == nil {
			found = &r
		}
		return unlessNone(err)
	})
	return owed, found, translate(s.pool.SendBatch(ctx, rows).Close())
}

func unlessNone(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Which approvals ExecutionUnknown and Requesting list. Both are asked for with each look
// at an inbox, and found by indexes.
const (
	whereUnknown    = ` WHERE execution = 'unknown' AND ($1 OR excluded @> ARRAY[$2::text]) ORDER BY ended_at, id LIMIT $3`
	whereRequesting = ` WHERE status = 'pending' AND excluded @> ARRAY[$1::text] ORDER BY expires_at, id LIMIT $2`
)

// ExecutionUnknown lists up to limit approvals of which nobody knows whether
// their call ran, the oldest first: all, or those that exclude the identity
// because it is on the requesting side.
func (s Approvals) ExecutionUnknown(ctx context.Context, all bool, identity string, limit int) ([]approval.Approval, error) {
	list, _, err := s.list(ctx, `SELECT `+approvalRows.names+`, clock_timestamp() FROM approvals`+whereUnknown, all, identity, limit)
	return list, err
}

// AwaitingBreakGlassReview lists up to limit approvals for which one person broke the glass and
// at which nobody has looked since, the oldest first, but for those that exclude
// the identity.
func (s Approvals) AwaitingBreakGlassReview(ctx context.Context, identity string, limit int) ([]approval.Approval, error) {
	list, _, err := s.list(ctx, `WITH owed AS (SELECT approval_id, owed_at FROM afterwards WHERE done_at IS NULL)
		SELECT `+approvalRows.names+`, clock_timestamp() FROM owed JOIN approvals ON id = approval_id
		WHERE NOT $1 = ANY (excluded) ORDER BY owed_at, id LIMIT $2`, identity, limit)
	return list, err
}

// Requesting lists up to limit pending approvals that exclude the identity, the
// first to end first.
func (s Approvals) Requesting(ctx context.Context, identity string, limit int) ([]approval.Approval, error) {
	list, _, err := s.list(ctx, `SELECT `+approvalRows.names+`, clock_timestamp() FROM approvals`+whereRequesting, identity, limit)
	return list, err
}

// AwaitingTickets lists up to limit pending approvals that wait for a ticket and give one of
// the roles a say, the first to end first; with nobodys also those that give nobody one
// and have no requesting side.
func (s Approvals) AwaitingTickets(ctx context.Context, roles []string, nobodys bool, limit int) ([]approval.Approval, error) {
	list, _, err := s.list(ctx, `SELECT `+approvalRows.names+`, clock_timestamp() FROM approvals
		WHERE status = 'pending' AND requirements @> '[{"kind": "ticket"}]' AND waits_for IN ('ticket', '')
			AND (asked_roles(requirements, terms) && $1 OR $2 AND asked_roles(requirements, terms) = '{}' AND excluded = '{}') ORDER BY expires_at, id LIMIT $3`, roles, nobodys, limit)
	return list, err
}

// OfSession lists up to limit approvals of one of an agent's sessions: those that
// wait first, and of each the oldest first.
func (s Approvals) OfSession(ctx context.Context, agentID, session string, limit int) ([]approval.Approval, error) {
	if session == "" {
		return nil, nil
	}
	list, _, err := s.list(ctx, `SELECT `+approvalRows.names+`, clock_timestamp() FROM approvals
		WHERE agent_id = $1 AND session = $2 ORDER BY status <> 'pending', opened_at, id LIMIT $3`, agentID, session, limit)
	return list, err
}

// SessionSize is how many approvals one of an agent's sessions has.
func (s Approvals) SessionSize(ctx context.Context, agentID, session string) (int, error) {
	return value[int](ctx, s.db, `SELECT count(*) FROM approvals WHERE agent_id = $1 AND session = $2 AND session <> ''`, agentID, session)
}
