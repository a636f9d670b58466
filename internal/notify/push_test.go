package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
	"holdpoint/internal/pushtest"
	"holdpoint/internal/store"
)

func (h *harness) as(who string) access.Initiator {
	return access.Initiator{Actor: engine.Actor{Kind: engine.HumanActor, ID: h.people[who].ID, Channel: "console"}}
}

// subscribe has a new browser of a person notified.
func (h *harness) subscribe(who string, details bool) (*pushtest.Browser, string) {
	h.t.Helper()
	b := h.service.Subscribe(h.t, h.key.Public())
	s := b.Subscription
	id, err := h.Push.Add(h.t.Context(), h.as(who), admin.NewBrowser{Name: "Phone of " + who, Endpoint: s.Endpoint, P256DH: s.P256DH, Auth: s.Auth, Details: details})
	if err != nil {
		h.t.Fatal(err)
	}
	return b, id
}

// told is what a service worker reads of the next push.
type told struct{ Title, Body, Path, Tag, Until string }

func (h *harness) next(b *pushtest.Browser) (told, pushtest.Push) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 10*time.Second)
	defer cancel()
	p, err := b.Next(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	var said told
	if err := json.Unmarshal([]byte(p.Text), &said); err != nil {
		h.t.Fatal(err)
	}
	return said, p
}

func pushing(h *harness) string {
	id, _ := h.add(admin.NewEndpoint{Kind: notify.Push, Name: "People's browsers"})
	return id
}

func TestPush(t *testing.T) {
	h := newHarness(t, hour)
	pushing(h)
	plain, _ := h.subscribe("ada", false)
	detailed, _ := h.subscribe("ben", true)
	second, _ := h.subscribe("ben", false)
	stranger, _ := h.subscribe("stranger", true)
	owner, _ := h.subscribe("owner", true) // of the requesting side
	a := h.open()
	h.deliverAll()
	topics := map[string]bool{}
	for _, b := range []*pushtest.Browser{plain, second} {
		said, p := h.next(b)
		topics[p.Topic] = true
		if want := (told{Title: "A payment waits for you", Body: "Open Holdpoint", Path: "/approvals/" + a.ID, Tag: p.Topic, Until: said.Until}); said != want {
			t.Errorf("told %+v, want %+v", said, want)
		}
		if until, err := time.Parse(time.RFC3339, said.Until); err != nil || p.TTL < 3500 || p.TTL > 3600 || time.Until(until) > time.Hour {
			t.Errorf("kept for %d s, until %s; the call waits for an hour", p.TTL, said.Until)
		}
		if strings.Contains(p.Text, canary) || p.Urgency != "high" || strings.Contains(p.Topic, a.ID) || strings.Contains(string(p.Body), "payment") {
			t.Errorf("pushed %+v", p)
		}
	}
	if len(topics) != 2 {
		t.Error("the topics tell the push service which browsers are told of the same call")
	}
	if said, _ := h.next(detailed); said.Title != "A payment waits for you" || !strings.Contains(said.Body, canary) {
		t.Errorf("with details: told %+v", said)
	}
	if n := stranger.Waiting() + owner.Waiting(); n != 0 {
		t.Errorf("%d pushes to people who cannot decide it", n)
	}
	if rows := h.everything(); strings.Contains(rows, canary) || strings.Contains(rows, plain.Subscription.Endpoint) || strings.Contains(rows, plain.Subscription.Auth) {
		t.Error("an argument or an address is in the rows")
	}
	list, err := h.Push.Of(t.Context(), h.people["ada"])
	if err != nil || len(list) != 1 || list[0].LastUsedAt == nil || list[0].Name != "Phone of ada" {
		t.Errorf("ada has %+v, %v", list, err)
	}
	if refused := h.service.Refused(); len(refused) > 0 {
		t.Errorf("refused: %q", refused)
	}
}

// TestPushEnds: nothing reaches a browser any more that its person, an administrator or
// the browser itself has ended, or when there is nothing to decide any more.
func TestPushEnds(t *testing.T) {
	ctx := context.Background()
	for name, end := range map[string]func(h *harness, b *pushtest.Browser, id string){
		"removed": func(h *harness, _ *pushtest.Browser, id string) {
			if err := h.Push.Remove(ctx, h.as("ada"), id); err != nil {
				h.t.Error(err)
			}
		},
		"disabled": func(h *harness, _ *pushtest.Browser, _ string) {
			if _, err := h.owner.Exec(ctx, `UPDATE people SET disabled_at = clock_timestamp() WHERE id = $1`, h.people["ada"].ID); err != nil {
				h.t.Error(err)
			}
		},
		"signed out everywhere": func(h *harness, _ *pushtest.Browser, _ string) {
			if _, err := h.Store.Factors.Reset(ctx, "ada@example.com", h.by.Event("FACTORS_RESET", "x", "", "")); err != nil {
				h.t.Error(err)
			}
		},
		"another person in the same browser": func(h *harness, b *pushtest.Browser, _ string) {
			s := b.Subscription
			if _, err := h.Push.Add(ctx, h.as("stranger"), admin.NewBrowser{Name: "x", Endpoint: s.Endpoint, P256DH: s.P256DH, Auth: s.Auth}); err != nil {
				h.t.Error(err)
			}
		},
		"ended by the browser": func(_ *harness, b *pushtest.Browser, _ string) { b.Unsubscribe() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, hour)
			pushing(h)
			b, id := h.subscribe("ada", true)
			a := h.open()
			due := h.due()
			end(h, b, id)
			if len(due) != 1 || !h.deliver(due[0]).Done {
				t.Fatalf("due %q", due)
			}
			if n := h.notification(due[0]); n.Status != "dropped" || n.LastError == "" {
				t.Errorf("in the end %+v", n)
			}
			if list, err := h.Push.Of(ctx, h.people["ada"]); err != nil || len(list) != 0 {
				t.Errorf("ada has %+v, %v", list, err)
			}
			if _, err := h.Store.Push.Get(ctx, id); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the subscription is there: %v", err)
			}
			another := h.open()
			if h.deliverAll(); b.Waiting() != 0 || another.ID == a.ID || len(h.due()) != 0 || h.recorded("NOTIFICATION_GIVEN_UP") != 0 {
				t.Errorf("%d pushes", b.Waiting())
			}
		})
	}
}

func TestPushOfWhatIsDecidedIsDropped(t *testing.T) {
	h := newHarness(t, hour)
	pushing(h)
	b, _ := h.subscribe("ada", true)
	a := h.open()
	due := h.due()
	h.vote("ben", a, false)
	if !h.deliver(due[0]).Done || h.notification(due[0]).Status != "dropped" || b.Waiting() != 0 {
		t.Errorf("%+v, %d pushes", h.notification(due[0]), b.Waiting())
	}
}

func TestPushIsTriedAgain(t *testing.T) {
	h := newHarness(t, hour)
	pushing(h)
	b, _ := h.subscribe("ada", false)
	h.open()
	id := h.due()[0]
	h.service.Answers(&pushtest.Answer{Status: http.StatusTooManyRequests, RetryAfter: "600"})
	if got := h.deliver(id); got.Done || got.RetryIn != 10*time.Minute {
		t.Errorf("429: %+v, want another in ten minutes", got)
	}
	h.service.Answers(&pushtest.Answer{Status: http.StatusInternalServerError})
	if got := h.deliver(id); got.Done || got.RetryIn < time.Minute {
		t.Errorf("500: %+v, want another", got)
	}
	if reason := h.notification(id).LastError; strings.Contains(reason, "/push/") || reason == "" {
		t.Errorf("recorded %q", reason)
	}
	h.service.Answers(nil)
	if !h.deliver(id).Done || h.notification(id).Status != "sent" {
		t.Errorf("in the end %+v", h.notification(id))
	}
	h.next(b)
}

// TestForgedSubscription: whoever can only write to the database notifies nobody of
// anybody's calls, and switches no details on.
func TestForgedSubscription(t *testing.T) {
	h := newHarness(t, hour)
	pushing(h)
	_, id := h.subscribe("stranger", true)
	if _, err := h.owner.Exec(t.Context(), `UPDATE push_subscriptions SET person_id = $1 WHERE id = $2`, h.people["ada"].ID, id); err != nil {
		t.Fatal(err)
	}
	h.open()
	due := h.due()
	if len(due) != 1 || !h.deliver(due[0]).Done || h.notification(due[0]).Status != "dropped" {
		t.Errorf("due %q", due)
	}
	if list, err := h.Push.Of(t.Context(), h.people["ada"]); err != nil || len(list) != 0 {
		t.Errorf("ada has %+v, %v", list, err)
	}
}

func TestBrowsersBelongToTheirPerson(t *testing.T) {
	ctx := t.Context()
	h := newHarness(t, hour)
	if key, err := h.Push.PublicKey(ctx); err != nil || key != "" {
		t.Errorf("without an endpoint: key %q, %v", key, err)
	}
	endpoint := pushing(h)
	if key, err := h.Push.PublicKey(ctx); err != nil || key != h.key.Public() {
		t.Errorf("key %q, %v", key, err)
	}
	b, id := h.subscribe("ada", false)
	for what, err := range map[string]error{
		"remove":  h.Push.Remove(ctx, h.as("ben"), id),
		"details": h.Push.SetDetails(ctx, h.as("ben"), id, true),
		"test":    h.Push.Test(ctx, h.as("ben"), id),
	} {
		if refused := (*access.Refusal)(nil); !errors.As(err, &refused) || refused.Kind != access.NotFound {
			t.Errorf("%s of somebody else's: %v", what, err)
		}
	}
	if err := h.Push.SetDetails(ctx, h.as("ada"), id, true); err != nil {
		t.Error(err)
	}
	if list, err := h.Push.Of(ctx, h.people["ada"]); err != nil || len(list) != 1 || !list[0].Details {
		t.Errorf("ada has %+v, %v", list, err)
	}
	if err := h.Push.Test(ctx, h.as("ada"), id); err != nil {
		t.Error(err)
	}
	h.deliverAll()
	if said, _ := h.next(b); said.Body != "Notifications reach this browser." || said.Path != "/" {
		t.Errorf("the test says %+v", said)
	}
	tests := 1
	for ; tests < 100; tests++ { // whoever signs in names the addresses that are posted to
		if err := h.Push.Test(ctx, h.as("ada"), id); err != nil {
			if refused := (*access.Refusal)(nil); !errors.As(err, &refused) || refused.Kind != access.RateLimited || refused.RetryAfter == 0 {
				t.Errorf("test %d: %v", tests+1, err)
			}
			break
		}
	}
	// Nor by taking the browser away and adding another one.
	if err := h.Push.Remove(ctx, h.as("ada"), id); err != nil {
		t.Error(err)
	}
	_, id = h.subscribe("ada", false)
	if refused := (*access.Refusal)(nil); !errors.As(h.Push.Test(ctx, h.as("ada"), id), &refused) || refused.Kind != access.RateLimited {
		t.Errorf("a test of a new browser: %v", refused)
	}
	// Each browser is sent everything: of too many the first one goes.
	added := []string{id}
	for range store.MaxPushSubscriptions {
		_, another := h.subscribe("ada", false)
		added = append(added, another)
	}
	h.subscribe("ben", false)
	list, err := h.Push.Of(ctx, h.people["ada"])
	var left []string
	for _, one := range list {
		left = append(left, one.ID)
	}
	if err != nil || !slices.Equal(left, added[1:]) {
		t.Errorf("of %v are left %v, %v", added, left, err)
	}
	if err := h.Endpoints.Switch(ctx, h.by, endpoint, true); err != nil {
		t.Error(err)
	}
	if key, err := h.Push.PublicKey(ctx); err != nil || key != "" {
		t.Errorf("switched off: key %q, %v", key, err)
	}
	if got := []int{h.recorded("PUSH_ADDED"), h.recorded("PUSH_DETAILS"), h.recorded("PUSH_TESTED")}; !slices.Equal(got, []int{store.MaxPushSubscriptions + 3, 1, 10}) || tests != 10 {
		t.Errorf("recorded %v", got)
	}
}

// TestPushServicesAreJudged: where pushes go is what a browser says, and any program may
// pass for one.
func TestPushServicesAreJudged(t *testing.T) {
	h := newHarness(t, hour)
	pushing(h)
	strict := admin.New(admin.Config{Store: h.Store, PushKey: h.key, AllowPrivate: nil})
	good := h.service.Subscribe(t, h.key.Public()).Subscription
	add := func(endpoint, p256dh, auth, name string) error {
		_, err := strict.Push.Add(t.Context(), h.as("ada"), admin.NewBrowser{Name: name, Endpoint: endpoint, P256DH: p256dh, Auth: auth})
		return err
	}
	if err := add("https://push.example.net/send/x", good.P256DH, good.Auth, "Phone"); err != nil {
		t.Errorf("a public service: %v", err)
	}
	for _, endpoint := range []string{
		good.Endpoint, "http://push.example.net/x", "https://10.0.0.7/x", "https://[::1]/x", "https://169.254.169.254/latest/meta-data", "https://2130706433/x",
		"https://push.example.net:8443@evil/x", "https://user:password@push.example.net/x", "ftp://push.example.net/x", "/x", "", "https://push.example.net/" + strings.Repeat("x", 3000), "https://push.example.net/\r\nX: y",
	} {
		err := add(endpoint, good.P256DH, good.Auth, "Phone")
		if refused := (*access.Refusal)(nil); !errors.As(err, &refused) || refused.Kind != access.Invalid || len(endpoint) > 3 && strings.Contains(refused.Detail, endpoint) {
			t.Errorf("%.60q: %v", endpoint, err)
		}
	}
	for what, err := range map[string]error{
		"no key":    add("https://push.example.net/y", "", good.Auth, "Phone"),
		"no secret": add("https://push.example.net/y", good.P256DH, "", "Phone"),
		"no name":   add("https://push.example.net/y", good.P256DH, good.Auth, "  "),
		"NUL":       add("https://push.example.net/y", good.P256DH, good.Auth, "a\x00b"),
		"no UTF-8":  add("https://push.example.net/y", good.P256DH, good.Auth, "a\xffb"),
	} {
		if refused := (*access.Refusal)(nil); !errors.As(err, &refused) || refused.Kind != access.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}
