package aana_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
)

var (
	drawnNames      = []string{"read_page", "get_cart", "search_users", "send_mail", "edit_note", "userSearch", "find-user", "deletePage"}
	drawnCategories = []aana.Category{aana.PublicRead, aana.PrivateRead, aana.Write, aana.Unknown}
	drawnStates     = []aana.State{aana.None, aana.UserClaimed, aana.Authenticated, aana.Validated, aana.Confirmed}
	drawnDomains    = []aana.RiskDomain{"research", "finance", "hr", "public_information", "unknown"}
	drawnRoutes     = []engine.Route{engine.Accept, engine.Ask, engine.Defer, engine.Refuse}
)

// problems are references of which each alone forbids to accept. None holds a
// word that makes a read public.
var problems = []string{
	`{"source_id":"p","freshness":{"status":"stale"}}`,
	`{"source_id":"p","retrieved_at":"2001-01-01"}`,
	`{"source_id":"p","retrieved_at":"soon"}`,
	`{"source_id":"p","contradicts":["x"]}`,
	`{"source_id":"p","summary":"No evidence."}`,
	`{"source_id":"p","redaction_status":"sensitive"}`,
	`{"source_id":"p","summary":"password: EXAMPLE-0"}`,
	`{"source_id":"p@example.org"}`,
	`"counterfactual.missing_authorization"`,
}

// harmless are references that forbid nothing.
var harmless = []string{
	`"note:1"`, `{"source_id":"h"}`, `{"source_id":"h","summary":"never confirmed","kind":"approval"}`,
	`{"source_id":"h","trust_tier":"verified","redaction_status":"redacted","retrieved_at":"2026-04-01"}`,
}

// drawnEvent draws a valid event and its evidence.
func drawnEvent(t *rapid.T) (aana.Event, []string) {
	refs := rapid.SliceOfN(rapid.SampledFrom(append(slices.Clone(harmless), problems...)), 0, 3).Draw(t, "evidence")
	args := rapid.SampledFrom([]string{`{}`, `{"q":"x"}`, `{"email":"x"}`, `{"q":"a public page"}`, `{"amount":1e3}`}).Draw(t, "arguments")
	return event(t, rapid.SampledFrom(drawnNames).Draw(t, "name"), rapid.SampledFrom(drawnCategories).Draw(t, "category"),
		rapid.SampledFrom(drawnStates).Draw(t, "state"), rapid.SampledFrom(drawnDomains).Draw(t, "domain"),
		rapid.SampledFrom(drawnRoutes).Draw(t, "route"), args, refs), refs
}

func event(tb interface{ Fatalf(string, ...any) }, name string, category aana.Category, state aana.State, domain aana.RiskDomain,
	route engine.Route, args string, refs []string,
) aana.Event {
	doc := fmt.Sprintf(`{"tool_name":%q,"tool_category":%q,"authorization_state":%q,"risk_domain":%q,"recommended_route":%q,"proposed_arguments":%s,"evidence_refs":[%s]}`,
		name, category, state, domain, route, args, strings.Join(refs, ","))
	e, errs := aana.Parse(read(tb, doc))
	if len(errs) > 0 {
		tb.Fatalf("Parse(%s): %v", doc, errs)
	}
	return e
}

// checkResult is what has to be true of every result.
func checkResult(tb interface{ Fatalf(string, ...any) }, r aana.Result) {
	if r.Executes != (r.Route == engine.Accept) || r.Executes && (len(r.HardBlockers) > 0 || len(r.ValidationErrors) > 0) {
		tb.Fatalf("route %s executes %v with blockers %q", r.Route, r.Executes, r.HardBlockers)
	}
	if !slices.IsSorted(r.HardBlockers) || len(slices.Compact(slices.Clone(r.HardBlockers))) != len(r.HardBlockers) || r.HardBlockers == nil {
		tb.Fatalf("hard blockers are not a sorted set: %#v", r.HardBlockers)
	}
	if len(r.Reasons) == 0 {
		tb.Fatalf("no reasons")
	}
	strictest := engine.Accept
	var stopping []string
	for _, f := range r.Findings {
		strictest = strictest.Stricter(f.Route)
		if f.Route != engine.Accept {
			stopping = append(stopping, f.Code)
		}
		if f.Source != aana.Source || f.Message == "" || f.Message == aana.Message("no such code") {
			tb.Fatalf("finding %+v has no proper message", f)
		}
	}
	if strictest != r.Route {
		tb.Fatalf("findings say %s, the route is %s", strictest, r.Route)
	}
	for _, code := range r.HardBlockers {
		if !slices.Contains(stopping, code) {
			tb.Fatalf("hard blocker %s has no finding that stops the call", code)
		}
	}
	d := engine.Evaluate(engine.Call{}, "", func(engine.Call) engine.CheckResult { return r.CheckResult() })
	if d.Route != r.Route {
		tb.Fatalf("evaluated alone the route is %s, want %s", d.Route, r.Route)
	}
	if want := len(r.CheckResult().Requirements); len(d.Requirements) != want || (want == 1) != r.Route.Waits() {
		tb.Fatalf("route %s has requirements %+v, evaluated %+v", r.Route, r.CheckResult().Requirements, d.Requirements)
	}
}

func TestResultsAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, refs := drawnEvent(t)
		r := e.Judge(now)
		checkResult(t, r)
		if e.Recommended == engine.Refuse && r.Route != engine.Refuse {
			t.Fatalf("refuse was recommended, the route is %s", r.Route)
		}
		if r.Own > r.Route {
			t.Fatalf("our own route is %s, and the final one is %s", r.Own, r.Route)
		}
		if r.Route < e.Recommended {
			t.Fatalf("%s was recommended, the route is %s", e.Recommended, r.Route)
		}
		again := e.Judge(now)
		if fmt.Sprint(again) != fmt.Sprint(r) {
			t.Fatalf("judged twice: %+v, then %+v", r, again)
		}
		for _, ref := range refs {
			if slices.Contains(problems, ref) && r.Route < engine.Defer {
				t.Fatalf("evidence %s does not stop the call", ref)
			}
		}
	})
}

func TestStricterInputNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, refs := drawnEvent(t)
		before := e.Judge(now)
		problem := rapid.SampledFrom(problems).Draw(t, "problem")
		worse := event(t, e.ToolName, e.Category, e.State, e.RiskDomain, e.Recommended, string(e.Arguments.Canonical()), append(slices.Clone(refs), problem))
		if after := worse.Judge(now); after.Route < before.Route {
			t.Fatalf("with evidence %s: %s instead of %s", problem, after.Route, before.Route)
		}
		e.Recommended = rapid.SampledFrom(drawnRoutes[e.Recommended:]).Draw(t, "stricter")
		if after := e.Judge(now); after.Route < before.Route {
			t.Fatalf("%s recommended: %s instead of %s", e.Recommended, after.Route, before.Route)
		}
	})
}

// A stronger state never makes the route stricter, with one exception that the
// rules want: who is only claimed to be somebody is asked to sign in before a
// public read that turns out to be private, while who has signed in has nothing
// more to bring, so that a reviewer has to look at the wrong declaration.
func TestStrongerStateNeverTightens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, _ := drawnEvent(t)
		before := e.Judge(now)
		declared := e.State
		e.State = rapid.SampledFrom(drawnStates[e.State.Rank():]).Draw(t, "stronger")
		after := e.Judge(now)
		if after.Route <= before.Route {
			return
		}
		misclassified := slices.Contains(after.HardBlockers, "public_read_identity_bound_misclassified")
		if !misclassified || declared != aana.UserClaimed || before.Route != engine.Ask || after.Route != engine.Defer {
			t.Fatalf("as %s: %s %q, as %s: %s %q", declared, before.Route, before.HardBlockers, e.State, after.Route, after.HardBlockers)
		}
	})
}

// Once the requirement of a call's own opinion is met, the call passes its
// re-check (ARCHITECTURE, "Judged again"), or only what reviewers were not shown is left.
func TestApprovedCallPassesItsRecheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, _ := drawnEvent(t)
		evaluate := func(e aana.Event) engine.Decision {
			return engine.Evaluate(engine.Call{}, "", func(engine.Call) engine.CheckResult { return e.Judge(now).CheckResult() })
		}
		first := evaluate(e)
		if !first.Route.Waits() {
			return
		}
		again := evaluate(e.Confirmed("4000-0000-0000-0000")) // an id that looks like a card number
		for _, f := range engine.Undischarged(first.Findings, first.Requirements, again) {
			if f.Code != "public_read_identity_bound_misclassified" || first.Route != engine.Ask {
				t.Fatalf("first %+v, then %+v is left", first, f)
			}
		}
	})
}

// No value of an argument, however it is nested, is anywhere in an answer.
func TestAnswersHoldNoArgumentValue(t *testing.T) {
	const canary = "c4n4ry"
	rapid.Check(t, func(t *rapid.T) {
		e, _ := drawnEvent(t)
		nested := rapid.SampledFrom([]string{`"%s"`, `{"a":"%s"}`, `["%s",1]`, `{"%s":1}`, `"token: %s-0000"`}).Draw(t, "nesting")
		e.Arguments = read(t, fmt.Sprintf(`{"note":`+nested+`,"email":2}`, canary))
		r := e.Judge(now)
		other := engine.Finding{Source: "policy", Code: "other_check", Route: rapid.SampledFrom(drawnRoutes).Draw(t, "other")}
		d := engine.Evaluate(engine.Call{}, "", func(engine.Call) engine.CheckResult { return r.CheckResult() },
			func(engine.Call) engine.CheckResult { return engine.CheckResult{Findings: []engine.Finding{other}} })
		envelope := r.Envelope(d)
		checkEnvelope(t, r, d, envelope)
		for _, answer := range []any{envelope, envelope.Brief(), r.Findings, r} {
			text, err := json.Marshal(answer)
			if err != nil {
				t.Fatal(err)
			}
			if all := string(text) + fmt.Sprintf("%+v %#v", answer, answer); strings.Contains(all, canary) {
				t.Fatalf("the answer holds the value: %s", all)
			}
		}
	})
}

func checkEnvelope(tb interface{ Fatalf(string, ...any) }, r aana.Result, d engine.Decision, e aana.Envelope) {
	route := r.Route.Stricter(d.Route)
	if e.RecommendedAction != route || e.ArchitectureDecision.Route != route || e.AIx.Decision != route || e.ArchitectureDecision.AuditEvent.Route != route {
		tb.Fatalf("the envelope's routes are not all %s: %+v", route, e)
	}
	executes := route == engine.Accept
	if (e.GateDecision == "pass") != executes || e.ExecutionPolicy.ExecutionAllowed != executes || executes && len(e.HardBlockers) > 0 {
		tb.Fatalf("route %s: gate %s, policy %+v, blockers %q", route, e.GateDecision, e.ExecutionPolicy, e.HardBlockers)
	}
	text, err := json.Marshal(e)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	if strings.Contains(string(text), "null") {
		tb.Fatalf("the envelope holds a null: %s", text)
	}
}

// FuzzJudge takes any bytes the whole way.
func FuzzJudge(f *testing.F) {
	f.Add([]byte(benchmarkEvent))
	f.Add([]byte(`{"tool_name":"x","evidence_refs":[{"freshness":{}}],"proposed_arguments":{"a":"b"}}`))
	f.Add([]byte(`{"tool_name":"get_user","tool_category":"public_read","authorization_state":"none","evidence_refs":["sk-000000000000@a.bc"],"risk_domain":"hr","proposed_arguments":{"":{}},"recommended_route":"accept"}`))
	f.Add([]byte(`[]`))
	f.Add([]byte("{\"tool_name\":\"\x00\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := judge(data)
		checkResult(t, r)
		d := engine.Decision{Route: r.Route, Findings: r.Findings}
		e := r.Envelope(d)
		if e.RecommendedAction != r.Route || !slices.Equal(e.HardBlockers, r.HardBlockers) || e.ExecutionPolicy.ExecutionAllowed != r.Executes {
			t.Fatalf("the envelope %+v differs from the result %+v", e, r)
		}
		v, err := canon.Parse(data)
		if err != nil {
			if r.Route != engine.Refuse {
				t.Fatalf("not JSON, but %s", r.Route)
			}
			return
		}
		ev, errs := aana.Parse(v)
		if (len(errs) > 0) != (len(r.ValidationErrors) > 0) {
			t.Fatalf("errors %v, result %+v", errs, r)
		}
		capped, _ := ev.Capped(aana.None)
		checkResult(t, capped.Judge(now))
		if len(errs) == 0 {
			checkResult(t, ev.Confirmed("apr_1").Judge(now))
		}
	})
}
