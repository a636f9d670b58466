package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/notify"
	"holdpoint/internal/notify/channel"
	"holdpoint/workflows"
)

var hour = approval.Rule{Role: "reviewer", Needed: 1, ExpiresIn: engine.Duration(time.Hour)}

func reviewers() admin.NewEndpoint {
	return admin.NewEndpoint{Kind: notify.Email, Name: "The reviewers", Settings: notify.Settings{To: []string{notify.Reviewers}}}
}

func webhook(r *receiver, s notify.Settings) admin.NewEndpoint {
	return admin.NewEndpoint{Kind: notify.Webhook, Name: "hook " + r.URL, URL: r.URL + "/hidden-path-5c1", Settings: s}
}

func TestThoseWhoCouldActAreMailed(t *testing.T) {
	h := newHarness(t, hour)
	h.add(reviewers())
	a := h.open()
	h.settle(a.ID)
	h.deliverAll()
	got := h.mailbox.take()
	if to := addressees(got); to != "ada ben cleo" {
		t.Errorf("opened: mailed to %q", to)
	}
	for _, l := range got {
		if !strings.Contains(l.text, "https://console.example.com/approvals/"+a.ID) || strings.Contains(l.text, canary) {
			t.Errorf("to %s:\n%s", l.to, l.text)
		}
	}
	h.vote("ben", a, false)
	h.settle(a.ID)
	h.deliverAll()
	if to := addressees(h.mailbox.take()); to != "ben owner" {
		t.Errorf("decided: mailed to %q, want who took part and who answers for it", to)
	}
	if h.settle(a.ID); len(h.due()) != 0 {
		t.Error("settled again, it is told again")
	}
	if rows := h.everything(); strings.Contains(rows, canary) || strings.Count(rows, a.ID) < 5 {
		t.Error("an argument is in the rows, or these are not the rows")
	}
}

// Who passes a call on twice before anybody is told tells the one who has it.
func TestWhomItIsPassedOnToIsTold(t *testing.T) {
	h := newHarness(t, hour)
	h.add(reviewers())
	a := h.open()
	h.deliverAll()
	h.mailbox.take()
	for _, to := range []string{"cleo", "ben"} {
		s := gate.Contribution{Person: h.people["ada"], ApprovalID: a.ID, Channel: "console"}
		if _, err := h.Contributions.PassOn(context.Background(), s, h.people[to].ID, nil); err != nil {
			t.Fatal(err)
		}
	}
	h.settle(a.ID)
	h.deliverAll()
	got := h.mailbox.take()
	if to := addressees(got); to != "ben" {
		t.Fatalf("mailed to %q", to)
	}
	if !strings.Contains(got[0].text, "passed it on") {
		t.Errorf("the mail says:\n%s", got[0].text)
	}
	if h.settle(a.ID); len(h.due()) != 0 {
		t.Error("settled again, it is told again")
	}
}

func TestSuggestedAreAskedFirst(t *testing.T) {
	rule := hour
	rule.Suggested = []string{"cleo@example.com", "owner@example.com", "nobody@example.com"}
	rule.Reminders = []engine.Duration{engine.Duration(20 * time.Minute), engine.Duration(30 * time.Minute)}
	rule.Escalation = []engine.Escalation{{After: engine.Duration(40 * time.Minute), Role: "boss"}}
	h := newHarness(t, rule)
	h.add(reviewers())
	a := h.open()
	h.deliverAll()
	if to := addressees(h.mailbox.take()); to != "cleo" {
		t.Errorf("opened: mailed to %q, want the one who is suggested and may", to)
	}
	for range 3 {
		h.pass(a, h.settle(a.ID).WakeIn)
	}
	h.settle(a.ID)
	h.deliverAll()
	counts := map[string]int{}
	for _, l := range h.mailbox.take() {
		counts[l.to]++
	}
	// Two reminders and the escalation for each.
	for _, who := range []string{"ada", "ben", "cleo"} {
		if n := counts[who+"@example.com"]; n != 3 {
			t.Errorf("%s was mailed %d times", who, n)
		}
	}
	if counts["boss@example.com"] < 1 || counts["owner@example.com"]+counts["stranger@example.com"] > 0 {
		t.Errorf("mailed %v", counts)
	}
}

func TestFailedAttemptsAreRepeatedUnderOneID(t *testing.T) {
	h := newHarness(t, hour)
	r := newReceiver(t)
	_, secret := h.add(webhook(r, notify.Settings{}))
	r.status.Store(http.StatusInternalServerError)
	a := h.open()
	id := h.due()[0]
	for n := 1; n <= 3; n++ {
		got := h.deliver(id)
		want, _ := notify.Backoff(id, n+1)
		if got.Done || got.RetryIn != want {
			t.Errorf("attempt %d: %+v, want another in %s", n, got, want)
		}
		if n := h.notification(id).Attempts; n == 0 || strings.Contains(h.notification(id).LastError, "hidden-path") || h.notification(id).LastError == "" {
			t.Errorf("recorded %d attempts and %q", n, h.notification(id).LastError)
		}
	}
	r.status.Store(http.StatusNoContent)
	if got := h.deliver(id); !got.Done {
		t.Errorf("fourth attempt: %+v", got)
	}
	if n := h.notification(id); n.Status != "sent" || n.Attempts != 4 || n.EndedAt == nil {
		t.Errorf("in the end %+v", n)
	}
	posts := r.take()
	if len(posts) != 4 {
		t.Fatalf("%d posts", len(posts))
	}
	for i, p := range posts {
		if err := channel.Verify([]string{secret}, p.header, p.body, time.Now()); err != nil {
			t.Errorf("post %d: %v", i, err)
		}
		if p.id() != id || !bytes.Equal(p.body, posts[0].body) || bytes.Contains(p.body, []byte(canary)) {
			t.Errorf("post %d is %s: %s", i, p.id(), p.body)
		}
	}
	if d := posts[0].read(t); d.Type != "approval.opened" || d.Data.ApprovalID != a.ID || d.Data.Status != "pending" {
		t.Errorf("told %+v", d)
	}
	if err := channel.Verify([]string{channel.NewSecret()}, posts[0].header, posts[0].body, time.Now()); err == nil {
		t.Error("another secret verifies it")
	}
	if h.deliver(id); len(r.take()) != 0 {
		t.Error("what was sent is sent again")
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	h := newHarness(t, hour)
	r := newReceiver(t)
	h.add(webhook(r, notify.Settings{}))
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	h.open()
	if got := h.deliver(h.due()[0]); got.Done || got.RetryIn != time.Hour {
		t.Errorf("got %+v, want another in an hour", got)
	}
}

func TestWhatIsNeverTakenIsADeadLetter(t *testing.T) {
	h := newHarness(t, hour)
	r := newReceiver(t)
	h.add(webhook(r, notify.Settings{Kinds: []engine.NotificationKind{engine.NotifyOpened}}))
	r.status.Store(http.StatusTeapot)
	a := h.open()
	id := h.due()[0]
	attempts := 1
	for !h.deliver(id).Done {
		attempts++
	}
	if n := h.notification(id); n.Status != "dead" || n.Attempts != attempts || attempts != 10 {
		t.Errorf("after %d attempts: %+v", attempts, n)
	}
	_, dead, err := h.Endpoints.Overview(context.Background(), 10)
	if err != nil || len(dead) != 1 || dead[0].ApprovalID != a.ID || !strings.Contains(dead[0].Reason, "418") {
		t.Fatalf("dead letters %+v, %v", dead, err)
	}
	if h.recorded("NOTIFICATION_GIVEN_UP") != 1 {
		t.Error("that it was given up is not on record")
	}
	r.take()
	r.status.Store(http.StatusOK)
	if err := h.Endpoints.Resend(context.Background(), h.by, id); err != nil {
		t.Fatal(err)
	}
	if err := h.Endpoints.Resend(context.Background(), h.by, id); err == nil {
		t.Error("it was sent again twice")
	}
	h.deliverAll()
	if posts := r.take(); len(posts) != 1 || posts[0].id() != id || h.notification(id).Status != "sent" {
		t.Errorf("sent again: %d posts, %+v", len(posts), h.notification(id))
	}
	if h.recorded("NOTIFICATION_RESENT") != 1 {
		t.Error("that it was sent again is not on record")
	}
}

func TestStatusGoneSwitchesTheEndpointOff(t *testing.T) {
	h := newHarness(t, hour)
	r := newReceiver(t)
	id, _ := h.add(webhook(r, notify.Settings{}))
	r.status.Store(http.StatusGone)
	h.open()
	h.open()
	due := h.due()
	if !h.deliver(due[0]).Done || !h.deliver(due[1]).Done {
		t.Error("somebody tries again")
	}
	if n := len(r.take()); n != 1 {
		t.Errorf("%d posts, want one: the endpoint is off after it", n)
	}
	if e, err := h.Store.Endpoints.Get(context.Background(), id); err != nil || e.DisabledAt == nil {
		t.Errorf("the endpoint is on: %v", err)
	}
	if h.recorded("ENDPOINT_GONE") != 1 || h.recorded("NOTIFICATION_GIVEN_UP") != 2 {
		t.Errorf("on record: %d gone, %d given up", h.recorded("ENDPOINT_GONE"), h.recorded("NOTIFICATION_GIVEN_UP"))
	}
	if h.open(); len(h.due()) != 0 {
		t.Error("what is switched off is told")
	}
}

func TestOverviewIsOfOneMoment(t *testing.T) {
	h := newHarness(t, hour)
	r := newReceiver(t)
	id, _ := h.add(webhook(r, notify.Settings{}))
	h.open()
	due := h.due()[0]
	ctx, stop := context.WithCancel(context.Background())
	var reads atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; reads.Add(1) {
			endpoints, dead, err := h.Endpoints.Overview(context.Background(), 10)
			if err != nil || len(endpoints) != 1 {
				t.Errorf("%d endpoints, %v", len(endpoints), err)
				return
			}
			if e := endpoints[0]; e.Dead != len(dead) || e.Dead == 1 && e.DisabledAt == nil || e.Dead+e.Waiting+e.Sent != 1 {
				t.Errorf("with %d dead letters: %+v", len(dead), e)
				return
			}
		}
	}()
	for rounds := 0; (rounds < 50 || reads.Load() < 50) && !t.Failed(); rounds++ {
		r.status.Store(http.StatusGone)
		h.deliver(due)
		r.status.Store(http.StatusOK)
		if err := errors.Join(h.Endpoints.Resend(context.Background(), h.by, due), h.Endpoints.Switch(context.Background(), h.by, id, false)); err != nil {
			t.Error(err)
		}
	}
	stop()
	<-done
}

func TestOneMailboxThatIsGoneEndsNothingElse(t *testing.T) {
	h := newHarness(t, hour)
	e := reviewers()
	e.Settings.To = []string{"gone@example.com", "here@example.com"}
	id, _ := h.add(e)
	h.open()
	h.deliverAll()
	if to := addressees(h.mailbox.take()); to != "here" {
		t.Errorf("mailed to %q", to)
	}
	if e, err := h.Store.Endpoints.Get(context.Background(), id); err != nil || e.DisabledAt != nil {
		t.Errorf("the endpoint is off: %v", err)
	}
	if _, dead, err := h.Endpoints.Overview(context.Background(), 10); err != nil || len(dead) != 1 || dead[0].Recipient != "gone@example.com" {
		t.Errorf("dead letters %+v, %v", dead, err)
	}
}

func TestDigest(t *testing.T) {
	h := newHarness(t, hour)
	r := newReceiver(t)
	h.add(webhook(r, notify.Settings{Digest: engine.Duration(10 * time.Minute)}))
	opened := map[string]bool{}
	var first string
	for range 3 {
		opened[h.open().ID] = true
	}
	if due := h.due(); len(due) != 0 {
		t.Fatalf("%d are due before the window is over", len(due))
	}
	var ends int
	if err := h.owner.QueryRow(context.Background(), `SELECT count(DISTINCT due_at) FROM notifications WHERE due_at > now() + interval '9 minutes'`).Scan(&ends); err != nil || ends != 1 {
		t.Errorf("%d ends of one window, %v", ends, err)
	}
	if _, err := h.owner.Exec(context.Background(), `UPDATE notifications SET due_at = now()`); err != nil {
		t.Fatal(err)
	}
	due := h.due()
	if len(due) != 1 {
		t.Fatalf("%d deliveries of one digest", len(due))
	}
	first = due[0]
	r.status.Store(http.StatusBadGateway)
	h.deliver(first)
	h.open() // comes too late for this one
	r.status.Store(http.StatusOK)
	if !h.deliver(first).Done {
		t.Error("it was not sent")
	}
	posts := r.take()
	if len(posts) != 2 || !bytes.Equal(posts[0].body, posts[1].body) || posts[0].id() != posts[1].id() {
		t.Fatalf("%d posts, or not the same", len(posts))
	}
	d := posts[1].read(t)
	if d.Type != "approvals.digest" || len(d.Data.Items) != 3 || d.Data.Link != "https://console.example.com/" {
		t.Errorf("told %+v", d)
	}
	for _, item := range d.Data.Items {
		delete(opened, item.ApprovalID)
	}
	if len(opened) != 0 {
		t.Errorf("not told of %v", opened)
	}
	rows, err := h.owner.Query(context.Background(), `SELECT id FROM notifications WHERE status = 'bundled' AND bundle_id = $1`, first)
	if err != nil {
		t.Fatal(err)
	}
	bundled := 0
	for ; rows.Next(); bundled++ {
		continue
	}
	if bundled != 2 {
		t.Errorf("%d went along", bundled)
	}
}

// Two deliveries of one window at once send everything once.
func TestDigestIsMadeOnce(t *testing.T) {
	h := newHarness(t, hour)
	r := newReceiver(t)
	h.add(webhook(r, notify.Settings{Digest: engine.Duration(10 * time.Minute)}))
	for range 8 {
		h.open()
	}
	rows, err := h.owner.Query(context.Background(), `SELECT id FROM notifications`)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			if _, err := h.deliverer.Deliver(context.Background(), workflows.DeliverInput{NotificationID: id}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	posts := r.take()
	if len(posts) != 1 || len(posts[0].read(t).Data.Items) != 8 {
		t.Errorf("%d posts of one window", len(posts))
	}
}

func TestUrgentIsNotBundled(t *testing.T) {
	rule := hour
	rule.ExpiresIn = engine.Duration(5 * time.Minute)
	h := newHarness(t, rule)
	r := newReceiver(t)
	h.add(webhook(r, notify.Settings{Digest: engine.Duration(10 * time.Minute)}))
	a := h.open()
	if len(h.due()) != 1 {
		t.Error("its time would be up before it is told")
	}
	h.deliverAll()
	h.vote("ada", a, true)
	if len(h.due()) != 0 {
		t.Error("that it is decided can wait")
	}
	if _, err := h.owner.Exec(context.Background(), `UPDATE people SET roles = '{}' WHERE email <> 'root@example.com'`); err != nil {
		t.Fatal(err)
	}
	b := h.open()
	kinds := map[string]bool{}
	for _, id := range h.due() {
		kinds[h.notification(id).Kind] = h.notification(id).ApprovalID == b.ID
	}
	if !kinds["nobody_eligible"] {
		t.Errorf("that nobody can decide has to wait; kinds at once: %v", kinds)
	}
}

// A worker that dies after it has sent, and before it has said so, sends again:
// under the same id.
func TestRepetitionHasTheSameID(t *testing.T) {
	h := newHarness(t, hour)
	r := newReceiver(t)
	_, secret := h.add(webhook(r, notify.Settings{}))
	h.open()
	id := h.due()[0]
	var arrived sync.WaitGroup
	arrived.Add(2)
	r.before = func() { arrived.Done(); arrived.Wait() } // neither is answered before both are there
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if got, err := h.deliverer.Deliver(context.Background(), workflows.DeliverInput{NotificationID: id}); err != nil || !got.Done {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	group.Wait()
	posts := r.take()
	if len(posts) != 2 || posts[0].id() != id || posts[1].id() != id || !bytes.Equal(posts[0].body, posts[1].body) {
		t.Fatalf("%d posts", len(posts))
	}
	for _, p := range posts {
		if err := channel.Verify([]string{secret}, p.header, p.body, time.Now()); err != nil {
			t.Error(err)
		}
	}
}

func TestPrivateAddressesAreNotAsked(t *testing.T) {
	h := newHarness(t, hour)
	// By settings that allow more than the worker's.
	h.Endpoints.AllowPrivate = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	for i, url := range []string{"http://169.254.169.254/latest/meta-data", "https://10.0.0.1/x", "http://[::1]:9/x"} {
		h.add(admin.NewEndpoint{Kind: notify.Webhook, Name: fmt.Sprint("inside ", i), URL: url, Plain: true})
	}
	h.open()
	due := h.due()
	if len(due) != 3 {
		t.Fatalf("%d are due", len(due))
	}
	for _, id := range due {
		if got := h.deliver(id); got.Done {
			t.Errorf("sent: %+v", h.notification(id))
		}
		if reason := h.notification(id).LastError; !strings.Contains(reason, "not allowed") || strings.Contains(reason, "meta-data") {
			t.Errorf("because %q", reason)
		}
	}
}

func TestEndpointFilters(t *testing.T) {
	h := newHarness(t, hour)
	want := map[string]bool{}
	for name, tc := range map[string]struct {
		s    notify.Settings
		told bool
	}{
		"everything":   {notify.Settings{}, true},
		"opened":       {notify.Settings{Kinds: []engine.NotificationKind{engine.NotifyOpened}}, true},
		"decided":      {notify.Settings{Kinds: []engine.NotificationKind{engine.NotifyDecided}}, false},
		"role":         {notify.Settings{Roles: []string{"finance", "reviewer"}}, true},
		"other role":   {notify.Settings{Roles: []string{"finance"}}, false},
		"tool":         {notify.Settings{Tools: []string{"PAY"}}, true},
		"prefix":       {notify.Settings{Tools: []string{"p*"}}, true},
		"other tool":   {notify.Settings{Tools: []string{"payments"}}, false},
		"agent":        {notify.Settings{Agents: []string{"bot"}}, true},
		"other agent":  {notify.Settings{Agents: []string{"bo"}}, false},
		"own, could":   {notify.Settings{To: []string{"ada@example.com"}, Own: true}, true},
		"own, answers": {notify.Settings{To: []string{"owner@example.com"}, Own: true}, true},
		"own, nothing": {notify.Settings{To: []string{"stranger@example.com"}, Own: true}, false},
		"not own":      {notify.Settings{To: []string{"stranger@example.com"}}, true},
	} {
		if len(tc.s.To) == 0 {
			tc.s.To = []string{"box@example.com"}
		}
		id, _ := h.add(admin.NewEndpoint{Kind: notify.Email, Name: name, Settings: tc.s})
		want[id] = tc.told
	}
	h.open()
	got := map[string]bool{}
	for _, id := range h.due() {
		got[h.notification(id).EndpointID] = true
	}
	endpoints, _, err := h.Endpoints.Overview(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range endpoints {
		if got[e.ID] != want[e.ID] {
			t.Errorf("%s: told %t, want %t", e.Name, got[e.ID], want[e.ID])
		}
	}
}

func TestMistakesInEndpointsAreNamed(t *testing.T) {
	h := newHarness(t, hour)
	for name, tc := range map[string]struct {
		e    admin.NewEndpoint
		want string
	}{
		"digest":       {admin.NewEndpoint{Kind: notify.Webhook, Name: "x", URL: "https://a.example/", Settings: notify.Settings{Digest: -1}}, "digest:"},
		"kind":         {admin.NewEndpoint{Kind: "pager", Name: "x"}, "kind:"},
		"name":         {admin.NewEndpoint{Kind: notify.Webhook, URL: "https://a.example/"}, "name:"},
		"no address":   {admin.NewEndpoint{Kind: notify.Slack, Name: "x"}, "url:"},
		"no mail":      {admin.NewEndpoint{Kind: notify.Email, Name: "x", Settings: notify.Settings{To: []string{"Ada <ada@example.com>"}}}, "to:"},
		"nobody":       {admin.NewEndpoint{Kind: notify.Email, Name: "x"}, "to:"},
		"plain":        {admin.NewEndpoint{Kind: notify.Webhook, Name: "x", URL: "http://a.example/secret-path"}, "url:"},
		"private":      {admin.NewEndpoint{Kind: notify.Webhook, Name: "x", URL: "https://10.0.0.7/secret-path"}, "url:"},
		"link-local":   {admin.NewEndpoint{Kind: notify.Webhook, Name: "x", URL: "https://169.254.169.254/secret-path"}, "url:"},
		"private v6":   {admin.NewEndpoint{Kind: notify.Webhook, Name: "x", URL: "https://[fd00::1]/secret-path"}, "url:"},
		"v4 in v6":     {admin.NewEndpoint{Kind: notify.Webhook, Name: "x", URL: "https://[::ffff:10.0.0.7]/secret-path"}, "url:"},
		"a number":     {admin.NewEndpoint{Kind: notify.Webhook, Name: "x", URL: "https://2852039166/secret-path"}, "url:"},
		"plain abroad": {admin.NewEndpoint{Kind: notify.Webhook, Name: "x", URL: "http://192.0.2.1/secret-path", Plain: true}, "url:"},
		"tell":         {admin.NewEndpoint{Kind: notify.Webhook, Name: "x", URL: "https://a.example/", Settings: notify.Settings{Kinds: []engine.NotificationKind{"all"}}}, "tells:"},
		"to of a hook": {admin.NewEndpoint{Kind: notify.Webhook, Name: "x", URL: "https://a.example/", Settings: notify.Settings{To: []string{"a@example.com"}}}, "to:"},
	} {
		for _, command := range []bool{false, true} {
			h.Endpoints.Owner = command
			_, _, err := h.Endpoints.Add(context.Background(), h.by, tc.e)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret-path") {
				t.Errorf("%s, by a command %t: %v, want it to name %s", name, command, err, tc.want)
			}
		}
	}
	h.add(reviewers())
	if _, _, err := h.Endpoints.Add(context.Background(), h.by, reviewers()); err == nil || !strings.Contains(err.Error(), "name") {
		t.Errorf("the same name twice: %v", err)
	}
}
