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
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	holdpoint "holdpoint.example/client"

	"holdpoint/engine/canon"
)

// keptTasks says of tasks, in a file each, which approval they wait for, so that a host
// finds one by its id also when the proxy was started anew:
//
//	proposed ─► the file, on the disk ─► the host is told the task's id ─► waits, redeems, runs
//
// A proxy that finds a task there goes on with that very approval, by its token, which is
// spent once whoever else may try. It never proposes anything for it: what was denied, is
// over or has run is told as that. The file goes when the task is cancelled, or its time
// is over; it has no result. It is sealed under the agent's key: who has that may have the
// call anyway.
type keptTasks struct {
	dir  string
	seal cipher.AEAD
}

// keptTask is what is in the file of a task.
type keptTask struct {
	Approval string          `json:"approval"`
	Name     string          `json:"name"` // the call's, of the tool as it was described
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

// tidy removes what is older than a task can be. What cannot be removed stays.
func (k *keptTasks) tidy(before time.Time) {
	files, err := os.ReadDir(k.dir)
	if err != nil {
		return
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(k.dir, f.Name()))
		}
	}
}

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
	f, err := os.CreateTemp(k.dir, "new-") // which is made for its owner alone
	if err != nil {
		return err
	}
	_, err = f.Write(k.seal.Seal(nil, nil, data, []byte(id)))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), k.file(id))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return k.sync()
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
	data, err := os.ReadFile(k.file(id))
	if err == nil {
		data, err = k.seal.Open(nil, nil, data, []byte(id))
	}
	if err == nil {
		err = json.Unmarshal(data, &one)
	}
	return one, err
}

// forget removes the file of a task, if there is one: no proxy goes on with it.
func (k *keptTasks) forget(id string) error {
	if k == nil {
		return nil
	}
	switch err := os.Remove(k.file(id)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("forget a task: %w", err)
	}
	return k.sync()
}

// keep notes which approval a call's task waits for. One that cannot be kept ends with the
// proxy.
func (p *Proxy) keep(ctx context.Context, c *call, approvalID string) {
	t := c.task
	if t == nil || t.told || p.kept == nil {
		return
	}
	one := keptTask{approvalID, c.name, json.RawMessage(withoutProgress(c.params).Canonical()), t.created, t.ttl}
	if err := p.kept.write(t.id, one); err != nil {
		p.Logger.WarnContext(ctx, "a task is not kept, and ends with the proxy", "error", err)
	}
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

// restore finds a task that another proxy has kept, and goes on with its approval; with
// one that is to be cancelled it does not.
func (p *Proxy) restore(ctx context.Context, id string, cancels bool) {
	one, err := p.kept.read(id)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.Logger.WarnContext(ctx, "a task that was kept cannot be read", "error", err)
		}
		return
	}
	left := time.Until(one.Created.Add(one.TTL))
	if left <= 0 {
		if err := p.kept.forget(id); err != nil {
			p.Logger.WarnContext(ctx, "a task whose time is over stays on the disk", "error", err)
		}
		return
	}
	c, err := p.read(&jsonrpc.Request{ID: p.ownID(), Params: one.Params})
	if err != nil || one.Approval == "" {
		p.Logger.WarnContext(ctx, "a task that was kept cannot be read", "error", err)
		return
	}
	c.name = one.Name
	t := &task{id: id, call: c, created: one.Created, updated: time.Now().UTC(), ttl: one.TTL, status: working, done: make(chan struct{}), told: true}
	ctx, c.cancel = context.WithCancel(ctx)
	if err := p.add(t); err != nil {
		c.cancel()
		p.Logger.WarnContext(ctx, "a task that was kept does not go on", "error", err)
		return
	}
	p.mu.Lock()
	t.expiry = time.AfterFunc(left, func() { p.expired(t) })
	p.mu.Unlock()
	p.start(ctx, c, func(ctx context.Context, c *call) *jsonrpc.Response {
		if cancels {
			<-ctx.Done()
			return p.refused(ctx, c, context.Cause(ctx))
		}
		return p.goesOn(ctx, c, one.Approval)
	})
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
	case a.Execution == "succeeded", a.Execution == "failed":
		return nil, &refusal{approval: id, text: "Not run again: it has run, and " + a.Execution + " (" + id + "). What the tool answered went with a proxy that has ended."}
	}
	return nil, begun(a)
}
