package mcpproxy

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	holdpoint "holdpoint.example/client"
)

// link is the address of an approval's page that the host was asked to show its user.
// Whatever the user makes of it decides nothing: who opens the page signs in there.
type link struct {
	request  jsonrpc.ID
	answered bool
}

// showLink asks a host that can do that to show where people decide, once for each
// approval.
func (p *Proxy) showLink(ctx context.Context, c *call, a *holdpoint.Approval) {
	at, err := url.Parse(a.Links.Review)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" {
		return
	}
	id := p.ownID()
	p.mu.Lock()
	shown := !p.opensLinks || p.links[a.ID] != nil
	if !shown {
		p.links[a.ID] = &link{request: id}
	}
	p.mu.Unlock()
	if shown {
		return
	}
	params := map[string]any{
		"mode": "url", "elicitationId": a.ID, "url": a.Links.Review,
		"message": "The call of " + ToolName(p.Name, c.tool) + " waits for people to decide. They do that on this page, signed in; what is answered here decides nothing.",
	}
	if c.task != nil {
		params["_meta"] = c.task.meta()
	}
	if data, err := json.Marshal(params); err == nil {
		p.toHost(ctx, &jsonrpc.Request{ID: id, Method: "elicitation/create", Params: data})
	}
}

// linkOver tells the host that what was to be done behind a link is done.
func (p *Proxy) linkOver(ctx context.Context, approval string) {
	p.mu.Lock()
	l := p.links[approval]
	delete(p.links, approval)
	p.mu.Unlock()
	if l == nil {
		return
	}
	if !l.answered {
		p.notify(ctx, "notifications/cancelled", map[string]any{"requestId": l.request.Raw(), "reason": "it is decided"})
	}
	p.notify(ctx, "notifications/elicitation/complete", map[string]any{"elicitationId": approval})
}

// answersOwn reports whether an answer of the host's is to a request of the proxy's own,
// of which the server never hears.
func (p *Proxy) answersOwn(m *jsonrpc.Response) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.links {
		if l.request == m.ID {
			l.answered = true
			return true
		}
	}
	return p.isOwn(m.ID)
}
