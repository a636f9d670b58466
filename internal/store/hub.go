package store

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// The channels on which the database tells what has changed (migrations).
const (
	approvalsChannel = "holdpoint_approvals"
	outboxChannel    = "holdpoint_outbox"
	decidedChannel   = "holdpoint_decided"
	identityChannel  = "holdpoint_identity"
	rulesChannel     = "holdpoint_rules"
	logChannel       = "holdpoint_log"
	logWantedChannel = "holdpoint_log_wanted"
)

// hub listens on one connection for the whole process and wakes whoever
// waits. A wake-up says only "look again": they may come together, and after a
// lost connection everybody is woken, because what happened meanwhile is not
// known.
type hub struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	done chan struct{}

	mu   sync.Mutex
	subs map[string]map[chan struct{}]struct{} // by channel, or channel and id
}

func newHub(pool *pgxpool.Pool, log *slog.Logger) *hub {
	return &hub{pool: pool, log: log, done: make(chan struct{}), subs: map[string]map[chan struct{}]struct{}{}}
}

func (h *hub) wait() { <-h.done }

// subscribe returns a channel that receives after every change of key, until
// ctx ends.
func (h *hub) subscribe(ctx context.Context, key string) <-chan struct{} {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	if h.subs[key] == nil {
		h.subs[key] = map[chan struct{}]struct{}{}
	}
	h.subs[key][ch] = struct{}{}
	h.mu.Unlock()
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs[key], ch)
		if len(h.subs[key]) == 0 {
			delete(h.subs, key)
		}
	})
	return ch
}

func (h *hub) wake(keys ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		for ch := range h.subs[key] {
			select {
			case ch <- struct{}{}:
			default: // it has yet to look: one wake-up is enough
			}
		}
	}
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	keys := make([]string, 0, len(h.subs))
	for key := range h.subs {
		keys = append(keys, key)
	}
	h.mu.Unlock()
	h.wake(keys...)
}

// run listens until ctx ends, connecting again whenever the connection breaks.
func (h *hub) run(ctx context.Context) {
	defer close(h.done)
	for ctx.Err() == nil {
		if err := h.listen(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("listening for changes was interrupted", "error", hideURL(err))
			select {
			case <-time.After(250 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

func (h *hub) listen(ctx context.Context) error {
	pooled, err := h.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	// The connection is the hub's own from here on: it never goes back.
	conn := pooled.Hijack()
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+approvalsChannel+"; LISTEN "+outboxChannel+"; LISTEN "+decidedChannel+"; LISTEN "+identityChannel+"; LISTEN "+rulesChannel+"; LISTEN "+logChannel+"; LISTEN "+logWantedChannel); err != nil {
		return err
	}
	h.wakeAll()
	for {
		// A silent connection may be a dead one: ask it now and then.
		wait, cancel := context.WithTimeout(ctx, 15*time.Second)
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			h.wake(n.Channel)
			if n.Payload != "" {
				h.wake(n.Channel + " " + n.Payload)
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case conn.IsClosed():
			return err
		default:
			ping, cancel := context.WithTimeout(ctx, 5*time.Second)
			err := conn.Ping(ping)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

// Changes receives after every change of the approval, or of any
// approval for "", until ctx ends.
func (s Approvals) Changes(ctx context.Context, id string) <-chan struct{} {
	key := approvalsChannel
	if id != "" {
		key += " " + id
	}
	return s.changes.subscribe(ctx, key)
}

// Changes receives when there may be messages for Temporal.
func (s Outbox) Changes(ctx context.Context) <-chan struct{} {
	return s.changes.subscribe(ctx, outboxChannel)
}

// Decided receives when an approval has been decided that is not settled yet.
func (s Outbox) Decided(ctx context.Context) <-chan struct{} {
	return s.changes.subscribe(ctx, decidedChannel)
}

// Changes receives when people, agents or keys have changed.
func (s Keys) Changes(ctx context.Context) <-chan struct{} {
	return s.changes.subscribe(ctx, identityChannel)
}

// Changes receives when the rules in force, or what is registered, may
// have changed.
func (s Rules) Changes(ctx context.Context) <-chan struct{} {
	return s.changes.subscribe(ctx, rulesChannel)
}
