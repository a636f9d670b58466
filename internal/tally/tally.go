// Package tally bounds how often the same thing is put on record: the first ones of a
// while one by one, and all others of it by their number. It loses nothing but what is
// counted when the process is killed, and knows nothing of what is recorded.
package tally

import (
	"context"
	"sync"
	"time"
)

// Count is how often something has happened since a time, beyond what was written one
// by one. The zero one is a single occurrence.
type Count struct {
	N     int64     `json:"count"`
	Since time.Time `json:"since"`
}

// Config is what a Tally is made of. All are required.
type Config[K comparable] struct {
	// Every is the window, and First how many of a kind are written one by one in it.
	Every time.Duration
	First int
	// Write puts on record: one occurrence, for the zero Count, or so many.
	Write func(ctx context.Context, kind K, n Count) error
	// Failed receives why a number could not be written; it is tried again with the
	// next window's.
	Failed func(error)
}

// Tally counts by kind. It is safe for concurrent use. Kinds have to be few: each that
// happens is remembered for a window.
type Tally[K comparable] struct {
	Config[K]
	mu      sync.Mutex
	windows map[K]*window
}

type window struct {
	since   time.Time
	written int
	counted int64
	timer   *time.Timer
}

// writeWithin bounds the writing of a number.
const writeWithin = 5 * time.Second

// New returns a tally of nothing.
func New[K comparable](cfg Config[K]) *Tally[K] {
	return &Tally[K]{Config: cfg, windows: map[K]*window{}}
}

// Add says that a kind has happened. It writes, and returns the error of that, or only
// counts.
func (t *Tally[K]) Add(ctx context.Context, kind K) error {
	t.mu.Lock()
	w := t.windows[kind]
	if w == nil {
		w = &window{since: time.Now()}
		t.windows[kind] = w
		w.timer = time.AfterFunc(t.Every, func() { t.end(kind, w) })
	}
	if w.written >= t.First {
		w.counted++
		t.mu.Unlock()
		return nil
	}
	w.written++
	t.mu.Unlock()
	return t.Write(ctx, kind, Count{})
}

// end writes what a window has counted, and goes on counting. After a quiet window the
// kind is forgotten.
func (t *Tally[K]) end(kind K, w *window) {
	t.mu.Lock()
	n := Count{w.counted, w.since.UTC().Truncate(time.Millisecond)}
	if n.N == 0 {
		if t.windows[kind] == w {
			delete(t.windows, kind)
		}
		t.mu.Unlock()
		return
	}
	w.since, w.counted = time.Now(), 0
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	err := t.Write(ctx, kind, n)
	t.mu.Lock()
	if err != nil {
		w.since, w.counted = n.Since, w.counted+n.N
	}
	w.timer.Reset(t.Every)
	t.mu.Unlock()
	if err != nil {
		t.Failed(err)
	}
}

// Flush writes what is counted now: the process is about to end.
func (t *Tally[K]) Flush() {
	t.mu.Lock()
	ended := t.windows
	t.windows = map[K]*window{}
	t.mu.Unlock()
	for kind, w := range ended {
		w.timer.Stop()
		t.end(kind, w)
		w.timer.Stop()
	}
}
