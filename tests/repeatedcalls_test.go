package tests

import (
	"maps"
	"net/url"
	"strings"
	"testing"
)

// TestTheSameCallAgain: proposed again by any door, a call that waits joins the approval
// that waits, says so, and is on record; separate asks for another.
func TestTheSameCallAgain(t *testing.T) {
	d := onShared(t)
	agent := d.agent(t)
	joins := header{"Prefer", ""}
	own := newID("again ") // other tests propose their calls on the same program
	draft := strings.Replace(toolDraft, "Count the households of each district.", "Count the households, "+own+".", 1)
	for door, propose := range map[string]func(more map[string]any, headers ...header) answer{
		checkPath: func(more map[string]any, headers ...header) answer {
			e := event("again_pay", "defer", map[string]any{"amount": 7, "note": own})
			maps.Copy(e, more)
			return agent.do("POST", checkPath, e, headers...)
		},
		"/v1/tool-calls/check": func(more map[string]any, headers ...header) answer {
			e := params("pay", map[string]any{"amount": 777, "note": own})
			maps.Copy(e, more)
			return agent.do("POST", "/v1/tool-calls/check", e, headers...)
		},
		"/v1/tool-requests": func(more map[string]any, headers ...header) answer {
			if more["separate"] == true {
				headers = append(headers, header{"Prefer", "separate"})
			}
			return agent.do("POST", "/v1/tool-requests", []byte(draft), append(headers, header{"Content-Type", "text/markdown"})...)
		},
	} {
		type answered struct {
			Joined   bool
			Approval approval
		}
		ask := func(more map[string]any, headers ...header) (v answered) {
			t.Helper()
			propose(more, headers...).want(t, 202).into(t, &v)
			return v
		}
		first := ask(nil, joins)
		again := ask(nil, joins)
		if first.Joined || !again.Joined || again.Approval.ID != first.Approval.ID {
			t.Errorf("%s: %t %s, then %t %s", door, first.Joined, first.Approval.ID, again.Joined, again.Approval.ID)
		}
		for _, apart := range []answered{ask(map[string]any{"separate": true}, joins), ask(nil, header{"Prefer", "respond-async, separate"})} {
			if apart.Joined || apart.Approval.ID == first.Approval.ID {
				t.Errorf("%s, separate: %t %s", door, apart.Joined, apart.Approval.ID)
			}
		}
		if door != "/v1/tool-requests" {
			propose(map[string]any{"separate": "yes"}, joins).want(t, 422, "invalid_body")
		}
		// An Idempotency-Key rules first: its answer stays as it was.
		key := header{"Idempotency-Key", newID("k-")}
		kept := propose(nil, joins, key).want(t, 202)
		if repeated := propose(nil, joins, key).want(t, 202); string(repeated.Body) != string(kept.Body) || repeated.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s repeated: %s, first %s", door, repeated, kept)
		}
		propose(map[string]any{"separate": true}, key).want(t, 422, "idempotency_key_reused")
		codes := 0
		for _, e := range d.admin(t).events(url.Values{"approval_id": {first.Approval.ID}}) {
			for _, r := range e.Reasons {
				if r.Code == "JOINED" {
					codes++
				}
			}
		}
		if codes != 2 {
			t.Errorf("%s: %d events say that a call joined, want 2", door, codes)
		}
	}
}
