package admin_test

import (
	"testing"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/store"
)

// Whoever is unlinked is signed out, and comes in by no provider. The last administrator who
// can sign in stays one, and it is done by command only.
func TestUnlink(t *testing.T) {
	o := newHarness(t)
	ctx := t.Context()
	owner := admin.New(admin.Config{Store: o.db.Owner(), Owner: true}).People
	ada := o.db.Person(engine.Person{Name: "ada", Roles: []string{"admin"}})
	o.db.Exec(`UPDATE people SET password_hash = $1`, store.NoPassword)
	link := func() {
		o.db.Exec(`INSERT INTO sso_identities (issuer, subject, person_id) VALUES ('https://id.example.com', 'x-ada', $1)`, ada.ID)
	}
	password := func(want int) {
		t.Helper()
		if n, err := o.store.People.CountWithPassword(ctx, access.AdminRole); err != nil || n != want {
			t.Errorf("%d administrators have a password, want %d: %v", n, want, err)
		}
	}
	o.check("nobody's", second(owner.Unlink(ctx, command, "nobody@example.com")), "not_found")
	o.check("not linked", second(owner.Unlink(ctx, command, ada.Email)), "unchanged")
	password(0)
	link()
	live := o.session(ada)
	o.check("from the console", second(o.people.Unlink(ctx, by(o.olga), ada.Email)), "by_command")
	o.check("the last who can sign in", second(owner.Unlink(ctx, command, ada.Email)), "last_administrator")
	if !live() {
		t.Error("a refusal has ended her session")
	}
	if _, _, err := owner.Add(ctx, command, admin.NewPerson{Email: "ops@example.com", Roles: []string{"admin"}, Password: "correct horse"}); err != nil {
		t.Fatal(err)
	}
	password(1)
	o.check("linked", second(owner.Unlink(ctx, command, ada.Email)), "")
	if e, told := o.last(ada); e.Reasons[0].Code != "USER_UNLINKED" || told["person"] != ada.ID || live() {
		t.Errorf("the event is %+v, %v; her session lives: %v", e, told, live())
	}
	o.check("twice", second(owner.Unlink(ctx, command, ada.Email)), "unchanged")
	link() // the same person may be linked again
}
