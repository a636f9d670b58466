package api

import (
	"bytes"
	"cmp"
	_ "embed" // the page and its style sheet
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"holdpoint/engine"
)

// openAPI writes the OpenAPI 3.1 document of the operations.
func openAPI(operations []operation, publicURL string) ([]byte, error) {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Holdpoint", Version: "1",
			Description: "The approval engine for AI agents' tool calls: propose a call, wait for people, redeem the token, run it once.",
			License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers: []*huma.Server{{URL: publicURL}},
		Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{
			"key":     {Type: "http", Scheme: "bearer", Description: "An API key: hp_…"},
			"session": {Type: "apiKey", In: "cookie", Name: "holdpoint", Description: "The console's session of a signed-in person."},
		}},
	}
	doc.Components.SecuritySchemes["aana"] = &huma.SecurityScheme{Type: "apiKey", In: "header", Name: aanaTokenHeader, Description: "The same API key, where AANA's clients put it."}
	problem := registry.Schema(reflect.TypeOf(Problem{}), true, "Problem")
	for _, op := range operations {
		o := &huma.Operation{
			OperationID: operationID(op), Method: op.method, Path: documented(op.path), Summary: op.summary, Description: op.detail,
			Responses: map[string]*huma.Response{}, Security: security(op.scope),
		}
		if o.Security == nil {
			o.Security = []map[string][]string{} // anybody: said, and not left out
		}
		for _, name := range pathParameters(op.path) {
			o.Parameters = append(o.Parameters, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: "string"}})
		}
		for _, q := range op.query {
			o.Parameters = append(o.Parameters, &huma.Param{Name: q.name, In: "query", Description: q.doc, Schema: &huma.Schema{Type: "string"}})
		}
		for _, h := range append(slices.Clone(op.headers), parameter{"X-Request-Id", "The caller's id of the request: up to 128 letters, digits, dots, underscores and hyphens. The answer and the log have it."}) {
			o.Parameters = append(o.Parameters, &huma.Param{Name: h.name, In: "header", Description: h.doc, Schema: &huma.Schema{Type: "string"}})
		}
		if op.repeats {
			o.Parameters = append(o.Parameters, &huma.Param{
				Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: "string"},
				Description: "Sending the same request again with the same key gets the same answer; a different request gets 422.",
			})
		}
		if op.in != nil {
			takes := cmp.Or(op.takes, "application/json")
			o.RequestBody = &huma.RequestBody{Required: op.in != CancelBody{}, Content: map[string]*huma.MediaType{
				takes: {Schema: registry.Schema(reflect.TypeOf(op.in), true, operationID(op)+"Body"), Example: op.example},
			}}
		}
		for _, status := range op.statuses {
			response := &huma.Response{Description: http.StatusText(status), Headers: answerHeaders(op, status)}
			kind := cmp.Or(op.mediaType, "application/json")
			media := &huma.MediaType{}
			if op.out != nil {
				media.Schema = registry.Schema(reflect.TypeOf(op.out), true, operationID(op)+"Answer")
			}
			if status != http.StatusNotModified { // which has no body
				response.Content = map[string]*huma.MediaType{kind: media}
			}
			o.Responses[strconv.Itoa(status)] = response
		}
		for _, status := range op.problems {
			o.Responses[strconv.Itoa(status)] = &huma.Response{
				Description: http.StatusText(status), Headers: answerHeaders(op, status),
				Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problem}},
			}
		}
		doc.AddOperation(o)
	}
	name(registry.Map())
	open(operations, registry)
	encoded, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	return encoded, nil
}

// answerHeaders are the headers of an answer with this status.
func answerHeaders(op operation, status int) map[string]*huma.Param {
	headers := map[string]*huma.Param{}
	add := func(name, doc string) {
		headers[name] = &huma.Param{Description: doc, Schema: &huma.Schema{Type: "string"}}
	}
	add("X-Request-Id", "The request's id, by which the logs have it.")
	switch status {
	case http.StatusAccepted:
		add("Location", "Where the approval is.")
		add("Retry-After", "In how many seconds to look again, where the answer is not waited for.")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		add("Retry-After", "In how many seconds to try again; it may be left out.")
	case http.StatusUnauthorized:
		add("WWW-Authenticate", "Bearer, with the realm; at /mcp also resource_metadata (RFC 9728).")
	}
	if slices.Contains(op.statuses, http.StatusNotModified) && (status == http.StatusOK || status == http.StatusNotModified) {
		add("ETag", "What to send as If-None-Match.")
	}
	if op.repeats && status < http.StatusMultipleChoices {
		add("Idempotent-Replayed", "true, where the answer is that of an earlier request with the same Idempotency-Key.")
	}
	return headers
}

// name gives the fields that hold one of so many words their enums, where their types
// have them: tags would be second lists.
func name(schemas map[string]*huma.Schema) {
	texts := func(values ...string) (enum []any) {
		for _, v := range values {
			enum = append(enum, v)
		}
		return enum
	}
	routes, verdicts := texts("accept", "ask", "defer", "refuse"), texts("pass", "fail")
	var kinds, outcomes, types []any
	for _, k := range engine.Kinds() {
		kinds = append(kinds, string(k))
	}
	for _, o := range engine.Outcomes() {
		outcomes = append(outcomes, string(o))
	}
	for _, t := range engine.EventTypes() {
		types = append(types, string(t))
	}
	event := schemas["EventBody"].Properties
	for schema, fields := range map[string]map[string][]any{
		"Progress":        {"kind": kinds},
		"Requirement":     {"kind": kinds},
		"Event":           {"type": types, "outcome": outcomes, "prev_outcome": outcomes},
		"Actor":           {"kind": texts(string(engine.HumanActor), string(engine.AgentActor), string(engine.ServiceActor), string(engine.SystemActor))},
		"RequestedTool":   {"outcome": outcomes},
		"AIx":             {"decision": routes},
		"ExecutionPolicy": {"mode": texts("enforce", "shadow")},
		"Shadow":          {"would_route": routes, "would_recommended_action": routes},
		"Checked":         {"recommended_action": routes, "aana_route": routes, "gate_decision": verdicts, "candidate_gate": verdicts},
		"Architecture":    {"route": routes, "gate_decision": verdicts},
		"AuditEvent":      {"route": routes, "gate_decision": verdicts, "candidate_gate": verdicts},
	} {
		for field, enum := range fields {
			schemas[schema].Properties[field].Enum = enum
		}
	}
	for _, schema := range []string{"Checked", "Architecture", "AuditEvent"} {
		for _, field := range []string{"tool_category", "authorization_state", "risk_domain"} {
			schemas[schema].Properties[field].Enum = event[field].Enum
		}
	}
}

// open lets answers have fields that are not documented yet: fields are added to the
// wire, and a client of today has to take tomorrow's answer. What only requests have
// stays closed: a field that is not known there is refused.
func open(operations []operation, registry huma.Registry) {
	seen := map[string]bool{}
	var visit func(s *huma.Schema)
	visit = func(s *huma.Schema) {
		if s == nil {
			return
		}
		if s.Ref != "" {
			if seen[s.Ref] {
				return
			}
			seen[s.Ref] = true
			visit(registry.SchemaFromRef(s.Ref))
			return
		}
		if closed, ok := s.AdditionalProperties.(bool); ok && !closed {
			s.AdditionalProperties = nil
		}
		visit(s.Items)
		for _, p := range s.Properties {
			visit(p)
		}
		if each, ok := s.AdditionalProperties.(*huma.Schema); ok {
			visit(each)
		}
	}
	for _, op := range operations {
		if op.out != nil {
			visit(registry.Schema(reflect.TypeOf(op.out), true, ""))
		}
	}
	visit(registry.Schema(reflect.TypeOf(Problem{}), true, ""))
}

func operationID(op operation) string {
	words := strings.FieldsFunc(op.path, func(r rune) bool { return strings.ContainsRune("/{}.-_", r) })
	return strings.ToLower(op.method) + "-" + strings.Join(words, "-")
}

func security(scope string) []map[string][]string {
	switch scope {
	case public:
		return nil
	case signedIn:
		return []map[string][]string{{"session": {}}}
	case keyOrHuman, adminOrHuman, auditOrHuman:
		return []map[string][]string{{"key": {}}, {"aana": {}}, {"session": {}}}
	}
	return []map[string][]string{{"key": {}}, {"aana": {}}}
}

// documented is a path as OpenAPI writes it, where a parameter for all the rest of
// a path is one like any other.
func documented(path string) string { return strings.ReplaceAll(path, "...}", "}") }

func pathParameters(path string) []string {
	var names []string
	for _, part := range strings.Split(documented(path), "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

//go:embed docs.html
var docsTemplate string

//go:embed docs.css
var docsStyle []byte

// docsPage renders the operations as one static page.
func docsPage(operations []operation, document []byte) ([]byte, error) {
	page, err := template.New("docs").Parse(docsTemplate)
	if err != nil {
		return nil, fmt.Errorf("read the docs template: %w", err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]schemaDoc `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document back: %w", err)
	}
	type field struct{ Name, Type, Doc string }
	type row struct {
		ID, Method, Path, Summary, Detail, Who string
		In, Out                                []field
		Query                                  []parameter
		Good, Bad                              []int
		Repeats                                bool
		Example                                string
	}
	type group struct {
		docsGroup
		ID         string
		Operations []row
	}
	fields := func(v any) []field {
		if v == nil {
			return nil
		}
		schema := doc.Components.Schemas[huma.DefaultSchemaNamer(reflect.TypeOf(v), "")]
		var list []field
		for _, name := range schema.order() {
			p := schema.Properties[name]
			list = append(list, field{Name: name, Type: p.describe(!slices.Contains(schema.Required, name)), Doc: p.Description})
		}
		return list
	}
	who := map[string]string{public: "anybody", signedIn: "a signed-in person", keyOrHuman: "a key with scope approvals, or a signed-in person", adminOrHuman: "a key with scope admin, or a signed-in person", auditOrHuman: "a key with scope audit, or a signed-in auditor or administrator", anyKey: "any key"}
	groups := make([]group, len(docsGroups))
	for i, g := range docsGroups {
		groups[i] = group{docsGroup: g, ID: "group-" + strconv.Itoa(i+1)}
	}
	for _, op := range operations {
		scope, ok := who[op.scope]
		if !ok {
			scope = "a key with scope " + op.scope
		}
		call, err := exampleCall(op)
		if err != nil {
			return nil, err
		}
		g := &groups[groupOf(op.path)]
		g.Operations = append(g.Operations, row{
			ID: operationID(op), Method: op.method, Path: op.path, Summary: op.summary, Detail: op.detail, Who: scope,
			In: fields(op.in), Out: fields(op.out), Query: op.query, Good: op.statuses, Bad: op.problems, Repeats: op.repeats, Example: call,
		})
	}
	var out bytes.Buffer
	if err := page.Execute(&out, groups); err != nil {
		return nil, fmt.Errorf("render the docs: %w", err)
	}
	return out.Bytes(), nil
}

// docsGroup is a part of the page, with the beginnings of the paths that are in it.
type docsGroup struct {
	Title, About string
	paths        []string
}

// docsGroups are in the order in which somebody needs them. The last one has what is in no other.
var docsGroups = []docsGroup{
	{"Propose a call", "Where an agent begins. The answer says whether the call may run, is refused, or waits for people.", []string{"/v1/pre-tool-check", "/v1/tool-calls", "/v1/tool-requests"}},
	{"Wait and decide", "What becomes of a call that waits: its state, the answers of the requesting side, and what reviewers do.", []string{"/v1/approvals"}},
	{"Run the call once", "With the token of an approved call.", []string{"/v1/tokens", "/v1/executions", "/.well-known/jwks.json"}},
	{"Tool contracts", "What a tool may be given, and what of its answer an agent may see.", []string{"/v1/tool-contracts"}},
	{"AuthZEN", "The same gate for programs that speak OpenID’s protocol.", []string{"/access", "/.well-known/authzen-configuration"}},
	{"Agent Action Contract: its own addresses", "For programs that are written for its service.", []string{"/pre-tool-check", "/tool-precheck", "/validate-tool-precheck", "/health", "/ready"}},
	{"MCP", "Holdpoint as a server of tools for agents.", []string{"/mcp", "/.well-known/oauth-protected-resource"}},
	{"Audit log and reports", "What has happened, with the proof of it.", []string{"/v1/audit", "/log"}},
	{"People and who is on call", "Accounts, access reviews and shifts.", []string{"/v1/admin/people", "/v1/admin/access-reviews", "/v1/on-call"}},
	{"Administration", "Agents, tools, rules, kill switches, grants, and what is kept.", []string{"/v1/admin", "/v1/grants"}},
	{"Slack", "What Slack calls, where people decide there.", []string{"/v1/slack"}},
	{"The server", "Health, metrics and this document.", nil},
}

// groupOf is the first group that has a path or one above it: /healthz is not below /health.
func groupOf(path string) int {
	for i, g := range docsGroups {
		for _, p := range g.paths {
			if path == p || strings.HasPrefix(path, p+"/") {
				return i
			}
		}
	}
	return len(docsGroups) - 1
}

// exampleCall is a command that sends an operation's example, "" where it has none.
func exampleCall(op operation) (string, error) {
	if op.example == nil {
		return "", nil
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(op.example); err != nil {
		return "", fmt.Errorf("write the example of %s: %w", op.path, err)
	}
	return "curl \"$HOLDPOINT_URL" + documented(op.path) + "\" -H @agent.key \\\n  -H 'Content-Type: application/json' --data-binary @- <<'END'\n" + body.String() + "END", nil
}

// Name and Doc let the template read a parameter.
func (p parameter) Name() string { return p.name }

// Doc is what the parameter means.
func (p parameter) Doc() string { return p.doc }

type schemaDoc struct {
	Type        any                  `json:"type"`
	Ref         string               `json:"$ref"`
	Description string               `json:"description"`
	Enum        []any                `json:"enum"`
	Format      string               `json:"format"`
	Items       *schemaDoc           `json:"items"`
	Required    []string             `json:"required"`
	Properties  map[string]schemaDoc `json:"properties"`
}

// order lists the properties: required ones first, each group by name.
func (s schemaDoc) order() []string {
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		ra, rb := slices.Contains(s.Required, a), slices.Contains(s.Required, b)
		if ra != rb {
			if ra {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return names
}

func (s schemaDoc) describe(optional bool) string {
	text := "any JSON"
	switch t := s.Type.(type) {
	case string:
		text = t
	case []any:
		if len(t) > 0 {
			text = fmt.Sprint(t[0])
		}
	}
	switch {
	case s.Ref != "":
		text = s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	case s.Items != nil:
		text = "list of " + s.Items.describe(false)
	case len(s.Enum) > 0:
		text = strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Enum), " ", " | "), "[]")
	case s.Format != "":
		text += ", " + s.Format
	}
	if optional {
		text += " (optional)"
	}
	return text
}

func (a *API) openapi(c *call) error {
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(a.document)
	return nil
}

func (a *API) docsHTML(c *call) error {
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = c.w.Write(a.docs)
	return nil
}

func (a *API) docsCSS(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write(docsStyle)
}
