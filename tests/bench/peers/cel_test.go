package peers

import (
	"fmt"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// celEngine is a compiled program for every rule, tried in their order.
type celEngine struct {
	peer
	programs []cel.Program
}

func newCEL(tb testing.TB, rules []rule) decider {
	tb.Helper()
	env, err := cel.NewEnv(
		cel.Variable("tool", cel.StringType), cel.Variable("environment", cel.StringType), cel.Variable("trust", cel.IntType),
		cel.Variable("labels", cel.ListType(cel.StringType)), cel.Variable("text", cel.StringType),
		cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)),
	)
	if err != nil {
		tb.Fatal(err)
	}
	e := celEngine{peer: newPeer(rules)}
	for i := range rules {
		ast, issues := env.Compile(rules[i].cel())
		if issues.Err() != nil {
			tb.Fatal(issues.Err())
		}
		program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize))
		if err != nil {
			tb.Fatal(err)
		}
		e.programs = append(e.programs, program)
	}
	return e
}

func (r *rule) cel() string {
	var and []string
	if prefix, open := r.prefix(); !open {
		and = append(and, fmt.Sprintf("tool == %q", r.tool))
	} else if prefix != "" {
		and = append(and, fmt.Sprintf("tool.startsWith(%q)", prefix))
	}
	if r.environment != "" {
		and = append(and, fmt.Sprintf("environment == %q", r.environment))
	}
	if r.trust != "" {
		and = append(and, fmt.Sprintf("trust >= %d", trust(r.trust)))
	}
	if r.label != "" {
		and = append(and, fmt.Sprintf("%q in labels", r.label))
	}
	if r.argument != "" {
		and = append(and, fmt.Sprintf("has(args.%[1]s) && type(args.%[1]s) == double && args.%[1]s > %[2]d.0", r.argument, r.above))
	}
	if r.word != "" {
		and = append(and, fmt.Sprintf("text.contains(%q)", r.word))
	}
	if len(and) == 0 {
		return "true"
	}
	return strings.Join(and, " && ")
}

// prepare makes CEL's values of the call's, so that no program has to.
func (e celEngine) prepare(read any) (any, error) {
	c := read.(*call)
	adapter := types.DefaultTypeAdapter
	return cel.NewActivation(map[string]any{
		"tool": types.String(c.Tool), "environment": types.String(c.Environment), "trust": types.Int(trust(c.Trust)),
		"labels": adapter.NativeToValue(c.Labels), "text": types.String(e.text(c)), "args": adapter.NativeToValue(c.Args),
	})
}

func (e celEngine) decide(prepared any) (string, error) {
	for i, program := range e.programs {
		held, _, err := program.Eval(prepared)
		if err != nil {
			return "", fmt.Errorf("rule %s: %w", e.rules[i].id, err)
		}
		if held == types.True {
			return e.rules[i].id, nil
		}
	}
	return "", nil
}
