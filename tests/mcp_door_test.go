package tests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// message is a JSON-RPC call of a tool.
func message(id int, tool string, arguments map[string]any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments}}
}

var acceptsBoth = header{"Accept", "application/json, text/event-stream"}

// rpc is a JSON-RPC answer.
type rpc struct {
	ID     json.RawMessage `json:"id"`
	Result modelAnswer     `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// TestModelDoorIsGuarded: /mcp asks who calls before it reads anything, reads
// as strictly as every other door, and answers no other site's pages.
func TestModelDoorIsGuarded(t *testing.T) {
	d := onHosted(t)
	agent := d.agent(t)
	check := message(1, "aana_pre_tool_check", event("search_docs", "accept", nil))
	for name, c := range map[string]*client{
		"no key":      d.client(t),
		"unknown key": d.client(t).with("hp_" + strings.Repeat("a", 40)),
		"a person":    {t: t, url: d.URL, cookie: d.reviewer(t, 0).cookie, http: agent.http, journal: d.journal},
	} {
		for _, body := range []any{check, []byte("{"), bytes.Repeat([]byte(" "), 2<<20)} {
			if a := c.do("POST", "/mcp", body, acceptsBoth).want(t, 401, "unauthenticated"); a.Header.Get("WWW-Authenticate") != `Bearer realm="holdpoint", resource_metadata="`+d.URL+`/.well-known/oauth-protected-resource/mcp"` {
				t.Errorf("%s: %v", name, a.Header)
			}
		}
	}
	for _, resource := range []string{"", "/mcp"} {
		var got map[string]any
		d.client(t).do("GET", "/.well-known/oauth-protected-resource"+resource, nil).want(t, 200).into(t, &got)
		if _, named := got["authorization_servers"]; got["resource"] != d.URL+resource || named {
			t.Errorf("the metadata of %q: %v", resource, got)
		}
	}
	if a := d.client(t).do("GET", "/v1/approvals", nil).want(t, 401); strings.Contains(a.Header.Get("WWW-Authenticate"), "resource_metadata") {
		t.Errorf("elsewhere: %v", a.Header)
	}
	revoked := d.newKey(t, "--agent", "demo-agent")
	d.client(t).with(revoked).do("POST", "/mcp", check, acceptsBoth).want(t, 200)
	id, _, _ := strings.Cut(strings.TrimPrefix(revoked, "hp_"), "_")
	must(t, []string{"HOLDPOINT_DATABASE_ADMIN_URL=" + d.OwnerURL}, "", "key", "revoke", "key_"+id)
	eventually(t, settleWithin, "a revoked key is refused", func() bool {
		return d.client(t).with(revoked).do("POST", "/mcp", check, acceptsBoth).Status == 401
	})
	if _, err := connect(t, d.endpoint("hp_"+strings.Repeat("b", 40)), ""); err == nil {
		t.Error("a client connects with an unknown key")
	}

	// A key without the scope sees the tools and can do nothing with them.
	admin := d.overHTTP(t, d.AdminKey, "")
	admin.call(t, "aana_pre_tool_check", event("search_docs", "accept", nil), nil).problem(t, "scope_missing")

	// A tool's call and the request that brought it are one in the audit log.
	var done rpc
	id = newID("t_")
	passed := agent.do("POST", "/mcp", check, acceptsBoth, header{"X-Request-Id", id}).want(t, 200)
	passed.into(t, &done)
	if kind, store := passed.Header.Get("Content-Type"), passed.Header.Get("Cache-Control"); kind != "application/json" || store != "no-store" {
		t.Errorf("Content-Type %q, Cache-Control %q", kind, store)
	}
	events := d.admin(t).events(url.Values{"tool_name": {"search_docs"}})
	if events = slices.DeleteFunc(events, func(e auditEvent) bool { return e.RequestID != id }); len(events) != 1 || events[0].Type != "decision" || events[0].AgentID != "demo-agent" {
		t.Errorf("events of %s: %+v", id, events)
	}
	if !strings.Contains(string(agent.do("GET", "/openapi.json", nil).Body), `"/mcp"`) {
		t.Error("/mcp is not documented")
	}
	if string(done.ID) != "1" || done.Result.IsError || !strings.Contains(string(done.Result.Structured), `"execution_allowed":true`) {
		t.Errorf("%+v", done)
	}
	for name, headers := range map[string][]header{
		"another site": {{"Origin", "https://evil.example"}}, "no site": {{"Origin", "null"}}, "a browser elsewhere": {{"Sec-Fetch-Site", "cross-site"}},
	} {
		if a := agent.do("POST", "/mcp", check, append(headers, acceptsBoth)...); a.Status != 403 {
			t.Errorf("%s: %s", name, a)
		}
	}
	agent.do("POST", "/mcp", check, acceptsBoth, header{"Origin", d.URL}).want(t, 200)
	req, err := http.NewRequest("POST", d.URL+"/mcp", strings.NewReader(canonical(t, check)))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "rebound.example"
	req.Header = http.Header{"Authorization": {"Bearer " + d.AgentKey}, "Content-Type": {"application/json"}, "Accept": {acceptsBoth.value}}
	res, err := agent.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("under another name: %s", res.Status)
	}

	body := canonical(t, check)
	for name, c := range map[string]struct {
		body, code string
		status     int
	}{
		"two ids":            {strings.Replace(body, `"id":1`, `"id":1,"id":2`, 1), "malformed_json", 400},
		"two tools":          {strings.Replace(body, `"tool_name"`, `"tool\u005fname":"other","tool_name"`, 1), "malformed_json", 400},
		"another case":       {strings.Replace(body, `"method"`, `"Method":"ping","method"`, 1), "malformed_json", 400},
		"a number too large": {strings.Replace(body, `"proposed_arguments":{}`, `"proposed_arguments":{"n":9007199254740993}`, 1), "malformed_json", 400},
		"no UTF-8":           {strings.Replace(body, "search_docs", "search\xff", 1), "malformed_json", 400},
		"trailing":           {body + "{}", "malformed_json", 400},
		"a batch":            {"[" + body + "]", "batch", 400},
		"half an id":         {strings.Replace(body, `"id":1`, `"id":1.5`, 1), "message_id", 400},
		"an id too large":    {strings.Replace(body, `"id":1`, `"id":1e300`, 1), "message_id", 400},
		"too large":          {`{"pad":"` + strings.Repeat("x", 1<<20) + `"}`, "too_large", 413},
	} {
		if a := agent.do("POST", "/mcp", []byte(c.body), acceptsBoth); a.Status != c.status || a.code() != c.code {
			t.Errorf("%s: %s", name, a)
		}
	}
	agent.do("POST", "/mcp", check, acceptsBoth, header{"Content-Type", "text/plain"}).want(t, 415, "content_type")
	agent.do("POST", "/mcp", check, acceptsBoth, header{"Content-Encoding", "gzip"}).want(t, 415, "content_encoding")
	// Nothing that can be listened to ever changes: no answer is held for that.
	listen := map[string]any{"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": map[string]any{
		"notifications": map[string]any{"toolsListChanged": true},
		"_meta":         map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "tests", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": map[string]any{}},
	}}
	if a := agent.do("POST", "/mcp", listen, acceptsBoth, header{"Mcp-Protocol-Version", "2026-07-28"}, header{"Mcp-Method", "subscriptions/listen"}); a.Status != 200 || a.Took > healWithin {
		t.Errorf("after %s: %s", a.Took, a)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if a := agent.do(method, "/mcp", nil, acceptsBoth).want(t, 405); a.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %v", method, a.Header)
		}
	}
}

// TestAbandonedWaitIsReleased: whoever stops waiting over HTTP holds nothing in the
// server any more.
func TestAbandonedWaitIsReleased(t *testing.T) {
	ownPrograms(t)
	d := startDev(t, nil)
	opened := d.agent(t).hold("left_alone", nil)
	waiting := func(n string) func() bool {
		return func() bool {
			return strings.Contains(string(d.admin(t).do("GET", "/metrics", nil).Body), "\nholdpoint_waiting_readers "+n+"\n")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan answer, 1)
	go func() {
		gone <- d.agent(t).doWithin(ctx, "POST", "/mcp", message(1, "holdpoint_await", map[string]any{"approval_id": opened.ID, "timeout_seconds": 50}), acceptsBoth)
	}()
	eventually(t, settleWithin, "the wait is held", waiting("1"))
	cancel()
	<-gone
	eventually(t, settleWithin, "the wait is let go", waiting("0"))

	// A server that stops answers those who wait.
	late := make(chan answer, 1)
	go func() {
		late <- d.agent(t).do("POST", "/mcp", message(2, "holdpoint_await", map[string]any{"approval_id": opened.ID, "timeout_seconds": 50}), acceptsBoth)
	}()
	eventually(t, settleWithin, "the wait is held", waiting("1"))
	d.check(t)
	if err := d.program.stop(); err != nil {
		t.Fatal(err)
	}
	var got rpc
	(<-late).want(t, 200).into(t, &got)
	if got.Result.approval(t).Status != "pending" {
		t.Errorf("%+v", got)
	}
}

// talk is a "holdpoint mcp" that is spoken to line by line.
type talk struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	errs  bytes.Buffer
	began time.Time
}

func talkTo(t testing.TB, env []string, args ...string) *talk {
	t.Helper()
	k := &talk{t: t, cmd: exec.Command(binary(t), append([]string{"mcp"}, args...)...)}
	k.cmd.Env, k.cmd.Stderr = environment(env...), &k.errs
	k.in, k.out = startTalking(t, k.cmd)
	k.say(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"tests","version":"1"}}}`)
	if hello := k.hear(); string(hello.ID) != `"hello"` || hello.Error != nil {
		t.Fatalf("initialize: %+v", hello)
	}
	k.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return k
}

func (k *talk) say(line string) {
	k.t.Helper()
	if _, err := io.WriteString(k.in, line+"\n"); err != nil {
		k.t.Fatalf("%v\n%s", err, k.errs.String())
	}
}

// hear is the next line, which must be a message of the protocol.
func (k *talk) hear() rpc {
	k.t.Helper()
	if !k.out.Scan() {
		k.t.Fatalf("no more lines: %v", k.out.Err())
	}
	var version struct {
		V string `json:"jsonrpc"`
	}
	var r rpc
	if json.Unmarshal(k.out.Bytes(), &version) != nil || version.V != "2.0" || json.Unmarshal(k.out.Bytes(), &r) != nil {
		k.t.Fatalf("%q is no message", k.out.Bytes())
	}
	return r
}

// ends waits for the program's end, which must be a good one, and soon, after
// what was said to make it end.
func (k *talk) ends() {
	k.t.Helper()
	for k.out.Scan() {
		k.t.Errorf("one more line: %s", k.out.Bytes())
	}
	if err := k.cmd.Wait(); err != nil {
		k.t.Errorf("%v\n%s", err, k.errs.String())
	}
	if took := time.Since(k.began); took > healWithin {
		k.t.Errorf("it took %s to end", took)
	}
}

func (k *talk) hangUp() {
	k.began = time.Now()
	_ = k.in.Close()
}

// TestMCPRefusesBadLines: what is no message is answered as that, and the conversation
// goes on; the end of input ends it once everything is answered.
func TestMCPRefusesBadLines(t *testing.T) {
	d := onHosted(t)
	k := talkTo(t, nil, "--data", d.dir)
	check := canonical(t, message(1, "aana_pre_tool_check", event("search_docs", "accept", nil)))
	for line, want := range map[string]int{
		"garbage":              -32700,
		`{"jsonrpc":"2.0","id`: -32700,
		strings.Replace(check, `"tool_name"`, `"tool_name":"other","tool_name"`, 1): -32700,
		strings.Replace(check, `"id":1`, `"id":1,"ID":2`, 1):                        -32700,
		strings.Replace(check, "search_docs", `\ud800`, 1):                          -32700,
		check + check: -32700,
		`{"pad":"` + strings.Repeat("x", 1<<20) + `"}`:      -32700,
		strings.Repeat("[", 100) + strings.Repeat("]", 100): -32700,
		"[" + check + "]":                   -32600,
		`"hello"`:                           -32600,
		`{"jsonrpc":"1.0","method":"ping"}`: -32600,
		`{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`:              -32600,
		strings.Replace(check, `"jsonrpc":"2.0"`, `"jsonrpc":2.5`, 1): -32600,
	} {
		k.say(line)
		got := k.hear()
		// Only where the id could be read is it known whose error this is.
		wantID := "null"
		if strings.Contains(line, "2.5") {
			wantID = "1"
		}
		if got.Error == nil || got.Error.Code != want || got.Error.Message == "" || string(got.ID) != wantID {
			t.Errorf("%.60s: %+v", line, got)
		}
		k.say("")
		k.say(check)
		if got := k.hear(); string(got.ID) != "1" || got.Result.IsError || got.Error != nil {
			t.Fatalf("after %.60s: %+v", line, got)
		}
	}
	// A wait can be taken back, and what comes meanwhile is answered at once.
	opened := d.agent(t).hold("line_note", nil)
	k.say(canonical(t, message(2, "holdpoint_await", map[string]any{"approval_id": opened.ID, "timeout_seconds": 50})))
	k.say(check)
	if got := k.hear(); string(got.ID) != "1" {
		t.Errorf("while something waits: %+v", got)
	}
	k.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	if got := k.hear(); string(got.ID) != "2" {
		t.Errorf("cancelled: %+v", got)
	}
	// The end of input: what waits is answered as it stands, what was asked is done.
	k.say(canonical(t, message(3, "holdpoint_await", map[string]any{"approval_id": opened.ID, "timeout_seconds": 50})))
	if _, err := io.WriteString(k.in, strings.Replace(check, `"id":1`, `"id":4`, 1)); err != nil { // without its end of line
		t.Fatal(err)
	}
	k.hangUp()
	answers := map[string]rpc{}
	for range 2 {
		got := k.hear()
		answers[string(got.ID)] = got
	}
	if got := answers["3"].Result; got.IsError || got.approval(t).Status != "pending" {
		t.Errorf("the wait at the end of input: %+v", answers["3"])
	}
	if got := answers["4"].Result; got.IsError || !strings.Contains(string(got.Structured), `"execution_allowed":true`) {
		t.Errorf("the check at the end of input: %+v", answers["4"])
	}
	k.ends()
	if text := k.errs.String(); text != "" {
		t.Errorf("on standard error: %s", text)
	}
}

// TestMCPProgramStops: told to stop in the middle of a wait, the program does.
func TestMCPProgramStops(t *testing.T) {
	d := onHosted(t)
	opened := d.agent(t).hold("stopped_note", nil)
	k := talkTo(t, nil, "--data", d.dir)
	k.say(canonical(t, message(1, "holdpoint_await", map[string]any{"approval_id": opened.ID, "timeout_seconds": 50})))
	k.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if got := k.hear(); string(got.ID) != "2" {
		t.Errorf("%+v", got)
	}
	k.began = time.Now()
	if err := k.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if k.out.Scan() && !strings.Contains(k.out.Text(), `"id":1`) {
		t.Errorf("after SIGTERM: %s", k.out.Text())
	}
	k.ends()
}

// TestModelProgramSettings: what is missing or wrong is said in one line, and
// no key is ever on the command line.
func TestModelProgramSettings(t *testing.T) {
	d := onHosted(t)
	for name, c := range map[string]struct {
		env, args []string
		says      string
	}{
		"nothing":          {nil, nil, "--url"},
		"no key":           {nil, []string{"--url", d.URL}, "HOLDPOINT_API_KEY"},
		"no such file":     {nil, []string{"--url", d.URL, "--key-file", "/nowhere/key"}, "/nowhere/key"},
		"two words":        {[]string{"HOLDPOINT_API_KEY=hp_a b"}, []string{"--url", d.URL}, "one word"},
		"no address":       {[]string{"HOLDPOINT_API_KEY=hp_a"}, []string{"--url", "ftp://x"}, "https://"},
		"secret in it":     {[]string{"HOLDPOINT_API_KEY=hp_a"}, []string{"--url", "https://a:b@x"}, "https://"},
		"no dev there":     {nil, []string{"--data", t.TempDir()}, "no data directory"},
		"runtime of what?": {[]string{"HOLDPOINT_API_KEY=hp_a"}, []string{"--url", d.URL, "--runtime"}, "--data"},
	} {
		got := cli(t, c.env, "", append([]string{"mcp"}, c.args...)...)
		if got.code != 1 || got.out != "" || !strings.Contains(got.err, c.says) || strings.Count(strings.TrimSpace(got.err), "\n") > 0 || strings.Contains(got.err, "hp_a") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if help := must(t, nil, "", "mcp", "--help"); !strings.Contains(help, `"mcpServers"`) {
		t.Errorf("help: %s", help)
	}
	if help := must(t, nil, "", "mcp", "serve", "--help"); !strings.Contains(help, "--key-file") || strings.Contains(help, "--key ") || strings.Contains(help, "--key=") {
		t.Errorf("help: %s", help)
	}
	// Neither a wrong key nor a missing server is seen before the first call.
	event := event("search_docs", "accept", nil)
	overStdio(t, "", []string{"HOLDPOINT_API_KEY=hp_wrong"}, "--url", d.URL).call(t, "aana_pre_tool_check", event, nil).problem(t, "unauthenticated")
	nowhere := overStdio(t, "", []string{"HOLDPOINT_API_KEY=hp_a"}, "--url", "http://127.0.0.1:1")
	nowhere.call(t, "aana_pre_tool_check", event, nil).problem(t, "unreachable")
	nowhere.call(t, "holdpoint_await", map[string]any{"approval_id": "apr_a"}, nil).problem(t, "unreachable")

	// The runtime's key may say that the user has confirmed.
	runtime := overStdio(t, "", nil, "--data", d.dir, "--runtime")
	event["authorization_state"] = "confirmed"
	var got struct {
		State string `json:"authorization_state"`
	}
	runtime.call(t, "aana_pre_tool_check", event, nil).good(t).into(t, &got)
	if got.State != "confirmed" {
		t.Errorf("authorization_state is %q", got.State)
	}
}
