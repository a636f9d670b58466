// Package policies holds the example policies, one for each setting, with their
// tool contracts and tests, and makes of them the policy that a new "holdpoint
// dev" starts with. It reads nothing but what is compiled into it.
package policies

import (
	"bytes"
	"embed"
	"fmt"
	"strings"
	"text/template"
	"time"

	"holdpoint/engine/policy"
	"holdpoint/engine/registry"
)

// FS holds, for each of Names, a folder with policy.yaml, contracts.yaml,
// tests.yaml and README.md.
//
//go:embed payments production support coding suppliers
var FS embed.FS

// Names are the settings.
func Names() []string { return append(inDev(), "suppliers") }

// inDev are those of which Dev takes the rules, in their order. The others need
// people or calendars that a new data directory has not.
func inDev() []string { return []string{"payments", "production", "support", "coding"} }

// devHeader is the beginning of Dev's bundle.
var devHeader = template.Must(template.New("policy").Parse(`# The policy of this data directory: which calls may run at once, which wait for
# whom, and which never run. Edit it: "holdpoint dev" takes a changed file over
# within a second, if it is free of mistakes and its version is not below the one
# in force. Before you save:
#
#   holdpoint policy check policy.yaml
#   holdpoint policy explain policy.yaml --tool issue_refund --args '{"amount": 1200}'
#
# The first rule that matches decides. The rules below are those of
# examples/policies: payments, production, support and coding.
version: "1"
generated_at: "{{.Generated}}"
expires_at: "{{.Expires}}"

# A tool that no rule knows is looked at by somebody, so that every tool can be
# tried here. Where agents do real work, DENY is often the better default.
defaults:
  outcome: REQUIRE_APPROVAL

rules:
  # A tool execution request runs only once a person has approved it, whatever
  # the policy allows. A rule of yours may ask for more, or refuse some.
  - id: tool-requests
    description: A tool execution request always needs a person.
    match:
      tool_name: tool-exec
      environment: "*"
    outcome: ALLOW
{{range .Parts}}
  # ---- {{.Name}} ----

{{.Rules}}{{end}}
  # ---- every other tool ----

  # What an administrator has registered with a category ("holdpoint tool set") is
  # judged by the Agent Action Contract: reads run, writes need a confirmation. What
  # a call says of itself counts for nothing here: a tool that nobody has registered
  # has no category, and ends at the default above.
  - id: registered-tools
    description: The tool is registered, and judged by its category.
    match:
      tool_name: "*"
      environment: "*"
      tool_category: [public_read, private_read, write]
    outcome: ALLOW
`))

// Tools are those of which a new "holdpoint dev" knows what they do, so that the
// first calls of a newcomer's agent find an answer.
func Tools() []registry.Tool {
	return []registry.Tool{
		{Name: "get_public_info", Category: "public_read", RiskDomain: "public_information"},
		{Name: "search_docs", Category: "public_read"},
		{Name: "show_page", Category: "public_read"},
		{Name: "get_recent_items", Category: "private_read"},
		{Name: "get_recent_transactions", Category: "private_read", RiskDomain: "finance"},
		{Name: "send_payment", Category: "write", RiskDomain: "finance", SideEffects: true},
		{Name: "update_note", Category: "write", SideEffects: true},
	}
}

// years is how long Dev's bundle lives.
const years = 10

// Dev is the bundle that "holdpoint dev" puts into a new data directory: the
// rules of all examples with their comments, made at now. An error is a mistake
// in the examples.
func Dev(now time.Time) ([]byte, error) {
	type part struct{ Name, Rules string }
	now = now.UTC().Truncate(time.Second)
	data := struct {
		Generated, Expires string
		Parts              []part
	}{now.Format(time.RFC3339), now.AddDate(years, 0, 0).Format(time.RFC3339), nil}
	for _, name := range inDev() {
		text, err := FS.ReadFile(name + "/policy.yaml")
		if err != nil {
			return nil, fmt.Errorf("read the example policy %s: %w", name, err)
		}
		_, rules, ok := strings.Cut(string(text), "\nrules:\n")
		if !ok {
			return nil, fmt.Errorf("the example policy %s has no rules", name)
		}
		data.Parts = append(data.Parts, part{name, rules})
	}
	var out bytes.Buffer
	if err := devHeader.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("put the example policies together: %w", err)
	}
	if _, problems := policy.Load(out.Bytes(), policy.Options{File: "policy.yaml", Now: now}); len(problems) > 0 {
		return nil, fmt.Errorf("the example policies do not go together: %s", problems[0])
	}
	return out.Bytes(), nil
}
