package policy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/spm"
	"holdpoint/engine/policy"
)

// now is the time at which tests judge.
var now = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

func parse(t testing.TB, text string) canon.Value {
	t.Helper()
	v, err := canon.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}

// requestOf is a request with these members of agent, action and context.
func requestOf(agent, action, context string) string {
	return `{"agent": {` + agent + `}, "action": {` + action + `}, "context": {` + context + `}}`
}

// Every sentence of the specification on matching, one rule at a time.
func TestMatching(t *testing.T) {
	tool := func(name string) string { return requestOf(`"environment":"prod"`, `"tool_name":"`+name+`"`, "") }
	env := func(name string) string { return requestOf(`"environment":"`+name+`"`, `"tool_name":"t"`, "") }
	agent := func(more string) string { return requestOf(`"environment":"prod"`+more, `"tool_name":"t"`, "") }
	provider := func(identity string) string {
		return requestOf(`"environment":"prod"`, `"tool_name":"t","tool_identity":`+identity, "")
	}
	args := func(args string) string {
		return requestOf(`"environment":"prod"`, `"tool_name":"t","tool_args":`+args, "")
	}
	text := func(input, args string) string {
		return requestOf(`"environment":"prod"`, `"tool_name":"t","tool_args":`+args, `"user_input":"`+input+`"`)
	}
	labels := func(list string) string {
		return requestOf(`"environment":"prod"`, `"tool_name":"t"`, `"data_labels":`+list)
	}
	match := func(toolName, more string) string {
		return `{"id":"r","description":"d","match":{"tool_name":` + toolName + `,"environment":"*"` + more + `},"outcome":"ALLOW"}`
	}
	in := func(environment string) string {
		return `{"id":"r","description":"d","match":{"tool_name":"*","environment":"` + environment + `"},"outcome":"ALLOW"}`
	}
	when := func(text string) string { return ruleOf("r", "", text, "") }
	for _, tt := range []struct {
		name, rule, request string
		want                bool
	}{
		{"star", match(`"*"`, ""), tool("x"), true},
		{"star and no name", match(`"*"`, ""), tool(""), true},
		{"prefix", match(`"query_*"`, ""), tool("query_db"), true},
		{"prefix alone", match(`"query_*"`, ""), tool("query_"), true},
		{"prefix too short", match(`"query_*"`, ""), tool("query"), false},
		{"prefix of another case", match(`"query_*"`, ""), tool("Query_db"), false},
		{"no suffix", match(`"*_db"`, ""), tool("my_db"), false},
		{"suffix is literal", match(`"*_db"`, ""), tool("*_db"), true},
		{"no infix", match(`"a*b"`, ""), tool("axb"), false},
		{"two stars", match(`"**"`, ""), tool("*x"), true},
		{"two stars need one", match(`"**"`, ""), tool("x"), false},
		{"no trimming", match(`"a"`, ""), tool(" a"), false},
		{"array", match(`["a","b"]`, ""), tool("b"), true},
		{"array has no prefix", match(`["a*"]`, ""), tool("ab"), false},
		{"array has no star", match(`["*"]`, ""), tool("a"), false},
		{"array's star is literal", match(`["*"]`, ""), tool("*"), true},
		{"empty array", match(`[]`, ""), tool(""), false},
		{"empty name", match(`""`, ""), tool(""), true},
		{"name twice", match(`["a","a"]`, ""), tool("a"), true},
		{"environment", in("prod"), env("prod"), true},
		{"environment of another case", in("prod"), env("Prod"), false},
		{"environment has no prefix", in("prod*"), env("prod-eu"), false},
		{"environment empty", in(""), env(""), true},
		{"environment missing", in(""), requestOf("", "", ""), true},

		{"type", match(`"*"`, `,"agent_type":"x"`), agent(`,"agent_type":"x"`), true},
		{"type in array", match(`"*"`, `,"agent_type":["y","x"]`), agent(`,"agent_type":"x"`), true},
		{"other type", match(`"*"`, `,"agent_type":["y"]`), agent(`,"agent_type":"x"`), false},
		{"type missing", match(`"*"`, `,"agent_type":["x"]`), agent(""), false},
		{"no type wanted", match(`"*"`, `,"agent_type":""`), agent(""), true},
		{"null type wanted", match(`"*"`, `,"agent_type":null`), agent(`,"agent_type":"x"`), true},
		{"no types", match(`"*"`, `,"agent_type":[]`), agent(`,"agent_type":"x"`), false},
		{"empty type in array", match(`"*"`, `,"agent_type":[""]`), agent(`,"agent_type":""`), false},
		{"provider", match(`"*"`, `,"tool_provider":"mcp"`), provider(`{"provider":"mcp"}`), true},
		{"provider missing", match(`"*"`, `,"tool_provider":"mcp"`), provider(`{}`), false},
		{"no identity", match(`"*"`, `,"tool_provider":["mcp"]`), tool("t"), false},
		{"trust equal", match(`"*"`, `,"trust_level_min":"basic"`), agent(`,"trust_level":"basic"`), true},
		{"trust higher", match(`"*"`, `,"trust_level_min":"basic"`), agent(`,"trust_level":"system"`), true},
		{"trust lower", match(`"*"`, `,"trust_level_min":"verified"`), agent(`,"trust_level":"basic"`), false},
		{"trust missing", match(`"*"`, `,"trust_level_min":"untrusted"`), agent(""), false},
		{"trust unknown", match(`"*"`, `,"trust_level_min":"untrusted"`), agent(`,"trust_level":"god"`), false},
		{"no trust wanted", match(`"*"`, `,"trust_level_min":""`), agent(""), true},
		{"role", match(`"*"`, `,"agent_roles_any":["a","b"]`), agent(`,"roles":["c","b"]`), true},
		{"no role", match(`"*"`, `,"agent_roles_any":["a"]`), agent(`,"roles":["A"]`), false},
		{"roles missing", match(`"*"`, `,"agent_roles_any":["a"]`), agent(""), false},
		{"no roles wanted", match(`"*"`, `,"agent_roles_any":[]`), agent(""), true},
		{"an empty type", match(`"*"`, `,"agent_type":[""]`), agent(`,"agent_type":""`), false},
		{"no category", match(`"*"`, `,"tool_category":"write"`), agent(""), false},
		{"not registered", match(`"*"`, `,"tool_registered":false`), agent(""), true},
		{"registered", match(`"*"`, `,"tool_registered":true`), agent(""), false},
		{"unknown key", match(`"*"`, `,"else":1`), agent(""), true},

		{"word", when(`"contains_any":["Export"]`), text("", `{"a":"EXPORT it"}`), true},
		{"word in input", when(`"contains_any":["export"]`), text("export", `{}`), true},
		{"word not in key", when(`"contains_any":["export"]`), text("", `{"export":"x"}`), false},
		{"word not in tool", when(`"contains_any":["t"]`), tool("t"), false},
		{"word not over values", when(`"contains_any":["a b"]`), text("", `{"x":"a","y":"b"}`), false},
		{"word in a value", when(`"contains_any":["a b"]`), text("", `{"x":["a b"]}`), true},
		{"number", when(`"contains_any":["1e+21"]`), text("", `{"x":1e21}`), true},
		{"boolean", when(`"contains_any":["TRUE"]`), text("", `{"x":true}`), true},
		{"null is no value", when(`"contains_any":["null"]`), text("", `{"x":null}`), false},
		{"empty word and values", when(`"contains_any":[""]`), text("", `{"x":0}`), true},
		{"empty word, no values", when(`"contains_any":[""]`), text("", `{"x":[null,{}]}`), false},
		{"no words", when(`"contains_any":[]`), text("", `{}`), true},
		{"final sigma", when(`"contains_any":["ΣΑΣ"]`), text("", `{"x":"σας"}`), true},
		{"dotted I", when(`"contains_any":["i"]`), text("", `{"x":"İ"}`), true},
		{"forbidden word", when(`"not_contains":["x"]`), text("", `{"a":"aXa"}`), false},
		{"forbidden empty word", when(`"not_contains":[""]`), text("", `{"a":"x"}`), false},
		{"forbidden empty word, no values", when(`"not_contains":[""]`), text("", `{}`), true},
		{"nothing forbidden", when(`"not_contains":[]`), text("", `{"a":"x"}`), true},
		{"regex over values", when(`"matches_regex":"^in a b$"`), text("IN", `{"x":"a","y":["b"]}`), true},
		{"regex over indices", when(`"matches_regex":"^two ten z a$"`), text("", `{"z":"z","10":"ten","a":"a","2":"two"}`), true},
		{"keys that are no index", when(`"matches_regex":"^y x z$"`), text("", `{"01":"y","4294967295":"x","-1":"z"}`), true},
		{"largest index", when(`"matches_regex":"^i z$"`), text("", `{"z":"z","4294967294":"i"}`), true},
		{"regex on nothing", when(`"matches_regex":"^$"`), text("", `{}`), true},
		{"no regex", when(`"matches_regex":""`), text("", `{}`), true},
		{"label", when(`"data_labels_any":["PII","x"]`), labels(`["y","PII"]`), true},
		{"label of another case", when(`"data_labels_any":["PII"]`), labels(`["pii"]`), false},
		{"no labels", when(`"data_labels_any":["PII"]`), labels(`[]`), false},
		{"no labels wanted", when(`"data_labels_any":[]`), labels(`[]`), true},

		{"equal", when(`"tool_args_match":{"a":1}`), args(`{"a":1}`), true},
		{"text is no number", when(`"tool_args_match":{"a":5}`), args(`{"a":"5"}`), false},
		{"number is no boolean", when(`"tool_args_match":{"a":true}`), args(`{"a":1}`), false},
		{"null", when(`"tool_args_match":{"a":null}`), args(`{"a":null}`), true},
		{"missing is not null", when(`"tool_args_match":{"a":null}`), args(`{}`), false},
		{"top level only", when(`"tool_args_match":{"b":1}`), args(`{"a":{"b":1}}`), false},
		{"key of another case", when(`"tool_args_match":{"A":1}`), args(`{"a":1}`), false},
		{"no keys", when(`"tool_args_match":{}`), args(`{}`), true},
		{"gt", when(`"tool_args_match":{"a":{"gt":1}}`), args(`{"a":1.5}`), true},
		{"gt equal", when(`"tool_args_match":{"a":{"gt":1}}`), args(`{"a":1}`), false},
		{"gte", when(`"tool_args_match":{"a":{"gte":1}}`), args(`{"a":1}`), true},
		{"lt", when(`"tool_args_match":{"a":{"lt":1}}`), args(`{"a":1}`), false},
		{"lte", when(`"tool_args_match":{"a":{"lte":1}}`), args(`{"a":1}`), true},
		{"lte null", when(`"tool_args_match":{"a":{"lte":1}}`), args(`{"a":null}`), false},
		{"lte missing", when(`"tool_args_match":{"a":{"lte":1}}`), args(`{}`), false},
		{"lte text", when(`"tool_args_match":{"a":{"lte":1}}`), args(`{"a":"0"}`), false},
		{"lte false", when(`"tool_args_match":{"a":{"lte":1}}`), args(`{"a":false}`), false},
		{"range", when(`"tool_args_match":{"a":{"gt":1,"lt":3}}`), args(`{"a":2}`), true},
		{"out of range", when(`"tool_args_match":{"a":{"gt":1,"lt":3}}`), args(`{"a":3}`), false},
		{"eq", when(`"tool_args_match":{"a":{"eq":"x"}}`), args(`{"a":"x"}`), true},
		{"eq another type", when(`"tool_args_match":{"a":{"eq":"1"}}`), args(`{"a":1}`), false},
		{"eq null", when(`"tool_args_match":{"a":{"eq":null}}`), args(`{"a":null}`), true},
		{"eq null missing", when(`"tool_args_match":{"a":{"eq":null}}`), args(`{}`), false},
		{"eq array", when(`"tool_args_match":{"a":{"eq":[1]}}`), args(`{"a":[1]}`), false},
		{"neq", when(`"tool_args_match":{"a":{"neq":"x"}}`), args(`{"a":"y"}`), true},
		{"neq missing", when(`"tool_args_match":{"a":{"neq":"x"}}`), args(`{}`), true},
		{"neq null missing", when(`"tool_args_match":{"a":{"neq":null}}`), args(`{}`), true},
		{"neq array", when(`"tool_args_match":{"a":{"neq":[1]}}`), args(`{"a":[1]}`), true},
		{"deep array", when(`"tool_args_match":{"a":[1,{"b":2}]}`), args(`{"a":[1,{"b":2}]}`), true},
		{"deep array in another order", when(`"tool_args_match":{"a":[1,2]}`), args(`{"a":[2,1]}`), false},
		{"deep object", when(`"tool_args_match":{"a":{"x":1,"y":2}}`), args(`{"a":{"y":2,"x":1}}`), true},
		{"deep object with more", when(`"tool_args_match":{"a":{"x":1}}`), args(`{"a":{"y":2,"x":1}}`), false},
		{"deep object missing", when(`"tool_args_match":{"a":{}}`), args(`{}`), false},
		{"empty object", when(`"tool_args_match":{"a":{}}`), args(`{"a":{}}`), true},
		{"all conditions", when(`"tool_args_match":{"a":1},"contains_any":["2"]`), args(`{"a":1}`), false},
	} {
		b := load(t, bundleOf(tt.rule))
		r := spm.RequestOf(parse(t, tt.request))
		d := b.Decide(r, now)
		if got := d.Rule == "r"; got != tt.want {
			t.Errorf("%s: matched is %v, want %v\n%s\n%s", tt.name, got, tt.want, tt.rule, tt.request)
		}
		if e := b.Explain(r, now); e.Rules[0].Matched != tt.want {
			t.Errorf("%s: explained as %v", tt.name, e.Rules[0])
		}
	}
}

func TestDecisionJSON(t *testing.T) {
	for _, tt := range []struct{ more, want string }{
		{``, `{"outcome":"ALLOW","reasons":[{"code":"r","message":"d"}]}`},
		{`,"approver_role":"","constraints":{}`, `{"outcome":"ALLOW","reasons":[{"code":"r","message":"d"}],"constraints":{}}`},
		{`,"approver_role":null,"constraints":null`, `{"outcome":"ALLOW","reasons":[{"code":"r","message":"d"}]}`},
		{`,"approver_role":"x","constraints":{"b":1,"a":[]}`, `{"outcome":"ALLOW","reasons":[{"code":"r","message":"d"}],"approver_role":"x","constraints":{"a":[],"b":1}}`},
	} {
		d := load(t, bundleOf(ruleOf("r", "", "", tt.more))).Decide(&policy.Request{}, now)
		if got, err := json.Marshal(d); err != nil || string(got) != tt.want {
			t.Errorf("got %s %v, want %s", got, err, tt.want)
		}
	}
	d := load(t, bundleOf()).Decide(&policy.Request{}, now)
	want := `{"outcome":"DENY","reasons":[{"code":"DEFAULT_DENY","message":"No specific rule matched; applying default policy (DENY)"}]}`
	if got, _ := json.Marshal(d); string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The rule decides what is approved by whom, and the decision says so.
func TestDecisionApproval(t *testing.T) {
	b := load(t, bundleOf(ruleOf("r", "", "", `, "outcome":"REQUIRE_APPROVAL","approval":{"groups":[{"role":"finance","needed":2}],"within":"30m","expires_in":"4h","escalation":[{"after":"15m","role":"manager"}]}`)))
	got, err := json.Marshal(b.Decide(&policy.Request{}, now).Approval)
	if want := `{"groups":[{"role":"finance","needed":2}],"within":"30m0s","expires_in":"4h0m0s","escalation":[{"after":"15m0s","role":"manager"}]}`; err != nil || string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if roles := strings.Join(b.Roles(), " "); roles != "finance manager" {
		t.Errorf("got roles %s", roles)
	}
}

func TestExpired(t *testing.T) {
	b := load(t, bundleOf(ruleOf("r", "", "", "")))
	for after, want := range map[time.Duration]string{-1: "r", 0: policy.CodeExpired, 1: policy.CodeExpired} {
		d := b.Decide(&policy.Request{}, b.ExpiresAt.Add(after))
		if d.Reasons[0].Code != want || (d.Outcome == engine.Allow) != (want == "r") {
			t.Errorf("%v after the end: got %+v, want %s", after, d, want)
		}
		if e := b.Explain(&policy.Request{}, b.ExpiresAt.Add(after)); e.Expired != (want != "r") {
			t.Errorf("%v after the end: explained as %+v", after, e)
		}
	}
}

// Too much text is refused, whether the rule would allow or deny, but only if
// a rule has to look at it.
func TestTextTooLong(t *testing.T) {
	long := canon.Object(canon.Member{Name: "a", Value: canon.String(strings.Repeat("x", 900_000))})
	request := &policy.Request{Tool: "t", Args: long, Environment: "prod"}
	slow := `"matches_regex": "^[a-m]+[n-z]+$"`
	for _, tt := range []struct {
		name  string
		rules []string
		want  string
	}{
		{"ALLOW", []string{ruleOf("r", "", slow, "")}, policy.CodeTextTooLong},
		{"DENY", []string{ruleOf("r", "", slow, `, "outcome":"DENY"`), ruleOf("s", "", "", "")}, policy.CodeTextTooLong},
		{"behind the match", []string{ruleOf("s", "", "", ""), ruleOf("r", "", slow, "")}, "s"},
		{"another type", []string{ruleOf("r", `,"agent_type":"x"`, slow, ""), ruleOf("s", "", "", "")}, "s"},
		{"another argument", []string{ruleOf("r", "", slow+`,"tool_args_match":{"b":1}`, ""), ruleOf("s", "", "", "")}, "s"},
		{"words", []string{ruleOf("r", "", `"contains_any":["y"]`, ""), ruleOf("s", "", "", "")}, "s"},
	} {
		b := load(t, bundleOf(tt.rules...))
		if d := b.Decide(request, now); d.Reasons[0].Code != tt.want || d.Outcome == engine.Allow && tt.want == policy.CodeTextTooLong {
			t.Errorf("%s: got %+v, want %s", tt.name, d, tt.want)
		}
		if e := b.Explain(request, now); e.Decision.Reasons[0].Code != tt.want {
			t.Errorf("%s: explained as %+v", tt.name, e.Decision)
		}
	}
	// Many words cost a bounded time, too.
	words := make([]string, 40_000)
	for i := range words {
		words[i] = `"` + strings.Repeat("x", 3) + string(rune('a'+i%20)) + `y"`
	}
	b := load(t, bundleOf(ruleOf("r", "", `"contains_any":[`+strings.Join(words, ",")+`]`, "")))
	if d := b.Decide(request, now); d.Reasons[0].Code != policy.CodeTextTooLong {
		t.Errorf("many words: got %+v", d)
	}
}

// Explanations never hold a value of the call's arguments, input or labels.
func TestExplainHoldsNoValue(t *testing.T) {
	b := load(t, bundleOf(ruleOf("r", `,"agent_type":"x","agent_roles_any":["role"]`,
		`"contains_any":["word"],"not_contains":["other"],"matches_regex":"expr","data_labels_any":["label"],"tool_args_match":{"a":"b","n":{"gt":5,"neq":"q"},"o":{"x":1}}`, "")))
	r := spm.RequestOf(parse(t, requestOf(`"environment":"prod","roles":["canary"]`, `"tool_name":"t","tool_args":{"a":"canary","n":"canary","o":["canary"]}`, `"user_input":"canary","data_labels":["canary"]`)))
	text, err := json.Marshal(b.Explain(r, now))
	if err != nil || strings.Contains(string(text), "canary") {
		t.Errorf("got %s %v", text, err)
	}
	for _, want := range []string{"The argument \\\"n\\\" is a string, and only a number can be greater than 5", "not said; wanted is \\\"x\\\"", "holds none of the words \\\"word\\\""} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got %s, want it to say %s", text, want)
		}
	}
}
