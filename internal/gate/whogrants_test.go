package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/grant"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

func TestWhoMayGrant(t *testing.T) {
	h := grantingHarness(t, routing(time.Hour, 1))
	a := h.open(payment(50))
	long := `{"amount":50,"to":"canary-argument","memo":"` + strings.Repeat("x", 5000) + `"}`
	unseen := h.open(strings.Replace(deferred, args, long, 1))
	for name, test := range map[string]struct {
		who  string
		edit func(*gate.GrantRequest)
		want string
	}{
		"somebody with the role":    {"ada", nil, ""},
		"the agent's owner":         {"owner", nil, "self_review"},
		"somebody without the role": {"stranger", nil, "not_found"},
		"an unproved person":        {"ada", func(r *gate.GrantRequest) { r.Person.VerifiedAt = r.Person.VerifiedAt.Add(-6 * time.Minute) }, "verification_required"},
		"nobody in particular":      {"ada", func(r *gate.GrantRequest) { r.Person.VerifiedBy = "" }, "verification_required"},
		"of another card":           {"ada", func(r *gate.GrantRequest) { r.Digest = "sha256:0" }, "stale"},
		"of no card":                {"ada", func(r *gate.GrantRequest) { r.ApprovalID = "apr_x" }, "not_found"},
		"for too long":              {"ada", func(r *gate.GrantRequest) { r.For = gate.MaxGrant + time.Second }, "grant_time"},
		"for seven days":            {"ada", func(r *gate.GrantRequest) { r.For = gate.MaxGrant }, ""},
		"for a minute":              {"ada", func(r *gate.GrantRequest) { r.For = gate.MinGrant }, ""},
		"for no time":               {"ada", func(r *gate.GrantRequest) { r.For = time.Second }, "grant_time"},
		"for no calls":              {"ada", func(r *gate.GrantRequest) { r.Uses = 0 }, "grant_uses"},
		"for all calls":             {"ada", func(r *gate.GrantRequest) { r.Uses = 1001 }, "grant_uses"},
		"for no reason":             {"ada", func(r *gate.GrantRequest) { r.Comment = " \n" }, "reason_required"},
		"with a bad pattern":        {"ada", func(r *gate.GrantRequest) { r.Pattern.Matchers[0].Op = "like" }, "pattern"},
		"of other calls":            {"ada", func(r *gate.GrantRequest) { r.Pattern = upTo(49) }, "not_like_it"},
		"of what nobody has read":   {"ada", func(r *gate.GrantRequest) { r.ApprovalID, r.Digest = unseen.ID, unseen.Call.Digest }, "arguments_not_shown"},
	} {
		r := h.wish(test.who, a, upTo(100), 10)
		if test.edit != nil {
			test.edit(&r)
		}
		_, proposed := h.Grants.Propose(context.Background(), r)
		_, err := h.Grants.Save(context.Background(), r)
		if code(err) != test.want || code(proposed) != test.want {
			t.Errorf("%s: saved %q, proposed %q, want %q", name, code(err), code(proposed), test.want)
		}
	}
	if n := h.events(a.ID, engine.Granted); n < 10 {
		t.Errorf("%d events: refusals are on record as well", n)
	}
}

// An agent that proposes and takes back its calls without end hides no denial from who makes a grant.
func TestNoDenialIsHiddenFromAGrant(t *testing.T) {
	h := grantingHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	denied, waiting, back := h.open(payment(80)), h.open(payment(50)), h.open(payment(51))
	if err := h.vote("ben", denied, false); err != nil {
		t.Fatal(err)
	}
	h.settle(denied.ID)
	if _, err := h.Contributions.Cancel(ctx, h.agent, back.ID, "", nil); err != nil {
		t.Fatal(err)
	}
	h.settle(back.ID)
	h.db.Exec(`SET LOCAL session_replication_role = replica; INSERT INTO approvals SELECT (jsonb_populate_record(a, jsonb_build_object('id', 'apr_' || rpad(translate(md5(i::text), '0189', 'wxyz'), 26, 'a'), 'opened_at', clock_timestamp()))).*
		FROM approvals a, generate_series(1, 1100) i WHERE id = '` + back.ID + `'`)
	past, err := h.Grants.Propose(ctx, h.wish("ada", waiting, upTo(100), 10))
	if err != nil || past.Count(approval.Denied) != 1 || !past.Capped {
		t.Errorf("%d looked at, %d denied, %v", past.Looked, past.Count(approval.Denied), err)
	}
	if _, err := h.Grants.Save(ctx, h.wish("ada", waiting, upTo(100), 10)); code(err) != "denials_not_acknowledged" {
		t.Errorf("the denial is passed over: %v", err)
	}
}

// Nobody hides a grant behind others, and nobody makes grants without end: each is looked at when a call is settled.
func TestNoGrantIsHidden(t *testing.T) {
	h := grantingHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	a := h.open(payment(50))
	first := h.grant("ada", a, upTo(1e6), 1000)
	copies := func(who string, n int, more string) {
		h.db.Exec(`INSERT INTO standing_grants (id, person_id, agent_id, tool, environment, sealed, sealed_key, reason, from_approval, max_uses, expires_at, acknowledged, revoked_at, revoked_by)
			SELECT 'gra_' || md5($2 || $4 || i), $2, agent_id, tool, environment, sealed, sealed_key, reason, from_approval, 1, expires_at, acknowledged`+more+`
			FROM standing_grants, generate_series(1, $3) i WHERE id = $1`, first.ID, h.people[who].ID, n, more)
	}
	copies("ben", 300, `, NULL, ''`)
	copies("ben", 300, `, clock_timestamp(), 'x'`)
	for _, who := range []string{"ada", "cleo"} {
		list, _, err := h.Grants.ForPerson(ctx, h.people[who])
		if err != nil || !slices.ContainsFunc(list, func(g gate.Grant) bool { return g.ID == first.ID && g.MayRevoke }) {
			t.Errorf("%s does not see the first of %d grants, %v", who, len(list), err)
		}
	}
	copies("ada", store.MaxLiveGrants-2, `, NULL, ''`)
	h.grant("ada", a, upTo(100), 1)
	if _, err := h.Grants.Save(ctx, h.wish("ada", a, upTo(100), 1)); code(err) != "too_many_grants" {
		t.Errorf("one grant too many: %v", err)
	}
	h.grant("cleo", a, upTo(100), 1)
	if err := h.Grants.Revoke(ctx, h.people["ada"], first.ID, access.PersonInitiator(h.people["ada"], "console", ""), nil); err != nil {
		t.Fatal(err)
	}
	h.grant("ada", a, upTo(100), 1)
}

func TestPastDenialsAreAcknowledged(t *testing.T) {
	h := grantingHarness(t, routing(time.Hour, 1))
	end := func(amount int, approve bool) approval.Approval {
		t.Helper()
		a := h.open(payment(amount))
		if err := h.vote("ben", a, approve); err != nil {
			t.Fatal(err)
		}
		h.settle(a.ID)
		return a
	}
	denied, tooMuch := end(80, false), end(500, false)
	end(30, true)
	waiting := h.open(payment(50))
	r := h.wish("ada", waiting, upTo(100), 10)
	past, err := h.Grants.Propose(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if past.Looked != 4 || len(past.Matching) != 3 || past.Count(approval.Denied) != 1 || past.Count(approval.Approved) != 1 || past.Count(approval.Pending) != 1 ||
		past.Denials()[0].ID != denied.ID || past.Matching[0].ID != waiting.ID {
		t.Errorf("backtest: %+v", past)
	}
	r.Acknowledged = []string{tooMuch.ID}
	_, err = h.Grants.Save(context.Background(), r)
	if code(err) != "denials_not_acknowledged" || !strings.Contains(err.Error(), denied.ID) || strings.Contains(err.Error(), tooMuch.ID) {
		t.Errorf("not acknowledged: %v", err)
	}
	// A denial since the page was shown counts as well.
	r.Acknowledged = []string{denied.ID}
	later := end(81, false)
	if _, err = h.Grants.Save(context.Background(), r); code(err) != "denials_not_acknowledged" || !strings.Contains(err.Error(), later.ID) {
		t.Errorf("one more denial: %v", err)
	}
	r.Acknowledged = []string{denied.ID, later.ID, tooMuch.ID}
	g, err := h.Grants.Save(context.Background(), r)
	if err != nil || len(g.Acknowledged) != 2 {
		t.Fatalf("acknowledged %q, %v", g.Acknowledged, err)
	}
	// What has been erased cannot be compared, but for the very same call.
	h.db.Exec(`UPDATE retention_floor SET shortest = '0'`)
	for _, a := range []approval.Approval{denied, later} {
		if _, err := h.Retention.Erase(context.Background(), access.Initiator{}, admin.EraseRequest{ApprovalID: a.ID, Reason: "test"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	past, err = h.Grants.Propose(context.Background(), r)
	if err != nil || past.Unreadable != 2 || past.Count(approval.Denied) != 0 {
		t.Errorf("after erasing: %+v, %v", past, err)
	}
}

// What calls have to be like is sealed, and nowhere else.
func TestGrantsTellNoArguments(t *testing.T) {
	h := grantingHarness(t, routing(time.Hour, 1))
	denied := h.open(payment(20))
	if err := h.vote("ben", denied, false); err != nil {
		t.Fatal(err)
	}
	h.settle(denied.ID)
	r := h.wish("ada", h.open(payment(50)), upTo(100), 10)
	_, err := h.Grants.Save(context.Background(), r) // a refusal, with the denial's id
	if code(err) != "denials_not_acknowledged" {
		t.Fatal(err)
	}
	r.Acknowledged = []string{denied.ID}
	r.Pattern.Matchers[1] = grant.Matcher{Path: "/to", Op: grant.Prefix, Value: canon.String("canary")}
	g, err := h.Grants.Save(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	h.want("used", h.decided(payment(51)), approval.Approved)
	if err := h.Grants.RevokeByKey(context.Background(), g.ID, access.Principal{KeyID: "key_admin", Kind: access.AdminKey}.Initiator("r"), nil); err != nil {
		t.Fatal(err)
	}
	conn := h.db.Connect(h.db.URL)
	for _, table := range []string{"standing_grants", "facts", "events", "approvals", "idempotency", "outbox"} {
		rows, err := conn.Query(context.Background(), `SELECT t::text FROM `+table+` t`)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(lines) == 0 && table != "idempotency" && table != "outbox" {
			t.Fatalf("%s: %d rows, %v", table, len(lines), err)
		}
		if all := strings.Join(lines, "\n"); strings.Contains(all, "canary") || strings.Contains(all, "/amount") || strings.Contains(all, fmt.Sprintf("%x", "canary")) {
			t.Errorf("%s tells of the pattern", table)
		}
	}
	events, err := h.Events(context.Background(), store.EventFilter{AgentID: "bot"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, e := range events {
		if e.Type != engine.Granted {
			continue
		}
		codes = append(codes, e.Reasons[0].Code)
		if e.Reasons[0].Code != "GRANT_MADE" {
			continue
		}
		var payload struct {
			Grant        string
			Uses         int
			Matchers     int
			PastMatching int `json:"past_matching"`
			Acknowledged []string
		}
		if err := json.Unmarshal(e.SafePayload, &payload); err != nil || payload.Grant != g.ID || payload.Uses != 10 || payload.Matchers != 2 || payload.PastMatching != 2 || len(payload.Acknowledged) != 1 {
			t.Errorf("told: %s, %v", e.SafePayload, err)
		}
	}
	if got, want := fmt.Sprint(codes), "[denials_not_acknowledged GRANT_MADE GRANT_REVOKED]"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	keys, _, err := h.Grants.All(context.Background())
	if err != nil || len(keys) != 1 || len(keys[0].Pattern.Matchers) != 0 {
		t.Errorf("for a key: %+v, %v", keys, err)
	}
	// A get whose record is not the one that was sealed casts no vote.
	h.grant("ada", h.open(payment(50)), grant.Pattern{Matchers: []grant.Matcher{
		{Path: "/amount", Op: grant.Equals, Value: canon.Number(50)}, {Path: "/to", Op: grant.Equals, Value: canon.String("canary-argument")},
	}}, 10)
	h.db.Exec(`ALTER TABLE standing_grants DISABLE TRIGGER standing_grants_guard`)
	h.db.Exec(`UPDATE standing_grants SET sealed = (SELECT sealed FROM standing_grants WHERE id = $1) WHERE id <> $1`, g.ID)
	h.want("after tampering", h.decided(payment(50)), approval.Pending)
}
