package mcpproxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"holdpoint/engine/canon"
)

// tasksVersion is the version of the protocol that has tasks as they are here.
const tasksVersion = "2025-11-25"

// Bounds of tasks. A host that does not say how long it wants one gets the usual time.
const (
	usualTTL   = 24 * time.Hour
	longestTTL = 7 * 24 * time.Hour
	maxTasks   = 1000
	tasksShown = 100 // on a page of tasks/list
	askAgain   = 500 * time.Millisecond
)

type taskStatus string

// The statuses of a task. A call that waits for people is working: what its host could
// do for it, it is told by elicitation and progress.
const (
	working   taskStatus = "working"
	completed taskStatus = "completed"
	failed    taskStatus = "failed"
	cancelled taskStatus = "cancelled"
)

// task is a call that the host has been answered before it is decided, and whose result
// it comes back for. One that waits for people is found again by a proxy that was started
// anew (kept.go); any other ends with the conversation.
type task struct {
	id      string
	call    *call
	created time.Time
	ttl     time.Duration
	expiry  *time.Timer
	done    chan struct{} // closed once answer is there
	found   bool          // it was kept by another proxy, which may go on with it as well
	told    bool          // the host knows its id; only the call's own goroutine looks

	// Guarded by Proxy.mu.
	kept    bool // there is a file of it, which says whether its call may begin
	updated time.Time
	status  taskStatus
	message string
	answer  *jsonrpc.Response
}

// relatedTask is the member of _meta that says which task a message is about.
const relatedTask = "io.modelcontextprotocol/related-task"

func (t *task) meta() map[string]any {
	return map[string]any{relatedTask: map[string]string{"taskId": t.id}}
}

// state is a task as the host is shown it. Proxy.mu is held.
func (t *task) state() map[string]any {
	s := map[string]any{
		"taskId": t.id, "status": t.status, "createdAt": t.created.Format(time.RFC3339Nano), "lastUpdatedAt": t.updated.Format(time.RFC3339Nano),
		"ttl": t.ttl.Milliseconds(), "pollInterval": askAgain.Milliseconds(),
	}
	if t.message != "" {
		s["statusMessage"] = t.message
	}
	return s
}

// move changes a task's status, unless it has come to its end. Proxy.mu is held.
func (t *task) move(status taskStatus, message string) (moved bool) {
	if t.status != working {
		return false
	}
	t.status, t.message, t.updated = status, message, time.Now().UTC()
	return true
}

// ttlOf is how long a host wants to have the task of a call; 0 for a call that is none.
func ttlOf(params canon.Value) (time.Duration, error) {
	asked, _ := params.Get("task")
	if asked.IsNull() {
		return 0, nil
	}
	ttl, given := asked.Get("ttl")
	ms := ttl.Float()
	switch {
	case asked.Kind() != canon.ObjectKind:
		return 0, errors.New("params.task is an object")
	case !given || ttl.IsNull():
		return usualTTL, nil
	case ttl.Kind() != canon.NumberKind || ms < 1 || math.IsNaN(ms):
		return 0, errors.New("params.task.ttl is a number of milliseconds, 1 or more")
	case ms > float64(longestTTL.Milliseconds()):
		return longestTTL, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// errTooManyTasks says that as many calls as there may be are on their way.
var errTooManyTasks = errors.New("too many calls wait or run as tasks: come back when some of them are over")

// errTaskHere says that a task which is to be restored was a moment ago.
var errTaskHere = errors.New("the task is here already")

// newTask makes a call a task.
func (p *Proxy) newTask(c *call, ttl time.Duration) error {
	now := time.Now().UTC()
	return p.add(&task{id: rand.Text(), call: c, created: now, updated: now, ttl: ttl, status: working, done: make(chan struct{})})
}

// add takes a task on. It takes the room of the oldest one that is over.
func (p *Proxy) add(t *task) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.tasks, func(other *task) bool { return other.id == t.id }) {
		return errTaskHere
	}
	if len(p.tasks) >= maxTasks {
		oldest := slices.IndexFunc(p.tasks, func(t *task) bool { return t.answer != nil })
		if oldest < 0 {
			return errTooManyTasks
		}
		p.tasks[oldest].expiry.Stop()
		if err := p.kept.forget(p.tasks[oldest].id); err != nil {
			return err
		}
		p.tasks = slices.Delete(p.tasks, oldest, oldest+1)
	}
	t.call.task, p.tasks = t, append(p.tasks, t)
	return nil
}

// announce answers the host with a call's task, if it has not been yet: before anything is
// waited for, and before the call runs. From here on its time passes.
func (p *Proxy) announce(ctx context.Context, c *call) {
	t := c.task
	if t == nil || t.told || ctx.Err() != nil {
		return
	}
	own := p.ownID() // the host's is answered now
	p.mu.Lock()
	asked := c.id
	delete(p.calls, asked)
	c.id, t.told = own, true
	p.calls[own] = c
	created := t.state()
	t.expiry = time.AfterFunc(t.ttl, func() { p.expired(t) })
	p.mu.Unlock()
	p.reply(context.WithoutCancel(ctx), asked, map[string]any{"task": created})
}

// drop forgets a task whose host has cancelled the call before it knew of it.
func (p *Proxy) drop(t *task) {
	if err := p.kept.forget(t.id); err != nil {
		p.Logger.Warn("a task that nobody knows of stays on the disk", "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks = slices.DeleteFunc(p.tasks, func(other *task) bool { return other == t })
}

// expired forgets a task whose time is over. One that waits does not run any more, and
// its approval is left; one that runs is kept until that is over.
func (p *Proxy) expired(t *task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.answer == nil && t.call.running {
		t.expiry.Reset(cancelWithin)
		return
	}
	t.call.cancel()
	t.move(cancelled, "Its time is over.")
	if err := p.kept.forget(t.id); err != nil {
		p.Logger.Warn("a task whose time is over stays on the disk", "error", err)
	}
	p.tasks = slices.DeleteFunc(p.tasks, func(other *task) bool { return other == t })
}

// waits says in a call's task that people decide.
func (p *Proxy) waits(c *call, message string) {
	if c.task == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.task.move(working, message)
}

// finish ends a task with the answer to its call.
func (p *Proxy) finish(ctx context.Context, t *task, a *jsonrpc.Response) {
	status, message := completed, ""
	var result struct {
		Content []block `json:"content"`
		IsError bool    `json:"isError"`
	}
	switch {
	case a.Error != nil:
		status, message = failed, a.Error.Error()
	case json.Unmarshal(a.Result, &result) == nil && result.IsError:
		if status = failed; len(result.Content) > 0 {
			message = result.Content[0].Text
		}
	}
	p.mu.Lock()
	t.answer = a
	moved := t.move(status, message)
	state := t.state()
	p.mu.Unlock()
	close(t.done)
	if moved {
		p.notify(ctx, "notifications/tasks/status", state)
	}
}

// notify tells the host something that it need not answer.
func (p *Proxy) notify(ctx context.Context, method string, params map[string]any) {
	if data, err := json.Marshal(params); err == nil {
		p.toHost(ctx, &jsonrpc.Request{Method: method, Params: data})
	}
}

// reply answers a request of the host's with what is not from the server.
func (p *Proxy) reply(ctx context.Context, id jsonrpc.ID, result any) {
	data, err := json.Marshal(result)
	if err != nil {
		p.toHost(ctx, failure(id, jsonrpc.CodeInternalError, "the answer cannot be encoded"))
		return
	}
	p.toHost(ctx, &jsonrpc.Response{ID: id, Result: data})
}

// unknownTask is for a host whose proxy was started anew, too, where the task was not kept.
const unknownTask = "there is no such task here: it was cancelled, its time is over, or the proxy was started anew. Its call may have run: look before you call the tool again. With the same arguments, what waits for people, or was approved and has not run, goes on where it was"

// tasked handles a request about tasks. They are the proxy's own: the server never hears
// of them.
func (p *Proxy) tasked(ctx context.Context, r *jsonrpc.Request) {
	if r.Method == "tasks/list" {
		p.listTasks(ctx, r)
		return
	}
	var params struct {
		ID string `json:"taskId"`
	}
	_ = json.Unmarshal(r.Params, &params) // what cannot be read names no task
	p.mu.Lock()
	is := func(t *task) bool { return t.id == params.ID }
	at := slices.IndexFunc(p.tasks, is)
	if at < 0 {
		p.mu.Unlock()
		if r.Method == "tasks/cancel" {
			p.work.Go(func() { p.cancelKept(ctx, r, params.ID) })
			return
		}
		p.restore(ctx, params.ID)
		p.mu.Lock()
		at = slices.IndexFunc(p.tasks, is)
	}
	if at < 0 {
		p.mu.Unlock()
		p.toHost(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, unknownTask))
		return
	}
	t := p.tasks[at]
	switch r.Method {
	case "tasks/get":
		state := t.state()
		p.mu.Unlock()
		p.reply(ctx, r.ID, state)
	case "tasks/cancel":
		if t.found && t.status == working && !t.call.running {
			p.mu.Unlock()
			p.work.Go(func() { p.cancelKept(ctx, r, t.id) })
			return
		}
		p.cancelTask(ctx, r, t)
	case "tasks/result":
		ctx, stop := context.WithCancel(ctx)
		p.results[r.ID] = stop
		p.mu.Unlock()
		p.work.Go(func() { p.resultOf(ctx, r.ID, t) })
	default:
		p.mu.Unlock()
		p.toHost(ctx, failure(r.ID, jsonrpc.CodeMethodNotFound, "the proxy does not offer "+r.Method))
	}
}

// cancelTask answers tasks/cancel for a task of this proxy's. One that another proxy has begun,
// or that this one is about to run, goes on. Proxy.mu is held, and given back.
func (p *Proxy) cancelTask(ctx context.Context, r *jsonrpc.Request, t *task) {
	runs := t.call.running
	var err error
	if t.status == working && t.kept && !runs {
		err = p.kept.cancel(t.id)
	}
	if errors.Is(err, errBegun) || !t.move(cancelled, "It was cancelled by the host.") {
		p.mu.Unlock()
		p.toHost(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, errBegun.Error()))
		return
	}
	t.call.cancel()
	state := t.state()
	p.mu.Unlock()
	if runs {
		p.cancelAtServer(ctx, t.call)
	}
	if err = errors.Join(err, p.kept.forget(t.id)); err != nil {
		p.toHost(ctx, failure(r.ID, jsonrpc.CodeInternalError, "it is cancelled here, but that cannot be noted: a proxy that is started anew would go on with it"))
		return
	}
	p.reply(ctx, r.ID, state)
}

// cancelAtServer tells the server that nobody waits for a call any more.
func (p *Proxy) cancelAtServer(ctx context.Context, c *call) {
	params, err := json.Marshal(map[string]any{"requestId": c.id.Raw(), "reason": "its task was cancelled"})
	if err == nil {
		p.toServer(ctx, &jsonrpc.Request{Method: "notifications/cancelled", Params: params})
	}
}

// resultOf answers with a task's result, once there is one.
func (p *Proxy) resultOf(ctx context.Context, id jsonrpc.ID, t *task) {
	wanted := true
	select {
	case <-t.done:
	case <-ctx.Done():
		wanted = false
	}
	p.mu.Lock()
	stop := p.results[id]
	delete(p.results, id)
	p.mu.Unlock()
	if wanted {
		p.toHost(ctx, t.result(id))
	}
	stop()
}

// result is the answer to the task's call as the answer to another request.
func (t *task) result(id jsonrpc.ID) *jsonrpc.Response {
	var result, meta map[string]any
	read := json.NewDecoder(bytes.NewReader(t.answer.Result))
	read.UseNumber() // a number passes as it is
	if t.answer.Error != nil || read.Decode(&result) != nil || result == nil {
		return &jsonrpc.Response{ID: id, Result: t.answer.Result, Error: t.answer.Error}
	}
	if meta, _ = result["_meta"].(map[string]any); meta == nil {
		meta = map[string]any{}
	}
	meta[relatedTask] = t.meta()[relatedTask]
	result["_meta"] = meta
	data, err := json.Marshal(result)
	if err != nil {
		return failure(id, jsonrpc.CodeInternalError, "the result cannot be encoded")
	}
	return &jsonrpc.Response{ID: id, Result: data}
}

// listTasks answers tasks/list, the oldest first. A cursor is the last task of a page.
func (p *Proxy) listTasks(ctx context.Context, r *jsonrpc.Request) {
	var params struct {
		Cursor string `json:"cursor"`
	}
	if r.Params != nil && json.Unmarshal(r.Params, &params) != nil {
		p.toHost(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, "the cursor is a text"))
		return
	}
	p.mu.Lock()
	from := 0
	if params.Cursor != "" {
		from = slices.IndexFunc(p.tasks, func(t *task) bool { return t.id == params.Cursor }) + 1
	}
	page := map[string]any{}
	states := []map[string]any{}
	for i := from; i < len(p.tasks) && len(states) < tasksShown; i++ {
		states = append(states, p.tasks[i].state())
		if i+1 < len(p.tasks) && len(states) == tasksShown {
			page["nextCursor"] = p.tasks[i].id
		}
	}
	page["tasks"] = states
	p.mu.Unlock()
	if params.Cursor != "" && from == 0 {
		p.toHost(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, "the cursor is none of this list's, or its task is gone: begin anew"))
		return
	}
	p.reply(ctx, r.ID, page)
}

// met remembers what the host can do, when it introduces itself.
func (p *Proxy) met(params json.RawMessage) {
	var host struct {
		Capabilities struct {
			Elicitation struct {
				URL json.RawMessage `json:"url"`
			} `json:"elicitation"`
		} `json:"capabilities"`
	}
	_ = json.Unmarshal(params, &host) // what cannot be read can do nothing
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opensLinks = host.Capabilities.Elicitation.URL != nil
}

// introduced is the server's answer to the host's introduction, with the proxy's tasks in
// place of its own: a call that the server answers before it has run could not be reported.
func (p *Proxy) introduced(m *jsonrpc.Response) *jsonrpc.Response {
	var result, capabilities map[string]json.RawMessage
	if json.Unmarshal(m.Result, &result) != nil || json.Unmarshal(result["capabilities"], &capabilities) != nil || capabilities == nil {
		return m // nothing in it has tasks
	}
	offered := string(result["protocolVersion"]) == `"`+tasksVersion+`"` && capabilities["tools"] != nil
	p.mu.Lock()
	p.offersTasks = offered
	p.mu.Unlock()
	if delete(capabilities, "tasks"); offered {
		capabilities["tasks"] = json.RawMessage(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
	}
	changed, err := json.Marshal(capabilities)
	if err == nil {
		result["capabilities"] = changed
		if changed, err = json.Marshal(result); err == nil {
			return &jsonrpc.Response{ID: m.ID, Result: changed}
		}
	}
	return failure(m.ID, jsonrpc.CodeInternalError, "the server's capabilities cannot be read")
}

// asTask is a tool as a host is shown it that may call it as a task.
func asTask(raw json.RawMessage) (json.RawMessage, error) {
	var tool, execution map[string]json.RawMessage
	if err := json.Unmarshal(raw, &tool); err != nil {
		return nil, err
	}
	if json.Unmarshal(tool["execution"], &execution) != nil || execution == nil {
		execution = map[string]json.RawMessage{}
	}
	execution["taskSupport"] = json.RawMessage(`"optional"`)
	var err error
	if tool["execution"], err = json.Marshal(execution); err != nil {
		return nil, err
	}
	return json.Marshal(tool)
}
