package approval

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine"
	"holdpoint/engine/calendar"
)

var (
	start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	// beforeDST is a Friday's afternoon; on Sunday the clocks of Berlin change.
	beforeDST = time.Date(2026, 3, 27, 15, 30, 0, 0, time.UTC)
)

// people are the cast of a walk: two accounts of one human being, somebody on
// the requesting side, people with one role or more, and two who may break the glass.
var people = map[string]Voter{
	"ada":      {Identity: "ada", Roles: []string{"a"}, Active: true},
	"ada-two":  {Identity: "ada", Roles: []string{"a", "b"}, Active: true},
	"ben":      {Identity: "ben", Roles: []string{"a", "b"}, Active: true},
	"cleo":     {Identity: "cleo", Roles: []string{"b"}, Active: true},
	"dina":     {Identity: "dina", Roles: []string{"a", "b"}, Active: true},
	"owner":    {Identity: "owner", Roles: []string{"a", "b", BreakGlassRole}, Active: true},
	"disabled": {Identity: "gone", Roles: []string{"a", "b"}},
	"nobody":   {Identity: "nobody", Active: true},
	"chief":    {Identity: "chief", Roles: []string{"c"}, Active: true},
	"eve":      {Identity: "eve", Roles: []string{BreakGlassRole, "a"}, Active: true},
	"finn":     {Identity: "finn", Roles: []string{BreakGlassRole}, Active: true},
}

var names = []string{"ada", "ada-two", "ben", "cleo", "dina", "owner", "disabled", "nobody", "chief", "eve", "finn"}

var office = calendar.Calendar{TimeZone: "Europe/Berlin", Hours: map[string][]string{
	"mon": {"09:00-17:00"}, "tue": {"09:00-17:00"}, "wed": {"09:00-17:00"}, "thu": {"09:00-17:00"}, "fri": {"09:00-17:00"},
}}

// drawSpan is from a second to some hours.
func drawSpan(t *rapid.T, label string) engine.Duration {
	unit := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, label+" unit")
	return engine.Duration(unit * time.Duration(rapid.IntRange(1, 10).Draw(t, label)))
}

func often(t *rapid.T, label string, ofTen int) bool {
	return rapid.IntRange(1, 10).Draw(t, label) <= ofTen
}

func drawPlan(t *rapid.T, opened time.Time) Plan {
	p := Plan{OpenedAt: opened, ExpiresAt: opened.Add(4 * time.Duration(drawSpan(t, "expires"))), Excluded: []string{"owner"}, Edition: 1}
	p.Terms = Terms{Accountable: []string{"owner", "ben"}, Calendars: map[string]calendar.Calendar{"office": office}, Extenders: []string{"b"}}
	if often(t, "pauses", 5) {
		p.PauseFor = drawSpan(t, "pause_for")
	}
	if often(t, "somebody is claimed", 3) {
		p = claiming(p, rapid.SampledFrom([]string{"ada", "dina", "cleo"}).Draw(t, "claimed"))
	}
	for range rapid.IntRange(1, 4).Draw(t, "requirements") {
		p.Requirements = append(p.Requirements, drawRequirement(t))
	}
	slices.SortStableFunc(p.Requirements, func(x, y engine.Requirement) int { return x.Kind.Order() - y.Kind.Order() })
	return p
}

func drawRequirement(t *rapid.T) engine.Requirement {
	kinds := append(engine.Kinds(), engine.Review, engine.Review, engine.Human)
	r := engine.Requirement{
		Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Role: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "role"),
		Needed: rapid.IntRange(1, 3).Draw(t, "needed"), Deny: rapid.IntRange(0, 3).Draw(t, "deny"),
	}
	if often(t, "groups", 3) {
		r.Role = ""
		for range rapid.IntRange(1, 3).Draw(t, "any_of") {
			r.AnyOf = append(r.AnyOf, engine.Group{Role: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group"), Needed: rapid.IntRange(1, 3).Draw(t, "of")})
		}
	}
	if often(t, "in business hours", 4) {
		r.Calendar = "office"
	}
	if often(t, "has its own time", 4) {
		r.Within = drawSpan(t, "within")
	}
	last := engine.Duration(0)
	for range rapid.IntRange(0, 2).Draw(t, "reminders") {
		last += drawSpan(t, "remind")
		r.Reminders = append(r.Reminders, last)
	}
	last = 0
	for range rapid.IntRange(0, 2).Draw(t, "escalates") {
		last += drawSpan(t, "after")
		r.Escalation = append(r.Escalation, engine.Escalation{After: last, Role: rapid.SampledFrom([]string{"b", "c"}).Draw(t, "to")})
	}
	return r
}

// drawPause is how long nothing happens: not at all, a while, or until about the
// next moment at which something changes by itself.
func drawPause(t *rapid.T, s State, now time.Time) time.Duration {
	switch rapid.IntRange(0, 19).Draw(t, "pause") {
	default:
		return time.Duration(rapid.IntRange(0, 1).Draw(t, "moment")) * time.Millisecond
	case 0:
		return time.Duration(drawSpan(t, "for")) / 2
	case 1, 2:
		return 700 * time.Millisecond
	case 3:
	}
	if s.Status != Pending {
		return time.Hour
	}
	at := rapid.SampledFrom([]time.Time{s.Wake, s.Wake, s.Wake, s.Deadline}).Draw(t, "until")
	return max(0, at.Sub(now)+time.Duration(rapid.IntRange(-1, 1).Draw(t, "about"))*time.Millisecond)
}

// drawFact is anything that anybody could try, in whatever role.
func drawFact(t *rapid.T, p Plan, s State, now time.Time) Fact {
	kinds := []FactKind{
		Vote, Vote, Vote, Vote, Vote, Vote, Vote, Reply, Cancel, TicketLink, TicketCheck, Verification, Question, Information,
		Comment, Claim, Unclaim, Extend, Escalate, Edit, Reopen, BreakGlass,
	}
	if s.Status == Pending {
		// What it waits for comes more often, so that walks get somewhere.
		switch p.Requirements[s.Stage].Kind.Traits().Discharger {
		case engine.Requester:
			kinds = append(kinds, Reply, Reply, Reply, Reply)
		case engine.Accountable:
			kinds = append(kinds, slices.Repeat([]FactKind{Verification}, 12)...)
		case engine.Tracker:
			kinds = append(kinds, slices.Repeat([]FactKind{TicketLink, TicketCheck, TicketCheck}, 6)...)
		case engine.Reviewers:
			kinds = append(kinds, slices.Repeat([]FactKind{Vote}, 20)...)
		}
	}
	who := rapid.SampledFrom(names).Draw(t, "who")
	if often(t, "one of many", 6) {
		who = rapid.SampledFrom(names[:5]).Draw(t, "whom")
	}
	f := Fact{
		Kind: rapid.SampledFrom(kinds).Draw(t, "fact"), Yes: often(t, "yes", 9), Denial: NotNow,
		Actor: engine.Actor{Kind: engine.HumanActor, ID: who},
	}
	if f.Kind == Cancel && often(t, "goes on", 8) {
		f.Kind = Comment
	}
	machines := map[FactKind]engine.ActorKind{Reply: engine.ServiceActor, Cancel: engine.AgentActor, TicketCheck: engine.SystemActor, Escalate: engine.SystemActor, Information: engine.AgentActor}
	if usual, by := machines[f.Kind]; by && often(t, "as usual", 8) {
		f.Actor = engine.Actor{Kind: usual, ID: "machine"}
	} else if often(t, "a machine", 1) {
		f.Actor = engine.Actor{Kind: rapid.SampledFrom([]engine.ActorKind{engine.AgentActor, engine.ServiceActor, engine.SystemActor}).Draw(t, "machine"), ID: who}
	}
	if often(t, "stands in", 2) {
		f.Via = rapid.SliceOfN(rapid.SampledFrom(names), 1, 3).Draw(t, "via")
	}
	if often(t, "says why", 8) {
		f.Comment = "because"
	}
	if often(t, "proves", 8) {
		ages := []time.Duration{0, 0, 0, time.Minute, FreshFor, FreshFor + time.Millisecond, time.Hour, -time.Minute, -time.Hour}
		f.Details.Proof = &Proof{Method: rapid.SampledFrom([]string{"passkey", "totp", "password", ""}).Draw(t, "method"), At: now.Add(-rapid.SampledFrom(ages).Draw(t, "age"))}
	}
	if often(t, "beforehand", 1) {
		f.Details.Grant = "grant"
	}
	if f.Kind == Escalate && often(t, "widens", 5) {
		f.Details.Widened = rapid.SliceOfN(rapid.IntRange(s.Stage, s.Stage+1), 1, 2).Draw(t, "widened")
	}
	f.Details.Alone = often(t, "alone", 2)
	f.Details.By = drawSpan(t, "by")
	if often(t, "too far", 1) {
		f.Details.By = engine.Duration(rapid.SampledFrom([]time.Duration{0, -time.Hour, MaxExpiresIn, 1<<63 - 1}).Draw(t, "far"))
	}
	if often(t, "ticket", 9) {
		f.Details.Ticket = &Ticket{System: "tracker", Ref: fmt.Sprint("T-", rapid.IntRange(1, 2).Draw(t, "ref"))}
	}
	return f
}

// given is how many places are filled.
func given(s State) (n int) {
	for _, r := range s.Requirements {
		n += r.Given
	}
	return n
}
