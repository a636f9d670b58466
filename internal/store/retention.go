package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// NotErasable is the error that stands for "this cannot be erased now".
type NotErasable struct {
	// Why is one of: missing, erased (already), held, pending, running, unknown,
	// owed, spendable, granted, recent, young; for a person also agents, endpoint.
	Why string
}

// Error says why it is kept.
func (k *NotErasable) Error() string { return "it is kept: " + k.Why }

// What a hold can cover, and an erasure erase.
const (
	CoversApproval   = "approval"
	CoversAgent      = "agent"
	CoversPerson     = "person"
	CoversEverything = "everything"
)

// LastAdministrator is why the last person who administers cannot be erased.
const LastAdministrator = "last_administrator"

// Hold keeps what it covers from being erased until it is released.
type Hold struct {
	ID      string // "hold_…"
	Covers  string
	Subject string // an id; "" for everything
	Reason  string
	By      string
	At      time.Time
	// ReleasedAt is nil while it holds.
	ReleasedAt *time.Time
	ReleasedBy string
}

// Erasure is what was erased, when, by whom and why.
type Erasure struct {
	ID      string // "ers_…"
	Covers  string // CoversApproval or CoversPerson
	Subject string
	// ByAge says that nobody asked for it: it had ended Older ago.
	ByAge   bool
	Older   time.Duration
	Reason  string
	By      string
	At      time.Time
	Parts   []string
	EventID string
	// AgentID and Tool are the approval's; "" for a person.
	AgentID, Tool string
}

// Rule is the rule by which it was erased: "request" or "age".
func (e Erasure) Rule() string {
	if e.ByAge {
		return "age"
	}
	return "request"
}

// RetentionMinimum is how long after its end a record cannot be erased by anybody.
type RetentionMinimum struct {
	Shortest  time.Duration
	ChangedAt time.Time
	ChangedBy string // "" for nobody
	// Permitted is what it may be lowered to, by an approval; nil for none.
	Permitted   *time.Duration
	PermittedBy string
}

// PermissionLasts is for how long the floor may be lowered after that was approved: as long as a change
// waits for its approval where nobody says anything else.
const PermissionLasts = 3 * 24 * time.Hour

// floorPermits is the condition that the permission to lower the floor is not over; $1 is PermissionLasts.
const floorPermits = `EXISTS (SELECT FROM approvals a WHERE a.id = permitted_by AND a.ended_at > (SELECT clock_timestamp()) - make_interval(secs => $1))`

// Minimum reads it.
func (s Retention) Minimum(ctx context.Context) (RetentionMinimum, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var f RetentionMinimum
	var seconds float64
	var permitted *float64
	err := s.pool.QueryRow(ctx, `SELECT extract(epoch FROM shortest)::float8, changed_at, changed_by, CASE WHEN `+floorPermits+` THEN extract(epoch FROM permitted)::float8 END, permitted_by FROM retention_floor`,
		PermissionLasts.Seconds()).Scan(&seconds, &f.ChangedAt, &f.ChangedBy, &permitted, &f.PermittedBy)
	f.Shortest = duration(seconds)
	if permitted != nil {
		may := duration(*permitted)
		f.Permitted = &may
	}
	return f, translate(err)
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// SetMinimum changes it; it takes the role that owns the database. approval is the one that
// permits it; without one a guarded minimum becomes no less. ErrNotFound: it would, or the
// approval permits it no more.
func (s Retention) SetMinimum(ctx context.Context, shortest time.Duration, by string, guarded bool, approval string, e engine.Event) error {
	return s.admin(ctx, e, `UPDATE retention_floor SET shortest = make_interval(secs => $2), changed_at = clock_timestamp(), changed_by = $3
		WHERE CASE WHEN $4 = '' THEN NOT $5 OR shortest <= make_interval(secs => $2) ELSE permitted_by = $4 AND permitted = make_interval(secs => $2) AND `+floorPermits+` END`,
		PermissionLasts.Seconds(), shortest.Seconds(), by, approval, guarded)
}

// PlaceHold places a hold. Once it returns, nothing that it covers is erased by
// anybody. *NotErasable: there is nothing of that name to hold.
func (s Retention) PlaceHold(ctx context.Context, h Hold, once *Idempotency[Done], e engine.Event) error {
	return s.administer(ctx, once, e, `INSERT INTO legal_holds (id, covers, subject, reason, placed_by, placed_event) VALUES ($1, $2, $3, $4, $5, $6)`,
		h.ID, h.Covers, h.Subject, h.Reason, h.By, e.ID)
}

// ReleaseHold ends a hold. ErrNotFound: there is none of that id that holds.
func (s Retention) ReleaseHold(ctx context.Context, id, by string, once *Idempotency[Done], e engine.Event) error {
	return s.administer(ctx, once, e, `UPDATE legal_holds SET released_by = $2, released_event = $3 WHERE id = $1 AND released_at IS NULL`, id, by, e.ID)
}

// MaxHolds bounds how many holds are listed.
const MaxHolds = 500

var holdRows = newRows(func(h *Hold) columns {
	return columns{
		{"id", &h.ID},
		{"covers", &h.Covers},
		{"subject", &h.Subject},
		{"reason", &h.Reason},
		{"placed_by", &h.By},
		{"placed_at", &h.At},
		{"released_at", &h.ReleasedAt},
		{"coalesce(released_by, '')", &h.ReleasedBy},
	}
})

// Hold reads a hold. ErrNotFound: there is none.
func (s Retention) Hold(ctx context.Context, id string) (Hold, error) {
	list, err := s.holds(ctx, `WHERE id = $1`, id)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Hold{}, err
	}
	return list[0], nil
}

// Holds lists holds, those that hold first and of each the newest.
func (s Retention) Holds(ctx context.Context) ([]Hold, error) {
	return s.holds(ctx, `ORDER BY released_at IS NOT NULL, placed_at DESC, id LIMIT $1`, MaxHolds)
}

func (s Retention) holds(ctx context.Context, which string, args ...any) ([]Hold, error) {
	return holdRows.query(ctx, s.db, `SELECT `+holdRows.names+` FROM legal_holds `+which, args...)
}

// Erase erases what e covers, on request. eventOf makes the event, of which the id
// is e's EventID, when it is known what was erased. *NotErasable: it cannot be erased
// now, and nothing was. The last whom adminRole lets administer is not erased.
func (s Retention) Erase(ctx context.Context, e Erasure, adminRole string, once *Idempotency[Erasure], eventOf func(Erasure) (engine.Event, error)) (Erasure, error) {
	e.ByAge = false
	return administerWith(ctx, s.db, once, func(ctx context.Context, tx pgx.Tx) (Erasure, engine.Event, error) {
		if e.Covers == CoversPerson {
			if err := refuseLastAdministrator(ctx, tx, e.Subject, adminRole); err != nil {
				return Erasure{}, engine.Event{}, err
			}
		}
		done, err := erase(ctx, tx, e)
		if err != nil {
			return Erasure{}, engine.Event{}, err
		}
		e = done
		event, err := eventOf(e)
		return e, event, err
	})
}

// refuseLastAdministrator keeps the last administrator: as every change of accounts, under their lock.
func refuseLastAdministrator(ctx context.Context, tx pgx.Tx, id, adminRole string) error {
	if err := lockPeople(ctx, tx); err != nil {
		return err
	}
	var last bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM people WHERE id = $1 AND disabled_at IS NULL AND $2 = ANY (roles))
		AND NOT EXISTS (SELECT FROM people o WHERE o.id <> $1 AND `+administers+`)`, id, adminRole, NoPassword).Scan(&last)
	if err == nil && last {
		return &NotErasable{Why: LastAdministrator}
	}
	return translate(err)
}

// erase calls the one function that may, and reads what it has written.
func erase(ctx context.Context, tx pgx.Tx, e Erasure) (Erasure, error) {
	var err error
	switch {
	case e.Covers == CoversPerson:
		err = tx.QueryRow(ctx, `SELECT erase_person($1, $2, $3, $4)`, e.Subject, e.By, e.Reason, e.EventID).Scan(&e.Parts)
	case e.ByAge:
		err = tx.QueryRow(ctx, `SELECT erase_approval($1, $2, $3, $4, make_interval(secs => $5))`, e.Subject, e.By, e.Reason, e.EventID, e.Older.Seconds()).Scan(&e.Parts)
	default:
		err = tx.QueryRow(ctx, `SELECT erase_approval($1, $2, $3, $4)`, e.Subject, e.By, e.Reason, e.EventID).Scan(&e.Parts)
	}
	if err != nil {
		return e, translate(err)
	}
	err = tx.QueryRow(ctx, `SELECT e.id, e.erased_at, coalesce(a.agent_id, ''), coalesce(a.tool, '')
		FROM erasures e LEFT JOIN approvals a ON e.covers = 'approval' AND a.id = e.subject WHERE e.event_id = $1`, e.EventID).Scan(&e.ID, &e.At, &e.AgentID, &e.Tool)
	return e, translate(err)
}

// ErasureCursor is how far a walk over ended approvals has come; the zero Place is its
// beginning.
type ErasureCursor struct {
	EndedAt time.Time
	ID      string
}

// EraseDue erases, of the next up to limit approvals after a place that ended
// longer than older ago, those that nothing keeps. It returns what it erased and
// where it came to; done says that this was the end. Any number may walk at once:
// what another one is erasing is passed over. next makes an erasure, without
// what only the database knows, and eventOf its event.
func (s Retention) EraseDue(ctx context.Context, older time.Duration, from ErasureCursor, limit int, next func(approvalID string) Erasure, eventOf func(Erasure) (engine.Event, error)) (erased []Erasure, to ErasureCursor, done bool, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		erased = nil
		if _, err := tx.Exec(ctx, `SELECT begin_erasing()`); err != nil {
			return translate(err)
		}
		ids, place, err := duePage(ctx, tx, older, from, limit)
		if err != nil {
			return err
		}
		to, done = place, len(ids) < limit
		rows, err := tx.Query(ctx, `SELECT id FROM approvals WHERE id = ANY ($1) AND why_kept(id) = '' ORDER BY ended_at, id FOR UPDATE SKIP LOCKED`, ids)
		if err != nil {
			return translate(err)
		}
		if ids, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return translate(err)
		}
		var events []engine.Event
		for _, id := range ids {
			one, err := eraseOne(ctx, tx, next(id))
			if err != nil {
				return err
			}
			if one == nil {
				continue
			}
			event, err := eventOf(*one)
			if err != nil {
				return err
			}
			erased, events = append(erased, *one), append(events, event)
		}
		if len(events) == 0 {
			return nil
		}
		batch := &pgx.Batch{}
		queueEvents(batch, events, nil)
		return translate(tx.SendBatch(ctx, batch).Close())
	})
	return erased, to, done, err
}

// eraseOne erases by itself within a larger transaction; nil when something has
// come up meanwhile that keeps it.
func eraseOne(ctx context.Context, tx pgx.Tx, e Erasure) (*Erasure, error) {
	part, err := tx.Begin(ctx)
	if err != nil {
		return nil, translate(err)
	}
	done, err := erase(ctx, part, e)
	var kept *NotErasable
	if errors.As(err, &kept) {
		return nil, translate(part.Rollback(ctx))
	}
	if err != nil {
		return nil, err
	}
	return &done, translate(part.Commit(ctx))
}

func duePage(ctx context.Context, tx pgx.Tx, older time.Duration, from ErasureCursor, limit int) ([]string, ErasureCursor, error) {
	rows, err := tx.Query(ctx, `SELECT id, ended_at FROM approvals WHERE status <> 'pending' AND erased_at IS NULL
		AND ended_at <= (SELECT clock_timestamp()) - make_interval(secs => $1) AND (ended_at, id) > ($2, $3) ORDER BY ended_at, id LIMIT $4`, older.Seconds(), from.EndedAt, from.ID, limit)
	if err != nil {
		return nil, from, translate(err)
	}
	var ids []string
	to := from
	_, err = pgx.ForEachRow(rows, []any{&to.ID, &to.EndedAt}, func() error {
		ids = append(ids, to.ID)
		return nil
	})
	return ids, to, translate(err)
}

// erasureRows are of erasures e and, if there is one, approvals a.
var erasureRows = newRows(func(e *Erasure) columns {
	return columns{
		{"e.id", &e.ID},
		{"e.covers", &e.Covers},
		{"e.subject", &e.Subject},
		{"e.rule = 'age'", &e.ByAge},
		{"coalesce(e.older, interval '0')", &e.Older},
		{"e.reason", &e.Reason},
		{"e.erased_by", &e.By},
		{"e.erased_at", &e.At},
		{"e.parts", &e.Parts},
		{"e.event_id::text", &e.EventID},
		{"coalesce(a.agent_id, '')", &e.AgentID},
		{"coalesce(a.tool, '')", &e.Tool},
	}
})

// Erasures lists up to limit erasures, the newest first, from after cursor on
// ("" for the start). next is "" at the end. A cursor that is not one of ours is
// ErrNotFound.
func (s Retention) Erasures(ctx context.Context, cursor string, limit int) (page []Erasure, next string, err error) {
	before, id := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), ""
	if cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		at, rest, ok := strings.Cut(string(raw), " ")
		if err != nil || !ok || strings.ContainsRune(rest, 0) {
			return nil, "", ErrNotFound
		}
		if before, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return nil, "", ErrNotFound
		}
		id = rest
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	page, err = erasureRows.all(s.pool.Query(ctx, `SELECT `+erasureRows.names+` FROM erasures e LEFT JOIN approvals a ON e.covers = 'approval' AND a.id = e.subject
		WHERE (e.erased_at, e.id) < ($1, $2) ORDER BY e.erased_at DESC, e.id DESC LIMIT $3`, before, id, limit+1))
	if err != nil {
		return nil, "", err
	}
	if len(page) > limit {
		page = page[:limit]
		last := page[limit-1]
		next = base64.RawURLEncoding.EncodeToString([]byte(last.At.Format(time.RFC3339Nano) + " " + last.ID))
	}
	return page, next, nil
}

// Due is an ended approval that has not been erased.
type Due struct {
	ID, AgentID, Tool string
	EndedAt           time.Time
	// Why it could not be erased now, as NotErasable says it; "" when it could.
	Why string
}

var dueRows = newRows(func(d *Due) columns {
	return columns{{"id", &d.ID}, {"agent_id", &d.AgentID}, {"tool", &d.Tool}, {"ended_at", &d.EndedAt}, {"why_kept(id)", &d.Why}}
})

// NextDue lists up to limit ended approvals that have not been erased, the one
// that ended first first.
func (s Retention) NextDue(ctx context.Context, limit int) ([]Due, error) {
	return dueRows.query(ctx, s.db, `SELECT `+dueRows.names+` FROM (
			SELECT id, agent_id, tool, ended_at FROM approvals WHERE status <> 'pending' AND erased_at IS NULL ORDER BY ended_at, id LIMIT $1) n
		ORDER BY ended_at, id`, limit)
}

// Allows is nil when records may be erased that ended so long ago, or the
// error that says which minimum keeps them.
func (m RetentionMinimum) Allows(older time.Duration) error {
	if older < m.Shortest {
		return fmt.Errorf("%s is below the database's floor of %s: nothing is erased sooner (“holdpoint retention set-floor” changes that, as the database's owner)", older, m.Shortest)
	}
	return nil
}

// AskedErasures lists what was erased on request, from the oldest on.
func (s Retention) AskedErasures(ctx context.Context) ([]string, error) {
	return s.ids(ctx, `SELECT subject FROM erasures WHERE rule = 'request' ORDER BY erased_at, id`)
}

// NotErased lists those of the approvals and people that are there and are not erased,
// approvals first.
func (s Retention) NotErased(ctx context.Context, subjects []string) ([]string, error) {
	return s.ids(ctx, `SELECT id FROM (SELECT id, 1 AS turn FROM approvals WHERE erased_at IS NULL AND id = ANY ($1)
		UNION ALL SELECT id, 2 FROM people WHERE erased_at IS NULL AND id = ANY ($1)) back ORDER BY turn, id`, subjects)
}

// CoversOf says what an erasure of a subject covers, by the form of its id.
func CoversOf(subject string) string {
	if strings.HasPrefix(subject, "usr_") {
		return CoversPerson
	}
	return CoversApproval
}
