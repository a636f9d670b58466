package threegate_test

import (
	"strings"
	"testing"
)

// TestAccepts: what the rules allow is not refused for the way it is written.
func TestAccepts(t *testing.T) {
	wantValid(t, "the document", document)
	for _, edit := range [][2]string{
		// YAML's other spellings.
		{`request_type: tool_request`, `request_type: "tool_request"`},
		{`request_type: tool_request`, `'request_type': 'tool_request'`},
		{`schema_version: 1`, `schema_version:    1   # the only one`},
		{`created_utc: "2026-05-03T08:15:00Z"`, `created_utc: 2026-05-03T08:15:00Z`},
		{`approved_utc: "2026-05-03T09:00:00Z"`, "approved_utc:\n  2026-05-03T09:00:00Z"},
		{`purpose: "Average the water levels of each station."`, "purpose: >-\n  Average the water\n  levels of each station."},
		{`purpose: "Average the water levels of each station."`, "purpose: |-\n  Average the water levels of each station."},
		{`purpose: "Average the water levels of each station."`, "purpose: Average the water\n  levels of each station."},
		{`purpose: "Average the water levels of each station."`, "purpose: \"Average the water\n  levels of each \\\n  station.\""},
		{`purpose: "Average the water levels of each station."`, `purpose: 'The station''s levels: an average'`},
		{`purpose: "Average the water levels of each station."`, `purpose: "Pegelst\u00e4nde – größer als 3 m (Donau)"`},
		{`purpose: "Average the water levels of each station."`, `purpose: "` + strings.Repeat("ä", 500) + `"`},
		{"constraints:\n  - \"No network\"", "constraints: [\"No network\", 'No writes outside /out',\n  no shell]  # three"},
		{"constraints:\n  - \"No network\"", "constraints:\n- No network\n- No writes outside /out"},
		{"constraints:\n  - \"No network\"", "# a comment\n\nconstraints:\n    # another\n    - No network\n\n    - >\n      Keep to\n      the limits"},
		{"  - path: \"averages.csv\"\n    description: \"One row for each station.\"", "  - {path: averages.csv, description: \"One row, no more\"}"},
		{"  - path: \"averages.csv\"\n    description: \"One row for each station.\"", "  -\n    description: One row\n    path: /out/averages.csv"},
		{"outputs_expected:\n  - path: \"averages.csv\"\n    description: \"One row for each station.\"", "outputs_expected: [ {\"path\":\"averages.csv\",\"description\":\"x\"}, ]"},
		{"network_allowlist: []\n", ""},
		{"network_allowlist: []", "network_allowlist: [\n]"},
		{`cpu_limit: "2"`, `cpu_limit: '0.25'`},
		// Values.
		{`requested_by: "core_draft"`, `requested_by: human`},
		{`request_id: "TR-20260503-081500Z-water"`, `request_id: w.1_a-B`},
		{`approved_by: "mara.lind@example.org"`, `approved_by: Zoë Müller-Ortíz (ops)`},
		{`approved_by: "mara.lind@example.org"`, `approved_by: agent.smith`},
		{`approved_utc: "2026-05-03T09:00:00Z"`, `approved_utc: "2026-05-03T08:15:00Z"`},
		{`approved_utc: "2026-05-03T09:00:00Z"`, `approved_utc: "2026-05-04T10:00:00Z"`},
		{`memory_limit_mb: 512`, `memory_limit_mb: 1`},
		// The command.
		{commandText, `python3 /in/code/average.py --title "Q1: level, mean" --in=/in/levels.csv --out='/out/averages.csv'`},
		{commandText, `python -m json.tool --indent 2 /in/levels.csv /out/averages.csv`},
		{commandText, `python -W ignore -X dev /in/code/average.py`},
		{commandText, `python average.py --rate .5 --ext .csv --span 2026-01-01/2026-02-01 --mode a/b`},
		{commandText, commandText + "   "},
		// Prose.
		{"Arithmetic over one table that is not changed.", "Mean and/or median; input/output stay in /in and /out. See /out/averages.csv."},
		{"Arithmetic over one table that is not changed.", "Uses packages already installed in the image; no package installation."},
		{"Arithmetic over one table that is not changed.", "Does not install anything... needs 1/2 of an hour, CSV / JSON, n/a."},
		{"Arithmetic over one table that is not changed.", "Counts app installs per country and the tokens of each text."},
		{"Arithmetic over one table that is not changed.", "No privileged access; no password or token is used. Password: none."},
		{"Arithmetic over one table that is not changed.", "Do not download or install packages. Software installation is not allowed."},
		{"Arithmetic over one table that is not changed.", "Never pip install anything; runs on data/Results2025/FinalReportOfTheYear.csv."},
		{"Arithmetic over one table that is not changed.", "Arithmetic over one\n  table: nothing is changed, AT&T & R&D; a < b > c."},
		{"Arithmetic over one table that is not changed.", "Tool usage by installing team."},
		{"Arithmetic over one table that is not changed.", "Meters read by installing crews and by\n  installing companies; no other."},
		{"- /in/levels.csv sha256: ", "The rows of /in/levels.csv are one each.\n\n- /in/levels.csv sha256: "},
		{"- Network rationale: none", "- Network rationale:"},
		{"- Network rationale: none", "* Network rationale: none"},
		{"- Risk level: low", "**Risk level:** medium"},
		{"- Data sensitivity: internal", "  Data sensitivity: public"},
		{"- /in/levels.csv sha256: ", "- `/in/levels.csv` (sha256: "},
		{"- /in/levels.csv sha256: ", "The table of levels.\n\n1. levels.csv is at /in/levels.csv,\n   SHA-256 "},
		{"- /in/levels.csv sha256: ", "- sha256:"},
		{"- /out/averages.csv\n", "One file:\n\n- `/out/averages.csv`: one row for each station.\n\n### Notes\n\nNone.\n"},
	} {
		doc := change(t, edit[0], edit[1])
		if edit[1] == "- sha256:" {
			doc = changeIn(t, doc, "sha256:"+hashA, "sha256:"+hashA+" /in/levels.csv")
		}
		wantValid(t, edit[1], doc)
	}
	wantValid(t, "no final line feed", strings.TrimSuffix(document, "\n"))
	wantValid(t, "allowlist", online(t, `["data.example.org", "xn--bcher-kva.example.com"]`, "Fetch the latest levels from data.example.org."))
	wantValid(t, "allowlist as a block", online(t, "\n  - data.example.org\n  - a.b-c.example.co.uk", "Fetch the levels."))
	for language, text := range map[string]string{
		"node": "node convert.js --in /in/levels.csv", "ruby": "ruby -W0 convert.rb /in/levels.csv", "go": "go run convert.go -in /in/levels.csv",
	} {
		wantValid(t, language, changeIn(t, command(t, text), `language: "python"`, "language: "+language))
	}
	for _, text := range []string{"ts-node convert.ts", "tsx convert.ts --in /in/levels.csv", "deno run --allow-read=/in/levels.csv convert.ts", "deno convert.ts"} {
		wantValid(t, text, changeIn(t, command(t, text), `language: "python"`, "language: ts"))
	}
	wantValid(t, "no inputs", withoutInputs(t))
	wantValid(t, "JSON", asJSON)
}

func withoutInputs(t *testing.T) string {
	from, to := strings.Index(document, "inputs:"), strings.Index(document, "outputs_expected:")
	doc := changeIn(t, document[:from]+"inputs: []\n"+document[to:], commandText, "python make.py --out /out/averages.csv")
	from, to = strings.Index(doc, "- /in/levels.csv"), strings.Index(doc, "## Output")
	return doc[:from] + "None.\n\n" + doc[to:]
}

// asJSON has its front matter in YAML's flow form.
var asJSON = `---
{"request_type":"tool_request","schema_version":1,"request_id":"a","created_utc":"2026-05-03T08:15:00Z","requested_by":"human",
 "approved_by": "mara", "approved_utc":"2026-05-03T09:00:00Z", purpose: Average the levels, language: python,
 network: none, cpu_limit: "1", memory_limit_mb: 5, time_limit_sec: 6, inputs: [],
 "outputs_expected": [{"path":"averages.csv","description":"rows"}], "constraints": ["none but these"]}
---

## Command
python make.py
## Input Files
## Output Expectations
- /out/averages.csv
## Risk Assessment
Risk level: low
Justification: small
Data sensitivity: public
Network rationale:
`
