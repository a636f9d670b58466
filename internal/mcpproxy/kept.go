package mcpproxy

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	holdpoint "holdpoint.example/client"

	"holdpoint/engine/canon"
)

// keptTasks says of tasks, in a file each, which approval they wait for, so that a host
// finds one by its id also when the proxy was started anew:
//
//	proposed ─► the file, on the disk ─► the host is told the task's id ─► waits ─┬─► the file's name says that it begins ─► redeems, runs
//	                                                                              └─► cancelled: no file
//
// A proxy that finds a task there goes on with that very approval, by its token, which is
// spent once whoever else may try. It never proposes anything for it: what was denied, is
// over or has run is told as that. Of all proxies one may cancel the task, or any begin it:
// whichever is first, by the name of the file. It goes when the task is cancelled, or its
// time is over; it has no result. It is sealed under the agent's key: who has that may have
// the call anyway.
type keptTasks struct {
	dir  string
	seal cipher.AEAD
}

// keptTask is what is in the file of a task.
type keptTask struct {
	Approval string          `json:"approval"` // "" for a call that was accepted without one, and may have run
	Name     string          `json:"name"`     // the call's, of the tool as it was described
	Params   json.RawMessage `json:"params"`
	Created  time.Time       `json:"created"`
	TTL      time.Duration   `json:"ttl"`
}

// keepTasks keeps the tasks of an agent's key in a directory.
func keepTasks(dir, key string) (*keptTasks, error) {
	sum := hmac.New(sha256.New, []byte(key))
	sum.Write([]byte("tasks of holdpoint mcp-proxy"))
	block, err := aes.NewCipher(sum.Sum(nil))
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep tasks: %w", err)
	}
	k := &keptTasks{dir, seal}
	k.tidy(time.Now().Add(-longestTTL))
	return k, nil
}

// tidy removes files of tasks that are older than a task can be. What cannot be removed stays.
func (k *keptTasks) tidy(before time.Time) {
	files, err := os.ReadDir(k.dir)
	if err != nil {
		return
	}
	for _, f := range files {
		id := strings.TrimSuffix(f.Name(), beginning)
		if k.file(id) == "" && !strings.HasPrefix(id, unfinished) {
			continue // no file of ours
		}
		if info, err := f.Info(); err == nil && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(k.dir, f.Name()))
		}
	}
}

// unfinished begins the names of files that are being written.
const unfinished = "new-"

// file is where a task is kept; "" for what is the id of none.
func (k *keptTasks) file(id string) string {
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') }) {
		return ""
	}
	return filepath.Join(k.dir, id)
}

// write makes the file of a task, whole and on the disk, or not at all.
func (k *keptTasks) write(id string, one keptTask) error {
	data, err := json.Marshal(one)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(k.dir, unfinished) // which is made for its owner alone
	if err != nil {
		return err
	}
	_, err = f.Write(k.seal.Seal(nil, nil, data, []byte(id)))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), k.file(id))
	}
	if err == nil {
		err = k.sync()
	}
	if err != nil {
		_ = os.Remove(f.Name())
		_ = os.Remove(k.file(id))
	}
	return err
}

// sync has the disk know which files there are.
func (k *keptTasks) sync() error {
	dir, err := os.Open(k.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// read is a task that is kept. What is sealed otherwise, or for another id, is none.
func (k *keptTasks) read(id string) (one keptTask, err error) {
	if k == nil || k.file(id) == "" {
		return one, fs.ErrNotExist
	}
	data, err := os.ReadFile(k.file(id)) // #nosec G304 -- the id is one
	if errors.Is(err, fs.ErrNotExist) {
		data, err = os.ReadFile(k.file(id) + beginning) // #nosec G304 -- the id is one
	}
	if err == nil {
		data, err = k.seal.Open(nil, nil, data, []byte(id))
	}
	if err == nil {
		err = json.Unmarshal(data, &one)
	}
	return one, err
}

// beginning ends the name of the file of a task whose call is about to run, or has begun.
const beginning = ".begun"

// begin says that a task's call begins: nobody can cancel it any more. Where there is no
// file of it, somebody has.
func (k *keptTasks) begin(id string) error {
	err := os.Rename(k.file(id), k.file(id)+beginning)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(k.file(id) + beginning) // here, or by another proxy: the token is spent once
	}
	return err
}

// cancel removes the file of a task, if there is one: no proxy begins it. errBegun if one has.
func (k *keptTasks) cancel(id string) error {
	err := os.Remove(k.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(k.file(id) + beginning); err == nil {
			return errBegun
		}
	} else if err != nil {
		return err
	}
	return k.sync()
}

// forget removes the file of a task, if there is one: no proxy goes on with it.
func (k *keptTasks) forget(id string) error {
	if k == nil {
		return nil
	}
	for _, file := range []string{k.file(id), k.file(id) + beginning} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget a task: %w", err)
		}
	}
	return k.sync()
}

// unkeep removes the file of a task that is over, as far as it can be.
func (p *Proxy) unkeep(ctx context.Context, id string) {
	if err := p.kept.forget(id); err != nil {
		p.Logger.WarnContext(ctx, "a task that is over stays on the disk", "error", err)
	}
}

// keep notes which approval a call's task waits for, or that it was accepted, for "". One that
// cannot be kept ends with the proxy.
func (p *Proxy) keep(ctx context.Context, c *call, approvalID string) {
	t := c.task
	if t == nil || t.told || p.kept == nil {
		return
	}
	one := keptTask{approvalID, c.name, json.RawMessage(withoutProgress(c.params).Canonical()), t.created, t.ttl}
	err := p.kept.write(t.id, one)
	if err == nil && approvalID == "" {
		err = p.kept.begin(t.id)
	}
	if err != nil {
		p.Logger.WarnContext(ctx, "a task is not kept, and ends with the proxy", "error", err)
		return
	}
	p.mu.Lock()
	t.kept = true
	p.mu.Unlock()
}

// begins says that a call's task, if it is kept, begins now. Every error means that it may
// not run.
func (p *Proxy) begins(ctx context.Context, c *call) error {
	if c.task == nil {
		return nil
	}
	p.mu.Lock()
	kept := c.task.kept
	p.mu.Unlock()
	if !kept {
		return nil
	}
	switch err := p.kept.begin(c.task.id); {
	case errors.Is(err, fs.ErrNotExist):
		return &refusal{text: "Not run: its task was cancelled."}
	case err != nil:
		p.Logger.WarnContext(ctx, "a task cannot begin", "error", err)
		return &refusal{text: "Not run: it cannot be noted that it begins."}
	}
	return nil
}

// withoutProgress are a call's parameters for another host than its own, which knows nothing
// of the first one's progressToken.
func withoutProgress(params canon.Value) canon.Value {
	var kept []canon.Member
	for name, v := range params.All() {
		if name == "_meta" && v.Kind() == canon.ObjectKind {
			var meta []canon.Member
			for name, v := range v.All() {
				if name != "progressToken" {
					meta = append(meta, canon.Member{Name: name, Value: v})
				}
			}
			v = canon.Object(meta...)
		}
		kept = append(kept, canon.Member{Name: name, Value: v})
	}
	return canon.Object(kept...)
}

// restore finds a task that another proxy has kept, and goes on with its approval.
func (p *Proxy) restore(ctx context.Context, id string) {
	one, ok := p.found(ctx, id)
	switch {
	case !ok:
	case one.Approval == "":
		p.takeUp(ctx, id, one, p.acceptedBefore)
	default:
		p.takeUp(ctx, id, one, func(ctx context.Context, c *call) *jsonrpc.Response { return p.goesOn(ctx, c, one.Approval) })
	}
}

// found is a task that is kept, and whose time is not over.
func (p *Proxy) found(ctx context.Context, id string) (one keptTask, ok bool) {
	one, err := p.kept.read(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return one, false
	case err != nil:
		p.Logger.WarnContext(ctx, "a task that was kept cannot be read", "error", err)
		return one, false
	case time.Until(one.Created.Add(one.TTL)) <= 0:
		p.unkeep(ctx, id)
		return one, false
	}
	return one, true
}

// takeUp makes a task that was kept one of this proxy's, unless it is by now.
func (p *Proxy) takeUp(ctx context.Context, id string, one keptTask, called func(context.Context, *call) *jsonrpc.Response) {
	c, err := p.read(&jsonrpc.Request{ID: p.ownID(), Params: one.Params})
	if err != nil {
		p.Logger.WarnContext(ctx, "a task that was kept cannot be read", "error", err)
		return
	}
	c.name = one.Name
	t := &task{id: id, call: c, created: one.Created, updated: time.Now().UTC(), ttl: one.TTL, status: working, done: make(chan struct{}), told: true, kept: true, found: true}
	ctx, c.cancel = context.WithCancel(ctx)
	if err := p.add(t); err != nil {
		c.cancel()
		if errors.Is(err, errTaskHere) {
			return
		}
		p.Logger.WarnContext(ctx, "a task that was kept does not go on", "error", err)
		return
	}
	p.mu.Lock()
	t.expiry = time.AfterFunc(time.Until(one.Created.Add(one.TTL)), func() { p.expired(t) })
	p.mu.Unlock()
	p.start(ctx, c, called)
}

// errBegun says why a task is not cancelled.
var errBegun = errors.New("the task is over already, or its call has begun: its result says what became of it")

// cancelKept answers tasks/cancel for a task that another proxy has kept. One whose call has
// begun is not cancelled: what has run is told as that.
func (p *Proxy) cancelKept(ctx context.Context, r *jsonrpc.Request, id string) {
	one, ok := p.found(ctx, id)
	if ok {
		switch err := p.cancelUnlessBegun(ctx, id, one); {
		case errors.Is(err, errBegun):
			p.restore(ctx, id)
			p.toHost(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, err.Error()))
			return
		case err != nil:
			p.toHost(ctx, failure(r.ID, jsonrpc.CodeInternalError, err.Error()))
			return
		}
		p.takeUp(ctx, id, one, func(ctx context.Context, c *call) *jsonrpc.Response {
			<-ctx.Done()
			return p.refused(ctx, c, context.Cause(ctx))
		})
	}
	p.mu.Lock()
	at := slices.IndexFunc(p.tasks, func(t *task) bool { return t.id == id })
	if at < 0 {
		p.mu.Unlock()
		p.toHost(ctx, failure(r.ID, jsonrpc.CodeInvalidParams, unknownTask))
		return
	}
	p.cancelTask(ctx, r, p.tasks[at])
}

// cancelUnlessBegun cancels a task that is kept, for all proxies. Every error is for the host.
func (p *Proxy) cancelUnlessBegun(ctx context.Context, id string, one keptTask) error {
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
	if err := p.kept.cancel(id); err != nil && !errors.Is(err, errBegun) {
		p.Logger.WarnContext(ctx, "a task cannot be cancelled", "error", err)
		return errors.New("it is not cancelled: that cannot be noted")
	} else if err != nil {
		return err
	}
	return nil
}

// goesOn is the answer to a call whose task was kept: it runs by the approval that it waited
// for, or not at all.
func (p *Proxy) goesOn(ctx context.Context, c *call, approvalID string) *jsonrpc.Response {
	a, err := p.approved(ctx, c, approvalID)
	if err != nil {
		return p.refused(ctx, c, err)
	}
	// The tool may have become another since it was called.
	def, err := p.definitionOf(ctx, c)
	if err != nil {
		return p.refused(ctx, c, err)
	}
	if p.callName(c.tool, c.arguments, def) != c.name {
		return p.refused(ctx, c, p.changed(c))
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
	p.settled(c)
	p.linkOver(ctx, a.ID)
	switch {
	case a.Status != holdpoint.Approved:
		return nil, ended(a)
	case a.Execution == "none":
		return a, nil
	}
	return nil, p.elsewhere(ctx, c, a, begun(a))
}

// elsewhere is what became of a call that another proxy has begun, or may have: a task waits
// for it. Where that cannot be had it is what is known now.
func (p *Proxy) elsewhere(ctx context.Context, c *call, a *holdpoint.Approval, known *refusal) *refusal {
	if c.task == nil {
		return known
	}
	ctx, stop := p.waiting(ctx, c.task.ttl)
	defer stop()
	now, err := p.Gate.get(ctx, a.ID)
	for err == nil && now.Execution == "redeemed" {
		p.waits(c, "The call has begun elsewhere, and it is not known yet what became of it: "+now.Links.Review)
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
	p.settled(c)
	return hasRun(&now)
}

// acceptedBefore is the answer to a call whose task was accepted without people, by a proxy
// that has ended.
func (p *Proxy) acceptedBefore(_ context.Context, c *call) *jsonrpc.Response {
	return p.result(c, "It is not known whether the tool had its effect: the call was accepted, and the proxy that ran it has ended, or still runs it. Do not call it again before you know.", "")
}
