package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// tasksVersion is the version of the protocol that has tasks as they are here: a wait for
// people is one. The task is the approval, under the approval's own id, so nothing is kept
// here, any server answers for any task, before and after a restart, and only to whom the API
// shows the approval. A task is completed when the approval is over, however; it cannot be
// cancelled, since to stop waiting ends nothing, and to take the call back is
// holdpoint_cancel.
const tasksVersion = "2025-11-25"

// askAgain is how often a client best looks at a task, in milliseconds.
const askAgain = 2000

// relatedTask is the member of _meta that says whose result a result is.
const relatedTask = "io.modelcontextprotocol/related-task"

// taskState is a task as the protocol has it.
type taskState struct {
	sdk.ResultBase
	ID       string    `json:"taskId"`
	Status   string    `json:"status"` // working, completed
	Message  string    `json:"statusMessage"`
	Created  time.Time `json:"createdAt"`
	Updated  time.Time `json:"lastUpdatedAt"`
	TTL      *int64    `json:"ttl"` // null: as long as the approval is kept
	Interval int       `json:"pollInterval"`
}

func (w *waiting) task() taskState {
	s := taskState{ID: w.ID, Status: "completed", Message: "It is " + w.Status + ".", Created: w.OpenedAt, Updated: w.OpenedAt, Interval: askAgain}
	if w.EndedAt.After(w.OpenedAt) {
		s.Updated = w.EndedAt
	}
	if w.Status == "pending" {
		s.Status, s.Message = "working", "Waiting for people to decide: "+w.Links.Review
	}
	return s
}

// What is asked about tasks, and answered.
type (
	createTask struct {
		sdk.ParamsBase
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	createdTask struct {
		sdk.ResultBase
		Task taskState `json:"task"`
	}
	aboutTask struct {
		sdk.ParamsBase
		ID string `json:"taskId"`
	}
	pageOfTasks struct {
		sdk.ParamsBase
		Cursor string `json:"cursor"`
	}
	tasks struct {
		sdk.ResultBase
		Tasks []taskState `json:"tasks"`
		Next  string      `json:"nextCursor,omitempty"`
	}
)

// createMethod is what the SDK sees a call as that is to be a task: it knows no such calls.
const createMethod = "holdpoint/tools/call/task"

// asTask names a call of a tool that is to be a task by createMethod, and leaves every other
// message as it is.
func asTask(message []byte) []byte {
	var m, params, task map[string]json.RawMessage
	if json.Unmarshal(message, &m) != nil || string(m["method"]) != `"tools/call"` || json.Unmarshal(m["params"], &params) != nil ||
		json.Unmarshal(params["task"], &task) != nil || task == nil {
		return message
	}
	m["method"] = json.RawMessage(`"` + createMethod + `"`)
	changed, err := json.Marshal(m)
	if err != nil {
		return message
	}
	return changed
}

// offerTasks has the server answer what is asked about tasks.
func (t *Tools) offerTasks() error {
	t.server.AddReceivingMiddleware(withTasks)
	return errors.Join(
		sdk.AddReceivingCustomMethod(t.server, createMethod, func(ctx context.Context, session *sdk.ServerSession, p *createTask) (*createdTask, error) {
			if p == nil || p.Name != awaitTool {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "of these tools " + awaitTool + " alone can be called as a task"}
			}
			id, _, err := waitArguments(orNone(p.Arguments))
			if err != nil {
				return nil, taskError(err)
			}
			w, err := t.taskOf(ctx, id)
			if err != nil {
				return nil, err
			}
			if who, ok := ctx.Value(callerKey{}).(caller); ok && w.Status == "pending" {
				who.show(session, w)
			}
			return &createdTask{Task: w.task()}, nil
		}),
		sdk.AddReceivingCustomMethod(t.server, "tasks/get", func(ctx context.Context, _ *sdk.ServerSession, p *aboutTask) (*taskState, error) {
			w, err := t.taskOf(ctx, p.id())
			if err != nil {
				return nil, err
			}
			state := w.task()
			return &state, nil
		}),
		sdk.AddReceivingCustomMethod(t.server, "tasks/result", func(ctx context.Context, session *sdk.ServerSession, p *aboutTask) (*sdk.CallToolResult, error) {
			return t.taskResult(ctx, session, p.id())
		}),
		sdk.AddReceivingCustomMethod(t.server, "tasks/list", func(ctx context.Context, _ *sdk.ServerSession, p *pageOfTasks) (*tasks, error) {
			if p == nil {
				p = &pageOfTasks{}
			}
			return t.listTasks(ctx, p.Cursor)
		}),
	)
}

func orNone(arguments json.RawMessage) json.RawMessage {
	if len(arguments) == 0 {
		return json.RawMessage(`{}`)
	}
	return arguments
}

func (p *aboutTask) id() string {
	if p == nil {
		return ""
	}
	return p.ID
}

// onBehalf is a request in the name of who speaks.
func onBehalf(ctx context.Context) (request, context.Context, context.CancelFunc, error) {
	who, ok := ctx.Value(callerKey{}).(caller)
	if !ok {
		return request{}, nil, nil, taskError(broken("Nobody is known to have called."))
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(who.connected, cancel)
	return request{caller: who, arguments: json.RawMessage(`{}`)}, ctx, func() { stop(); cancel() }, nil
}

// taskError is a failure as an error of the protocol: what a client has asked wrongly, or
// what went wrong here.
func taskError(err error) error {
	var p *problem
	if !errors.As(err, &p) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "The server's answer could not be read."}
	}
	code := int64(jsonrpc.CodeInternalError)
	switch p.Code {
	case "not_found", "invalid_body", "bad_cursor":
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: p.Detail + " (" + p.Code + ")"}
}

// taskOf is the approval that a task stands for.
func (t *Tools) taskOf(ctx context.Context, id string) (*waiting, error) {
	r, ctx, cancel, err := onBehalf(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if !plainID(id) {
		return nil, taskError(newProblem(http.StatusNotFound, "not_found", "There is no such task."))
	}
	a, err := t.ask(ctx, r, http.MethodGet, "/v1/approvals/"+id, nil, 0)
	if err != nil {
		return nil, taskError(err)
	}
	w, err := approvalOf(a.body)
	if err != nil || w == nil || w.ID != id {
		return nil, taskError(broken("The answer of the server could not be read."))
	}
	return w, nil
}

// taskResult waits until a task's approval is over, and is the answer of holdpoint_await
// without the token: whom a client hands a result to that it came back for, nobody knows.
func (t *Tools) taskResult(ctx context.Context, session *sdk.ServerSession, id string) (*sdk.CallToolResult, error) {
	if _, err := t.taskOf(ctx, id); err != nil {
		return nil, err
	}
	r, ctx, cancel, err := onBehalf(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	wait := longestWait * time.Second
	r.session = session
	r.arguments = json.RawMessage(fmt.Sprintf(`{"approval_id":%q,"timeout_seconds":%d}`, id, longestWait))
	for {
		done, err := t.await(ctx, r)
		if err != nil {
			return nil, taskError(err)
		}
		body, _ := done.structured.(json.RawMessage) // await's answer is the API's own
		w, err := approvalOf(body)
		if err != nil || w == nil {
			return nil, taskError(broken("The answer of the server could not be read."))
		}
		switch {
		case w.Status != "pending":
			return withoutToken(w, done)
		case r.caller.once || r.caller.waiting.Err() != nil || ctx.Err() != nil:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("Nobody has decided within %s: ask for the result again.", wait)}
		}
	}
}

func withoutToken(w *waiting, done result) (*sdk.CallToolResult, error) {
	var members map[string]json.RawMessage
	if body, _ := done.structured.(json.RawMessage); json.Unmarshal(body, &members) != nil {
		return nil, taskError(broken("The answer of the server could not be read."))
	}
	delete(members, "resumption_token")
	done.structured = members
	if w.Status == "approved" && w.Token != "" {
		done.say = fmt.Sprintf("Approved: call %s with the same tool and arguments, and run the tool once, only after that has said run: true.", redeemTool) + w.sayEdited()
	}
	answer := succeeded(done)
	answer.Meta = sdk.Meta{relatedTask: map[string]string{"taskId": w.ID}}
	return answer, nil
}

// listTasks are the caller's approvals.
func (t *Tools) listTasks(ctx context.Context, cursor string) (*tasks, error) {
	r, ctx, cancel, err := onBehalf(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	path := "/v1/approvals"
	if cursor != "" {
		path += "?cursor=" + url.QueryEscape(cursor)
	}
	a, err := t.ask(ctx, r, http.MethodGet, path, nil, 0)
	if err != nil {
		return nil, taskError(err)
	}
	var page struct {
		Approvals []*waiting `json:"approvals"`
		Next      string     `json:"next_cursor"`
	}
	if err := json.Unmarshal(a.body, &page); err != nil {
		return nil, taskError(err)
	}
	list := &tasks{Tasks: []taskState{}, Next: page.Next}
	for _, w := range page.Approvals {
		list.Tasks = append(list.Tasks, w.task())
	}
	return list, nil
}

// withTasks says in what a server says of itself that there are tasks.
func withTasks(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		answer, err := next(ctx, method, r)
		switch a := answer.(type) {
		case *sdk.InitializeResult:
			if err == nil && a.ProtocolVersion == tasksVersion {
				return taskAnswer{a, introduced}, nil
			}
		case *sdk.ListToolsResult:
			if err == nil {
				return taskAnswer{a, listed}, nil
			}
		}
		return answer, err
	}
}

// taskAnswer is an answer of the SDK's with what it has no words for.
type taskAnswer struct {
	sdk.Result
	add func(map[string]json.RawMessage) error
}

// MarshalJSON writes the answer with that.
func (t taskAnswer) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(t.Result)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	if err := t.add(members); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

func introduced(members map[string]json.RawMessage) error {
	var capabilities map[string]json.RawMessage
	err := json.Unmarshal(members["capabilities"], &capabilities)
	if err == nil {
		capabilities["tasks"] = json.RawMessage(`{"list":{},"requests":{"tools":{"call":{}}}}`)
		members["capabilities"], err = json.Marshal(capabilities)
	}
	return err
}

func listed(members map[string]json.RawMessage) error {
	var tools []map[string]json.RawMessage
	err := json.Unmarshal(members["tools"], &tools)
	for _, tool := range tools {
		if string(tool["name"]) == `"`+awaitTool+`"` {
			tool["execution"] = json.RawMessage(`{"taskSupport":"optional"}`)
		}
	}
	if err == nil {
		members["tools"], err = json.Marshal(tools)
	}
	return err
}
