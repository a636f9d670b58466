package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/fair"
	"holdpoint/internal/seal"
)

// Submission is one decision of the gate, written as a whole or not at all: its
// event and, for a waiting one, the approval that it opens.
type Submission struct {
	Event   engine.Event
	Opening *Opening
	// Idempotency, when set, keeps the answer for a repetition of the request.
	Idempotency *Idempotency[SubmitResult]
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
	Terms        approval.Terms
	approval.Circumstances
	ExpiresIn time.Duration
	Sealed    seal.Box
	// ArgumentsSize is the size of the canonical arguments, in bytes.
	ArgumentsSize int
	// asking is whom it asks first; Submit computes it.
	asking approval.Asking
	// Joins says that nothing is opened while an approval waits for the same:
	// submitting it fails with *Waiting then.
	Joins bool
	// Binding, when set, is what the opening's event has as its binding: it joins no
	// approval whose own event has another one.
	Binding string
	// Proposes is what comes into force when it is approved; nil for a call.
	Proposes *ProposedDocument
}

// Waiting is the error that stands for "this very call waits already": nothing was
// written.
type Waiting struct{ ApprovalID string }

// Error says that the call waits.
func (w *Waiting) Error() string { return "the call waits as " + w.ApprovalID }

// SubmitResult is what the database made of a Submission.
type SubmitResult struct {
	// At is when the event was appended.
	At time.Time
	// OpenedAt and ExpiresAt are set when an approval was opened.
	OpenedAt, ExpiresAt time.Time
}

// Request names a request that may be repeated.
type Request struct {
	Credential string // whose key it is
	Key        string // the Idempotency-Key
	Hash       []byte // keyed hash of what was asked
}

// Idempotency says how to keep the answer to a request that may be repeated, and whose
// operation returns T.
type Idempotency[T any] struct {
	Request
	// Render makes the answer that will be kept, from what the operation
	// returned. It is called inside the transaction and must be quick and pure.
	Render func(result T, err error) Reply
}

// Of is the request that o keeps the answer to; nil for a nil o.
func (o *Idempotency[T]) Of() *Request {
	if o == nil {
		return nil
	}
	return &o.Request
}

// Done is the result of an operation that returns nothing.
type Done = struct{}

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
	room func()            // gives back its place in the queue
	span trace.SpanContext // of the request
	done chan error
	got  SubmitResult
	err  error
}

// maxBatch and maxBatchBytes bound what shares one commit: what comes next waits for
// all of it. A submission that is longer has a commit to itself.
const (
	maxBatch      = 512
	maxBatchBytes = 1 << 20
	// longSubmission is from where on a submission goes to a writer of its own: a
	// mebibyte takes a database as long as hundreds of short ones.
	longSubmission = 64 << 10
	// maxQueued is how many submissions wait for the writer.
	maxQueued = 4096
)

// size is about how much is written for a submission.
func (q *queued) size() int {
	n := len(q.sub.Event.SafePayload)
	if q.sub.Opening != nil {
		n += len(q.sub.Opening.Sealed.Data)
		if p := q.sub.Opening.Proposes; p != nil {
			n += len(p.Body)
		}
	}
	return n
}

// pending are the submissions that wait for a commit: credentials take turns. It is safe for
// concurrent use.
//
// Who comes while no commit is under way makes one, with its own goroutine: handing it to
// another one and hearing from that again costs a caller who is alone more than its append.
// What comes meanwhile waits, and shares the next one, which the writer makes.
type pending struct {
	room *fair.Pool
	some chan struct{} // has one when there may be submissions for the writer

	mu    sync.Mutex
	turns fair.Turns[*queued]
	busy  bool // a commit is under way
}

func newPending() *pending {
	return &pending{room: fair.NewPool(maxQueued), some: make(chan struct{}, 1)}
}

// patience is how long a caller has to be ready to wait, who makes a commit.
const patience = 3 * time.Second

// add queues a submission, and says whether its caller is to make the next commit. The error
// is that there was no room before ctx ended.
func (p *pending) add(ctx context.Context, q *queued) (leads bool, err error) {
	who := q.sub.Event.Actor.ID
	if q.room, err = p.room.Take(ctx, who, 1); err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns.Add(who, q)
	switch until, bounded := ctx.Deadline(); {
	case p.busy:
		return false, nil // the end of that commit calls the writer
	case bounded && time.Until(until) < patience:
		p.call()
		return false, nil
	}
	p.busy = true
	return true, nil
}

// call has the writer look.
func (p *pending) call() {
	select {
	case p.some <- struct{}{}:
	default: // it has yet to look
	}
}

// begin reports whether the writer is to make a commit.
func (p *pending) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy || p.turns.Len() == 0 {
		return false
	}
	p.busy = true
	return true
}

// take takes what the commit that has begun is to have.
func (p *pending) take(batch []*queued) []*queued {
	p.mu.Lock()
	defer p.mu.Unlock()
	for bytes := 0; len(batch) < maxBatch; {
		q, ok := p.turns.Head()
		if !ok || len(batch) > 0 && bytes+q.size() > maxBatchBytes {
			break
		}
		p.turns.Next()
		bytes += q.size()
		q.room()
		batch = append(batch, q)
	}
	return batch
}

// end says that the commit is over, and has the writer make the next one where somebody waits.
func (p *pending) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = false
	if p.turns.Len() > 0 {
		p.call()
	}
}

// Submit appends a submission in a commit that it shares with whatever else is
// waiting, and returns once that commit is durable. A repetition of a request
// is answered with *Replay. ErrUnavailable means that nothing may be granted,
// although the event may have been written.
func (s *Store) Submit(ctx context.Context, sub Submission) (SubmitResult, error) {
	fair.Done(ctx) // it is judged; what it waits for now is the database
	if sub.Idempotency != nil {
		if err := s.Answered(ctx, sub.Idempotency.Of()); err != nil {
			return SubmitResult{}, err
		}
	}
	s.setAsking(sub.Opening)
	q := &queued{sub: sub, done: make(chan error, 1), span: trace.SpanContextFromContext(ctx)}
	queue := s.short
	if q.size() >= longSubmission {
		queue = s.long
	}
	leads, err := queue.add(ctx, q)
	if err != nil {
		return SubmitResult{}, fmt.Errorf("%w: the write queue is full", ErrUnavailable)
	}
	if leads {
		until, _ := ctx.Deadline()
		s.flush(context.WithoutCancel(ctx), queue, nil, until, func(rest func()) { go rest() })
	}
	// The wait outlives the caller's patience only as long as the flush may
	// take: an answer that nobody hears is still a durable event.
	select {
	case err := <-q.done:
		if errors.Is(err, errTwin) {
			// Its twin has been answered by now, and that is its answer too.
			if err = s.Answered(ctx, sub.Idempotency.Of()); err == nil {
				err = fmt.Errorf("%w: the answer kept for the idempotency key is gone", ErrUnavailable)
			}
		}
		return q.got, err
	case <-s.stopped:
		return SubmitResult{}, fmt.Errorf("%w: shutting down", ErrUnavailable)
	case <-ctx.Done():
		return SubmitResult{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// setAsking computes whom an opening asks first; nil asks nobody.
func (s *db) setAsking(o *Opening) {
	if o == nil {
		return
	}
	asked := o.approval()
	asked.Status, asked.Plan.OpenedAt = approval.Pending, s.Clock()
	asked.Plan.ExpiresAt = asked.Plan.OpenedAt.Add(o.ExpiresIn)
	o.asking = asked.Asking(asked.Plan.OpenedAt)
}

// submitIn writes a submission, none for nil, in the transaction of something else: neither is
// there without the other.
func (s *db) submitIn(ctx context.Context, tx pgx.Tx, sub *Submission) error {
	if sub == nil {
		return nil
	}
	s.setAsking(sub.Opening)
	return translate(tx.SendBatch(ctx, queueAll([]*queued{{sub: *sub, span: trace.SpanContextFromContext(ctx)}}, false)).Close())
}

// write is a group-commit loop: it commits whatever has queued as soon as the former commit
// has returned, with no artificial delay.
func (s *Store) write(ctx context.Context, p *pending) {
	room := make([]*queued, 0, maxBatch)
	for {
		select {
		case <-p.some:
		case <-ctx.Done():
			return
		}
		if p.begin() {
			s.flush(context.WithoutCancel(ctx), p, room[:0], time.Time{}, func(rest func()) { rest() })
		}
	}
}

// flush makes the commit that has begun, until a time unless that is zero, and tells everybody
// in it. What is left to do where it fails, which may take as long again, is for later: a
// caller has another goroutine do it.
func (s *Store) flush(ctx context.Context, p *pending, room []*queued, until time.Time, later func(rest func())) {
	batch, started, failed := p.take(room), time.Now(), false
	ctx, span := s.spanOf(ctx, batch)
	first := ctx
	if !until.IsZero() {
		var cancel func()
		first, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	end := func() {
		p.end()
		span.End()
		if s.observe != nil {
			s.observe(len(batch), time.Since(started))
		}
	}
	defer func() {
		if !failed {
			end() // also of a panic: the others must not wait for ever
		}
	}()
	err := s.commit(first, batch, false)
	if failed = err != nil; failed {
		later(func() {
			defer end()
			s.retry(ctx, batch, err)
		})
		return
	}
	s.writes.ended(nil)
	for _, q := range batch {
		s.finish(q)
	}
}

// retry goes on with a batch of which the commit has failed. A batch that Postgres refuses is
// tried one by one, so that one bad row harms nobody else; a lost connection is tried once
// more, because every row has an id of its own and writing it twice is writing it once.
// Silence is not: whoever asked has waited long enough.
func (s *Store) retry(ctx context.Context, batch []*queued, err error) {
	again := errors.Is(err, ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded)
	if again {
		err = s.commit(ctx, batch, again)
	}
	s.writes.ended(err)
	one := err != nil && !errors.Is(err, ErrUnavailable) && len(batch) > 1
	for _, q := range batch {
		failure := err
		if one {
			failure = s.commit(ctx, []*queued{q}, again)
		}
		if failure != nil {
			q.err = failure
		}
		s.finish(q)
	}
}

// finish tells whoever waits for a submission what has become of it.
func (s *Store) finish(q *queued) {
	if q.err == nil && s.observer != nil {
		s.observer.Recorded(q.sub.Event)
	}
	q.done <- q.err
}

// commit writes a batch in one transaction. again says that it may have been
// written before. A submission that turns out to be a repetition is left out,
// with what stands for it in its err.
func (s *Store) commit(ctx context.Context, batch []*queued, again bool) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var repeatable, joining []*queued
	for _, q := range batch {
		q.got, q.err = SubmitResult{}, nil
		if q.sub.Idempotency != nil {
			repeatable = append(repeatable, q)
		}
		if q.sub.Opening != nil && q.sub.Opening.Joins {
			joining = append(joining, q)
		}
	}
	if len(repeatable)+len(joining) == 0 {
		rows := queueAll(batch, again)
		if again {
			rows.Queue(writeNothing)
		}
		// A batch without BEGIN is one implicit transaction and one round trip.
		return translate(s.pool.SendBatch(ctx, rows).Close())
	}
	return s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if len(repeatable) > 0 {
			if err := s.claimKeys(ctx, tx, repeatable); err != nil {
				return err
			}
		}
		if len(joining) > 0 {
			if err := findWaiting(ctx, tx, joining); err != nil {
				return err
			}
		}
		fresh := slices.DeleteFunc(slices.Clone(batch), func(q *queued) bool { return q.err != nil })
		if again || len(fresh) < len(batch) {
			// What is answered was written by another commit.
			if _, err := tx.Exec(ctx, writeNothing); err != nil {
				return translate(err)
			}
		}
		if err := tx.SendBatch(ctx, queueAll(fresh, again)).Close(); err != nil {
			return translate(err)
		}
		keep := &pgx.Batch{}
		for _, q := range fresh {
			if q.sub.Idempotency == nil {
				continue
			}
			approval := ""
			if q.sub.Opening != nil {
				approval = q.sub.Opening.ID
			}
			if err := s.queueReply(keep, q.sub.Idempotency.Of(), approval, "", q.sub.Idempotency.Render(q.got, nil)); err != nil {
				return err
			}
		}
		if keep.Len() == 0 {
			return nil
		}
		return translate(tx.SendBatch(ctx, keep).Close())
	})
}

// claimKeys takes the locks of the submissions' idempotency keys and marks
// those that are repetitions, of what was kept or of one another.
func (s *Store) claimKeys(ctx context.Context, tx pgx.Tx, repeatable []*queued) error {
	locks := make([]int64, len(repeatable))
	for i, q := range repeatable {
		locks[i] = q.sub.Idempotency.lock()
	}
	// Everybody takes them in the same order.
	slices.Sort(locks)
	if err := lockKeys(ctx, tx, locks); err != nil {
		return err
	}
	first := map[[2]string]*Request{}
	for _, q := range repeatable {
		o := q.sub.Idempotency.Of()
		if q.err = s.replayIn(ctx, tx, o); q.err != nil {
			var kept *Replay
			if !errors.As(q.err, &kept) && !errors.Is(q.err, ErrOtherRequest) {
				return q.err
			}
			continue
		}
		name := [2]string{o.Credential, o.Key}
		if former := first[name]; former == nil {
			first[name] = o
		} else if bytes.Equal(former.Hash, o.Hash) {
			q.err = errTwin
		} else {
			q.err = ErrOtherRequest
		}
	}
	return nil
}

// errTwin marks a submission whose twin is in the same batch.
var errTwin = errors.New("the same request is being answered")

// queueAll adds everything that submissions write to a batch.
func queueAll(batch []*queued, again bool) *pgx.Batch {
	rows := &pgx.Batch{}
	if len(batch) == 0 {
		return rows
	}
	events := make([]*engine.Event, len(batch))
	for i, q := range batch {
		events[i] = &q.sub.Event
	}
	written := func(at time.Time) {
		for _, q := range batch {
			q.got.At = at
		}
	}
	queueAppend(rows, events, again, written)
	for _, q := range batch {
		if o := q.sub.Opening; o != nil {
			queueOpening(rows, o, q)
		}
	}
	return rows
}

// queueEvents adds one append of events, all of them new, to a batch. then, which may be
// nil, is told when.
func queueEvents(rows *pgx.Batch, events []engine.Event, then func(at time.Time)) {
	list := make([]*engine.Event, len(events))
	for i := range events {
		list[i] = &events[i]
	}
	queueAppend(rows, list, false, then)
}

// queueAppend is queueEvents for events of which some may be there already where they are
// appended again.
func queueAppend(rows *pgx.Batch, events []*engine.Event, again bool, then func(at time.Time)) {
	rows.Queue(`SELECT written, written_at FROM append_events($1, $2, $3, $4, $5, $6, $7)`, eventColumns(events)...).QueryRow(func(row pgx.Row) error {
		var written int
		var at time.Time
		if err := row.Scan(&written, &at); err != nil {
			return err
		}
		if written != len(events) && !again {
			return fmt.Errorf("%w: an event's id is taken", ErrConflict)
		}
		if then != nil {
			then(at)
		}
		return nil
	})
}

// queueOpening adds an approval and its outbox row to a batch. On a second try
// the approval may already be there; its times are read back either way.
func queueOpening(rows *pgx.Batch, o *Opening, q *queued) {
	row := append(openingColumns(o.approval()), columns{
		{"max_state", &o.MaxState}, {"expires_in", &o.ExpiresIn}, {"sealed", &o.Sealed.Data}, {"sealed_key", &o.Sealed.Key}, {"sealed_size", &o.ArgumentsSize},
	}...)
	row = append(row, slices.DeleteFunc(askingColumns(o.asking), func(c column) bool { return c.name == "spoken" || c.name == "claimed_by" || c.name == "noes" })...)
	row = append(row, o.queueProposed(rows)...)
	rows.Queue(row.insert("approvals")+` ON CONFLICT (id) DO NOTHING`, row.fields()...)
	if o.Terms.AcceptedAs == "" { // what waits for nobody needs no workflow to watch it
		rows.Queue(`INSERT INTO outbox (approval_id, traceparent, may_wait) VALUES ($1, $2, true)`, o.ID, traceparent(q.span))
	}
	rows.Queue(`SELECT opened_at, expires_at FROM approvals WHERE id = $1`, o.ID).QueryRow(func(row pgx.Row) error {
		return row.Scan(&q.got.OpenedAt, &q.got.ExpiresAt)
	})
}
