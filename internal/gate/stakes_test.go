package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/registry"
	"holdpoint/engine/stakes"
	"holdpoint/internal/gate"
)

// callOf is a call of the tool with the arguments.
func callOf(tool, arguments string) string {
	return strings.Replace(strings.Replace(deferred, args, arguments, 1), `"tool_name":"pay"`, `"tool_name":"`+tool+`"`, 1)
}

// The template that was registered when the call was proposed says what it does, and
// goes on doing so whatever is registered later; the log has it, and none of the arguments.
func TestStakesAreThoseOfTheOpening(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	register := func(template string) {
		t.Helper()
		if err := h.Registry.RegisterTool(t.Context(), operator, registry.Tool{Name: "pay", Stakes: template}, nil); err != nil {
			t.Fatal(err)
		}
	}
	said := func(a approval.Approval) string { return h.card("ada", a.ID).Stakes.Sentence.String() }
	plain := h.open(callOf("pay", `{"amount":"5.10","currency":"EUR","to":"Ann"}`))
	register("Give {*to} {amount|money:currency}")
	written := h.open(callOf("pay", `{"amount":"5.10","currency":"EUR","to":"Ann"}`))
	register("Nothing to see, {to}")
	if got, want := said(plain), "Pay 5.10 EUR to “Ann”"; got != want {
		t.Errorf("without a template: %s, want %s", got, want)
	}
	if got, want := said(written), "Give “Ann” 5.10 EUR"; got != want {
		t.Errorf("by its template: %s, want %s", got, want)
	}
	if from := h.card("ada", written.ID).Stakes.From; from != "the tool’s registration" {
		t.Errorf("it is from %q", from)
	}
	var payload struct{ Asked approval.EditionPayload }
	for _, e := range h.about(written.ID) {
		if e.Type != engine.Decided {
			continue
		}
		if err := json.Unmarshal(e.SafePayload, &payload); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(e.SafePayload), "Ann") {
			t.Errorf("the event tells an argument: %s", e.SafePayload)
		}
	}
	if s := payload.Asked.Terms.Stakes; s == nil || s.Template != "Give {*to} {amount|money:currency}" {
		t.Errorf("the log says %+v", s)
	}
	// Changed arguments are another call: it is told by what is registered then.
	after, err := h.edit("ada", written, `{"amount":"4","currency":"EUR","to":"Bob"}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := h.card("ben", after.ID).Stakes.Sentence.String(), "Nothing to see, “Bob”"; got != want {
		t.Errorf("edited: %s, want %s", got, want)
	}
	if err := h.Registry.RegisterTool(t.Context(), operator, registry.Tool{Name: "pay", Stakes: "Pay {"}, nil); code(err) != "invalid_body" {
		t.Errorf("a template that is none: %v", err)
	}
}

// A rule's template comes before the registered one.
func TestStakesOfARule(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	h.rules.Policy = bundle(t, `{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2036-01-01T00:00:00Z","defaults":{"outcome":"ALLOW"},"rules":[
		{"id":"large","description":"d","match":{"tool_name":"pay","environment":"*"},"when":{"tool_args_match":{"amount":{"gt":100}}},"outcome":"REQUIRE_APPROVAL","stakes":"[high] Pay a lot: {amount}"}]}`)
	if err := h.Registry.RegisterTool(t.Context(), operator, registry.Tool{Name: "pay", Stakes: "Pay {amount}"}, nil); err != nil {
		t.Fatal(err)
	}
	h.judgeBy(h.rules)
	for amount, want := range map[int]string{120: "Pay a lot: 120, high, policy rule large", 20: "Pay 20, , the tool’s registration"} {
		s := h.card("ada", h.open(callOf("pay", fmt.Sprintf(`{"amount":%d}`, amount))).ID).Stakes
		if got := s.Sentence.String() + ", " + s.Sentence.Danger.String() + ", " + s.From; got != want {
			t.Errorf("%d: %s, want %s", amount, got, want)
		}
	}
}

// A card says who is named for the first time, and how the last calls of its agent and
// tool were decided; other agents' calls and other tools' do not count there.
func TestFirstTimeAndAlike(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	end := func(yes bool, doc string) {
		t.Helper()
		a := h.decided(doc)
		if err := h.vote("ada", a, yes); err != nil {
			t.Fatal(err)
		}
		h.settle(a.ID)
	}
	arguments := func(n int, to string) string { return fmt.Sprintf(`{"amount":%d,"to":%q}`, n, to) }
	card := func(doc string) gate.Card { return h.card("ben", h.open(doc).ID) }
	if c := card(callOf("pay", arguments(1, "Ann"))); c.FirstTime != nil || c.Alike != (gate.DecisionCounts{}) {
		t.Errorf("the first call of all: %v, %+v", c.FirstTime, c.Alike)
	}
	end(true, callOf("pay", arguments(2, "Ann")))
	end(true, callOf("pay", arguments(3, "Ann")))
	end(false, callOf("pay", arguments(4, "Eve")))
	end(true, callOf("charge", arguments(5, "Eve")))
	if c := card(callOf("pay", arguments(6, "Ann"))); c.FirstTime != nil || c.Alike != (gate.DecisionCounts{Approved: 2, Denied: 1}) {
		t.Errorf("a known payee: %v, %+v", c.FirstTime, c.Alike)
	}
	if c := card(callOf("pay", arguments(7, "Eve"))); !slices.Equal(c.FirstTime, []string{"to"}) || c.Compared != 2 {
		t.Errorf("a payee whom nobody has approved: %v of %d", c.FirstTime, c.Compared)
	}
	other := h.agent
	other.KeyID, other.AgentID = "key_other", "other-bot"
	a, _ := h.propose(other, callOf("pay", arguments(8, "Ann")), gate.Request{})
	if c := h.card("ben", a.ID); c.FirstTime != nil || c.Alike != (gate.DecisionCounts{}) {
		t.Errorf("another agent's: %v, %+v", c.FirstTime, c.Alike)
	}
}

// A card and a row say that the very same call was approved before, and what became of it,
// and what it is compared with is that call. A denied one, and another agent's, are not meant.
func TestSameCallBefore(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ended := func(yes bool, doc string) approval.Approval {
		t.Helper()
		a := h.decided(doc)
		if err := h.vote("ada", a, yes); err != nil {
			t.Fatal(err)
		}
		h.settle(a.ID)
		return a
	}
	pay := callOf("pay", `{"amount":40,"to":"Ann"}`)
	ended(false, callOf("pay", `{"amount":41,"to":"Ann"}`))
	first := ended(true, pay)
	ended(true, callOf("pay", `{"amount":49,"to":"Ann"}`))
	again := h.open(pay)
	c := h.card("ben", again.ID)
	if c.Same == nil || c.Same.ID != first.ID || c.Same.Execution != approval.NotRun || c.Same.At.IsZero() {
		t.Fatalf("the same call: %+v", c.Same)
	}
	if c.LastAlike == nil || c.LastAlike.ID != first.ID {
		t.Errorf("it is compared with %+v", c.LastAlike)
	}
	told, err := h.Queries.Stakes(t.Context(), []approval.Approval{again})
	if err != nil || told[again.ID].Same == nil || told[again.ID].Same.ID != first.ID {
		t.Errorf("its row: %+v, %v", told[again.ID].Same, err)
	}
	if c := h.card("ben", first.ID); c.Same != nil {
		t.Errorf("one that is over: %+v", c.Same)
	}
	other := h.agent
	other.KeyID, other.AgentID = "key_other", "other-bot"
	a, _ := h.propose(other, pay, gate.Request{})
	for what, id := range map[string]string{"another agent's": a.ID, "another sum": h.open(callOf("pay", `{"amount":42,"to":"Ann"}`)).ID} {
		if c := h.card("ben", id); c.Same != nil {
			t.Errorf("%s: %+v", what, c.Same)
		}
	}
}

// The environment that a call names is told, whatever the gate's own is.
func TestNamedEnvironment(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	for arguments, want := range map[string]string{
		`{"service":"x"}`:                             "",
		`{"service":"x","env":"test"}`:                "",
		`{"service":"x","env":"test","stage":"prod"}`: "test, prod",
		`{"service":"x","env":" \n"}`:                 "",
		`{"service":"x","env":"` + strings.Repeat("é", 40) + `","stage":"` + strings.Repeat("x", 13000) + `"}`: strings.Repeat("é", 40) + ", " + strings.Repeat("x", 40) + "…",
		`{"service":"x","env":"prod\nAKIAQYLPMN5HHHFPZAM2"}`:                                                   "prod ↵ •••",
		`{"service":"x","environment":"prod"}`:                                                                 "prod",
		`{"service":"x","env":"prod","stage":"eu"}`:                                                            "prod, eu",
		`{"service":"x","env":"prod","stage":"prod"}`:                                                          "prod",
		`{"service":"x","env":{"name":"prod"},"n":[1]}`:                                                        "",
	} {
		c := h.card("ada", h.open(callOf("deploy", arguments)).ID)
		if c.Stakes.Environment != want || c.Approval.Call.Environment != "test" {
			t.Errorf("%s: %q, judged for %q, want %q", arguments, c.Stakes.Environment, c.Approval.Call.Environment, want)
		}
	}
	h.rules.Policy = bundle(t, `{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2036-01-01T00:00:00Z","defaults":{"outcome":"REQUIRE_APPROVAL"},"rules":[]}`)
	h.judgeBy(h.rules)
	checked := h.check(params("deploy", `,"environment":"production"`))
	if got := h.card("ada", checked.Approval.ID).Stakes.Environment; got != "production" {
		t.Errorf("the document names %q", got)
	}
}

// A list tells what its calls do, and leaves out those with long arguments.
func TestStakesOfAList(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	short, long := h.open(callOf("pay", `{"amount":5,"to":"Ann"}`)), h.open(callOf("pay", `{"amount":5,"to":"`+strings.Repeat("x", 17<<10)+`"}`))
	gone := h.decided(callOf("pay", `{"amount":6,"to":"Ann"}`))
	if err := h.vote("ada", gone, false); err != nil {
		t.Fatal(err)
	}
	h.settle(gone.ID)
	told, err := h.Queries.Stakes(ctx, []approval.Approval{short, long, gone})
	if err != nil {
		t.Fatal(err)
	}
	if got := told[short.ID].Sentence.String(); got != "Pay 5 [currency is missing] to “Ann”" || len(told) != 3 {
		t.Errorf("%q, and %d are told", got, len(told))
	}
	if s := told[long.ID]; len(s.Sentence.Parts) > 0 || s.Unreadable || s.Alike != (gate.DecisionCounts{Denied: 1}) {
		t.Errorf("a long one: %+v", s)
	}
	if s := told[gone.ID].Sentence; s.Origin != stakes.BuiltIn {
		t.Errorf("an ended one: %s", s)
	}
	if none, err := h.Queries.Stakes(ctx, nil); err != nil || len(none) != 0 {
		t.Errorf("of nothing: %v, %v", none, err)
	}
}

// A document that cannot be read is said to be, on record for whoever runs this, and
// takes the sentence of no other call away.
func TestStakesOfWhatCannotBeRead(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	good, bad := h.open(callOf("pay", `{"amount":5,"to":"Ann"}`)), h.open(callOf("pay", `{"amount":6,"to":"Bob"}`))
	h.db.Exec(`ALTER TABLE approvals DISABLE TRIGGER approvals_guard`)
	h.db.Exec(`UPDATE approvals SET sealed = b.sealed FROM approvals b WHERE b.id = $1 AND approvals.id = $2`, good.ID, bad.ID)
	var lines bytes.Buffer
	h.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	told, err := h.Queries.Stakes(t.Context(), []approval.Approval{bad, good})
	if err != nil {
		t.Fatal(err)
	}
	if s := told[good.ID]; s.Sentence.String() != "Pay 5 [currency is missing] to “Ann”" || s.Unreadable {
		t.Errorf("the readable one: %+v", s)
	}
	if s := told[bad.ID]; len(s.Sentence.Parts) > 0 || !s.Unreadable {
		t.Errorf("the other one: %+v", s)
	}
	if !strings.Contains(lines.String(), "level=ERROR") || !strings.Contains(lines.String(), bad.ID) || strings.Contains(lines.String(), good.ID) {
		t.Errorf("logged: %s", lines.String())
	}
}

// What a page of the inbox takes to say what its rows do.
func BenchmarkStakesOfAPage(b *testing.B) {
	h := newHarness(b, routing(time.Hour, 1))
	var page []approval.Approval
	for n := range 50 {
		page = append(page, h.open(callOf("send_payment", fmt.Sprintf(`{"amount":"%d.50","currency":"EUR","to":"Paper & Pens Ltd.","iban":"DE02120300000000202051","reference":%q}`, n, strings.Repeat("Invoice 2026 ", 40)))))
	}
	for b.Loop() {
		told, err := h.Queries.Stakes(b.Context(), page)
		if err != nil || len(told) != len(page) {
			b.Fatalf("%d are told: %v", len(told), err)
		}
	}
}

// TestUnusualRows: a list says of what waits whom it names for the first time, and that its
// amount is larger than those that were approved before; and how those before were decided,
// nothing of it told but numbers.
func TestUnusualRows(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	pay := func(amount, to string) approval.Approval {
		return h.open(callOf("send_payment", `{"amount":"`+amount+`","currency":"EUR","to":"`+to+`"}`))
	}
	rows := func(list ...approval.Approval) []gate.Stakes {
		t.Helper()
		told, err := h.Queries.Stakes(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		var all []gate.Stakes
		for _, a := range list {
			all = append(all, told[a.ID])
		}
		return all
	}
	if s := rows(pay("1.00", "Ann"))[0]; len(s.FirstTime) > 0 || s.Larger {
		t.Errorf("nothing was approved before: %+v", s)
	}
	for _, amount := range []string{"40.00", "49.00", "45.00"} {
		a := pay(amount, "Ann")
		if err := h.vote("ada", a, true); err != nil {
			t.Fatal(err)
		}
		h.settle(a.ID)
	}
	got := rows(pay("48.00", "Ann"), pay("4600.00", "Eve"))
	if s := got[0]; len(s.FirstTime) > 0 || s.Larger || s.Alike != (gate.DecisionCounts{Approved: 3}) {
		t.Errorf("the usual one: %+v", s)
	}
	if s := got[1]; strings.Join(s.FirstTime, " ") != "to" || !s.Larger || s.Alike != (gate.DecisionCounts{Approved: 3}) {
		t.Errorf("the unusual one: %v, %v, %v", s.FirstTime, s.Larger, s.Alike)
	}
	refused := pay("47.00", "Ann")
	if err := h.vote("ada", refused, false); err != nil {
		t.Fatal(err)
	}
	h.settle(refused.ID)
	ended, err := h.Store.Approvals.Get(t.Context(), refused.ID)
	if err != nil || ended.Approval.Status != approval.Denied {
		t.Fatalf("%s: %v", ended.Approval.Status, err)
	}
	charge := h.open(callOf("charge", `{"amount":"48.00","currency":"EUR","to":"Ann"}`))
	long := h.open(callOf("send_payment", `{"amount":"5","to":"`+strings.Repeat("x", 17<<10)+`"}`))
	got = rows(pay("48.00", "Ann"), charge, long, ended.Approval)
	for i, want := range []gate.DecisionCounts{{Approved: 3, Denied: 1}, {}, {Approved: 3, Denied: 1}, {}} { // another tool's, one without a sentence, one that is decided
		if got[i].Alike != want {
			t.Errorf("row %d: %+v, want %+v", i, got[i].Alike, want)
		}
	}
}
