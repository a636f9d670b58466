package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// Bounds of a delegation.
const (
	// MaxAway is the longest time for which somebody may stand in for somebody.
	MaxAway = 90 * 24 * time.Hour
	// AwayAhead is how far ahead a delegation may begin.
	AwayAhead = 366 * 24 * time.Hour
	// maxDelegations bounds how many are listed.
	maxDelegations = 500
	// mostUnknown is how many deputies whom there is not somebody names within unknownWithin: who may
	// not see people must not find out who has an account by trying addresses.
	mostUnknown   = 10
	unknownWithin = time.Hour
)

// Delegation says that a deputy decides in a person's place for a time.
type Delegation = store.Delegation

// DelegateRequest says who is to decide in whose place, and when.
type DelegateRequest struct {
	By        engine.Person
	PersonID  string    // "" means By
	DeputyID  string    // an id, or an e-mail address
	From      time.Time // the zero time, and any that has passed, mean now
	Until     time.Time
	Reason    string
	RequestID string
	Channel   string // "console" or "api"
}

// Absence is a delegation with the people in it.
type Absence struct {
	Delegation
	Person, Deputy engine.Person
	// Active says that it is in force now, rather than later.
	Active bool
}

// Absences is what somebody may see of who is away.
type Absences struct {
	// Mine are those by which others decide in the person's place, For those by
	// which the person decides in others' places; All is everybody's, for
	// administrators.
	Mine, For, All []Absence
	// People are those whom the person may choose from: for administrators everybody
	// who is not disabled, for others those of them who share a role that decides. A
	// deputy may be somebody else, whom the person names by address.
	People []engine.Person
}

// Create lets a deputy decide in somebody's place for a time: by the person
// themselves, or by an administrator. A deputy can hand on what they were handed.
// Loops may be written: no chain comes back to anybody, and everybody in a chain
// is one voice, so that nobody counts twice. It is in force at once from its
// beginning on.
func (a Delegations) Create(ctx context.Context, r DelegateRequest) (Delegation, error) {
	now, err := a.Store.Now(ctx)
	if err != nil {
		return Delegation{}, err
	}
	d := Delegation{
		ID: store.NewID("dlg"), PersonID: cmp.Or(r.PersonID, r.By.ID), DeputyID: r.DeputyID, From: r.From.UTC(), Until: r.Until.UTC(),
		Reason: strings.TrimSpace(r.Reason), CreatedBy: r.By.ID,
	}
	if d.From.Before(now) {
		d.From = now
	}
	by := access.PersonInitiator(r.By, r.Channel, r.RequestID)
	if !access.MayAdminister(r.By) {
		// One after the other, so that none is looked up before the one before is on record.
		leave, err := a.naming.Wait(ctx, r.By.ID)
		if err != nil {
			return d, err
		}
		defer leave()
		if named, err := a.Store.Events.CountBy(ctx, r.By.ID, noDeputy.Code, unknownWithin); err != nil {
			return d, err
		} else if named >= mostUnknown {
			return d, tooManyUnknown
		}
	}
	if strings.Contains(d.DeputyID, "@") {
		deputy, _, err := a.Store.People.ByEmail(ctx, strings.ToLower(strings.TrimSpace(d.DeputyID)))
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrUnstorable) {
			return d, err
		}
		d.DeputyID = cmp.Or(deputy.ID, d.DeputyID)
	}
	if d.PersonID != r.By.ID && !access.MayAdminister(r.By) {
		return d, access.Refuse(ctx, a.Store, &access.Refusal{Kind: access.Forbidden, Code: "not_yours", Detail: "Only an administrator can say who decides in somebody else's place."}, by.Event("", "", "", ""))
	}
	if _, guarded, err := a.guarded(ctx, by, store.RolesChange); err != nil {
		return d, err
	} else if guarded && d.PersonID != r.By.ID {
		return d, access.Refuse(ctx, a.Store, ownSay, by.Event("", "", "", ""))
	}
	if err := checkDelegation(d, now); err != nil {
		return d, err
	}
	if err := a.mayStandIn(ctx, r.By, d); errors.Is(err, noDeputy) {
		return d, access.Refuse(ctx, a.Store, noDeputy, by.Event("", "", "", ""))
	} else if err != nil {
		return d, err
	}
	e, err := delegated(by, "DELEGATION_MADE", "A person stands in for another one.", d)
	if err != nil {
		return d, err
	}
	switch err := a.Store.Delegations.Create(ctx, d, e); {
	case errors.Is(err, store.ErrConflict):
		return d, &access.Refusal{Kind: access.Invalid, Code: "overlaps", Detail: "The same deputy decides in this person's place for some of that time already. Revoke that first, or choose another time."}
	case errors.Is(err, store.ErrTooMany):
		return d, &access.Refusal{Kind: access.Invalid, Code: "too_many", Detail: fmt.Sprintf("This person has %d delegations that are in force or to come, which is as many as one may have. Revoke one first.", store.MaxDelegations)}
	case errors.Is(err, store.ErrUnstorable):
		return d, access.UnstorableText
	default:
		return d, err
	}
}

// ownSay is the refusal of a delegation that an administrator makes for somebody else: it would
// give the deputy a role.
var ownSay = &access.Refusal{Kind: access.Forbidden, Code: ApprovalRequired, Detail: "Giving a role takes an approval here, so only people themselves say who decides in their place."}

// noDeputy is the refusal of a deputy whom there is not.
var noDeputy = &access.Refusal{Kind: access.Invalid, Code: "nobody", Detail: "There is no such person."}

var tooManyUnknown = &access.Refusal{
	Kind: access.RateLimited, Code: "too_many_attempts", RetryAfter: unknownWithin,
	Detail: fmt.Sprintf("You have named %d deputies within an hour whom there is not. Wait an hour, or ask an administrator to say who decides in your place.", mostUnknown),
}

// checkDelegation refuses times and reasons that no delegation can have.
func checkDelegation(d Delegation, now time.Time) error {
	wrong := func(code, detail string) error {
		return &access.Refusal{Kind: access.Invalid, Code: code, Detail: detail}
	}
	switch {
	case d.DeputyID == "":
		return wrong("no_deputy", "Choose who decides in your place.")
	case d.Until.IsZero():
		return wrong("until_missing", "Say until when.")
	case !d.Until.After(d.From):
		return wrong("until_too_early", "The end has to come after the beginning, and after now.")
	case d.Until.Sub(d.From) > MaxAway:
		return wrong("too_long", fmt.Sprintf("Somebody can stand in for at most %d days. Do it again when they are over.", int(MaxAway.Hours()/24)))
	case d.From.Sub(now) > AwayAhead:
		return wrong("too_far", "It can begin at most a year from now.")
	case d.Reason == "":
		return wrong("reason_required", "Say why, in a few words: your deputy and the audit's readers see it.")
	case len(d.Reason) > access.MaxReason:
		return wrong("reason_too_long", fmt.Sprintf("The reason has %d bytes; at most %d are kept.", len(d.Reason), access.MaxReason))
	}
	return nil
}

// mayStandIn refuses a deputy who cannot be this person's.
func (a Delegations) mayStandIn(ctx context.Context, by engine.Person, d Delegation) error {
	wrong := func(code, detail string) error {
		return &access.Refusal{Kind: access.Invalid, Code: code, Detail: detail}
	}
	person, err1 := a.Store.People.Get(ctx, d.PersonID)
	deputy, err2 := a.Store.People.Get(ctx, d.DeputyID)
	err := errors.Join(err1, err2)
	switch {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnstorable):
		return noDeputy
	case err != nil:
		return err
	case person.Identity == deputy.Identity:
		return wrong("own_deputy", "Nobody can stand in for themselves, under whichever account.")
	case person.ID != by.ID && deputy.Identity == by.Identity:
		return wrong("own_deputy", "An administrator cannot give themselves somebody else's say. Ask another administrator, or the person.")
	case deputy.Disabled && !access.MayAdminister(by):
		return noDeputy // whoever may not see people is not told of an account that is of no use to them
	case person.Disabled || deputy.Disabled:
		return wrong("disabled", "That account is disabled: it has no say, and can have nobody else's.")
	}
	return nil
}

// delegated is the event of a change to a delegation: it names ids and times, and
// not the reason, which may be private.
func delegated(by access.Initiator, code, message string, d Delegation) (engine.Event, error) {
	e := by.Event(code, message, "", "")
	err := e.SetPayload(map[string]any{"delegation": d.ID, "person": d.PersonID, "deputy": d.DeputyID, "from": d.From.UTC(), "until": d.Until.UTC()})
	return e, err
}

// Revoke ends a delegation at once: by either side of it, or an administrator.
// What the deputy has said until then stays said.
func (a Delegations) Revoke(ctx context.Context, by engine.Person, id, channel, requestID string) error {
	gone := &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such delegation that is not revoked already."}
	d, err := a.Store.Delegations.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnstorable) {
		return gone
	}
	if err != nil {
		return err
	}
	if by.ID != d.PersonID && by.ID != d.DeputyID && !access.MayAdminister(by) {
		return gone // it is nobody else's business that there is one
	}
	e, err := delegated(access.PersonInitiator(by, channel, requestID), "DELEGATION_REVOKED", "A person no longer stands in for another one.", d)
	if err != nil {
		return err
	}
	if err = a.Store.Delegations.Revoke(ctx, id, e); errors.Is(err, store.ErrNotFound) {
		return gone
	}
	return err
}

// Absences lists the delegations that are in force or still to come, as far as the
// person may see them.
func (a Delegations) Absences(ctx context.Context, p engine.Person) (Absences, error) {
	whose := p.ID
	if access.MayAdminister(p) {
		whose = ""
	}
	var found Absences
	list, now, err := a.Store.Delegations.List(ctx, whose, maxDelegations)
	if err != nil {
		return found, err
	}
	everybody, err := a.Store.People.List(ctx)
	if err != nil {
		return found, err
	}
	known := map[string]engine.Person{}
	for _, one := range everybody {
		known[one.ID] = one
		if !one.Disabled && (whose == "" || one.ID == p.ID || slices.ContainsFunc(one.Roles, func(role string) bool { return !approval.Undelegable(role) && p.Has(role) })) {
			found.People = append(found.People, one)
		}
	}
	slices.SortStableFunc(found.People, func(x, y engine.Person) int { return cmp.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name)) })
	for _, d := range list {
		away := Absence{Delegation: d, Person: known[d.PersonID], Deputy: known[d.DeputyID], Active: !now.Before(d.From)}
		switch p.ID {
		case d.PersonID:
			found.Mine = append(found.Mine, away)
		case d.DeputyID:
			found.For = append(found.For, away)
		}
		if whose == "" {
			found.All = append(found.All, away)
		}
	}
	return found, nil
}
