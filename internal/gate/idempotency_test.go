package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

func TestRepeatedRequestsAreOne(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	once := func(key, request string) *access.Idempotency[gate.Checked] {
		return &access.Idempotency[gate.Checked]{Request: access.Request{Credential: "key_agent", Key: key, Hash: []byte(request)}, Render: func(result gate.Checked, err error) access.Reply {
			body, _ := json.Marshal(fmt.Sprintf("%+v %v", result, err))
			return access.Reply{Status: 202, Body: body}
		}}
	}
	const callers = 16
	type answer struct {
		id    string
		reply []byte
		err   error
	}
	answers := make(chan answer, callers)
	for range callers {
		go func() {
			checked, err := h.PreToolCheck(context.Background(), h.agent, parse(t, deferred), gate.Request{}, once("k1", "a"))
			var replay *access.Replay
			switch {
			case errors.As(err, &replay):
				answers <- answer{reply: replay.Reply.Body}
			case err != nil:
				answers <- answer{err: err}
			default:
				answers <- answer{id: checked.Approval.ID}
			}
		}()
	}
	first := 0
	for range callers {
		a := <-answers
		if a.err != nil {
			t.Error(a.err)
		}
		if a.id != "" {
			first++
		}
	}
	if first != 1 {
		t.Errorf("%d callers were the first", first)
	}
	pending, err := h.Store.Approvals.PendingCount(context.Background(), "bot")
	if err != nil || pending != 1 {
		t.Errorf("%d approvals, %v", pending, err)
	}
	if _, err := h.PreToolCheck(context.Background(), h.agent, parse(t, harmless), gate.Request{}, once("k1", "b")); code(err) != "idempotency_key_reused" {
		t.Errorf("another request under the key: %v", err)
	}
}

func TestOneKeyForTwoRequestsAtOnce(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	render := func(gate.Checked, error) access.Reply { return access.Reply{Status: 200, Body: []byte("x")} }
	eachRound(60, func(i int) {
		key := fmt.Sprintf("k%d", i)
		var fns []func()
		for _, doc := range []string{harmless, deferred, harmless, deferred} {
			fns = append(fns, func() {
				_, err := h.PreToolCheck(ctx, h.agent, parse(t, doc), gate.Request{}, &access.Idempotency[gate.Checked]{Request: access.Request{Credential: "key_agent", Key: key, Hash: []byte(doc)}, Render: render})
				var replay *access.Replay
				if c := code(err); err != nil && !errors.As(err, &replay) && c != "idempotency_key_reused" {
					t.Error(c)
				}
			})
		}
		race(fns...)
	})
	conn := h.db.Connect(h.db.URL)
	var orphans, events, unasked int
	err := conn.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM approvals a WHERE NOT EXISTS (SELECT FROM events e WHERE e.approval_id = a.id AND e.type = 'decision')),
		(SELECT count(*) FROM events WHERE type = 'decision'),
		(SELECT count(*) FROM events e WHERE e.approval_id IS NOT NULL AND NOT EXISTS (SELECT FROM approvals a WHERE a.id = e.approval_id))`).Scan(&orphans, &events, &unasked)
	if err != nil || orphans != 0 || unasked != 0 || events != 60 {
		t.Errorf("%d approvals without an event, %d events without their approval, %d decisions for 60 keys, %v", orphans, unasked, events, err)
	}
}

func TestDroppedKeyIsNew(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	ids := map[string]bool{}
	for range 2 {
		once := answered[gate.Checked]("nightly", access.Reply{Status: 202})
		checked, err := h.PreToolCheck(ctx, h.agent, parse(t, deferred), gate.Request{Separate: true}, once)
		if err != nil {
			t.Fatal(err)
		}
		ids[checked.Approval.ID] = true
		h.db.Exec(`DELETE FROM idempotency`)
	}
	events, err := h.Events(ctx, store.EventFilter{AgentID: "bot"}, 100)
	if err != nil || len(ids) != 2 || len(events) != 2 {
		t.Errorf("%d approvals and %d events for two requests, %v", len(ids), len(events), err)
	}
}

func isReplay(err error) bool {
	var replay *access.Replay
	return errors.As(err, &replay)
}

// answered keeps the same answer to every request of this key.
func answered[T any](key string, reply access.Reply) *access.Idempotency[T] {
	return &access.Idempotency[T]{
		Request: access.Request{Credential: "key_agent", Key: key, Hash: []byte(key)},
		Render:  func(T, error) access.Reply { return reply },
	}
}
