package store

import (
	"context"
	"sync"
)

// sharedReads lets all who ask for the same approval at about the same time have one
// reading of it. A reading that has begun is not joined: whoever asks gets one that
// began after the question, so that a change that somebody has been told of is in it.
type sharedReads struct {
	read func(ctx context.Context, id string) (Record, error)
	// slots bounds the readings at one time, so that waiting readers leave
	// connections to those who vote and decide.
	slots chan struct{}

	mu     sync.Mutex
	asking map[string]*asking
}

// asking is an approval that is being read. next is the reading that has not begun
// yet; nil when nobody waits for one.
type asking struct{ next *reading }

type reading struct {
	done   chan struct{}
	record Record
	err    error
}

func newSharedReads(connections int32, read func(context.Context, string) (Record, error)) *sharedReads {
	return &sharedReads{read: read, slots: make(chan struct{}, max(1, connections/2)), asking: map[string]*asking{}}
}

// get reads an approval. What it returns belongs to others as well: nobody changes it.
func (s *sharedReads) get(ctx context.Context, id string) (Record, error) {
	r := s.join(id)
	select {
	case <-r.done:
		return r.record, r.err
	case <-ctx.Done():
		return Record{}, translate(ctx.Err())
	}
}

func (s *sharedReads) join(id string) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, busy := s.asking[id]
	if !busy {
		a = &asking{}
		s.asking[id] = a
	}
	if a.next == nil {
		a.next = &reading{done: make(chan struct{})}
	}
	if !busy {
		go s.run(id, a)
	}
	return a.next
}

// run makes one reading after the other for as long as somebody waits for one.
func (s *sharedReads) run(id string, a *asking) {
	for {
		s.slots <- struct{}{}
		s.mu.Lock()
		r := a.next
		a.next = nil
		s.mu.Unlock()
		// Nobody's own context: who joined must not lose it when another gives up.
		r.record, r.err = s.read(context.Background(), id)
		r.record.Derived = &Derived{}
		<-s.slots
		close(r.done)
		s.mu.Lock()
		if a.next == nil {
			delete(s.asking, id)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// GetShared is Get for those who wait: all who ask at once share a reading, and
// readings take no more than half of the connections. What it returns is others' as
// well, and must not be changed.
func (s Approvals) GetShared(ctx context.Context, id string) (Record, error) {
	return s.sharedReads.get(ctx, id)
}

// Derived keeps what is made of a shared record, which is made once for all who have it.
type Derived struct {
	mu   sync.Mutex
	made map[string]func() (any, error)
}

// Derive returns what the first one to ask under this name has made. Without a shared record
// it is made each time.
func Derive[T any](d *Derived, name string, create func() (T, error)) (T, error) {
	if d == nil {
		return create()
	}
	d.mu.Lock()
	made, ok := d.made[name]
	if !ok {
		if d.made == nil {
			d.made = map[string]func() (any, error){}
		}
		made = sync.OnceValues(func() (any, error) { return create() })
		d.made[name] = made
	}
	d.mu.Unlock()
	v, err := made()
	value, _ := v.(T) // a name has one type
	return value, err
}
