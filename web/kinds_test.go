package web

import (
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// TestWhatIsWantedCanBeGiven: a kind that wants something of the requesting side is
// listed for its people, and has its form on the call's page; other kinds are not.
func TestWhatIsWantedCanBeGiven(t *testing.T) {
	now := time.Now()
	owner := engine.Person{ID: "usr_1", Identity: "owner"}
	for _, k := range engine.Kinds() {
		req := engine.Requirement{Kind: k, Role: "ops", Needed: 1}
		if k.Traits().Discharger == engine.Requester {
			req.Form = []byte(`{"type":"object"}`)
		}
		a := approval.Approval{ID: "apr_1", Status: approval.Pending, Plan: approval.Plan{
			OpenedAt: now, ExpiresAt: now.Add(time.Hour), Edition: 1, Requirements: []engine.Requirement{req},
			Excluded: []string{"owner"}, Terms: approval.Terms{Accountable: []string{"owner"}},
		}}
		a.State = approval.Advance(a.Plan, nil, now)
		wanted := k.Traits().Wanted != ""
		if listed := gate.AwaitsRequester(owner, a); listed != wanted {
			t.Errorf("%s: the owner's list has it: %t, want %t", k, listed, wanted)
		}
		asked := openTasks(gate.Card{Approval: a, Now: now, Trackers: []string{"jira"}}, owner, func(id string) string { return id })
		if form := asked != (views.OpenTasks{}); form != wanted {
			t.Errorf("%s: its page asks the owner: %t, want %t", k, form, wanted)
		}
		if wanted && wantedFromRequester(a) == "" || sentence(a, func(id string) string { return id }) == "" {
			t.Errorf("%s: the page says nothing", k)
		}
	}
}
