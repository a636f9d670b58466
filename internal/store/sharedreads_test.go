package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// readings is a source whose readings end when they are told to.
type readings struct {
	began chan int // the number of the reading
	end   chan struct{}
	count atomic.Int64
	now   atomic.Int64 // how many at this moment
	most  atomic.Int64
}

func (r *readings) read(context.Context, string) (Record, error) {
	n := r.count.Add(1)
	now := r.now.Add(1)
	defer r.now.Add(-1)
	for most := r.most.Load(); now > most && !r.most.CompareAndSwap(most, now); most = r.most.Load() {
		continue
	}
	if r.began != nil {
		r.began <- int(n)
		<-r.end
	}
	return Record{Size: int(n)}, nil
}

// Who asks while a reading is under way gets the next one, together with all others
// who have asked meanwhile.
func TestSharedReading(t *testing.T) {
	source := &readings{began: make(chan int), end: make(chan struct{})}
	s := newSharedReads(8, source.read)
	type answer struct {
		who  string
		read int
	}
	answers := make(chan answer)
	ask := func(who string, r *reading) {
		<-r.done
		answers <- answer{who, r.record.Size}
	}
	go ask("first", s.join("a"))
	if n := <-source.began; n != 1 {
		t.Fatalf("reading %d begins", n)
	}
	const others = 100
	for i := range others {
		go ask(fmt.Sprint(i), s.join("a"))
	}
	source.end <- struct{}{}
	if got := <-answers; got != (answer{"first", 1}) {
		t.Fatalf("the first to ask was answered %+v", got)
	}
	<-source.began
	// It is under way: this one comes too late for it.
	go ask("late", s.join("a"))
	source.end <- struct{}{}
	for range others {
		if got := <-answers; got.read != 2 {
			t.Fatalf("%s has reading %d, and asked during the first", got.who, got.read)
		}
	}
	<-source.began
	source.end <- struct{}{}
	if got := <-answers; got != (answer{"late", 3}) {
		t.Fatalf("who came late was answered %+v", got)
	}
	if s.mu.Lock(); len(s.asking) != 0 {
		t.Errorf("%d approvals are still being read", len(s.asking))
	}
	s.mu.Unlock()
}

// Readings of many approvals take half of the connections, and who gives up leaves
// the others their reading.
func TestSharedReadingsAreBounded(t *testing.T) {
	source := &readings{}
	s := newSharedReads(8, source.read)
	var group sync.WaitGroup
	for i := range 2000 {
		group.Go(func() {
			if _, err := s.get(t.Context(), fmt.Sprint(i%500)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if most := source.most.Load(); most > 4 {
		t.Errorf("%d readings at once, of 8 connections", most)
	}
	slow := &readings{began: make(chan int), end: make(chan struct{})}
	s = newSharedReads(8, slow.read)
	r := s.join("a")
	<-slow.began
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.get(gone, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("who gives up is told %v", err)
	}
	slow.end <- struct{}{}
	if <-r.done; r.record.Size != 1 {
		t.Errorf("reading %d", r.record.Size)
	}
	// The reading for the one who has gone is made all the same.
	<-slow.began
	slow.end <- struct{}{}
}

// What is made of a shared reading is made once, and another reading has its own.
func TestDerived(t *testing.T) {
	var made atomic.Int64
	create := func() (int64, error) { return made.Add(1), nil }
	var group sync.WaitGroup
	shared := &Derived{}
	for range 50 {
		group.Go(func() {
			if got, err := Derive(shared, "a", create); got != 1 || err != nil {
				t.Errorf("made for all is %d, %v", got, err)
			}
		})
	}
	group.Wait()
	if got, _ := Derive(shared, "b", create); got != 2 {
		t.Errorf("under another name it is %d", got)
	}
	for want := range int64(2) {
		if got, _ := Derive(nil, "a", create); got != want+3 {
			t.Errorf("of a record of one's own it is %d, want %d", got, want+3)
		}
	}
	wrong := errors.New("it cannot be made")
	if _, err := Derive(shared, "c", func() (int, error) { return 0, wrong }); !errors.Is(err, wrong) {
		t.Errorf("what cannot be made: %v", err)
	}
	source := &readings{}
	s := newSharedReads(8, source.read)
	first, _ := s.get(t.Context(), "a")
	second, _ := s.get(t.Context(), "a")
	if first.Derived == nil || first.Derived == second.Derived {
		t.Error("two readings share what is made of them")
	}
}
