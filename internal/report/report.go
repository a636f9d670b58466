package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// Bounds of the auditors' reports.
const (
	// ReportPeriod is the period of a report that names none, and maxReportPeriod
	// the longest.
	ReportPeriod    = 30 * 24 * time.Hour
	maxReportPeriod = 366 * 24 * time.Hour
	// silentAfter is how long somebody with a say may stay away before the access
	// report names them.
	silentAfter = 90 * 24 * time.Hour
	// maxChanges is how many changes a report lists, and maxReportRows how many
	// events, keys or delegations of a kind it reads.
	maxChanges    = 500
	maxReportRows = 20000
)

// AccessQuery says what an access report is about. Zero fields stand for now,
// and for the last thirty days.
type AccessQuery struct {
	// At is the moment at which somebody could approve something.
	At time.Time
	// Since and Until bound the changes that are listed; Until is not in it.
	Since, Until time.Time
}

// AccessReport says who could approve what, and when that changed.
type AccessReport struct {
	Now  time.Time `json:"now"`
	At   time.Time `json:"at" doc:"The moment that it describes."`
	Past bool      `json:"past" doc:"Whether that is a moment of the past, put together from the audit log."`
	// Sources and Gaps are sentences.
	Sources []string       `json:"sources" doc:"Where each part comes from."`
	Gaps    []string       `json:"gaps" doc:"What the log does not say, or says otherwise than the database."`
	Roles   []RoleAccess   `json:"roles" doc:"The roles that rules, routing and waiting approvals ask for."`
	Powers  []RoleAccess   `json:"powers" doc:"The roles that Holdpoint itself gives a meaning: admin, auditor, break-glass."`
	Silent  []SilentPerson `json:"silent" doc:"People with a say who have not signed in for 90 days."`
	Grants  []HeldGrant    `json:"grants" doc:"Standing grants in force."`
	Keys    []HeldKey      `json:"keys" doc:"API keys that are good."`
	Since   time.Time      `json:"since"`
	Until   time.Time      `json:"until"`
	Changes []AccessChange `json:"changes" doc:"Changes in the period, the newest first."`
	More    bool           `json:"more" doc:"Whether there are more changes in the period than are listed."`
}

// RoleAccess is a role, who asks for it, and who has it.
type RoleAccess struct {
	Role  string      `json:"role"`
	Asked []RoleAsked `json:"asked" doc:"Who asks for it."`
	// Needed is the most people that anything asks for at once, and People how many
	// human beings have it by themselves or by being on call.
	Needed  int          `json:"needed"`
	People  int          `json:"people"`
	Short   bool         `json:"short" doc:"Fewer people have it than something needs."`
	Holders []RoleHolder `json:"holders"`
}

// RoleAsked is something that asks for a role.
type RoleAsked struct {
	By     string `json:"by" enum:"policy,routing,approvals"`
	Name   string `json:"name" doc:"The rule's id, the routing rule's place, or how many approvals wait."`
	As     string `json:"as" enum:"decides,one_of,escalation,extends,if_too_few"`
	Needed int    `json:"needed"`
}

// RoleHolder is somebody who has a role at the moment.
type RoleHolder struct {
	PersonID string     `json:"person_id"`
	Name     string     `json:"name"`
	Email    string     `json:"email"`
	Identity string     `json:"identity" doc:"Accounts of one human being share it."`
	How      string     `json:"how" enum:"direct,on_call,delegation"`
	Via      []string   `json:"via,omitempty" doc:"Whom they stand in for, the next one first: names."`
	Since    *time.Time `json:"since,omitempty"`
	Until    *time.Time `json:"until,omitempty"`
	// Unsure says that the log does not tell since when, or that they had it at all.
	Unsure     string       `json:"unsure,omitempty"`
	Factors    []HeldFactor `json:"factors" doc:"Second factors."`
	LastSignIn *time.Time   `json:"last_sign_in,omitempty"`
}

// HeldFactor is a second factor that somebody has.
type HeldFactor struct {
	Kind  string     `json:"kind" enum:"passkey,totp"`
	Count int        `json:"count"`
	Since *time.Time `json:"since,omitempty" doc:"Of the oldest."`
}

// SilentPerson has a say and has not signed in for long.
type SilentPerson struct {
	PersonID   string     `json:"person_id"`
	Name       string     `json:"name"`
	Email      string     `json:"email"`
	Roles      []string   `json:"roles"`
	LastSignIn *time.Time `json:"last_sign_in,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`
}

// HeldGrant is a standing grant in force.
type HeldGrant struct {
	ID        string    `json:"id"`
	Person    string    `json:"person"`
	PersonID  string    `json:"person_id"`
	AgentID   string    `json:"agent_id"`
	Tool      string    `json:"tool_name"`
	Uses      *int      `json:"uses,omitempty" doc:"How often it has voted; left out where the log alone is read."`
	MaxUses   int       `json:"max_uses"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// HeldKey is an API key that is good.
type HeldKey struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"`
	AgentID   string     `json:"agent_id,omitempty"`
	PersonID  string     `json:"person_id,omitempty" doc:"Whose own key it is, if it is an administrator’s."`
	Label     string     `json:"label,omitempty"`
	Scopes    []string   `json:"scopes"`
	MaxState  string     `json:"max_state"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// LastUsedAt is the last use that is known, if it was by then.
	LastUsedAt *time.Time `json:"last_used_at,omitempty" doc:"To the minute; left out where no use is known by that moment."`
	Unsure     string     `json:"unsure,omitempty"`
}

// AccessChange is an event by which somebody may do more or less than before.
type AccessChange struct {
	EventID    string    `json:"event_id"`
	At         time.Time `json:"at"`
	Code       string    `json:"code"`
	Message    string    `json:"message"`
	Refused    bool      `json:"refused,omitempty"`
	By         string    `json:"by" doc:"Who did it: a name, or what it calls itself."`
	ByID       string    `json:"by_id"`
	Channel    string    `json:"channel,omitempty"`
	About      string    `json:"about,omitempty" doc:"Whom or what it is about."`
	Detail     string    `json:"detail,omitempty" doc:"What changed, in words."`
	ApprovalID string    `json:"approval_id,omitempty"`
}

// reportPeriod completes and checks the period of a report.
func reportPeriod(since, until, now time.Time) (time.Time, time.Time, error) {
	if until.IsZero() {
		until = now
	}
	if since.IsZero() {
		since = until.Add(-ReportPeriod)
	}
	wrong := func(code, detail string) error {
		return &access.Refusal{Kind: access.Invalid, Code: code, Detail: detail}
	}
	switch {
	case !since.Before(until):
		return since, until, wrong("period", "The period ends before it begins.")
	case until.Sub(since) > maxReportPeriod:
		return since, until, wrong("period_too_long", "A report covers at most 366 days. Choose a shorter period.")
	}
	return since.UTC(), until.UTC(), nil
}

// ParseTime reads a moment of a report's query, in UTC: 2027-01-31,
// 2027-01-31T18:00 or an RFC 3339 time. "" is the zero time.
func ParseTime(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() >= 1970 && t.Year() < 10000 {
			return t.UTC(), nil
		}
	}
	return time.Time{}, &access.Refusal{Kind: access.Invalid, Code: "bad_time", Detail: "Write a time such as 2027-01-31 or 2027-01-31T18:00Z; without a zone it is UTC."}
}

// Access reports who can approve what now, or could at a moment of the past, and
// what changed in a period. A moment of the past is put together from the audit
// log; Gaps says where the log does not reach.
func (s Reports) Access(ctx context.Context, q AccessQuery) (AccessReport, error) {
	return s.accessTo(ctx, q, (*accessBuilder).grants, (*accessBuilder).keys, (*accessBuilder).changes)
}

// accessTo is a report of the roles, and of what else is asked for.
func (s Reports) accessTo(ctx context.Context, q AccessQuery, more ...func(*accessBuilder, context.Context) error) (AccessReport, error) {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return AccessReport{}, err
	}
	r := AccessReport{Now: now, At: q.At.UTC(), Past: !q.At.IsZero(), Sources: []string{}, Gaps: []string{}}
	if !r.Past {
		r.At = now
	}
	if r.At.After(now) {
		return r, &access.Refusal{Kind: access.Invalid, Code: "at_to_come", Detail: "Nobody knows who will be able to approve what. Choose a moment that has passed."}
	}
	if r.Since, r.Until, err = reportPeriod(q.Since, q.Until, now); err != nil {
		return r, err
	}
	b := &accessBuilder{Reports: s, r: &r}
	for _, step := range append([]func(*accessBuilder, context.Context) error{
		(*accessBuilder).people, (*accessBuilder).duty, (*accessBuilder).deputies, (*accessBuilder).requiredRoles, (*accessBuilder).roleHolders,
	}, more...) {
		if err := step(b, ctx); err != nil {
			return r, err
		}
	}
	return r, nil
}

// accessBuilder puts an access report together.
type accessBuilder struct {
	Reports
	r        *AccessReport
	began    time.Time // of the log
	who      []*standing
	byID     map[string]*standing
	known    []store.Key
	about    map[string][]accessChange // by account or key, the oldest first
	required map[string][]RoleAsked
}

func (b *accessBuilder) gap(format string, args ...any) {
	b.r.Gaps = append(b.r.Gaps, fmt.Sprintf(format, args...))
}

func (b *accessBuilder) source(format string, args ...any) {
	b.r.Sources = append(b.r.Sources, fmt.Sprintf(format, args...))
}

// standing is how a person stood at the report's moment.
type standing struct {
	store.Account
	there  bool      // the account was there and not disabled
	left   time.Time // when it was last disabled by then; zero for never
	roles  []string
	unsure string // why the roles may have been others
	since  map[string]time.Time
	shifts []held           // being on call, by role
	lent   []delegatedRoles // by standing in for others
}

type held struct {
	role         string
	since, until time.Time
}

type delegatedRoles struct {
	via          []string
	roles        []string
	since, until time.Time
}

// roleHolders finds who has each role that is asked for, and who has gone silent.
func (b *accessBuilder) roleHolders(context.Context) error {
	powers := []string{access.AdminRole, access.AuditorRole, approval.BreakGlassRole}
	roles := slices.Sorted(maps.Keys(b.required))
	for _, role := range roles {
		b.r.Roles = append(b.r.Roles, b.access(role))
	}
	for _, role := range powers {
		b.r.Powers = append(b.r.Powers, b.access(role))
	}
	b.r.Silent = []SilentPerson{}
	for _, p := range b.who {
		mine := slices.DeleteFunc(slices.Clone(p.roles), func(role string) bool { return !slices.Contains(roles, role) && !slices.Contains(powers, role) })
		last := p.CreatedAt
		if p.LastSignIn != nil {
			last = *p.LastSignIn
		}
		if p.there && len(mine) > 0 && b.r.At.Sub(last) >= silentAfter {
			b.r.Silent = append(b.r.Silent, SilentPerson{p.ID, p.Name, p.Email, mine, p.LastSignIn, p.CreatedAt})
		}
	}
	return nil
}

// access is who has a role. A deputy has it as well, and is no further voice:
// with their vote speaks whoever they stand in for.
func (b *accessBuilder) access(role string) RoleAccess {
	a := RoleAccess{Role: role, Asked: b.required[role], Holders: []RoleHolder{}}
	if a.Asked == nil {
		a.Asked = []RoleAsked{}
	}
	voices := map[string]bool{}
	for _, p := range b.who {
		if !p.there {
			continue
		}
		holder := RoleHolder{PersonID: p.ID, Name: p.Name, Email: p.Email, Identity: p.Identity, Factors: factorsOf(p.Account), LastSignIn: p.LastSignIn}
		add := func(how string, via []string, since, until time.Time, unsure string) {
			h := holder
			h.How, h.Via, h.Unsure = how, via, unsure
			if !since.IsZero() {
				h.Since = &since
			}
			if !until.IsZero() {
				h.Until = &until
			}
			a.Holders = append(a.Holders, h)
		}
		if slices.Contains(p.roles, role) {
			voices[p.Identity] = true
			since, unsure := p.since[role], p.unsure
			if since.IsZero() && unsure == "" {
				unsure = "The log does not say since when."
			}
			add("direct", nil, since, time.Time{}, unsure)
		}
		for _, s := range p.shifts {
			if s.role == role {
				voices[p.Identity] = true
				add("on_call", nil, s.since, s.until, "")
			}
		}
		for _, l := range p.lent {
			if slices.Contains(l.roles, role) {
				add("delegation", l.via, l.since, l.until, "")
			}
		}
	}
	a.People = len(voices)
	for _, asked := range a.Asked {
		if asked.As == "decides" || asked.As == "one_of" {
			a.Needed = max(a.Needed, asked.Needed)
		}
	}
	a.Short = a.Needed > a.People
	return a
}

func factorsOf(a store.Account) []HeldFactor {
	list := []HeldFactor{}
	if a.Passkeys > 0 {
		list = append(list, HeldFactor{"passkey", a.Passkeys, a.PasskeysSince})
	}
	if a.TOTPSince != nil {
		list = append(list, HeldFactor{"totp", 1, a.TOTPSince})
	}
	return list
}

// grants lists the standing grants in force: now as they are, and for the past
// as the log tells.
func (b *accessBuilder) grants(ctx context.Context) error {
	b.r.Grants = []HeldGrant{}
	if b.r.Past {
		return b.pastGrants(ctx)
	}
	list, now, err := b.Store.Grants.List(ctx)
	if err != nil {
		return err
	}
	for _, g := range list {
		if g.Live(now) {
			b.r.Grants = append(b.r.Grants, HeldGrant{g.ID, b.name(g.PersonID), g.PersonID, g.AgentID, g.Tool, &g.Uses, g.MaxUses, g.CreatedAt, g.ExpiresAt})
		}
	}
	if len(b.r.Grants) == store.MaxListedGrants {
		b.gap("There are more than %d standing grants in force: the newest are listed.", store.MaxListedGrants)
	}
	return nil
}

// name is what an id stands for.
func (b *accessBuilder) name(id string) string {
	if p := b.byID[id]; p != nil {
		return cmp.Or(p.Name, p.Email)
	}
	return id
}

func (b *accessBuilder) names(ids []string) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = b.name(id)
	}
	return list
}
