package store

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/internal/seal"
)

// ErrEdition is of something that was changed since it was looked at.
var ErrEdition = errors.New("it has another edition by now")

// EndpointContent is what an endpoint tells, and what is secret about it.
type EndpointContent struct {
	Settings json.RawMessage
	Secret   []byte // nil for none
}

// EndpointEditions is an endpoint as one look has it, with what was last proposed in place of it.
type EndpointEditions struct {
	Endpoint
	Secret  []byte
	Edition int64
	// Next is nil where nothing is proposed. NextEdition is the last number that a proposal had.
	Next        *EndpointContent
	NextEdition int64
}

// Fresh is the number that the next change of the endpoint gets, or the next one that is proposed.
func (e EndpointEditions) Fresh() int64 { return max(e.Edition, e.NextEdition) + 1 }

// Editions reads an endpoint, what is secret about it, and what is proposed. ErrNotFound: there is none.
func (s Endpoints) Editions(ctx context.Context, id string) (EndpointEditions, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var is, next seal.Box
	var e EndpointEditions
	var settings json.RawMessage
	row := s.pool.QueryRow(ctx, `SELECT `+endpointRows.names+`, sealed, sealed_key, edition, next_settings, next_sealed, next_sealed_key, next_edition FROM endpoints WHERE id = $1`, id)
	var err error
	if e.Endpoint, err = endpointRows.one(row, &is.Data, &is.Key, &e.Edition, &settings, &next.Data, &next.Key, &e.NextEdition); err != nil {
		return e, translate(err)
	}
	if e.Secret, err = s.openSecret(id, is); err != nil || settings == nil {
		return e, err
	}
	e.Next = &EndpointContent{Settings: settings}
	e.Next.Secret, err = s.openSecret(id, next)
	return e, err
}

// Propose keeps what an endpoint that is on would become, as edition e.Fresh(), in place of what was
// proposed before, and opens the approval that it waits for; nil opens none. ErrEdition: the endpoint is
// not as e says any more.
func (s Endpoints) Propose(ctx context.Context, e EndpointEditions, next EndpointContent, opens *Submission) error {
	box, err := s.sealSecret(e.ID, next.Secret)
	if err != nil {
		return err
	}
	return s.opening(ctx, opens, nil, func(ctx context.Context, tx pgx.Tx) error {
		return s.numbered(ctx, tx, e.Fresh(), `UPDATE endpoints SET next_settings = $4, next_sealed = $5, next_sealed_key = $6
			WHERE id = $1 AND edition = $2 AND next_edition = $3 AND disabled_at IS NULL RETURNING next_edition`,
			e.ID, e.Edition, e.NextEdition, next.Settings, box.Data, box.Key)
	})
}

// Replace gives an endpoint that is off other content, as edition e.Fresh(), and opens the approval
// by which it is on; nil opens none. ErrEdition: the endpoint is not as e says any more.
func (s Endpoints) Replace(ctx context.Context, e EndpointEditions, next EndpointContent, opens *Submission, ev engine.Event) error {
	box, err := s.sealSecret(e.ID, next.Secret)
	if err != nil {
		return err
	}
	return s.opening(ctx, opens, &ev, func(ctx context.Context, tx pgx.Tx) error {
		return s.numbered(ctx, tx, e.Fresh(), `UPDATE endpoints SET settings = $4, sealed = $5, sealed_key = $6
			WHERE id = $1 AND edition = $2 AND next_edition = $3 AND disabled_at IS NOT NULL RETURNING edition`,
			e.ID, e.Edition, e.NextEdition, next.Settings, box.Data, box.Key)
	})
}

// numbered runs a change of an endpoint, which returns the number that its edition gets.
func (s Endpoints) numbered(ctx context.Context, tx pgx.Tx, want int64, sql string, args ...any) error {
	var got int64
	err := tx.QueryRow(ctx, sql, args...).Scan(&got)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && got != want {
		return ErrEdition
	}
	return translate(err)
}

// CreateOff is Create of an endpoint that is off, and opens the approval by which it is on; nil opens
// none.
func (s Endpoints) CreateOff(ctx context.Context, e Endpoint, secret []byte, opens *Submission, ev engine.Event) error {
	return s.opening(ctx, opens, &ev, func(ctx context.Context, tx pgx.Tx) error { return s.create(ctx, tx, e, secret, true) })
}

// opening makes a change together with the approval that it opens, nil for none, and with an event,
// nil for none: neither is there without the others. It keeps the answer where opens says so.
func (s Endpoints) opening(ctx context.Context, opens *Submission, e *engine.Event, change func(context.Context, pgx.Tx) error) error {
	return s.inTxOn(ctx, s.reserve, func(ctx context.Context, tx pgx.Tx) error {
		var once *Idempotency[SubmitResult]
		if opens != nil {
			once = opens.Idempotency
		}
		if once != nil {
			if err := lockKeys(ctx, tx, []int64{once.lock()}); err != nil {
				return err
			}
			if err := s.replayIn(ctx, tx, once.Of()); err != nil {
				return err
			}
		}
		if err := change(ctx, tx); err != nil {
			return err
		}
		if err := s.submitIn(ctx, tx, opens); err != nil {
			return err
		}
		rows := &pgx.Batch{}
		if e != nil {
			queueEvents(rows, []engine.Event{*e}, nil)
		}
		if once != nil {
			if err := s.queueReply(rows, once.Of(), opens.Opening.ID, "", once.Render(SubmitResult{}, nil)); err != nil {
				return err
			}
		}
		if rows.Len() == 0 {
			return nil
		}
		return translate(tx.SendBatch(ctx, rows).Close())
	})
}
