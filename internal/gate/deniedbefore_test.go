package gate_test

import (
	"context"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

// TestDeniedBeforeIsKept asks a call again that people have denied, with an
// Idempotency-Key, as every client does: the answer is the denial, and it is the
// one that is kept.
func TestDeniedBeforeIsKept(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	denied := h.open(deferred)
	if err := h.vote("ada", denied, false); err != nil {
		t.Fatal(err)
	}
	h.settle(denied.ID)

	rendered := 0
	once := &access.Idempotency[gate.Checked]{Request: access.Request{Credential: "key_agent", Key: "again", Hash: []byte("r")}, Render: func(checked gate.Checked, err error) access.Reply {
		rendered++
		if err != nil || checked.Approval == nil || checked.Approval.ID != denied.ID || checked.Route != engine.Refuse {
			t.Errorf("rendered %+v, %v; want the denial of %s", checked, err, denied.ID)
		}
		return access.Reply{Status: 200}
	}}
	got, err := h.PreToolCheck(context.Background(), h.agent, parse(t, deferred), gate.Request{}, once)
	if err != nil || got.Approval == nil || got.Approval.ID != denied.ID {
		t.Errorf("asked again: %+v, %v; want the denial of %s", got, err, denied.ID)
	}
	if rendered != 1 {
		t.Errorf("the answer was rendered %d times, want once", rendered)
	}
}
