package rules_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/setup"
	"holdpoint/internal/sso"
	"holdpoint/internal/store"
)

// harness is a committee whose members approve changes of what is set up. olga and omar
// administer, and stranger gets roles.
type harness struct {
	*committee
	admin *admin.Admin
	owner *admin.Admin
}

func newHarness(t *testing.T, kinds ...string) *harness {
	t.Helper()
	h := &harness{committee: newCommittee(t, owners(1, time.Hour))}
	for _, name := range []string{"olga", "omar"} {
		h.people[name] = h.db.Person(engine.Person{Name: name, Roles: []string{"admin", "policy-owner"}})
	}
	s := h.db.Administering()
	h.settler.Store = s
	known := func(t *testing.T) admin.Config {
		t.Helper()
		return admin.Config{Hold: h.k.Hold, PublicURL: "https://console.example.com"}
	}
	cfg := known(t)
	cfg.Store = s
	h.admin = admin.New(cfg)
	cfg.Store, cfg.Owner = h.db.Owner(), true
	h.owner = admin.New(cfg)
	for _, kind := range kinds {
		h.require(kind)
	}
	return h
}

// refuses checks that the database refuses a statement, whichever approval it claims to be made by.
func (h *harness) refuses(conn *pgx.Conn, sql string, ids ...string) {
	h.t.Helper()
	ctx := h.t.Context()
	for _, id := range ids {
		tx, err := conn.Begin(ctx)
		if err != nil {
			h.t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, `SELECT set_config('holdpoint.approval', $1, true)`, id); err != nil {
			h.t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, sql); err == nil {
			h.t.Errorf("as %q: %s", id, sql)
		}
		_ = tx.Rollback(ctx)
	}
}

func (h *harness) require(kind string, byGroups ...string) {
	h.t.Helper()
	by := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "op", Channel: "cli"}}
	if err := h.owner.Changes.RequireApproval(h.t.Context(), by, kind, owners(1, time.Hour), byGroups...); err != nil {
		h.t.Fatal(err)
	}
}

// by is somebody who administers in the console.
func (h *harness) by(name string) access.Initiator {
	return access.PersonInitiator(h.people[name], "console", "")
}

// waits is the approval that a change waits for; the test ends where it waits for none.
func (h *harness) waits(err error) string {
	h.t.Helper()
	var refusal *access.Refusal
	if !errors.As(err, &refusal) || refusal.Code != admin.ApprovalRequired || refusal.Successor == "" {
		h.t.Fatalf("it waits for no approval: %v", err)
	}
	return refusal.Successor
}

// approve has somebody approve a change, and settles it.
func (h *harness) approve(who, id string) {
	h.t.Helper()
	if got := h.vote(who, id, true); got != "" {
		h.t.Fatalf("%s may not approve: %s", who, got)
	}
	h.settle(id)
}

// event is the event of an approval with a code.
func (h *harness) event(approvalID, code string) engine.Event {
	h.t.Helper()
	events, err := h.store.Events.List(h.t.Context(), store.EventFilter{ApprovalID: approvalID, Limit: 100})
	i := slices.IndexFunc(events, func(e engine.Event) bool { return e.Reasons[0].Code == code })
	if err != nil || i < 0 {
		h.t.Fatalf("%v, no %s of %s", err, code, approvalID)
	}
	return events[i]
}

func (h *harness) roles(name string) string {
	h.t.Helper()
	p, err := h.store.People.Get(h.t.Context(), h.people[name].ID)
	if err != nil {
		h.t.Fatal(err)
	}
	slices.Sort(p.Roles)
	return strings.Join(p.Roles, " ")
}

func (h *harness) give(by, to string, roles ...string) error {
	h.t.Helper()
	_, err := h.admin.People.Change(h.t.Context(), h.by(by), h.people[to].ID, admin.PersonChange{AddRoles: roles, AllowUnknownRoles: true, Reason: "joins finance"}, nil)
	return err
}

// A role is given when somebody else than whoever gives it, and than whoever gets it, has
// approved it; taking one away waits for nobody.
func TestRoleTakesAnApproval(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.RolesChange)
	id := h.waits(h.give("olga", "stranger", "policy-owner"))
	if got := h.roles("stranger"); got != "reviewer" {
		t.Fatalf("given without an approval: %s", got)
	}
	if again := h.waits(h.give("olga", "stranger", "policy-owner")); again != id {
		t.Errorf("asked for again it waits as %s, not as %s", again, id)
	}
	a := h.get(id).Approval
	if a.Call.Tool != "holdpoint.roles" || a.Plan.Requirements[0].Needed != 1 {
		t.Errorf("%+v", a.Call)
	}
	for _, step := range []struct{ who, want string }{{"olga", "self_review"}, {"stranger", "self_review"}} {
		if got := h.vote(step.who, id, true); got != step.want {
			t.Errorf("%s votes: %q, want %q", step.who, got, step.want)
		}
	}
	h.approve("omar", id)
	if h.state(id) != "approved, succeeded" || h.roles("stranger") != "policy-owner reviewer" {
		t.Fatalf("%s, %v; %s", h.state(id), h.get(id).Approval.Reasons, h.roles("stranger"))
	}
	h.settle(id) // once
	if got := h.codes(); strings.Count(got, "USER_ROLES_CHANGED") != 1 {
		t.Errorf("events: %s", got)
	}
	// Its event says who was behind it.
	var told struct {
		ProposedBy engine.Actor `json:"proposed_by"`
		ApprovedBy []string     `json:"approved_by"`
		RolesAfter []string     `json:"roles_after"`
	}
	e := h.event(id, "USER_ROLES_CHANGED")
	if err := json.Unmarshal(e.SafePayload, &told); err != nil || told.ProposedBy != h.by("olga").Actor || !slices.Equal(told.ApprovedBy, []string{h.people["omar"].ID}) || len(told.RolesAfter) != 2 {
		t.Errorf("%v, %s", err, e.SafePayload)
	}
	// Who gets a role does not decide about it, once they may decide, either.
	if got := h.vote("stranger", h.waits(h.give("olga", "stranger", "auditor")), true); got != "self_review" {
		t.Errorf("whoever gets it votes: %q", got)
	}
	if _, err := h.admin.People.Change(t.Context(), h.by("olga"), h.people["stranger"].ID, admin.PersonChange{RemoveRoles: []string{"policy-owner"}}, nil); err != nil {
		t.Errorf("a role is taken away: %v", err)
	}
	// A key has no author whom anybody could exclude.
	key := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "key_x", Channel: "api"}}
	_, err := h.admin.People.Change(t.Context(), key, h.people["stranger"].ID, admin.PersonChange{AddRoles: []string{"reviewer-2"}, AllowUnknownRoles: true}, nil)
	if got := h.get(h.waits(err)).Approval.Plan.Requirements[0].Needed; got != 2 {
		t.Errorf("by a key: %d people", got)
	}
	// An emergency is on record as one.
	by := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "op", Channel: "cli"}, Unapproved: "incident 4711"}
	if _, err := h.owner.People.Change(t.Context(), by, h.people["stranger"].ID, admin.PersonChange{AddRoles: []string{"admin"}, AllowUnknownRoles: true}, nil); err != nil || !strings.Contains(h.codes(), "USER_ROLES_CHANGED NOBODY_ASKED") {
		t.Errorf("in an emergency: %v; %s", err, h.codes())
	}
}

// What has changed since it was proposed is not made, and of two proposals for one person one is.
func TestRoleChangedMeanwhile(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.RolesChange)
	one, two := h.waits(h.give("olga", "stranger", "auditor")), h.waits(h.give("olga", "stranger", "admin"))
	for _, id := range []string{one, two} {
		if got := h.vote("omar", id, true); got != "" {
			t.Fatal(got)
		}
	}
	settled := make(chan error, 2)
	for _, id := range []string{one, two} {
		go func() { _, err := h.settler.Settle(t.Context(), id); settled <- err }()
	}
	if err := errors.Join(<-settled, <-settled); err != nil {
		t.Fatal(err)
	}
	states := []string{h.state(one), h.state(two)}
	slices.Sort(states)
	if !slices.Equal(states, []string{"approved, succeeded", "denied, none"}) || h.roles("stranger") != "auditor reviewer" && h.roles("stranger") != "admin reviewer" {
		t.Errorf("%v, %s", states, h.roles("stranger"))
	}
	// Given meanwhile, by whoever owns the database.
	three := h.waits(h.give("olga", "ada", "auditor"))
	by := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "op", Channel: "cli"}, Unapproved: "at once"}
	if _, err := h.owner.People.Change(t.Context(), by, h.people["ada"].ID, admin.PersonChange{AddRoles: []string{"auditor"}, AllowUnknownRoles: true}, nil); err != nil {
		t.Fatal(err)
	}
	h.approve("omar", three)
	if h.state(three) != "denied, none" {
		t.Errorf("given meanwhile: %s", h.state(three))
	}
	// Where the worker may not give roles, nothing is half done.
	four := h.waits(h.give("olga", "cleo", "auditor"))
	h.settler.Store = h.store
	h.approve("omar", four)
	if got := h.get(four).Approval; got.Status != approval.Denied || !strings.Contains(got.Reasons[0].Message, "database_people_url") {
		t.Errorf("%s, %v", got.Status, got.Reasons)
	}
	h.codes()
}

// Accounts that are added or enabled have no role until their roles are approved.
func TestRolesOfAccounts(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.RolesChange)
	ctx := t.Context()
	link, err := h.admin.People.Invite(ctx, h.by("olga"), admin.NewPerson{Email: "new@example.com", Roles: []string{"auditor"}}, true, nil)
	if err != nil || link.RolesWait == "" {
		t.Fatalf("%v, %+v", err, link)
	}
	h.people["new"] = link.Person
	if got := h.roles("new"); got != "" {
		t.Fatalf("invited with %s", got)
	}
	h.approve("omar", link.RolesWait)
	if got := h.roles("new"); got != "auditor" {
		t.Errorf("%s, %s", h.state(link.RolesWait), got)
	}
	if _, err := h.admin.People.Disable(ctx, h.by("olga"), link.Person.ID, nil); err != nil {
		t.Fatal(err)
	}
	back, err := h.admin.People.Enable(ctx, h.by("olga"), link.Person.ID, nil)
	if err != nil || back.RolesWait == "" || h.roles("new") != "" {
		t.Fatalf("%v, %+v, %s", err, back, h.roles("new"))
	}
	h.approve("omar", back.RolesWait)
	if got := h.roles("new"); got != "auditor" {
		t.Errorf("enabled: %s, %s", h.state(back.RolesWait), got)
	}
	added, waits, err := h.owner.People.Add(ctx, access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "op", Channel: "cli"}}, admin.NewPerson{Email: "more@example.com", Roles: []string{"admin"}, Password: "correct horse"})
	if err != nil || waits == "" || len(added.Roles) > 0 || h.get(waits).Approval.Plan.Requirements[0].Needed != 2 {
		t.Errorf("by command: %v, %q, %v", err, waits, added.Roles)
	}
	// Somebody else's say is given by nobody but them.
	_, err = h.admin.Delegations.Create(ctx, admin.DelegateRequest{By: h.people["olga"], PersonID: h.people["ada"].ID, DeputyID: h.people["stranger"].ID, Until: h.store.Clock().Add(time.Hour), Reason: "away", Channel: "console"})
	var refusal *access.Refusal
	if !errors.As(err, &refusal) || refusal.Code != admin.ApprovalRequired {
		t.Errorf("a delegation for somebody else: %v", err)
	}
	if _, err := h.admin.Delegations.Create(ctx, admin.DelegateRequest{By: h.people["ada"], DeputyID: h.people["cleo"].ID, Until: h.store.Clock().Add(time.Hour), Reason: "away", Channel: "console"}); err != nil {
		t.Errorf("one's own: %v", err)
	}
	h.codes()
}

// A provider's groups give what the rule lets them give, and take whatever they gave.
func TestRolesByGroups(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ctx := t.Context()
	h.require(store.RolesChange, "reviewer")
	provider := sso.Config{
		Name: "acme", Issuer: "https://id.example.com", Create: true, EmailDomains: []string{"example.com"},
		Roles: map[string][]string{"everybody": {"reviewer"}, "finance": {"finance-approver"}},
	}
	who := sso.User{Issuer: provider.Issuer, Subject: "s1", Email: "sue@example.com", EmailVerified: true, Name: "Sue", Groups: []string{"everybody", "finance"}}
	arrive := func(want string) {
		t.Helper()
		p, _, err := h.admin.People.Arrive(ctx, provider, who)
		h.people["sue"] = p
		if err != nil || h.roles("sue") != want {
			t.Fatalf("%v, %s, want %s", err, h.roles("sue"), want)
		}
	}
	arrive("reviewer")
	id := h.waits(h.give("olga", "sue", "finance-approver"))
	h.approve("omar", id)
	arrive("finance-approver reviewer") // kept, once it was approved
	who.Groups = []string{"everybody"}
	arrive("reviewer")
	who.Groups = []string{"everybody", "finance"}
	arrive("reviewer")
	h.codes()
}

// What is set for all agents, and registered of tools and agents, waits; so does who is on call.
func TestSettingsAndRoutingTakeAnApproval(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.SettingsChange, store.RoutingChange)
	ctx := t.Context()
	h.db.Agent("billing-bot", "Billing", h.people["cleo"])
	settings := registry.DefaultSettings()
	settings.MaxDelegation = 2
	tool := registry.Tool{Name: "pay_out", RiskDomain: "finance", MinTrust: engine.Verified}
	agent := admin.NewAgent("billing-bot")
	agent.Name, agent.Trust = "Billing", engine.Privileged
	now := h.store.Clock()
	shift := admin.OnCallRequest{Schedule: "primary", Emails: []string{h.people["ada"].Email}, Until: now.Add(8 * time.Hour)}
	r := h.admin.Registry
	held := []string{
		h.waits(r.PutSettings(ctx, h.by("olga"), settings, nil)), h.waits(r.RegisterTool(ctx, h.by("olga"), tool, nil)),
		h.waits(r.RegisterAgent(ctx, h.by("olga"), agent, nil)), h.waits(h.admin.OnCall.Set(ctx, h.by("olga"), shift, nil)),
	}
	known, err := r.Snapshot(ctx)
	if err != nil || known.Settings.MaxDelegation == 2 || len(known.Tools) > 0 || known.Agents["billing-bot"].Trust == engine.Privileged {
		t.Fatalf("changed without an approval: %v, %+v", err, known)
	}
	for _, id := range held {
		h.approve("omar", id)
		if h.state(id) != "approved, succeeded" {
			t.Errorf("%s: %s, %v", h.get(id).Approval.Call.Tool, h.state(id), h.get(id).Approval.Reasons)
		}
	}
	known, err = r.Snapshot(ctx)
	if err != nil || known.Settings.MaxDelegation != 2 || known.Tools["pay_out"].RiskDomain != "finance" || known.Agents["billing-bot"].Trust != engine.Privileged {
		t.Fatalf("%v, %+v", err, known)
	}
	if got := h.roles("ada"); got != "on-call/primary policy-owner" {
		t.Errorf("on call: %s", got)
	}
	// Revoking waits for nobody, restoring does.
	if err := r.RevokeTool(ctx, h.by("olga"), "pay_out", true, nil); err != nil {
		t.Fatal(err)
	}
	h.approve("omar", h.waits(r.RevokeTool(ctx, h.by("olga"), "pay_out", false, nil)))
	if err := h.admin.OnCall.Set(ctx, h.by("olga"), admin.OnCallRequest{Schedule: "primary"}, nil); err != nil {
		t.Errorf("taking somebody off: %v", err)
	}
	if known, err = r.Snapshot(ctx); err != nil || known.Tools["pay_out"].RevokedAt != nil || h.roles("ada") != "policy-owner" {
		t.Errorf("%v, %+v, %s", err, known.Tools["pay_out"], h.roles("ada"))
	}
	// Put back to what it was, the settings are another change; what was approved once is not made again.
	settings.MaxDelegation = 5
	back := h.waits(r.PutSettings(ctx, h.by("olga"), settings, nil))
	h.approve("omar", back)
	h.settle(held[0])
	if known, err = r.Snapshot(ctx); err != nil || known.Settings.MaxDelegation != 5 {
		t.Errorf("%v, %+v", err, known.Settings)
	}
	if got := h.codes(); !strings.Contains(got, "SETTINGS_CHANGED") || !strings.Contains(got, "ON_CALL_SET") {
		t.Errorf("%s", got)
	}
	// Somebody who is disabled meanwhile is not put on call.
	late := h.waits(h.admin.OnCall.Set(ctx, h.by("olga"), shift, nil))
	h.db.Disable(h.people["ada"].ID, testEvent())
	h.approve("omar", late)
	if h.state(late) != "denied, none" {
		t.Errorf("%s, %s", h.state(late), h.roles("ada"))
	}
}

func testEvent() engine.Event {
	return access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "test", Channel: "cli"}}.Event("USER_DISABLED", "A person was disabled.", "", "")
}

// No login but the owner's writes what is guarded, with an approval that is somebody else's or
// over.
func TestGuardedRows(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.RolesChange, store.RoutingChange, store.SettingsChange)
	ctx := t.Context()
	used := h.waits(h.give("olga", "stranger", "auditor"))
	h.approve("omar", used)
	waiting := h.waits(h.give("olga", "stranger", "admin"))
	person := h.people["stranger"].ID
	for _, login := range []string{h.db.RuntimeURL, h.db.PeopleURL} {
		conn := h.db.Connect(login)
		for _, sql := range []string{
			`UPDATE people SET roles = roles || '{admin}' WHERE id = '` + person + `'`,
			`INSERT INTO people (id, email, name, identity, password_hash, roles) VALUES ('usr_forged', 'f@example.com', 'F', 'usr_forged', '$argon2id$v=19$m=19456,t=2,p=1$AAAA$AAAA', '{admin}')`,
			`INSERT INTO on_call (schedule, person_id, from_at, until_at, told_by) VALUES ('primary', '` + person + `', now(), now() + interval '1 hour', 'x')`,
			`INSERT INTO settings (body) VALUES ('{}') ON CONFLICT (only_row) DO UPDATE SET body = excluded.body`,
			`INSERT INTO tools (name, profile) VALUES ('pay_out', '{}')`,
			`INSERT INTO delegations (id, person_id, deputy_id, from_at, until_at, reason, created_by) VALUES ('dlg_x', '` + h.people["ada"].ID + `', '` + person + `', now(), now() + interval '1 hour', 'x', '` + h.people["olga"].ID + `')`,
			`UPDATE guarded_documents SET by_groups = '{admin}'`,
		} {
			h.refuses(conn, sql, "", used, waiting, "apr_none")
		}
	}
	if got := h.roles("stranger"); got != "auditor reviewer" {
		t.Error(got)
	}
	// Its text cannot be exchanged for another.
	var body []byte
	if err := h.db.Connect(h.db.URL).QueryRow(ctx, `SELECT d.body FROM approvals a JOIN documents d ON d.digest = a.proposes WHERE a.id = $1`, waiting).Scan(&body); err != nil {
		t.Fatal(err)
	}
	var said struct{ Entries []store.Entry }
	if err := json.Unmarshal(body, &said); err != nil || len(said.Entries) != 1 || said.Entries[0].ID != person || strings.Contains(string(body), "@") {
		t.Errorf("%v, %s", err, body)
	}
	if _, err := h.db.Connect(h.db.RuntimeURL).Exec(ctx, `UPDATE documents SET body = '{}'`); err == nil {
		t.Error("the runtime role writes documents anew")
	}
}

// Changes that are applied together wait together, one approval for each kind.
func TestChangesWaitTogether(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.RolesChange, store.SettingsChange)
	ctx, waits := admin.Collect(t.Context(), false)
	for _, name := range []string{"stranger", "cleo"} {
		if _, err := h.admin.People.Change(ctx, h.by("olga"), h.people[name].ID, admin.PersonChange{AddRoles: []string{"auditor"}, AllowUnknownRoles: true}, nil); !wasCollected(err) {
			t.Fatal(err)
		}
	}
	if err := h.admin.Registry.RegisterTool(ctx, h.by("olga"), registry.Tool{Name: "pay_out", MinTrust: engine.Verified}, nil); !wasCollected(err) {
		t.Fatal(err)
	}
	held, err := h.admin.Changes.Propose(t.Context(), h.by("olga"), waits, "the team of 2027")
	if err != nil || len(held) != 2 {
		t.Fatalf("%v, %+v", err, held)
	}
	for _, one := range held {
		h.approve("omar", one.ApprovalID)
	}
	h.applied()
	known, err := h.admin.Registry.Snapshot(t.Context())
	if err != nil || len(known.Tools) != 1 || h.roles("stranger") != "auditor reviewer" || h.roles("cleo") != "auditor policy-owner" {
		t.Errorf("%v, %s, %s", err, h.roles("stranger"), h.roles("cleo"))
	}
	h.codes()
}

func wasCollected(err error) bool {
	_, ok := admin.WasCollected(err)
	return ok
}

// applies applies a file of people as a command does. It returns what each change waits for, or
// why it was not made.
func (h *harness) applies(people string, again bool) (told []string, held []admin.PendingApproval) {
	h.t.Helper()
	wanted, problems := setup.Read([]setup.Input{{Name: "people.json", Data: []byte(`{"people": [` + people + `]}`)}}, setup.Input{})
	now, err := setup.Now(h.t.Context(), h.owner)
	if err != nil || len(problems) > 0 {
		h.t.Fatal(err, problems)
	}
	plan, problems := setup.Compare(now, wanted, setup.Options{AllowUnknownRoles: true})
	if len(problems) > 0 {
		h.t.Fatal(problems)
	}
	a := &setup.Applier{
		Admin: h.owner, By: access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "op", Channel: "cli"}}, AllowUnknownRoles: true, Reason: "by the file", Again: again,
		Show: func(setup.Secret) error { return nil },
		Done: func(_ setup.Change, err error) {
			var waits *admin.AlreadyPending
			var no *access.Refusal
			switch {
			case errors.As(err, &waits):
				told = append(told, waits.ApprovalID)
			case errors.As(err, &no):
				told = append(told, no.Code+" "+no.Successor)
			default:
				told = append(told, fmt.Sprint(err))
			}
		},
	}
	if done, refused, err := a.Apply(h.t.Context(), plan); err != nil || done+refused != len(plan.Changes) {
		h.t.Fatalf("%d, %d, %v", done, refused, err)
	}
	return told, a.Held
}

// applied applies a file that renames somebody and gives them a role: the name is changed, and
// the role waits.
func (h *harness) applied() {
	h.t.Helper()
	ada := h.people["ada"]
	told, held := h.applies(fmt.Sprintf(`{"email": %q, "name": "Ada King", "roles": ["policy-owner", "auditor"]}`, ada.Email), false)
	if len(held) != 1 || held[0].Needed != 2 || len(told) != 1 || told[0] != held[0].ApprovalID {
		h.t.Fatalf("%q, %+v", told, held)
	}
	p, err := h.store.People.Get(h.t.Context(), ada.ID)
	if err != nil || p.Name != "Ada King" || slices.Contains(p.Roles, "auditor") {
		h.t.Errorf("%v, %+v", err, p)
	}
	for _, who := range []string{"olga", "omar"} {
		if got := h.vote(who, held[0].ApprovalID, true); got != "" {
			h.t.Fatal(got)
		}
	}
	h.settle(held[0].ApprovalID)
	if got := h.roles("ada"); got != "auditor policy-owner" {
		h.t.Errorf("%s, %s", got, h.state(held[0].ApprovalID))
	}
}
