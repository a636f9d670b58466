package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
)

// The document lists every operation of the table, and every reference in it
// leads somewhere.
func TestOpenAPIDocument(t *testing.T) {
	a := &API{}
	operations := a.table()
	data, err := openAPI(operations, "https://holdpoint.example.com")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		OpenAPI    string                                `json:"openapi"`
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("version %s", doc.OpenAPI)
	}
	for _, op := range operations {
		if doc.Paths[documented(op.path)][strings.ToLower(op.method)] == nil {
			t.Errorf("%s %s is missing", op.method, op.path)
		}
	}
	for _, part := range strings.Split(string(data), `"$ref": "`)[1:] {
		name, _, _ := strings.Cut(strings.TrimPrefix(part, "#/components/schemas/"), `"`)
		if doc.Components.Schemas[name] == nil {
			t.Errorf("the reference to %s leads nowhere", name)
		}
	}
	kinds, err := json.Marshal(map[string]any{"description": "What has to happen.", "enum": engine.Kinds(), "type": "string"})
	if err != nil {
		t.Fatal(err)
	}
	var progress struct {
		Properties struct{ Kind json.RawMessage }
	}
	if err := json.Unmarshal(doc.Components.Schemas["Progress"], &progress); err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, progress.Properties.Kind); err != nil || compact.String() != string(kinds) {
		t.Errorf("a requirement's kind is %s, want %s, %v", &compact, kinds, err)
	}
	page, err := docsPage(operations, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/v1/pre-tool-check", "proposed_arguments", "Idempotency-Key", "resumption_token", `<a href="/">Console</a>`, `curl &#34;$HOLDPOINT_URL/v1/pre-tool-check&#34;`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %s", want)
		}
	}
	used := map[int]bool{}
	for _, op := range operations {
		used[groupOf(op.path)] = true
	}
	if n := strings.Count(string(page), "<details>"); n != len(operations) || strings.Count(string(page), `<section class="group"`) != len(used) || len(used) < 10 {
		t.Errorf("%d of %d operations are on the page, in %d groups, which should be %d", n, len(operations), strings.Count(string(page), `<section class="group"`), len(used))
	}
}

// What an answer's approval means is said where a program reads it: it is not always
// one that waits.
func TestTheApprovalOfAnAnswerIsDescribed(t *testing.T) {
	data, err := openAPI((&API{}).table(), "https://holdpoint.example.com")
	if err != nil {
		t.Fatal(err)
	}
	type field struct{ Description string }
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]field }
		}
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for schema, words := range map[string][]string{"Checked": {"waits", "wants a token", "DENIED_BEFORE"}, "CheckedAction": {"waits", "wants a token", "DENIED_BEFORE"}, "RequestedTool": {"waits"}} {
		for _, word := range words {
			if got := doc.Components.Schemas[schema].Properties["approval"].Description; !strings.Contains(got, word) {
				t.Errorf("%s does not say %q: %q", schema, word, got)
			}
		}
	}
}

func TestWaitOf(t *testing.T) {
	for _, tc := range []struct {
		query, prefer string
		want          time.Duration
		preferred     bool
		bad           bool
	}{
		{"", "", 0, false, false},
		{"wait=25", "", 25 * time.Second, false, false},
		{"wait=0", "", 0, false, false},
		{"", "wait=10", 10 * time.Second, true, false},
		{"", "respond-async, wait=10", 10 * time.Second, true, false},
		{"wait=5", "wait=10", 5 * time.Second, false, false},
		{"", "wait=100", maxWait, true, false},
		{"", "wait=x", 0, false, false},
		{"wait=60", "", 0, false, true},
		{"wait=-1", "", 0, false, true},
		{"wait=1e1", "", 0, false, true},
		{"wait=x", "", 0, false, true},
	} {
		r := &http.Request{URL: &url.URL{RawQuery: tc.query}, Header: http.Header{}}
		if tc.prefer != "" {
			r.Header.Set("Prefer", tc.prefer)
		}
		got, preferred, err := waitOf(r)
		if got != tc.want || preferred != tc.preferred || (err != nil) != tc.bad {
			t.Errorf("%q %q: %s %t %v", tc.query, tc.prefer, got, preferred, err)
		}
	}
}

func TestEventFilterKnowsItsFilters(t *testing.T) {
	for _, query := range []string{"since=yesterday", "limit=0", "limit=1001", "limit=x", "cursor=x", "nonsense=1", "agent_id=a&agent_id=b"} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := eventFilter(values); err == nil {
			t.Errorf("%s was taken", query)
		}
	}
	f, limit, err := eventFilter(url.Values{"since": {"2026-01-02T03:04:05Z"}, "outcome": {"DENY"}, "limit": {"7"}, "cursor": {"42"}})
	if err != nil || f.Outcome != "DENY" || f.After != 42 || limit != 7 || f.Since.IsZero() {
		t.Errorf("%+v %d %v", f, limit, err)
	}
}
