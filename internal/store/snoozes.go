package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Snooze keeps an approval out of the person's inbox for so long. ErrConflict: its time is
// up before that, or it waits no more.
func (s Inbox) Snooze(ctx context.Context, personID, approvalID string, long time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// The lock keeps the approval from ending in between, after which nothing would take
	// the row away.
	tag, err := s.pool.Exec(ctx, `INSERT INTO snoozes (person_id, approval_id, until)
		SELECT $1, a.id, clock_timestamp() + make_interval(secs => $3) FROM approvals a
		WHERE a.id = $2 AND a.status = 'pending' AND a.due_at > (SELECT clock_timestamp()) + make_interval(secs => $3) FOR SHARE OF a
		ON CONFLICT (person_id, approval_id) DO UPDATE SET until = excluded.until`, personID, approvalID, long.Seconds())
	if err == nil && tag.RowsAffected() == 0 {
		return ErrConflict
	}
	return translate(err)
}

// Unsnooze brings it back; what is not snoozed stays so.
func (s Inbox) Unsnooze(ctx context.Context, personID, approvalID string) error {
	return s.exec(ctx, `DELETE FROM snoozes WHERE person_id = $1 AND approval_id = $2`, personID, approvalID)
}

// Snoozed is until when the person has snoozed the approval; the zero time for not at all.
func (s Inbox) Snoozed(ctx context.Context, personID, approvalID string) (until time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, `SELECT z.until FROM snoozes z JOIN approvals a ON a.id = z.approval_id WHERE z.person_id = $1 AND z.approval_id = $2 AND `+snoozed,
		personID, approvalID).Scan(&until)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	return until.UTC(), translate(err)
}

// fillSnoozes says of the approvals of a page until when the person has snoozed them.
func (s Inbox) fillSnoozes(ctx context.Context, personID string, page *InboxPage) error {
	ids := make([]string, len(page.Rows))
	for i, row := range page.Rows {
		ids[i] = row.ID
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT approval_id, until FROM snoozes WHERE person_id = $1 AND approval_id = ANY ($2)`, personID, ids)
	if err != nil {
		return translate(err)
	}
	var id string
	var until time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &until}, func() error {
		if i := slices.Index(ids, id); i >= 0 {
			page.Rows[i].SnoozedUntil = until.UTC()
		}
		return nil
	})
	return translate(err)
}

// snoozed is the condition that a row of snoozes, z, hides its approval, a: never what is
// due before the end.
const snoozed = `z.until > clock_timestamp() AND z.until < a.due_at`
