package mcpproxy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// openCalls are the host's calls that are on their way, and the tasks of those that it comes
// back for.
type openCalls struct {
	host   *hostSide
	server *serverSide
	logger *slog.Logger
	files  *taskFiles // nil where tasks end with the proxy

	mu           sync.Mutex
	calls        map[jsonrpc.ID]*call
	tasksOffered bool // the conversation's version has them
	tasks        []*task
	results      map[jsonrpc.ID]context.CancelFunc // requests that wait for a task's result
}

func newOpenCalls(cfg Config, host *hostSide, server *serverSide) *openCalls {
	o := &openCalls{
		host: host, server: server, logger: cfg.Logger,
		calls: map[jsonrpc.ID]*call{}, results: map[jsonrpc.ID]context.CancelFunc{},
	}
	if cfg.Tasks != "" {
		var err error
		if o.files, err = openTaskFiles(cfg.Tasks, cfg.Gate.Client.Key); err != nil {
			cfg.Logger.Warn("tasks end with the proxy", "error", err)
		}
	}
	return o
}

// mayBeTasks reports whether the host may call tools as tasks.
func (o *openCalls) mayBeTasks() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tasksOffered
}

// has reports whether a request with this id is a call on its way, or waits for a task's result.
func (o *openCalls) has(id jsonrpc.ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls[id] != nil || o.results[id] != nil
}

// enter takes a call on, until it leaves.
func (o *openCalls) enter(c *call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[c.id] = c
}

func (o *openCalls) leave(c *call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.calls, c.id)
}

// runs says that the server gets a call now, unless the host has cancelled it.
func (o *openCalls) runs(ctx context.Context, c *call) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.running = ctx.Err() == nil
	return c.running
}

// byID is a task of this proxy's; nil for none. o.mu is held.
func (o *openCalls) byID(id string) *task {
	if at := slices.IndexFunc(o.tasks, func(t *task) bool { return t.id == id }); at >= 0 {
		return o.tasks[at]
	}
	return nil
}

// task is a task of this proxy's; nil for none.
func (o *openCalls) task(id string) *task {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byID(id)
}

// state is a task as the host is shown it.
func (o *openCalls) state(t *task) map[string]any {
	o.mu.Lock()
	defer o.mu.Unlock()
	return t.state()
}

// waiting reports whether a task is neither over nor with the server.
func (o *openCalls) waiting(t *task) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return t.status == working && !t.call.running
}

// cancelled ends the wait of a call or for a task's result, and reports whether the server
// need not know.
func (o *openCalls) cancelled(params json.RawMessage) bool {
	var about struct {
		ID any `json:"requestId"`
	}
	if json.Unmarshal(params, &about) != nil {
		return false
	}
	id, err := jsonrpc.MakeID(about.ID)
	if err != nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if stop := o.results[id]; stop != nil {
		stop()
		return true
	}
	c, ok := o.calls[id]
	if !ok {
		return false
	}
	c.cancel()
	return !c.running
}

// newTask makes a call a task.
func (o *openCalls) newTask(c *call, ttl time.Duration) error {
	now := time.Now().UTC()
	return o.add(&task{id: rand.Text(), call: c, created: now, updated: now, ttl: ttl, status: working, done: make(chan struct{})})
}

// add takes a task on. It takes the room of the oldest one that is over.
func (o *openCalls) add(t *task) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byID(t.id) != nil {
		return errTaskHere
	}
	if len(o.tasks) >= maxTasks {
		oldest := slices.IndexFunc(o.tasks, func(t *task) bool { return t.answer != nil })
		if oldest < 0 {
			return errTooManyTasks
		}
		o.tasks[oldest].expiry.Stop()
		if err := o.files.forget(o.tasks[oldest].id); err != nil {
			return err
		}
		o.tasks = slices.Delete(o.tasks, oldest, oldest+1)
	}
	t.call.task, o.tasks = t, append(o.tasks, t)
	return nil
}

// announce answers the host with a call's task, if it has not been yet: before anything is
// waited for, and before the call runs. From here on its time passes.
func (o *openCalls) announce(ctx context.Context, c *call) {
	t := c.task
	if t == nil || t.announced || ctx.Err() != nil {
		return
	}
	own := o.server.ids.next() // the host's is answered now
	o.mu.Lock()
	asked := c.id
	delete(o.calls, asked)
	c.id, t.announced = own, true
	o.calls[own] = c
	created := t.state()
	t.expiry = time.AfterFunc(t.ttl, func() { o.expired(t) })
	o.mu.Unlock()
	o.host.reply(context.WithoutCancel(ctx), asked, map[string]any{"task": created})
}

// expireIn gives a task that was kept the time that is left of its own.
func (o *openCalls) expireIn(t *task, left time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t.expiry = time.AfterFunc(left, func() { o.expired(t) })
}

// drop forgets a task whose host has cancelled the call before it knew of it.
func (o *openCalls) drop(t *task) {
	if err := o.files.forget(t.id); err != nil {
		o.logger.Warn("a task that nobody knows of stays on the disk", "error", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tasks = slices.DeleteFunc(o.tasks, func(other *task) bool { return other == t })
}

// expired forgets a task whose time is over. One that waits does not run any more, and
// its approval is left; one that runs is kept until that is over.
func (o *openCalls) expired(t *task) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t.answer == nil && t.call.running {
		t.expiry.Reset(cancelWithin)
		return
	}
	t.call.cancel()
	t.move(cancelled, "Its time is over.")
	if err := o.files.forget(t.id); err != nil {
		o.logger.Warn("a task whose time is over stays on the disk", "error", err)
	}
	o.tasks = slices.DeleteFunc(o.tasks, func(other *task) bool { return other == t })
}

// waits says in a call's task that people decide.
func (o *openCalls) waits(c *call, message string) {
	if c.task == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c.task.move(working, message)
}

// finish ends a task with the answer to its call.
func (o *openCalls) finish(ctx context.Context, t *task, a *jsonrpc.Response) {
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
	o.mu.Lock()
	t.answer = a
	moved := t.move(status, message)
	state := t.state()
	o.mu.Unlock()
	close(t.done)
	if moved {
		o.host.notify(ctx, "notifications/tasks/status", state)
	}
}

// cancelTask answers tasks/cancel for a task of this proxy's. One that another proxy has begun,
// or that this one is about to run, goes on.
func (o *openCalls) cancelTask(ctx context.Context, r *jsonrpc.Request, id string) {
	o.mu.Lock()
	t := o.byID(id)
	if t == nil {
		o.mu.Unlock()
		o.host.send(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, unknownTask))
		return
	}
	runs := t.call.running
	var err error
	if t.status == working && t.stored && !runs {
		err = o.files.cancel(t.id)
	}
	if errors.Is(err, errBegun) || !t.move(cancelled, "It was cancelled by the host.") {
		o.mu.Unlock()
		o.host.send(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, errBegun.Error()))
		return
	}
	t.call.cancel()
	state := t.state()
	o.mu.Unlock()
	if runs {
		o.cancelAtServer(ctx, t.call)
	}
	if err = errors.Join(err, o.files.forget(t.id)); err != nil {
		o.host.send(ctx, failure(r.ID, jsonrpc.CodeInternalError, "it is cancelled here, but that cannot be noted: a proxy that is started anew would go on with it"))
		return
	}
	o.host.reply(ctx, r.ID, state)
}

// cancelAtServer tells the server that nobody waits for a call any more.
func (o *openCalls) cancelAtServer(ctx context.Context, c *call) {
	params, err := json.Marshal(map[string]any{"requestId": c.id.Raw(), "reason": "its task was cancelled"})
	if err == nil {
		o.server.send(ctx, &jsonrpc.Request{Method: "notifications/cancelled", Params: params})
	}
}

// wantResult remembers a request that waits for a task's result, so that the host can cancel it.
func (o *openCalls) wantResult(ctx context.Context, id jsonrpc.ID) context.Context {
	ctx, stop := context.WithCancel(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.results[id] = stop
	return ctx
}

// resultOf answers with a task's result, once there is one.
func (o *openCalls) resultOf(ctx context.Context, id jsonrpc.ID, t *task) {
	wanted := true
	select {
	case <-t.done:
	case <-ctx.Done():
		wanted = false
	}
	o.mu.Lock()
	stop := o.results[id]
	delete(o.results, id)
	o.mu.Unlock()
	if wanted {
		o.host.send(ctx, t.result(id))
	}
	stop()
}

// listTasks answers tasks/list, the oldest first. A cursor is the last task of a page.
func (o *openCalls) listTasks(ctx context.Context, r *jsonrpc.Request) {
	var params struct {
		Cursor string `json:"cursor"`
	}
	if r.Params != nil && json.Unmarshal(r.Params, &params) != nil {
		o.host.send(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, "the cursor is a text"))
		return
	}
	o.mu.Lock()
	from := 0
	if params.Cursor != "" {
		from = slices.IndexFunc(o.tasks, func(t *task) bool { return t.id == params.Cursor }) + 1
	}
	page := map[string]any{}
	states := []map[string]any{}
	for i := from; i < len(o.tasks) && len(states) < tasksShown; i++ {
		states = append(states, o.tasks[i].state())
		if i+1 < len(o.tasks) && len(states) == tasksShown {
			page["nextCursor"] = o.tasks[i].id
		}
	}
	page["tasks"] = states
	o.mu.Unlock()
	if params.Cursor != "" && from == 0 {
		o.host.send(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, "the cursor is none of this list's, or its task is gone: begin anew"))
		return
	}
	o.host.reply(ctx, r.ID, page)
}

// introduced is the server's answer to the host's introduction, with the proxy's tasks in
// place of its own: a call that the server answers before it has run could not be reported.
func (o *openCalls) introduced(m *jsonrpc.Response) *jsonrpc.Response {
	var result, capabilities map[string]json.RawMessage
	if json.Unmarshal(m.Result, &result) != nil || json.Unmarshal(result["capabilities"], &capabilities) != nil || capabilities == nil {
		return m // nothing in it has tasks
	}
	offered := string(result["protocolVersion"]) == `"`+tasksVersion+`"` && capabilities["tools"] != nil
	o.mu.Lock()
	o.tasksOffered = offered
	o.mu.Unlock()
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

// removeFile removes the file of a task that is over, as far as it can be.
func (o *openCalls) removeFile(ctx context.Context, id string) {
	if err := o.files.forget(id); err != nil {
		o.logger.WarnContext(ctx, "a task that is over stays on the disk", "error", err)
	}
}

// storeTask notes which approval a call's task waits for, or that it was accepted, for "". One that
// cannot be kept ends with the proxy.
func (o *openCalls) storeTask(ctx context.Context, c *call, approvalID string) {
	t := c.task
	if t == nil || t.announced || o.files == nil {
		return
	}
	one := storedTask{approvalID, c.name, json.RawMessage(withoutProgress(c.params).Canonical()), t.created, t.ttl}
	err := o.files.write(t.id, one)
	if err == nil && approvalID == "" {
		err = o.files.begin(t.id)
	}
	if err != nil {
		o.logger.WarnContext(ctx, "a task is not kept, and ends with the proxy", "error", err)
		return
	}
	o.mu.Lock()
	t.stored = true
	o.mu.Unlock()
}

// begins says that a call's task, if it is kept, begins now. Every error means that it may
// not run.
func (o *openCalls) begins(ctx context.Context, c *call) error {
	if c.task == nil {
		return nil
	}
	o.mu.Lock()
	kept := c.task.stored
	o.mu.Unlock()
	if !kept {
		return nil
	}
	switch err := o.files.begin(c.task.id); {
	case errors.Is(err, fs.ErrNotExist):
		return &refusal{text: "Not run: its task was cancelled."}
	case err != nil:
		o.logger.WarnContext(ctx, "a task cannot begin", "error", err)
		return &refusal{text: "Not run: it cannot be noted that it begins."}
	}
	return nil
}

// stored is a task that is kept, and whose time is not over.
func (o *openCalls) stored(ctx context.Context, id string) (one storedTask, ok bool) {
	one, err := o.files.read(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return one, false
	case err != nil:
		o.logger.WarnContext(ctx, "a task that was kept cannot be read", "error", err)
		return one, false
	case time.Until(one.Created.Add(one.TTL)) <= 0:
		o.removeFile(ctx, id)
		return one, false
	}
	return one, true
}
