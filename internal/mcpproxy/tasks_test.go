package mcpproxy

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	holdpoint "holdpoint.example/client"
)

// taskHost is a host that speaks of tasks and shows links, message by message.
type taskHost struct {
	t     *testing.T
	conn  sdk.Connection
	leave func() error
	count int
	// What came that is no answer to what was asked.
	asked   []*jsonrpc.Request
	answers map[jsonrpc.ID]*jsonrpc.Response
}

// tasking begins a conversation with a host that has tasks, and links if it has these
// capabilities.
func (w *harness) tasking(version, capabilities string, edit func(*Config)) *taskHost {
	w.t.Helper()
	in, out := w.open(edit)
	h := &taskHost{t: w.t, conn: Lines(in, out), answers: map[jsonrpc.ID]*jsonrpc.Response{}}
	h.leave = func() error { go io.Copy(io.Discard, in); return out.Close() }
	w.t.Cleanup(func() { go io.Copy(io.Discard, in) })
	a := h.do("initialize", `{"protocolVersion":"`+version+`","capabilities":`+capabilities+`,"clientInfo":{"name":"h","version":"1"}}`)
	if got := string(a.Result); a.Error != nil || strings.Contains(got, `"tasks"`) != (version == tasksVersion) {
		w.t.Fatalf("in %s the host is offered %s", version, got)
	}
	h.send(&jsonrpc.Request{Method: "notifications/initialized"})
	return h
}

func (h *taskHost) send(m jsonrpc.Message) {
	h.t.Helper()
	if err := h.conn.Write(h.t.Context(), m); err != nil {
		h.t.Fatal(err)
	}
}

// ask sends a request, and returns its id.
func (h *taskHost) ask(method, params string) jsonrpc.ID {
	h.t.Helper()
	h.count++
	id, _ := jsonrpc.MakeID(float64(h.count))
	h.send(&jsonrpc.Request{ID: id, Method: method, Params: json.RawMessage(params)})
	return id
}

func (h *taskHost) next() jsonrpc.Message {
	h.t.Helper()
	type read struct {
		m   jsonrpc.Message
		err error
	}
	got := make(chan read, 1)
	go func() { m, err := h.conn.Read(h.t.Context()); got <- read{m, err} }()
	select {
	case r := <-got:
		if r.err != nil {
			h.t.Fatal(r.err)
		}
		return r.m
	case <-time.After(within):
		h.t.Fatal("the proxy says nothing")
		return nil
	}
}

func (h *taskHost) answer(id jsonrpc.ID) *jsonrpc.Response {
	h.t.Helper()
	for h.answers[id] == nil {
		h.take()
	}
	return h.answers[id]
}

// take keeps the next message.
func (h *taskHost) take() {
	h.t.Helper()
	switch m := h.next().(type) {
	case *jsonrpc.Request:
		h.asked = append(h.asked, m)
	case *jsonrpc.Response:
		h.answers[m.ID] = m
	}
}

func (h *taskHost) do(method, params string) *jsonrpc.Response {
	h.t.Helper()
	return h.answer(h.ask(method, params))
}

// told waits for a message of this method that the host was not asked for.
func (h *taskHost) told(method string) string {
	h.t.Helper()
	for {
		if i := slices.IndexFunc(h.asked, func(r *jsonrpc.Request) bool { return r.Method == method }); i >= 0 {
			r := h.asked[i]
			h.asked = slices.Delete(h.asked, i, i+1)
			return string(r.Params)
		}
		h.take()
	}
}

// state is a task as the host is shown it.
type state struct {
	TaskID        string
	Status        string
	StatusMessage string
	TTL           int64
	CreatedAt     time.Time
	LastUpdatedAt time.Time
	PollInterval  int
}

// begin calls a tool as a task.
func (h *taskHost) begin(tool, arguments, task string) (s state) {
	h.t.Helper()
	a := h.do("tools/call", `{"name":"`+tool+`","arguments":`+arguments+`,"task":`+task+`,"_meta":{"progressToken":7}}`)
	var created struct{ Task state }
	if a.Error != nil || json.Unmarshal(a.Result, &created) != nil || created.Task.TaskID == "" || created.Task.Status != "working" || created.Task.CreatedAt.IsZero() {
		h.t.Fatalf("a task is begun by %s, %v", a.Result, a.Error)
	}
	return created.Task
}

func (h *taskHost) about(method, id string) (s state, err error) {
	h.t.Helper()
	a := h.do(method, `{"taskId":"`+id+`"}`)
	if a.Error != nil {
		return s, a.Error
	}
	if err := json.Unmarshal(a.Result, &s); err != nil {
		h.t.Fatal(err)
	}
	return s, nil
}

// result waits for a task's result, and says what its text is.
func (h *taskHost) result(id string) (text string, isError bool) {
	h.t.Helper()
	a := h.do("tasks/result", `{"taskId":"`+id+`"}`)
	var result sdk.CallToolResult
	if a.Error != nil {
		return a.Error.Error(), true
	}
	if err := json.Unmarshal(a.Result, &result); err != nil {
		h.t.Fatal(err)
	}
	if fmt.Sprint(result.Meta[relatedTask]) != "map[taskId:"+id+"]" {
		h.t.Errorf("the result does not say whose it is: %s", a.Result)
	}
	if strings.Contains(string(a.Result), "h.e") {
		h.t.Errorf("the host sees a token: %s", a.Result)
	}
	for _, c := range result.Content {
		text += c.(*sdk.TextContent).Text + "\n"
	}
	return text, result.IsError
}

// A call as a task is answered at once, waits as long as people take, runs once, and its
// result is there as often as it is asked for. Where a host can show a link it is asked to,
// and nothing that it answers decides.
func TestTask(t *testing.T) {
	w := newHarness(t)
	w.fake.outcome = "REQUIRE_APPROVAL"
	h := w.tasking(tasksVersion, `{"elicitation":{"url":{}}}`, func(c *Config) { c.Wait = 0 })
	if a := h.do("tools/list", `{}`); !strings.Contains(string(a.Result), `"execution":{"taskSupport":"optional"}`) {
		t.Errorf("the tools are %s", a.Result)
	}
	s := h.begin("pay", `{"n":1}`, `{"ttl":600000}`)
	if s.TTL != 600000 || s.PollInterval != 500 {
		t.Errorf("it is %+v", s)
	}
	w.fake.until(t, "an approval", func() bool { return len(w.fake.approvals) == 1 })
	shown := h.told("elicitation/create")
	for _, part := range []string{`"mode":"url"`, `"url":"http://review/apr_0"`, `"elicitationId":"apr_0"`, `"taskId":"` + s.TaskID + `"`} {
		if !strings.Contains(shown, part) {
			t.Errorf("the host is to show %s, without %s", shown, part)
		}
	}
	if says := h.told("notifications/progress"); !strings.Contains(says, `"progressToken":7`) || !strings.Contains(says, s.TaskID) {
		t.Errorf("progress says %s", says)
	}
	for _, answer := range []string{`{"action":"accept","content":{"approve":true}}`, `{"action":"decline"}`} {
		id, _ := jsonrpc.MakeID(w.proxy.host.ids.prefix + "99")
		for _, l := range w.proxyLinks() {
			id = l.request
		}
		h.send(&jsonrpc.Response{ID: id, Result: json.RawMessage(answer)})
	}
	if now, err := h.about("tasks/get", s.TaskID); err != nil || now.Status != "working" || !strings.Contains(now.StatusMessage, "http://review/apr_0") {
		t.Errorf("it is %+v, %v", now, err)
	}
	waiting := h.ask("tasks/result", `{"taskId":"`+s.TaskID+`"}`)
	if w.runs.Load() != 0 || w.fake.approvals[0].Status != "pending" {
		t.Fatal("what the host's user answers has decided")
	}
	w.fake.set(func() { w.fake.approvals[0].Status = "approved" })
	if a := h.answer(waiting); a.Error != nil || !strings.Contains(string(a.Result), "done") {
		t.Errorf("the result is %s, %v", a.Result, a.Error)
	}
	for range 2 {
		if text, isError := h.result(s.TaskID); isError || !strings.Contains(text, "done") {
			t.Errorf("the result is %t %q", isError, text)
		}
	}
	if done := h.told("notifications/elicitation/complete"); !strings.Contains(done, "apr_0") {
		t.Errorf("the link is over: %s", done)
	}
	if says := h.told("notifications/tasks/status"); !strings.Contains(says, `"status":"completed"`) {
		t.Errorf("the host is told %s", says)
	}
	if _, err := h.about("tasks/cancel", s.TaskID); err == nil || !strings.Contains(err.Error(), "over already") {
		t.Errorf("cancelled afterwards: %v", err)
	}
	if w.runs.Load() != 1 || fmt.Sprint(w.fake.reports) != "[apr_0 succeeded]" {
		t.Errorf("%d runs, reported: %s", w.runs.Load(), w.fake.reports)
	}

	// Denied: it fails, in words for the model.
	s = h.begin("pay", `{"n":2}`, `{}`)
	if s.TTL != usualTTL.Milliseconds() {
		t.Errorf("it is %+v", s)
	}
	w.fake.until(t, "a second approval", func() bool { return len(w.fake.approvals) == 2 })
	w.fake.set(func() {
		a := w.fake.approvals[1]
		a.Status, a.Denial = "denied", &holdpoint.Denial{Kind: "wrong_args", Comment: "too much"}
	})
	if text, isError := h.result(s.TaskID); !isError || !strings.Contains(text, `"too much"`) {
		t.Errorf("%t %q", isError, text)
	}
	if now, err := h.about("tasks/get", s.TaskID); err != nil || now.Status != "failed" || !strings.Contains(now.StatusMessage, `"too much"`) {
		t.Errorf("it is %+v, %v", now, err)
	}

	// Tasks are listed, and nobody else's word for one counts.
	if a := h.do("tasks/list", `{}`); strings.Count(string(a.Result), `"taskId"`) != 2 || strings.Contains(string(a.Result), "nextCursor") {
		t.Errorf("the tasks are %s", a.Result)
	}
	for _, bad := range [][2]string{
		{"tasks/get", `{"taskId":"x"}`},
		{"tasks/result", `{}`},
		{"tasks/cancel", `7`},
		{"tasks/list", `{"cursor":"x"}`},
		{"tasks/list", `[]`},
		{"tools/call", `{"name":"pay","task":7}`},
		{"tools/call", `{"name":"pay","task":{"ttl":0}}`},
		{"tools/call", `{"name":"pay","task":{"ttl":"1"}}`},
	} {
		if a := h.do(bad[0], bad[1]); a.Error == nil || !strings.Contains(string(mustMarshal(t, a.Error)), "-32602") {
			t.Errorf("%s %s: %s, %v", bad[0], bad[1], a.Result, a.Error)
		}
	}
	if a := h.do("tasks/other", `{"taskId":"`+s.TaskID+`"}`); a.Error == nil || !strings.Contains(a.Error.Error(), "does not offer") {
		t.Errorf("%s, %v", a.Result, a.Error)
	}
	if w.runs.Load() != 1 {
		t.Errorf("it ran %d times", w.runs.Load())
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (w *harness) proxyLinks() map[string]*link {
	w.proxy.host.mu.Lock()
	defer w.proxy.host.mu.Unlock()
	all := map[string]*link{}
	maps.Copy(all, w.proxy.host.links)
	return all
}

// A cancelled task does what a cancelled call does: its approval goes on waiting, and what
// runs is cancelled at the server and reported.
func TestCancelledTask(t *testing.T) {
	w := newHarness(t)
	w.fake.outcome = "REQUIRE_APPROVAL"
	w.hold = make(chan struct{})
	h := w.tasking(tasksVersion, `{}`, nil)
	s := h.begin("pay", `{}`, `{}`)
	w.fake.until(t, "an approval", func() bool { return len(w.fake.approvals) == 1 })
	if now, err := h.about("tasks/cancel", s.TaskID); err != nil || now.Status != "cancelled" {
		t.Fatalf("it is %+v, %v", now, err)
	}
	if text, isError := h.result(s.TaskID); !isError || !strings.Contains(text, "Not run") {
		t.Errorf("%t %q", isError, text)
	}
	w.fake.set(func() { w.fake.approvals[0].Status = "approved" })
	if w.runs.Load() != 0 || w.fake.approvals[0].spent {
		t.Fatal("a cancelled task runs")
	}

	// The same call finds the approval. It runs, is cancelled, and stays cancelled.
	s = h.begin("pay", `{}`, `{}`)
	w.ranWith()
	waiting := h.ask("tasks/result", `{"taskId":"`+s.TaskID+`"}`)
	if now, err := h.about("tasks/cancel", s.TaskID); err != nil || now.Status != "cancelled" {
		t.Fatalf("it is %+v, %v", now, err)
	}
	h.answer(waiting) // the server's tool ends with it, or the test does not end
	if now, err := h.about("tasks/get", s.TaskID); err != nil || now.Status != "cancelled" {
		t.Errorf("it is %+v, %v", now, err)
	}
	w.fake.until(t, "a report", func() bool { return len(w.fake.reports) == 1 })
	if len(w.fake.approvals) != 1 || w.runs.Load() != 1 {
		t.Errorf("%d approvals, %d runs", len(w.fake.approvals), w.runs.Load())
	}

	// A task whose time is over does not run.
	s = h.begin("pay", `{"n":2}`, `{"ttl":1}`)
	var over error
	for over == nil { // until its timer has run
		_, over = h.about("tasks/get", s.TaskID)
	}
	if !strings.Contains(over.Error(), "look before you call the tool again") {
		t.Errorf("a task that is over: %v", over)
	}
	// A wait for a result that the host gives up is not answered.
	s = h.begin("pay", `{"n":3}`, `{}`)
	waiting = h.ask("tasks/result", `{"taskId":"`+s.TaskID+`"}`)
	h.send(&jsonrpc.Request{Method: "notifications/cancelled", Params: mustMarshal(t, map[string]any{"requestId": waiting.Raw()})})
	if now, err := h.about("tasks/get", s.TaskID); err != nil || now.Status != "working" {
		t.Errorf("it is %+v, %v", now, err)
	}
	its := func() int {
		return slices.IndexFunc(w.fake.approvals, func(a *held) bool { return a.arguments == `{"n":3}` })
	}
	w.fake.until(t, "its approval", func() bool { return its() >= 0 })
	w.fake.set(func() { w.fake.approvals[its()].Status = "expired" })
	h.result(s.TaskID)
	if h.answers[waiting] != nil {
		t.Error("what the host gave up is answered")
	}
}

// In a version without tasks there are none, whatever a host says.
func TestNoTasks(t *testing.T) {
	w := newHarness(t)
	h := w.tasking("2025-06-18", `{"elicitation":{}}`, func(c *Config) { c.Wait = 0 })
	if a := h.do("tools/list", `{}`); strings.Contains(string(a.Result), "taskSupport") {
		t.Errorf("the tools are %s", a.Result)
	}
	if a := h.do("tools/call", `{"name":"pay","arguments":{},"task":{}}`); a.Error != nil || !strings.Contains(string(a.Result), "done") {
		t.Errorf("%s, %v", a.Result, a.Error)
	}
	if a := h.do("tasks/list", `{}`); a.Error == nil {
		t.Errorf("%s", a.Result)
	}
	w.fake.set(func() { w.fake.outcome = "REQUIRE_APPROVAL" })
	if a := h.do("tools/call", `{"name":"pay","arguments":{"n":1}}`); !strings.Contains(string(a.Result), "http://review/apr_0") {
		t.Errorf("%s, %v", a.Result, a.Error)
	}
	for _, r := range h.asked {
		if r.Method == "elicitation/create" {
			t.Error("a host that shows no links is to show one")
		}
	}
}

// There are as many tasks as there may be, and those that are over make room.
func TestManyTasks(t *testing.T) {
	w := newHarness(t)
	h := w.tasking(tasksVersion, `{}`, nil)
	first := h.begin("pay", `{}`, `{}`)
	h.result(first.TaskID)
	w.proxy.calls.mu.Lock()
	for len(w.proxy.calls.tasks) < maxTasks {
		w.proxy.calls.tasks = append(w.proxy.calls.tasks, &task{id: fmt.Sprint(len(w.proxy.calls.tasks)), status: working, call: &call{}})
	}
	w.proxy.calls.mu.Unlock()
	seen, cursor := 0, ""
	for {
		a := h.do("tasks/list", `{"cursor":"`+cursor+`"}`)
		var page struct {
			Tasks      []state
			NextCursor string
		}
		if err := json.Unmarshal(a.Result, &page); err != nil {
			t.Fatal(err)
		}
		seen += len(page.Tasks)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if seen != maxTasks {
		t.Errorf("%d tasks are listed", seen)
	}
	h.result(h.begin("pay", `{"n":1}`, `{}`).TaskID)
	if _, err := h.about("tasks/get", first.TaskID); err == nil {
		t.Error("the oldest task has not made room")
	}
	h.result(h.begin("pay", `{"n":2}`, `{}`).TaskID) // in the room of the one before
	w.proxy.calls.mu.Lock()
	for _, t := range w.proxy.calls.tasks {
		t.answer = nil
	}
	w.proxy.calls.mu.Unlock()
	if a := h.do("tools/call", `{"name":"pay","task":{}}`); a.Error == nil || !strings.Contains(a.Error.Error(), "too many") {
		t.Errorf("%s, %v", a.Result, a.Error)
	}
	if n := w.runs.Load(); n != 3 {
		t.Errorf("%d runs", n)
	}
}
