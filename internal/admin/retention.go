package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// The parts of retention, for those who must not know the store.
type (
	// Hold keeps what it covers from being erased until it is released.
	Hold = store.Hold
	// Erasure is what was erased, when, by whom and why.
	Erasure = store.Erasure
	// Due is an ended approval that has not been erased.
	Due = store.Due
	// RetentionMinimum is how long after its end a record cannot be erased by anybody.
	RetentionMinimum = store.RetentionMinimum
)

// What a hold can cover, and an erasure erase.
const (
	CoversApproval   = store.CoversApproval
	CoversAgent      = store.CoversAgent
	CoversPerson     = store.CoversPerson
	CoversEverything = store.CoversEverything
)

// HoldRequest asks to keep something from being erased.
type HoldRequest struct {
	Covers string // CoversApproval, CoversAgent, CoversPerson or CoversEverything
	// Subject is an id, or a person's e-mail address; "" for everything.
	Subject string
	Reason  string
}

// PlaceHold keeps what the request names from being erased. Once it returns,
// nothing of it is: neither on request nor by age.
func (r Retention) PlaceHold(ctx context.Context, by access.Initiator, q HoldRequest, once *access.Idempotency[Hold]) (Hold, error) {
	h := Hold{ID: store.NewID("hold"), Covers: q.Covers, Subject: strings.TrimSpace(q.Subject), Reason: strings.TrimSpace(q.Reason), By: by.Actor.ID}
	wrong := func(code, detail string) error {
		return &access.Refusal{Kind: access.Invalid, Code: code, Detail: detail}
	}
	switch h.Covers {
	case CoversApproval, CoversAgent, CoversPerson:
		if h.Subject == "" {
			return h, wrong("no_subject", "Say which "+h.Covers+" is to be held.")
		}
	case CoversEverything:
		if h.Subject != "" {
			return h, wrong("no_subject", "A hold on everything names nothing else.")
		}
	default:
		return h, wrong("covers", "A hold covers an approval, an agent, a person or everything.")
	}
	if err := reasonFits(h.Reason); err != nil {
		return h, err
	}
	if h.Covers == CoversPerson {
		p, err := r.person(ctx, h.Subject)
		if err != nil {
			return h, err
		}
		h.Subject = p.ID
	}
	e, err := holdEvent(by, "HOLD_PLACED", "A legal hold was placed: what it covers is not erased until it is released.", h)
	if err != nil {
		return h, err
	}
	err = r.Store.Retention.PlaceHold(ctx, h, access.Adapt(once, func(access.Done) Hold { return h }), e)
	var kept *store.NotErasable
	if errors.As(err, &kept) {
		return h, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such " + h.Covers + " to hold."}
	}
	return h, r.administered(ctx, err)
}

// ReleaseHold ends a hold. Where that takes an approval, others approve it than those whom it
// lets erase: the requesting side of what it covers.
func (r Retention) ReleaseHold(ctx context.Context, by access.Initiator, id string, once *access.Idempotency[access.Done]) error {
	gone := &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such hold, or it was released already."}
	if once != nil {
		if err := r.Store.Answered(ctx, once.Of()); err != nil {
			return r.administered(ctx, err)
		}
	}
	h, err := r.Store.Retention.Hold(ctx, id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnstorable) {
		return gone
	}
	if err != nil {
		return err
	}
	e, err := holdEvent(by, "HOLD_RELEASED", "A legal hold was released.", h)
	if err != nil {
		return err
	}
	_, guarded, err := r.guarded(ctx, by, store.RetentionChange)
	if err != nil {
		return err
	}
	if guarded && h.ReleasedAt == nil {
		return r.releaseWaits(ctx, by, h, e)
	}
	err = r.Store.Retention.ReleaseHold(ctx, id, by.Actor.ID, once, e)
	if errors.Is(err, store.ErrNotFound) {
		return gone
	}
	return r.administered(ctx, err)
}

// releaseWaits has people decide about the release of a hold. The error is never nil.
func (r Retention) releaseWaits(ctx context.Context, by access.Initiator, h Hold, e engine.Event) error {
	i, err := r.newItem(ctx, store.HoldEntry, h.ID, "legal hold "+h.ID, store.ProposedHold{Released: true, By: by.Actor.ID}, e)
	if err != nil {
		return err
	}
	i.was = fmt.Sprintf("holds %s since %s, because: %s", strings.TrimSpace(h.Covers+" "+h.Subject), h.At.UTC().Format(time.RFC3339), h.Reason)
	i.becomes = "released: what it covers may be erased"
	switch h.Covers {
	case CoversPerson:
		p, err := r.Store.People.Get(ctx, h.Subject)
		if err != nil {
			return err
		}
		i.subjects = []string{p.Identity}
	case CoversAgent:
		if i.subjects, err = r.owner(ctx, h.Subject); err != nil {
			return err
		}
	case CoversApproval:
		held, err := r.Store.Approvals.Get(ctx, h.Subject)
		if err != nil {
			return err
		}
		i.subjects = slices.Clone(held.Approval.Plan.Excluded)
	}
	return r.hold(ctx, by, store.RetentionChange, "", i)
}

// Holds lists holds, those that hold first and of each the newest.
func (r Retention) Holds(ctx context.Context) ([]Hold, error) { return r.Store.Retention.Holds(ctx) }

// holdEvent is the event of a change to a hold.
func holdEvent(by access.Initiator, code, message string, h Hold) (engine.Event, error) {
	e := by.Event(code, message, "", "")
	e.Type = engine.Held
	payload := map[string]string{"hold": h.ID, "covers": h.Covers, "reason": h.Reason}
	if h.Subject != "" {
		payload["subject"] = h.Subject
	}
	switch h.Covers {
	case CoversApproval:
		e.ApprovalID = store.LoggableApprovalID(h.Subject)
	case CoversAgent:
		e.AgentID = h.Subject
	}
	err := e.SetPayload(payload)
	return e, err
}

// EraseRequest asks to erase what an approval was about, or who a person is.
type EraseRequest struct {
	ApprovalID string
	Person     string // an id or an e-mail address, instead of ApprovalID
	Reason     string
}

// Erase erases an approval's arguments, answers and everything that people said
// of it, or a person's name, address, means to sign in and words. What it leaves
// says who did what and when. It is refused, and the refusal is on record, while
// a hold covers it, while anything of it is open, and below the minimum.
func (r Retention) Erase(ctx context.Context, by access.Initiator, q EraseRequest, once *access.Idempotency[Erasure]) (Erasure, error) {
	e := Erasure{Covers: CoversApproval, Subject: strings.TrimSpace(q.ApprovalID), Reason: strings.TrimSpace(q.Reason), By: by.Actor.ID, EventID: store.NewEventID()}
	if (e.Subject == "") == (strings.TrimSpace(q.Person) == "") {
		return e, &access.Refusal{Kind: access.Invalid, Code: "no_subject", Detail: "Name one approval or one person to erase."}
	}
	if err := reasonFits(e.Reason); err != nil {
		return e, err
	}
	if once != nil {
		// Whom an address belonged to is not known any more once it is erased.
		if err := r.Store.Answered(ctx, once.Of()); err != nil {
			return e, r.administered(ctx, err)
		}
	}
	if e.Subject == "" {
		p, err := r.person(ctx, q.Person)
		if err != nil {
			return e, err
		}
		e.Covers, e.Subject = CoversPerson, p.ID
	} else if !store.ValidApprovalID(e.Subject) {
		return e, keptRefusal(CoversApproval, "missing")
	}
	done, err := r.Store.Retention.Erase(ctx, e, access.AdminRole, once, func(done Erasure) (engine.Event, error) { return erasureEvent(by, done) })
	var kept *store.NotErasable
	if errors.As(err, &kept) {
		refused := keptRefusal(e.Covers, kept.Why)
		event, err := erasureEvent(by, e)
		if err != nil {
			return e, err
		}
		event.ID, event.Outcome, event.Reasons = store.NewEventID(), engine.Deny, []engine.Reason{{Code: refused.Code, Message: refused.Detail}}
		if _, err := r.Store.Submit(ctx, store.Submission{Event: event}); err != nil {
			return e, err
		}
		return e, refused
	}
	return done, r.administered(ctx, err)
}

// erasureEvent is the event of an erasure: what, why, by which rule, and which
// parts there were.
func erasureEvent(by access.Initiator, done Erasure) (engine.Event, error) {
	code, message := "ERASED_ON_REQUEST", "What the approval was about, and what was said of it, was erased."
	if done.Covers == CoversPerson {
		message = "A person's name, address, means to sign in and words were erased."
	}
	payload := map[string]any{"covers": done.Covers, "subject": done.Subject, "rule": done.Rule(), "reason": done.Reason}
	if done.ByAge {
		code, payload["older_than"] = "ERASED_BY_AGE", done.Older.String()
	}
	if done.ID != "" {
		payload["erasure"], payload["parts"] = done.ID, done.Parts
	}
	e := by.Event(code, message, done.AgentID, done.Tool)
	e.ID, e.Type = done.EventID, engine.Erased
	if done.Covers == CoversApproval {
		e.ApprovalID = store.LoggableApprovalID(done.Subject)
	}
	err := e.SetPayload(payload)
	return e, err
}

// AgeErasure begins the erasure of an approval that is old enough.
func AgeErasure(older time.Duration) func(approvalID string) Erasure {
	return func(approvalID string) Erasure {
		return Erasure{Covers: CoversApproval, Subject: approvalID, ByAge: true, Older: older, Reason: "retention", By: retainer.ID, EventID: store.NewEventID()}
	}
}

// AgeEvent is the event of an erasure that AgeErasure has begun.
func AgeEvent(done Erasure) (engine.Event, error) { return erasureEvent(ByRetention(), done) }

// ByRetention is who erases without being asked at that moment.
func ByRetention() access.Initiator { return access.Initiator{Actor: retainer} }

var retainer = engine.Actor{Kind: engine.SystemActor, ID: "retention", Channel: "engine"}

// EraseAgain erases what subjects name and the database has, as they were erased before
// an older copy of it was restored. What cannot be erased now is in kept, with why.
func EraseAgain(ctx context.Context, s *store.Store, by access.Initiator, subjects []string) (done []Erasure, kept map[string]string, err error) {
	back, err := s.Retention.NotErased(ctx, subjects)
	if err != nil {
		return nil, nil, err
	}
	kept = map[string]string{}
	for _, subject := range back {
		e := Erasure{Covers: store.CoversOf(subject), Subject: subject, Reason: "erased before an older copy of the database was restored", By: by.Actor.ID, EventID: store.NewEventID()}
		e, err := s.Retention.Erase(ctx, e, access.AdminRole, nil, func(done Erasure) (engine.Event, error) { return erasureEvent(by, done) })
		var why *store.NotErasable
		switch {
		case errors.As(err, &why):
			kept[subject] = why.Why
		case err != nil:
			return done, kept, fmt.Errorf("erase %s again: %w", subject, err)
		default:
			done = append(done, e)
		}
	}
	return done, kept, nil
}

// Erasures lists up to limit erasures, the newest first.
func (r Retention) Erasures(ctx context.Context, cursor string, limit int) ([]Erasure, string, error) {
	page, next, err := r.Store.Retention.Erasures(ctx, cursor, limit)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnstorable) {
		return nil, "", &access.Refusal{Kind: access.Malformed, Code: "bad_cursor", Detail: "That is no place in the list of erasures. Start at its beginning."}
	}
	return page, next, err
}

// NextDue lists up to limit ended approvals that have not been erased, the one
// that ended first first.
func (r Retention) NextDue(ctx context.Context, limit int) ([]Due, error) {
	return r.Store.Retention.NextDue(ctx, limit)
}

// Minimum is how long after its end a record cannot be erased by anybody.
func (r Retention) Minimum(ctx context.Context) (RetentionMinimum, error) {
	return r.Store.Retention.Minimum(ctx)
}

// SetMinimum changes it. It takes the role that owns the database. Where that takes an
// approval, it is lowered by the same command once that is given.
func (r Retention) SetMinimum(ctx context.Context, by access.Initiator, shortest time.Duration) error {
	if shortest < 0 {
		return &access.Refusal{Kind: access.Invalid, Code: "floor", Detail: "The floor cannot be negative."}
	}
	former, err := r.Store.Retention.Minimum(ctx)
	if err != nil {
		return err
	}
	e := by.Event("RETENTION_FLOOR_SET", fmt.Sprintf("How long after its end a record cannot be erased was changed from %s to %s.", inHours(former.Shortest), inHours(shortest)), "", "")
	said := map[string]string{"floor": shortest.String(), "former": former.Shortest.String()}
	if err := e.SetPayload(said); err != nil {
		return err
	}
	_, guarded, err := r.guarded(ctx, by, store.RetentionChange)
	if err != nil {
		return err
	}
	approval := ""
	if guarded && shortest < former.Shortest {
		if former.Permitted == nil || *former.Permitted != shortest {
			return r.floorWaits(ctx, by, shortest, said)
		}
		approval = former.PermittedBy
		if err := e.AddToPayload("approval", approval); err != nil {
			return err
		}
	}
	err = r.Store.Retention.SetMinimum(ctx, shortest, by.Actor.ID, guarded, approval, e)
	if errors.Is(err, store.ErrNotFound) {
		err = cannotHold // another change has come between
	}
	return err
}

// floorWaits has people decide about lowering the floor. The error is never nil.
func (r Retention) floorWaits(ctx context.Context, by access.Initiator, shortest time.Duration, said map[string]string) error {
	if shortest%time.Second != 0 {
		return &access.Refusal{Kind: access.Invalid, Code: "floor", Detail: "The floor is lowered to whole seconds."}
	}
	e := by.Event("RETENTION_FLOOR_PERMITTED", "That whoever owns the database lowers the floor was approved: how long after its end a record cannot be erased.", "", "")
	if err := e.SetPayload(said); err != nil {
		return err
	}
	i, err := r.newItem(ctx, store.FloorEntry, "", "the floor: how long after its end nothing can be erased", store.ProposedFloor{Seconds: int64(shortest / time.Second)}, e)
	if err != nil {
		return err
	}
	i.was, i.becomes, i.next = said["former"], said["floor"], " Once it is approved, run the same command again, within three days."
	return r.hold(ctx, by, store.RetentionChange, "", i)
}

// inHours writes a duration of whole hours as such: 720h.
func inHours(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return d.String()
}

// NotErasableText says in a sentence why something is kept.
func NotErasableText(covers, why string) string {
	if covers == CoversPerson {
		if words, ok := personKept[why]; ok {
			return words
		}
	}
	if words, ok := approvalKept[why]; ok {
		return words
	}
	return "It cannot be erased now."
}

var approvalKept = map[string]string{
	"missing":   "There is no such approval.",
	"erased":    "It has been erased already.",
	"held":      "A legal hold covers it. It is erased once every hold on it has been released.",
	"pending":   "It has not ended. Decide it, or have it cancelled, first.",
	"running":   "Its call is running. It can be erased once it is known what became of it.",
	"unknown":   "Nobody knows what became of its call. Somebody has to find out and say so first.",
	"owed":      "Somebody still has to look at the emergency for which one person let it pass.",
	"spendable": "Its permission can still be spent. It can be erased once that is used or over.",
	"in_force":  "What it has put in force still is: its approval is kept as long as that.",
	"granted":   "A standing grant that was made from it still votes. Revoke that first.",
	"recent":    "It ended too recently: the database's floor keeps it.",
	"young":     "It ended too recently for what retention says.",
}

var personKept = map[string]string{
	"missing":  "There is no such person.",
	"erased":   "The person has been erased already.",
	"held":     "A legal hold covers the person, or something that they took part in.",
	"agents":   "The person answers for an agent. Give it another owner, or disable it, first.",
	"granted":  "A standing grant of theirs still votes. Revoke it first.",
	"endpoint": "Notifications go to the person's address by name. Change that endpoint first.",
	"pending":  "Something in which the person takes part has not ended.",
	"recent":   "Something in which the person took part ended too recently: the database's floor keeps it.",

	store.LastAdministrator: lastAdmin.Detail,
}

func keptRefusal(covers, why string) *access.Refusal {
	r := &access.Refusal{Kind: access.Conflict, Code: "kept_" + why, Detail: NotErasableText(covers, why)}
	switch why {
	case "missing":
		r.Kind, r.Code = access.NotFound, "not_found"
	case "erased":
		r.Code = "already_erased"
	case store.LastAdministrator:
		r.Code = lastAdmin.Code
	}
	return r
}

// person finds somebody by id or e-mail address.
func (r Retention) person(ctx context.Context, text string) (engine.Person, error) {
	text = strings.TrimSpace(text)
	p, err := r.Store.People.Get(ctx, text)
	if errors.Is(err, store.ErrNotFound) {
		p, _, err = r.Store.People.ByEmail(ctx, strings.ToLower(text))
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnstorable) {
		return p, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: fmt.Sprintf("There is nobody with the id or address %.300q.", text)}
	}
	return p, err
}

func reasonFits(reason string) error {
	switch {
	case reason == "":
		return &access.Refusal{Kind: access.Invalid, Code: "reason_required", Detail: "Say why: it stays on record, so name nobody in it."}
	case len(reason) > access.MaxReason || !utf8.ValidString(reason):
		return &access.Refusal{Kind: access.Invalid, Code: "reason_too_long", Detail: fmt.Sprintf("The reason has %d bytes; at most %d are kept.", len(reason), access.MaxReason)}
	}
	return nil
}
