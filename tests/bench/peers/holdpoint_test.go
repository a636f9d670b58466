package peers

import (
	"errors"
	"testing"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/spm"
	"holdpoint/engine/policy"
)

// now is when calls are decided.
var now = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

type holdpoint struct{ bundle *policy.Bundle }

// bundleOf writes the rules as a bundle. It is made as a value, as a document
// of 10,000 rules has more values than the reader of JSON takes.
func bundleOf(rules []rule) canon.Value {
	list := make([]canon.Value, len(rules))
	for i := range rules {
		list[i] = rules[i].holdpoint()
	}
	text := func(name, s string) canon.Member { return canon.Member{Name: name, Value: canon.String(s)} }
	return canon.Object(
		text("version", "1"), text("generated_at", "2026-01-01T00:00:00Z"), text("expires_at", "2099-01-01T00:00:00Z"),
		canon.Member{Name: "rules", Value: canon.Array(list...)},
		canon.Member{Name: "defaults", Value: canon.Object(text("outcome", "DENY"))},
	)
}

func (r *rule) holdpoint() canon.Value {
	text := func(name, s string) canon.Member { return canon.Member{Name: name, Value: canon.String(s)} }
	texts := func(name, s string) canon.Member {
		return canon.Member{Name: name, Value: canon.Array(canon.String(s))}
	}
	match := []canon.Member{text("tool_name", r.tool), text("environment", "*")}
	if r.environment != "" {
		match[1] = text("environment", r.environment)
	}
	if r.trust != "" {
		match = append(match, text("trust_level_min", r.trust))
	}
	var when []canon.Member
	if r.word != "" {
		when = append(when, texts("contains_any", r.word))
	}
	if r.label != "" {
		when = append(when, texts("data_labels_any", r.label))
	}
	if r.argument != "" {
		above := canon.Object(canon.Member{Name: "gt", Value: canon.Number(float64(r.above))})
		when = append(when, canon.Member{Name: "tool_args_match", Value: canon.Object(canon.Member{Name: r.argument, Value: above})})
	}
	members := []canon.Member{text("id", r.id), text("description", ""), {Name: "match", Value: canon.Object(match...)}, text("outcome", r.outcome())}
	if len(when) > 0 {
		members = append(members, canon.Member{Name: "when", Value: canon.Object(when...)})
	}
	return canon.Object(members...)
}

func (r *rule) outcome() string {
	if r.allow {
		return "ALLOW"
	}
	return "DENY"
}

func newHoldpoint(tb testing.TB, rules []rule) decider {
	tb.Helper()
	bundle, problems := policy.Compile(bundleOf(rules), policy.Options{Now: now, MaxRules: len(rules)})
	if bundle == nil {
		tb.Fatal(problems[0])
	}
	return holdpoint{bundle}
}

// read is what the door does, strictly.
func (holdpoint) read(body []byte) (any, error) {
	v, err := canon.Parse(body)
	if err != nil {
		return nil, err
	}
	a, problems := spm.ParseParams(v)
	if len(problems) > 0 {
		return nil, errors.New(problems[0].Path + ": " + problems[0].Message)
	}
	return a.Policy(), nil
}

func (holdpoint) prepare(read any) (any, error) { return read, nil }

func (h holdpoint) decide(prepared any) (string, error) {
	return h.bundle.Decide(prepared.(*policy.Request), now).Rule, nil
}
