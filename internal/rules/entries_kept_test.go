package rules_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
	"holdpoint/internal/setup"
	"holdpoint/internal/store"
)

// endpoint is whether an endpoint is on, and what it tells.
func (h *harness) endpoint(id string) string {
	h.t.Helper()
	e, err := h.store.Endpoints.Get(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	s, err := notify.ParseSettings(e.Settings)
	if err != nil {
		h.t.Fatal(err)
	}
	state := "on "
	if e.DisabledAt != nil {
		state = "off "
	}
	return state + strings.Join(s.To, " ") + s.Host
}

// What notifications go to is on when that was approved; while it is off it changes at once, and
// switching it off waits for nobody.
func TestEndpointsTakeAnApproval(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.EndpointsChange)
	ctx, r := t.Context(), h.admin.Endpoints
	mail := admin.NewEndpoint{Kind: notify.Email, Name: "The box", Settings: notify.Settings{To: []string{h.people["ada"].Email}}}
	id, _, err := r.Add(ctx, h.by("olga"), mail)
	waits := h.waits(err)
	if got := h.endpoint(id); got != "off "+h.people["ada"].Email {
		t.Fatalf("before it is approved: %s", got)
	}
	if again := h.waits(r.Switch(ctx, h.by("olga"), id, false)); again != waits {
		t.Errorf("asked for again it waits as %s, not as %s", again, waits)
	}
	// Whoever adds it and whoever is told do not decide.
	for _, who := range []string{"olga", "ada"} {
		if got := h.vote(who, waits, true); got != "self_review" {
			t.Errorf("%s votes: %q", who, got)
		}
	}
	// What was approved is what is on: another address since is another change.
	to := func(address string) admin.EndpointChange {
		return admin.EndpointChange{Settings: func(s *notify.Settings) { s.To = []string{address} }}
	}
	if err := r.Change(ctx, h.by("olga"), id, to("eve@example.com")); err != nil {
		t.Fatal(err)
	}
	h.approve("omar", waits)
	if h.state(waits) != "denied, none" || h.endpoint(id) != "off eve@example.com" {
		t.Fatalf("changed meanwhile: %s, %s", h.state(waits), h.endpoint(id))
	}
	if err := r.Change(ctx, h.by("olga"), id, to("team@example.com")); err != nil {
		t.Fatal(err)
	}
	second := h.waits(r.Switch(ctx, h.by("olga"), id, false))
	h.approve("omar", second)
	if h.state(second) != "approved, succeeded" || h.endpoint(id) != "on team@example.com" {
		t.Fatalf("%s, %v, %s", h.state(second), h.get(second).Approval.Reasons, h.endpoint(id))
	}
	h.event(second, "ENDPOINT_ENABLED")
	// Neither the settings nor the address stand in what was proposed.
	var body []byte
	if err := h.db.Connect(h.db.URL).QueryRow(ctx, `SELECT string_agg(convert_from(body, 'UTF8'), '')::bytea FROM documents WHERE kind = 'endpoints'`).Scan(&body); err != nil || strings.Contains(string(body), "@") {
		t.Errorf("%v, %s", err, body)
	}
	// Nor of one that is on without one, but in an emergency.
	emergency := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "op", Channel: "cli"}, Unapproved: "the box is full"}
	if err := h.owner.Endpoints.Change(ctx, emergency, id, to("other@example.com")); err != nil || h.endpoint(id) != "on other@example.com" {
		t.Errorf("in an emergency: %v, %s", err, h.endpoint(id))
	}
	if err := r.Switch(ctx, h.by("olga"), id, true); err != nil || h.endpoint(id) != "off other@example.com" {
		t.Errorf("switched off: %v", err)
	}
	// A webhook's secret is shown, and a command rotates it.
	hook, shown, err := r.Add(ctx, h.by("olga"), admin.NewEndpoint{Kind: notify.Webhook, Name: "Desk", URL: "https://93.184.216.34/hook"})
	if h.approve("omar", h.waits(err)); shown == "" || h.endpoint(hook) != "on 93.184.216.34" {
		t.Fatalf("%q, %s", shown, h.endpoint(hook))
	}
	if shown, err := h.owner.Endpoints.RotateSecret(ctx, aKey, hook, "", time.Hour); err != nil || shown == "" || h.endpoint(hook) != "on 93.184.216.34" {
		t.Errorf("rotated by command: %v", err)
	}
	// An agent's own.
	h.db.Agent("billing-bot", "Billing", h.people["cleo"])
	made, err := r.SetAgentWebhook(ctx, h.by("olga"), admin.AgentWebhook{AgentID: "billing-bot", URL: "https://93.184.216.34/agent"}, nil)
	if err != nil || made.Secret == "" || made.ApprovalID == "" || h.endpoint(made.EndpointID) != "off 93.184.216.34" {
		t.Fatalf("%v, %+v", err, made)
	}
	if h.approve("omar", made.ApprovalID); h.endpoint(made.EndpointID) != "on 93.184.216.34" {
		t.Errorf("%s", h.state(made.ApprovalID))
	}
	h.codes()
}

// What is applied has endpoints added off, and asks once for all of them.
func TestAppliedEndpointsWait(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.EndpointsChange)
	ctx := t.Context()
	apply := func(done, refused int) (held []admin.PendingApproval) {
		t.Helper()
		text := `{"endpoints": [{"name": "one", "kind": "email", "to": ["a@example.com"], "disabled": false}, {"name": "two", "kind": "email", "to": ["b@example.com"], "disabled": false}, {"name": "three", "kind": "email", "to": ["c@example.com"], "disabled": true}]}`
		wanted, problems := setup.Read([]setup.Input{{Name: "mail.json", Data: []byte(text)}}, setup.Input{})
		current, err := setup.Now(ctx, h.owner)
		if err != nil || len(problems) > 0 {
			t.Fatal(err, problems)
		}
		plan, problems := setup.Compare(current, wanted, setup.Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		a := &setup.Applier{Admin: h.owner, By: aKey, Done: func(setup.Change, error) {}}
		if d, r, err := a.Apply(ctx, plan); d != done || r != refused || err != nil {
			t.Fatalf("%d, %d, %v, %+v", d, r, err, a.Held)
		}
		return a.Held
	}
	held := apply(1, 2)
	if len(held) != 1 {
		t.Fatalf("%+v", held)
	}
	if again := apply(0, 2); len(again) != 0 {
		t.Errorf("asked again: %+v", again)
	}
	for _, who := range []string{"olga", "omar"} {
		if got := h.vote(who, held[0].ApprovalID, true); got != "" {
			t.Fatal(got)
		}
	}
	h.settle(held[0].ApprovalID)
	list, _, err := h.admin.Endpoints.Overview(ctx, 0)
	on := ""
	for _, e := range list {
		if e.DisabledAt == nil {
			on += e.Name + " "
		}
	}
	if err != nil || on != "one two " {
		t.Errorf("%v, on are %s", err, on)
	}
	apply(0, 0)
}

// A legal hold is placed at once, and released when that was approved; the floor is raised at
// once, and lowered by whoever owns the database when that was approved.
func TestRetentionTakesAnApproval(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.RetentionChange)
	ctx, r := t.Context(), h.admin.Retention
	hold, err := r.PlaceHold(ctx, h.by("olga"), admin.HoldRequest{Covers: admin.CoversPerson, Subject: h.people["ben"].Email, Reason: "case 4711"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	id := h.waits(r.ReleaseHold(ctx, h.by("olga"), hold.ID, nil))
	if again := h.waits(r.ReleaseHold(ctx, h.by("olga"), hold.ID, nil)); again != id {
		t.Errorf("asked for again it waits as %s, not as %s", again, id)
	}
	// Whom it is about does not decide, under no account.
	for _, who := range []string{"olga", "ben", "ben2"} {
		if got := h.vote(who, id, true); got != "self_review" {
			t.Errorf("%s votes: %q", who, got)
		}
	}
	holds := func() bool {
		t.Helper()
		list, err := r.Holds(ctx)
		if err != nil || len(list) != 1 {
			t.Fatal(err, list)
		}
		return list[0].ReleasedAt == nil
	}
	if !holds() {
		t.Fatal("released without an approval")
	}
	h.approve("omar", id)
	if h.state(id) != "approved, succeeded" || holds() {
		t.Fatalf("%s, %v", h.state(id), h.get(id).Approval.Reasons)
	}
	var told struct {
		Hold       string
		ApprovedBy []string `json:"approved_by"`
	}
	e := h.event(id, "HOLD_RELEASED")
	if err := json.Unmarshal(e.SafePayload, &told); err != nil || e.Type != engine.Held || told.Hold != hold.ID || len(told.ApprovedBy) != 1 || told.ApprovedBy[0] != h.people["omar"].ID {
		t.Errorf("%v, %s %s", err, e.Type, e.SafePayload)
	}
	var refusal *access.Refusal
	if err := r.ReleaseHold(ctx, h.by("olga"), hold.ID, nil); !errors.As(err, &refusal) || refusal.Kind != access.NotFound {
		t.Errorf("released twice: %v", err)
	}
	// The floor.
	floor := func() time.Duration {
		t.Helper()
		m, err := r.Minimum(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return m.Shortest
	}
	set := func(d time.Duration) error { return h.owner.Retention.SetMinimum(ctx, aKey, d) }
	if err := set(100 * time.Hour); err != nil || floor() != 100*time.Hour {
		t.Fatalf("raised: %v, %s", err, floor())
	}
	lower := h.waits(set(time.Hour))
	if err := h.vote("omar", lower, true) + h.vote("olga", lower, true); err != "" {
		t.Fatal(err)
	}
	h.settle(lower)
	if h.state(lower) != "approved, succeeded" || floor() != 100*time.Hour {
		t.Fatalf("%s, %v, %s", h.state(lower), h.get(lower).Approval.Reasons, floor())
	}
	if other := h.waits(set(2 * time.Hour)); other == lower {
		t.Error("another floor was approved with it")
	}
	// Not for good: three days later it is asked for anew.
	h.db.Exec(`UPDATE approvals SET ended_at = ended_at - interval '73 hours' WHERE id = $1`, lower)
	again := h.waits(set(time.Hour))
	if again == lower || floor() != 100*time.Hour {
		t.Fatalf("it waits as %s, the floor is %s", again, floor())
	}
	for _, who := range []string{"olga", "omar"} {
		if got := h.vote(who, again, true); got != "" {
			t.Fatal(got)
		}
	}
	if h.settle(again); h.state(again) != "approved, succeeded" {
		t.Fatal(h.state(again))
	}
	if err := set(time.Hour); err != nil || floor() != time.Hour {
		t.Fatalf("lowered as it was approved: %v, %s", err, floor())
	}
	// Once.
	if err := set(100 * time.Hour); err != nil {
		t.Fatal(err)
	}
	h.waits(set(time.Hour))
	emergency := access.Initiator{Actor: aKey.Actor, Unapproved: "the disk is full"}
	if err := h.owner.Retention.SetMinimum(ctx, emergency, time.Hour); err != nil || floor() != time.Hour {
		t.Errorf("in an emergency: %v, %s", err, floor())
	}
	if got := h.codes(); !strings.Contains(got, "RETENTION_FLOOR_SET NOBODY_ASKED") {
		t.Error(got)
	}
}

// No login but the owner's has notifications go elsewhere, or keeps less, with an approval that is
// somebody else's or over.
func TestGuardedEndpointsAndRetention(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ctx := t.Context()
	mail, _, err := h.admin.Endpoints.Add(ctx, h.by("olga"), admin.NewEndpoint{Kind: notify.Email, Name: "on", Settings: notify.Settings{To: []string{"a@example.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	h.require(store.EndpointsChange)
	h.require(store.RetentionChange)
	off, _, err := h.admin.Endpoints.Add(ctx, h.by("olga"), admin.NewEndpoint{Kind: notify.Email, Name: "off", Settings: notify.Settings{To: []string{"a@example.com"}}})
	waiting := h.waits(err)
	used, _, err := h.admin.Endpoints.Add(ctx, h.by("olga"), admin.NewEndpoint{Kind: notify.Email, Name: "used", Settings: notify.Settings{To: []string{"a@example.com"}}})
	over := h.waits(err)
	h.approve("omar", over)
	hold, err := h.admin.Retention.PlaceHold(ctx, h.by("olga"), admin.HoldRequest{Covers: admin.CoversEverything, Reason: "x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	release := h.waits(h.admin.Retention.ReleaseHold(ctx, h.by("olga"), hold.ID, nil))
	lower := h.waits(h.owner.Retention.SetMinimum(ctx, aKey, time.Hour))
	eve := `'{"to":["eve@example.com"]}'`
	for _, login := range []string{h.db.RuntimeURL, h.db.PeopleURL} {
		conn := h.db.Connect(login)
		for _, sql := range []string{
			`UPDATE endpoints SET disabled_at = NULL WHERE id = '` + off + `'`,
			`UPDATE endpoints SET settings = ` + eve + ` WHERE id = '` + mail + `'`,
			`UPDATE endpoints SET sealed = 'x', sealed_key = 'x' WHERE id = '` + mail + `'`,
			`UPDATE endpoints SET settings = ` + eve + ` WHERE id = '` + used + `'`,
			`UPDATE endpoints SET settings = ` + eve + `, disabled_at = NULL WHERE id = '` + off + `'`,
			`UPDATE endpoints SET edition = 7`,
			`INSERT INTO endpoints (id, kind, name, settings, created_by) VALUES ('end_eve', 'email', 'eve', ` + eve + `, 'x')`,
			`UPDATE legal_holds SET released_by = 'x', released_event = gen_random_uuid() WHERE id = '` + hold.ID + `'`,
			`UPDATE retention_floor SET permitted = '0', permitted_by = 'apr_none'`,
			`UPDATE retention_floor SET permitted = '1 hour', permitted_by = '` + lower + `'`,
			`UPDATE retention_floor SET shortest = '1 hour'`,
		} {
			h.refuses(conn, sql, "", over, waiting, release, lower, "apr_none")
		}
	}
	// Taking away is at once, and so is a name.
	conn := h.db.Connect(h.db.RuntimeURL)
	for _, sql := range []string{
		`UPDATE endpoints SET name = 'renamed' WHERE id = '` + mail + `'`,
		`UPDATE endpoints SET disabled_at = now() WHERE id = '` + mail + `'`,
		`UPDATE endpoints SET settings = ` + eve + ` WHERE id = '` + mail + `'`,
	} {
		if tag, err := conn.Exec(ctx, sql); err != nil || tag.RowsAffected() != 1 {
			t.Errorf("%s: %v", sql, err)
		}
	}
	h.codes()
}
