package policytest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
)

// Result is what became of one test.
type Result struct {
	Name   string `json:"name"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Passed bool   `json:"passed"`
	// Outcome and Rule are the bundle's; Rule is "" for its default.
	Outcome string `json:"outcome"`
	Rule    string `json:"rule"`
	// Differences and Why are empty when it passed.
	Differences []Difference `json:"differences,omitempty"`
	// Why says what kept the expected rule from deciding.
	Why []string `json:"why,omitempty"`
}

// Difference is one field that is not as it should be, both sides as JSON.
type Difference struct {
	Field string          `json:"field"`
	Want  json.RawMessage `json:"want"`
	Got   json.RawMessage `json:"got"`
}

// Run runs the tests of a file against a bundle, at the file's time or, where
// it has none, at now.
func (f *File) Run(b *policy.Bundle, now time.Time) []Result {
	if !f.Now.IsZero() {
		now = f.Now
	}
	results := make([]Result, len(f.Tests))
	for i, t := range f.Tests {
		results[i] = t.run(b, now)
		results[i].File = f.Name
	}
	return results
}

// considered is the decision, as the gate comes to it: of those that count because
// claims may be true or false, the strictest, and the first of several.
func considered(b *policy.Bundle, call *policy.Request, now time.Time) policy.Decision {
	list := b.Consider(call, now)
	strictest := list[0]
	for _, d := range list[1:] {
		if d.Outcome.Route() > strictest.Outcome.Route() {
			strictest = d
		}
	}
	return strictest
}

func (t Test) run(b *policy.Bundle, now time.Time) Result {
	d := considered(b, t.Call, now)
	r := Result{Name: t.Name, Line: t.Line, Outcome: string(d.Outcome), Rule: d.Rule}
	differ := func(field string, want, got canon.Value) {
		if w, g := want.Canonical(), got.Canonical(); string(w) != string(g) {
			r.Differences = append(r.Differences, Difference{Field: field, Want: w, Got: g})
		}
	}
	e := t.expect
	if e.outcome != nil {
		differ("outcome", canon.String(*e.outcome), canon.String(r.Outcome))
	}
	wanted, named := "", e.rule != nil
	if named {
		wanted = ruleNamed(b, *e.rule)
		differ("rule", canon.String(wanted), canon.String(d.Rule))
	}
	if e.approverRole != nil {
		differ("approver_role", canon.String(*e.approverRole), canon.String(d.ApproverRole))
	}
	if e.constraints != nil {
		differ("constraints", *e.constraints, parsed(d.Constraints))
	}
	if e.approval != nil {
		compareApproval(*e.approval, d.Approval, differ)
	}
	r.Passed = len(r.Differences) == 0
	if named && wanted != d.Rule {
		r.Why = whyNot(b, t.Call, now, wanted, d)
	}
	return r
}

// defaultRule is how a test may name what decides if no rule does.
const defaultRule = "default"

// ruleNamed is the id that a test means; "default" is none, unless a rule has
// that id.
func ruleNamed(b *policy.Bundle, name string) string {
	if name == defaultRule && !slices.ContainsFunc(b.Rules(), func(r policy.Rule) bool { return r.ID == name }) {
		return ""
	}
	return name
}

// compareApproval compares the fields that are expected.
func compareApproval(want canon.Value, got *policy.Approval, differ func(field string, want, got canon.Value)) {
	if got == nil || want.IsNull() {
		encoded := canon.Null()
		if got != nil {
			encoded = encode(got)
		}
		differ("approval", want, encoded)
		return
	}
	actual := encode(got)
	for name, v := range want.All() {
		g, _ := actual.Get(name)
		differ("approval."+name, v, g)
	}
}

// encode is a value of ours in the form that expectations have.
func encode(v any) canon.Value {
	data, err := json.Marshal(v)
	if err != nil {
		return canon.Null() // structs of texts and numbers always encode
	}
	return parsed(data)
}

func parsed(data []byte) canon.Value {
	v, err := canon.Parse(data)
	if err != nil {
		return canon.Null() // there is none
	}
	return v
}

// whyNot says what kept the expected rule from deciding.
func whyNot(b *policy.Bundle, call *policy.Request, now time.Time, wanted string, d policy.Decision) []string {
	if b.Expired(now) {
		return []string{"The bundle has expired by then, and refuses every call."}
	}
	x := b.Explain(call, now)
	var why []string
	if wanted == "" {
		for _, r := range x.Rules {
			if r.Decided {
				why = append(why, fmt.Sprintf("Rule %q matches the call.", r.ID))
				for _, c := range r.Conditions {
					why = append(why, c.Name+": "+c.Why)
				}
			}
		}
		return why
	}
	i := slices.IndexFunc(x.Rules, func(r policy.RuleExplanation) bool { return r.ID == wanted })
	if i < 0 {
		return []string{fmt.Sprintf("The bundle has no rule %q.", wanted)}
	}
	for _, c := range x.Rules[i].Conditions {
		if !c.Held {
			why = append(why, c.Name+": "+c.Why)
		}
	}
	switch {
	case len(why) > 0:
		return append([]string{fmt.Sprintf("Rule %q does not match:", wanted)}, why...)
	case d.Rule != "":
		return []string{fmt.Sprintf("Rule %q matches too, but rule %q comes before it.", wanted, d.Rule)}
	}
	return []string{d.Reasons[0].Message}
}

// Coverage is which rules of a bundle the tests reached: a rule is reached by
// a test whose call it decides.
type Coverage struct {
	Rules   int `json:"rules"`
	Reached int `json:"reached"`
	// Percent is rounded down: 100 means all. Without any rule it is 100.
	Percent   int           `json:"percent"`
	Unreached []policy.Rule `json:"unreached,omitempty"`
}

// Cover says which rules of the bundle the results reached.
func Cover(b *policy.Bundle, results []Result) Coverage {
	reached := map[string]bool{}
	for _, r := range results {
		reached[r.Rule] = true
	}
	c := Coverage{Percent: 100}
	for _, r := range b.Rules() {
		c.Rules++
		if reached[r.ID] {
			c.Reached++
		} else {
			c.Unreached = append(c.Unreached, r)
		}
	}
	if c.Rules > 0 {
		c.Percent = 100 * c.Reached / c.Rules
	}
	return c
}

// Text is the result for a person: one line, and what is different below it.
func (r Result) Text() string {
	if r.Passed {
		return "ok    " + r.Name + "\n"
	}
	var b strings.Builder
	b.WriteString("FAIL  " + r.Name)
	if r.File != "" {
		b.WriteString(" (" + r.File + ":" + strconv.Itoa(r.Line) + ")")
	}
	b.WriteByte('\n')
	width := 0
	for _, d := range r.Differences {
		width = max(width, len(d.Field))
	}
	for _, d := range r.Differences {
		b.Write(fmt.Appendf(nil, "      %-*s  want %s, got %s\n", width, d.Field, shown(d.Field, d.Want), shown(d.Field, d.Got)))
	}
	for i, line := range r.Why {
		if i > 0 {
			line = "  " + line
		}
		b.WriteString("      " + line + "\n")
	}
	return b.String()
}

// shown is a side of a difference for a person.
func shown(field string, v json.RawMessage) string {
	if string(v) == `""` {
		if field == "rule" {
			return "the default"
		}
		return "none"
	}
	if string(v) == "null" {
		return "none"
	}
	if field == "outcome" {
		return strings.Trim(string(v), `"`)
	}
	return string(v)
}

// Text is the coverage for a person: one line, and one more for each rule that
// no test reaches.
func (c Coverage) Text(file string) string {
	var b strings.Builder
	b.Write(fmt.Appendf(nil, "%s: %d of %d rules reached (%d %%)\n", file, c.Reached, c.Rules, c.Percent))
	for _, r := range c.Unreached {
		b.Write(fmt.Appendf(nil, "%s:%d:%d: no test reaches rule %q\n", file, r.Line, r.Column, r.ID))
	}
	return b.String()
}
