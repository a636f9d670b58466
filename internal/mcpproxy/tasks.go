package mcpproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
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
// anew (taskfiles.go); any other ends with the conversation.
type task struct {
	id        string
	call      *call
	created   time.Time
	ttl       time.Duration
	expiry    *time.Timer
	done      chan struct{} // closed once answer is there
	adopted   bool          // it was kept by another proxy, which may go on with it as well
	announced bool          // the host knows its id; only the call's own goroutine looks

	// Guarded by openCalls.mu.
	stored  bool // there is a file of it, which says whether its call may begin
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

// state is a task as the host is shown it. openCalls.mu is held.
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

// move changes a task's status, unless it has come to its end. openCalls.mu is held.
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

// unknownTask is for a host whose proxy was started anew, too, where the task was not kept.
const unknownTask = "there is no such task here: it was cancelled, its time is over, or the proxy was started anew. Its call may have run: look before you call the tool again. With the same arguments, what waits for people, or was approved and has not run, goes on where it was"

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
