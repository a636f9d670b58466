package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/api"
	"holdpoint/engine/canon"
)

// The schema of holdpoint_check names exactly the fields that the API documents.
func TestCheckSchemaNamesTheFields(t *testing.T) {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(checkSchema, &schema); err != nil {
		t.Fatal(err)
	}
	var required []string
	body := reflect.TypeFor[api.ParamsBody]()
	for i := range body.NumField() {
		name, options, _ := strings.Cut(body.Field(i).Tag.Get("json"), ",")
		if options == "" {
			required = append(required, name)
		}
		if _, ok := schema.Properties[name]; !ok {
			t.Errorf("%s is not in the schema", name)
		}
		delete(schema.Properties, name)
	}
	for name := range schema.Properties {
		t.Errorf("%s is in the schema only", name)
	}
	if !slices.Equal(required, schema.Required) {
		t.Errorf("required are %q, want %q", schema.Required, required)
	}
}

// A panic in the API is the end of one call, not of the program.
func TestPanicEndsOneCall(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/pre-tool-check", func(http.ResponseWriter, *http.Request) { panic("in a handler") })
	var log bytes.Buffer
	tools, err := New(Config{URL: "http://in-process", Door: InProcess(mux), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), callerKey{}, caller{connected: t.Context(), waiting: t.Context()})
	for i, o := range must(t, toolDefinitions) {
		result, err := tools.handler(o)(ctx, &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Arguments: json.RawMessage(`{"secret":"canary"}`)}})
		if err != nil || !result.IsError || !strings.Contains(result.Content[0].(*sdk.TextContent).Text, "nothing has been granted") {
			t.Errorf("%s: %v %+v", o.tool.Name, err, result)
		}
		if i == 0 && !strings.Contains(log.String(), "a tool panicked") || strings.Contains(log.String(), "canary") {
			t.Errorf("the log says %s", log.String())
		}
	}
}

// Without a caller there is nobody to act for.
func TestCallWithoutACaller(t *testing.T) {
	tools, err := New(Config{URL: "http://in-process", Door: InProcess(http.NotFoundHandler()), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range must(t, toolDefinitions) {
		result, err := tools.handler(o)(t.Context(), &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{}})
		if err != nil || !result.IsError || !strings.Contains(result.Content[0].(*sdk.TextContent).Text, "(internal)") {
			t.Errorf("%s: %v %+v", o.tool.Name, err, result)
		}
	}
}

// What is no answer of the API is no permission.
func TestStrangeAnswersGrantNothing(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		kind, body string
		code       string
	}{
		"a proxy's page":       {502, "text/html", "<h1>Bad gateway</h1>", "http_502"},
		"a redirect":           {302, "text/html", "", "http_302"},
		"a problem of no code": {500, "application/problem+json", `{}`, "http_500"},
		"a problem":            {429, "application/problem+json", `{"code":"too_many_pending","detail":"Wait."}`, "too_many_pending"},
		"no JSON":              {200, "application/json", `{"execution_policy":{"execution_allowed":true`, "internal"},
		"another kind":         {200, "application/json", `["allowed"]`, "internal"},
		"half an approval":     {200, "application/json", `{"execution_policy":{"execution_allowed":true},"allowed":true,"approval":[],"status":7}`, "internal"},
	} {
		handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		})
		tools, err := New(Config{URL: "http://in-process", Door: InProcess(handler), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.WithValue(t.Context(), callerKey{}, caller{connected: t.Context(), waiting: t.Context()})
		for _, o := range must(t, toolDefinitions) {
			arguments := json.RawMessage(`{"approval_id":"apr_a"}`)
			if o.tool.Name == redeemTool {
				arguments = json.RawMessage(`{"approval_id":"apr_a","tool_name":"x","arguments":{}}`)
			}
			result, err := tools.handler(o)(ctx, &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Arguments: arguments}})
			if err != nil || !result.IsError || !strings.Contains(result.Content[0].(*sdk.TextContent).Text, "("+c.code+")") {
				t.Errorf("%s, %s: %v %+v", name, o.tool.Name, err, result.Content[0])
			}
		}
	}
}

func must(t *testing.T, f func() ([]toolDefinition, error)) []toolDefinition {
	t.Helper()
	list, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Every line is either a message that has one reading, or answered with an
// error; what is answered is one line of JSON each.
func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\ngarbage\r\n[]\n{\"a\":1,\"a\":2}"))
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":1}\n{\"jsonrpc\":\"1.0\",\"id\":{}}"))
	f.Add([]byte("\x00\n\xff\xfe\n\"\\ud800\"\n9007199254740993\n"))
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1e300,\"method\":\"x\"}\n{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"x\"}\n{\"jsonrpc\":\"2.0\",\"id\":-7,\"method\":\"x\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		hurried := false
		l := newLines(bytes.NewReader(data), &out, func() { hurried = true })
		defer l.Close()
		messages := 0
		for {
			message, err := l.Read(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if r, ok := message.(*jsonrpc.Request); ok && r.IsCall() {
				if err := l.Write(t.Context(), &jsonrpc.Response{ID: r.ID, Result: json.RawMessage(`{}`)}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			messages++
		}
		want := 0
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if len(bytes.TrimSpace(line)) > 0 {
				want++
			}
		}
		answers := 0
		for line := range bytes.Lines(out.Bytes()) {
			answers++
			if v, err := canon.Parse(bytes.TrimSpace(line)); err != nil || v.Kind() != canon.ObjectKind {
				t.Fatalf("answered with %q", line)
			}
		}
		if messages+answers != want || !hurried {
			t.Fatalf("%d lines, %d messages without an answer, %d answers, hurried %t", want, messages, answers, hurried)
		}
	})
}

// An accepted call whose token is asked for is allowed, and says what comes first; both
// tools take the wish.
func TestAcceptedCallsSayWhereTheirTokenIs(t *testing.T) {
	for name, c := range map[string]struct{ approval, want string }{
		"no token asked for": {`null`, "run the tool now"},
		"with its token":     {`{"id":"apr_a","status":"approved","resumption_token":"t"}`, "the host spends resumption_token"},
		"before its token":   {`{"id":"apr_a","status":"pending","next_action":"wait"}`, "call holdpoint_await with approval_id apr_a"},
	} {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(body), "want_token") {
				t.Errorf("%s: the API was sent %s", name, body)
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"execution_policy":{"execution_allowed":true},"allowed":true,"approval":`+c.approval+`}`)
		})
		tools, err := New(Config{URL: "http://in-process", Door: InProcess(handler), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.WithValue(t.Context(), callerKey{}, caller{connected: t.Context(), waiting: t.Context()})
		for _, o := range must(t, toolDefinitions)[:2] {
			if schema, _ := json.Marshal(o.tool.InputSchema); !strings.Contains(string(schema), `"want_token":{`) || !strings.Contains(string(schema), `"separate":{`) {
				t.Errorf("%s does not name the members: %s", o.tool.Name, schema)
			}
			result, err := tools.handler(o)(ctx, &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Arguments: json.RawMessage(`{"want_token":true}`)}})
			if err != nil || result.IsError || !strings.Contains(result.Content[0].(*sdk.TextContent).Text, "Allowed") || !strings.Contains(result.Content[0].(*sdk.TextContent).Text, c.want) {
				t.Errorf("%s, %s: %v %+v", name, o.tool.Name, err, result.Content[0])
			}
		}
	}
}
