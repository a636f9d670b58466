// Package fair shares what is scarce among those who ask for it, in turns: however
// much one asks for, another waits for no more than one of each. It knows nothing of
// what is shared, and never gives out more than there is.
package fair

import (
	"context"
	"slices"
	"sync"
)

// Turns is a queue for each name, of which the heads are taken in turns. The zero
// value is empty. It is not safe for concurrent use.
type Turns[T any] struct {
	queues map[string][]T
	names  []string // those who wait, the next one first
	length int
}

// Add puts x at the end of name's queue.
func (t *Turns[T]) Add(name string, x T) {
	if t.queues == nil {
		t.queues = map[string][]T{}
	}
	if _, waits := t.queues[name]; !waits {
		t.names = append(t.names, name)
	}
	t.queues[name] = append(t.queues[name], x)
	t.length++
}

// Len is how many there are in all queues.
func (t *Turns[T]) Len() int { return t.length }

// Head is what Next would return, and stays where it is; ok is false for none.
func (t *Turns[T]) Head() (x T, ok bool) {
	if t.length == 0 {
		return x, false
	}
	return t.queues[t.names[0]][0], true
}

// Next takes the head of the queue whose turn it is; ok is false for none.
func (t *Turns[T]) Next() (x T, ok bool) {
	if t.length == 0 {
		return x, false
	}
	name := t.names[0]
	queue := t.queues[name]
	x = queue[0]
	t.names, t.length = t.names[1:], t.length-1
	if len(queue) == 1 {
		delete(t.queues, name)
		return x, true
	}
	var none T
	queue[0] = none // it is held by nobody here any more
	t.queues[name] = queue[1:]
	t.names = append(t.names, name)
	return x, true
}

// Remove takes out of name's queue what is says, wherever it stands.
func (t *Turns[T]) Remove(name string, is func(T) bool) {
	queue := t.queues[name]
	for i, x := range queue {
		if !is(x) {
			continue
		}
		t.length--
		if len(queue) > 1 {
			t.queues[name] = append(queue[:i:i], queue[i+1:]...)
			return
		}
		delete(t.queues, name)
		for j, other := range t.names {
			if other == name {
				t.names = append(t.names[:j:j], t.names[j+1:]...)
				return
			}
		}
		return
	}
}

// Pool is an amount of something that is taken. It is safe for concurrent use.
type Pool struct {
	mu      sync.Mutex
	most    int64
	free    int64
	waiting Turns[*borrower]
}

type borrower struct {
	amount int64
	given  chan struct{}
}

// NewPool returns a pool of so much.
func NewPool(most int64) *Pool { return &Pool{most: most, free: most} }

// Take waits for its turn and takes so much for name, all of it where it asks for
// more than there is. give has to be called once, or more often. The error is that
// ctx ended first, and then nothing was taken.
func (p *Pool) Take(ctx context.Context, name string, amount int64) (give func(), err error) {
	amount = min(amount, p.most)
	p.mu.Lock()
	if p.waiting.Len() == 0 && amount <= p.free {
		p.free -= amount
		p.mu.Unlock()
		return p.giveBack(amount), nil
	}
	b := &borrower{amount, make(chan struct{})}
	p.waiting.Add(name, b)
	p.lend()
	p.mu.Unlock()
	select {
	case <-b.given:
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		select {
		case <-b.given:
			p.free += b.amount // it came as ctx ended
		default:
			p.waiting.Remove(name, func(other *borrower) bool { return other == b })
		}
		p.lend()
		return nil, ctx.Err()
	}
	return p.giveBack(b.amount), nil
}

// giveBack gives so much back, once.
func (p *Pool) giveBack(amount int64) func() {
	taken := true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if taken {
			taken = false
			p.free += amount
			p.lend()
		}
	}
}

// lend gives to those whose turn it is, as far as it goes. Who asks for much is not
// overtaken by who asks for little.
func (p *Pool) lend() {
	for {
		b, ok := p.waiting.Head()
		if !ok || b.amount > p.free {
			return
		}
		p.waiting.Next()
		p.free -= b.amount
		close(b.given)
	}
}

// Usage is how much is taken, and how many wait.
func (p *Pool) Usage() (taken int64, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most - p.free, p.waiting.Len()
}

// Limit is how many of something each name may have at once. It is safe for concurrent use.
type Limit struct {
	most    int
	mu      sync.Mutex
	by      map[string]int
	waiting map[string][]chan struct{}
}

// NewLimit returns a limit of so many for each name.
func NewLimit(most int) *Limit {
	return &Limit{most: most, by: map[string]int{}, waiting: map[string][]chan struct{}{}}
}

// Enter counts one more of name's; leave has to be called once, or more often. ok is false
// where name has as many as it may have.
func (l *Limit) Enter(name string) (leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[name] >= l.most {
		return nil, false
	}
	l.by[name]++
	return l.leaving(name), true
}

// Wait is Enter for who would rather wait than be sent away. Those of one name come in
// the order in which they asked. The error is that ctx ended first.
func (l *Limit) Wait(ctx context.Context, name string) (leave func(), err error) {
	l.mu.Lock()
	if l.by[name] < l.most {
		l.by[name]++
		l.mu.Unlock()
		return l.leaving(name), nil
	}
	turn := make(chan struct{})
	l.waiting[name] = append(l.waiting[name], turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return l.leaving(name), nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting[name], turn); i >= 0 {
		l.queue(name, slices.Delete(l.waiting[name], i, i+1))
	} else {
		l.leave(name) // its turn came as ctx ended
	}
	return nil, ctx.Err()
}

// leaving takes one of name's off the count, once.
func (l *Limit) leaving(name string) func() {
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.leave(name)
	})
}

// leave gives the place to who waits for it first, if anybody does.
func (l *Limit) leave(name string) {
	if turns := l.waiting[name]; len(turns) > 0 {
		close(turns[0])
		l.queue(name, turns[1:])
		return
	}
	if l.by[name]--; l.by[name] == 0 {
		delete(l.by, name)
	}
}

func (l *Limit) queue(name string, turns []chan struct{}) {
	if len(turns) == 0 {
		delete(l.waiting, name)
		return
	}
	l.waiting[name] = turns
}

type key struct{}

// With returns a context that carries give, for Done.
func With(ctx context.Context, give func()) context.Context {
	return context.WithValue(ctx, key{}, give)
}

// Done gives back early what With has put into ctx: whoever is about to wait for
// something else says so. It may be called more than once, and without any.
func Done(ctx context.Context) {
	if give, ok := ctx.Value(key{}).(func()); ok {
		give()
	}
}
