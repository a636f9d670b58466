package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"holdpoint/internal/seal"
)

// Drafts keeps what people have written on a card and not sent, sealed. Whatever ends
// an approval takes its drafts away, and an erasure of the person theirs.
type Drafts struct{ *db }

// Draft is what somebody has written into one form.
type Draft struct {
	Form string
	Box  seal.Box
}

// Save keeps a draft in place of the one before. ErrNotFound: nothing can be sent about
// the approval any more.
func (s Drafts) Save(ctx context.Context, approvalID, personID string, d Draft) error {
	// The lock keeps the approval from ending in between, after which nothing would take
	// the draft away.
	return s.change(ctx, `INSERT INTO drafts AS d (approval_id, person_id, form, sealed, sealed_key)
		SELECT a.id, $2, $3, $4, $5 FROM approvals a
		WHERE a.id = $1 AND (a.status = 'pending' OR a.execution = 'unknown' OR EXISTS (SELECT FROM afterwards w WHERE w.approval_id = a.id AND w.done_at IS NULL))
		FOR SHARE OF a
		ON CONFLICT (approval_id, person_id, form) DO UPDATE SET sealed = excluded.sealed, sealed_key = excluded.sealed_key, saved_at = clock_timestamp()`,
		approvalID, personID, d.Form, d.Box.Data, d.Box.Key)
}

// Of lists the person's drafts about an approval.
func (s Drafts) Of(ctx context.Context, approvalID, personID string) ([]Draft, error) {
	return collect(ctx, s.db, func(row pgx.CollectableRow) (d Draft, err error) {
		return d, row.Scan(&d.Form, &d.Box.Data, &d.Box.Key)
	}, `SELECT form, sealed, sealed_key FROM drafts WHERE approval_id = $1 AND person_id = $2`, approvalID, personID)
}

// Delete takes a draft away, if there is one.
func (s Drafts) Delete(ctx context.Context, approvalID, personID, form string) error {
	return s.exec(ctx, `DELETE FROM drafts WHERE approval_id = $1 AND person_id = $2 AND form = $3`, approvalID, personID, form)
}
