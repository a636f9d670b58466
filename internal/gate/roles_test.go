package gate_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
)

// A role that is taken away while a vote waits makes the vote void, also when it is given
// back: it takes another vote. What is decided stays decided. At once with the vote that completes the quorum,
// either may come first, and never both count.
func TestRoleTakenWhileAVoteWaits(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	ctx := context.Background()
	people := admin.New(admin.Config{Store: h.db.Owner(), Owner: true}).People
	ops := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "ops", Channel: "cli"}}
	change := func(c admin.PersonChange) {
		t.Helper()
		if _, err := people.Change(ctx, ops, h.people["ada"].Email, c, nil); err != nil {
			t.Error(err)
		}
	}
	take, give := admin.PersonChange{RemoveRoles: []string{"reviewer"}}, admin.PersonChange{AddRoles: []string{"reviewer"}}
	vote := func(who string, a approval.Approval) {
		t.Helper()
		if err := h.vote(who, a, true); err != nil {
			t.Error(err)
		}
	}
	status := func(a approval.Approval) approval.Status {
		t.Helper()
		h.settle(a.ID)
		return h.get(a.ID).Approval.Status
	}

	a := h.open(deferred)
	vote("ada", a)
	change(take)
	vote("ben", a)
	if got := status(a); got != approval.Pending || h.given(a) != 1 {
		t.Fatalf("without the role: %s, %d count", got, h.given(a))
	}
	change(give)
	if got := status(a); got != approval.Pending || h.given(a) != 1 {
		t.Fatalf("with it again: %s, %d count", got, h.given(a))
	}
	vote("ada", a)
	if got := status(a); got != approval.Approved {
		t.Fatalf("after another vote: %s", got)
	}
	change(take)
	if got := status(a); got != approval.Approved {
		t.Fatalf("what was decided is %s", got)
	}
	change(give)

	for range 5 {
		b := h.open(another(deferred))
		vote("ada", b)
		var both sync.WaitGroup
		both.Go(func() { vote("ben", b) })
		both.Go(func() { change(take) })
		both.Wait()
		// The role is gone, and what settles from now on knows it.
		if got := status(b); got != approval.Pending || h.given(b) != 1 {
			t.Fatalf("after both: %s, %d count", got, h.given(b))
		}
		change(give)
		both.Go(func() { change(take) })
		both.Go(func() { h.settle(b.ID) })
		both.Wait()
		if got, given := h.get(b.ID).Approval.Status, h.given(b); got != approval.Approved && (got != approval.Pending || given == 2) {
			t.Fatalf("at once: %s, %d count", got, given)
		}
		change(give)
	}
}
