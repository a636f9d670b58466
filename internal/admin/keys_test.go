package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
	"holdpoint/internal/store/storetest"
)

// A person's own key acts as the person, for as long as they administer; what was lost once does not
// come back.
func TestKeyOfAPerson(t *testing.T) {
	o := newHarness(t)
	ctx := t.Context()
	owner := admin.New(admin.Config{Store: o.db.Owner(), Owner: true, Roles: func(context.Context) ([]string, error) { return admin.KnownRoles(nil, routing), nil }})
	keys := identity.NewKeys(ctx, o.store)
	ada := o.db.Person(engine.Person{Name: "ada", Roles: []string{"admin", "reviewer"}})
	ben := o.db.Person(engine.Person{Name: "ben", Roles: []string{"reviewer"}})
	fresh := func() (id, text string) {
		key, text, err := owner.Keys.Create(ctx, command, admin.NewKey{Kind: access.AdminKey, Person: strings.ToUpper(ada.Email)})
		if err != nil {
			t.Fatal(err)
		}
		return key.ID, text
	}
	// The database tells every process; the key is refused a moment later at the latest.
	within := func(what, text string, good bool) {
		t.Helper()
		var err error
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if _, err = keys.Authenticate(ctx, text); err == nil == good {
				return
			}
		}
		t.Errorf("%s: %v", what, err)
	}
	id, text := fresh()
	p, err := keys.Authenticate(ctx, text)
	if err != nil || p.PersonID != ada.ID {
		t.Fatalf("the key is of %+v: %v", p, err)
	}
	events, err := o.store.Reports.EventsAbout(ctx, []string{id}, 1)
	if err != nil || len(events) != 1 || !strings.Contains(string(events[0].SafePayload), ada.ID) {
		t.Errorf("who the key was made for is not on record: %+v, %v", events, err)
	}
	// What is done with it is hers, by that key, and she does nothing to herself.
	by := p.Initiator("req")
	e := by.Event("X", "x", "", "")
	if (e.Actor != engine.Actor{Kind: engine.HumanActor, ID: ada.ID, Channel: "api"}) || len(e.Reasons) != 2 || e.Reasons[1].Code != "BY_KEY" || !strings.Contains(e.Reasons[1].Message, id) {
		t.Errorf("an event by it is %+v", e)
	}
	_, err = o.people.Change(ctx, by, ben.Email, admin.PersonChange{AddRoles: []string{"lead"}}, nil)
	o.check("she gives somebody a role", err, "")
	_, err = o.people.Change(ctx, by, ada.Email, admin.PersonChange{AddRoles: []string{"lead"}}, nil)
	o.check("she gives herself one", err, "own_account")

	// Disabled, or without the role: refused, and not good again afterwards.
	_, err = o.people.Disable(ctx, command, ada.Email, nil)
	o.check("disabling her", err, "")
	within("disabled", text, false)
	_, err = o.people.Enable(ctx, command, ada.Email, nil)
	o.check("enabling her", err, "")
	_, second := fresh()
	within("a key of afterwards", second, true)
	within("the key of before", text, false)
	_, err = o.people.Change(ctx, command, ada.Email, admin.PersonChange{RemoveRoles: []string{"admin"}}, nil)
	o.check("taking the role", err, "")
	within("without the role", second, false)
	_, err = o.people.Change(ctx, command, ada.Email, admin.PersonChange{AddRoles: []string{"admin"}}, nil)
	o.check("giving it back", err, "")
	_, third := fresh()
	within("a key of afterwards", third, true)
	within("the key of before", second, false)
	dead := 0
	list, err := owner.Keys.List(ctx)
	for _, k := range list {
		if k.PersonID != ada.ID || k.PersonName != ada.Name {
			t.Errorf("a key is listed as %+v", k)
		}
		if k.Dead {
			dead++
		}
	}
	if err != nil || dead != 2 {
		t.Errorf("%d keys are listed as good for nothing, of %d: %v", dead, len(list), err)
	}

	// Whose it cannot be.
	gone := o.db.Person(engine.Person{Name: "gone", Roles: []string{"admin"}})
	o.db.Disable(gone.ID, storetest.Event())
	for what, n := range map[string]admin.NewKey{
		"does not have the role": {Kind: access.AdminKey, Person: ben.Email},
		"is disabled":            {Kind: access.AdminKey, Person: gone.Email},
		"there is nobody":        {Kind: access.AdminKey, Person: "nobody@example.com"},
		"for a directory":        {Kind: access.AdminKey, Person: ada.Email, Scopes: []string{identity.ScopeSCIM}},
		"is an agent's":          {Kind: access.AgentKey, Agent: "bot", Person: ada.Email},
	} {
		if _, _, err := owner.Keys.Create(ctx, command, n); err == nil || !strings.HasPrefix(err.Error(), "--person: ") || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// The login that changes accounts makes no key in somebody's name.
	var said map[string]any
	key, _, err := admin.New(admin.Config{Store: o.store}).Keys.Issue(ctx, access.PersonInitiator(o.olga, "console", "req"), admin.NewKey{Kind: access.AdminKey, Person: ada.Email, Scopes: []string{identity.ScopeAudit}})
	if err != nil {
		t.Fatal(err)
	}
	if events, err = o.store.Reports.EventsAbout(ctx, []string{key.ID}, 1); err == nil {
		err = json.Unmarshal(events[0].SafePayload, &said)
	}
	if stored, is := o.store.Keys.Get(ctx, key.ID); errors.Join(err, is) != nil || stored.PersonID != "" || said["holder"] != nil {
		t.Errorf("a key of the console is of %q, the log says %v: %v", stored.PersonID, said, errors.Join(err, is))
	}
}
