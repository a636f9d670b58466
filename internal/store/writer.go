package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/internal/seal"
)

// Submission is one decision of the gate, written as a whole or not at all: its
// event and, for a waiting one, the approval that it opens.
type Submission struct {
	Event   engine.Event
	Opening *Opening
	// Once, when set, keeps the answer for a repetition of the request.
	Once *Once
}

// Opening is a new approval.
type Opening struct {
	ID           string
	Call         engine.Call
	RequestedBy  engine.Actor
	MaxState     string
	Decision     engine.Decision
	Requirements []engine.Requirement
	Excluded     []string
	ExpiresIn    time.Duration
	Sealed       seal.Box
	// ArgumentsSize is the size of the canonical arguments, in bytes.
	ArgumentsSize int
}

// Stored is what the database made of a Submission.
type Stored struct {
	// OpenedAt and ExpiresAt are set when an approval was opened.
	OpenedAt, ExpiresAt time.Time

	keptReply bool
}

// Once says how to keep the answer to a request that may be repeated.
type Once struct {
	Credential string // whose key it is
	Key        string // the Idempotency-Key
	Request    []byte // keyed hash of what was asked
	// Render makes the answer that will be kept, from what the operation
	// returned. It is called inside the transaction and must be quick and pure.
	Render func(result any, err error) Reply
}

// Reply is an answer as it went, or goes, over the wire.
type Reply struct {
	Status int
	Header map[string]string
	Body   []byte
}

// Replay is the error that stands for "this was answered before": the caller
// sends the Reply and does nothing else.
type Replay struct{ Reply Reply }

// Error says that the request was a repetition.
func (r *Replay) Error() string { return "the request was answered before" }

type queued struct {
	sub  Submission
	done chan error
	got  Stored
}

// maxBatch bounds how many submissions share one commit.
const maxBatch = 512

// Submit appends a submission in a commit that it shares with whatever else is
// waiting, and returns once that commit is durable. A repetition of a request
// is answered with *Replay. ErrUnavailable means that nothing may be granted,
// although the event may have been written.
func (s *Store) Submit(ctx context.Context, sub Submission) (Stored, error) {
	if sub.Once != nil {
		if err := s.replay(ctx, sub.Once); err != nil {
			return Stored{}, err
		}
	}
	q := &queued{sub: sub, done: make(chan error, 1)}
	select {
	case s.queue <- q:
	case <-ctx.Done():
		return Stored{}, fmt.Errorf("%w: the write queue is full", ErrUnavailable)
	case <-s.stopped:
		return Stored{}, fmt.Errorf("%w: shutting down", ErrUnavailable)
	}
	// The wait outlives the caller's patience only as long as the flush may
	// take: an answer that nobody hears is still a durable event.
	select {
	case err := <-q.done:
		return q.got, err
	case <-s.stopped:
		return Stored{}, fmt.Errorf("%w: shutting down", ErrUnavailable)
	case <-ctx.Done():
		return Stored{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// write is the group-commit loop: it flushes whatever has queued as soon as the
// former commit has returned, with no artificial delay.
func (s *Store) write(ctx context.Context) {
	defer close(s.stopped)
	batch := make([]*queued, 0, maxBatch)
	for {
		batch = batch[:0]
		select {
		case q := <-s.queue:
			batch = append(batch, q)
		case <-ctx.Done():
			return
		}
	drain:
		for len(batch) < maxBatch {
			select {
			case q := <-s.queue:
				batch = append(batch, q)
			default:
				break drain
			}
		}
		started := time.Now()
		s.flush(context.WithoutCancel(ctx), batch)
		if s.observe != nil {
			s.observe(len(batch), time.Since(started))
		}
	}
}

// flush commits a batch and tells everybody in it. A batch that Postgres
// refuses is tried one by one, so that one bad row harms nobody else; a lost
// connection is tried once more, because every row has an id of its own and
// writing it twice is writing it once. Silence is not: whoever asked has waited
// long enough.
func (s *Store) flush(ctx context.Context, batch []*queued) {
	err := s.commit(ctx, batch)
	if errors.Is(err, ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		err = s.commit(ctx, batch)
	}
	if err != nil && !errors.Is(err, ErrUnavailable) && len(batch) > 1 {
		for _, q := range batch {
			q.done <- s.commit(ctx, []*queued{q})
		}
		return
	}
	for _, q := range batch {
		if err == nil && q.sub.Once != nil {
			// Whoever came first kept the answer; that is the answer for all.
			q.done <- s.ownReply(ctx, q)
			continue
		}
		q.done <- err
	}
}

// ownReply answers nil to the submission whose answer was kept, and the kept
// answer to every other one.
func (s *Store) ownReply(ctx context.Context, q *queued) error {
	if q.got.keptReply {
		return nil
	}
	if err := s.replay(ctx, q.sub.Once); err != nil {
		return err
	}
	return fmt.Errorf("%w: the answer kept for the idempotency key is gone", ErrUnavailable)
}

func (s *Store) commit(ctx context.Context, batch []*queued) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows := &pgx.Batch{}
	events := make([]engine.Event, len(batch))
	once := false
	for i, q := range batch {
		events[i] = q.sub.Event
		q.got = Stored{}
		once = once || q.sub.Once != nil
	}
	if err := queueEvents(rows, events); err != nil {
		return err
	}
	for _, q := range batch {
		if o := q.sub.Opening; o != nil {
			if err := queueOpening(rows, o, q); err != nil {
				return err
			}
		}
	}
	if !once {
		// A batch without BEGIN is one implicit transaction and one round trip.
		return translate(s.pool.SendBatch(ctx, rows).Close())
	}
	return s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.SendBatch(ctx, rows).Close(); err != nil {
			return translate(err)
		}
		keep := &pgx.Batch{}
		for _, q := range batch {
			if q.sub.Once == nil {
				continue
			}
			approval := ""
			if q.sub.Opening != nil {
				approval = q.sub.Opening.ID
			}
			if err := queueReply(keep, q.sub.Once, approval, q.sub.Once.Render(q.got, nil), func() { q.got.keptReply = true }); err != nil {
				return err
			}
		}
		return translate(tx.SendBatch(ctx, keep).Close())
	})
}

// queueEvents adds one append of events to a batch.
func queueEvents(rows *pgx.Batch, events []engine.Event) error {
	n := len(events)
	ids, types, outcomes := make([]string, n), make([]string, n), make([]string, n)
	agents, tools, approvals, bodies := make([]string, n), make([]string, n), make([]string, n), make([][]byte, n)
	for i, e := range events {
		e.Seq, e.Timestamp = 0, time.Time{}
		body, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode event %s: %w", e.ID, err)
		}
		ids[i], types[i], outcomes[i] = e.ID, string(e.Type), string(e.Outcome)
		agents[i], tools[i], approvals[i], bodies[i] = e.AgentID, e.ToolName, e.ApprovalID, body
	}
	rows.Queue(`SELECT count(*) FROM append_events($1::text[]::uuid[], $2, $3, $4, $5, $6, $7)`,
		ids, types, outcomes, agents, tools, approvals, bodies)
	return nil
}

// queueOpening adds an approval and its outbox row to a batch, if the event
// that decided so is the one that was written: of two different requests under
// one Idempotency-Key only the first leaves anything. On a second try the
// approval may already be there; its times are read back either way.
func queueOpening(rows *pgx.Batch, o *Opening, q *queued) error {
	requestedBy, err1 := json.Marshal(o.RequestedBy)
	decision, err2 := json.Marshal(o.Decision)
	requirements, err3 := json.Marshal(o.Requirements)
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("encode approval %s: %w", o.ID, err)
	}
	excluded := o.Excluded
	if excluded == nil {
		excluded = []string{}
	}
	c := o.Call
	rows.Queue(`INSERT INTO approvals (id, agent_id, request_id, dialect, tool, category, risk_domain, environment, digest, requested_by,
			max_state, decision, requirements, excluded, expires_in, sealed, sealed_key, sealed_size)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, make_interval(secs => $15), $16, $17, $18
		WHERE EXISTS (SELECT FROM events WHERE event_id = $19::text::uuid AND approval_id = $1)
		ON CONFLICT (id) DO NOTHING`,
		o.ID, c.AgentID, c.RequestID, c.Dialect, c.Tool, c.Category, c.RiskDomain, c.Environment, c.Digest, requestedBy,
		o.MaxState, decision, requirements, excluded, o.ExpiresIn.Seconds(), o.Sealed.Data, o.Sealed.Key, o.ArgumentsSize, q.sub.Event.ID)
	rows.Queue(`INSERT INTO outbox (approval_id) SELECT id FROM approvals WHERE id = $1`, o.ID)
	rows.Queue(`SELECT opened_at, expires_at FROM approvals WHERE id = $1`, o.ID).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&q.got.OpenedAt, &q.got.ExpiresAt)
		if errors.Is(err, pgx.ErrNoRows) && q.sub.Once != nil {
			return nil // the key is another request's, whose answer will say so
		}
		return err
	})
	return nil
}
