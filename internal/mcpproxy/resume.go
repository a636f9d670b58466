package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	holdpoint "holdpoint.example/client"
)

// serveTask handles a request about tasks. They are the proxy's own: the server never hears
// of them.
func (p *Proxy) serveTask(ctx context.Context, r *jsonrpc.Request) {
	if r.Method == "tasks/list" {
		p.calls.listTasks(ctx, r)
		return
	}
	var params struct {
		ID string `json:"taskId"`
	}
	_ = json.Unmarshal(r.Params, &params) // what cannot be read names no task
	t := p.calls.task(params.ID)
	if t == nil {
		if r.Method == "tasks/cancel" {
			p.work.Go(func() { p.cancelStored(ctx, r, params.ID) })
			return
		}
		p.restore(ctx, params.ID)
		t = p.calls.task(params.ID)
	}
	if t == nil {
		p.host.send(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, unknownTask))
		return
	}
	switch r.Method {
	case "tasks/get":
		p.host.reply(ctx, r.ID, p.calls.state(t))
	case "tasks/cancel":
		if t.adopted && p.calls.waiting(t) {
			p.work.Go(func() { p.cancelStored(ctx, r, t.id) })
			return
		}
		p.calls.cancelTask(ctx, r, t.id)
	case "tasks/result":
		ctx := p.calls.wantResult(ctx, r.ID)
		p.work.Go(func() { p.calls.resultOf(ctx, r.ID, t) })
	default:
		p.host.send(ctx, failure(r.ID, jsonrpc.CodeMethodNotFound, "the proxy does not offer "+r.Method))
	}
}

// restore finds a task that another proxy has kept, and goes on with its approval.
func (p *Proxy) restore(ctx context.Context, id string) {
	one, ok := p.calls.stored(ctx, id)
	switch {
	case !ok:
	case one.Approval == "":
		p.adopt(ctx, id, one, p.acceptedBefore)
	default:
		p.adopt(ctx, id, one, func(ctx context.Context, c *call) *jsonrpc.Response { return p.resumeCall(ctx, c, one.Approval) })
	}
}

// adopt makes a task that was kept one of this proxy's, unless it is by now.
func (p *Proxy) adopt(ctx context.Context, id string, one storedTask, called func(context.Context, *call) *jsonrpc.Response) {
	c, err := readCall(&jsonrpc.Request{ID: p.server.ids.next(), Params: one.Params})
	if err != nil {
		p.Logger.WarnContext(ctx, "a task that was kept cannot be read", "error", err)
		return
	}
	c.name = one.Name
	t := &task{id: id, call: c, created: one.Created, updated: time.Now().UTC(), ttl: one.TTL, status: working, done: make(chan struct{}), announced: true, stored: true, adopted: true}
	ctx, c.cancel = context.WithCancel(ctx)
	if err := p.calls.add(t); err != nil {
		c.cancel()
		if errors.Is(err, errTaskHere) {
			return
		}
		p.Logger.WarnContext(ctx, "a task that was kept does not go on", "error", err)
		return
	}
	p.calls.expireIn(t, time.Until(one.Created.Add(one.TTL)))
	p.start(ctx, c, called)
}

// cancelStored answers tasks/cancel for a task that another proxy has kept. One whose call has
// begun is not cancelled: what has run is told as that.
func (p *Proxy) cancelStored(ctx context.Context, r *jsonrpc.Request, id string) {
	one, ok := p.calls.stored(ctx, id)
	if ok {
		switch err := p.cancelUnlessBegun(ctx, id, one); {
		case errors.Is(err, errBegun):
			p.restore(ctx, id)
			p.host.send(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, err.Error()))
			return
		case err != nil:
			p.host.send(ctx, failure(r.ID, jsonrpc.CodeInternalError, err.Error()))
			return
		}
		p.adopt(ctx, id, one, func(ctx context.Context, c *call) *jsonrpc.Response {
			<-ctx.Done()
			return p.refused(ctx, c, context.Cause(ctx))
		})
	}
	p.calls.cancelTask(ctx, r, id)
}

// cancelUnlessBegun cancels a task that is kept, for all proxies. Every error is for the host.
func (p *Proxy) cancelUnlessBegun(ctx context.Context, id string, one storedTask) error {
	if one.Approval == "" {
		return errBegun
	}
	a, err := p.Gate.get(ctx, one.Approval)
	switch {
	case err != nil:
		return errors.New("it is not cancelled: Holdpoint could not be asked whether its call has begun")
	case a.Status != holdpoint.Pending && (a.Status != holdpoint.Approved || a.Execution != "none"):
		return errBegun
	}
	if err := p.calls.files.cancel(id); err != nil && !errors.Is(err, errBegun) {
		p.Logger.WarnContext(ctx, "a task cannot be cancelled", "error", err)
		return errors.New("it is not cancelled: that cannot be noted")
	} else if err != nil {
		return err
	}
	return nil
}

// resumeCall is the answer to a call whose task was kept: it runs by the approval that it waited
// for, or not at all.
func (p *Proxy) resumeCall(ctx context.Context, c *call, approvalID string) *jsonrpc.Response {
	a, err := p.approved(ctx, c, approvalID)
	if err != nil {
		return p.refused(ctx, c, err)
	}
	// The tool may have become another since it was called.
	def, err := p.tools.definitionNow(ctx, c.tool)
	if err != nil {
		return p.refused(ctx, c, err)
	}
	if p.approvals.callName(c.tool, c.arguments, def) != c.name {
		return p.refused(ctx, c, p.tools.changed(c.tool))
	}
	allowed, err := p.redeem(ctx, c, a)
	if err != nil {
		return p.refused(ctx, c, err)
	}
	return p.run(ctx, c, allowed)
}

// approved waits for an approval, and is it when its call may run now. Every error means
// that it may not.
func (p *Proxy) approved(ctx context.Context, c *call, id string) (*holdpoint.Approval, error) {
	now, err := p.Gate.get(ctx, id)
	var problem *holdpoint.Problem
	if errors.As(err, &problem) && problem.Status == http.StatusNotFound {
		return nil, &refusal{approval: id, text: "Not run: Holdpoint does not know its approval any more (" + id + "). Call the tool again if it is still wanted."}
	}
	a := &now
	if err != nil || a.Status == holdpoint.Pending { // an outage is waited through
		a.ID = id
		if a, err = p.await(ctx, c, a); err != nil {
			return nil, err
		}
	}
	p.approvals.settled(c)
	p.host.linkOver(ctx, a.ID)
	switch {
	case a.Status != holdpoint.Approved:
		return nil, ended(a)
	case a.Execution == "none":
		return a, nil
	}
	return nil, p.resultElsewhere(ctx, c, a, alreadyBegun(a))
}

// resultElsewhere is what became of a call that another proxy has begun, or may have: a task waits
// for it. Where that cannot be had it is what is known now.
func (p *Proxy) resultElsewhere(ctx context.Context, c *call, a *holdpoint.Approval, known *refusal) *refusal {
	if c.task == nil {
		return known
	}
	ctx, stop := p.waiting(ctx, c.task.ttl)
	defer stop()
	now, err := p.Gate.get(ctx, a.ID)
	for err == nil && now.Execution == "redeemed" {
		p.calls.waits(c, "The call has begun elsewhere, and it is not known yet what became of it: "+now.Links.Review)
		if now, err = p.Gate.Client.Await(ctx, a.ID); err == nil && now.Execution == "redeemed" { // Holdpoint holds its answer until it has changed
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return known
			}
		}
	}
	if err != nil || now.Execution != "succeeded" && now.Execution != "failed" {
		return known
	}
	p.approvals.settled(c)
	return hasRun(&now)
}

// acceptedBefore is the answer to a call whose task was accepted without people, by a proxy
// that has ended.
func (p *Proxy) acceptedBefore(_ context.Context, c *call) *jsonrpc.Response {
	return result(c, "It is not known whether the tool had its effect: the call was accepted, and the proxy that ran it has ended, or still runs it. Do not call it again before you know.", "")
}
