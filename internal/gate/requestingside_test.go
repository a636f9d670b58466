package gate_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// widening is a routing that widens to administrators.
func widening(needed int) approval.Routing {
	r := routing(time.Hour, needed)
	r.Default.IfTooFew = "admin"
	return r
}

// onBehalfOf is the call, another one each time, made for these people.
func onBehalfOf(subjects string) string {
	ref, _ := json.Marshal(subjects)
	return strings.Replace(another(deferred), `{`, `{"authorization_subject":{"subject_type":"user","subject_ref":`+string(ref)+`},`, 1)
}

func (h *harness) identities(names ...string) []string {
	ids := []string{}
	for _, name := range names {
		ids = append(ids, h.people[name].Identity)
	}
	slices.Sort(ids)
	return ids
}

// An agent names each reviewer in turn: who is left decides, until too few are. Then
// administrators may as well; as many are needed as before, and nobody excluded counts.
func TestAnAgentCannotBarTheReviewersOneByOne(t *testing.T) {
	h := newHarness(t, widening(2))
	h.join("boss", "admin")
	reviewers := []string{"ada", "ben", "cleo", "dina", "emil"}
	for n := range len(reviewers) + 1 {
		var refs []string
		for _, name := range reviewers[:n] {
			refs = append(refs, h.people[name].Email)
		}
		a := h.open(onBehalfOf(strings.Join(refs, ", ")))
		h.settle(a.ID)
		a = h.get(a.ID).Approval
		same(t, "excluded by claim", append([]string{}, a.Plan.ByClaim...), h.identities(reviewers[:n]...)...)
		wide := len(reviewers)-n < 2
		if got := a.WidenedTo(); (got == "admin") != wide || h.events(a.ID, engine.Escalated) != map[bool]int{true: 1}[wide] {
			t.Fatalf("%d are barred, and it is widened to %q, with %d events", n, got, h.events(a.ID, engine.Escalated))
		}
		if got := a.State.Requirements[0].Needed; got != 2 {
			t.Fatalf("%d are barred, and it needs %d", n, got)
		}
		if slices.Contains(h.inbox("boss"), a.ID) != wide {
			t.Errorf("%d are barred, and the administrator has in the inbox: %v", n, h.inbox("boss"))
		}
		for _, name := range reviewers[:n] {
			if got := code(h.vote(name, a, true)); got != "self_review" {
				t.Errorf("%s is barred, and voting says %q", name, got)
			}
			if slices.Contains(h.inbox(name), a.ID) {
				t.Errorf("%s is barred, and is asked", name)
			}
		}
		if !wide {
			if got := code(h.vote("boss", a, true)); got != "not_eligible" {
				t.Errorf("%d are left, and the administrator's vote says %q", len(reviewers)-n, got)
			}
		}
	}
}

func TestWidenedApprovalIsDecidedByWhoIsLeft(t *testing.T) {
	h := newHarness(t, widening(2))
	h.join("boss", "admin")
	h.join("chief", "admin")
	var all []string
	for _, name := range []string{"ada", "ben", "cleo", "dina"} {
		all = append(all, h.people[name].Email)
	}
	a := h.open(onBehalfOf(strings.Join(all, ";")))
	h.settle(a.ID)
	for _, name := range []string{"emil", "boss"} {
		if err := h.vote(name, a, true); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	h.settle(a.ID)
	// Settling has replayed the events as an auditor would (Settler.contradiction).
	if v := h.get(a.ID); v.Approval.Status != approval.Approved || v.Token == "" {
		t.Errorf("it is %s", v.Approval.Status)
	}
	if !slices.Contains(h.history("chief"), a.ID) || slices.Contains(h.history("stranger"), a.ID) {
		t.Error("who was asked sees it afterwards, and others do not")
	}
	events, err := h.Events(context.Background(), store.EventFilter{ApprovalID: a.ID}, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == engine.Escalated && (len(e.Reasons) != 1 || e.Reasons[0].Code != "WIDENED") {
			t.Errorf("the event says %+v", e.Reasons)
		}
		var told struct{ Asked *approval.EditionPayload }
		if e.Type == engine.Decided && (json.Unmarshal(e.SafePayload, &told) != nil || told.Asked == nil || len(told.Asked.Terms.ByClaim) != 4) {
			t.Errorf("the opening event tells %s", e.SafePayload)
		}
	}
}

// Where nobody is left even so, it waits, asks for as many, and is not widened to
// whom routing does not name.
func TestNobodyLeftIsFlagged(t *testing.T) {
	for name, r := range map[string]approval.Routing{"nobody has the role": widening(1), "nobody is named": routing(time.Hour, 1)} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, r)
			var all []string
			for _, p := range h.people {
				all = append(all, p.Email)
			}
			h.settle(h.open(onBehalfOf(h.people["ada"].Email)).ID)
			a := h.open(onBehalfOf(strings.Join(all, "\n")))
			h.settle(a.ID)
			h.settle(a.ID)
			if stuck, err := gate.Undecidable(context.Background(), h.Store); err != nil || !slices.Equal(stuck, []string{a.ID}) {
				t.Errorf("doctor would tell of %v (%v), want %s", stuck, err, a.ID)
			}
			a = h.get(a.ID).Approval
			c := h.card("owner", a.ID)
			if a.Status != approval.Pending || c.Eligible != 0 || a.State.Requirements[0].Needed != 1 {
				t.Errorf("%s, with %d who can decide: %+v", a.Status, c.Eligible, a.State.Requirements)
			}
			if got := h.events(a.ID, engine.Escalated); got != map[bool]int{true: 1}[r.Default.IfTooFew != ""] {
				t.Errorf("%d events tell of a widening", got)
			}
		})
	}
}

// A person may be named however people are written; the registered owner is excluded by
// registration, whatever is claimed; and who is named in a list of too many is told so.
func TestSubjectsAreReadAsLists(t *testing.T) {
	h := newHarness(t, widening(1))
	ada, ben := h.people["ada"], h.people["ben"]
	for _, tc := range []struct {
		subjects string
		want     []string
	}{
		{"", nil},
		{"nobody@example.com", nil},
		{ada.Email, []string{"ada"}},
		{"ADA@example.com , Ben <" + ben.Email + ">", []string{"ada", "ben"}},
		{`["` + ada.Email + `","` + ben.Email + `"]`, []string{"ada", "ben"}},
		{"mailto:" + ada.Email + "," + ben.ID, []string{"ada", "ben"}},
		{ada.Email + " " + ben.Email + "\n" + h.people["owner"].Email, []string{"ada", "ben"}},
		{h.people["owner"].Email, nil},
	} {
		a := h.open(onBehalfOf(tc.subjects))
		same(t, tc.subjects+", by claim", append([]string{}, a.Plan.ByClaim...), h.identities(tc.want...)...)
		same(t, tc.subjects+", in all", a.Plan.Excluded, h.identities(append(tc.want, "owner")...)...)
	}
	_, err := h.PreToolCheck(context.Background(), h.agent, parse(t, onBehalfOf(strings.Repeat("x@example.com,", 21))), gate.Request{}, nil)
	if got := code(err); got != "too_many_subjects" {
		t.Errorf("21 people: %q", got)
	}
	if _, err := h.PreToolCheck(context.Background(), h.agent, parse(t, onBehalfOf(strings.Repeat("x@example.com,", 20))), gate.Request{}, nil); err != nil {
		t.Errorf("20 people: %v", err)
	}
}

// Who edits is excluded by that, and no more by the claim alone; a claim that came with
// the call stays one.
func TestEditKeepsExclusionsByClaim(t *testing.T) {
	h := newHarness(t, widening(1))
	a := h.open(onBehalfOf(h.people["ada"].Email))
	edited, err := h.edit("ben", a, `{"amount":7}`)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "by claim", edited.Plan.ByClaim, h.identities("ada")...)
	same(t, "in all", edited.Plan.Excluded, h.identities("ada", "ben", "owner")...)
	if edited.Plan.IfTooFew != "admin" {
		t.Errorf("it widens to %q", edited.Plan.IfTooFew)
	}
}
