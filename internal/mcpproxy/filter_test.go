package mcpproxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/redact"
)

const someContracts = `tool_contracts:
  s__mail: {allowed_request_tags: [personal.pii], allowed_response_fields: [subject]}
  s__text: {allowed_request_tags: [personal.pii], allowed_response_fields: [content]}
  s__masked: {allowed_request_tags: [personal.pii.phone], allowed_response_fields: [content, subject], mask_response: true}
`

// contracted has the fake answer by real contracts.
func (o *fakeHoldpoint) contracted(t *testing.T) {
	t.Helper()
	set, problems := safeai.Load([]byte(someContracts), "contracts.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	detector := redact.New()
	o.set(func() {
		o.broken = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/tool-contracts/intercept-response" {
				return false
			}
			data, _ := io.ReadAll(r.Body)
			body, err := canon.Parse(data)
			if err != nil || r.Header.Get("Authorization") != "Bearer hp_test" || r.Header.Get("Idempotency-Key") == "" {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusBadRequest)
				io.WriteString(w, `{"code":"malformed_json"}`)
				return true
			}
			tool, _ := body.Get("tool_name")
			response, _ := body.Get("response")
			json.NewEncoder(w).Encode(set.InterceptResponse(tool.Str(), response, detector))
			return true
		}
	})
}

// Of every kind of answer nothing is left but what the contract lists.
func TestFilter(t *testing.T) {
	o, gate := newFakeHoldpoint(t)
	o.contracted(t)
	const text = `{"type":"text","text":"%s"}`
	for name, c := range map[string]struct{ tool, answer, want string }{
		"fields": {
			"mail", `"result":{"content":[{"type":"text","text":"SECRET"}],"structuredContent":{"subject":"s","body":"SECRET"},"_meta":{"x":"SECRET"},"other":"SECRET"}`,
			`{"content":[{"text":"{\"subject\":\"s\"}","type":"text"}],"isError":false,"structuredContent":{"subject":"s"}}`,
		},
		"no field left":       {"mail", `"result":{"content":[],"structuredContent":{"body":"SECRET"}}`, `{"content":[{"text":"{}","type":"text"}],"isError":false,"structuredContent":{}}`},
		"text, not listed":    {"mail", `"result":{"content":[` + fmt.Sprintf(text, "SECRET") + `]}`, `{"content":[` + fmt.Sprintf(text, nothingShown) + `],"isError":false}`},
		"text, listed":        {"text", `"result":{"content":[` + fmt.Sprintf(text, "done") + `],"_meta":{"x":"SECRET"}}`, `{"content":[` + fmt.Sprintf(text, "done") + `],"isError":false}`},
		"an error":            {"text", `"result":{"content":[` + fmt.Sprintf(text, "no") + `],"isError":true}`, `{"content":[` + fmt.Sprintf(text, "no") + `],"isError":true}`},
		"an error, stripped":  {"mail", `"error":{"code":-32603,"message":"SECRET","data":"SECRET"}`, `{"content":[` + fmt.Sprintf(text, nothingShown) + `],"isError":true}`},
		"masked":              {"masked", `"result":{"content":[` + fmt.Sprintf(text, "to jo@example.org") + `]}`, `{"content":[` + fmt.Sprintf(text, "to [REDACTED:personal.pii.email]") + `],"isError":false}`},
		"masked field":        {"masked", `"result":{"content":[],"structuredContent":{"subject":"jo@example.org"}}`, `{"content":[{"text":"{\"subject\":\"[REDACTED:personal.pii.email]\"}","type":"text"}],"isError":false,"structuredContent":{"subject":"[REDACTED:personal.pii.email]"}}`},
		"no contract":         {"other", `"result":{"content":[` + fmt.Sprintf(text, "SECRET") + `]}`, `{"content":[` + fmt.Sprintf(text, nothingShown) + `],"isError":false}`},
		"no object":           {"text", `"result":{"content":[],"structuredContent":["SECRET"]}`, `{"content":[],"isError":false}`},
		"nothing":             {"text", `"result":{}`, `{"content":[` + fmt.Sprintf(text, nothingShown) + `],"isError":false}`},
		"a later duplicate":   {"mail", `"result":{"structuredContent":{"subject":"s"},"structuredContent":{"body":"SECRET"},"content":[]}`, `{"content":[{"text":"{}","type":"text"}],"isError":false,"structuredContent":{}}`},
		"two of a field":      {"mail", `"result":{"structuredContent":{"subject":"s","subject":"SECRET"},"content":[]}`, ""},
		"no list of contents": {"text", `"result":"SECRET"`, ""},
	} {
		m, err := jsonrpc.DecodeMessage([]byte(`{"jsonrpc":"2.0","id":1,` + c.answer + `}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := gate.filter(t.Context(), "s__"+c.tool, m.(*jsonrpc.Response))
		if c.want == "" && err == nil || c.want != "" && (err != nil || canonicalJSON(t, got) != canonicalJSON(t, []byte(c.want))) {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
}

func canonicalJSON(t *testing.T, data []byte) string {
	t.Helper()
	v, err := canon.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(v.Canonical())
}

// A result that cannot be looked at is held back; the call has run nevertheless, once,
// and that is reported.
func TestResultsAreHeldBack(t *testing.T) {
	w := newHarness(t)
	w.tool("text", "Says it.")
	w.fake.contracted(t)
	w.start(func(c *Config) { c.FilterResults = true; c.Wait = 0 })
	w.runs1("text", nil, "done")
	w.runs1("pay", nil, nothingShown)

	w.fake.outcome = "REQUIRE_APPROVAL"
	w.refused("text", args{"n": 2}, "apr_0")
	for name, answer := range map[string]struct {
		status     int
		kind, body string
	}{
		"an outage":      {502, "text/html", ""},
		"a kill switch":  {423, "application/problem+json", `{"code":"kill_switch","detail":"Stopped."}`},
		"an empty":       {200, "application/json", `{}`},
		"null":           {200, "application/json", `{"safe_response":null}`},
		"another kind":   {200, "application/json", `{"safe_response":"done"}`},
		"another answer": {200, "application/json", `["done"]`},
	} {
		w.fake.set(func() {
			w.fake.outcome = "ALLOW"
			w.fake.broken = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/v1/tool-contracts/intercept-response" {
					return false
				}
				rw.Header().Set("Content-Type", answer.kind)
				rw.WriteHeader(answer.status)
				io.WriteString(rw, answer.body)
				return true
			}
		})
		before := w.runs.Load()
		if text, isError := w.call("text", args{"case": name}); !isError || !strings.Contains(text, "The tool has run") || strings.Contains(text, "done") || w.runs.Load() != before+1 {
			t.Errorf("%s: %t, %q after %d runs", name, isError, text, w.runs.Load()-before)
		}
	}
	w.fake.set(func() { w.fake.approvals[0].Status = "approved" })
	if text, isError := w.call("text", args{"n": 2}); !isError || !strings.Contains(text, "held back") || fmt.Sprint(w.fake.reports) != "[apr_0 succeeded]" {
		t.Errorf("approved: %t, %q, reported %v", isError, text, w.fake.reports)
	}
}
