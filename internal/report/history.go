package report

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/admin"
	"holdpoint/internal/store"
)

// accessChange is what an administrative event says of who may do what. Members that an
// Event does not have are zero: those of earlier versions say less.
type accessChange struct {
	engine.Event `json:"-"`

	Subject string `json:"subject"`
	Person  string `json:"person"`
	// RolesBefore and RolesAfter are an account's roles around the event.
	RolesBefore []string `json:"roles_before"`
	RolesAfter  []string `json:"roles_after"`
	// Factor is "passkey" or "totp".
	Factor string `json:"factor"`
	// Of keys.
	Kind         string   `json:"kind"`
	Agent        string   `json:"agent"`
	Scopes       []string `json:"scopes"`
	ScopesBefore []string `json:"scopes_before"`
	MaxState     string   `json:"max_state"`
	// Of agents.
	Owner       string `json:"owner"`
	OwnerBefore string `json:"owner_before"`
	// Of delegations, shifts and grants.
	Delegation string     `json:"delegation"`
	Deputy     string     `json:"deputy"`
	Schedule   string     `json:"schedule"`
	People     []string   `json:"people"`
	From       time.Time  `json:"from"`
	Until      time.Time  `json:"until"`
	Grant      string     `json:"grant"`
	Uses       int        `json:"uses"`
	ExpiresAt  *time.Time `json:"expires_at"`
	Document   string     `json:"document"`
	Means      string     `json:"means"`
}

// readAccessChange takes an event apart. A payload that is none of ours says nothing.
func readAccessChange(e engine.Event) accessChange {
	t := accessChange{}
	if json.Unmarshal(e.SafePayload, &t) != nil {
		t = accessChange{}
	}
	t.Event = e
	return t
}

// code is the event's first reason.
func (t accessChange) code() string {
	if len(t.Reasons) == 0 {
		return ""
	}
	return t.Reasons[0].Code
}

// done reports whether the event is of something that was done, not refused.
func (t accessChange) done() bool { return t.Outcome != engine.Deny }

// people finds out how everybody stood: whether the account was there, and with
// which roles of its own.
func (b *accessBuilder) people(ctx context.Context) error {
	s := b.Store
	accounts, err := s.Reports.Accounts(ctx, b.r.At)
	if err != nil {
		return err
	}
	if b.known, err = s.Keys.List(ctx, maxReportRows); err != nil {
		return err
	}
	if b.began, err = s.Reports.LogBegan(ctx); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if b.r.Past && b.r.At.Before(b.began) {
		b.gap("The log begins at %s: of the moment that was asked for it says nothing.", stampUTC(b.began))
	}
	subjects := make([]string, 0, 2*len(accounts)+len(b.known))
	owner := map[string]string{} // whom an address belongs to
	for _, a := range accounts {
		subjects, owner[a.Email] = append(subjects, a.ID, a.Email), a.ID
	}
	for _, k := range b.known {
		subjects = append(subjects, k.ID)
	}
	events, err := s.Reports.EventsAbout(ctx, subjects, maxReportRows)
	if err != nil {
		return err
	}
	if len(events) == maxReportRows {
		b.gap("Only the newest %d events about accounts and keys are read, which go back to %s.", maxReportRows, stampUTC(events[len(events)-1].Timestamp))
	}
	b.about = map[string][]accessChange{}
	for _, e := range slices.Backward(events) {
		t := readAccessChange(e)
		who := cmp.Or(t.Person, t.Subject)
		if id, ok := owner[who]; ok {
			who = id
		}
		b.about[who] = append(b.about[who], t)
	}
	b.byID = map[string]*standing{}
	for _, a := range accounts {
		p := b.stateOf(a)
		b.who, b.byID[a.ID] = append(b.who, p), p
	}
	if b.r.Past {
		b.source("Accounts and their roles come from the events that added, changed and disabled them.")
		b.source("Second factors are those of today that were there then, and those that the log says have been removed since. Earlier versions of Holdpoint did not record whose factor was removed: one of those may be missing here.")
	} else {
		b.source("Accounts, their roles and second factors are those of the database; since when somebody has a role is what the log says.")
	}
	return nil
}

// stateOf is how an account stood at the report's moment.
func (b *accessBuilder) stateOf(a store.Account) *standing {
	p := &standing{Account: a, since: map[string]time.Time{}, roles: slices.Clone(a.Roles)}
	at, who := b.r.At, a.Label()
	added := a.CreatedAt
	// away says that the account was disabled then, saysDisabled that the log's last
	// word is that it is.
	away := a.DisabledAt != nil && !a.DisabledAt.After(at)
	saysAdded, saysDisabled, explained := false, false, false
	var before, after []string // of the events around the moment
	for _, t := range b.about[a.ID] {
		switch {
		case !t.done():
			continue
		case t.code() == "USER_ADDED":
			saysAdded, added = true, t.Timestamp
		case t.code() == "USER_DISABLED":
			saysDisabled = true
			if !t.Timestamp.After(at) {
				p.left = t.Timestamp
			}
			away = away || !t.Timestamp.After(at)
			// What roles the account was left with gives nobody anything.
			if t.RolesBefore != nil && t.Timestamp.After(at) && before == nil {
				before = t.RolesBefore
			}
			continue
		case t.code() == "USER_ENABLED":
			saysDisabled = false
			if a.DisabledAt == nil || a.DisabledAt.After(at) {
				away = away && t.Timestamp.After(at)
			}
		}
		if t.RolesAfter == nil {
			continue
		}
		if t.Timestamp.After(at) {
			if before == nil {
				before = t.RolesBefore
			}
			continue
		}
		for _, role := range t.RolesAfter {
			if !slices.Contains(after, role) || t.code() == "USER_ENABLED" {
				p.since[role] = t.Timestamp
			}
		}
		after, explained = t.RolesAfter, true
	}
	p.there = !added.After(at) && !away
	if !b.r.Past {
		p.there = a.DisabledAt == nil
		switch {
		case !saysAdded:
			b.gap("The log does not say who added %s, or with which roles.", who)
		case p.there && explained && !sameRoles(after, a.Roles):
			b.gap("The log leaves %s with %s, and the database says %s: that was changed past Holdpoint.", who, rolesWords(after), rolesWords(a.Roles))
		}
		switch {
		case a.DisabledAt != nil && !saysDisabled:
			b.gap("The log does not say who disabled %s.", who)
		case a.DisabledAt == nil && saysDisabled:
			b.gap("The log leaves %s disabled, and the database does not: that was changed past Holdpoint.", who)
		}
		for role := range p.since {
			if !slices.Contains(a.Roles, role) {
				delete(p.since, role)
			}
		}
		return p
	}
	switch {
	case explained:
		p.roles = slices.Clone(after)
	case before != nil:
		p.roles = slices.Clone(before)
	default:
		p.unsure = "The log does not say which roles they had; these are today’s."
		if p.there {
			b.gap("No event says which roles %s had at that moment. Those of today are taken.", who)
		}
	}
	b.pastFactors(p)
	return p
}

// pastFactors puts together which second factors somebody had: those that they
// have and had then already, and those that the log says have gone since.
func (b *accessBuilder) pastFactors(p *standing) {
	if p.TOTPSince != nil && p.TOTPSince.After(b.r.At) {
		p.TOTPSince = nil
	}
	if p.PasskeysSince != nil && p.PasskeysSince.After(b.r.At) {
		p.Passkeys, p.PasskeysSince = 0, nil
	}
	var app, first *time.Time
	keys := 0
	for _, t := range b.about[p.ID] {
		if t.Timestamp.After(b.r.At) || !t.done() {
			continue
		}
		switch code := t.code(); {
		case code == "FACTORS_RESET":
			app, keys, first = nil, 0, nil
		case code != "FACTOR_ADDED" && code != "FACTOR_REMOVED":
		case t.Factor == "totp" && code == "FACTOR_ADDED":
			app = &t.Timestamp
		case t.Factor == "totp":
			app = nil
		case t.Factor == "passkey" && code == "FACTOR_ADDED":
			if keys++; first == nil {
				first = &t.Timestamp
			}
		case t.Factor == "passkey":
			if keys = max(keys-1, 0); keys == 0 {
				first = nil
			}
		}
	}
	if app != nil {
		p.TOTPSince = app
	}
	switch {
	case keys > 0:
		p.Passkeys, p.PasskeysSince = keys, first
	case p.Passkeys > 0:
		p.Passkeys = 1 // the others may have come since
	}
}

func sameRoles(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

func rolesWords(roles []string) string {
	switch len(roles) {
	case 0:
		return "no roles"
	case 1:
		return "the role " + roles[0]
	}
	return "the roles " + strings.Join(roles, ", ")
}

func stampUTC(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05 UTC") }

// duty finds out who was on call. Whoever is put on call replaces everybody on
// that schedule from the moment on, so the last event whose moment had come says
// it all; no shift ends more than a year after it was made.
func (b *accessBuilder) duty(ctx context.Context) error {
	if !b.r.Past {
		shifts, now, err := b.Store.OnCall.Shifts(ctx)
		if err != nil {
			return err
		}
		for _, s := range shifts {
			if p := b.byID[s.PersonID]; p != nil && !now.Before(s.From) {
				p.shifts = append(p.shifts, held{engine.OnCallPrefix + s.Schedule, s.From, s.Until})
			}
		}
		return nil
	}
	events, err := b.Store.Reports.AdminEvents(ctx, "ON_CALL_SET", b.r.At.Add(-admin.AwayAhead), b.r.At, maxReportRows)
	if err != nil {
		return err
	}
	decided := map[string]bool{}
	for _, e := range events {
		t := readAccessChange(e)
		if t.Schedule == "" || decided[t.Schedule] || t.From.After(b.r.At) || !t.done() {
			continue
		}
		decided[t.Schedule] = true
		for _, id := range t.People {
			if p := b.byID[id]; p != nil && t.Until.After(b.r.At) {
				p.shifts = append(p.shifts, held{engine.OnCallPrefix + t.Schedule, t.From, t.Until})
			}
		}
	}
	if len(events) == maxReportRows {
		b.gap("On-call schedules were changed more than %d times in the year before: a schedule that was last changed before %s is not known.", maxReportRows, stampUTC(events[len(events)-1].Timestamp))
	}
	b.source("Who was on call comes from the events that set it.")
	return nil
}

// deputies finds out who stood in for whom, and which roles that lent them.
func (b *accessBuilder) deputies(ctx context.Context) error {
	var list []store.Delegation
	var err error
	if b.r.Past {
		list, err = b.pastDelegations(ctx)
	} else {
		list, _, err = b.Store.Delegations.List(ctx, "", maxReportRows)
	}
	if err != nil {
		return err
	}
	of := map[string][]store.Delegation{} // by deputy
	for _, d := range list {
		if !d.From.After(b.r.At) && d.Until.After(b.r.At) && !b.isVoid(d) {
			of[d.DeputyID] = append(of[d.DeputyID], d)
		}
	}
	for _, p := range b.who {
		if p.there {
			b.lend(p, of, nil, delegatedRoles{})
		}
	}
	return nil
}

// isVoid reports whether who made a delegation was disabled afterwards: it is not good again when they are
// back. The store lists none such.
func (b *accessBuilder) isVoid(d store.Delegation) bool {
	p := b.byID[d.PersonID]
	return b.r.Past && p != nil && p.left.After(d.CreatedAt)
}

// lend follows the chains of those for whom somebody stands in, as the store's
// own does: no chain comes back to anybody, everybody in it is there, and the
// last one's roles are lent.
func (b *accessBuilder) lend(p *standing, of map[string][]store.Delegation, via []string, so delegatedRoles) {
	last := p.ID
	if len(via) > 0 {
		last = via[len(via)-1]
	}
	for _, d := range of[last] {
		next := b.byID[d.PersonID]
		if next == nil || !next.there || next.ID == p.ID || slices.Contains(via, next.ID) || len(via) == maxStandIns {
			continue
		}
		step := delegatedRoles{via: append(slices.Clone(so.via), b.name(next.ID)), since: d.From, until: d.Until}
		if len(via) > 0 && so.since.After(step.since) {
			step.since = so.since
		}
		if len(via) > 0 && so.until.Before(step.until) {
			step.until = so.until
		}
		for _, role := range next.roles {
			if !approval.Undelegable(role) {
				step.roles = append(step.roles, role)
			}
		}
		for _, s := range next.shifts {
			step.roles = append(step.roles, s.role)
		}
		p.lent = append(p.lent, step)
		b.lend(p, of, append(slices.Clone(via), next.ID), step)
	}
}

// maxStandIns is how many may have handed on a say, one to the other.
const maxStandIns = 3

// pastDelegations are those that had been made by the report's moment and not
// been revoked. One lasts ninety days, and begins within a year.
func (b *accessBuilder) pastDelegations(ctx context.Context) ([]store.Delegation, error) {
	since := b.r.At.Add(-admin.AwayAhead - admin.MaxAway)
	var list []store.Delegation
	over := map[string]bool{}
	for _, code := range []string{"DELEGATION_REVOKED", "DELEGATION_MADE"} {
		events, err := b.Store.Reports.AdminEvents(ctx, code, since, b.r.At, maxReportRows)
		if err != nil {
			return nil, err
		}
		if len(events) == maxReportRows {
			b.gap("More than %d delegations were made or revoked: those before %s are not known.", maxReportRows, stampUTC(events[len(events)-1].Timestamp))
		}
		for _, e := range events {
			t := readAccessChange(e)
			switch {
			case t.Delegation == "" || !t.done():
			case code == "DELEGATION_REVOKED":
				over[t.Delegation] = true
			case !over[t.Delegation]:
				list = append(list, store.Delegation{ID: t.Delegation, PersonID: t.Person, DeputyID: t.Deputy, From: t.From, Until: t.Until, CreatedAt: e.Timestamp})
			}
		}
	}
	b.source("Who stood in for whom comes from the events that made and revoked delegations.")
	return list, nil
}
