package mcp

import (
	"context"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// links are the approvals whose pages a client was asked to show its user, while it speaks.
// Over HTTP there are none: a client that is asked nothing cannot answer.
type links struct {
	mu   sync.Mutex
	open map[string]context.CancelFunc // takes the question back; by approval
}

// show asks a client that can do that (elicitation in mode url) to show its user where people
// decide, once for each approval. What the user answers there decides nothing: who opens the
// page signs in.
func (c caller) show(session *sdk.ServerSession, w *waiting) {
	if c.links == nil || session == nil || w.Links.Review == "" || !opensLinks(session.InitializeParams()) {
		return
	}
	c.links.mu.Lock()
	defer c.links.mu.Unlock()
	if c.links.open[w.ID] != nil {
		return
	}
	ctx, cancel := context.WithCancel(c.connected)
	c.links.open[w.ID] = cancel
	go func() {
		_, _ = session.Elicit(ctx, &sdk.ElicitParams{ // whatever the answer is
			Mode: "url", ElicitationID: w.ID, URL: w.Links.Review,
			Message: "A call waits for people to decide. They do that on this page, signed in; what is answered here decides nothing.",
		})
	}()
}

// shown tells the client that what was to be done behind an approval's link is done.
func (c caller) shown(ctx context.Context, session *sdk.ServerSession, approval string) {
	if c.links == nil || session == nil {
		return
	}
	c.links.mu.Lock()
	cancel := c.links.open[approval]
	delete(c.links.open, approval)
	c.links.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel()
	_ = session.NotifyElicitationComplete(ctx, &sdk.ElicitationCompleteParams{ElicitationID: approval}) // the answer says it all
}

// opensLinks reports whether a client shows addresses to its user.
func opensLinks(p *sdk.InitializeParams) bool {
	return p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil && p.Capabilities.Elicitation.URL != nil
}
