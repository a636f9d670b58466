package gate_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
)

var rounds = flag.Int("rounds", 300, "rounds of each race")

// race runs the functions at once and waits for all of them.
func race(fns ...func()) {
	var ready, done sync.WaitGroup
	ready.Add(1)
	for _, fn := range fns {
		done.Go(func() {
			ready.Wait()
			fn()
		})
	}
	ready.Done()
	done.Wait()
}

// eachRound runs rounds, several of them at a time.
func eachRound(n int, round func(i int)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, 6)
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			round(i)
		})
	}
	group.Wait()
}

func (h *harness) settleQuietly(id string) gate.Settlement {
	r, err := h.settler.Settle(context.Background(), id)
	if err != nil {
		h.t.Error(err)
	}
	return r
}

// With as many votes at once as are needed, every approval is approved, once.
func TestSimultaneousVotesApproveOnce(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 3))
	eachRound(*rounds, func(int) {
		a := h.open(deferred)
		var fns []func()
		for _, who := range []string{"ada", "ben", "cleo"} {
			fns = append(fns, func() {
				if err := h.vote(who, a, true); err != nil {
					t.Errorf("%s: %v", who, err)
				}
				h.settleQuietly(a.ID)
			})
		}
		race(fns...)
		if got := h.get(a.ID).Approval; got.Status != approval.Approved || h.events(a.ID, engine.Settled) != 1 {
			t.Errorf("%s: %s with %d terminal events", a.ID, got.Status, h.events(a.ID, engine.Settled))
		}
	})
}

// A vote against the deadline: whichever comes first, the approval ends once,
// and a vote that was acknowledged counted.
func TestVoteAgainstTimeout(t *testing.T) {
	const life = 60 * time.Millisecond
	h := newHarness(t, routing(life, 1))
	eachRound(*rounds, func(int) {
		a := h.open(deferred)
		voted := false
		race(func() {
			time.Sleep(time.Until(a.Plan.OpenedAt.Add(life)) + time.Duration(rand.IntN(24)-16)*time.Millisecond)
			err := h.vote("ada", a, true)
			voted = err == nil
			if c := code(err); c != "" && c != "expired" {
				t.Errorf("voting: %v", err)
			}
		}, func() {
			for {
				r := h.settleQuietly(a.ID)
				if r.Over {
					return
				}
				time.Sleep(max(r.WakeIn, time.Millisecond))
			}
		})
		h.settleQuietly(a.ID)
		want := approval.Expired
		if voted {
			want = approval.Approved
		}
		got := h.get(a.ID).Approval
		if got.Status != want || h.events(a.ID, engine.Settled) != 1 {
			t.Errorf("%s: %s with %d terminal events, want %s", a.ID, got.Status, h.events(a.ID, engine.Settled), want)
		}
		if got.Status == approval.Expired && got.EndedAt.Before(got.Plan.ExpiresAt) {
			t.Errorf("%s: expired at %s, before %s", a.ID, got.EndedAt, got.Plan.ExpiresAt)
		}
	})
}

// Approve, deny and cancel at once: one of them ends it, the others are told.
func TestApproveDenyAndCancelAtOnce(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	eachRound(*rounds, func(int) {
		a := h.open(another(deferred))
		results := make([]string, 3)
		race(
			func() { results[0] = code(h.vote("ada", a, true)) },
			func() { results[1] = code(h.vote("ben", a, false)) },
			func() {
				_, err := h.Contributions.Cancel(context.Background(), h.agent, a.ID, "", nil)
				results[2] = code(err)
			},
		)
		h.settleQuietly(a.ID)
		won := -1
		for i, r := range results {
			switch {
			case r == "" && won < 0:
				won = i
			case r != "already_decided":
				t.Errorf("%s: %v", a.ID, results)
			}
		}
		want := []approval.Status{approval.Approved, approval.Denied, approval.Cancelled}
		if got := h.get(a.ID).Approval.Status; won < 0 || got != want[won] || h.events(a.ID, engine.Settled) != 1 {
			t.Errorf("%s: %s after %v", a.ID, got, results)
		}
	})
}

func TestOneReviewerVotingFiftyTimesIsOneVote(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	a := h.open(deferred)
	var mu sync.Mutex
	counted := map[string]int{}
	var fns []func()
	for range 50 {
		fns = append(fns, func() {
			c := code(h.vote("ada", a, true))
			mu.Lock()
			defer mu.Unlock()
			counted[c]++
		})
	}
	race(fns...)
	if counted[""] != 1 || counted["already_voted"] != 49 {
		t.Errorf("got %v", counted)
	}
	if got := h.get(a.ID).Approval.State; got.Status != approval.Pending || got.Requirements[0].Given != 1 {
		t.Errorf("got %s with %d given", got.Status, got.Requirements[0].Given)
	}
}

func TestSixtyFourRedeemsAreOne(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	for range 5 {
		a := h.open(deferred)
		if err := h.vote("ada", a, true); err != nil {
			t.Fatal(err)
		}
		h.settle(a.ID)
		raw := h.get(a.ID).Token
		var mu sync.Mutex
		counted := map[string]int{}
		var fns []func()
		for range 64 {
			fns = append(fns, func() {
				c := code(h.redeem(h.agent, raw, "pay", args))
				mu.Lock()
				defer mu.Unlock()
				counted[c]++
			})
		}
		race(fns...)
		if counted[""] != 1 || counted["token_used"] != 63 {
			t.Errorf("got %v", counted)
		}
	}
}
