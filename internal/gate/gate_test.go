package gate_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/engine/registry"
	"holdpoint/engine/token"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/report"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// harness is a gate on a database of its own, with people and an agent. Settling
// is called by the test, as the workflow would.
type harness struct {
	*gate.Gate
	*admin.Admin
	Log     *auditlog.Log
	Reports report.Reports
	t       testing.TB
	db      *storetest.Database
	config  gate.Config
	settler *gate.Settler
	people  map[string]engine.Person
	agent   access.Principal
	runtime access.Principal

	rules gate.Rules
	judge atomic.Pointer[gate.Judge]
	// withoutPolicy leaves out the policy that allows everything.
	withoutPolicy bool
}

// allowing is a policy that has no objection to anything: what is judged is left
// to the contract, the registry and the routing.
func allowing(t testing.TB) *policy.Bundle {
	t.Helper()
	b, problems := policy.Load([]byte(`{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2036-01-01T00:00:00Z","rules":[],"defaults":{"outcome":"ALLOW"}}`), policy.Options{})
	if b == nil {
		t.Fatal(problems)
	}
	return b
}

// judgeBy makes the gate judge by these rules and what is registered now.
func (h *harness) judgeBy(r gate.Rules) {
	h.t.Helper()
	known, err := h.Store.Registry.Snapshot(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	r.Registry = known
	if r.Policy == nil && !h.withoutPolicy {
		r.Policy = allowing(h.t)
	}
	judge, err := gate.NewJudge(r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.rules = r
	h.judge.Store(judge)
	h.settler.Rules = fixed{judge}
}

func routing(expires time.Duration, needed int) approval.Routing {
	return approval.Routing{Default: approval.Rule{Role: "reviewer", Needed: needed, ExpiresIn: engine.Duration(expires)}}
}

func newHarness(t testing.TB, r approval.Routing) *harness {
	t.Helper()
	return harnessOn(t, storetest.New(t), r)
}

// harnessOn is a harness on a database that the test has made.
func harnessOn(t testing.TB, db *storetest.Database, r approval.Routing) *harness {
	t.Helper()
	h := &harness{t: t, db: db, people: map[string]engine.Person{}}
	s, sealer := h.db.Runtime(), h.db.Sealer
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	ring, err := token.Ring{}.Add(seed)
	if err != nil {
		t.Fatal(err)
	}
	factors, err := identity.NewFactors(s, "https://console.example.com")
	if err != nil {
		t.Fatal(err)
	}
	h.settler = &gate.Settler{Store: s, Sealer: sealer, Validity: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	h.config = gate.Config{
		Store: s, Sealer: sealer, Judge: h.judge.Load, Refresh: func(context.Context) { h.judgeBy(h.rules) }, Ring: ring, Issuer: "urn:test", MaxPending: 5000, Settler: h.settler, Factors: factors,
	}
	if h.Gate, err = gate.New(h.config); err != nil {
		t.Fatal(err)
	}
	h.Admin = admin.New(admin.Config{Store: s, Refresh: func(context.Context) { h.judgeBy(h.rules) }})
	h.Log = auditlog.New(auditlog.Config{Store: s})
	h.Reports = report.Reports{Store: s, Judge: h.judge.Load, Sealer: sealer}
	h.populate()
	h.judgeBy(gate.Rules{Environment: "test", Routing: r})
	t.Cleanup(h.checkWaiting)
	return h
}

// checkWaiting: whatever a test did, what inboxes read says of each approval what the
// approval says, and has none too many.
func (h *harness) checkWaiting() {
	var wrong []string
	if err := h.db.Connect(h.db.URL).QueryRow(context.Background(), `WITH
		held AS (SELECT id, due_at, opened_at, open_to, excluded, spoken, noes, tool, agent_id, environment, risk_domain, waits_for, claimed_by, request_id, words FROM waiting_calls),
		wanted AS (SELECT id, due_at, opened_at, open_to, excluded, spoken, noes, tool, agent_id, environment, risk_domain, waits_for, claimed_by, request_id, lower(concat_ws(E'\n', tool, agent_id, environment, risk_domain))
			FROM approvals WHERE status = 'pending' AND due_at IS NOT NULL)
		SELECT array_agg(id) FROM ((TABLE held EXCEPT TABLE wanted) UNION ALL (TABLE wanted EXCEPT TABLE held)) other`).Scan(&wrong); err != nil || len(wrong) > 0 {
		h.t.Errorf("what waits is not what inboxes read: %v, %v", wrong, err)
	}
}

func (h *harness) populate() {
	for _, name := range []string{"ada", "ben", "cleo", "dina", "emil", "owner", "stranger"} {
		roles := []string{"reviewer"}
		if name == "stranger" {
			roles = []string{"other"}
		}
		h.people[name] = h.db.Person(engine.Person{Name: name, Roles: roles})
	}
	h.people["ada2"] = h.db.Person(engine.Person{Email: "ada2@example.com", Name: "ada again", Identity: h.people["ada"].Identity, Roles: []string{"reviewer"}})
	for _, a := range []string{"bot", "other-bot"} {
		h.db.Agent(a, a, h.people["owner"])
	}
	h.agent = access.Principal{KeyID: "key_agent", AgentID: "bot", Kind: access.AgentKey, MaxState: "authenticated"}
	h.runtime = access.Principal{KeyID: "key_runtime", AgentID: "bot", Kind: access.RuntimeKey, MaxState: "confirmed"}
}

func parse(t testing.TB, text string) canon.Value {
	t.Helper()
	v, err := canon.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const (
	args     = `{"amount":120,"to":"canary-argument"}`
	deferred = `{"tool_name":"pay","tool_category":"write","authorization_state":"none","evidence_refs":["x:1"],"risk_domain":"finance","proposed_arguments":` + args + `,"recommended_route":"accept"}`
	asked    = `{"tool_name":"pay","tool_category":"write","authorization_state":"authenticated","evidence_refs":["x:1"],"risk_domain":"finance","proposed_arguments":` + args + `,"recommended_route":"accept"}`
	harmless = `{"tool_name":"search_docs","tool_category":"public_read","authorization_state":"none","evidence_refs":[],"risk_domain":"research","proposed_arguments":{"query":"q"},"recommended_route":"accept"}`
	refused  = `{"tool_name":"drop","tool_category":"unknown","authorization_state":"none","evidence_refs":[],"risk_domain":"unknown","proposed_arguments":{},"recommended_route":"refuse"}`
)

// open opens an approval of its own for the call, whatever waits already.
func (h *harness) open(doc string) approval.Approval {
	h.t.Helper()
	checked, err := h.PreToolCheck(context.Background(), h.agent, parse(h.t, doc), gate.Request{Separate: true}, nil)
	if err != nil || checked.Approval == nil {
		h.t.Fatalf("open: %+v, %v", checked, err)
	}
	return *checked.Approval
}

// another is a document of the same call with other arguments: one that has been
// denied before is not asked about again.
func another(doc string) string {
	return strings.Replace(doc, `"proposed_arguments":{`, `"proposed_arguments":{"another":"`+uuid.NewString()+`",`, 1)
}

func (h *harness) vote(who string, a approval.Approval, approve bool) error {
	person := h.people[who]
	if person.VerifiedBy == "" {
		person.VerifiedBy, person.VerifiedAt = "totp", time.Now()
	}
	v := gate.VoteRequest{Person: person, ApprovalID: a.ID, Approve: approve, Digest: a.Call.Digest, Version: a.Version, Channel: "api"}
	if !approve {
		v.Denial = approval.Never
	}
	_, err := h.Contributions.Vote(context.Background(), v, nil)
	return err
}

func (h *harness) settle(id string) gate.Settlement {
	h.t.Helper()
	r, err := h.settler.Settle(context.Background(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *harness) get(id string) gate.View {
	h.t.Helper()
	v, err := h.Queries.ForAgent(context.Background(), h.agent, id)
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

func (h *harness) redeem(p access.Principal, raw, tool, arguments string) error {
	_, err := h.Redeem(context.Background(), p, gate.RedeemRequest{Token: raw, Tool: tool, Arguments: parse(h.t, arguments)}, nil)
	return err
}

// code is the stable code of a refusal; "" for no error.
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

// Events lists what was appended, whether it has its place in the log or not.
func (h *harness) Events(ctx context.Context, f store.EventFilter, limit int) ([]engine.Event, error) {
	f.Limit = limit
	return h.Store.Events.List(ctx, f)
}

func (h *harness) events(id string, kind engine.EventType) (n int) {
	h.t.Helper()
	events, err := h.Events(context.Background(), store.EventFilter{ApprovalID: id}, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == kind {
			n++
		}
	}
	return n
}

func TestDecidedAtOnceIsOneEvent(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	for doc, want := range map[string]engine.Route{harmless: engine.Accept, refused: engine.Refuse, `{"tool_name":7}`: engine.Refuse} {
		checked, err := h.PreToolCheck(context.Background(), h.agent, parse(t, doc), gate.Request{ID: "req-1"}, nil)
		if err != nil || checked.Route != want || checked.Approval != nil {
			t.Errorf("%s: %s, %v, want %s", doc, checked.Route, err, want)
		}
	}
	events, err := h.Events(context.Background(), store.EventFilter{AgentID: "bot"}, 10)
	if err != nil || len(events) != 3 {
		t.Fatalf("%d events, %v", len(events), err)
	}
}

func TestApproveRedeemReport(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	a := h.open(deferred)
	if got := h.get(a.ID); got.Token != "" || got.Approval.Status != approval.Pending {
		t.Fatalf("fresh: %+v", got)
	}
	for _, step := range []struct{ who, want string }{
		{"owner", "self_review"}, {"stranger", "not_found"}, {"ada", ""}, {"ada", "already_voted"}, {"ada2", "already_voted"},
	} {
		if got := code(h.vote(step.who, a, true)); got != step.want {
			t.Errorf("%s votes: %q, want %q", step.who, got, step.want)
		}
	}
	if r := h.settle(a.ID); r.Over {
		t.Fatal("over with one voice of two")
	}
	if got := code(h.vote("ben", a, true)); got != "" {
		t.Fatal(got)
	}
	if got := code(h.vote("cleo", a, false)); got != "already_decided" {
		t.Errorf("after the quorum: %q", got)
	}
	if r := h.settle(a.ID); !r.Over {
		t.Fatal("not over")
	}
	v := h.get(a.ID)
	if v.Approval.Status != approval.Approved || v.Token == "" {
		t.Fatalf("got %s with token %t", v.Approval.Status, v.Token != "")
	}
	other := access.Principal{KeyID: "key_o", AgentID: "other-bot", Kind: access.AgentKey}
	for _, step := range []struct {
		p                  access.Principal
		raw, tool, a, want string
	}{
		{other, v.Token, "pay", args, "not_found"},
		{h.agent, v.Token + "x", "pay", args, "token_invalid"},
		{h.agent, v.Token, "pay", `{"amount":121,"to":"canary-argument"}`, "arguments_mismatch"},
		{h.agent, v.Token, "pay2", args, "arguments_mismatch"},
		{h.agent, v.Token, "pay", `{ "to":"canary-argument", "amount":1.2e2 }`, ""},
		{h.agent, v.Token, "pay", args, "token_used"},
	} {
		if got := code(h.redeem(step.p, step.raw, step.tool, step.a)); got != step.want {
			t.Errorf("redeem %s %s: %q, want %q", step.tool, step.a, got, step.want)
		}
	}
	for _, want := range []string{"", "already_reported"} {
		_, err := h.Executed(context.Background(), h.agent, gate.ExecutionRequest{ApprovalID: a.ID, Outcome: approval.Succeeded}, nil)
		if code(err) != want {
			t.Errorf("report: %q, want %q", code(err), want)
		}
	}
	if h.get(a.ID).Token != "" {
		t.Error("a redeemed approval still gives a token")
	}
	if n := h.events(a.ID, engine.Settled); n != 1 {
		t.Errorf("%d terminal events", n)
	}
}

func TestAnswersAreTheRuntimesAlone(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	a := h.open(asked)
	for _, step := range []struct {
		p    access.Principal
		want string
	}{
		{h.agent, "agent_cannot_confirm"}, {access.Principal{KeyID: "k", AgentID: "other-bot", Kind: access.RuntimeKey}, "not_found"}, {h.runtime, ""}, {h.runtime, "already_decided"},
	} {
		_, err := h.Contributions.Answer(context.Background(), step.p, gate.AnswerRequest{ApprovalID: a.ID, Confirmed: true}, nil)
		if code(err) != step.want {
			t.Errorf("%s answers: %q, want %q", step.p.Kind, code(err), step.want)
		}
	}
	h.settle(a.ID)
	if got := h.get(a.ID); got.Approval.Status != approval.Approved || got.Token == "" {
		t.Errorf("confirmed: %s", got.Approval.Status)
	}
	b := h.open(asked)
	if _, err := h.Contributions.Answer(context.Background(), h.runtime, gate.AnswerRequest{ApprovalID: b.ID}, nil); err != nil {
		t.Fatal(err)
	}
	h.settle(b.ID)
	if got := h.get(b.ID).Approval.Status; got != approval.Denied {
		t.Errorf("declined: %s", got)
	}
	if _, err := h.Contributions.Answer(context.Background(), h.runtime, gate.AnswerRequest{ApprovalID: h.open(another(deferred)).ID, Confirmed: true}, nil); code(err) != "nothing_to_answer" {
		t.Errorf("a deferral answered: %q", code(err))
	}
}

func TestKeyCapsClaimedState(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	claims := `{"tool_name":"send_email","tool_category":"write","authorization_state":"confirmed","evidence_refs":["x:1"],"risk_domain":"customer_support","proposed_arguments":{"to":"a"},"recommended_route":"accept"}`
	for p, want := range map[*access.Principal]engine.Route{&h.agent: engine.Ask, &h.runtime: engine.Accept} {
		checked, err := h.PreToolCheck(context.Background(), *p, parse(t, claims), gate.Request{}, nil)
		if err != nil || checked.Route != want {
			t.Errorf("%s claims confirmed: %s, %v; want %s", p.Kind, checked.Route, err, want)
		}
	}
}

// Every event of the conformance set that waits could be discharged: what its
// card shows is all that its re-check finds. Nothing is approved in vain.
func TestWhatWaitsCanBeApproved(t *testing.T) {
	f, err := os.Open("../../../shared/conformance/aana.jsonl")
	if err != nil {
		f, err = os.Open("../../engine/dialect/aana/testdata/cases.jsonl")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	judge, err := gate.NewJudge(gate.Rules{Environment: "test", Routing: routing(time.Hour, 1), Policy: allowing(t)})
	if err != nil {
		t.Fatal(err)
	}
	judge.Registry.Agents = map[string]registry.Agent{"bot": {ID: "bot"}}
	p := access.Principal{KeyID: "k", AgentID: "bot", Kind: access.RuntimeKey, MaxState: "confirmed"}
	now, waiting := time.Now(), 0
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var c struct {
			ID    string
			Input json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		doc, err := canon.Parse(c.Input)
		if err != nil {
			continue
		}
		proposal, j := gate.JudgeEvent(judge, p, doc, now)
		if !j.Route.Waits() {
			continue
		}
		waiting++
		a := approval.Approval{ID: "apr_abc", Call: proposal.Call}
		again, err := judge.Recheck(a, doc.Canonical(), now)
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		if left := engine.Undischarged(j.Findings, j.Requirements, again); len(left) > 0 {
			t.Errorf("%s waits as %s for %v, and then %v is in the way", c.ID, j.Route, j.Requirements, left)
		}
	}
	if waiting < 20 {
		t.Fatalf("only %d cases wait", waiting)
	}
}

// A rule that is new since the approval opened is not overridden by it.
func TestApprovalIsNotTheLastWord(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	a := h.open(deferred)
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	h.settler.Rules = stricter{fixed{h.judge.Load()}}
	h.settle(a.ID)
	got := h.get(a.ID)
	if got.Approval.Status != approval.Denied || got.Approval.Reasons[0].Code != "policy_changed" || got.Token != "" {
		t.Errorf("got %s %v", got.Approval.Status, got.Approval.Reasons)
	}
	if _, denied := got.Approval.Denial(); denied {
		t.Error("a person is said to have denied it")
	}
}

// What cannot be judged again is over all the same, and it is a no.
func TestWhatCannotBeJudgedAgainIsDenied(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	a := h.open(deferred)
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	h.settler.Rules = broken{fixed{h.judge.Load()}}
	if !h.settle(a.ID).Over {
		t.Fatal("not over")
	}
	if got := h.get(a.ID); got.Approval.Status != approval.Denied || got.Approval.Reasons[0].Code != "recheck_failed" || got.Token != "" {
		t.Errorf("got %s %v", got.Approval.Status, got.Approval.Reasons)
	}
}

// fixed are rules that nobody changes.
type fixed struct{ *gate.Judge }

func (fixed) Behind(store.RulesInForce) bool { return false }

func (fixed) CatchUp(context.Context) error { return nil }

type broken struct{ fixed }

func (broken) Recheck(approval.Approval, []byte, time.Time) (engine.Decision, error) {
	return engine.Decision{}, errors.New("the document is not the call that was approved")
}

type stricter struct{ fixed }

func (s stricter) Recheck(a approval.Approval, doc []byte, now time.Time) (engine.Decision, error) {
	d, err := s.Judge.Recheck(a, doc, now)
	d.Findings = append(d.Findings, engine.Finding{Source: "policy", Code: "new_rule", Message: "New.", Route: engine.Refuse})
	return d, err
}

func TestPendingIsBounded(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	h.MaxPending = 2
	h.open(deferred)
	h.open(deferred)
	_, err := h.PreToolCheck(context.Background(), h.agent, parse(t, another(deferred)), gate.Request{}, nil)
	var r *access.Refusal
	if !errors.As(err, &r) || r.Code != "too_many_pending" || r.RetryAfter == 0 {
		t.Errorf("got %v", err)
	}
	if _, err := h.PreToolCheck(context.Background(), h.agent, parse(t, harmless), gate.Request{}, nil); err != nil {
		t.Errorf("a harmless call: %v", err)
	}
}

func TestLongArgumentsMustHaveBeenShown(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	long := `{"note":"` + strings.Repeat("x", 5000) + `"}`
	a := h.open(strings.Replace(deferred, args, long, 1))
	ctx := context.Background()
	if got := code(h.vote("stranger", a, true)); got != "not_found" {
		t.Errorf("a stranger: %q", got)
	}
	if got := code(h.vote("ada", a, true)); got != "arguments_not_shown" {
		t.Errorf("unseen: %q", got)
	}
	if _, err := h.Queries.Card(ctx, h.people["ada"], a.ID, gate.Excerpt); err != nil {
		t.Fatal(err)
	}
	if got := code(h.vote("ada", a, true)); got != "arguments_not_shown" {
		t.Errorf("seen in part: %q", got)
	}
	card, err := h.Queries.Card(ctx, h.people["ada"], a.ID, gate.Full)
	if err != nil || !card.Shown || string(card.Arguments) != long {
		t.Fatalf("shown %t: %s, %v", card.Shown, card.Arguments, err)
	}
	if got := code(h.vote("ben", a, true)); got != "arguments_not_shown" {
		t.Errorf("seen by somebody else: %q", got)
	}
	if got := code(h.vote("ada", a, true)); got != "" {
		t.Errorf("seen: %q", got)
	}
}

// A vote of somebody who is disabled before the quorum is complete does not count.
func TestDisabledBetweenVoteAndQuorum(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	a := h.open(deferred)
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	h.db.Disable(h.people["ada"].ID, storetest.Event())
	if err := h.vote("ben", a, true); err != nil {
		t.Fatal(err)
	}
	if r := h.settle(a.ID); r.Over {
		t.Fatal("approved with a void vote")
	}
	if err := h.vote("cleo", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	if got := h.get(a.ID).Approval.Status; got != approval.Approved {
		t.Errorf("with two good ones: %s", got)
	}
}

// Two different requests under one Idempotency-Key at the same moment: one of
// them leaves its event and, if it waits, its approval; the other leaves nothing.
// What a caller writes for an id is neither looked up nor put on record.
// The person on whose behalf a call is made does not decide on it, however the
// document spells the person.
// Who claims more authority does not get fewer people to convince.
func TestClaimsDoNotLowerTheQuorum(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	for _, doc := range []string{deferred, asked} {
		a := h.open(doc)
		if _, err := h.Contributions.Answer(context.Background(), h.runtime, gate.AnswerRequest{ApprovalID: a.ID, Confirmed: true}, nil); code(err) != "nothing_to_answer" {
			t.Errorf("the runtime alone: %q", code(err))
		}
		if err := h.vote("ada", a, true); err != nil {
			t.Fatal(err)
		}
		if h.settle(a.ID).Over {
			t.Error("one person was enough where two are asked for")
		}
	}
}

// An answer that is no longer kept leaves its key as good as new.
