package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// AccessReview is a round in which people look through who has which role.
type AccessReview struct {
	ID    string // "arv_…"
	Title string
	Roles []string // what it is about; none: every role
	// Since and Until are the period that it is of.
	Since, Until time.Time
	DueAt        time.Time
	StartedAt    time.Time
	StartedBy    string
	EndedAt      *time.Time
	EndedBy      string
	// Incomplete is why it ended with something left to do; "" where nothing was.
	Incomplete string
	// Digest is of all lines at its end.
	Digest string
	AccessCounts
}

// AccessCounts counts the lines of an access review. Asked are those whose role is to be
// taken away, Removed those of them that have it no more, or had it no more at its end.
type AccessCounts struct {
	Lines, Open, Certified, Asked, Removed int
}

// The decisions about an access.
const (
	AccessCertified    = "certified"
	AccessRemovalAsked = "removal_asked"
)

// AccessLine is one role of one account in an access review.
type AccessLine struct {
	N              int
	Person         engine.Person // as it is now
	Role           string
	Reviewer       engine.Person // as they are now
	LastSignIn     *time.Time    // when the review started
	Votes          int           // in the period
	Decision       string        // "", AccessCertified or AccessRemovalAsked
	DecidedBy      string
	DecidedByName  string
	DecidedAt      *time.Time
	Comment        string
	RemovedAt      *time.Time
	StillHasAccess bool
}

const accessReviewColumns = `r.id, r.title, r.roles, r.since, r.until, r.due_at, r.started_at, r.started_by, r.ended_at, coalesce(r.ended_by, ''), r.incomplete, coalesce(r.digest, ''),
	l.lines, l.open, l.certified, l.asked, l.removed`

const accessReviewCounts = ` CROSS JOIN LATERAL (SELECT count(*) AS lines, count(*) FILTER (WHERE decision IS NULL) AS open, count(*) FILTER (WHERE decision = 'certified') AS certified,
	count(*) FILTER (WHERE decision = 'removal_asked') AS asked, count(*) FILTER (WHERE removed_at IS NOT NULL) AS removed FROM access_review_lines WHERE review_id = r.id) l `

func scanAccessReview(row pgx.CollectableRow) (AccessReview, error) {
	var r AccessReview
	err := row.Scan(&r.ID, &r.Title, &r.Roles, &r.Since, &r.Until, &r.DueAt, &r.StartedAt, &r.StartedBy, &r.EndedAt, &r.EndedBy, &r.Incomplete, &r.Digest,
		&r.Lines, &r.Open, &r.Certified, &r.Asked, &r.Removed)
	return r, err
}

const accessLineColumns = `l.n, p.id, p.email, p.name, p.identity, p.disabled_at IS NOT NULL, l.role, q.id, q.email, q.name, q.identity, q.disabled_at IS NOT NULL,
	l.last_sign_in, l.votes, coalesce(l.decision, ''), coalesce(l.decided_by, ''), coalesce(d.name, ''), l.decided_at, l.comment, l.removed_at, l.role = ANY (p.roles)`

const accessLines = ` FROM access_review_lines l JOIN people p ON p.id = l.person_id JOIN people q ON q.id = l.reviewer_id LEFT JOIN people d ON d.id = l.decided_by `

func scanAccessLine(row pgx.CollectableRow) (AccessLine, error) {
	var l AccessLine
	err := row.Scan(&l.N, &l.Person.ID, &l.Person.Email, &l.Person.Name, &l.Person.Identity, &l.Person.Disabled, &l.Role,
		&l.Reviewer.ID, &l.Reviewer.Email, &l.Reviewer.Name, &l.Reviewer.Identity, &l.Reviewer.Disabled,
		&l.LastSignIn, &l.Votes, &l.Decision, &l.DecidedBy, &l.DecidedByName, &l.DecidedAt, &l.Comment, &l.RemovedAt, &l.StillHasAccess)
	return l, err
}

// Start starts a review of the roles that enabled accounts have at that moment, but for
// those of being on call. assign is given a line for each, in order of role and address,
// and says who reviews it, and with which event.
func (s AccessReviews) Start(ctx context.Context, r AccessReview, signIns map[string]*time.Time, once *Idempotency[AccessReview], assign func([]AccessLine) (engine.Event, error)) (AccessReview, error) {
	return administerOn(ctx, s.db, s.pool, once, func(ctx context.Context, tx pgx.Tx) (AccessReview, engine.Event, error) {
		// No account changes meanwhile.
		if err := lockPeople(ctx, tx); err != nil {
			return r, engine.Event{}, err
		}
		r.Roles = append([]string{}, r.Roles...)
		rows, err := tx.Query(ctx, `SELECT row_number() OVER (ORDER BY role, p.email)::integer, p.id, p.email, p.name, p.identity, role,
				(SELECT count(*) FROM facts f WHERE f.actor_id = p.id AND f.actor_kind = 'human' AND f.kind = 'vote' AND f.at >= $2 AND f.at < $3)
			FROM people p CROSS JOIN LATERAL (SELECT DISTINCT unnest(p.roles) AS role) each
			WHERE p.disabled_at IS NULL AND p.erased_at IS NULL AND role NOT LIKE $4 AND (cardinality($1::text[]) = 0 OR role = ANY ($1)) ORDER BY 1`,
			r.Roles, r.Since, r.Until, engine.OnCallPrefix+"%")
		if err != nil {
			return r, engine.Event{}, translate(err)
		}
		lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (AccessLine, error) {
			var l AccessLine
			err := row.Scan(&l.N, &l.Person.ID, &l.Person.Email, &l.Person.Name, &l.Person.Identity, &l.Role, &l.Votes)
			l.LastSignIn = signIns[l.Person.ID]
			return l, err
		})
		if err != nil {
			return r, engine.Event{}, translate(err)
		}
		e, err := assign(lines)
		if err != nil {
			return r, e, err
		}
		if err := tx.QueryRow(ctx, `INSERT INTO access_reviews (id, title, roles, since, until, due_at, started_by) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING started_at`,
			r.ID, r.Title, r.Roles, r.Since, r.Until, r.DueAt, r.StartedBy).Scan(&r.StartedAt); err != nil {
			return r, e, translate(err)
		}
		batch := &pgx.Batch{}
		for _, l := range lines {
			batch.Queue(`INSERT INTO access_review_lines (review_id, n, person_id, role, reviewer_id, last_sign_in, votes) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
				r.ID, l.N, l.Person.ID, l.Role, l.Reviewer.ID, l.LastSignIn, l.Votes)
		}
		r.Lines, r.Open = len(lines), len(lines)
		return r, e, translate(tx.SendBatch(ctx, batch).Close())
	})
}

// List lists up to limit reviews, the newest first; with a reviewer's id, those of which
// that one has lines, and counts these alone.
func (s AccessReviews) List(ctx context.Context, reviewerID string, limit int) ([]AccessReview, error) {
	return collect(ctx, s.db, scanAccessReview, `SELECT `+accessReviewColumns+` FROM access_reviews r CROSS JOIN LATERAL (
			SELECT count(*) AS lines, count(*) FILTER (WHERE decision IS NULL) AS open, count(*) FILTER (WHERE decision = 'certified') AS certified,
				count(*) FILTER (WHERE decision = 'removal_asked') AS asked, count(*) FILTER (WHERE removed_at IS NOT NULL) AS removed
			FROM access_review_lines WHERE review_id = r.id AND ($1 = '' OR reviewer_id = $1)) l
		WHERE l.lines > 0 ORDER BY r.started_at DESC, r.id LIMIT $2`, reviewerID, limit)
}

// AwaitedReview says how many accesses a person has still to review, and until when the
// first of these reviews is due.
type AwaitedReview struct {
	Lines int
	DueAt time.Time
}

// Awaited counts what the person has still to review.
func (s AccessReviews) Awaited(ctx context.Context, reviewerID string) (AwaitedReview, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var a AwaitedReview
	var due *time.Time
	err := s.pool.QueryRow(ctx, `SELECT count(*), min(r.due_at) FROM access_review_lines l JOIN access_reviews r ON r.id = l.review_id AND r.ended_at IS NULL
		WHERE l.reviewer_id = $1 AND l.decision IS NULL`, reviewerID).Scan(&a.Lines, &due)
	if due != nil {
		a.DueAt = *due
	}
	return a, translate(err)
}

// Get reads a review with its lines in order. ErrNotFound: there is none.
func (s AccessReviews) Get(ctx context.Context, id string) (AccessReview, []AccessLine, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var r AccessReview
	var lines []AccessLine
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		r, lines, err = accessReview(ctx, tx, id, "")
		return err
	})
	return r, lines, translate(err)
}

func accessReview(ctx context.Context, tx pgx.Tx, id, lock string) (r AccessReview, lines []AccessLine, err error) {
	if lock != "" {
		if _, err := tx.Exec(ctx, `SELECT FROM access_reviews WHERE id = $1 `+lock, id); err != nil {
			return r, nil, translate(err)
		}
	}
	rows, err := tx.Query(ctx, `SELECT `+accessReviewColumns+` FROM access_reviews r`+accessReviewCounts+`WHERE r.id = $1`, id)
	if err != nil {
		return r, nil, translate(err)
	}
	if r, err = pgx.CollectExactlyOneRow(rows, scanAccessReview); err != nil {
		return r, nil, translate(err)
	}
	if rows, err = tx.Query(ctx, `SELECT `+accessLineColumns+accessLines+`WHERE l.review_id = $1 ORDER BY l.n`, id); err != nil {
		return r, nil, translate(err)
	}
	lines, err = pgx.CollectRows(rows, scanAccessLine)
	return r, lines, translate(err)
}

// AccessEdit is what becomes of an access review. What is zero stays as it is.
type AccessEdit struct {
	// Decide are lines that DecidedBy decides, with a comment.
	Decide    []int
	Decision  string
	DecidedBy string
	Comment   string
	// Assign are lines that Reviewer reviews from now on, who is told.
	Assign   []int
	Reviewer string
	// Removed are lines whose account has the role no more.
	Removed []int
	// End ends it.
	End                       bool
	EndedBy, Incomplete, Seal string
}

// Change changes a review as decide says, which is given it as it is while no account and
// nothing of the review changes, and returns the event that tells of it. ErrNotFound:
// there is none.
func (s AccessReviews) Change(ctx context.Context, id string, once *Idempotency[AccessReview], decide func(AccessReview, []AccessLine) (AccessEdit, engine.Event, error)) (AccessReview, error) {
	return administerOn(ctx, s.db, s.pool, once, func(ctx context.Context, tx pgx.Tx) (AccessReview, engine.Event, error) {
		if err := lockPeople(ctx, tx); err != nil {
			return AccessReview{}, engine.Event{}, err
		}
		r, lines, err := accessReview(ctx, tx, id, "FOR NO KEY UPDATE")
		if err != nil {
			return r, engine.Event{}, err
		}
		edit, e, err := decide(r, lines)
		if err == nil {
			err = edit.run(ctx, tx, id)
		}
		if err == nil {
			r, _, err = accessReview(ctx, tx, id, "")
		}
		return r, e, err
	})
}

func (e AccessEdit) run(ctx context.Context, tx pgx.Tx, id string) error {
	rows := &pgx.Batch{}
	if len(e.Assign) > 0 {
		rows.Queue(`UPDATE access_review_lines SET reviewer_id = $3 WHERE review_id = $1 AND n = ANY ($2)`, id, e.Assign, e.Reviewer)
		rows.Queue(`UPDATE access_reviews SET remind_at = clock_timestamp() WHERE id = $1`, id)
	}
	if len(e.Decide) > 0 {
		rows.Queue(`UPDATE access_review_lines SET decision = $3, decided_by = $4, decided_at = clock_timestamp(), comment = $5 WHERE review_id = $1 AND n = ANY ($2)`,
			id, e.Decide, e.Decision, e.DecidedBy, e.Comment)
	}
	if len(e.Removed) > 0 {
		rows.Queue(`UPDATE access_review_lines SET removed_at = clock_timestamp() WHERE review_id = $1 AND n = ANY ($2)`, id, e.Removed)
	}
	if e.End {
		rows.Queue(`UPDATE access_reviews SET ended_at = clock_timestamp(), ended_by = $2, incomplete = $3, digest = $4, remind_at = NULL WHERE id = $1`, id, e.EndedBy, e.Incomplete, e.Seal)
	}
	return translate(tx.SendBatch(ctx, rows).Close())
}

// Remind finds a review whose reviewers are to be told, and has write make what is told,
// which is given the lines, the endpoints that are switched on, and the reviewers' browsers, by the
// reviewers' ids, and says when the next time is. It reports whether there was one; of several workers one finds it.
func (s AccessReviews) Remind(ctx context.Context, write func(AccessReview, []AccessLine, []Endpoint, map[string][]string, time.Time) ([]Notification, time.Time, error)) (found bool, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var id string
		var now time.Time
		err := tx.QueryRow(ctx, `SELECT id, clock_timestamp() FROM access_reviews WHERE remind_at <= (SELECT clock_timestamp()) ORDER BY remind_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`).Scan(&id, &now)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return translate(err)
		}
		found = true
		r, lines, err := accessReview(ctx, tx, id, "")
		if err != nil {
			return err
		}
		endpoints, err := endpointRows.all(tx.Query(ctx, `SELECT `+endpointRows.names+` FROM endpoints WHERE disabled_at IS NULL ORDER BY id`))
		if err != nil {
			return err
		}
		browsers := map[string][]string{}
		of, err := tx.Query(ctx, `SELECT person_id, id FROM push_subscriptions WHERE person_id IN (SELECT reviewer_id FROM access_review_lines WHERE review_id = $1) ORDER BY id`, id)
		if err != nil {
			return translate(err)
		}
		var person, browser string
		if _, err := pgx.ForEachRow(of, []any{&person, &browser}, func() error {
			browsers[person] = append(browsers[person], browser)
			return nil
		}); err != nil {
			return translate(err)
		}
		list, next, err := write(r, lines, endpoints, browsers, now)
		if err != nil {
			return err
		}
		rows := &pgx.Batch{}
		for _, n := range list {
			queueNotification(rows, n)
		}
		rows.Queue(`UPDATE access_reviews SET remind_at = $2 WHERE id = $1`, id, next)
		return translate(tx.SendBatch(ctx, rows).Close())
	})
	return found, err
}
