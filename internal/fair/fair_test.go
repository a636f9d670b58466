package fair

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestTurns(t *testing.T) {
	var turns Turns[string]
	for _, x := range strings.Fields("a1 a2 a3 a4 b1 a5 c1 c2") {
		turns.Add(x[:1], x)
	}
	turns.Remove("a", func(x string) bool { return x == "a3" })
	var got []string
	for x, ok := turns.Next(); ok; x, ok = turns.Next() {
		got = append(got, x)
		if x == "b1" {
			turns.Add("d", "d1")
			turns.Add("d", "d2")
			turns.Remove("d", func(x string) bool { return x == "d2" })
		}
	}
	if got, want := strings.Join(got, " "), "a1 b1 c1 a2 d1 c2 a4 a5"; got != want {
		t.Errorf("taken in the order %s, want %s", got, want)
	}
	turns.Add("e", "e1")
	turns.Remove("e", func(string) bool { return true })
	if _, ok := turns.Head(); ok || turns.Len() != 0 || len(turns.names) != 0 || len(turns.queues) != 0 {
		t.Errorf("something stays: %+v", turns)
	}
}

// Who asks for one waits for one of the other's, however many those are.
func TestOneFloodDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(1)
		first, err := p.Take(t.Context(), "flood", 1)
		if err != nil {
			t.Fatal(err)
		}
		var order []string // under the pool's one piece
		var group sync.WaitGroup
		take := func(name string) {
			group.Go(func() {
				give, err := p.Take(t.Context(), name, 1)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, name)
				give()
			})
			synctest.Wait()
		}
		for range 100 {
			take("flood")
		}
		take("quiet")
		first()
		group.Wait()
		if len(order) != 101 || order[0] != "flood" || order[1] != "quiet" {
			t.Errorf("served in the order %v …", order[:min(5, len(order))])
		}
	})
}

// What is asked for never goes above what there is, and all of it comes back:
// whoever gives up, and whenever.
func TestPoolIsKept(t *testing.T) {
	const most = 10
	p := NewPool(most)
	var taken atomic.Int64
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			for range 200 {
				ctx, cancel := context.WithCancel(context.Background())
				if rand.IntN(3) == 0 {
					go cancel()
				}
				amount := rand.Int64N(most+5) + 1
				give, err := p.Take(ctx, string(rune('a'+i%7)), amount)
				if err == nil {
					if now := taken.Add(min(amount, most)); now > most {
						t.Errorf("%d of %d are taken", now, most)
					}
					taken.Add(-min(amount, most))
					give()
					give()
				}
				cancel()
			}
		})
	}
	group.Wait()
	if taken, waiting := p.Usage(); taken != 0 || waiting != 0 {
		t.Errorf("%d are taken and %d wait", taken, waiting)
	}
}

func TestDone(t *testing.T) {
	Done(t.Context())
	p := NewPool(1)
	give, err := p.Take(t.Context(), "a", 5)
	if err != nil {
		t.Fatal(err)
	}
	ctx := With(t.Context(), give)
	Done(ctx)
	Done(ctx)
	if taken, _ := p.Usage(); taken != 0 {
		t.Errorf("%d are taken", taken)
	}
}

// Each name has as many as it may, whatever others have, and gets back what it gave.
func TestLimit(t *testing.T) {
	l := NewLimit(2)
	first, ok := l.Enter("ada")
	if !ok {
		t.Fatal("the first")
	}
	if _, ok := l.Enter("ada"); !ok {
		t.Fatal("the second")
	}
	if _, ok := l.Enter("ada"); ok {
		t.Error("a third is let in")
	}
	if _, ok := l.Enter("ben"); !ok {
		t.Error("somebody else is not let in")
	}
	first()
	first()
	if _, ok := l.Enter("ada"); !ok {
		t.Error("nothing came back")
	}
	if _, ok := l.Enter("ada"); ok {
		t.Error("what came back twice counts twice")
	}
}

// Who waits comes in the order of asking, when somebody of the same name leaves, and nobody
// is counted who gave up.
func TestLimitWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimit(1)
		first, err := l.Wait(t.Context(), "ada")
		if err != nil {
			t.Fatal(err)
		}
		if other, err := l.Wait(t.Context(), "ben"); err != nil {
			t.Fatal(err)
		} else {
			other()
		}
		var order []int // under ada's one place
		var group sync.WaitGroup
		wait := func(ctx context.Context, n int) {
			group.Go(func() {
				leave, err := l.Wait(ctx, "ada")
				if err != nil {
					return
				}
				order = append(order, n)
				leave()
				leave()
			})
			synctest.Wait()
		}
		wait(t.Context(), 1)
		gone, cancel := context.WithCancel(t.Context())
		wait(gone, 2)
		wait(t.Context(), 3)
		cancel()
		synctest.Wait()
		if _, ok := l.Enter("ada"); ok {
			t.Error("somebody comes before those who wait")
		}
		first()
		group.Wait()
		if len(order) != 2 || order[0] != 1 || order[1] != 3 {
			t.Errorf("they came as %v, want 1, 3", order)
		}
		if len(l.by) != 0 || len(l.waiting) != 0 {
			t.Errorf("something stays: %v %v", l.by, l.waiting)
		}
	})
}
