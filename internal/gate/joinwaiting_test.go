package gate_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// propose proposes a call that waits, and says whether it waited already.
func (h *harness) propose(p access.Principal, doc string, r gate.Request) (approval.Approval, bool) {
	h.t.Helper()
	checked, err := h.PreToolCheck(context.Background(), p, parse(h.t, doc), r, nil)
	if err != nil || checked.Approval == nil {
		h.t.Fatalf("propose: %+v, %v", checked, err)
	}
	return *checked.Approval, checked.Joined
}

func TestTheSameCallJoins(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	ctx := context.Background()
	first, joined := h.propose(h.agent, deferred, gate.Request{ID: "one"})
	if joined {
		t.Error("the first joins nothing")
	}
	renamed := strings.Replace(deferred, `{`, `{"request_id":"another",`, 1)
	for _, doc := range []string{deferred, renamed} {
		again, joined := h.propose(h.agent, doc, gate.Request{ID: "two"})
		if !joined || again.ID != first.ID || again.Status != approval.Pending || again.Call.Digest != first.Call.Digest || len(again.State.Requirements) != 1 {
			t.Errorf("again: joined %t, %+v", joined, again)
		}
	}
	events, err := h.Events(ctx, store.EventFilter{ApprovalID: first.ID}, 10)
	if err != nil || len(events) != 3 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for i, e := range events {
		last := e.Reasons[len(e.Reasons)-1].Code
		if e.Type != engine.Decided || (last == "JOINED") != (i > 0) || (len(e.Requirements) == 0) != (i > 0) || strings.Contains(string(e.SafePayload), `"joined"`) != (i > 0) {
			t.Errorf("event %d: %+v", i, e)
		}
	}

	// What is not the same in all that people decide about waits for itself.
	other := access.Principal{KeyID: "key_o", AgentID: "other-bot", Kind: access.AgentKey, MaxState: "authenticated"}
	for what, of := range map[string]struct {
		p   access.Principal
		doc string
		r   gate.Request
	}{
		"other arguments":      {h.agent, another(deferred), gate.Request{}},
		"another claim":        {h.agent, strings.Replace(deferred, `"risk_domain":"finance"`, `"risk_domain":"devops"`, 1), gate.Request{}},
		"in somebody's name":   {h.agent, strings.Replace(deferred, `{`, `{"authorization_subject":{"subject_type":"user","subject_ref":"ben@example.com"},`, 1), gate.Request{}},
		"another session":      {h.agent, deferred, gate.Request{Circumstances: approval.Circumstances{Session: "s"}}},
		"other preconditions":  {h.agent, deferred, gate.Request{Circumstances: approval.Circumstances{Preconditions: map[string]string{"etag": "1"}}}},
		"another agent":        {other, deferred, gate.Request{}},
		"the runtime's":        {h.runtime, deferred, gate.Request{}},
		"one that is separate": {h.agent, deferred, gate.Request{Separate: true}},
	} {
		if a, joined := h.propose(of.p, of.doc, of.r); joined || a.ID == first.ID {
			t.Errorf("%s joins %s", what, a.ID)
		}
	}

	// With votes it waits still; settled, it waits no more.
	for _, who := range []string{"ada", "ben"} {
		if err := h.vote(who, first, true); err != nil {
			t.Fatal(err)
		}
		if again, joined := h.propose(h.agent, deferred, gate.Request{}); !joined || again.ID != first.ID || again.State.Requirements[0].Given == 0 {
			t.Errorf("after the vote of %s: joined %t, %+v", who, joined, again)
		}
	}
	h.settle(first.ID)
	if again, joined := h.propose(h.agent, deferred, gate.Request{Separate: false}); again.ID == first.ID {
		t.Errorf("what has ended is joined: %t", joined)
	}
}

// Of many at once one opens the approval, and the others join it, from whichever
// process they come.
func TestOneApprovalForManyAtOnce(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	elsewhere, err := gate.New(gate.Config{Store: h.db.Runtime(), Sealer: h.db.Sealer, Judge: h.judge.Load, Ring: h.Ring, Issuer: "urn:test", MaxPending: 5000})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	eachRound(20, func(round int) {
		doc := another(deferred)
		var mu sync.Mutex
		opened, ids := 0, map[string]bool{}
		var fns []func()
		for i := range 12 {
			door := []*gate.Gate{h.Gate, elsewhere}[i%2]
			fns = append(fns, func() {
				var once *access.Idempotency[gate.Checked]
				if i >= 4 { // four each repeat the same request, two in each process
					once = answered[gate.Checked](fmt.Sprint(round, "-", i/4), access.Reply{Status: 202})
				}
				checked, err := door.PreToolCheck(ctx, h.agent, parse(t, doc), gate.Request{}, once)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					if once == nil || !isReplay(err) {
						t.Error(err)
					}
					return
				}
				ids[checked.Approval.ID] = true
				if !checked.Joined {
					opened++
				}
			})
		}
		race(fns...)
		if len(ids) != 1 || opened > 1 {
			t.Errorf("%d approvals, %d opened", len(ids), opened)
		}
	})
	pending, err := h.Store.Approvals.PendingCount(ctx, "bot")
	if err != nil || pending != 20 {
		t.Errorf("%d wait, %v", pending, err)
	}
}

// An agent that has as many waiting as it may proposes one of them again.
func TestJoiningNeedsNoRoom(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	h.MaxPending = 2
	ctx := context.Background()
	first, _ := h.propose(h.agent, deferred, gate.Request{})
	h.propose(h.agent, another(deferred), gate.Request{})
	if again, joined := h.propose(h.agent, deferred, gate.Request{}); !joined || again.ID != first.ID {
		t.Errorf("joined %t, %s", joined, again.ID)
	}
	for _, r := range []gate.Request{{Separate: true}, {Circumstances: approval.Circumstances{Session: "s"}}} {
		if _, err := h.PreToolCheck(ctx, h.agent, parse(t, deferred), r, nil); code(err) != "too_many_pending" {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
