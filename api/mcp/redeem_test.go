package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// fits reports whether a tool's structured content is what the tool's schema says.
func fits(t *testing.T, tool *sdk.Tool, answer *sdk.CallToolResult) error {
	t.Helper()
	schema, err := json.Marshal(tool.OutputSchema)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:answer", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("urn:answer")
	if err != nil {
		t.Fatal(err)
	}
	said, err := json.Marshal(answer.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(said))
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(value)
}

// Nothing permits a call but the answer that its token was spent on it just now; the
// token is shown to nobody, and every answer is what the tool's schema says.
func TestRedeemPermitsOnce(t *testing.T) {
	const approved, spent = `{"id":"apr_a","status":"approved","execution":"none","resumption_token":"SECRET"}`, `{"redeemed":true,"approval_id":"apr_a","constraints":%s,"lease_until":"2027-01-15T08:00:00Z"%s}`
	for name, c := range map[string]struct {
		approval, redemption string
		status               int
		says                 string
		runs                 bool
	}{
		"approved":            {approved, fmt.Sprintf(spent, `{}`, ""), 200, "Run the tool now, once, with exactly these arguments; then", true},
		"under constraints":   {approved, fmt.Sprintf(spent, `{"max":1}`, ""), 200, "keeping to constraints", true},
		"answered before":     {approved, fmt.Sprintf(spent, `{}`, `,"replayed":true`), 200, "(internal)", false},
		"another's":           {approved, strings.Replace(fmt.Sprintf(spent, `{}`, ""), "apr_a", "apr_b", 1), 200, "(internal)", false},
		"not redeemed":        {approved, `{"redeemed":false,"approval_id":"apr_a","constraints":{}}`, 200, "(internal)", false},
		"strange constraints": {approved, fmt.Sprintf(spent, `"none"`, ""), 200, "(internal)", false},
		"no constraints":      {approved, fmt.Sprintf(spent, `null`, ""), 200, "(internal)", false},
		"refused":             {approved, `{"code":"kill_switch","detail":"It is on."}`, 423, "(kill_switch)", false},
		"pending":             {`{"id":"apr_a","status":"pending"}`, "", 0, "(not_approved)", false},
		"denied":              {`{"id":"apr_a","status":"denied"}`, "", 0, "(not_approved)", false},
		"spent":               {`{"id":"apr_a","status":"approved","execution":"redeemed"}`, "", 0, "(nothing_to_redeem)", false},
		"no approval":         {`null`, "", 0, "(internal)", false},
	} {
		var asked []string
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Idempotency-Key")+string(body))
			if r.Method == http.MethodGet {
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, c.approval)
				return
			}
			w.Header().Set("Content-Type", map[bool]string{true: "application/json", false: "application/problem+json"}[c.status == 200])
			w.WriteHeader(c.status)
			io.WriteString(w, c.redemption)
		})
		tools, err := New(Config{URL: "http://in-process", Door: InProcess(handler), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.WithValue(t.Context(), callerKey{}, caller{connected: t.Context(), waiting: t.Context()})
		for _, o := range must(t, toolDefinitions) {
			if o.tool.Name != redeemTool {
				continue
			}
			arguments := json.RawMessage(`{"approval_id":"apr_a","tool_name":"pay","arguments":{"n":1},"lease_seconds":60}`)
			result, err := tools.handler(o)(ctx, &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Arguments: arguments, Meta: sdk.Meta{onceKey: "once"}}})
			if err != nil {
				t.Fatal(err)
			}
			all, _ := json.Marshal(result)
			if line := result.Content[0].(*sdk.TextContent).Text; result.IsError == c.runs || !strings.Contains(line, c.says) || strings.Contains(string(all), "SECRET") || strings.Contains(string(all), `"run":true`) != c.runs {
				t.Errorf("%s: %s", name, all)
			}
			if err := fits(t, o.tool, result); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		want := `POST /v1/tokens/redeem {"arguments":{"n":1},"lease_seconds":60,"token":"SECRET","tool_name":"pay"}`
		if spends := len(asked) == 2 && asked[1] == want; spends != (c.redemption != "") {
			t.Errorf("%s: the API was asked %q", name, asked)
		}
	}
}

// The schemas of answers hold for what each tool answers with, and for nothing else.
func TestAnswersFitTheirSchemas(t *testing.T) {
	good := map[string]string{
		preToolCheckTool: `{"route":"accept","execution_allowed":true,"more":1}`, checkTool: `{"allowed":true,"decision":{"outcome":"ALLOW"},"event":{}}`,
		redeemTool: `{"run":true,"approval_id":"apr_a","constraints":{},"lease_until":"x"}`,
	}
	for _, o := range must(t, toolDefinitions) {
		answer := good[o.tool.Name]
		if answer == "" {
			answer = `{"id":"apr_a","status":"pending"}`
		}
		for text, want := range map[string]bool{answer: true, `{"code":"x"}`: true, `{}`: false, `{"run":false,"allowed":1,"status":2,"execution_allowed":"true"}`: false} {
			if err := fits(t, o.tool, &sdk.CallToolResult{StructuredContent: json.RawMessage(text)}); (err == nil) != want {
				t.Errorf("%s, %s: %v", o.tool.Name, text, err)
			}
		}
	}
}
