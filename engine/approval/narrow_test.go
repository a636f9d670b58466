package approval_test

import (
	"encoding/json"
	"testing"

	"holdpoint/engine/approval"
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
