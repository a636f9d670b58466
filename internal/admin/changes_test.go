package admin_test

import (
	"slices"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/internal/admin"
	"holdpoint/internal/store"
)

// TestRequiredFromTheConsole: an administrator in the console has changes approved from now on, by
// others and on record as their own; nobody there changes or ends it.
func TestRequiredFromTheConsole(t *testing.T) {
	o := newOffice(t)
	changes := admin.Changes(o.people)
	require := func(kind, role string, needed int) error {
		return changes.Require(t.Context(), by(o.olga), o.olga, kind, role, needed)
	}
	own := o.db.Person(engine.Person{Name: "olga2", Identity: o.olga.Identity, Roles: []string{"policy-owner"}})
	o.check("only another account of hers has the role", require(store.PolicyDocument, "policy-owner", 1), "nobody")
	ada := o.db.Person(engine.Person{Name: "ada", Roles: []string{"policy-owner", "reviewer"}})
	o.db.Person(engine.Person{Name: "ada2", Identity: ada.Identity, Roles: []string{"policy-owner"}})
	if got, err := changes.Approvers(t.Context(), o.olga); err != nil || !slices.Equal(got, []admin.Approver{{Role: "policy-owner", People: 1}, {Role: "reviewer", People: 1}}) {
		t.Errorf("besides olga (and %s) there are %v, %v", own.Name, got, err)
	}
	for _, c := range []struct {
		kind, role string
		needed     int
		want       string
	}{
		{store.PolicyDocument, "policy-owner", 2, "nobody"}, // two accounts, one human being
		{store.PolicyDocument, "policy-owner", 0, "nobody"},
		{store.PolicyDocument, "admin", 1, "nobody"}, // only she has it
		{store.PolicyDocument, "", 1, "nobody"},
		{store.PolicyDocument, "on-call/night", 1, "nobody"},
		{store.RolesChange, "policy-owner", 1, "unknown_kind"},
		{"", "policy-owner", 1, "unknown_kind"},
	} {
		o.check(c.kind+" by "+c.role, require(c.kind, c.role, c.needed), c.want)
	}
	if guards, err := o.store.Rules.Guards(t.Context()); err != nil || len(guards) != 0 {
		t.Fatalf("what was refused guards %v, %v", guards, err)
	}
	o.check("one of one", require(store.PolicyDocument, "policy-owner", 1), "")
	o.check("once more", require(store.PolicyDocument, "reviewer", 1), "already_on")
	g, err := o.store.Rules.Guards(t.Context())
	if got := g[store.PolicyDocument]; err != nil || len(g) != 1 || got.Rule.Role != "policy-owner" || got.Rule.Needed != 1 || got.Rule.ExpiresIn == 0 || got.SetBy != o.olga.ID {
		t.Errorf("it guards %+v, %v", g, err)
	}
	conn := o.db.Connect(o.db.URL)
	var body string
	if err := conn.QueryRow(t.Context(), `SELECT convert_from(body, 'UTF8') FROM events WHERE type = 'admin' AND event_code(body) = 'RULES_GUARDED'`).Scan(&body); err != nil ||
		!strings.Contains(body, o.olga.ID) || !strings.Contains(body, `"policy-owner"`) || !strings.Contains(body, `"console"`) {
		t.Errorf("on record: %s, %v", body, err)
	}
	// Not even the login that changes accounts may do more than add.
	people := o.db.Connect(o.db.PeopleURL)
	for _, sql := range []string{
		`DELETE FROM guarded_documents`, `UPDATE guarded_documents SET rule = '{}'`,
		`INSERT INTO guarded_documents (kind, rule, set_by, by_groups) VALUES ('roles', '{}', 'x', '{admin}')`,
		`INSERT INTO guarded_documents (kind, rule, set_by) VALUES ('policy', '{}', 'x') ON CONFLICT (kind) DO UPDATE SET rule = excluded.rule`,
	} {
		if _, err := people.Exec(t.Context(), sql); err == nil {
			t.Errorf("the login for accounts may: %s", sql)
		}
	}
	runtime := o.db.Connect(o.db.RuntimeURL)
	if _, err := runtime.Exec(t.Context(), `INSERT INTO guarded_documents (kind, rule, set_by) VALUES ('contracts', '{}', 'x')`); err == nil {
		t.Error("the runtime role may have changes approved")
	}
	// Without that login it is by command.
	plain := admin.New(admin.Config{Store: o.db.Runtime()}).Changes
	o.check("without the login", plain.Require(t.Context(), by(o.olga), o.olga, store.ContractsDocument, "policy-owner", 1), "by_command")
}
