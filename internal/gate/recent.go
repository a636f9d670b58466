package gate

import (
	"sync"
	"time"
)

// recent keeps values for a while, so that a list is not decrypted anew for each of its readers.
type recent[V any] struct {
	mu     sync.Mutex
	values map[string]recentValue[V]
}

type recentValue[V any] struct {
	at    time.Time
	value V
}

// get returns the value of a key, if it was put less than within before now.
func (r *recent[V]) get(key string, now time.Time, within time.Duration) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.values[key]
	return v.value, ok && now.Sub(v.at) < within && !now.Before(v.at)
}

// put keeps a value. One that holds most of them already forgets them first.
func (r *recent[V]) put(key string, value V, now time.Time, most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil || len(r.values) >= most {
		r.values = map[string]recentValue[V]{}
	}
	r.values[key] = recentValue[V]{now, value}
}
