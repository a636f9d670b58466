package peers

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

// opa decides by a prepared query. Rego has no order of rules, but two ways to
// say which comes first: a chain of else, and a set of the rules that hold, the
// least of which counts. OPA's index by tool works for both; which is faster
// depends on the rules, so both are measured.
type opa struct {
	peer
	query rego.PreparedEvalQuery
}

func newOPAChain(tb testing.TB, rules []rule) decider {
	tb.Helper()
	var w strings.Builder
	w.WriteString("package policy\n\ndefault decision := -1\n\n")
	for i := range rules {
		if i > 0 {
			w.WriteString(" else := ")
		} else {
			w.WriteString("decision := ")
		}
		fmt.Fprintf(&w, "%d if {\n%s}", i, rules[i].rego())
	}
	return newOPA(tb, w.String(), rules)
}

func newOPASet(tb testing.TB, rules []rule) decider {
	tb.Helper()
	var w strings.Builder
	w.WriteString("package policy\n\ndefault decision := -1\n\ndecision := min(matches)\n\n")
	for i := range rules {
		fmt.Fprintf(&w, "matches contains %d if {\n%s}\n\n", i, rules[i].rego())
	}
	return newOPA(tb, w.String(), rules)
}

// rego is the rule's body. "true" is for a rule without conditions.
func (r *rule) rego() string {
	var w strings.Builder
	if prefix, open := r.prefix(); !open {
		fmt.Fprintf(&w, "\tinput.tool == %q\n", r.tool)
	} else if prefix != "" {
		fmt.Fprintf(&w, "\tstartswith(input.tool, %q)\n", prefix)
	}
	if r.environment != "" {
		fmt.Fprintf(&w, "\tinput.environment == %q\n", r.environment)
	}
	if r.trust != "" {
		fmt.Fprintf(&w, "\tinput.trust >= %d\n", trust(r.trust))
	}
	if r.label != "" {
		fmt.Fprintf(&w, "\t%q in input.labels\n", r.label)
	}
	if r.argument != "" {
		fmt.Fprintf(&w, "\tis_number(input.args[%[1]q])\n\tinput.args[%[1]q] > %[2]d\n", r.argument, r.above)
	}
	if r.word != "" {
		fmt.Fprintf(&w, "\tcontains(input.text, %q)\n", r.word)
	}
	if w.Len() == 0 {
		return "\ttrue\n"
	}
	return w.String()
}

func newOPA(tb testing.TB, module string, rules []rule) decider {
	tb.Helper()
	query, err := rego.New(rego.Query("data.policy.decision"), rego.Module("policy.rego", module)).PrepareForEval(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return opa{newPeer(rules), query}
}

func (o opa) prepare(read any) (any, error) {
	c := read.(*call)
	labels := make([]any, len(c.Labels))
	for i, label := range c.Labels {
		labels[i] = label
	}
	return ast.InterfaceToValue(map[string]any{
		"tool": c.Tool, "environment": c.Environment, "trust": trust(c.Trust), "labels": labels, "text": o.text(c), "args": c.Args,
	})
}

func (o opa) decide(prepared any) (string, error) {
	results, err := o.query.Eval(background, rego.EvalParsedInput(prepared.(ast.Value)))
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(fmt.Sprint(results[0].Expressions[0].Value))
	if err != nil || n < 0 {
		return "", err
	}
	return o.rules[n].id, nil
}
