package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// harness is a database with people, administered from a console.
type harness struct {
	*testing.T
	db     *storetest.Database
	store  *store.Store
	people admin.People
	signIn *identity.SignIn
	olga   engine.Person
}

var routing = approval.Routing{Default: approval.Rule{Role: "reviewer", Needed: 1, Extenders: []string{"lead"}}}

func newHarness(t *testing.T) *harness {
	db := storetest.New(t)
	s := db.Administering()
	f, err := identity.NewFactors(s, "https://hp.example.com")
	if err != nil {
		t.Fatal(err)
	}
	in := identity.NewSignIn(f)
	t.Cleanup(in.Flush)
	known := func(context.Context) ([]string, error) { return admin.KnownRoles(nil, routing), nil }
	return &harness{
		T: t, db: db, store: s, signIn: in,
		people: admin.New(admin.Config{Store: s, PublicURL: "https://hp.example.com/", Roles: known}).People,
		olga:   db.Person(engine.Person{Name: "olga", Roles: []string{"admin"}}),
	}
}

// by is a person as the one who administers, command the command line.
func by(p engine.Person) access.Initiator { return access.PersonInitiator(p, "console", "req") }

var command = access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "ops", Channel: "cli"}}

func code(err error) string {
	var r *access.Refusal
	switch {
	case err == nil:
		return ""
	case errors.As(err, &r):
		return r.Code
	}
	return err.Error()
}

// check fails unless the refusal is the one wanted.
func (o *harness) check(what string, err error, want string) {
	o.Helper()
	if got := code(err); got != want {
		o.Errorf("%s: %q, want %q", what, got, want)
	}
}

// roles are the account's, by the database.
func (o *harness) roles(p engine.Person) string {
	o.Helper()
	now, err := o.store.People.Get(o.Context(), p.ID)
	if err != nil {
		o.Fatal(err)
	}
	return strings.Join(now.Roles, " ")
}

// last is the newest event that is about the person.
func (o *harness) last(p engine.Person) (engine.Event, map[string]any) {
	o.Helper()
	events, err := o.store.Reports.EventsAbout(o.Context(), []string{p.ID}, 1)
	if err != nil || len(events) != 1 {
		o.Fatal(events, err)
	}
	told := map[string]any{}
	if err := json.Unmarshal(events[0].SafePayload, &told); err != nil {
		o.Fatal(err)
	}
	return events[0], told
}

func (o *harness) signsIn(p engine.Person, password string) bool {
	o.Helper()
	_, err := o.signIn.SignIn(o.Context(), p.Email, password, "", "192.0.2.1", "")
	if err != nil && code(err) != "wrong_credentials" {
		o.Fatal(err)
	}
	return err == nil
}

// session starts a session of the person, and returns whether it lives.
func (o *harness) session(p engine.Person) func() bool {
	o.Helper()
	id := make([]byte, 32)
	copy(id, p.ID)
	_, hash, err := o.store.People.ByEmail(o.Context(), p.Email)
	if err != nil {
		o.Fatal(err)
	}
	p.VerifiedBy, p.PasswordChecked = identity.Password, store.PasswordDigest(hash)
	if err := o.store.Sessions.Create(o.Context(), id, p, 1e12); err != nil {
		o.Fatal(err)
	}
	return func() bool {
		_, err := o.store.Sessions.Person(o.Context(), id)
		return err == nil
	}
}

func token(l admin.PasswordLink) string {
	return l.URL[strings.LastIndex(l.URL, "/")+1:]
}

func (o *harness) follow(l admin.PasswordLink, password string) error {
	_, err := o.signIn.FollowLink(o.Context(), token(l), password, "192.0.2.9")
	return err
}

func TestChangeRolesAndName(t *testing.T) {
	o := newHarness(t)
	ctx, ada := t.Context(), o.db.Person(engine.Person{Name: "ada", Roles: []string{"reviewer", "retired"}})
	name := func(s string) *string { return &s }
	roles := func(list ...string) *[]string { return &list }
	for _, c := range []struct {
		what   string
		change admin.PersonChange
		code   string
		roles  string
	}{
		{"one more", admin.PersonChange{AddRoles: []string{"lead"}}, "", "lead retired reviewer"},
		{"nothing new", admin.PersonChange{AddRoles: []string{"lead"}, Name: name("ada")}, "unchanged", "lead retired reviewer"},
		{"one that no rule asks for", admin.PersonChange{AddRoles: []string{"review-r"}}, "unknown_role", "lead retired reviewer"},
		{"one that no rule asks for yet", admin.PersonChange{AddRoles: []string{"next"}, AllowUnknownRoles: true}, "", "lead next retired reviewer"},
		{"some less", admin.PersonChange{RemoveRoles: []string{"retired", "next", "never"}}, "", "lead reviewer"},
		{"other ones, one of them twice", admin.PersonChange{Roles: roles("auditor", "auditor")}, "", "auditor"},
		{"drawn like one that a rule asks for", admin.PersonChange{AddRoles: []string{"revi\u0435wer"}, AllowUnknownRoles: true}, "unfit_role", "auditor"},
		{"one in other capitals", admin.PersonChange{AddRoles: []string{"Reviewer"}, AllowUnknownRoles: true}, "unfit_role", "auditor"},
		{"of two scripts", admin.PersonChange{AddRoles: []string{"n\u0435xt-one"}, AllowUnknownRoles: true}, "unfit_role", "auditor"},
		{"of being on call", admin.PersonChange{AddRoles: []string{"on-call/pay"}, AllowUnknownRoles: true}, "unfit_role", "auditor"},
		{"with a comma", admin.PersonChange{AddRoles: []string{"a,b"}, AllowUnknownRoles: true}, "unfit_role", "auditor"},
		{"empty", admin.PersonChange{AddRoles: []string{""}}, "unfit_role", "auditor"},
		{"a name of two lines", admin.PersonChange{Name: name("a\nb")}, "unfit_name", "auditor"},
		{"no name", admin.PersonChange{Name: name(" ")}, "unfit_name", "auditor"},
		{"none, and a name", admin.PersonChange{Roles: roles(), Name: name("Ada King")}, "", ""},
	} {
		o.check(c.what, second(o.people.Change(ctx, by(o.olga), ada.Email, c.change, nil)), c.code)
		if got := o.roles(ada); got != c.roles {
			t.Errorf("%s: the roles are %q, want %q", c.what, got, c.roles)
		}
	}
	e, told := o.last(ada)
	if e.Reasons[0].Code != "USER_ROLES_CHANGED" || e.Actor.ID != o.olga.ID || told["person"] != ada.ID || told["renamed"] != true {
		t.Errorf("the event is %+v, %v", e, told)
	}
	if strings.Contains(string(e.SafePayload), "King") {
		t.Error("the log has a name, which an erasure could not take back")
	}
	o.check("a name", second(o.people.Change(ctx, by(o.olga), ada.ID, admin.PersonChange{Name: name("Ada")}, nil)), "")
	if e, _ := o.last(ada); e.Reasons[0].Code != "USER_RENAMED" {
		t.Errorf("the event is %+v", e)
	}
	o.check("nobody", second(o.people.Change(ctx, by(o.olga), "nobody@example.com", admin.PersonChange{Name: name("x")}, nil)), "not_found")
}

// Whoever administers does not do it to themselves, and has to be an administrator at
// the moment of the change.
func TestNobodyChangesTheirOwnAccount(t *testing.T) {
	o := newHarness(t)
	ctx := t.Context()
	ada := o.db.Person(engine.Person{Name: "ada", Roles: []string{"reviewer"}})
	double := o.db.Person(engine.Person{Name: "olga2", Identity: o.olga.Identity, Roles: []string{"reviewer"}})
	more := admin.PersonChange{AddRoles: []string{"lead"}}
	reset := func(p engine.Person, who string) error {
		_, err := o.people.ResetPassword(ctx, by(p), who, nil)
		return err
	}
	invite := func(p engine.Person, n admin.NewPerson) error {
		_, err := o.people.Invite(ctx, by(p), n, false, nil)
		return err
	}
	o.check("their own roles", second(o.people.Change(ctx, by(o.olga), o.olga.Email, more, nil)), "own_account")
	o.check("their other account's", second(o.people.Change(ctx, by(o.olga), double.Email, more, nil)), "own_account")
	o.check("their own password", reset(o.olga, o.olga.Email), "own_account")
	o.check("themselves disabled", second(o.people.Disable(ctx, by(o.olga), o.olga.Email, nil)), "own_account")
	o.check("another account of theirs", invite(o.olga, admin.NewPerson{Email: "o3@example.com", Roles: []string{"reviewer"}, SameAs: o.olga.Email}), "own_account")
	o.check("no administrator", second(o.people.Change(ctx, by(ada), double.Email, more, nil)), "not_an_administrator")
	o.check("no administrator invites", invite(ada, admin.NewPerson{Email: "x@example.com"}), "not_an_administrator")
	o.check("their own name", second(o.people.Change(ctx, by(o.olga), o.olga.Email, admin.PersonChange{Name: new("Olga")}, nil)), "")
	o.check("by command", second(o.people.Change(ctx, command, o.olga.Email, more, nil)), "")

	plain := admin.New(admin.Config{Store: o.db.Runtime()}).People
	o.check("without a login for it", second(plain.Change(ctx, by(o.olga), ada.Email, more, nil)), "by_command")
	conn := o.db.Connect(o.db.RuntimeURL)
	for _, sql := range []string{
		`UPDATE people SET roles = '{admin}'`, `INSERT INTO people (id, email, name, identity, password_hash) VALUES ('usr_x', 'x', 'x', 'x', 'x')`,
		`SELECT * FROM password_links`, `INSERT INTO password_links (person_id, token_hash, expires_at) VALUES ('` + ada.ID + `', sha256('x'), now())`,
	} {
		if _, err := conn.Exec(ctx, sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("the runtime role may %s: %v", sql, err)
		}
	}
}

// The last administrator stays, also when two disable each other at once.
func TestLastAdministrator(t *testing.T) {
	o := newHarness(t)
	ctx := t.Context()
	o.check("the last one is disabled", second(o.people.Disable(ctx, command, o.olga.Email, nil)), "last_administrator")
	o.check("the last one loses the role", second(o.people.Change(ctx, command, o.olga.Email, admin.PersonChange{RemoveRoles: []string{"admin"}}, nil)), "last_administrator")
	// One who has no password yet cannot sign in, and is not another one.
	invited, err := o.people.Invite(ctx, command, admin.NewPerson{Email: "ida@example.com", Roles: []string{"admin"}}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.check("the last one who can sign in", second(o.people.Disable(ctx, command, o.olga.Email, nil)), "last_administrator")
	o.check("who cannot is disabled", second(o.people.Disable(ctx, command, invited.Person.Email, nil)), "")
	for range 5 {
		pair := []engine.Person{o.olga, o.db.Person(engine.Person{Name: store.NewID("otto"), Roles: []string{"admin"}})}
		results := make([]string, 2)
		var both sync.WaitGroup
		for i := range pair {
			both.Go(func() { results[i] = code(second(o.people.Disable(ctx, by(pair[1-i]), pair[i].Email, nil))) })
		}
		both.Wait()
		slices.Sort(results)
		if results[0] != "" || results[1] != "not_an_administrator" && results[1] != "last_administrator" {
			t.Fatalf("got %q", results)
		}
		for _, p := range pair {
			if now, err := o.store.People.Get(ctx, p.ID); err != nil {
				t.Fatal(err)
			} else if !now.Disabled {
				o.olga = p
			}
		}
	}
}

// A disabled account comes back as the same one, with nothing of what it could get in by.
func TestDisableAndEnable(t *testing.T) {
	o := newHarness(t)
	ctx := t.Context()
	ada, _, err := admin.New(admin.Config{Store: o.db.Owner(), Owner: true}).People.Add(ctx, command, admin.NewPerson{Email: "ada@example.com", Roles: []string{"reviewer"}, Password: "correct horse"})
	if err != nil {
		t.Fatal(err)
	}
	live := o.session(ada)
	if !o.signsIn(ada, "correct horse") || !live() {
		t.Fatal("she cannot sign in")
	}
	o.check("enabled, and never disabled", second(o.people.Enable(ctx, by(o.olga), ada.Email, nil)), "unchanged")
	o.check("disabled", second(o.people.Disable(ctx, by(o.olga), ada.Email, nil)), "")
	o.check("twice", second(o.people.Disable(ctx, by(o.olga), ada.Email, nil)), "disabled")
	o.check("a password of a disabled account", second(o.people.ResetPassword(ctx, by(o.olga), ada.Email, nil)), "disabled")
	if e, told := o.last(ada); e.Reasons[0].Code != "USER_DISABLED" || len(told["roles_after"].([]any)) != 0 {
		t.Errorf("the event is %+v, %v", e, told)
	}
	link, err := o.people.Enable(ctx, by(o.olga), ada.Email, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e, told := o.last(ada); e.Reasons[0].Code != "USER_ENABLED" || len(told["roles_after"].([]any)) != 1 {
		t.Errorf("the event is %+v, %v", e, told)
	}
	if live() || o.signsIn(ada, "correct horse") {
		t.Error("the former session or password lives again")
	}
	o.check("her link", o.follow(link, "battery staple"), "")
	if !o.signsIn(ada, "battery staple") || o.roles(ada) != "reviewer" || link.Person.ID != ada.ID {
		t.Error("she does not get in as who she was")
	}
}

func second[T any](_ T, err error) error { return err }

// Whoever signs in while their password is reset has no session by the former one, and
// no first step that a second factor completes.
func TestResetBesideSignIns(t *testing.T) {
	o := newHarness(t)
	ctx := t.Context()
	const old, rounds, parallel = "battery staple", 8, 4
	for round := range rounds {
		link, err := o.people.Invite(ctx, by(o.olga), admin.NewPerson{Email: fmt.Sprintf("ada%d@example.com", round)}, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		ada := link.Person
		o.check("her link", o.follow(link, old), "")
		checked, err := o.signIn.SignIn(ctx, ada.Email, old, "", "192.0.2.7", "")
		if err != nil {
			t.Fatal(err)
		}
		app := round%2 == 1
		if app {
			if err := o.people.RestoreTOTP(ctx, command, ada.ID, "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"); err != nil {
				t.Fatal(err)
			}
		}
		ids, pending := make([][]byte, parallel), make([]string, parallel)
		var all sync.WaitGroup
		for i := range parallel {
			ids[i] = slices.Repeat([]byte{byte(10*round + i)}, 32)
			all.Go(func() {
				p, err := o.signIn.SignIn(ctx, ada.Email, old, "", fmt.Sprintf("192.0.2.%d", 100+i), "")
				var step *identity.SecondStep
				switch {
				case errors.As(err, &step):
					pending[i] = step.Pending
				case err == nil:
					if err := o.store.Sessions.Create(ctx, ids[i], p, time.Hour); err != nil && !errors.Is(err, store.ErrNotFound) {
						t.Error(err)
					}
				case code(err) != "wrong_credentials":
					t.Error(err)
				}
			})
		}
		var again admin.PasswordLink
		all.Go(func() { again, err = o.people.ResetPassword(ctx, by(o.olga), ada.ID, nil) })
		all.Wait()
		if err != nil {
			t.Fatal(err)
		}
		none := func(when string) {
			t.Helper()
			for i := range parallel {
				if _, err := o.store.Sessions.Person(ctx, ids[i]); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s: a session by the former password lives: %v", when, err)
				}
				if pending[i] != "" {
					_, _, err := o.signIn.Pending(ctx, pending[i])
					o.check(when+": the second step", err, "sign_in_over")
				}
			}
			if err := o.store.Sessions.Create(ctx, slices.Repeat([]byte{0xff}, 32), checked, time.Hour); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: a session of whom the former password was checked: %v", when, err)
			}
		}
		none("reset")
		o.check("her new link", o.follow(again, "another password"), "")
		none("with another password")
	}
}

// Of two who change a password, the second has to know what the first has set.
func TestOwnPasswordThatIsAnotherSince(t *testing.T) {
	o := newHarness(t)
	ctx := t.Context()
	link, err := o.people.Invite(ctx, by(o.olga), admin.NewPerson{Email: "ada@example.com"}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.check("her link", o.follow(link, "battery staple"), "")
	f, err := identity.NewFactors(o.store, "https://hp.example.com")
	if err != nil {
		t.Fatal(err)
	}
	other, err := identity.HashPassword("another password")
	if err != nil {
		t.Fatal(err)
	}
	// Somebody else's change, which has the lock.
	conn := o.db.Connect(o.db.URL)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`BEGIN`)
	exec(`SELECT pg_advisory_xact_lock(hashtextextended('people', 0))`)
	result := make(chan error, 1)
	go func() { result <- second(f.ChangePassword(ctx, link.Person, "battery staple", "third password")) }()
	for waiting := false; !waiting; {
		err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waiting)
		if err != nil || len(result) > 0 {
			t.Fatal("it does not wait: ", err)
		}
	}
	exec(`UPDATE people SET password_hash = $2 WHERE id = $1`, link.Person.ID, other)
	exec(`COMMIT`)
	o.check("her own", <-result, "verification_failed")
	if !o.signsIn(link.Person, "another password") {
		t.Error("the password that was set meanwhile is overwritten")
	}
}

func TestSignOutAndOwnPassword(t *testing.T) {
	o := newHarness(t)
	ctx := t.Context()
	link, err := o.people.Invite(ctx, by(o.olga), admin.NewPerson{Email: "ada@example.com"}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.check("her link", o.follow(link, "battery staple"), "")
	live := o.session(link.Person)
	o.check("signed out", second(o.people.SignOut(ctx, by(o.olga), "ada@example.com", nil)), "")
	if live() || !o.signsIn(link.Person, "battery staple") {
		t.Error("the session lives, or the password does not")
	}
	f, err := identity.NewFactors(o.store, "https://hp.example.com")
	if err != nil {
		t.Fatal(err)
	}
	live = o.session(link.Person)
	o.check("a wrong former one", second(f.ChangePassword(ctx, link.Person, "battery stapl", "another password")), "verification_failed")
	o.check("too short", second(f.ChangePassword(ctx, link.Person, "battery staple", "short")), "unfit_password")
	if !live() {
		t.Error("a refusal ended the session")
	}
	o.check("her own", second(f.ChangePassword(ctx, link.Person, "battery staple", "another password")), "")
	if live() || o.signsIn(link.Person, "battery staple") || !o.signsIn(link.Person, "another password") {
		t.Error("the password was not changed, or a session lives on")
	}
	if e, _ := o.last(link.Person); e.Reasons[0].Code != "PASSWORD_CHANGED" || e.Actor.ID != link.Person.ID {
		t.Errorf("the event is %+v", e)
	}
	wrong := 0
	for range 10 {
		if code(second(f.ChangePassword(ctx, link.Person, "no such thing", "another password"))) == "verification_failed" {
			wrong++
		}
	}
	if wrong > 5 {
		t.Errorf("%d guesses of the former password were looked at", wrong)
	}
}

// The login for accounts is not for everything else: a program that uses it for that, or
// whose runtime role may write accounts, does not start (ExcessRights).
func TestTheLoginForAccountsIsOnlyForThem(t *testing.T) {
	db := storetest.New(t)
	for what, tc := range map[string]struct {
		s    *store.Store
		want []string
	}{
		"a login of its own": {db.Administering(), nil},
		"none":               {db.Runtime(), nil},
		"for everything":     {db.Open(db.PeopleURL), []string{"write accounts"}},
	} {
		if got, err := tc.s.ExcessRights(t.Context()); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

// A second factor that was passed starts no session once the factors are reset.
func TestFactorThatIsResetSince(t *testing.T) {
	o := newHarness(t)
	ctx := t.Context()
	link, err := o.people.Invite(ctx, by(o.olga), admin.NewPerson{Email: "ada@example.com"}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.check("her link", o.follow(link, "battery staple"), "")
	if err := o.people.RestoreTOTP(ctx, command, link.Person.ID, "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"); err != nil {
		t.Fatal(err)
	}
	ada, hash, err := o.store.People.WithPassword(ctx, link.Person.ID)
	if err != nil {
		t.Fatal(err)
	}
	ada.VerifiedBy, ada.PasswordChecked = identity.TOTP, store.PasswordDigest(hash)
	if err := o.store.Sessions.Create(ctx, slices.Repeat([]byte{1}, 32), ada, time.Hour); err != nil {
		t.Fatal("before:", err)
	}
	if removed, err := o.people.ResetFactors(ctx, command, "ada@example.com"); err != nil || removed != 1 {
		t.Fatal(removed, err)
	}
	for _, method := range []string{identity.TOTP, identity.Passkey} {
		ada.VerifiedBy = method
		if err := o.store.Sessions.Create(ctx, slices.Repeat([]byte{2}, 32), ada, time.Hour); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after the reset a session by %s: %v", method, err)
		}
	}
}

// The kept answer to an invitation has a name and an address: it is erased with them.
// The last administrator is not erased.
func TestErasedPersonsAnswers(t *testing.T) {
	o := newHarness(t)
	ctx := t.Context()
	once := func() *access.Idempotency[admin.PasswordLink] {
		return &access.Idempotency[admin.PasswordLink]{
			Request: access.Request{Credential: "key_1", Key: "invite", Hash: []byte("asked")},
			Render: func(l admin.PasswordLink, _ error) access.Reply {
				return access.Reply{Status: 201, Body: []byte(l.Person.Email)}
			},
		}
	}
	answer := func() (status int, body string) {
		t.Helper()
		_, err := o.people.Invite(ctx, by(o.olga), admin.NewPerson{Email: "ada@example.com"}, false, once())
		var kept *access.Replay
		if err != nil && !errors.As(err, &kept) {
			t.Fatal(err)
		}
		if kept == nil {
			return 0, ""
		}
		return kept.Reply.Status, string(kept.Reply.Body)
	}
	answer()
	if status, body := answer(); status != 201 || body != "ada@example.com" {
		t.Fatalf("a repetition gets %d %s", status, body)
	}
	o.db.Exec(`UPDATE retention_floor SET shortest = '0'`)
	retention := admin.New(admin.Config{Store: o.store}).Retention
	_, err := retention.Erase(ctx, by(o.olga), admin.EraseRequest{Person: "ada@example.com", Reason: "asked for"}, nil)
	o.check("erasing her", err, "")
	if status, body := answer(); status != 410 || strings.Contains(body, "ada@") {
		t.Errorf("after the erasure a repetition gets %d %s", status, body)
	}
	_, err = retention.Erase(ctx, command, admin.EraseRequest{Person: o.olga.ID, Reason: "asked for"}, nil)
	o.check("erasing the last administrator", err, "last_administrator")
}
