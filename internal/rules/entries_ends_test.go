package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/setup"
	"holdpoint/internal/store"
)

var aKey = access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "key_x", Channel: "api"}}

// What was approved is made, or ends: no change is tried again for ever.
func TestApprovedChangeEnds(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.SettingsChange)
	ctx, r := t.Context(), h.admin.Registry
	tool := func(domain string) registry.Tool {
		return registry.Tool{Name: "pay_out", RiskDomain: domain, MinTrust: engine.Verified}
	}
	known := func() registry.Tool {
		t.Helper()
		s, err := r.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s.Tools["pay_out"]
	}
	approved := func(id, want string) {
		t.Helper()
		h.approve("omar", id)
		if h.state(id) != want {
			t.Fatalf("%s, %v, want %s", h.state(id), h.get(id).Approval.Reasons, want)
		}
	}
	approved(h.waits(r.RegisterTool(ctx, h.by("olga"), tool("finance"), nil)), "approved, succeeded")
	if err := r.RevokeTool(ctx, h.by("olga"), "pay_out", true, nil); err != nil {
		t.Fatal(err)
	}
	approved(h.waits(r.RegisterTool(ctx, h.by("olga"), tool("security"), nil)), "approved, succeeded")
	if got := known(); got.RiskDomain != "security" || got.RevokedAt == nil {
		t.Errorf("a tool that is revoked: %+v", got)
	}
	// What changes nothing waits for nobody.
	if err := r.RegisterTool(ctx, h.by("olga"), tool("security"), nil); err != nil || known().RevokedAt == nil {
		t.Errorf("registered as it is: %v, %+v", err, known())
	}
	settings := registry.DefaultSettings()
	approved(h.waits(r.PutSettings(ctx, h.by("olga"), settings, nil)), "approved, succeeded")
	if err := r.PutSettings(ctx, h.by("olga"), settings, nil); err != nil {
		t.Errorf("settings as they are: %v", err)
	}
	// Two changes of one thing do not wait together.
	collecting, waits := admin.Collect(ctx, false)
	if err := r.RegisterTool(collecting, h.by("olga"), tool("finance"), nil); !wasCollected(err) {
		t.Fatal(err)
	}
	var refusal *access.Refusal
	if err := r.RevokeTool(collecting, h.by("olga"), "pay_out", false, nil); !errors.As(err, &refusal) || refusal.Code != admin.ApprovalRequired || !strings.Contains(refusal.Detail, "tool pay_out") {
		t.Fatalf("a second change of one tool: %v", err)
	}
	held, err := h.admin.Changes.Propose(ctx, h.by("olga"), waits, "both")
	if err != nil || len(held) != 1 {
		t.Fatalf("%v, %+v", err, held)
	}
	approved(held[0].ApprovalID, "approved, succeeded")
	// What the database does not take ends, and none of it is done.
	entry := func(id, domain string) store.Entry {
		to := tool(domain)
		profile, err1 := store.ToolProfile(to)
		was, err2 := h.store.Rules.EntryNow(ctx, store.ToolEntry, id)
		n, err3 := store.NewEntry(store.ToolEntry, id, was, map[string]any{"profile": profile, "revoked": id == "pay_out"}, engine.Event{})
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		return n
	}
	twice, err := h.k.Hold(ctx, h.by("olga"), admin.PendingChange{
		Kind: store.SettingsChange, Reason: "twice", Entries: []store.Entry{entry("refund", "finance"), entry("pay_out", "security"), entry("pay_out", "operations")},
	})
	if err != nil {
		t.Fatal(err)
	}
	approved(twice.ApprovalID, "approved, failed")
	s, err := r.Snapshot(ctx)
	if err != nil || len(s.Tools) != 1 || known().RiskDomain != "finance" {
		t.Errorf("%v, %+v", err, s.Tools)
	}
	if !h.settle(twice.ApprovalID).Over || !strings.Contains(h.codes(), "EXECUTION_FAILED") {
		t.Error("it is not over")
	}
}

// Nobody breaks the glass for a change of the rules, whichever it is: whoever can, would decide
// alone about what they have proposed by a key.
func TestNobodyBreaksTheGlassForAChange(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.RolesChange)
	ctx := t.Context()
	eve := h.db.Person(engine.Person{Name: "eve", Roles: []string{"admin", approval.BreakGlassRole}})
	eve.VerifiedBy, eve.VerifiedAt = "totp", h.store.Clock()
	_, err := h.admin.People.Change(ctx, aKey, h.people["stranger"].ID, admin.PersonChange{AddRoles: []string{"policy-owner"}, Reason: "mine"}, nil)
	role, policy := h.waits(err), h.propose("ada", "2", time.Time{})
	for _, id := range []string{role, policy} {
		a := h.get(id).Approval
		if gate.MayBeBroken(a) {
			t.Errorf("%s: its card offers it", id)
		}
		_, err := h.gate.Contributions.BreakGlass(ctx, gate.Contribution{Person: eve, ApprovalID: id, Comment: "I want it", Channel: "api"}, true, a.Call.Digest, a.Version, nil)
		var refusal *access.Refusal
		if !errors.As(err, &refusal) || refusal.Code != "not_breakable" {
			t.Errorf("%s: %v", a.Call.Tool, err)
		}
	}
	h.settle(role)
	if h.state(role) != "pending, none" || h.roles("stranger") != "reviewer" {
		t.Errorf("%s, %s", h.state(role), h.roles("stranger"))
	}
	// Where another door has let it pass, it is not made.
	for _, id := range []string{role, policy} {
		err = h.store.Approvals.Change(ctx, id, nil, func(c *store.Change) error {
			f := approval.Fact{
				Kind: approval.BreakGlass, Yes: true, Comment: "I want it", Actor: engine.Actor{Kind: engine.HumanActor, ID: eve.ID, Channel: "api"},
				Voter: approval.Voter{Identity: eve.Identity, Roles: eve.Roles, Active: true}, Details: approval.Details{Alone: true, Proof: &approval.Proof{Method: "totp", At: c.Now}},
			}
			if err := c.AddFact(f); err != nil {
				return err
			}
			e := engine.Event{ID: store.NewEventID(), Type: engine.Broken, Outcome: c.Approval.Decision.Outcome, ApprovalID: id, AgentID: c.Approval.Call.AgentID, ToolName: c.Approval.Call.Tool, Actor: f.Actor}
			e.Reasons = []engine.Reason{f.Statement().Reason}
			added := c.Approval.Facts[len(c.Approval.Facts)-1]
			if err := e.SetPayload(added.Payload()); err != nil {
				return err
			}
			c.AddEvent(e)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		h.settle(id)
		if a := h.get(id).Approval; h.state(id) != "denied, none" || !strings.Contains(a.Reasons[0].Message, "glass") {
			t.Errorf("%s, %v", h.state(id), a.Reasons)
		}
	}
	// Nor does the database take it.
	used := h.waits(h.give("olga", "stranger", "auditor"))
	h.approve("omar", used)
	tx, err := h.db.Connect(h.db.URL).Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		change string
		want   bool
	}{{`UPDATE approvals SET execution = 'redeemed' WHERE id = $1`, true}, {`UPDATE facts SET kind = 'break_glass' WHERE approval_id = $1`, false}} {
		var takes bool
		if _, err := tx.Exec(ctx, step.change, used); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRow(ctx, `SELECT change_approved(a.id, 'roles', a.proposes, '', g.rule) FROM approvals a, guarded_documents g WHERE a.id = $1 AND g.kind = 'roles'`, used).Scan(&takes); err != nil || takes != step.want {
			t.Errorf("%s: %t, %v", step.change, takes, err)
		}
	}
}

// Of two changes of what approvers may do, that are settled at once, each waits for the other
// before it has what the other needs.
func TestApproversChangeAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.RolesChange)
	ctx := t.Context()
	ids := []string{h.waits(h.give("olga", "ada", "auditor")), h.waits(h.give("olga", "ben", "auditor"))}
	for _, id := range ids {
		if got := h.vote("omar", id, true); got != "" {
			t.Fatal(got)
		}
	}
	conn := h.db.Connect(h.db.URL)
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`BEGIN`)
	exec(`SELECT pg_advisory_xact_lock(hashtextextended('activate roles', 0)), pg_advisory_xact_lock(hashtextextended('people', 0))`)
	settled := make(chan error, len(ids))
	for _, id := range ids {
		go func() { _, err := h.settler.Settle(ctx, id); settled <- err }()
	}
	for waiting := 0; waiting < len(ids); {
		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waiting)
		if err != nil || len(settled) > 0 {
			t.Fatal("they do not wait: ", err)
		}
	}
	exec(`COMMIT`)
	for range ids {
		if err := <-settled; err != nil {
			t.Error(err)
		}
	}
	if h.state(ids[0]) != "approved, succeeded" || h.state(ids[1]) != "approved, succeeded" || h.roles("ada") != "auditor policy-owner" || h.roles("ben") != "auditor policy-owner" {
		t.Errorf("%s, %s; %s, %s", h.state(ids[0]), h.state(ids[1]), h.roles("ada"), h.roles("ben"))
	}
	h.codes()
}

// Whoever would be on call, and whoever owns an agent, does not decide about it.
func TestWhoGainsDoesNotDecide(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.SettingsChange, store.RoutingChange)
	ctx, r := t.Context(), h.admin.Registry
	h.db.Agent("billing-bot", "Billing", h.people["omar"])
	agent := admin.NewAgent("billing-bot")
	agent.Name, agent.Trust = "Billing", engine.Privileged
	shift := admin.OnCallRequest{Schedule: "primary", Emails: []string{h.people["ada"].Email, h.people["omar"].Email}, Until: h.store.Clock().Add(8 * time.Hour)}
	held := []string{h.waits(h.admin.OnCall.Set(ctx, h.by("olga"), shift, nil)), h.waits(r.RegisterAgent(ctx, h.by("olga"), agent, nil))}
	if err := r.RevokeAgent(ctx, h.by("olga"), "billing-bot", true, nil); err != nil {
		t.Fatal(err)
	}
	held = append(held, h.waits(r.RevokeAgent(ctx, h.by("olga"), "billing-bot", false, nil)))
	for _, id := range held {
		if got := h.vote("omar", id, true); got != "self_review" {
			t.Errorf("%s: %q", h.get(id).Approval.Call.Tool, got)
		}
	}
	// Whoever is to own it does not, either, nor does whoever does.
	agent.Owner = h.people["cleo"].Email
	id := h.waits(h.owner.Registry.RegisterAgent(ctx, aKey, agent, nil))
	for _, who := range []string{"omar", "cleo"} {
		if got := h.vote(who, id, true); got != "self_review" {
			t.Errorf("%s, of whose agent it is: %q", who, got)
		}
	}
	if got := h.vote("ben", id, true); got != "" {
		t.Error(got)
	}
	h.codes()
}

// The last administrator stays one, whatever was approved before.
func TestApprovedChangeLeavesAnAdministrator(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.RolesChange)
	ctx := t.Context()
	none := func(who string) admin.PersonChange {
		return admin.PersonChange{AddRoles: []string{"auditor"}, RemoveRoles: []string{"admin"}, AllowUnknownRoles: true, Reason: "leaves " + who}
	}
	_, err := h.admin.People.Change(ctx, h.by("olga"), h.people["omar"].ID, none("omar"), nil)
	id := h.waits(err)
	if _, err := h.admin.People.Change(ctx, h.by("omar"), h.people["olga"].ID, admin.PersonChange{RemoveRoles: []string{"admin"}}, nil); err != nil {
		t.Fatal(err)
	}
	h.approve("ada", id)
	if a := h.get(id).Approval; h.state(id) != "denied, none" || !strings.Contains(a.Reasons[0].Message, "last administrator") || h.roles("omar") != "admin policy-owner" {
		t.Errorf("%s, %v, %s", h.state(id), a.Reasons, h.roles("omar"))
	}
	// Who is not the last any more by then may leave.
	var entries []store.Entry
	for who, roles := range map[string][2][]string{"omar": {{"admin", "policy-owner"}, {"policy-owner"}}, "cleo": {{"policy-owner"}, {"admin", "policy-owner"}}} {
		n, err := store.NewEntry(store.PersonEntry, h.people[who].ID, roles[0], roles[1], engine.Event{})
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, n)
	}
	held, err := h.k.Hold(ctx, h.by("olga"), admin.PendingChange{Kind: store.RolesChange, Reason: "handover", Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	h.approve("ben", held.ApprovalID)
	if h.state(held.ApprovalID) != "approved, succeeded" || h.roles("cleo") != "admin policy-owner" || h.roles("omar") != "policy-owner" {
		t.Errorf("%s, %s, %s", h.state(held.ApprovalID), h.roles("cleo"), h.roles("omar"))
	}
	h.codes()
}

// onCall is who is on call on a schedule or will be, until when, in hours from a moment.
func (h *harness) onCall(from time.Time) string {
	h.t.Helper()
	shifts, err := h.admin.OnCall.Shifts(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	var text []string
	for _, s := range shifts {
		text = append(text, fmt.Sprintf("%s %.0f", strings.ToLower(s.Name), s.Until.Sub(from).Hours()))
	}
	return strings.Join(text, ", ")
}

// A schedule that is applied is as it was until it is approved, and nobody is off call meanwhile;
// that another shift ends meanwhile does not stand in its way.
func TestScheduleWaits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.RoutingChange)
	ctx := t.Context()
	now := h.store.Clock().UTC().Truncate(time.Second)
	in := func(hours int) time.Time { return now.Add(time.Duration(hours) * time.Hour) }
	by := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "op", Channel: "cli"}, Unapproved: "at first"}
	if err := h.owner.OnCall.Set(ctx, by, admin.OnCallRequest{Schedule: "primary", Emails: []string{h.people["ada"].Email}, Until: in(8)}, nil); err != nil {
		t.Fatal(err)
	}
	by.Unapproved = ""
	apply := func(done, refused, held int) string {
		t.Helper()
		shift := func(who string, from, until int) string {
			return fmt.Sprintf(`{"people": [%q], "from": %q, "until": %q}`, h.people[who].Email, in(from).Format(time.RFC3339), in(until).Format(time.RFC3339))
		}
		text := fmt.Sprintf(`{"on_call": [{"schedule": "primary", "shifts": [%s, %s]}]}`, shift("ben", 2, 6), shift("cleo", 6, 9))
		wanted, problems := setup.Read([]setup.Input{{Name: "shifts.json", Data: []byte(text)}}, setup.Input{})
		current, err := setup.Now(ctx, h.owner)
		if err != nil || len(problems) > 0 {
			t.Fatal(err, problems)
		}
		plan, problems := setup.Compare(current, wanted, setup.Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		a := &setup.Applier{Admin: h.owner, By: by, Done: func(setup.Change, error) {}}
		if d, r, err := a.Apply(ctx, plan); d != done || r != refused || err != nil || len(a.Held) != held {
			t.Fatalf("%d, %d, %v, %+v", d, r, err, a.Held)
		}
		if held == 0 {
			return ""
		}
		return a.Held[0].ApprovalID
	}
	approve := func(id, want string) {
		t.Helper()
		for _, who := range []string{"olga", "omar"} {
			if got := h.vote(who, id, true); got != "" {
				t.Fatal(got)
			}
		}
		h.settle(id)
		if h.state(id) != "approved, succeeded" || h.onCall(now) != want {
			t.Fatalf("%s, %v: %s, want %s", h.state(id), h.get(id).Approval.Reasons, h.onCall(now), want)
		}
	}
	first := apply(0, 1, 1)
	if got := h.onCall(now); got != "ada 8" {
		t.Fatalf("before it is approved: %s", got)
	}
	approve(first, "ben 6")
	approve(apply(0, 1, 1), "ben 6, cleo 9")
	apply(0, 0, 0)
	// A shift from now on begins when it is approved; asked for again, it is the same change.
	at := admin.OnCallRequest{Schedule: "second", Emails: []string{h.people["ben"].Email}, Until: in(5)}
	once := h.waits(h.admin.OnCall.Set(ctx, aKey, at, nil))
	if again := h.waits(h.admin.OnCall.Set(ctx, aKey, at, nil)); again != once {
		t.Errorf("asked for again it waits as %s, not as %s", again, once)
	}
	before := h.store.Clock()
	approve(once, "ben 6, cleo 9, ben 5")
	events, err := h.store.Events.List(ctx, store.EventFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Schedule string
		From     time.Time
	}
	for _, e := range events {
		if e.Type == engine.Admin && e.ApprovalID == once {
			err = errors.Join(err, json.Unmarshal(e.SafePayload, &said))
		}
	}
	if err != nil || said.Schedule != "second" || said.From.Before(before) {
		t.Errorf("%v, the log says %+v, and it was approved after %s", err, said, before)
	}
	// What was proposed while a shift went on that is over by now.
	over := map[string]any{"person": h.people["ada"].ID, "from": in(-2), "until": in(-1)}
	conn := h.db.Connect(h.db.URL)
	if _, err := conn.Exec(ctx, `INSERT INTO on_call (schedule, person_id, from_at, until_at, told_by) VALUES ('primary', $1, $2, $3, 'x')`, h.people["ada"].ID, in(-2), in(-1)); err != nil {
		t.Fatal(err)
	}
	var left []any
	text, err := h.store.Rules.EntryNow(ctx, store.ScheduleEntry, "primary")
	if err = errors.Join(err, json.Unmarshal(text, &left)); err != nil || len(left) != 2 {
		t.Fatal(err, left)
	}
	left = append([]any{over}, left...)
	for _, was := range []any{left, []any{over}} {
		entry, err := store.NewEntry(store.ScheduleEntry, "primary", was, store.ProposedSchedule{People: []string{h.people["ben"].ID}, Off: in(1), From: in(1), Until: in(3), ToldBy: "x"}, engine.Event{})
		if err != nil {
			t.Fatal(err)
		}
		held, err := h.k.Hold(ctx, aKey, admin.PendingChange{Kind: store.RoutingChange, Reason: "swap", Entries: []store.Entry{entry}})
		if err != nil {
			t.Fatal(err)
		}
		if len(left) > 1 {
			approve(held.ApprovalID, "ben 3, ben 5")
			left = nil
			continue
		}
		for _, who := range []string{"olga", "omar"} {
			if got := h.vote(who, held.ApprovalID, true); got != "" {
				t.Fatal(got)
			}
		}
		h.settle(held.ApprovalID)
		if h.state(held.ApprovalID) != "denied, none" {
			t.Errorf("where there were no shifts but those that are over: %s", h.state(held.ApprovalID))
		}
	}
	h.codes()
}
