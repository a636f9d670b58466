package gate_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

var operator = access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "operator", Channel: "cli"}}

func TestKillSwitch(t *testing.T) {
	h := newPolicyHarness(t)
	ctx := context.Background()
	waiting, decided, approved := *h.check(params("pay", "")).Approval, *h.check(params("pay", "")).Approval, *h.check(params("pay", "")).Approval
	for _, a := range []approval.Approval{decided, approved} {
		for _, who := range []string{"ada", "ben"} {
			if err := h.vote(who, a, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.settle(approved.ID)
	token := h.get(approved.ID).Token
	if err := h.Registry.ThrowKillSwitch(ctx, operator, "bot", "it went mad", nil); err != nil {
		t.Fatal(err)
	}
	got := h.check(params("read_mail", ""))
	if got.Allowed || got.Event.Outcome != engine.KillSwitch || got.Event.PluginSource != "kill_switch" || !slices.Equal(reasons(got.Event.Reasons), []string{registry.AgentKill}) {
		t.Errorf("a killed agent's call: %+v", got)
	}
	if got := code(h.vote("ada", waiting, true)); got != "kill_switch" {
		t.Errorf("approving: %q", got)
	}
	if got := code(h.redeem(h.agent, token, "pay", args)); got != "kill_switch" {
		t.Errorf("redeeming: %q", got)
	}
	h.settle(decided.ID)
	if got := h.get(decided.ID); got.Approval.Status != approval.Denied || got.Approval.Reasons[0].Code != registry.AgentKill {
		t.Errorf("settling what was approved before: %s %v", got.Approval.Status, got.Approval.Reasons)
	}
	// Another agent goes on, until all are stopped.
	other := access.Principal{KeyID: "key_other", AgentID: "other-bot", Kind: access.AgentKey, MaxState: "authenticated"}
	checked, _, err := h.CheckToolCall(ctx, other, parse(t, params("read_mail", "")), gate.Request{}, nil)
	if err != nil || !checked.Allowed {
		t.Errorf("another agent: %+v %v", checked.Decision, err)
	}
	if err := h.Registry.ThrowKillSwitch(ctx, operator, "", "", nil); err != nil {
		t.Fatal(err)
	}
	if checked, _, err = h.CheckToolCall(ctx, other, parse(t, params("read_mail", "")), gate.Request{}, nil); err != nil || checked.Allowed || reasons(checked.Event.Reasons)[0] != registry.GlobalKill {
		t.Errorf("another agent, when all are stopped: %+v %v", checked.Event, err)
	}
	if got := code(h.Registry.ThrowKillSwitch(ctx, operator, "bot", "", nil)); got != "already_on" {
		t.Errorf("thrown twice: %q", got)
	}
	if got := code(h.Registry.ThrowKillSwitch(ctx, operator, "nobody", "", nil)); got != "not_found" {
		t.Errorf("an agent that there is not: %q", got)
	}
	for _, agent := range []string{"", "bot"} {
		if err := h.Registry.ReleaseKillSwitch(ctx, operator, agent, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := code(h.Registry.ReleaseKillSwitch(ctx, operator, "bot", nil)); got != "not_on" {
		t.Errorf("released twice: %q", got)
	}
	if err := h.redeem(h.agent, token, "pay", args); err != nil {
		t.Errorf("redeeming once it is released: %v", err)
	}
}

// An answer from before the switch is no permission after it.
func TestRepetitionsGrantNothingToTheStopped(t *testing.T) {
	h := newPolicyHarness(t)
	ctx := context.Background()
	canary := access.Reply{Status: 200, Body: []byte("canary-reply")}
	var kept *access.Replay
	check := func() error {
		_, _, err := h.CheckToolCall(ctx, h.agent, parse(t, params("read_mail", "")), gate.Request{}, answered[gate.CheckedAction]("check", canary))
		return err
	}
	ask := func() error {
		_, err := h.AskContract(ctx, h.agent, gate.ContractQuestion{Method: gate.InterceptResponse, Tool: "x", Payload: parse(t, `{}`)}, "", answered[any]("ask", canary))
		return err
	}
	a := *h.check(params("pay", "")).Approval
	for _, who := range []string{"ada", "ben"} {
		if err := h.vote(who, a, true); err != nil {
			t.Fatal(err)
		}
	}
	h.settle(a.ID)
	token := h.get(a.ID).Token
	redeem := func() error {
		_, err := h.Redeem(ctx, h.agent, gate.RedeemRequest{Token: token, Tool: "pay", Arguments: parse(t, args)}, answered[gate.Redemption]("redeem", canary))
		return err
	}
	for name, do := range map[string]func() error{"check": check, "ask": ask, "redeem": redeem} {
		if err := do(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := do(); !errors.As(err, &kept) || string(kept.Reply.Body) != "canary-reply" {
			t.Errorf("%s again: %v", name, err)
		}
	}
	throw := func() error {
		return h.Registry.ThrowKillSwitch(ctx, operator, "bot", "", answered[access.Done]("throw", canary))
	}
	if err := throw(); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{"check": check, "ask": ask, "redeem": redeem} {
		if err := do(); code(err) != "kill_switch" {
			t.Errorf("%s again, stopped: %v", name, err)
		}
	}
	if err := throw(); !errors.As(err, &kept) {
		t.Errorf("thrown again: %v", err)
	}
	if err := h.Registry.ReleaseKillSwitch(ctx, operator, "bot", nil); err != nil {
		t.Fatal(err)
	}
	if err := throw(); code(err) != "released_since" {
		t.Errorf("thrown again when it is released: %v", err)
	}
	if err := check(); !errors.As(err, &kept) {
		t.Errorf("check again, released: %v", err)
	}
	// What is kept is kept sealed.
	conn := h.db.Connect(h.db.URL)
	var plain int
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM idempotency WHERE position('canary'::bytea IN body) > 0 OR body_key IS NULL`).Scan(&plain); err != nil || plain > 0 {
		t.Errorf("%d answers are kept in plain text, %v", plain, err)
	}
}

// A repetition costs a limit nothing.
func TestRepetitionsDoNotCount(t *testing.T) {
	h := newPolicyHarness(t)
	if err := h.Registry.PutSettings(context.Background(), operator, registry.Settings{Limits: registry.Limits{Agent: registry.Rate{Calls: 1, Per: engine.Duration(time.Hour)}}}, nil); err != nil {
		t.Fatal(err)
	}
	once := answered[gate.CheckedAction]("k", access.Reply{Status: 200})
	var kept *access.Replay
	for i := range 3 {
		_, _, err := h.CheckToolCall(context.Background(), h.agent, parse(t, params("read_mail", "")), gate.Request{}, once)
		if i == 0 && err != nil || i > 0 && !errors.As(err, &kept) {
			t.Errorf("try %d: %v", i, err)
		}
	}
	if _, err := h.AskContract(context.Background(), h.agent, gate.ContractQuestion{Method: gate.InterceptResponse, Tool: "x", Payload: parse(t, `{}`)}, "", nil); code(err) != "RATE_LIMIT_AGENT" {
		t.Errorf("contracts are no way around a limit: %v", err)
	}
	if _, _, err := h.RequestTool(context.Background(), h.agent, []byte("no document"), gate.Request{}, nil); code(err) != "RATE_LIMIT_AGENT" {
		t.Errorf("nor are documents: %v", err)
	}
}

// A process that has not heard of the switch grants nothing all the same: the
// database itself refuses the grant.
func TestKillSwitchReachesAGateThatHasNotHeard(t *testing.T) {
	h := newPolicyHarness(t)
	deaf := h.judge.Load()
	if err := h.Registry.ThrowKillSwitch(context.Background(), operator, "bot", "", nil); err != nil {
		t.Fatal(err)
	}
	h.Judge = func() *gate.Judge { return deaf }
	for _, tool := range []string{"read_mail", "pay"} {
		if got := h.check(params(tool, "")); got.Allowed || got.Approval != nil || got.Event.Outcome != engine.KillSwitch {
			t.Errorf("%s: %+v", tool, got)
		}
	}
	if _, err := h.AskContract(context.Background(), h.agent, gate.ContractQuestion{Method: gate.InterceptResponse, Tool: "x", Payload: parse(t, `{}`)}, "", nil); code(err) != "kill_switch" {
		t.Errorf("asking a contract: %v", err)
	}
}

// meanwhile are rules by which something else happens while a call is judged again.
type meanwhile struct {
	gate.CurrentRules
	do func()
}

func (m meanwhile) Recheck(a approval.Approval, document []byte, now time.Time) (engine.Decision, error) {
	m.do()
	return m.CurrentRules.Recheck(a, document, now)
}

// A switch that is activated while an approved call is judged again ends it: settling it does not fail, and the
// switch is seen whatever isolation the database is set to.
func TestSwitchIsActivatedWhileSettling(t *testing.T) {
	ctx := context.Background()
	db := storetest.New(t)
	db.Exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = "repeatable read"', current_database()); END $$`)
	h := harnessOn(t, db, routing(time.Hour, 1))
	h.rules.Policy = bundle(t, bundleText)
	h.judgeBy(h.rules)
	a := *h.check(params("pay", "")).Approval
	for _, who := range []string{"ada", "ben"} {
		if err := h.vote(who, a, true); err != nil {
			t.Fatal(err)
		}
	}
	settler := *h.settler
	settler.Rules = meanwhile{h.settler.Rules, sync.OnceFunc(func() {
		if err := h.Registry.ThrowKillSwitch(ctx, operator, "bot", "it went mad", nil); err != nil {
			t.Error(err)
		}
	})}
	if s, err := settler.Settle(ctx, a.ID); err != nil || !s.Over {
		t.Fatalf("settling: %+v, %v", s, err)
	}
	if got := h.get(a.ID); got.Token != "" || got.Approval.Status != approval.Denied || got.Approval.Reasons[0].Code != registry.AgentKill {
		t.Errorf("it ended %s %v", got.Approval.Status, got.Approval.Reasons)
	}
}

// Nothing is granted once a switch was acknowledged, however many calls are
// under way when it is thrown.
func TestNothingIsGrantedAfterTheSwitch(t *testing.T) {
	h := newPolicyHarness(t)
	deaf := h.judge.Load()
	h.Judge = func() *gate.Judge { return deaf }
	for range 20 {
		var mu sync.Mutex
		var granted []time.Time
		stop, fns := make(chan struct{}), []func(){}
		for range 8 {
			fns = append(fns, func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					checked, _, err := h.CheckToolCall(context.Background(), h.agent, parse(t, params("read_mail", "")), gate.Request{}, nil)
					if err != nil {
						t.Error(err)
						return
					}
					if checked.Allowed {
						mu.Lock()
						granted = append(granted, checked.Event.Timestamp)
						mu.Unlock()
					}
				}
			})
		}
		var acknowledged time.Time
		fns = append(fns, func() {
			time.Sleep(5 * time.Millisecond)
			if err := h.Registry.ThrowKillSwitch(context.Background(), operator, "bot", "", nil); err != nil {
				t.Error(err)
			}
			acknowledged, _ = h.Store.Now(context.Background())
			time.Sleep(5 * time.Millisecond)
			close(stop)
		})
		race(fns...)
		for _, at := range granted {
			if at.After(acknowledged) {
				t.Fatalf("granted at %s, acknowledged at %s", at, acknowledged)
			}
		}
		if err := h.Registry.ReleaseKillSwitch(context.Background(), operator, "bot", nil); err != nil {
			t.Fatal(err)
		}
	}
}

// While nobody can tell whether a switch is on, everything is refused.
func TestUnreadableKillSwitchRefuses(t *testing.T) {
	h := newPolicyHarness(t)
	h.db.Exec(`ALTER TABLE kill_switches RENAME TO hidden`)
	_, _, err := h.CheckToolCall(context.Background(), h.agent, parse(t, params("read_mail", "")), gate.Request{}, nil)
	if !access.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
	if _, err := h.PreToolCheck(context.Background(), h.agent, parse(t, refused), gate.Request{}, nil); !access.IsUnavailable(err) {
		t.Errorf("a refusal: %v", err)
	}
	h.db.Exec(`ALTER TABLE hidden RENAME TO kill_switches`)
	if got := h.check(params("read_mail", "")); !got.Allowed {
		t.Errorf("readable again: %+v", got.Decision)
	}
}

func TestRateLimits(t *testing.T) {
	h := newPolicyHarness(t)
	ctx := context.Background()
	minute := engine.Duration(time.Minute)
	limit := func(l registry.Limits) {
		t.Helper()
		if err := h.Registry.PutSettings(ctx, operator, registry.Settings{MaxDelegation: 5, Limits: l}, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(registry.Limits{Agent: registry.Rate{Calls: 4, Per: minute}, Tool: registry.Rate{Calls: 2, Per: minute}})
	try := func(tool string) string {
		_, _, err := h.CheckToolCall(ctx, h.agent, parse(t, params(tool, "")), gate.Request{}, nil)
		var r *access.Refusal
		if errors.As(err, &r) && (r.Kind != access.RateLimited || r.RetryAfter < time.Second || r.RetryAfter > 62*time.Second) {
			t.Errorf("%s: %+v", tool, r)
		}
		return code(err)
	}
	var got []string
	for _, tool := range []string{"read_a", "read_a", "read_a", "denied", "read_b", "read_b", "read_c"} {
		got = append(got, try(tool))
	}
	// A call that the policy denies has counted; one that was turned away has not.
	want := []string{"", "", "RATE_LIMIT_TOOL", "", "", "RATE_LIMIT_AGENT", "RATE_LIMIT_AGENT"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	events, err := h.Events(ctx, store.EventFilter{Outcome: string(engine.RateLimited)}, 10)
	if err != nil || len(events) != 3 || events[0].PluginSource != "rate_limiter" || events[0].Reasons[0].Code != "RATE_LIMIT_TOOL" {
		t.Errorf("%d events %v, %v", len(events), events, err)
	}
	limit(registry.Limits{Session: registry.Rate{Calls: 2}})
	for i, want := range []bool{true, true, false} {
		if got := h.check(params("read_a", `,"sessionId":"one"`)); got.Allowed != want {
			t.Errorf("call %d of a session: %+v", i, got.Decision)
		}
	}
	if got := h.check(params("read_a", `,"sessionId":"two"`)); !got.Allowed {
		t.Errorf("another session: %+v", got.Decision)
	}
	limit(registry.Limits{Agent: registry.Rate{Calls: 1, Per: minute / 2}})
	if got := []string{try("read_a"), try("read_a")}; !slices.Equal(got, []string{"", "RATE_LIMIT_AGENT"}) {
		t.Errorf("in one window: %q", got)
	}
	h.db.Exec(`UPDATE rate_calls SET slot = slot - 65`) // a window is 64 of them
	if got := try("read_a"); got != "" {
		t.Errorf("in the next: %q", got)
	}
}

// However many calls come at once, through however many gates, no more than the
// limit are let through.
func TestRateLimitIsExact(t *testing.T) {
	h := newPolicyHarness(t)
	if err := h.Registry.PutSettings(context.Background(), operator, registry.Settings{Limits: registry.Limits{Agent: registry.Rate{Calls: 7, Per: engine.Duration(time.Hour)}}}, nil); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	let := 0
	var fns []func()
	for range 40 {
		fns = append(fns, func() {
			if _, _, err := h.CheckToolCall(context.Background(), h.agent, parse(t, params("read_a", "")), gate.Request{}, nil); err == nil {
				mu.Lock()
				let++
				mu.Unlock()
			}
		})
	}
	race(fns...)
	if let != 7 {
		t.Errorf("%d calls were let through", let)
	}
}

// A veto that fails or panics lets nothing through.
func TestFailingVetoRefuses(t *testing.T) {
	h := newPolicyHarness(t)
	if err := h.Registry.PutSettings(context.Background(), operator, registry.Settings{Limits: registry.Limits{Agent: registry.Rate{Calls: 9, Per: engine.Duration(time.Hour)}}}, nil); err != nil {
		t.Fatal(err)
	}
	h.db.Exec(`ALTER TABLE rate_calls ADD CONSTRAINT nothing CHECK (calls < 0)`)
	got := h.check(params("read_mail", ""))
	if got.Allowed || got.Event.Outcome != engine.Deny || got.Event.PluginSource != "rate_limiter" || !slices.Equal(reasons(got.Event.Reasons), []string{"PLUGIN_ERROR"}) {
		t.Errorf("a limiter that fails: %s by %q: %v", got.Event.Outcome, got.Event.PluginSource, got.Event.Reasons)
	}
	// A judge without a registry: reading its kill switches panics.
	h.judge.Store(&gate.Judge{Rules: gate.Rules{Environment: "test"}})
	_, err := h.AskContract(context.Background(), h.agent, gate.ContractQuestion{Method: gate.InterceptResponse, Tool: "x", Payload: parse(t, `{}`)}, "", nil)
	events, failed := h.Events(context.Background(), store.EventFilter{Outcome: string(engine.Deny)}, 10)
	if failed != nil || code(err) != "PLUGIN_ERROR" || len(events) != 2 || events[1].PluginSource != "kill_switch" {
		t.Errorf("a kill switch that panics: %q; %+v %v", code(err), events, failed)
	}
}

// The kill switch is asked first: what it stops counts for no limit.
func TestKillSwitchComesBeforeTheLimiter(t *testing.T) {
	h := newPolicyHarness(t)
	ctx := context.Background()
	if err := h.Registry.PutSettings(ctx, operator, registry.Settings{Limits: registry.Limits{Agent: registry.Rate{Calls: 1, Per: engine.Duration(time.Hour)}}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Registry.ThrowKillSwitch(ctx, operator, "bot", "", nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := h.check(params("read_mail", "")); got.Event.PluginSource != "kill_switch" {
			t.Errorf("stopped: %s by %q", got.Event.Outcome, got.Event.PluginSource)
		}
	}
	if err := h.Registry.ReleaseKillSwitch(ctx, operator, "bot", nil); err != nil {
		t.Fatal(err)
	}
	if got := h.check(params("read_mail", "")); !got.Allowed {
		t.Errorf("released: %s by %q", got.Event.Outcome, got.Event.PluginSource)
	}
}
