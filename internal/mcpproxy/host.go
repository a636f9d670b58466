package mcpproxy

import (
	"context"
	"encoding/json"
	"net/url"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	holdpoint "holdpoint.example/client"
)

// hostSide is the proxy's conversation with the host.
type hostSide struct {
	sdk.Connection
	ids *ids

	mu         sync.Mutex
	opensLinks bool             // it shows addresses to its user
	links      map[string]*link // that it was asked to show, by approval
}

func newHostSide(conn sdk.Connection, ids *ids) *hostSide {
	return &hostSide{Connection: conn, ids: ids, links: map[string]*link{}}
}

// send sends a message to the host. One that has gone needs none.
func (h *hostSide) send(ctx context.Context, m jsonrpc.Message) { _ = h.Write(ctx, m) }

// notify tells the host something that it need not answer.
func (h *hostSide) notify(ctx context.Context, method string, params map[string]any) {
	if data, err := json.Marshal(params); err == nil {
		h.send(ctx, &jsonrpc.Request{Method: method, Params: data})
	}
}

// reply answers a request of the host's with what is not from the server.
func (h *hostSide) reply(ctx context.Context, id jsonrpc.ID, result any) {
	data, err := json.Marshal(result)
	if err != nil {
		h.send(ctx, failure(id, jsonrpc.CodeInternalError, "the answer cannot be encoded"))
		return
	}
	h.send(ctx, &jsonrpc.Response{ID: id, Result: data})
}

// setCapabilities remembers what the host can do, when it introduces itself.
func (h *hostSide) setCapabilities(params json.RawMessage) {
	var host struct {
		Capabilities struct {
			Elicitation struct {
				URL json.RawMessage `json:"url"`
			} `json:"elicitation"`
		} `json:"capabilities"`
	}
	_ = json.Unmarshal(params, &host) // what cannot be read can do nothing
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opensLinks = host.Capabilities.Elicitation.URL != nil
}

// progressEvery is how often a host is told that a call waits: hosts that count
// silence count from the last time.
const progressEvery = 5 * time.Second

// showProgress tells a host that asked for a call's progress what it waits for, now, every
// few seconds until ctx ends, and at once when that is another thing, which is said by the
// returned function. The steps are small, so that whatever the server counts itself comes
// after them.
func (h *hostSide) showProgress(ctx context.Context, c *call, says string) (tell func(says string)) {
	if c.progress.IsNull() {
		return func(string) {}
	}
	others := make(chan string)
	go func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for n := 1; ctx.Err() == nil; n++ {
			params := map[string]any{"progressToken": json.RawMessage(c.progress.Canonical()), "progress": float64(n) / 1e6, "message": says}
			if c.task != nil {
				params["_meta"] = c.task.meta()
			}
			h.notify(ctx, "notifications/progress", params)
			select {
			case <-tick.C:
			case says = <-others:
			case <-ctx.Done():
			}
		}
	}()
	told := says
	return func(says string) {
		if says == told {
			return
		}
		told = says
		select {
		case others <- says:
		case <-ctx.Done():
		}
	}
}

// link is the address of an approval's page that the host was asked to show its user.
// Whatever the user makes of it decides nothing: who opens the page signs in there.
type link struct {
	request  jsonrpc.ID
	answered bool
}

// showLink asks a host that can do that to show where people decide, once for each
// approval.
func (h *hostSide) showLink(ctx context.Context, tool string, c *call, a *holdpoint.Approval) {
	at, err := url.Parse(a.Links.Review)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" {
		return
	}
	id := h.ids.next()
	h.mu.Lock()
	shown := !h.opensLinks || h.links[a.ID] != nil
	if !shown {
		h.links[a.ID] = &link{request: id}
	}
	h.mu.Unlock()
	if shown {
		return
	}
	params := map[string]any{
		"mode": "url", "elicitationId": a.ID, "url": a.Links.Review,
		"message": "The call of " + tool + " waits for people to decide. They do that on this page, signed in; what is answered here decides nothing.",
	}
	if c.task != nil {
		params["_meta"] = c.task.meta()
	}
	if data, err := json.Marshal(params); err == nil {
		h.send(ctx, &jsonrpc.Request{ID: id, Method: "elicitation/create", Params: data})
	}
}

// linkOver tells the host that what was to be done behind a link is done.
func (h *hostSide) linkOver(ctx context.Context, approval string) {
	h.mu.Lock()
	l := h.links[approval]
	delete(h.links, approval)
	h.mu.Unlock()
	if l == nil {
		return
	}
	if !l.answered {
		h.notify(ctx, "notifications/cancelled", map[string]any{"requestId": l.request.Raw(), "reason": "it is decided"})
	}
	h.notify(ctx, "notifications/elicitation/complete", map[string]any{"elicitationId": approval})
}

// answersOwn reports whether an answer of the host's is to a request of the proxy's own,
// of which the server never hears.
func (h *hostSide) answersOwn(m *jsonrpc.Response) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.links {
		if l.request == m.ID {
			l.answered = true
			return true
		}
	}
	return h.ids.own(m.ID)
}
