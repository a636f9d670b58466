package rules_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
	"holdpoint/internal/setup"
	"holdpoint/internal/store"
)

// target is what is secret about an endpoint.
func (h *harness) target(id string) notify.EndpointSecrets {
	h.t.Helper()
	all, err := h.admin.Endpoints.Targets(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return all[id]
}

// An endpoint that is on goes on as it is until its change was approved, and what was approved is what
// people were shown.
func TestEndpointOnChangesByApproval(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.EndpointsChange)
	ctx, r := t.Context(), h.admin.Endpoints
	var before, after string
	hold := r.Hold
	shows := func(ctx context.Context, by access.Initiator, c admin.PendingChange) (admin.PendingApproval, error) {
		before, after = c.Before, c.After
		return hold(ctx, by, c)
	}
	r.Hold = shows
	id, _, err := r.Add(ctx, h.by("olga"), admin.NewEndpoint{Kind: notify.Email, Name: "box", Settings: notify.Settings{To: []string{"team@example.com"}}})
	h.approve("omar", h.waits(err))
	to := func(address string) error {
		return r.Change(ctx, h.by("olga"), id, admin.EndpointChange{Settings: func(s *notify.Settings) { s.To = []string{address} }})
	}
	now := func(want string) {
		t.Helper()
		if got := h.endpoint(id); got != want {
			t.Fatalf("it is %s, want %s", got, want)
		}
	}
	if err := to("team@example.com"); err != nil {
		t.Errorf("what changes nothing: %v", err)
	}
	ada := h.waits(to(h.people["ada"].Email))
	if !strings.Contains(before, "team@example.com") || !strings.Contains(after, h.people["ada"].Email) {
		t.Errorf("people are shown %s and %s", before, after)
	}
	now("on team@example.com")
	waiting := func(want string) {
		t.Helper()
		all, _, err := r.Overview(ctx, 0)
		at := slices.IndexFunc(all, func(e admin.Endpoint) bool { return e.ID == id })
		if err != nil || at < 0 || all[at].ApprovalID != want {
			t.Errorf("the list says that it waits for %v, want %q: %v", all, want, err)
		}
	}
	waiting(ada)
	if again := h.waits(to(h.people["ada"].Email)); again != ada {
		t.Errorf("asked for again it waits as %s, not as %s", again, ada)
	}
	for _, who := range []string{"olga", "ada"} { // its author, and who would be told
		if got := h.vote(who, ada, true); got != "self_review" {
			t.Errorf("%s votes: %q", who, got)
		}
	}
	h.approve("omar", ada)
	if h.state(ada) != "approved, succeeded" {
		t.Fatalf("%s, %v", h.state(ada), h.get(ada).Approval.Reasons)
	}
	now("on " + h.people["ada"].Email)
	waiting("")
	h.event(ada, "ENDPOINT_CHANGED")
	// Of two that wait, the later one counts; and what was approved of an endpoint that has
	// changed since, or is off, is not done.
	first, second := h.waits(to("eve@example.com")), h.waits(to("desk@example.com"))
	h.approve("omar", first)
	if h.state(first) != "denied, none" {
		t.Errorf("the earlier one: %s", h.state(first))
	}
	h.approve("omar", second)
	now("on desk@example.com")
	third := h.waits(to("eve@example.com"))
	if err := r.Switch(ctx, h.by("olga"), id, true); err != nil {
		t.Fatal(err)
	}
	h.approve("omar", third)
	if now("off desk@example.com"); h.state(third) != "denied, none" {
		t.Errorf("switched off: %s", h.state(third))
	}
	// No secret and no address is in what was proposed.
	var body []byte
	if err := h.db.Connect(h.db.URL).QueryRow(ctx, `SELECT string_agg(convert_from(body, 'UTF8'), '')::bytea FROM documents WHERE kind = 'endpoints'`).Scan(&body); err != nil || strings.Contains(string(body), "@") {
		t.Errorf("%v, %s", err, body)
	}

	// A webhook's secret: the former one signs until the new one does, and for as long as was said.
	hook, old, err := r.Add(ctx, h.by("olga"), admin.NewEndpoint{Kind: notify.Webhook, Name: "Desk", URL: "https://93.184.216.34/hook/one"})
	h.approve("omar", h.waits(err))
	shown, err := r.RotateSecret(ctx, h.by("olga"), hook, "", time.Hour)
	rotates := h.waits(err)
	if shown == "" || !strings.Contains(after, "another secret, and with the former one") || strings.Contains(after, shown) {
		t.Errorf("rotated: %q, people see %s", shown, after)
	}
	if keys := h.target(hook).Keys; len(keys) != 1 || keys[0].Secret != old {
		t.Error("another secret signs already")
	}
	h.approve("omar", rotates)
	keys := h.target(hook).Keys
	if len(keys) != 2 || keys[0].Secret != shown || keys[1].Secret != old || !keys[1].Until.After(h.get(rotates).Approval.Plan.ExpiresAt.Add(time.Hour-time.Minute)) {
		t.Errorf("%d secrets sign: %s", len(keys), h.state(rotates))
	}
	h.event(rotates, "ENDPOINT_ROTATED")
	// Another address where only its secret part differs is told so.
	moved := h.waits(r.Change(ctx, h.by("olga"), hook, admin.EndpointChange{Settings: func(*notify.Settings) {}, URL: "https://93.184.216.34/hook/two"}))
	if !strings.Contains(after, "differs in what is secret") || strings.Contains(after, "/two") {
		t.Errorf("people see %s", after)
	}
	if h.approve("omar", moved); h.target(hook).URL != "https://93.184.216.34/hook/two" || len(h.target(hook).Keys) != 2 {
		t.Errorf("moved: %s", h.state(moved))
	}

	// An address that was only proposed goes with the person whose it is.
	if err := errors.Join(r.Switch(ctx, h.by("olga"), hook, true), h.owner.Endpoints.Switch(ctx, access.Initiator{Actor: aKey.Actor, Unapproved: "x"}, id, false)); err != nil {
		t.Fatal(err)
	}
	conn := h.db.Connect(h.db.URL)
	proposed := func() (to string) {
		t.Helper()
		if err := conn.QueryRow(ctx, `SELECT coalesce(next_settings->'to'->>0, '') FROM endpoints WHERE id = $1`, id).Scan(&to); err != nil {
			t.Fatal(err)
		}
		return to
	}
	ben := h.waits(to(h.people["ben"].Email))
	if got := h.vote("omar", ben, false); got != "" {
		t.Fatal(got)
	}
	if h.settle(ben); h.state(ben) != "denied, none" || proposed() != h.people["ben"].Email {
		t.Fatalf("%s, proposed is %q", h.state(ben), proposed())
	}
	if err := h.owner.Retention.SetMinimum(ctx, aKey, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := h.admin.Retention.Erase(ctx, h.by("olga"), admin.EraseRequest{Person: h.people["ben"].ID, Reason: "asked for"}, nil); err != nil || proposed() != "" {
		t.Errorf("erased: %v, proposed is %q", err, proposed())
	}
	h.codes()
}

// What was proposed of an endpoint changes by no raw SQL into something else that the approval makes.
func TestProposedEndpointsAreGuarded(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.EndpointsChange)
	ctx, r := t.Context(), h.admin.Endpoints
	id, _, err := r.Add(ctx, h.by("olga"), admin.NewEndpoint{Kind: notify.Email, Name: "box", Settings: notify.Settings{To: []string{"team@example.com"}}})
	h.approve("omar", h.waits(err))
	change := func() string {
		return h.waits(r.Change(ctx, h.by("olga"), id, admin.EndpointChange{Settings: func(s *notify.Settings) { s.To = []string{"good@example.com"} }}))
	}
	waiting := change()
	eve := `'{"to":["eve@example.com"]}'`
	for _, login := range []string{h.db.RuntimeURL, h.db.PeopleURL} {
		conn := h.db.Connect(login)
		for _, sql := range []string{
			`UPDATE endpoints SET settings = next_settings, sealed = next_sealed, sealed_key = next_sealed_key`,
			`UPDATE endpoints SET settings = ` + eve,
			`UPDATE endpoints SET next_edition = 1, next_settings = ` + eve,
		} {
			h.refuses(conn, sql, "", waiting, "apr_none")
		}
	}
	// It may write what is proposed, and what people approve is not that then.
	for _, sql := range []string{
		`UPDATE endpoints SET next_settings = ` + eve,
		`UPDATE endpoints SET next_settings = NULL`,
	} {
		if tag, err := h.db.Connect(h.db.RuntimeURL).Exec(ctx, sql); err != nil || tag.RowsAffected() != 1 {
			t.Fatalf("%s: %v", sql, err)
		}
		h.approve("omar", waiting)
		if got := h.endpoint(id); got != "on team@example.com" || h.state(waiting) != "denied, none" {
			t.Errorf("after %s it is %s: %s", sql, got, h.state(waiting))
		}
		waiting = change()
	}
	if h.approve("omar", waiting); h.endpoint(id) != "on good@example.com" {
		t.Error(h.state(waiting))
	}
	h.codes()
}

// An agent's own endpoint that is on goes on until the other address was approved. The answer that is
// kept for a repetition tells of an approval that there is.
func TestAgentWebhookWaits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.EndpointsChange)
	ctx, r := t.Context(), h.admin.Endpoints
	h.db.Agent("billing-bot", "Billing", h.people["cleo"])
	var kept access.Idempotency[admin.AgentSecret]
	kept.Request = access.Request{Credential: "test", Key: "once", Hash: []byte("x")}
	kept.Render = func(s admin.AgentSecret, _ error) access.Reply {
		return access.Reply{Status: 200, Body: []byte(s.ApprovalID + " " + s.Secret)}
	}
	set := func(url string) (admin.AgentSecret, error) {
		return r.SetAgentWebhook(ctx, h.by("olga"), admin.AgentWebhook{AgentID: "billing-bot", URL: url}, &kept)
	}
	// Refused where no change can be proposed: nothing is written, and no answer is kept.
	withHold := r.Hold
	r.Hold = nil
	var refusal *access.Refusal
	if _, err := set("https://93.184.216.34/agent"); !errors.As(err, &refusal) {
		t.Fatalf("without anybody to ask: %v", err)
	}
	r.Hold = withHold
	made, err := set("https://93.184.216.34/agent")
	if err != nil || made.ApprovalID == "" || made.Secret == "" || h.state(made.ApprovalID) != "pending, none" {
		t.Fatalf("%+v, %v", made, err)
	}
	var replay *access.Replay
	if _, err := set("https://93.184.216.34/agent"); !errors.As(err, &replay) || string(replay.Reply.Body) != made.ApprovalID+" "+made.Secret {
		t.Fatalf("repeated: %v", err)
	}
	if h.approve("omar", made.ApprovalID); h.endpoint(made.EndpointID) != "on 93.184.216.34" || h.target(made.EndpointID).Keys[0].Secret != made.Secret {
		t.Fatal(h.state(made.ApprovalID))
	}
	kept.Key = "twice"
	moved, err := set("https://93.184.216.35/agent")
	if err != nil || moved.ApprovalID == "" || h.endpoint(made.EndpointID) != "on 93.184.216.34" {
		t.Fatalf("%v, %s", err, h.endpoint(made.EndpointID))
	}
	if _, err := set("https://93.184.216.35/agent"); !errors.As(err, &replay) || string(replay.Reply.Body) != moved.ApprovalID+" "+moved.Secret {
		t.Errorf("repeated: %v", err)
	}
	if h.approve("omar", moved.ApprovalID); h.endpoint(made.EndpointID) != "on 93.184.216.35" || h.target(made.EndpointID).Keys[0].Secret != moved.Secret {
		t.Error(h.state(moved.ApprovalID))
	}
	h.codes()
}

// What is applied again while it waits is the same change, with the same secret.
func TestAppliedEndpointChangesWait(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.EndpointsChange)
	ctx := t.Context()
	h.db.Agent("billing-bot", "Billing", h.people["cleo"])
	apply := func(host, to string) (held []admin.PendingApproval, secrets int) {
		t.Helper()
		text := `{"endpoints": [{"name": "box", "kind": "email", "to": ["` + to + `"]}],
			"agents": [{"agent_id": "billing-bot", "name": "Billing", "owner": "` + h.people["cleo"].Email + `", "webhook": {"host": "` + host + `"}}]}`
		wanted, problems := setup.Read([]setup.Input{{Name: "mail.json", Data: []byte(text)}}, setup.Input{Name: "addresses.json", Data: []byte(`{"agents": {"billing-bot": "https://` + host + `/agent"}}`)})
		current, err := setup.Now(ctx, h.owner)
		if err != nil || len(problems) > 0 {
			t.Fatal(err, problems)
		}
		plan, problems := setup.Compare(current, wanted, setup.Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		a := &setup.Applier{Admin: h.owner, By: aKey, Done: func(setup.Change, error) {}, Show: func(setup.Secret) error {
			secrets++
			return nil
		}}
		if _, _, err := a.Apply(ctx, plan); err != nil {
			t.Fatal(err)
		}
		return a.Held, secrets
	}
	settled := func(held []admin.PendingApproval) {
		t.Helper()
		if len(held) != 1 {
			t.Fatalf("held are %+v", held)
		}
		for _, who := range []string{"olga", "omar"} {
			if got := h.vote(who, held[0].ApprovalID, true); got != "" {
				t.Fatal(got)
			}
		}
		if h.settle(held[0].ApprovalID); h.state(held[0].ApprovalID) != "approved, succeeded" {
			t.Fatal(h.state(held[0].ApprovalID))
		}
	}
	for _, round := range []struct{ host, to string }{{"93.184.216.34", "a@example.com"}, {"93.184.216.35", "b@example.com"}} {
		held, secrets := apply(round.host, round.to)
		if secrets != 1 {
			t.Errorf("%d secrets are shown", secrets)
		}
		if again, secrets := apply(round.host, round.to); len(again) != 0 || secrets != 0 {
			t.Fatalf("asked again: %+v, %d secrets", again, secrets)
		}
		settled(held)
		list, _, err := h.admin.Endpoints.Overview(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		var on []string
		for _, e := range list {
			on = append(on, h.endpoint(e.ID))
		}
		slices.Sort(on)
		if want := []string{"on " + round.host, "on " + round.to}; !slices.Equal(on, want) {
			t.Errorf("%q, want %q", on, want)
		}
	}
}
