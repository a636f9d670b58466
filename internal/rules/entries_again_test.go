package rules_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/store"
)

// A loop that applies a file names what waits already, and asks nobody again about what was
// denied, until the file or what it would change is another, or it is told to.
func TestAppliedAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.RolesChange)
	person := func(name, roles string) string {
		return fmt.Sprintf(`{"email": %q, "name": %q, "roles": [%s]}`, h.people[name].Email, name, roles)
	}
	ada, cleo := person("ada", `"policy-owner", "auditor"`), person("cleo", `"policy-owner", "auditor"`)
	told, held := h.applies(ada, false)
	if len(held) != 1 || !slices.Equal(told, []string{held[0].ApprovalID}) {
		t.Fatalf("%q, %+v", told, held)
	}
	first := held[0].ApprovalID
	if told, held := h.applies(ada, false); len(held) != 0 || !slices.Equal(told, []string{first}) {
		t.Errorf("applied again: %q, %+v", told, held)
	}
	// What is new in the file is proposed without what waits.
	told, held = h.applies(ada+", "+cleo, false)
	if len(held) != 1 || len(told) != 2 || !slices.Contains(told, first) || held[0].ApprovalID == first {
		t.Fatalf("with another: %q, %+v", told, held)
	}
	if got := h.vote("omar", first, false); got != "" {
		t.Fatal(got)
	}
	h.settle(first)
	for range 2 {
		if told, held := h.applies(ada, false); len(held) != 0 || !slices.Equal(told, []string{admin.AskedBefore + " " + first}) {
			t.Fatalf("denied, and applied again: %q, %+v", told, held)
		}
	}
	if _, held := h.applies(person("ada", `"policy-owner", "auditor", "finance"`), false); len(held) != 1 {
		t.Errorf("another file: %+v", held)
	}
	// That is the last that was proposed of her, so the first is another file by now.
	told, held = h.applies(ada, false)
	if len(held) != 1 || held[0].ApprovalID == first {
		t.Fatalf("the first file again: %q, %+v", told, held)
	}
	second := held[0].ApprovalID
	if got := h.vote("omar", second, false); got != "" {
		t.Fatal(got)
	}
	h.settle(second)
	told, held = h.applies(ada, true)
	if len(held) != 1 || held[0].ApprovalID == second {
		t.Fatalf("asked again: %q, %+v", told, held)
	}
	for _, who := range []string{"olga", "omar"} {
		if got := h.vote(who, held[0].ApprovalID, true); got != "" {
			t.Fatal(got)
		}
	}
	h.settle(held[0].ApprovalID)
	if got := h.roles("ada"); got != "auditor policy-owner" {
		t.Errorf("%s, %s", h.state(held[0].ApprovalID), got)
	}
	// What was approved once, and taken away since, is proposed again.
	if _, err := h.admin.People.Change(t.Context(), h.by("olga"), h.people["ada"].ID, admin.PersonChange{RemoveRoles: []string{"auditor"}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, held := h.applies(ada, false); len(held) != 1 {
		t.Errorf("taken away since: %+v", held)
	}
	// Somebody new waits for their roles, once.
	fresh := `{"email": "nina@example.com", "name": "Nina", "roles": ["auditor"]}`
	if told, held := h.applies(fresh, false); len(held) != 1 || !slices.Equal(told, []string{"<nil>"}) {
		t.Errorf("somebody new: %q, %+v", told, held)
	}
	if told, held := h.applies(fresh, false); len(held) != 0 || len(told) != 1 {
		t.Errorf("somebody new, again: %q, %+v", told, held)
	}
	// That its author withdrew it is no answer of people.
	more := `{"email": "otto@example.com", "name": "Otto", "roles": ["auditor"]}`
	_, held = h.applies(more, false)
	if len(held) != 1 {
		t.Fatalf("%+v", held)
	}
	if _, err := h.gate.Contributions.Withdraw(t.Context(), access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "op", Channel: "cli"}}, engine.Person{}, held[0].ApprovalID, nil); err != nil {
		t.Fatal(err)
	}
	h.settle(held[0].ApprovalID)
	if _, held := h.applies(more, false); len(held) != 1 {
		t.Errorf("withdrawn, and applied again: %+v", held)
	}
	h.codes()
}

// An account and the approval that its roles wait for are there together, or neither is.
func TestAccountWithItsApproval(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.RolesChange)
	ctx := t.Context()
	waiting := func() int {
		t.Helper()
		var n int
		if err := h.db.Connect(h.db.URL).QueryRow(ctx, `SELECT count(*) FROM approvals WHERE status = 'pending'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	newcomer := admin.NewPerson{Email: "new@example.com", Roles: []string{"auditor"}}
	link, err := h.admin.People.Invite(ctx, h.by("olga"), newcomer, true, nil)
	if err != nil || link.RolesWait == "" || link.URL == "" {
		t.Fatalf("%v, %+v", err, link)
	}
	h.people["new"] = link.Person
	before := waiting()
	if _, err := h.admin.People.Invite(ctx, h.by("olga"), newcomer, true, nil); err == nil || waiting() != before {
		t.Errorf("the address is taken: %v, %d wait", err, waiting()-before)
	}
	// Disabled and enabled again, it waits for the approval that there is.
	for range 2 {
		if _, err := h.admin.People.Disable(ctx, h.by("olga"), link.Person.ID, nil); err != nil {
			t.Fatal(err)
		}
		again, err := h.admin.People.Enable(ctx, h.by("olga"), link.Person.ID, nil)
		if err != nil || again.URL == "" || waiting() != before || again.RolesWait != "" {
			t.Fatalf("enabled without roles: %v, %+v", err, again)
		}
	}
	h.approve("omar", link.RolesWait)
	if got := h.roles("new"); got != "auditor" {
		t.Errorf("%s, %s", h.state(link.RolesWait), got)
	}
	for i, want := 0, ""; i < 2; i++ {
		if _, err := h.db.Connect(h.db.URL).Exec(ctx, `UPDATE people SET disabled_at = now(), roles = '{auditor}' WHERE id = $1`, link.Person.ID); err != nil {
			t.Fatal(err)
		}
		back, err := h.admin.People.Enable(ctx, h.by("olga"), link.Person.ID, nil)
		if err != nil || back.RolesWait == "" || want != "" && back.RolesWait != want || waiting() != before || h.roles("new") != "" {
			t.Fatalf("enabled again: %v, %+v, want %s", err, back, want)
		}
		want = back.RolesWait
	}
	// No approval can be opened while everything is stopped: no account is added either.
	stop := engine.Event{ID: store.NewEventID(), Type: engine.Admin, Outcome: engine.Allow, Reasons: []engine.Reason{{Code: "KILL_SWITCH_ON", Message: "x"}}, Actor: aKey.Actor}
	if err := h.store.Registry.ThrowKillSwitch(ctx, registry.Kill{Reason: "a test", By: "test"}, nil, stop); err != nil {
		t.Fatal(err)
	}
	var refusal *access.Refusal
	_, err = h.admin.People.Invite(ctx, h.by("olga"), admin.NewPerson{Email: "late@example.com", Roles: []string{"auditor"}}, true, nil)
	if !errors.As(err, &refusal) || refusal.Code != "kill_switch" {
		t.Errorf("while everything is stopped: %v", err)
	}
	if _, err := h.admin.People.Find(ctx, "late@example.com"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("there is an account without its approval: %v", err)
	}
	if _, err := h.admin.People.Invite(ctx, h.by("olga"), admin.NewPerson{Email: "late@example.com"}, true, nil); err != nil {
		t.Errorf("without roles: %v", err)
	}
}
