package mcpproxy

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
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
	running bool // the server has got it; guarded by Proxy.mu
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
	c, err := p.read(r)
	var ttl time.Duration
	p.mu.Lock()
	tasks := p.offersTasks
	p.mu.Unlock()
	if err == nil && tasks {
		ttl, err = ttlOf(c.params)
	}
	if err != nil {
		p.toHost(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, err.Error()))
		return
	}
	ctx, c.cancel = context.WithCancel(ctx)
	if ttl > 0 {
		if err := p.newTask(c, ttl); err != nil {
			c.cancel()
			p.toHost(ctx, failure(r.ID, jsonrpc.CodeInternalError, err.Error()))
			return
		}
	}
	p.start(ctx, c, p.called)
}

// start has a call decided and run, and answers it.
func (p *Proxy) start(ctx context.Context, c *call, called func(context.Context, *call) *jsonrpc.Response) {
	p.mu.Lock()
	p.calls[c.id] = c
	p.mu.Unlock()
	p.work.Go(func() {
		defer c.cancel()
		a := called(ctx, c)
		p.announce(ctx, c)
		p.mu.Lock()
		delete(p.calls, c.id)
		p.mu.Unlock()
		switch {
		case c.task != nil && c.task.told:
			p.finish(ctx, c.task, a)
			if c.accepted { // nothing can go on with it
				p.unkeep(ctx, c.task.id)
			}
		case c.task != nil:
			p.drop(c.task)
		case ctx.Err() == nil: // who has cancelled a call wants no answer
			p.toHost(ctx, a)
		}
	})
}

// read takes a call apart. Its arguments have one reading, or it is none.
func (p *Proxy) read(r *jsonrpc.Request) (*call, error) {
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

// callName names a call at Holdpoint, so that it is found there when it is asked for
// again. Of a tool that is described otherwise it is another call: what people have
// approved was not that. Only who has the agent's key can try guesses at arguments
// against it.
func (p *Proxy) callName(tool string, arguments canon.Value, def definition) string {
	h := hmac.New(sha256.New, []byte(p.Gate.Client.Key))
	h.Write([]byte(canon.Digest(ToolName(p.Name, tool), arguments) + " " + def.sum()))
	return "mcp-" + hex.EncodeToString(h.Sum(nil)[:20])
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
	def, err := p.definitionOf(ctx, c)
	if err != nil {
		return permission{}, err
	}
	c.name = p.callName(c.tool, c.arguments, def)
	a, err := p.known(ctx, c)
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
			return permission{}, answer.refusal(ToolName(p.Name, c.tool), def.sum())
		}
		a = answer.Approval
	}
	p.keep(ctx, c, a.ID)
	p.announce(ctx, c)
	if a.Status == holdpoint.Pending {
		if a, err = p.await(ctx, c, a); err != nil {
			return permission{}, err
		}
	}
	p.settled(c)
	p.linkOver(ctx, a.ID)
	if a.Status != holdpoint.Approved {
		return permission{}, ended(a)
	}
	// The tool may have become another while people decided.
	now, err := p.definitionOf(ctx, c)
	switch {
	case err != nil:
		return permission{}, err
	case string(now) != string(def):
		return permission{}, p.changed(c)
	}
	return p.redeem(ctx, c, a)
}

func (p *Proxy) accepted(ctx context.Context, c *call, answer checked) (permission, error) {
	if holdpoint.Constrained(answer.Decision.Constraints) && !p.KeepsConstraints {
		return permission{}, &refusal{text: "Not run: it is allowed only under constraints, and nothing here can keep to them."}
	}
	p.keep(ctx, c, "")
	c.accepted = true
	return permission{arguments: c.arguments, constraints: answer.Decision.Constraints}, nil
}

// known is the approval of this very call that still counts: it waits, or is
// approved and was not run. nil: the call has to be proposed.
func (p *Proxy) known(ctx context.Context, c *call) (*holdpoint.Approval, error) {
	p.mu.Lock()
	id, doubted := p.asked[c.name], p.doubts[c.name] != ""
	if doubted {
		id = p.doubts[c.name]
	}
	p.mu.Unlock()
	awaited := id != ""
	if !awaited {
		last, err := p.Gate.last(ctx, ToolName(p.Name, c.tool), c.name)
		if err != nil || last == nil || last.Status != holdpoint.Pending && last.Status != holdpoint.Approved {
			return nil, err
		}
		id = last.ID
	}
	a, err := p.Gate.get(ctx, id)
	var problem *holdpoint.Problem
	switch {
	case errors.As(err, &problem) && problem.Status == http.StatusNotFound:
		p.settled(c)
		return nil, nil
	case err != nil:
		return nil, err
	case a.Status == holdpoint.Pending, awaited && a.Status != holdpoint.Approved:
		return &a, nil
	case a.Status != holdpoint.Approved:
		return nil, nil
	}
	switch a.Execution {
	case "none":
		if a.Token != "" {
			return &a, nil
		}
	case "succeeded", "failed":
		if doubted {
			p.settled(c)
			return nil, hasRun(&a)
		}
	default:
		return nil, begun(&a)
	}
	p.settled(c)
	return nil, nil
}

// begun is the answer to an approved call that has begun, here before a crash or in another
// host, and may have had its effect.
func begun(a *holdpoint.Approval) *refusal {
	return &refusal{approval: a.ID, text: "Not run: this very call was approved and begun before, and nobody knows what became of it (" + a.ID +
		"). It is not run again until that is on record: " + a.Links.Review}
}

// unclear is the answer to an approved call of which it is not known whether another proxy
// runs it.
func unclear(a *holdpoint.Approval) *refusal {
	return &refusal{approval: a.ID, text: "Not run here: it was approved (" + a.ID + "), but Holdpoint did not say that it may run now, and it may have been run elsewhere by the same approval. " +
		"Call the tool again with the same arguments to find out; do not do the same by other means: " + a.Links.Review}
}

// hasRun is the answer to a call that has run by its approval, and whose result is elsewhere.
func hasRun(a *holdpoint.Approval) *refusal {
	return &refusal{approval: a.ID, text: "Not run again: this very call has run, and " + a.Execution + " (" + a.ID +
		"). What the tool answered is not known here. Call the tool again only if it is wanted once more."}
}

// doubt remembers a call that another proxy runs, or may run: who asks for it again is told
// first what became of that.
func (p *Proxy) doubt(c *call, approvalID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubts[c.name] = approvalID
}

// settled forgets that the host was to come back for a call, and that it was in doubt.
func (p *Proxy) settled(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, c.name)
	delete(p.doubts, c.name)
}

// await waits for people, as long as the host should be kept waiting. A task keeps nobody
// waiting: it goes on until its time is over.
func (p *Proxy) await(ctx context.Context, c *call, a *holdpoint.Approval) (*holdpoint.Approval, error) {
	p.mu.Lock()
	p.asked[c.name] = a.ID
	p.mu.Unlock()
	wait := p.Wait
	if c.task != nil {
		wait = c.task.ttl
	}
	waiting, stop := p.waiting(ctx, wait)
	defer stop()
	if a.Status != "" { // else no more is known of it than its id
		p.tellWaiting(waiting, c, a)
		p.showLink(ctx, c, a)
	}
	done, err := p.Gate.Client.Await(waiting, a.ID)
	switch {
	case err == nil:
		return &done, nil
	case waiting.Err() != nil:
		return nil, pending(a)
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
	if err := p.begins(ctx, c); err != nil {
		return allowed, err
	}
	work, stop := context.WithTimeout(context.WithoutCancel(ctx), gateWithin)
	defer stop()
	r, err := p.spend(work, c, a, allowed.arguments)
	var known *holdpoint.Problem
	switch {
	case errors.As(err, &known) && known.Code == "token_used":
		p.doubt(c, a.ID)
		return allowed, p.elsewhere(ctx, c, a, begun(a))
	case errors.As(err, &known) && certain(known):
		return allowed, err
	case err != nil:
		p.Logger.WarnContext(ctx, "it is not known whether a token was redeemed", "approval", a.ID, "error", err)
		p.doubt(c, a.ID)
		return allowed, p.elsewhere(ctx, c, a, unclear(a))
	case holdpoint.Constrained(r.Constraints) && !p.KeepsConstraints, ctx.Err() != nil:
		p.report(ctx, a.ID, holdpoint.Failed, 0)
		return allowed, &refusal{approval: a.ID, text: "Not run: it may run only under constraints that nothing here can keep to, or was cancelled."}
	}
	allowed.constraints = r.Constraints
	return allowed, nil
}

// How often a redemption is tried whose answer leaves it open whether it was done, beside
// the tries of the client itself, and what lies between.
const (
	redeemTries = 3
	redeemPause = time.Second
)

// spend redeems a token under a key that nobody else has, and again under it where it is not
// known whether that was done: only what this key has redeemed is this proxy's to run, or to
// report as not run. Another proxy may have redeemed the token meanwhile, and run the call.
func (p *Proxy) spend(ctx context.Context, c *call, a *holdpoint.Approval, arguments canon.Value) (holdpoint.Redemption, error) {
	key := rand.Text()
	for try := 1; ; try++ {
		r, err := p.Gate.Client.RedeemAs(ctx, key, a.Token, ToolName(p.Name, c.tool), json.RawMessage(arguments.Canonical()))
		var known *holdpoint.Problem
		if err == nil || errors.As(err, &known) && certain(known) || try == redeemTries {
			return r, err
		}
		select {
		case <-time.After(redeemPause):
		case <-ctx.Done():
			return r, err
		}
	}
}

// certain reports whether a refusal is Holdpoint's own last word. An outage, and what stands
// in between, say nothing of what has become of a token.
func certain(problem *holdpoint.Problem) bool {
	return problem.Status < 500 && !problem.Retryable() && !strings.HasPrefix(problem.Code, "http_")
}

// run hands the call to the server and reports what became of it.
func (p *Proxy) run(ctx context.Context, c *call, allowed permission) *jsonrpc.Response {
	p.mu.Lock()
	late := ctx.Err() != nil
	c.running = !late
	p.mu.Unlock()
	if late {
		if allowed.approval != "" {
			p.report(ctx, allowed.approval, holdpoint.Failed, 0)
		}
		return p.refused(ctx, c, context.Cause(ctx))
	}
	p.announce(ctx, c)
	params := p.forwarded(c, allowed)
	// A cancelled call has begun: its answer is waited for a little longer.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(cancelWithin, stop) })()
	started := time.Now()
	a, err := p.ask(running, &jsonrpc.Request{ID: c.id, Method: "tools/call", Params: params})
	if allowed.approval != "" {
		p.report(ctx, allowed.approval, outcomeOf(a, err), time.Since(started))
	}
	if err != nil {
		return p.result(c, lost(allowed.approval, err), allowed.approval)
	}
	if p.FilterResults {
		a = p.filtered(ctx, c, a, allowed.approval)
	}
	return withEdit(a, allowed)
}

// forwarded is what the server gets: the arguments as approved, the rest as the host
// sent it.
func (p *Proxy) forwarded(c *call, allowed permission) json.RawMessage {
	var members []canon.Member
	meta := canon.Object()
	for name, v := range c.params.All() {
		switch name {
		case "arguments", "task":
		case "_meta":
			if v.Kind() == canon.ObjectKind {
				meta = v
			}
		default:
			members = append(members, canon.Member{Name: name, Value: v})
		}
	}
	if limits, err := canon.Parse(allowed.constraints); err == nil && holdpoint.Constrained(allowed.constraints) {
		var rest []canon.Member
		for name, v := range meta.All() {
			if name != ConstraintsKey {
				rest = append(rest, canon.Member{Name: name, Value: v})
			}
		}
		meta = canon.Object(append(rest, canon.Member{Name: ConstraintsKey, Value: limits})...)
	}
	if meta.Len() > 0 {
		members = append(members, canon.Member{Name: "_meta", Value: meta})
	}
	return canon.Object(append(members, canon.Member{Name: "arguments", Value: allowed.arguments})...).Canonical()
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

// report tells Holdpoint what became of a call. What cannot be told is found out by
// a person, after the lease.
func (p *Proxy) report(ctx context.Context, approvalID string, outcome holdpoint.Outcome, took time.Duration) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), reportWithin)
	defer stop()
	if err := p.Gate.Client.Report(ctx, approvalID, outcome, took); err != nil {
		p.Logger.WarnContext(ctx, "what became of a call cannot be reported", "approval", approvalID, "outcome", outcome, "error", err)
	}
}
