package threegate_test

import (
	"strings"
	"time"

	"holdpoint/engine/dialect/threegate"
)

// now is the time at which all tests judge.
var now = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

const (
	hashA = "1c6d4b4f0f1f0cd03b4b7f1ad4a7b3f0a8f0d0d1a2b3c4d5e6f708192a3b4c5d"
	hashB = "aa00bb11cc22dd33ee44ff5566778899aa00bb11cc22dd33ee44ff5566778899"
)

// document is a valid request; its lines are counted in the tables of rules.
const document = `---
request_type: tool_request
schema_version: 1
request_id: "TR-20260503-081500Z-water"
created_utc: "2026-05-03T08:15:00Z"
requested_by: "core_draft"
approved_by: "mara.lind@example.org"
approved_utc: "2026-05-03T09:00:00Z"
purpose: "Average the water levels of each station."
language: "python"
network: "none"
network_allowlist: []
cpu_limit: "2"
memory_limit_mb: 512
time_limit_sec: 60
inputs:
  - name: "levels.csv"
    sha256: "` + hashA + `"
  - name: "code/average.py"
    sha256: "` + hashB + `"
outputs_expected:
  - path: "averages.csv"
    description: "One row for each station."
constraints:
  - "No network"
---

## Command

python -u /in/code/average.py --in /in/levels.csv --out /out/averages.csv

## Input Files

- /in/levels.csv sha256: ` + hashA + `
- /in/code/average.py sha256: ` + hashB + `

## Output Expectations

- /out/averages.csv

## Risk Assessment

- Risk level: low
- Justification: Arithmetic over one table that is not changed.
- Data sensitivity: internal
- Network rationale: none
`

const (
	commandText = "python -u /in/code/average.py --in /in/levels.csv --out /out/averages.csv"
	commandLine = 30
)

// tester is what the helpers need of a test, be it testing's or rapid's.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// change replaces the one place where old stands in the document.
func change(tb tester, old, replacement string) string {
	tb.Helper()
	return changeIn(tb, document, old, replacement)
}

func changeIn(tb tester, doc, old, replacement string) string {
	tb.Helper()
	if strings.Count(doc, old) != 1 {
		tb.Fatalf("%q stands in the document %d times", old, strings.Count(doc, old))
	}
	return strings.Replace(doc, old, replacement, 1)
}

// command gives the document another command that names the same files.
func command(tb tester, text string) string { return change(tb, commandText, text) }

// online makes a document that may use the network.
func online(tb tester, hosts, rationale string) string {
	doc := change(tb, "network: \"none\"\nnetwork_allowlist: []", "network: allowlist\nnetwork_allowlist: "+hosts)
	return changeIn(tb, doc, "Network rationale: none", "Network rationale: "+rationale)
}

// draft is the document without its approval.
func draft(tb tester) string {
	return change(tb, "approved_by: \"mara.lind@example.org\"\napproved_utc: \"2026-05-03T09:00:00Z\"\n", "")
}

func check(doc string) threegate.Report { return threegate.Judge([]byte(doc), now) }

func wantValid(tb tester, name, doc string) {
	tb.Helper()
	if got := check(doc); !got.Valid {
		tb.Errorf("%s: want valid, got %v", name, got.Violations)
	}
}

func wantRule(tb tester, name, doc, rule string, line int) {
	tb.Helper()
	got := check(doc)
	for _, v := range got.Violations {
		if v.Rule == rule && (v.Line == line || line < 0) {
			return
		}
	}
	tb.Errorf("%s: want %s on line %d, got %v", name, rule, line, got.Violations)
}
