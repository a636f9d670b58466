// Package peers compares the policy engine with OPA, cedar-go and cel-go: the
// same rules, the same call, one run. It first holds all of them against each
// other (TestSameDecisions), as a comparison of different meanings is worth
// nothing. It asserts no time, and it is a module of its own so that no peer
// ever becomes part of what Holdpoint is made of.
//
//	go test ./...                                  all engines decide alike
//	go test -run '^$' -bench . -benchmem ./...     every figure
//	go test -ratios -benchtime 200ms .             tables of one run, with ratios
//
// # What is compared
//
// A rule has a tool name, exact, a prefix or all; an environment; and perhaps a
// least level of trust, a data label, a number that an argument must exceed
// and a keyword. The first rule that matches decides. Two parts of that are
// not in every peer's language, and got the nearest that is exact:
//
//   - A keyword is found in any text of the call, at any depth, in upper or
//     lower case, and never across two texts. Cedar and CEL cannot walk through
//     a tree, and Cedar knows no lower case. All peers therefore get the texts
//     in lower case, one to a line, as an input of their own, if any rule has a
//     keyword. Holdpoint makes them while it decides.
//   - Cedar has no order of policies. All rules are permits, Authorize names
//     those that hold, and the first of them decides.
//
// The keywords are found in no number and no boolean, which Holdpoint searches
// too, and numbers are whole, as Cedar's are.
package peers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"holdpoint/engine"
)

// rule is the one description that is translated for every engine. Empty
// fields are no condition.
type rule struct {
	id          string
	tool        string // exact, or a prefix and "*"
	environment string
	trust       string // the least level
	label       string
	argument    string // has to be a number above
	above       int
	word        string // lower case
	allow       bool
}

// prefix is what the tool's name has to begin with, unless it is exact.
func (r *rule) prefix() (string, bool) { return strings.CutSuffix(r.tool, "*") }

// call is what is decided: Agent-SPM's CheckToolCallParams.
type call struct {
	Tool        string         `json:"toolName"`
	Args        map[string]any `json:"toolArgs"`
	Agent       string         `json:"agentId"`
	Environment string         `json:"environment"`
	Trust       string         `json:"trustLevel,omitempty"`
	Labels      []string       `json:"dataLabels"`
	Input       string         `json:"userInput,omitempty"`
}

func (c *call) json(tb testing.TB) []byte {
	tb.Helper()
	body, err := json.Marshal(c)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

// trust is the level's number, and -1 for a call that names none.
func trust(level string) int { return slices.Index(engine.TrustLevels(), level) }

// text is every text of the call in lower case, one to a line.
func (c *call) text() string {
	var w strings.Builder
	w.WriteString(strings.ToLower(c.Input))
	leaves(&w, c.Args)
	return w.String()
}

func leaves(w *strings.Builder, v any) {
	switch v := v.(type) {
	case string:
		w.WriteByte('\n')
		w.WriteString(strings.ToLower(v))
	case []any:
		for _, e := range v {
			leaves(w, e)
		}
	case map[string]any:
		for _, m := range v {
			leaves(w, m)
		}
	}
}

// first is the meaning of the rules, written down plainly: what every engine is
// held against. It is the id of the rule that decides, or "".
func first(rules []rule, c *call) string {
	text := c.text()
	for i := range rules {
		r := &rules[i]
		prefix, open := r.prefix()
		amount, isNumber := c.Args[r.argument].(float64)
		switch {
		case open && !strings.HasPrefix(c.Tool, prefix), !open && c.Tool != r.tool:
		case r.environment != "" && c.Environment != r.environment:
		case trust(c.Trust) < trust(r.trust):
		case r.label != "" && !slices.Contains(c.Labels, r.label):
		case r.argument != "" && !(isNumber && amount > float64(r.above)):
		case !strings.Contains(text, r.word):
		default:
			return r.id
		}
	}
	return ""
}

var (
	words  = []string{"broken", "bulk export", "wire transfer", "password", "photos"}
	labels = []string{"PII", "PCI", "PHI", "public"}
)

func name(i int) string { return fmt.Sprintf("tool_%d", i) }

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// chance is true once in n times.
func chance(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// mixed is n rules of every kind for n/5 tools.
func mixed(seed uint64, n int) []rule {
	random := rand.New(rand.NewPCG(seed, 1))
	rules := make([]rule, n)
	for i := range rules {
		r := rule{id: fmt.Sprintf("r%d", i), tool: name(random.IntN(n / 5)), allow: chance(random, 2)}
		switch random.IntN(12) {
		case 0:
			r.tool, r.label = "*", pick(random, labels)
			r.argument, r.above = "amount", 800+50*random.IntN(8)
		case 1, 2:
			r.tool = r.tool[:len("tool_1")] + "*"
		}
		if chance(random, 2) {
			r.environment = "prod"
		}
		if chance(random, 3) {
			r.trust = pick(random, engine.TrustLevels()[1:])
		}
		if chance(random, 3) {
			r.label = pick(random, labels)
		}
		if chance(random, 2) && r.argument == "" {
			r.argument, r.above = "amount", 100*random.IntN(10)
		}
		if chance(random, 2) {
			r.word = pick(random, words)
		}
		rules[i] = r
	}
	return rules
}

// random is a call that rules of mixed may match, or nearly.
func random(seed uint64, tools int) *call {
	random := rand.New(rand.NewPCG(seed, 2))
	c := kilobyte(name(random.IntN(tools + 1)))
	c.Environment = pick(random, []string{"prod", "prod", "dev"})
	c.Trust = pick(random, append(engine.TrustLevels(), ""))
	c.Labels = []string{}
	for _, label := range labels {
		if chance(random, 3) {
			c.Labels = append(c.Labels, label)
		}
	}
	switch random.IntN(6) {
	case 0:
		delete(c.Args, "amount")
	case 1:
		c.Args["amount"] = "900" // a text is no number
	default:
		c.Args["amount"] = 50 * random.IntN(24)
	}
	c.Args["reason"] = pick(random, []string{"Bulk export", "a WIRE transfer", "wire", "nothing of the kind"})
	c.Args["history"] = []any{"transfer", pick(random, []string{"Password reset", "pass", "as before"}), true}
	if chance(random, 2) {
		c.Input = "Fine as it was, and no pictures."
	}
	return c
}

// kilobyte is a call of a tool with about 1 KB of arguments.
func kilobyte(tool string) *call {
	line := func(sku, note string, quantity int) any {
		return map[string]any{"sku": sku, "quantity": quantity, "note": note}
	}
	return &call{
		Tool: tool, Agent: "agent-billing-7", Environment: "prod", Trust: "verified", Labels: []string{"PII"},
		Input: "Please refund the broken parts of my last order, the Photos are attached.",
		Args: map[string]any{
			"payment": "pay_881", "amount": 12995, "currency": "EUR", "notify": true,
			"reason": "Damaged on arrival, the customer sent pictures of the parcel and of what was in it.",
			"lines": []any{
				line("A-100", "blue, size M, the box was open on one side", 1),
				line("B-205", "replacement is out of stock until May, ask for a colour", 2),
				line("C-310", "gift wrap was paid for and has to be refunded as well", 1),
			},
			"address": map[string]any{"name": "Jo Doe", "street": "1 Example Street", "city": "Springfield", "zip": "12345", "country": "US"},
			"history": []any{"ordered on the 3rd", "shipped on the 4th", "delivered on the 9th", "complaint on the 10th"},
			"message": "Dear Jo, we are sorry that your order did not arrive as it should have. The amount goes back to the card that you paid with, " +
				"which takes up to five days. You may keep the parts, or send them back at our expense with the label that comes with this message. " +
				"If there is anything else that we can do for you, write to us or call between nine and five.",
		},
	}
}
