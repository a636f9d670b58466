package peers

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
)

// cedarEngine is a policy set of permits: Cedar has no order, so the first of
// those that hold decides (see the package comment).
type cedarEngine struct {
	peer
	policies *cedar.PolicySet
}

func newCedar(tb testing.TB, rules []rule) decider {
	tb.Helper()
	set := cedar.NewPolicySet()
	for i := range rules {
		var p cedar.Policy
		if err := p.UnmarshalCedar([]byte(rules[i].cedar())); err != nil {
			tb.Fatal(err)
		}
		set.Add(cedar.PolicyID(strconv.Itoa(i)), &p)
	}
	return cedarEngine{newPeer(rules), set}
}

// cedar is the rule as a policy. An exact tool is in the scope, where Cedar
// looks first.
func (r *rule) cedar() string {
	scope, when := "resource", []string{}
	if prefix, open := r.prefix(); !open {
		scope = fmt.Sprintf("resource == Tool::%q", r.tool)
	} else if prefix != "" {
		when = append(when, fmt.Sprintf(`context.tool like "%s*"`, prefix))
	}
	if r.environment != "" {
		when = append(when, fmt.Sprintf("context.environment == %q", r.environment))
	}
	if r.trust != "" {
		when = append(when, fmt.Sprintf("context.trust >= %d", trust(r.trust)))
	}
	if r.label != "" {
		when = append(when, fmt.Sprintf("context.labels.contains(%q)", r.label))
	}
	if r.argument != "" {
		// An argument of another type is an error, and the policy does not count.
		when = append(when, fmt.Sprintf("context.args has %[1]s && context.args.%[1]s > %[2]d", r.argument, r.above))
	}
	if r.word != "" {
		when = append(when, fmt.Sprintf(`context.text like "*%s*"`, r.word))
	}
	policy := fmt.Sprintf("permit (principal, action, %s)", scope)
	if len(when) > 0 {
		policy += " when { " + strings.Join(when, " && ") + " }"
	}
	return policy + ";"
}

func (e cedarEngine) prepare(read any) (any, error) {
	c := read.(*call)
	labels := make([]cedar.Value, len(c.Labels))
	for i, label := range c.Labels {
		labels[i] = cedar.String(label)
	}
	args, err := cedarValue(c.Args)
	if err != nil {
		return nil, err
	}
	return &cedar.Request{
		Principal: cedar.NewEntityUID("Agent", cedar.String(c.Agent)),
		Action:    cedar.NewEntityUID("Action", "call"),
		Resource:  cedar.NewEntityUID("Tool", cedar.String(c.Tool)),
		Context: cedar.NewRecord(cedar.RecordMap{
			"tool": cedar.String(c.Tool), "environment": cedar.String(c.Environment), "trust": cedar.Long(trust(c.Trust)),
			"labels": cedar.NewSet(labels...), "text": cedar.String(e.text(c)), "args": args,
		}),
	}, nil
}

// cedarValue is a JSON value without its nulls, which Cedar does not have.
func cedarValue(v any) (cedar.Value, error) {
	switch v := v.(type) {
	case string:
		return cedar.String(v), nil
	case bool:
		return cedar.Boolean(v), nil
	case float64:
		if v != math.Trunc(v) {
			return nil, fmt.Errorf("%v is not a whole number", v)
		}
		return cedar.Long(v), nil
	case []any:
		list := make([]cedar.Value, 0, len(v))
		for _, e := range v {
			value, err := cedarValue(e)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return cedar.NewSet(list...), nil
	case map[string]any:
		record := make(cedar.RecordMap, len(v))
		for name, m := range v {
			value, err := cedarValue(m)
			if err != nil {
				return nil, err
			}
			record[cedar.String(name)] = value
		}
		return cedar.NewRecord(record), nil
	default:
		return nil, fmt.Errorf("%T has no Cedar value", v)
	}
}

func (e cedarEngine) decide(prepared any) (string, error) {
	_, diagnostic := cedar.Authorize(e.policies, nil, *prepared.(*cedar.Request))
	least := -1
	for _, reason := range diagnostic.Reasons {
		n, err := strconv.Atoi(string(reason.PolicyID))
		if err != nil {
			return "", err
		}
		if least < 0 || n < least {
			least = n
		}
	}
	if least < 0 {
		return "", nil
	}
	return e.rules[least].id, nil
}
