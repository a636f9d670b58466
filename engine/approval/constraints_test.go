package approval_test

import (
	"encoding/json"
	"strings"
	"testing"

	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
)

// TestConstraints: of what several votes say, each constraint is the narrowest.
func TestConstraints(t *testing.T) {
	for name, c := range map[string]struct {
		base  string
		votes []string
		want  string // "" is an error
	}{
		"nobody":                    {`{"max":10}`, []string{"", ""}, `{"max":10}`},
		"one":                       {`{"max":10}`, []string{`{"max":5,"dry":true}`}, `{"dry":true,"max":5}`},
		"the second is wider":       {`{"max":10}`, []string{`{"max":5}`, `{"max":7,"dry":true}`}, `{"dry":true,"max":5}`},
		"the second is narrower":    {`{"max":10}`, []string{`{"max":5}`, `{"max":3}`}, `{"max":3}`},
		"at least":                  {"", []string{`{"min_age":5}`, `{"min_age":3}`}, `{"min_age":5}`},
		"what both allow":           {`{"allow":["a","b","c"]}`, []string{`{"allow":["a","b"]}`, `{"allow":["b","c"]}`}, `{"allow":["b"]}`},
		"nothing that both allow":   {`{"allow":["a","b"]}`, []string{`{"allow":["a"]}`, `{"allow":["b"]}`}, ``},
		"all that either forbids":   {`{}`, []string{`{"deny":["a"]}`, `{"deny":["b","a"]}`}, `{"deny":["b","a"]}`},
		"what each forbids":         {`{}`, []string{`{"deny":["a"]}`, `{"deny":["b"]}`}, `{"deny":["a","b"]}`},
		"different things":          {"", []string{`{"dry":true}`, `{"dry":false}`}, ``},
		"the same thing":            {"", []string{`{"dry":true}`, `{"dry":true}`}, `{"dry":true}`},
		"numbers of unknown sense":  {"", []string{`{"rows":1}`, `{"rows":2}`}, ``},
		"a number against a list":   {`{"max":10}`, []string{`{"max":[1]}`}, ``},
		"lists of an unknown sense": {"", []string{`{"hosts":["a"]}`, `{"hosts":["a","b"]}`}, ``},
		"two spellings of a name":   {"", []string{`{"dry":true}`, `{"Dry":true}`}, ``},
		"constraints of no object":  {"", []string{`[]`}, ``},
	} {
		votes := make([]approval.Fact, len(c.votes))
		for i, v := range c.votes {
			votes[i].Details.Constraints = json.RawMessage(v)
		}
		got, err := approval.Constraints(json.RawMessage(c.base), votes)
		if c.want == "" && err == nil || c.want != "" && (err != nil || string(got) != c.want) {
			t.Errorf("%s: got %s, %v; want %s", name, got, err, c.want)
		}
	}
}

// TestBounds: a vote adds no constraint that the call breaks already; what bounds none of its
// numbers is for whoever runs it.
func TestBounds(t *testing.T) {
	args, err := canon.Parse([]byte(`{"amount":5,"rowCount":"20","to":"eve","price":"1,250.00","fee":"1 EUR","cost":"€ 7.50","parts":[1,2],"nested":{"age":1},"wide":"５","words":"five","blank":" ","no":null,"empty":{},"yes":true}`))
	if err != nil {
		t.Fatal(err)
	}
	const rules = `{"max_amount":10,"dry_run":true,"min_age":3,"allow":["a","b"]}`
	for _, c := range []struct{ base, more, wrong string }{ // "": taken
		{rules, "", ""},
		{rules, `{}`, ""},
		{rules, `{"max_amount":7}`, ""},
		{rules, `{"max_amount":5}`, ""},
		{rules, `{"max_amount":4.99}`, "outside"},
		{rules, `{"max_amount":-1}`, "outside"},
		{rules, `{"min_age":8,"allow":["a"],"dry_run":true}`, ""},
		{rules, `{"Max_Amount":7}`, "differs only by case"},
		{rules, `{"anything":{"x":"y"}}`, ""},
		{"", `{"call_back_known_number":true}`, ""},
		{"", `{"max_amount":1}`, "outside"},
		{"", `{"max_amount":6}`, ""},
		{"", `{"max_amount":"6"}`, "outside"},
		{"", `{"maxAmount":1}`, "outside"},
		{"", `{"min_amount":6}`, "outside"},
		{"", `{"minimum-amount":5}`, ""},
		{"", `{"max_row_count":19}`, "outside"},
		{"", `{"max_row_count":20}`, ""},
		{"", `{"max_to":1}`, "no plain number"},
		{"", `{"max_wide":1}`, "no plain number"},
		{"", `{"max_words":1}`, "no plain number"},
		{"", `{"max_yes":1}`, "no plain number"},
		{"", `{"max_nested":1}`, "no plain number"},
		{"", `{"max_blank":1,"max_no":1,"max_empty":1,"max_missing":1}`, ""},
		{"", `{"max_fee":1,"max_cost":7.5}`, ""},
		{"", `{"max_fee":0.5}`, "outside"},
		{"", `{"max_cost":7}`, "outside"},
		{"", `{"max_price":1}`, "no plain number"},
		{"", `{"max_parts":1}`, ""},
		{"", `{"max_age":1}`, ""},
		{"", `{"max":1}`, ""},
		{"", `[]`, "want a JSON object"},
	} {
		got := ""
		if err := approval.Bounds(json.RawMessage(c.base), json.RawMessage(c.more), args); err != nil {
			got = err.Error()
		}
		if (got == "") != (c.wrong == "") || !strings.Contains(got, c.wrong) {
			t.Errorf("%s over %s: %q, want %q", c.more, c.base, got, c.wrong)
		}
	}
}
