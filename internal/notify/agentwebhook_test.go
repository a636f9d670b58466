package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	client "holdpoint.example/client"

	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify/channel"
)

// tell has the agent told at the receiver, and returns the endpoint and its secret.
func (h *harness) tell(agent string, r *receiver, format string) admin.AgentSecret {
	h.t.Helper()
	s, err := h.Endpoints.SetAgentWebhook(context.Background(), h.by, admin.AgentWebhook{AgentID: agent, URL: r.URL, Format: format}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

var agentKey = access.Principal{KeyID: "key", AgentID: "bot", Kind: access.AgentKey, MaxState: "authenticated"}

// An agent is told, at its own address, how each of its approvals ends, and of nothing
// else: by webhooks that its client believes, without arguments and tokens.
func TestAgentIsToldHowItsApprovalsEnd(t *testing.T) {
	h := newHarness(t, hour)
	bot, other := newReceiver(t), newReceiver(t)
	secret := h.tell("bot", bot, "")
	h.tell("other-bot", other, "")
	for _, tc := range []struct {
		want client.Status
		end  func(a approval.Approval)
	}{
		{client.Approved, func(a approval.Approval) { h.vote("ada", a, true) }},
		{"expired", func(a approval.Approval) {
			if _, err := h.owner.Exec(t.Context(), `SET LOCAL session_replication_role = replica;
				UPDATE approvals SET opened_at = opened_at - interval '2 hours', expires_at = expires_at - interval '2 hours' WHERE id = '`+a.ID+`'`); err != nil {
				t.Fatal(err)
			}
			h.settle(a.ID)
		}},
		{"cancelled", func(a approval.Approval) {
			if _, err := h.Contributions.Cancel(t.Context(), agentKey, a.ID, "", nil); err != nil {
				t.Fatal(err)
			}
			h.settle(a.ID)
		}},
		{client.Denied, func(a approval.Approval) { h.vote("ada", a, false) }}, // the last one: nobody is asked again
	} {
		t.Run(string(tc.want), func(t *testing.T) {
			a := h.open()
			h.deliverAll()
			if got := bot.take(); len(got) != 0 {
				t.Fatalf("before it is over: %s", got[0].body)
			}
			tc.end(a)
			h.deliverAll()
			got := bot.take()
			if len(got) != 1 {
				t.Fatalf("%d webhooks", len(got))
			}
			w, err := client.VerifyWebhook(secret.Secret, got[0].header, got[0].body, time.Now())
			if err != nil || w.Type != "approval.decided" || w.ApprovalID != a.ID || w.Status != tc.want {
				t.Errorf("%+v, %v", w, err)
			}
			var links struct{ Self, Link string }
			if err := json.Unmarshal(w.Data, &links); err != nil || links.Self != "https://console.example.com/v1/approvals/"+a.ID || links.Link != "https://console.example.com/approvals/"+a.ID {
				t.Errorf("%+v, %v", links, err)
			}
			if text := string(got[0].body); strings.Contains(text, canary) || strings.Contains(text, "token") || strings.Contains(text, "eyJ") {
				t.Errorf("it says %s", text)
			}
		})
	}
	if got := other.take(); len(got) != 0 {
		t.Errorf("another agent is told %s", got[0].body)
	}
}

// The same as a CloudEvent.
func TestAgentIsToldByCloudEvents(t *testing.T) {
	h := newHarness(t, hour)
	r := newReceiver(t)
	secret := h.tell("bot", r, channel.CloudEvents)
	a := h.open()
	h.vote("ada", a, true)
	if _, err := h.Endpoints.Test(t.Context(), h.by, secret.EndpointID, ""); err != nil {
		t.Fatal(err)
	}
	h.deliverAll()
	types := map[string]map[string]any{}
	for _, p := range r.take() {
		w, err := client.VerifyWebhook(secret.Secret, p.header, p.body, time.Now())
		if err != nil || p.header.Get("Content-Type") != "application/cloudevents+json" {
			t.Fatalf("%s: %v", p.header.Get("Content-Type"), err)
		}
		var event map[string]any
		if err := json.Unmarshal(p.body, &event); err != nil || event["id"] != w.ID || event["specversion"] != "1.0" || event["datacontenttype"] != "application/json" {
			t.Errorf("%v, %v", event, err)
		}
		if at, err := time.Parse(time.RFC3339, event["time"].(string)); err != nil || time.Since(at) > time.Hour {
			t.Errorf("at %v, %v", event["time"], err)
		}
		types[w.Type] = event
	}
	approved, test := types["holdpoint.approval.approved"], types["holdpoint.endpoint.test"]
	if len(types) != 2 || approved["subject"] != a.ID || approved["source"] != "https://console.example.com" || test["source"] != "urn:holdpoint" {
		t.Errorf("got %v", types)
	}
}

// Another address comes with another secret, and ends the former one; no address ends
// it, until there is one again.
func TestAgentWebhookIsReplacedAndEnds(t *testing.T) {
	h := newHarness(t, hour)
	first, second := newReceiver(t), newReceiver(t)
	old := h.tell("bot", first, "")
	renewed := h.tell("bot", second, "")
	if renewed.EndpointID != old.EndpointID || renewed.Secret == old.Secret {
		t.Fatalf("%+v, then %+v", old, renewed)
	}
	h.vote("ada", h.open(), true)
	h.deliverAll()
	got := second.take()
	if len(first.take()) != 0 || len(got) != 1 {
		t.Fatalf("%d webhooks", len(got))
	}
	if _, err := client.VerifyWebhook(renewed.Secret, got[0].header, got[0].body, time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := client.VerifyWebhook(old.Secret, got[0].header, got[0].body, time.Now()); !errors.Is(err, client.ErrWebhook) {
		t.Errorf("by the former secret: %v", err)
	}
	for range 2 {
		if _, err := h.Endpoints.SetAgentWebhook(t.Context(), h.by, admin.AgentWebhook{AgentID: "bot"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	h.vote("ada", h.open(), true)
	if due := h.due(); len(due) != 0 {
		t.Errorf("%v is due at an address that has ended", due)
	}
	second.status.Store(http.StatusGone) // and it switches itself off, as every webhook does
	again := h.tell("bot", second, "")
	h.vote("ada", h.open(), true)
	h.deliverAll()
	e, err := h.Store.Endpoints.Get(t.Context(), again.EndpointID)
	if err != nil || e.DisabledAt == nil || len(second.take()) != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	if h.recorded("ENDPOINT_ADDED") != 1 || h.recorded("ENDPOINT_ROTATED") != 2 || h.recorded("ENDPOINT_DISABLED") != 1 || h.recorded("ENDPOINT_GONE") != 1 {
		t.Errorf("%d added, %d rotated, %d switched off, %d gone", h.recorded("ENDPOINT_ADDED"), h.recorded("ENDPOINT_ROTATED"), h.recorded("ENDPOINT_DISABLED"), h.recorded("ENDPOINT_GONE"))
	}
	if rows := h.everything(); strings.Contains(rows, again.Secret) || strings.Contains(rows, second.URL) {
		t.Error("the secret or the address is in the rows")
	}
}

// What cannot be an agent's address is refused when it is set.
func TestAgentWebhooksAreJudged(t *testing.T) {
	h := newHarness(t, hour)
	for name, tc := range map[string]struct {
		w    admin.AgentWebhook
		want string
	}{
		"nobody":            {admin.AgentWebhook{AgentID: "nobody", URL: "https://a.example.com"}, "not_found"},
		"no address":        {admin.AgentWebhook{AgentID: "bot", URL: "agent"}, "invalid_body"},
		"plain http":        {admin.AgentWebhook{AgentID: "bot", URL: "http://a.example.com"}, "invalid_body"},
		"a private network": {admin.AgentWebhook{AgentID: "bot", URL: "https://10.1.2.3/x"}, "invalid_body"},
		"the cloud's own":   {admin.AgentWebhook{AgentID: "bot", URL: "https://169.254.169.254/latest"}, "invalid_body"},
		"with a password":   {admin.AgentWebhook{AgentID: "bot", URL: "https://u:p@a.example.com"}, "invalid_body"},
		"another format":    {admin.AgentWebhook{AgentID: "bot", URL: "https://a.example.com", Format: "xml"}, "invalid_body"},
	} {
		_, err := h.Endpoints.SetAgentWebhook(t.Context(), h.by, tc.w, nil)
		var refused *access.Refusal
		if !errors.As(err, &refused) || refused.Code != tc.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := h.recorded("ENDPOINT_ADDED"); n != 0 {
		t.Errorf("%d were added", n)
	}
}
