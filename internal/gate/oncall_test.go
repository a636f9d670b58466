package gate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/admin"
	"holdpoint/internal/store"
)

// onCall replaces who is on call for payments, from now on.
func (h *harness) onCall(until time.Duration, who ...string) {
	h.t.Helper()
	q := admin.OnCallRequest{Schedule: "payments", Until: time.Now().Add(until)}
	for _, name := range who {
		q.Emails = append(q.Emails, strings.ToUpper(h.people[name].Email))
	}
	if err := h.OnCall.Set(context.Background(), operator, q, nil); err != nil {
		h.t.Fatal(err)
	}
	for name := range h.people {
		h.again(name)
	}
}

// onCallHarness asks two people who are on call, and reviewers when it takes long.
func onCallHarness(t *testing.T) *harness {
	r := routing(2*time.Hour, 2)
	r.Default.Role = engine.OnCallPrefix + "payments"
	r.Default.Escalation = []engine.Escalation{{After: engine.Duration(time.Hour), Role: "reviewer"}}
	return newHarness(t, r)
}

func TestOnCallShiftChanges(t *testing.T) {
	h := onCallHarness(t)
	h.give("ada")
	h.onCall(time.Hour, "ada", "stranger")
	a := h.open(deferred)
	if got := code(h.vote("ben", a, true)); got != "not_eligible" {
		t.Errorf("somebody who is not on call: %q", got)
	}
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	if n := h.given(a); n != 1 {
		t.Fatalf("%d given", n)
	}
	h.db.Exec(`DELETE FROM outbox`)
	h.onCall(time.Hour, "stranger", "cleo")
	if !h.pokedAt(a.ID) {
		t.Error("after a change of shift nobody looks at what waits")
	}
	if n := h.given(a); n != 0 {
		t.Errorf("the vote of somebody whose shift is over counts %d", n)
	}
	if got := code(h.vote("ada", a, true)); got != "not_found" {
		t.Errorf("somebody whose shift is over votes: %q", got)
	}
	for _, who := range []string{"stranger", "cleo"} {
		if err := h.vote(who, a, true); err != nil {
			t.Fatal(err)
		}
	}
	if h.settle(a.ID); h.get(a.ID).Approval.Status != approval.Approved {
		t.Error("the new shift cannot approve")
	}
}

func TestNobodyOnCall(t *testing.T) {
	h := onCallHarness(t)
	h.onCall(time.Hour, "stranger", "cleo")
	a := h.open(deferred)
	h.settle(a.ID)
	if n := h.events(a.ID, engine.Escalated); n != 0 {
		t.Fatal("escalated while two are on call")
	}
	if got := code(h.vote("ada", a, true)); got != "not_eligible" {
		t.Fatalf("a reviewer before it escalates: %q", got)
	}
	h.db.Exec(`DELETE FROM outbox`)
	h.onCall(time.Hour)
	if !h.pokedAt(a.ID) {
		t.Fatal("nobody looks at what waits")
	}
	h.settle(a.ID)
	h.settle(a.ID)
	if n := h.events(a.ID, engine.Escalated); n != 1 {
		t.Errorf("escalated %d times", n)
	}
	for _, who := range []string{"ada", "ben"} {
		if err := h.vote(who, a, true); err != nil {
			t.Errorf("%s after it has escalated: %v", who, err)
		}
	}
	if h.settle(a.ID); h.get(a.ID).Approval.Status != approval.Approved {
		t.Error("those whom it escalated to cannot approve")
	}
}

// What waits for people on call is looked at when their shift ends, not when
// its own deadline comes.
func TestShiftEndWakes(t *testing.T) {
	h := onCallHarness(t)
	h.onCall(20*time.Minute, "stranger", "cleo")
	a := h.open(deferred)
	if r := h.settle(a.ID); r.WakeIn > 20*time.Minute || r.WakeIn < 19*time.Minute {
		t.Errorf("looks again in %s, want at the end of the shift", r.WakeIn)
	}
	h.db.Exec(`UPDATE on_call SET from_at = from_at - interval '20 minutes', until_at = until_at - interval '20 minutes'`)
	h.settle(a.ID)
	if n := h.events(a.ID, engine.Escalated); n != 1 {
		t.Errorf("at the end of the shift: escalated %d times", n)
	}
}

func TestSetOnCall(t *testing.T) {
	h := onCallHarness(t)
	ctx := context.Background()
	h.db.Exec(`UPDATE people SET disabled_at = clock_timestamp() WHERE id = $1`, h.people["dina"].ID)
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	ada := []string{"ada@example.com"}
	for name, c := range map[string]struct {
		q    admin.OnCallRequest
		want string
	}{
		"a name":    {admin.OnCallRequest{Schedule: "Pay ments", Emails: ada, Until: in(time.Hour)}, "schedule"},
		"no name":   {admin.OnCallRequest{Emails: ada, Until: in(time.Hour)}, "schedule"},
		"no end":    {admin.OnCallRequest{Schedule: "x", Emails: ada}, "until_too_early"},
		"over":      {admin.OnCallRequest{Schedule: "x", Emails: ada, Until: in(-time.Hour)}, "until_too_early"},
		"backwards": {admin.OnCallRequest{Schedule: "x", Emails: ada, From: in(2 * time.Hour), Until: in(time.Hour)}, "until_too_early"},
		"for ever":  {admin.OnCallRequest{Schedule: "x", Emails: ada, Until: in(1e5 * time.Hour)}, "too_far"},
		"many":      {admin.OnCallRequest{Schedule: "x", Emails: make([]string, 101), Until: in(time.Hour)}, "too_many"},
		"unknown":   {admin.OnCallRequest{Schedule: "x", Emails: []string{"ada@example.com", "x@y.z"}, Until: in(time.Hour)}, "unknown_people"},
		"NUL":       {admin.OnCallRequest{Schedule: "x", Emails: []string{"a\x00"}, Until: in(time.Hour)}, "unknown_people"},
		"disabled":  {admin.OnCallRequest{Schedule: "x", Emails: []string{"dina@example.com"}, Until: in(time.Hour)}, "unknown_people"},
	} {
		err := h.OnCall.Set(ctx, operator, c.q, nil)
		if code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if name == "unknown" && !strings.Contains(err.Error(), "x@y.z") {
			t.Errorf("it does not say who: %v", err)
		}
	}
	shifts := func() (list []string) {
		t.Helper()
		all, err := h.OnCall.Shifts(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			now := ""
			if s.OnCall {
				now = " now"
			}
			list = append(list, s.Schedule+" "+s.Name+now)
		}
		slices.Sort(list)
		return list
	}
	if got := shifts(); len(got) > 0 {
		t.Fatalf("what was refused is there: %v", got)
	}
	set := func(schedule string, from, until time.Time, who ...string) {
		t.Helper()
		if err := h.OnCall.Set(ctx, operator, admin.OnCallRequest{Schedule: schedule, Emails: who, From: from, Until: until}, nil); err != nil {
			t.Fatal(err)
		}
	}
	set("payments", time.Time{}, in(4*time.Hour), "ada@example.com", "ada@example.com", "ben@example.com")
	set("payments", in(2*time.Hour), in(6*time.Hour), "cleo@example.com")
	set("other", time.Time{}, in(time.Hour), "ada@example.com")
	if got, want := shifts(), []string{"other ada now", "payments ada now", "payments ben now", "payments cleo"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	h.again("ada")
	if got := h.people["ada"].Roles; !slices.Equal(got, []string{"reviewer", "on-call/other", "on-call/payments"}) {
		t.Errorf("ada's roles are %v", got)
	}
	// The former shift ends when the next begins; told again, nothing overlaps.
	set("payments", time.Time{}, in(time.Hour), "ben@example.com")
	set("payments", time.Time{}, in(time.Hour), "ben@example.com")
	if got, want := shifts(), []string{"other ada now", "payments ben now"}; !slices.Equal(got, want) {
		t.Errorf("replaced: got %v, want %v", got, want)
	}
	set("payments", time.Time{}, time.Time{})
	if got, want := shifts(), []string{"other ada now"}; !slices.Equal(got, want) {
		t.Errorf("nobody: got %v, want %v", got, want)
	}
	events, err := h.Events(ctx, store.EventFilter{}, 1000)
	if err != nil || !slices.ContainsFunc(events, func(e engine.Event) bool {
		return e.Type == engine.Admin && len(e.Reasons) > 0 && e.Reasons[0].Code == "ON_CALL_SET" && strings.Contains(string(e.SafePayload), h.people["cleo"].ID)
	}) {
		t.Errorf("it is not on record: %v", err)
	}
}
