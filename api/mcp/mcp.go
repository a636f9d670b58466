// Package mcp offers the API to models, as six tools of the Model Context
// Protocol: propose a call, wait for the people who decide on it, take it back, and
// for hosts without code of their own redeem it and report what became of it.
// Every call of a tool becomes the ordinary request to the API under the
// caller's own key, so that who may do what, the one reading of JSON, the audit
// log and the errors are the same at every door:
//
//	client ── line of stdin ──► Serve ────┐
//	client ── POST /mcp ──────► Handler ──┴─► tool ─► Config.Door ─► API
//
// The package decides nothing, keeps nothing between two calls, runs no
// proposed tool, spends a token only for who names the call, and knows no key but
// its caller's.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/api"
)

// Config says where the API is.
type Config struct {
	// URL is the API's address, without a slash at the end.
	URL string
	// Door sends a request and returns its answer, whatever its status. It
	// follows no redirect and keeps to the request's context.
	Door http.RoundTripper
	// Version is this program's, for clients that show it.
	Version string
	// Logger takes what goes wrong in here; no arguments and no keys.
	Logger *slog.Logger
}

// Tools are the tools, for any number of clients at once.
type Tools struct {
	Config
	server *sdk.Server
}

// instructions are for the model, before it sees any tool.
const instructions = `Holdpoint decides whether an agent's tool calls may run. Before every call of a tool that writes, pays, sends, deletes, deploys or reads private data, propose it with aana_pre_tool_check, or with holdpoint_check if your host speaks Agent-SPM. Run the tool only when the answer says so (execution_allowed or allowed is true), with exactly the arguments that were proposed. When the answer holds an approval, people decide: call holdpoint_await with its id until its status is no longer pending. An error, a refusal or silence is never a permission.`

// New returns the tools.
func New(cfg Config) (*Tools, error) {
	if cfg.URL == "" || cfg.Door == nil || cfg.Logger == nil {
		return nil, errors.New("the MCP tools need an address, a door and a logger")
	}
	t := &Tools{Config: cfg}
	t.server = sdk.NewServer(
		&sdk.Implementation{Name: "holdpoint", Title: "Holdpoint", Version: cfg.Version},
		// The tools never change while the program runs, and nothing is logged to clients.
		&sdk.ServerOptions{Instructions: instructions, Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}},
	)
	offered, err := toolDefinitions()
	if err != nil {
		return nil, err
	}
	for _, o := range offered {
		t.server.AddTool(o.tool, t.handler(o))
	}
	return t, t.offerTasks()
}

// caller is on whose behalf tools are called.
type caller struct {
	authorization string
	requestID     string
	// connected ends when nobody listens any more: then everything stops.
	connected context.Context //nolint:containedctx // the SDK hands on a context's values, not its end
	// waiting ends when nobody will wait for people any more: then what waits
	// answers as things stand.
	waiting context.Context //nolint:containedctx // as above
	once    bool            // one answer is all that there is time for
	links   *links          // that the client was asked to show; nil where it is asked nothing
}

type callerKey struct{}

// Handler serves clients over streamable HTTP, one request at a time: there are
// no sessions, so nobody can use another's, and any server can answer. Whoever
// calls it has read the body strictly and knows that the key is good; the key
// is taken from the request again for what the tools do.
func (t *Tools) Handler() http.Handler {
	plain, stream := t.streamable(true), streamed(t.streamable(false))
	protected := http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		message, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "the message cannot be read", http.StatusBadRequest)
			return
		}
		message = asTask(message)
		r.ContentLength = int64(len(message))
		r.Body = io.NopCloser(bytes.NewReader(message))
		if asksForProgress(message) {
			stream.ServeHTTP(w, r)
			return
		}
		plain.ServeHTTP(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := caller{authorization: r.Header.Get("Authorization"), requestID: api.RequestID(r.Context()), connected: r.Context(), waiting: r.Context(), once: true}
		protected.ServeHTTP(noStore{w}, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	})
}

// streamable is the SDK's handler, which answers with one JSON document, or with
// events. It would drop what is told before the answer where that is one document.
func (t *Tools) streamable(document bool) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return t.server }, &sdk.StreamableHTTPOptions{
		Stateless:    true,
		JSONResponse: document,
		// The host name is looked at by who stands before the whole server and
		// knows its public name, as this does not: behind a proxy on the same
		// machine it would refuse everybody.
		DisableLocalhostProtection: true,
	})
}

// noStore keeps answers, which may hold a token, out of every cache; the SDK
// would only have caches ask again.
type noStore struct{ http.ResponseWriter }

// WriteHeader forbids storing, at the last moment.
func (u noStore) WriteHeader(status int) {
	u.Header().Set("Cache-Control", "no-store")
	u.ResponseWriter.WriteHeader(status)
}

// Write does so too, where no status was set.
func (u noStore) Write(data []byte) (int, error) {
	u.Header().Set("Cache-Control", "no-store")
	return u.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController reach what is below.
func (u noStore) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// Serve serves one client that writes lines to in and reads lines from out,
// under the API key given, until in ends or ctx does; neither is an error. The
// calls that came before the end of in are still answered.
func (t *Tools) Serve(ctx context.Context, key string, in io.Reader, out io.Writer) error {
	patient, hurry := context.WithCancel(ctx)
	defer hurry()
	who := caller{authorization: "Bearer " + key, connected: ctx, waiting: patient, links: &links{open: map[string]context.CancelFunc{}}}
	err := t.server.Run(context.WithValue(ctx, callerKey{}, who), newLines(in, out, hurry))
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// toolDefinition is a tool and what it does.
type toolDefinition struct {
	tool *sdk.Tool
	run  func(*Tools, context.Context, request) (result, error)
}

// request is one call of a tool.
type request struct {
	caller    caller
	arguments json.RawMessage // as they came; never empty
	once      string          // Idempotency-Key; "" for none
	session   *sdk.ServerSession
	// tell tells the client of the call's progress; nil where it does not ask for that.
	tell func(context.Context, *sdk.ProgressNotificationParams)
}

// result is what a tool answers: what is so, and in a line what to do now.
type result struct {
	say        string
	structured any
}

func (t *Tools) handler(o toolDefinition) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (answer *sdk.CallToolResult, err error) {
		defer func() {
			// This is no goroutine of net/http's: a panic would end the program.
			if p := recover(); p != nil {
				t.Logger.ErrorContext(ctx, "a tool panicked", "tool", o.tool.Name, "stack", string(debug.Stack()))
				answer, err = failed(broken("Something went wrong here.")), nil
			}
		}()
		who, ok := ctx.Value(callerKey{}).(caller)
		if !ok {
			return failed(broken("Nobody is known to have called.")), nil
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(who.connected, cancel)()
		req := request{caller: who, arguments: r.Params.Arguments, session: r.Session, tell: teller(r)}
		if len(req.arguments) == 0 {
			req.arguments = json.RawMessage(`{}`)
		}
		if req.once, err = onceOf(r.Params.Meta); err == nil {
			var done result
			if done, err = o.run(t, ctx, req); err == nil {
				return succeeded(done), nil
			}
		}
		var p *problem
		switch {
		case errors.As(err, &p):
		case ctx.Err() != nil:
			p = newProblem(statusClientGone, "cancelled", "The call of this tool was taken back before it was answered.")
		default:
			t.Logger.ErrorContext(ctx, "a tool failed", "tool", o.tool.Name, "error", err)
			p = broken("The answer of the server could not be read.")
		}
		return failed(p), nil
	}
}

// statusClientGone is the status of an answer that nobody waits for any more.
const statusClientGone = 499

// onceKey is the member of a call's _meta that holds an Idempotency-Key. It is
// not among the arguments because those are forwarded as they are.
const onceKey = "holdpoint/idempotency_key"

func onceOf(meta sdk.Meta) (string, error) {
	value, ok := meta[onceKey]
	if !ok {
		return "", nil
	}
	key, _ := value.(string)
	if key == "" || len(key) > 255 || !visible(key) {
		return "", newProblem(http.StatusBadRequest, "idempotency_key", "_meta."+onceKey+" is 1 to 255 visible ASCII characters.")
	}
	return key, nil
}

// visible reports whether a text can stand in a header.
func visible(text string) bool {
	for _, r := range text {
		if r < 0x21 || r > 0x7e {
			return false
		}
	}
	return true
}

// succeeded is the answer of a tool that did its work. The text says it all
// again for clients that show models nothing else.
func succeeded(r result) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: texts(r.say, r.structured), StructuredContent: r.structured}
}

// failed is the answer of a tool that did not.
func failed(p *problem) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: texts(p.say(), p.document), StructuredContent: p.document, IsError: true}
}

func texts(say string, structured any) []sdk.Content {
	content := []sdk.Content{&sdk.TextContent{Text: say}}
	if data, err := json.Marshal(structured); err == nil {
		content = append(content, &sdk.TextContent{Text: string(data)})
	}
	return content
}
