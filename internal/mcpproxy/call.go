package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	holdpoint "holdpoint.example/client"

	"holdpoint/engine/canon"
)

// ConstraintsKey is the member of a call's _meta that tells a server under which
// constraints the call was approved.
const ConstraintsKey = "holdpoint/constraints"

// call is one tools/call of the host's.
type call struct {
	id        jsonrpc.ID
	tool      string      // the server's own name for it
	arguments canon.Value // as the host sent them
	params    canon.Value
	name      string      // of this very call of the tool as it is described, the same whenever it is asked for again
	progress  canon.Value // the host's progressToken; null for none
	task      *task       // what the host comes back for; nil where it waits for the answer
	accepted  bool        // without people; only the call's own goroutine looks

	cancel  context.CancelFunc
	running bool // the server has got it; guarded by openCalls.mu
}

// permission is what Holdpoint lets run.
type permission struct {
	approval    string // "" for a call that was accepted and has no token
	arguments   canon.Value
	edited      []string // the arguments that a reviewer has changed
	constraints json.RawMessage
}

// refusal is why a call does not run, in words for the model.
type refusal struct{ text, approval string }

func (r *refusal) Error() string { return r.text }

// begin takes a call on.
func (p *Proxy) begin(ctx context.Context, r *jsonrpc.Request) {
	c, err := readCall(r)
	var ttl time.Duration
	if err == nil && p.calls.mayBeTasks() {
		ttl, err = ttlOf(c.params)
	}
	if err != nil {
		p.host.send(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, err.Error()))
		return
	}
	ctx, c.cancel = context.WithCancel(ctx)
	if ttl > 0 {
		if err := p.calls.newTask(c, ttl); err != nil {
			c.cancel()
			p.host.send(ctx, failure(r.ID, jsonrpc.CodeInternalError, err.Error()))
			return
		}
	}
	p.start(ctx, c, p.called)
}

// start has a call decided and run, and answers it.
func (p *Proxy) start(ctx context.Context, c *call, called func(context.Context, *call) *jsonrpc.Response) {
	p.calls.enter(c)
	p.work.Go(func() {
		defer c.cancel()
		a := called(ctx, c)
		p.calls.announce(ctx, c)
		p.calls.leave(c)
		switch {
		case c.task != nil && c.task.announced:
			p.calls.finish(ctx, c.task, a)
			if c.accepted { // nothing can go on with it
				p.calls.removeFile(ctx, c.task.id)
			}
		case c.task != nil:
			p.calls.drop(c.task)
		case ctx.Err() == nil: // who has cancelled a call wants no answer
			p.host.send(ctx, a)
		}
	})
}

// readCall takes a call apart. Its arguments have one reading, or it is none.
func readCall(r *jsonrpc.Request) (*call, error) {
	params, err := canon.Parse(r.Params)
	if err != nil {
		return nil, errors.New("params is not JSON with exactly one reading: " + err.Error())
	}
	name, _ := params.Get("name")
	arguments, _ := params.Get("arguments")
	if arguments.IsNull() { // or not there: both mean none
		arguments = canon.Object()
	}
	if name.Str() == "" || arguments.Kind() != canon.ObjectKind {
		return nil, errors.New("params has a name, and arguments that are an object")
	}
	meta, _ := params.Get("_meta")
	token, _ := meta.Get("progressToken")
	return &call{
		id: r.ID, tool: name.Str(), arguments: arguments, params: params,
		progress: token,
	}, nil
}

// called is the answer to a call.
func (p *Proxy) called(ctx context.Context, c *call) *jsonrpc.Response {
	allowed, err := p.permit(ctx, c)
	if err != nil {
		return p.refused(ctx, c, err)
	}
	return p.run(ctx, c, allowed)
}

// permit has Holdpoint decide on a call. Every error means that it may not run.
func (p *Proxy) permit(ctx context.Context, c *call) (permission, error) {
	def, err := p.tools.definitionOf(ctx, c.tool)
	if err != nil {
		return permission{}, err
	}
	c.name = p.approvals.callName(c.tool, c.arguments, def)
	a, err := p.approvals.lookUp(ctx, c)
	if err != nil {
		return permission{}, err
	}
	if a == nil {
		asked := proposal{Tool: ToolName(p.Name, c.tool), Arguments: json.RawMessage(c.arguments.Canonical()), Manifest: def.sum()}
		answer, err := p.Gate.check(ctx, c.name, asked)
		if err == nil && answer.Approval != nil && answer.Approval.Status == holdpoint.Pending && answer.Approval.RequestID != c.name {
			// Holdpoint joins calls by tool and arguments: what waits may be about the tool
			// as it was described before.
			asked.Separate = true
			answer, err = p.Gate.check(ctx, c.name, asked)
		}
		switch {
		case err != nil:
			return permission{}, err
		case answer.allowed():
			return p.accepted(ctx, c, answer)
		case answer.Approval == nil || answer.Approval.Status != holdpoint.Pending:
			return permission{}, answer.refusal(Register(ToolName(p.Name, c.tool), def.sum(), p.Data))
		}
		a = answer.Approval
	}
	p.calls.storeTask(ctx, c, a.ID)
	p.calls.announce(ctx, c)
	if a.Status == holdpoint.Pending {
		if a, err = p.await(ctx, c, a); err != nil {
			return permission{}, err
		}
	}
	p.approvals.settled(c)
	p.host.linkOver(ctx, a.ID)
	if a.Status != holdpoint.Approved {
		return permission{}, ended(a)
	}
	// The tool may have become another while people decided.
	now, err := p.tools.definitionNow(ctx, c.tool)
	switch {
	case err != nil:
		return permission{}, err
	case string(now) != string(def):
		return permission{}, p.tools.changed(c.tool)
	}
	return p.redeem(ctx, c, a)
}

func (p *Proxy) accepted(ctx context.Context, c *call, answer checkAnswer) (permission, error) {
	if !p.canKeep(answer.Decision.Constraints) {
		return permission{}, &refusal{text: "Not run: it is allowed only under constraints, and nothing here can keep to them."}
	}
	p.calls.storeTask(ctx, c, "")
	c.accepted = true
	return permission{arguments: c.arguments, constraints: answer.Decision.Constraints}, nil
}

// canKeep reports whether a call can be held to constraints: the server is handed what has one reading.
func (p *Proxy) canKeep(constraints json.RawMessage) bool {
	if !holdpoint.Constrained(constraints) {
		return true
	}
	limits, err := canon.Parse(constraints)
	return p.KeepsConstraints && err == nil && limits.Kind() == canon.ObjectKind
}

// await waits for people, as long as the host should be kept waiting. A task keeps nobody
// waiting: it goes on until its time is over.
func (p *Proxy) await(ctx context.Context, c *call, a *holdpoint.Approval) (*holdpoint.Approval, error) {
	p.approvals.remember(c, a.ID)
	wait := p.Wait
	if c.task != nil {
		wait = c.task.ttl
	}
	waiting, stop := p.waiting(ctx, wait)
	defer stop()
	tell := func(string) {}
	if a.Status != "" { // else no more is known of it than its id
		says := waitsFor(a)
		p.calls.waits(c, says)
		tell = p.host.showProgress(waiting, c, says)
		p.host.showLink(ctx, ToolName(p.Name, c.tool), c, a)
	}
	now := *a
	done, err := p.Gate.Client.Watch(waiting, a.ID, func(seen holdpoint.Approval) {
		now = seen
		says := waitsFor(&seen)
		p.calls.waits(c, says)
		tell(says)
	})
	switch {
	case err == nil:
		return &done, nil
	case waiting.Err() != nil:
		return nil, pending(&now)
	}
	return nil, err
}

// waiting ends after so long, and when nobody will wait any more.
func (p *Proxy) waiting(ctx context.Context, long time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeout(ctx, long)
	go func() {
		select {
		case <-p.patient:
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

// redeem spends the token of an approved call. From here on nothing is cancelled:
// what is spent is run, or reported as not run.
func (p *Proxy) redeem(ctx context.Context, c *call, a *holdpoint.Approval) (permission, error) {
	allowed := permission{approval: a.ID, arguments: c.arguments}
	switch {
	case ctx.Err() != nil:
		return allowed, context.Cause(ctx)
	case a.Token == "":
		return allowed, &refusal{approval: a.ID, text: "Not run: it was approved (" + a.ID + "), but the time to run it is over, or it has run. Call the tool again to ask anew."}
	case holdpoint.Constrained(tokenConstraints(a.Token)) && !p.KeepsConstraints:
		return allowed, &refusal{approval: a.ID, text: "Not run: it was approved only under constraints (" + a.ID + "), and nothing here can keep to them."}
	}
	if a.Edited != nil {
		edited, err := canon.Parse(a.Edited.Arguments)
		if err != nil || edited.Kind() != canon.ObjectKind {
			return allowed, errors.New("the edited arguments cannot be read")
		}
		allowed.arguments, allowed.edited = edited, a.Edited.Changed
	}
	if err := p.calls.begins(ctx, c); err != nil {
		return allowed, err
	}
	work, stop := context.WithTimeout(context.WithoutCancel(ctx), gateWithin)
	defer stop()
	r, err := p.approvals.spend(work, c, a, allowed.arguments)
	var known *holdpoint.Problem
	switch {
	case errors.As(err, &known) && known.Code == "token_used":
		p.approvals.rememberBegun(c, a.ID)
		return allowed, p.resultElsewhere(ctx, c, a, alreadyBegun(a))
	case errors.As(err, &known) && certain(known):
		return allowed, err
	case err != nil:
		p.Logger.WarnContext(ctx, "it is not known whether a token was redeemed", "approval", a.ID, "error", err)
		p.approvals.rememberBegun(c, a.ID)
		return allowed, p.resultElsewhere(ctx, c, a, unclear(a))
	case !p.canKeep(r.Constraints), ctx.Err() != nil:
		p.approvals.report(ctx, a.ID, holdpoint.Failed, 0)
		return allowed, &refusal{approval: a.ID, text: "Not run: it may run only under constraints that nothing here can keep to, or was cancelled."}
	}
	allowed.constraints = r.Constraints
	return allowed, nil
}

// run hands the call to the server and reports what became of it.
func (p *Proxy) run(ctx context.Context, c *call, allowed permission) *jsonrpc.Response {
	if !p.calls.runs(ctx, c) {
		if allowed.approval != "" {
			p.approvals.report(ctx, allowed.approval, holdpoint.Failed, 0)
		}
		return p.refused(ctx, c, context.Cause(ctx))
	}
	p.calls.announce(ctx, c)
	params := forwarded(c, allowed)
	// A cancelled call has begun: its answer is waited for a little longer.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(cancelWithin, stop) })()
	started := time.Now()
	a, err := p.server.ask(running, &jsonrpc.Request{ID: c.id, Method: "tools/call", Params: params})
	if allowed.approval != "" {
		p.approvals.report(ctx, allowed.approval, outcomeOf(a, err), time.Since(started))
	}
	if err != nil {
		return result(c, lost(allowed.approval, err), allowed.approval)
	}
	if p.FilterResults {
		a = p.filtered(ctx, c, a, allowed.approval)
	}
	return withEdit(a, allowed)
}

// forwarded is what the server gets: the arguments as approved, and the host's _meta,
// in which only Holdpoint says under what constraints. Nothing else is forwarded, since
// nobody has decided on it.
func forwarded(c *call, allowed permission) json.RawMessage {
	sent, _ := c.params.Get("_meta")
	var meta []canon.Member
	for name, v := range sent.All() {
		if name != ConstraintsKey {
			meta = append(meta, canon.Member{Name: name, Value: v})
		}
	}
	if limits, err := canon.Parse(allowed.constraints); err == nil && holdpoint.Constrained(allowed.constraints) {
		meta = append(meta, canon.Member{Name: ConstraintsKey, Value: limits})
	}
	members := []canon.Member{{Name: "arguments", Value: allowed.arguments}, {Name: "name", Value: canon.String(c.tool)}}
	if len(meta) > 0 {
		members = append(members, canon.Member{Name: "_meta", Value: canon.Object(meta...)})
	}
	return canon.Object(members...).Canonical()
}

// outcomeOf says what became of a call by what the server answered. Where that
// leaves open whether it had its effect, a person finds out.
func outcomeOf(a *jsonrpc.Response, err error) holdpoint.Outcome {
	if err == nil && a.Error != nil {
		err = a.Error
	}
	var dial *net.OpError
	var wire *jsonrpc.Error
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return holdpoint.Failed // it never left
	case errors.As(err, &wire):
		switch wire.Code {
		case jsonrpc.CodeInvalidParams, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeParseError:
			return holdpoint.Failed
		}
		return holdpoint.Uncertain
	case err != nil:
		return holdpoint.Uncertain
	}
	var result struct {
		Content json.RawMessage `json:"content"`
		IsError bool            `json:"isError"`
	}
	switch {
	case json.Unmarshal(a.Result, &result) != nil || result.Content == nil:
		return holdpoint.Uncertain
	case result.IsError:
		return holdpoint.Failed
	}
	return holdpoint.Succeeded
}
