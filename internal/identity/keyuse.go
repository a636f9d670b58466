package identity

import (
	"context"
	"maps"
	"slices"
	"time"
)

// A use of a key is noted at most once in noteEvery by each process, and those that come
// together in one statement: a key that is used a thousand times a second costs no more
// than one that is used now and then. What is used in the last seconds before a process
// is killed may be missing.
const (
	noteEvery  = time.Minute
	notePauses = 5 * time.Second
	noteWithin = 5 * time.Second
)

// use remembers that a key has just been used, for note. The caller holds k.mu.
func (k *Keys) use(id string, now time.Time) {
	if now.Sub(k.noted[id]) < noteEvery {
		return
	}
	if len(k.noted) >= mostRemembers {
		clear(k.noted)
	}
	k.noted[id] = now
	k.used[id] = struct{}{}
	select {
	case k.noting <- struct{}{}:
	default:
	}
}

// note writes down which keys have been used, until ctx ends. One that cannot be written
// is written when it is used again.
func (k *Keys) note(ctx context.Context) {
	for {
		select {
		case <-k.noting:
		case <-ctx.Done():
			return
		}
		k.mu.Lock()
		ids := slices.Sorted(maps.Keys(k.used))
		clear(k.used)
		k.mu.Unlock()
		writing, cancel := context.WithTimeout(ctx, noteWithin)
		err := k.store.Keys.Used(writing, ids)
		cancel()
		if err != nil {
			k.mu.Lock()
			for _, id := range ids {
				delete(k.noted, id)
			}
			k.mu.Unlock()
		}
		select {
		case <-time.After(notePauses):
		case <-ctx.Done():
			return
		}
	}
}
