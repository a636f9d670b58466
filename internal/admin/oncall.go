package admin

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// Shift is somebody who is, or will be, on call on a schedule.
type Shift struct {
	Schedule string    `json:"schedule"`
	Email    string    `json:"email"`
	Name     string    `json:"name"`
	From     time.Time `json:"from"`
	Until    time.Time `json:"until"`
	OnCall   bool      `json:"on_call" doc:"On call now, rather than later."`
	Disabled bool      `json:"disabled,omitempty" doc:"The account is disabled, and so has no role."`
}

// OnCallRequest says who is on call on a schedule from now on, or from From on.
type OnCallRequest struct {
	Schedule string
	Emails   []string
	From     time.Time // the zero time, and any that has passed, mean now
	Until    time.Time // may be the zero time where nobody is on call
	// OffFrom is from when whoever is on call is so no more, where that is before From; as From.
	OffFrom *time.Time
}

// maxOnCall bounds how many are on call at a time.
const maxOnCall = 100

var scheduleName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Check refuses what no schedule can be told at a moment.
func (q OnCallRequest) Check(now time.Time) error {
	wrong := func(code, detail string) error {
		return &access.Refusal{Kind: access.Invalid, Code: code, Detail: detail}
	}
	switch {
	case !scheduleName.MatchString(q.Schedule):
		return wrong("schedule", "A schedule's name has up to 64 of the characters a–z, 0–9, “.”, “_” and “-”, and begins with a letter or digit.")
	case len(q.Emails) > maxOnCall:
		return wrong("too_many", fmt.Sprintf("At most %d people are on call at a time.", maxOnCall))
	case len(q.Emails) > 0 && !q.Until.After(q.From):
		return wrong("until_too_early", "until has to come after from, and after now.")
	case q.Until.Sub(now) > AwayAhead:
		return wrong("too_far", "A shift ends at most a year from now.")
	}
	return nil
}

// Set replaces what is known of a schedule from a moment on. Whoever is on
// call has the role "on-call/" and the schedule's name for that time. With
// nobody, nobody has it, and what waits for them escalates at once.
func (r OnCall) Set(ctx context.Context, by access.Initiator, q OnCallRequest, once *access.Idempotency[access.Done]) error {
	now, err := r.Store.Now(ctx)
	if err != nil {
		return err
	}
	asked := q.From
	if q.From.Before(now) {
		q.From = now
	}
	if len(q.Emails) == 0 && q.Until.IsZero() {
		q.Until = q.From
	}
	if err := q.Check(now); err != nil {
		return err
	}
	ids, identities, err := r.ids(ctx, by, q.Emails)
	if err != nil {
		return err
	}
	e := by.Event("ON_CALL_SET", "Who is on call was changed.", "", "")
	if err := e.SetPayload(map[string]any{"schedule": q.Schedule, "people": ids, "from": q.From.UTC(), "until": q.Until.UTC()}); err != nil {
		return err
	}
	if _, guarded, err := r.guarded(ctx, by, store.RoutingChange); err != nil {
		return err
	} else if guarded && len(ids) > 0 {
		return r.wait(ctx, by, q, asked, ids, identities, e)
	}
	if q.OffFrom != nil {
		if err := r.Set(ctx, by, OnCallRequest{Schedule: q.Schedule, From: *q.OffFrom}, nil); err != nil {
			return err
		}
	}
	return r.administered(ctx, r.Store.OnCall.Set(ctx, q.Schedule, ids, q.From, q.Until, by.Actor.ID, once, e))
}

// wait has people approve who is on call: others than those who would be. It proposes what was
// asked for, whenever that is: asked for again it is the same change.
func (r OnCall) wait(ctx context.Context, by access.Initiator, q OnCallRequest, asked time.Time, ids, identities []string, e engine.Event) error {
	if err := e.SetPayload(map[string]any{"schedule": q.Schedule, "people": ids, "from": asked.UTC(), "until": q.Until.UTC()}); err != nil {
		return err
	}
	off := asked
	if q.OffFrom != nil && q.OffFrom.Before(off) {
		off = *q.OffFrom
		if err := e.AddToPayload("off_from", off.UTC()); err != nil {
			return err
		}
	}
	i, err := r.newItem(ctx, store.ScheduleEntry, q.Schedule, "on call as "+q.Schedule, store.ProposedSchedule{People: ids, Off: off.UTC(), From: asked.UTC(), Until: q.Until.UTC(), ToldBy: by.Actor.ID}, e)
	if err != nil {
		return err
	}
	shifts, err := r.Shifts(ctx)
	if err != nil {
		return err
	}
	i.subjects = identities
	i.was, i.becomes = "", "" // by addresses, for people
	line := func(email string, from, until time.Time) string {
		return fmt.Sprintf("\n  %s from %s until %s", email, from.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
	}
	for _, s := range shifts {
		if s.Schedule != q.Schedule {
			continue
		}
		i.was += line(s.Email, s.From, s.Until)
		if s.From.Before(off) {
			i.becomes += line(s.Email, s.From, slices.MinFunc([]time.Time{s.Until, off}, time.Time.Compare))
		}
	}
	for _, email := range q.Emails {
		i.becomes += line(strings.ToLower(strings.TrimSpace(email)), q.From, q.Until)
	}
	return r.hold(ctx, by, store.RoutingChange, "", i)
}

// ids finds the accounts of the addresses, and whose they are. Those that are nobody's are
// named in the refusal. A person does not name an account of their own: being on call is
// a role, and nobody gives themselves one.
func (r OnCall) ids(ctx context.Context, by access.Initiator, emails []string) (ids, identities []string, err error) {
	var self engine.Person
	if by.Actor.Kind == engine.HumanActor && len(emails) > 0 {
		if self, err = r.Store.People.Get(ctx, by.Actor.ID); err != nil {
			return nil, nil, err
		}
	}
	ids = []string{}
	var unknown []string
	for _, email := range emails {
		p, _, err := r.Store.People.ByEmail(ctx, strings.ToLower(strings.TrimSpace(email)))
		switch {
		case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnstorable) || err == nil && p.Disabled:
			unknown = append(unknown, fmt.Sprintf("%q", email))
		case err != nil:
			return nil, nil, err
		case self.ID != "" && self.Identity == p.Identity:
			return nil, nil, &access.Refusal{Kind: access.Forbidden, Code: "own_account", Detail: "Nobody puts themselves on call: another administrator does it, or the schedule's own system."}
		case !slices.Contains(ids, p.ID):
			ids, identities = append(ids, p.ID), append(identities, p.Identity)
		}
	}
	if len(unknown) > 0 {
		return nil, nil, &access.Refusal{Kind: access.Invalid, Code: "unknown_people", Detail: "There is no active account with the address " + strings.Join(unknown, ", ") + ". Nothing was changed."}
	}
	return ids, identities, nil
}

// Shifts lists who is on call, and who will be.
func (r OnCall) Shifts(ctx context.Context) ([]Shift, error) {
	shifts, now, err := r.Store.OnCall.Shifts(ctx)
	if err != nil {
		return nil, err
	}
	people, err := r.Store.People.List(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]engine.Person{}
	for _, p := range people {
		known[p.ID] = p
	}
	list := make([]Shift, 0, len(shifts))
	for _, s := range shifts {
		p := known[s.PersonID]
		list = append(list, Shift{
			Schedule: s.Schedule, Email: p.Email, Name: p.Name, From: s.From, Until: s.Until, OnCall: !now.Before(s.From), Disabled: p.Disabled,
		})
	}
	return list, nil
}
