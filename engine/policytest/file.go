// Package policytest reads files of policy tests and runs them: each says of a
// call what a bundle has to make of it. It tells which tests fail, how and why,
// and which rules no test reaches. It has no clock and no I/O, and never
// changes a bundle or a call to make a test pass.
//
//	policy: policy.yaml            # beside the test file; may be left out
//	now: 2026-11-21T12:00:00Z      # may be left out: then it is the caller's
//	defaults:                      # of every call, field by field
//	  environment: prod
//	  agent: {trust_level: verified}
//	tests:
//	  - name: a refund above the limit needs two of finance
//	    call:
//	      tool: issue_refund
//	      args: {amount: 1200}
//	    expect:
//	      outcome: REQUIRE_APPROVAL
//	      rule: refund-large
//	      approval: {quorum: 2}
//
// A call has tool, args, environment ("dev" if it says none), agent
// (agent_type, trust_level, roles), provider, user_input, data_labels,
// tool_category, tool_risk_domain, tool_registered and claims: what the call says
// of user_input, data_labels, environment and provider without anybody having
// confirmed it, which is tried as the gate tries it. An expectation has at least one of outcome, rule,
// approver_role, constraints and approval, and what it does not name is not
// looked at. The rule "" or "default" is none, the approver_role "" is none, and
// null for constraints or approval is none; constraints have to be equal as a
// whole, of an approval only the fields that are named.
package policytest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/engine/source"
)

// File is a file of policy tests, free of mistakes.
type File struct {
	Name string
	// Policy is the bundle's path as the file gives it; "" when it does not.
	Policy string
	// Now is the time at which the tests judge; zero when the file leaves it to
	// the caller.
	Now   time.Time
	Tests []Test
}

// Test is one call and what has to become of it.
type Test struct {
	Name string
	// Line is where it begins.
	Line int
	Call *policy.Request

	expect expectation
}

// expectation is what is looked at of a decision; nil is not.
type expectation struct {
	outcome      *string
	rule         *string
	approverRole *string
	constraints  *canon.Value
	approval     *canon.Value // an object with durations as Go prints them, or null
}

// Load reads a file of tests and returns everything that is wrong with it. The
// File is nil exactly if there are problems.
func Load(data []byte, name string) (*File, []source.Problem) {
	root, problems := source.Read(data, source.Options{File: name})
	if len(problems) > 0 {
		return nil, problems
	}
	l := &loader{}
	f := &File{Name: name}
	var defaults call
	l.object(root, "a file of tests", fields{
		"policy": func(n source.Node) { f.Policy = l.text(n, "policy") },
		"now":    func(n source.Node) { f.Now = l.moment(n, "now") },
		"defaults": func(n source.Node) {
			defaults = l.call(n, "defaults")
		},
		"tests": func(source.Node) {},
	})
	tests, ok := root.Get("tests")
	switch {
	case root.Value.Kind() != canon.ObjectKind:
	case !ok:
		l.fail(root, "missing", `"tests" is missing`, "")
	case l.isList(tests, "tests"):
		l.tests(tests, defaults, f)
	}
	if len(l.problems) > 0 {
		return nil, source.Sort(l.problems, name)
	}
	return f, nil
}

func (l *loader) tests(list source.Node, defaults call, f *File) {
	if list.Value.Len() == 0 {
		l.fail(list, "empty", "there is no test", "")
	}
	names := map[string]bool{}
	for i := range list.Value.Len() {
		n := list.Element(i)
		t := Test{Line: n.Position().Line}
		var c call
		l.object(n, "a test", fields{
			"name": func(n source.Node) {
				if t.Name = l.text(n, "name"); names[t.Name] {
					l.fail(n, "duplicate_name", "another test has the same name", "")
				}
				names[t.Name] = true
			},
			"call":   func(n source.Node) { c = l.call(n, "call") },
			"expect": func(n source.Node) { t.expect = l.expectation(n) },
		}, "name", "call", "expect")
		t.Call = c.over(defaults).request()
		if call, ok := n.Get("call"); ok && t.Call.Tool == "" && call.Value.Kind() == canon.ObjectKind {
			l.fail(call, "missing", `the call has no "tool", nor have the defaults`, "")
		}
		f.Tests = append(f.Tests, t)
	}
}

// outcomes is what a policy can decide.
var outcomes = []string{
	string(engine.Allow), string(engine.Deny), string(engine.RequireApproval), string(engine.RequireStepUp),
	string(engine.RequireTicket), string(engine.RequireHuman),
}

func (l *loader) expectation(n source.Node) expectation {
	var e expectation
	l.object(n, "expect", fields{
		"outcome": func(n source.Node) {
			text := l.text(n, "outcome")
			if !slices.Contains(outcomes, text) {
				l.fail(n, "unknown_outcome", "outcome "+source.Quote(text)+" is not one that a policy can decide", "use one of "+strings.Join(outcomes, ", "))
			}
			e.outcome = &text
		},
		"rule":          func(n source.Node) { text := l.text(n, "rule"); e.rule = &text },
		"approver_role": func(n source.Node) { text := l.text(n, "approver_role"); e.approverRole = &text },
		"constraints": func(n source.Node) {
			if n.Value.IsNull() || l.isObject(n, "constraints") {
				e.constraints = &n.Value
			}
		},
		"approval": func(n source.Node) {
			v := l.approval(n)
			e.approval = &v
		},
	})
	if e == (expectation{}) && n.Value.Kind() == canon.ObjectKind && n.Value.Len() == 0 {
		l.fail(n, "empty", "the test expects nothing", "name an outcome or a rule")
	}
	return e
}

// approval reads an expected approval and writes its durations in the one form
// in which a decision has them.
func (l *loader) approval(n source.Node) canon.Value {
	if n.Value.IsNull() {
		return canon.Null()
	}
	var members []canon.Member
	keep := func(name string) func(source.Node) {
		return func(n source.Node) { members = append(members, canon.Member{Name: name, Value: n.Value}) }
	}
	duration := func(name string, to *[]canon.Member) func(source.Node) {
		return func(n source.Node) {
			d, err := time.ParseDuration(l.text(n, name))
			if err != nil {
				l.fail(n, "not_a_duration", name+" has to be a duration", `write it as "30m", "4h" or "1h30m"`)
			}
			*to = append(*to, canon.Member{Name: name, Value: canon.String(d.String())})
		}
	}
	l.object(n, "approval", fields{
		"quorum": keep("quorum"), "groups": keep("groups"), "any_of": keep("any_of"), "deny": keep("deny"), "signed": keep("signed"), "calendar": keep("calendar"),
		"suggest": keep("suggest"), "ask": keep("ask"), "within": duration("within", &members), "expires_in": duration("expires_in", &members),
		"reminders": func(n source.Node) {
			if !l.isList(n, "reminders") {
				return
			}
			var times []canon.Member
			for i := range n.Value.Len() {
				duration("reminders", &times)(n.Element(i))
			}
			values := make([]canon.Value, len(times))
			for i, m := range times {
				values[i] = m.Value
			}
			members = append(members, canon.Member{Name: "reminders", Value: canon.Array(values...)})
		},
		"ticket": func(n source.Node) {
			var terms []canon.Member
			keep := func(name string) func(source.Node) {
				return func(n source.Node) { terms = append(terms, canon.Member{Name: name, Value: n.Value}) }
			}
			l.object(n, "ticket", fields{
				"system": keep("system"), "projects": keep("projects"), "states": keep("states"), "max_age": duration("max_age", &terms),
			})
			members = append(members, canon.Member{Name: "ticket", Value: canon.Object(terms...)})
		},
		"escalation": func(n source.Node) {
			if !l.isList(n, "escalation") {
				return
			}
			var steps []canon.Value
			for i := range n.Value.Len() {
				var step []canon.Member
				l.object(n.Element(i), "an escalation", fields{
					"after": duration("after", &step),
					"role": func(n source.Node) {
						step = append(step, canon.Member{Name: "role", Value: canon.String(l.text(n, "role"))})
					},
				}, "after", "role")
				steps = append(steps, canon.Object(step...))
			}
			members = append(members, canon.Member{Name: "escalation", Value: canon.Array(steps...)})
		},
	})
	return canon.Object(members...)
}

// loader collects problems.
type loader struct{ problems []source.Problem }

func (l *loader) fail(n source.Node, code, message, hint string) {
	l.problems = append(l.problems, n.Problem(code, message, hint))
}

// fields is what an object may hold, and how to read it.
type fields map[string]func(source.Node)

// object reads an object. What is not in the table is an error, and so is what
// is needed and not there.
func (l *loader) object(n source.Node, what string, table fields, needed ...string) {
	if !l.isObject(n, what) {
		return
	}
	for m := range n.Members() {
		if read, ok := table[m.Name]; ok {
			read(m.Node)
			continue
		}
		known := slices.Sorted(maps.Keys(table))
		l.problems = append(l.problems, m.KeyProblem("unknown_field", what+" has no "+source.Quote(m.Name), "it has "+strings.Join(known, ", ")))
	}
	for _, name := range needed {
		if _, ok := n.Get(name); !ok {
			l.fail(n, "missing", fmt.Sprintf("%q is missing", name), "")
		}
	}
}

func (l *loader) isObject(n source.Node, what string) bool {
	return l.is(n, canon.ObjectKind, what, "a mapping")
}

func (l *loader) isList(n source.Node, what string) bool {
	return l.is(n, canon.ArrayKind, what, "a list")
}

func (l *loader) is(n source.Node, kind canon.Kind, what, wanted string) bool {
	if n.Value.Kind() == kind {
		return true
	}
	l.fail(n, "type", fmt.Sprintf("%s has to be %s, it is %s", what, wanted, n.Value.Kind()), "")
	return false
}

func (l *loader) text(n source.Node, what string) string {
	if n.Value.Kind() != canon.StringKind {
		hint := ""
		switch n.Value.Kind() {
		case canon.NumberKind, canon.BoolKind, canon.NullKind:
			hint = "put it in quotes"
		default:
		}
		l.fail(n, "type", fmt.Sprintf("%s has to be a text, it is %s", what, n.Value.Kind()), hint)
	}
	return n.Value.Str()
}

func (l *loader) moment(n source.Node, what string) time.Time {
	t, err := time.Parse(time.RFC3339, l.text(n, what))
	if err != nil {
		l.fail(n, "not_a_time", what+" has to be a time", "write it as 2026-11-21T12:00:00Z")
	}
	return t.UTC()
}
