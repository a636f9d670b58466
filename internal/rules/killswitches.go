package rules

import (
	"context"
	"maps"
	"sync"

	"holdpoint/engine/registry"
)

// killSwitchListeners wakes whoever shows kill switches.
type killSwitchListeners struct {
	mu   sync.Mutex
	subs map[chan struct{}]struct{}
}

// Stops receives after a kill switch was turned, once Judge knows of it, until ctx ends.
// Several may come as one.
func (k *Keeper) Stops(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	k.stops.mu.Lock()
	defer k.stops.mu.Unlock()
	if k.stops.subs == nil {
		k.stops.subs = map[chan struct{}]struct{}{}
	}
	k.stops.subs[ch] = struct{}{}
	context.AfterFunc(ctx, func() {
		k.stops.mu.Lock()
		defer k.stops.mu.Unlock()
		delete(k.stops.subs, ch)
	})
	return ch
}

// notify wakes everybody if other kill switches are on than before.
func (s *killSwitchListeners) notify(before, now map[string]registry.Kill) {
	if maps.Equal(before, now) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.subs {
		select {
		case ch <- struct{}{}:
		default: // it has yet to look: one is enough
		}
	}
}
