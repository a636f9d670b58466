package gate_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

func TestWhoMayDelegateToWhom(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	h.give("emil", access.AdminRole)
	h.db.Exec(`UPDATE people SET disabled_at = clock_timestamp() WHERE id = $1`, h.people["dina"].ID)
	id := func(who string) string { return h.people[who].ID }
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	good := admin.DelegateRequest{By: h.people["ada"], DeputyID: id("ben"), Until: in(24 * time.Hour), Reason: "away", Channel: "console"}
	for name, c := range map[string]struct {
		change func(*admin.DelegateRequest)
		want   string
	}{
		"nobody":                    {func(r *admin.DelegateRequest) { r.DeputyID = "" }, "no_deputy"},
		"somebody who is not there": {func(r *admin.DelegateRequest) { r.DeputyID = "usr_x" }, "nobody"},
		"a text":                    {func(r *admin.DelegateRequest) { r.DeputyID = "a\x00b" }, "nobody"},
		"oneself":                   {func(r *admin.DelegateRequest) { r.DeputyID = id("ada") }, "own_deputy"},
		"the own other account":     {func(r *admin.DelegateRequest) { r.DeputyID = id("ada2") }, "own_deputy"},
		"a disabled person":         {func(r *admin.DelegateRequest) { r.DeputyID = id("dina") }, "nobody"},
		"a disabled person, by an admin": {func(r *admin.DelegateRequest) {
			r.By, r.PersonID, r.DeputyID = h.people["emil"], id("cleo"), id("dina")
		}, "disabled"},
		"until never":           {func(r *admin.DelegateRequest) { r.Until = time.Time{} }, "until_missing"},
		"until yesterday":       {func(r *admin.DelegateRequest) { r.From, r.Until = in(-48*time.Hour), in(-24*time.Hour) }, "until_too_early"},
		"backwards":             {func(r *admin.DelegateRequest) { r.From, r.Until = in(48*time.Hour), in(24*time.Hour) }, "until_too_early"},
		"for a year":            {func(r *admin.DelegateRequest) { r.Until = in(365 * 24 * time.Hour) }, "too_long"},
		"just too long":         {func(r *admin.DelegateRequest) { r.From, r.Until = in(time.Hour), in(91*24*time.Hour) }, "too_long"},
		"in two years":          {func(r *admin.DelegateRequest) { r.From, r.Until = in(700*24*time.Hour), in(701*24*time.Hour) }, "too_far"},
		"without a reason":      {func(r *admin.DelegateRequest) { r.Reason = " " }, "reason_required"},
		"with a long reason":    {func(r *admin.DelegateRequest) { r.Reason = strings.Repeat("x", access.MaxReason+1) }, "reason_too_long"},
		"with a strange reason": {func(r *admin.DelegateRequest) { r.Reason = "a\x00b" }, "unfit_text"},
		"somebody else's":       {func(r *admin.DelegateRequest) { r.PersonID = id("cleo") }, "not_yours"},
		"by an admin to themselves": {func(r *admin.DelegateRequest) {
			r.By, r.PersonID, r.DeputyID = h.people["emil"], id("cleo"), id("emil")
		}, "own_deputy"},
	} {
		r := good
		c.change(&r)
		if _, err := h.Delegations.Create(ctx, r); code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if a, err := h.Delegations.Absences(ctx, h.people["emil"]); err != nil || len(a.All) > 0 {
		t.Fatalf("what was refused is there: %+v, %v", a.All, err)
	}
	for _, step := range []struct {
		from, until time.Duration
		want        string
	}{
		{0, 24 * time.Hour, ""}, {time.Hour, 2 * time.Hour, "overlaps"}, {23 * time.Hour, 48 * time.Hour, "overlaps"}, {-time.Hour, time.Hour, "overlaps"}, {25 * time.Hour, 48 * time.Hour, ""},
	} {
		r := good
		r.From, r.Until = in(step.from), in(step.until)
		if _, err := h.Delegations.Create(ctx, r); code(err) != step.want {
			t.Errorf("from %s until %s: %v, want %q", step.from, step.until, err, step.want)
		}
	}
	byAdmin := good
	byAdmin.By, byAdmin.PersonID, byAdmin.DeputyID = h.people["emil"], id("cleo"), id("ben")
	d, err := h.Delegations.Create(ctx, byAdmin)
	if err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string][3]int{"ada": {2, 0, 0}, "ben": {0, 3, 0}, "cleo": {1, 0, 0}, "emil": {0, 0, 3}, "stranger": {0, 0, 0}} {
		a, err := h.Delegations.Absences(ctx, h.people[who])
		if got := [3]int{len(a.Mine), len(a.For), len(a.All)}; err != nil || got != want {
			t.Errorf("%s sees %v, %v, want %v", who, got, err, want)
		}
		if slices.ContainsFunc(a.People, func(p engine.Person) bool { return p.Disabled }) {
			t.Error("a disabled person is offered")
		}
	}
	for who, want := range map[string][]string{"ada": {"ada", "ada again", "ben", "cleo", "owner"}, "stranger": {"stranger"}} {
		a, err := h.Delegations.Absences(ctx, h.people[who])
		var offered []string
		for _, p := range a.People {
			offered = append(offered, p.Name)
		}
		slices.Sort(offered)
		if err != nil || !slices.Equal(offered, want) {
			t.Errorf("%s is offered %v, %v, want %v", who, offered, err, want)
		}
	}
	byAddress := good
	byAddress.By, byAddress.DeputyID = h.people["stranger"], strings.ToUpper(h.people["ada"].Email)
	byAddress.PersonID = ""
	if d, err := h.Delegations.Create(ctx, byAddress); err != nil || d.DeputyID != id("ada") {
		t.Errorf("named by address: %+v, %v", d, err)
	}
	byAddress.DeputyID = "nobody@example.com"
	if _, err := h.Delegations.Create(ctx, byAddress); code(err) != "nobody" {
		t.Errorf("nobody's address: %v", err)
	}
	// Whoever tries one address after the other is not told for long which of them there is, and is on record.
	guessed, answers := byAddress, map[string]int{}
	guessed.By = h.people["ben"]
	for range 20 {
		_, err := h.Delegations.Create(ctx, guessed)
		answers[code(err)]++
	}
	guessed.DeputyID = h.people["cleo"].Email
	_, err = h.Delegations.Create(ctx, guessed)
	answers["there is one: "+code(err)]++
	if want := map[string]int{"nobody": 10, "too_many_attempts": 10, "there is one: too_many_attempts": 1}; !maps.Equal(answers, want) {
		t.Errorf("guessing is answered %v, want %v", answers, want)
	}
	if n, err := h.Store.Events.CountBy(ctx, id("ben"), "nobody", time.Hour); err != nil || n != 10 {
		t.Errorf("%d guesses are on record, %v", n, err)
	}
	if err := h.Delegations.Revoke(ctx, h.people["emil"], d.ID, "console", ""); err != nil {
		t.Errorf("an administrator revokes it: %v", err)
	}
	events, err := h.Events(ctx, store.EventFilter{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"DELEGATION_MADE", "DELEGATION_REVOKED"} {
		i := slices.IndexFunc(events, func(e engine.Event) bool {
			return e.Type == engine.Admin && len(e.Reasons) > 0 && e.Reasons[0].Code == want && strings.Contains(string(e.SafePayload), d.ID)
		})
		if i < 0 {
			t.Fatalf("no event %s", want)
		}
		var payload struct {
			Person, Deputy string
			From, Until    time.Time
		}
		e := events[i]
		if err := json.Unmarshal(e.SafePayload, &payload); err != nil || payload.Person != id("cleo") || payload.Deputy != id("ben") || payload.From.IsZero() || payload.Until.IsZero() ||
			strings.Contains(string(e.SafePayload), "away") || e.Actor.ID != id("emil") {
			t.Errorf("%s: %s by %s, %v", want, e.SafePayload, e.Actor.ID, err)
		}
	}
	if !slices.ContainsFunc(events, func(e engine.Event) bool {
		return e.Outcome == engine.Deny && len(e.Reasons) > 0 && e.Reasons[0].Code == "not_yours"
	}) {
		t.Error("that somebody wanted to dispose of somebody else's say is not on record")
	}
}

func TestSuggestedReviewers(t *testing.T) {
	r := routing(time.Hour, 1)
	r.Default.Suggested = []string{"stranger@example.com"}
	h := newHarness(t, r)
	a := h.open(deferred)
	if got := code(h.vote("stranger", a, true)); got != "not_found" {
		t.Errorf("somebody who is suggested has a say: %q", got)
	}
}

// The roles of an office stay with who has it: a deputy who sees the call for another reason does not decide
// by them, be it that the rule itself asks for them.
func TestNobodyDecidesByAnOfficeOfSomebodyElse(t *testing.T) {
	for _, office := range []string{access.AdminRole, access.AuditorRole, approval.BreakGlassRole} {
		t.Run(office, func(t *testing.T) {
			by := routing(time.Hour, 1)
			by.Default.Role = office
			h := newHarness(t, by)
			h.give("ada", office)
			h.give("stranger", access.AuditorRole)
			if office == access.AuditorRole {
				h.give("stranger", approval.BreakGlassRole)
			}
			h.delegate("ada", "stranger")
			a := h.open(deferred)
			card, err := h.Queries.Card(context.Background(), h.people["stranger"], a.ID, gate.Unrecorded)
			if err != nil {
				t.Fatal(err)
			}
			if card.CannotVote == nil || len(card.InPlaceOf) > 0 {
				t.Errorf("the card offers a vote in the place of %v", card.InPlaceOf)
			}
			for _, yes := range []bool{true, false} {
				if got := code(h.vote("stranger", a, yes)); got != "not_eligible" {
					t.Errorf("a vote %t: %q", yes, got)
				}
			}
			if got := code(h.vote("ada", a, true)); got != "" {
				t.Errorf("who has the office: %q", got)
			}
		})
	}
}

// Nobody speaks for somebody by a delegation that they have made for that one as an administrator, however many
// are in between, and whoever was named first.
func TestAdministratorGivesThemselvesNoSay(t *testing.T) {
	for name, first := range map[string]bool{"the deputy's deputy already": true, "the deputy's deputy later": false} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, routing(time.Hour, 1))
			h.give("emil", access.AdminRole)
			h.give("ben")
			if first {
				h.delegate("ben", "emil")
			}
			if _, err := h.Delegations.Create(context.Background(), admin.DelegateRequest{
				By: h.people["emil"], PersonID: h.people["ada"].ID, DeputyID: h.people["ben"].ID, Until: time.Now().Add(time.Hour), Reason: "ill", Channel: "console",
			}); err != nil {
				t.Fatal(err)
			}
			if !first {
				h.delegate("ben", "emil")
			}
			a := h.open(deferred)
			if got := code(h.vote("emil", a, true)); got != "not_eligible" {
				t.Errorf("the administrator votes in the place of whom they have given a deputy: %q", got)
			}
			if slices.Contains(h.inbox("emil"), a.ID) {
				t.Error("it is in their inbox")
			}
			if got := code(h.vote("ben", a, true)); got != "" {
				t.Errorf("the deputy: %q", got)
			}
		})
	}
}

// Nobody fills somebody else's page: who names deputies without end is stopped, and what the others have made stays to be seen.
func TestDelegationsOfOnePersonAreBounded(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	create := func(i int) (store.Delegation, error) {
		begins := time.Now().Add(time.Duration(i+1) * time.Hour)
		return h.Delegations.Create(ctx, admin.DelegateRequest{
			By: h.people["stranger"], DeputyID: h.people["ada"].ID, From: begins, Until: begins.Add(time.Minute), Reason: "x", Channel: "console",
		})
	}
	var last store.Delegation
	for i := range store.MaxDelegations {
		var err error
		if last, err = create(i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := create(store.MaxDelegations); code(err) != "too_many" {
		t.Errorf("one too many: %v", err)
	}
	h.delegate("ada", "ben") // nobody else is kept from it
	if err := h.Delegations.Revoke(ctx, h.people["ada"], last.ID, "console", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := create(store.MaxDelegations); err != nil {
		t.Errorf("after one was revoked: %v", err)
	}
}
