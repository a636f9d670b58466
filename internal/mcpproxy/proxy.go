// Package mcpproxy stands between a host of the Model Context Protocol and one of
// its servers, and lets no call of a tool through that Holdpoint has not permitted:
//
//	host ── tools/call ──► Proxy ── check, await, redeem ──► Holdpoint
//	                         │ permitted: the arguments as approved, once
//	                         ▼
//	                       server ── result ──► Proxy ── report ──► Holdpoint
//	                                              └─► host
//
// A host may come back for the result instead of waiting for it (tasks), and is asked to show
// its user where people decide, if it can (elicitation).
//
// Everything else passes as it is: resources, prompts, progress, cancellation, and
// what the server asks its host. Tools are listed as the server describes them, but
// only as an operator has accepted those descriptions (Pins).
//
// The package keeps no state of approvals but which one a task waits for (taskfiles.go): which
// approval is of a call is found at Holdpoint, by a name that is made of the call under the
// agent's key, and that a call runs once is the redemption of its token. It never shows a token to the host
// or the server, never hands the agent's key on, and never takes silence, an error
// or an answer that it does not understand for a permission.
package mcpproxy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Config is what a proxy needs to know.
type Config struct {
	// Name is the operator's name for the server. A call of its tool t is proposed as
	// ToolName(Name, t).
	Name string
	Gate *Gate
	Pins *Pins
	// Wait is how long a call is held while people decide. It is best less than the
	// time after which the host gives up, often 60 seconds.
	Wait time.Duration
	// KeepsConstraints says that the server keeps to the constraints in a call's
	// _meta (ConstraintsKey). Without it a call under constraints is not run.
	KeepsConstraints bool
	// FilterResults has the host see of each result only what the tool's contract lets
	// the agent see. What cannot be looked at is held back.
	FilterResults bool
	// Tasks is the directory by which tasks that wait are found again when the proxy was
	// started anew; "" for none.
	Tasks string
	// Data is the directory of the “holdpoint dev” that is asked, which commands for its
	// operator name; "" for none.
	Data string
	// Logger takes what an operator has to know; no arguments and no keys.
	Logger *slog.Logger
}

// Bounds of what is done for calls that nobody waits for any more.
const (
	drainWithin  = 8 * time.Second  // what runs may still end, after the host has gone
	cancelWithin = 10 * time.Second // a server may still answer a call that was cancelled
	reportWithin = 10 * time.Second
	gateWithin   = 20 * time.Second // one question to Holdpoint
)

// separator stands between the server's name and the tool's own.
const separator = "__"

// ToolName is the name under which Holdpoint knows a server's tool.
func ToolName(server, tool string) string { return server + separator + tool }

// CheckName says what is wrong with a server's name. With the name of a tool behind
// it, it has to have one reading.
func CheckName(name string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r)
	}
	switch {
	case name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }):
		return errors.New("a server's name is 1 to 64 of the letters a to z, digits, and - . _")
	case strings.Contains(name, separator), strings.HasSuffix(name, "_"), strings.HasPrefix(name, "."):
		return errors.New("a server's name has no two underscores beside each other, ends with none, and does not begin with a dot")
	}
	return nil
}

// Proxy is one conversation of a host with a server.
type Proxy struct {
	Config
	host      *hostSide
	server    *serverSide
	tools     *toolList
	approvals *approvals
	calls     *openCalls

	patient chan struct{}  // closed when nobody will wait for people any more
	work    sync.WaitGroup // calls, until they are reported
}

// New returns a proxy between two connections.
func New(cfg Config, host, server sdk.Connection) (*Proxy, error) {
	if cfg.Gate == nil || cfg.Pins == nil || cfg.Logger == nil || cfg.Wait < 0 {
		return nil, errors.New("a proxy needs a gate, pins and a logger")
	}
	if err := CheckName(cfg.Name); err != nil {
		return nil, err
	}
	own := newIDs()
	p := &Proxy{
		Config: cfg, host: newHostSide(host, own), server: newServerSide(server, own),
		approvals: newApprovals(cfg), patient: make(chan struct{}),
	}
	p.calls = newOpenCalls(cfg, p.host, p.server)
	p.tools = &toolList{name: cfg.Name, server: p.server, pins: cfg.Pins, logger: cfg.Logger, tasks: p.calls.mayBeTasks}
	return p, nil
}

// ErrServerEnded is returned when the server ended while the host was there.
var ErrServerEnded = errors.New("the server has ended")

// Run passes messages until the host or the server ends, or ctx does. What runs by
// then may end and is reported. Only the server's end is an error.
func (p *Proxy) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hostEnded, serverEnded := make(chan struct{}), make(chan struct{})
	go func() { defer close(hostEnded); p.fromHost(ctx) }()
	go func() { defer close(serverEnded); p.fromServer(ctx) }()
	finished := func(within time.Duration) {
		done := make(chan struct{})
		go func() { p.work.Wait(); close(done) }()
		limit := time.NewTimer(within)
		defer limit.Stop()
		select {
		case <-done:
		case <-limit.C:
		}
	}
	select {
	case <-serverEnded:
		close(p.patient)
		close(p.server.gone)
		for _, id := range p.server.unanswered() {
			p.host.send(ctx, failure(id, jsonrpc.CodeInternalError, "the server has ended"))
		}
		finished(reportWithin)
		return ErrServerEnded
	case <-hostEnded:
	case <-ctx.Done():
	}
	close(p.patient)
	finished(drainWithin)
	close(p.server.gone)
	finished(reportWithin)
	return nil
}

// failure is an answer with an error.
func failure(id jsonrpc.ID, code int64, message string) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: code, Message: message}}
}

func (p *Proxy) fromHost(ctx context.Context) {
	for {
		m, err := p.host.Read(ctx)
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *jsonrpc.Response:
			if !p.host.answersOwn(m) {
				p.server.send(ctx, m)
			}
		case *jsonrpc.Request:
			if m.IsCall() {
				p.requested(ctx, m)
			} else {
				p.notified(ctx, m)
			}
		}
	}
}

// requested handles a request of the host's.
func (p *Proxy) requested(ctx context.Context, r *jsonrpc.Request) {
	switch {
	case p.server.has(r.ID) || p.calls.has(r.ID):
		p.host.send(ctx, failure(r.ID, jsonrpc.CodeInvalidRequest, "this id is that of a request that is not answered yet"))
	case r.Method == "tools/call":
		p.begin(ctx, r)
	case r.Method == "tools/list":
		p.work.Go(func() { p.host.send(ctx, p.tools.list(ctx, r)) })
	case strings.HasPrefix(r.Method, "tasks/") && p.calls.mayBeTasks():
		p.serveTask(ctx, r)
	case strings.HasPrefix(r.Method, "tools/"), strings.HasPrefix(r.Method, "tasks/"), r.Method == "server/discover":
		// What is not known here may run a tool. Without server/discover a host falls
		// back on initialize, and on versions in which a call is one request.
		p.host.send(ctx, failure(r.ID, jsonrpc.CodeMethodNotFound, "the proxy does not offer "+r.Method))
	default:
		if r.Method == "initialize" {
			p.host.setCapabilities(r.Params)
		}
		if p.server.pass(ctx, r) != nil {
			p.host.send(ctx, failure(r.ID, jsonrpc.CodeInternalError, "the server cannot be reached"))
		}
	}
}

// notified handles a notification of the host's. A tool is called by a request
// only: a call that nobody can be answered is not passed on.
func (p *Proxy) notified(ctx context.Context, r *jsonrpc.Request) {
	if strings.HasPrefix(r.Method, "tools/") {
		p.Logger.WarnContext(ctx, "the host calls a tool by a notification: it is dropped", "method", r.Method)
		return
	}
	if r.Method == "notifications/cancelled" && p.calls.cancelled(r.Params) {
		return
	}
	p.server.send(ctx, r)
}

func (p *Proxy) fromServer(ctx context.Context) {
	for {
		m, err := p.server.Read(ctx)
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *jsonrpc.Request:
			if m.Method == "notifications/tools/list_changed" {
				p.tools.forget()
			}
			p.host.send(ctx, m)
		case *jsonrpc.Response:
			e := p.server.answered(m.ID)
			if u := (*unreachable)(nil); errors.As(m.Error, &u) {
				p.Logger.WarnContext(ctx, "the server cannot be reached", "error", u.cause)
			}
			switch {
			case e == nil:
				// Also an answer to a call that the server has not got.
				p.Logger.WarnContext(ctx, "the server answers what it was not asked: it is dropped")
			case e.answer != nil:
				e.answer <- m
			case e.method == "initialize":
				p.host.send(ctx, p.calls.introduced(m))
			default:
				p.host.send(ctx, m)
			}
		}
	}
}
