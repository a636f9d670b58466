package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/activities"
	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
	"holdpoint/internal/tracker"
	"holdpoint/workflows"
)

const trackerToken = "canary-tracker-token"

// fakeTracker is a real HTTP server that speaks the shape of docs/tickets.md.
type fakeTracker struct {
	*httptest.Server
	mu      sync.Mutex
	tickets map[string]string // JSON by reference
	status  int               // of every answer, when not 0
	asked   int
	before  func() // runs before an answer
}

// ticket writes what a tracker says of a ticket.
func ticket(ref, project, state string, closed bool, created time.Time) string {
	return fmt.Sprintf(`{"ref": %q, "title": "Refund\u0000 <b>4711</b>", "project": %q, "state": %q, "closed": %t, "created_at": %q, "url": "http://127.0.0.1/see/%s"}`,
		ref, project, state, closed, created.UTC().Format(time.RFC3339Nano), ref)
}

func newTracker(t *testing.T) *fakeTracker {
	t.Helper()
	k := &fakeTracker{tickets: map[string]string{"OPS-1": ticket("OPS-1", "OPS", "ready", false, time.Now().Add(-time.Hour))}}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		k.asked++
		text, ok := k.tickets[strings.TrimPrefix(r.URL.Path, "/")]
		status, before := k.status, k.before
		k.mu.Unlock()
		if before != nil {
			before()
		}
		switch {
		case r.Header.Get("Authorization") != "Bearer "+trackerToken:
			status = http.StatusUnauthorized
		case status != 0:
			w.Header().Set("Location", "http://169.254.169.254/latest/meta-data/")
		case !ok:
			status = http.StatusNotFound
		default:
			status = http.StatusOK
		}
		w.WriteHeader(status)
		io.WriteString(w, text)
	}))
	t.Cleanup(k.Close)
	return k
}

func (k *fakeTracker) says(ref, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tickets[ref] = text
}

func (k *fakeTracker) answers(status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status = status
}

func (k *fakeTracker) times() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

func (k *fakeTracker) config() tracker.Config {
	return tracker.Config{
		Name: "ops", Kind: tracker.HTTP, BaseURL: k.URL, Token: trackerToken, AllowPrivate: []string{"127.0.0.1/32"}, AllowHTTP: true,
		Projects: []string{"OPS"}, MaxAge: engine.Duration(48 * time.Hour),
	}
}

// desk is a harness with a tracker. Steps are taken by the test, as the workflow
// would take them.
type desk struct {
	*harness
	tracker *fakeTracker
	checker *gate.TicketChecker
	log     *bytes.Buffer
}

func newDesk(t *testing.T, expires time.Duration, configs ...tracker.Config) *desk {
	t.Helper()
	d := &desk{harness: newHarness(t, routing(expires, 1)), tracker: newTracker(t), log: &bytes.Buffer{}}
	d.rules.Policy = bundle(t, bundleText)
	d.judgeBy(d.rules)
	if configs == nil {
		configs = []tracker.Config{d.tracker.config()}
	}
	trackers, err := tracker.NewTrackers(configs)
	if err != nil {
		t.Fatal(err)
	}
	d.Tickets = trackers
	d.checker = &gate.TicketChecker{Store: d.Store, Sealer: d.Sealer, Tracker: trackers, Logger: slog.New(slog.NewTextHandler(d.log, nil))}
	return d
}

// hold proposes a call that waits for a ticket.
func (d *desk) hold() approval.Approval {
	d.t.Helper()
	a := d.check(params("change", "")).Approval
	if a == nil || a.Plan.Requirements[0].Kind != engine.Ticket {
		d.t.Fatalf("got %+v", a)
	}
	return *a
}

func (d *desk) attach(a approval.Approval, ref string) error {
	_, err := d.Contributions.AttachTicket(context.Background(), d.agent, a.ID, "", ref, "", nil)
	return err
}

func (d *desk) look(a approval.Approval) time.Duration {
	d.t.Helper()
	retryIn, err := d.checker.Check(context.Background(), a.ID)
	if err != nil {
		d.t.Fatal(err)
	}
	return retryIn
}

// step settles and looks at the ticket that nobody has looked at, as the
// workflow does, and settles again. It reports whether the tracker has to be
// asked again.
func (d *desk) step(a approval.Approval) (again bool) {
	d.t.Helper()
	r, err := d.settler.Settle(context.Background(), a.ID)
	if err == nil && r.CheckTicket {
		d.look(a)
		r, err = d.settler.Settle(context.Background(), a.ID)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return r.CheckTicket
}

func (d *desk) found(a approval.Approval) (approval.Ticket, bool) {
	d.t.Helper()
	t, checked, _ := d.get(a.ID).Approval.Ticket()
	return t, checked
}

// reasonsOf lists the reasons of an approval's ticket events, and what they tell.
func (d *desk) reasonsOf(a approval.Approval) (all []string, payload string) {
	d.t.Helper()
	events, err := d.Events(context.Background(), store.EventFilter{ApprovalID: a.ID}, 1000)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == engine.Ticketed {
			all, payload = append(all, e.Reasons[0].Code), payload+string(e.SafePayload)
		}
	}
	return all, payload
}

func TestGoodTicket(t *testing.T) {
	d := newDesk(t, time.Hour)
	a := d.hold()
	if err := d.attach(a, d.tracker.URL+"/OPS-1"); err != nil {
		t.Fatal(err)
	}
	if found, checked := d.found(a); checked || found.Ref != "OPS-1" || found.System != "ops" || d.tracker.times() != 0 {
		t.Errorf("attached: %+v, checked %t, asked %d times", found, checked, d.tracker.times())
	}
	// A workflow of a former version would not ask, and must not be told to.
	for version, want := range map[int]bool{0: false, 1: false, workflows.Version: true} {
		r, err := activities.Settle{Settler: d.settler}.Settle(t.Context(), workflows.SettleInput{ApprovalID: a.ID, Version: version})
		if err != nil || r.CheckTicket != want || (r.Ticket != 0) != want || r.WakeIn <= 0 {
			t.Errorf("told to version %d: %+v, %v", version, r, err)
		}
	}
	if d.step(a) {
		t.Error("to be asked again")
	}
	v := d.get(a.ID)
	found, checked := d.found(a)
	want := approval.Ticket{System: "ops", Ref: "OPS-1", Title: "Refund  <b>4711</b>", Project: "OPS", State: "ready", URL: "http://127.0.0.1/see/OPS-1"}
	if v.Approval.Status != approval.Approved || v.Token == "" || !checked || found != want {
		t.Fatalf("%s: %+v", v.Approval.Status, found)
	}
	// A repetition asks nobody and adds nothing.
	asked := d.tracker.times()
	if d.look(a) != 0 || d.tracker.times() != asked || len(d.get(a.ID).Approval.Facts) != 2 {
		t.Errorf("looked again: asked %d times, facts %+v", d.tracker.times()-asked, d.get(a.ID).Approval.Facts)
	}
	reasons, payload := d.reasonsOf(a)
	if strings.Join(reasons, " ") != "TICKET_ATTACHED TICKET_VALIDATED" || !strings.Contains(payload, `"OPS-1"`) || strings.Contains(payload, "Refund") {
		t.Errorf("events %v tell %s", reasons, payload)
	}
	if err := d.redeem(d.agent, v.Token, "change", args); err != nil {
		t.Errorf("redeem: %v", err)
	}
}

func TestTicketThatDoesNotCoverTheCall(t *testing.T) {
	d := newDesk(t, time.Hour)
	hour := time.Now().Add(-time.Hour)
	d.tracker.says("OPS-2", ticket("OPS-2", "OPS", "done", true, hour))
	d.tracker.says("HR-3", ticket("HR-3", "HR", "ready", false, hour))
	d.tracker.says("OPS-4", ticket("OPS-4", "OPS", "ready", false, time.Now().Add(time.Hour)))
	d.tracker.says("OPS-5", ticket("OPS-5", "OPS", "ready", false, hour.Add(-48*time.Hour)))
	a := d.hold()
	d.tracker.says("OPS-7", ticket("OPS-7", "OPS", "ready", false, a.Plan.OpenedAt))
	want := ""
	for _, tc := range []struct{ ref, code string }{
		{"OPS-2", "ticket_closed"}, {"HR-3", "ticket_other_project"}, {"OPS-4", "ticket_too_new"}, {"OPS-5", "ticket_too_old"}, {"OPS-6", "ticket_not_found"}, {"OPS-7", "ticket_too_new"},
	} {
		if err := d.attach(a, tc.ref); err != nil {
			t.Fatalf("%s: %v", tc.ref, err)
		}
		if d.step(a) {
			t.Errorf("%s: to be asked again", tc.ref)
		}
		v, err := d.Queries.ForAgent(context.Background(), d.agent, a.ID)
		if err != nil {
			t.Fatal(err)
		}
		found, checked := d.found(a)
		if v.Approval.Status != approval.Pending || v.Approval.State.Requirements[0].Status != approval.Waiting || !checked || found.Ref != tc.ref || found.Code != tc.code || found.Message == "" {
			t.Errorf("%s: %s, %+v", tc.ref, v.Approval.Status, found)
		}
		want += "TICKET_ATTACHED TICKET_REJECTED "
	}
	if reasons, _ := d.reasonsOf(a); strings.Join(reasons, " ")+" " != want {
		t.Errorf("events %v", reasons)
	}
	// Another one does.
	if err := d.attach(a, "OPS-1"); err != nil {
		t.Fatal(err)
	}
	d.step(a)
	if got := d.get(a.ID).Approval.Status; got != approval.Approved {
		t.Errorf("with a good one: %s", got)
	}
	if got := code(d.attach(a, "OPS-1")); got != "already_approved" {
		t.Errorf("attached afterwards: %q", got)
	}
}

func TestTicketsThatAreNotTaken(t *testing.T) {
	d := newDesk(t, time.Hour)
	jira := tracker.Config{Name: "jira", Kind: tracker.Jira, BaseURL: "https://acme.example", Token: "x"}
	both, err := tracker.NewTrackers([]tracker.Config{d.tracker.config(), jira})
	if err != nil {
		t.Fatal(err)
	}
	only := d.Tickets
	a, votes := d.hold(), *d.harness.check(params("pay", "")).Approval
	ctx := context.Background()
	other := access.Principal{KeyID: "k", AgentID: "other-bot", Kind: access.AgentKey}
	for _, tc := range []struct {
		p           access.Principal
		id          string
		tickets     gate.Tracker
		system, ref string
		want        string
	}{
		{d.agent, a.ID, nil, "", "OPS-1", "no_ticket_system"},
		{d.agent, a.ID, only, "jira", "OPS-1", "ticket_ref"},
		{d.agent, a.ID, only, "", "", "ticket_ref"},
		{d.agent, a.ID, only, "", "../x", "ticket_ref"},
		{d.agent, a.ID, only, "", "http://169.254.169.254/OPS-1", "ticket_ref"},
		{d.agent, a.ID, both, "", "OPS-1", "ticket_ref"}, // of which?
		{d.agent, a.ID, both, "jira", "OPS-1", ""},
		{d.runtime, a.ID, both, "ops", "OPS-1", ""},
		{d.runtime, a.ID, both, "", "OPS:1", ""},
		{other, a.ID, only, "", "OPS-1", "not_found"},
		{access.Principal{Kind: access.AdminKey}, a.ID, only, "", "OPS-1", "not_found"},
		{d.agent, votes.ID, only, "", "OPS-1", "no_ticket_wanted"},
	} {
		d.Tickets = tc.tickets
		if _, err := d.Contributions.AttachTicket(ctx, tc.p, tc.id, tc.system, tc.ref, "", nil); code(err) != tc.want {
			t.Errorf("%s %q of %q: %v, want %q", tc.p.Kind, tc.ref, tc.system, err, tc.want)
		}
	}
	if d.tracker.times() != 0 {
		t.Errorf("asked %d times", d.tracker.times())
	}
}

// However the tracker fails, the call waits, and nobody is told a secret. Once it
// answers, the call goes on.
func TestTrackerIsDown(t *testing.T) {
	d := newDesk(t, time.Hour)
	a := d.hold()
	if err := d.attach(a, "OPS-1"); err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{401, 429, 500, 503, 301, 302, 307} {
		d.tracker.answers(status)
		if retry := d.look(a); retry <= 0 || !d.step(a) {
			t.Errorf("%d: to be asked again in %s", status, retry)
		}
		if _, checked := d.found(a); checked || d.get(a.ID).Approval.Status != approval.Pending {
			t.Errorf("%d: checked %t, %s", status, checked, d.get(a.ID).Approval.Status)
		}
	}
	if text := d.log.String(); text == "" || strings.Contains(text, trackerToken) || strings.Contains(text, "169.254") {
		t.Errorf("logged: %s", text)
	}
	d.tracker.answers(0)
	if d.step(a) || d.get(a.ID).Approval.Status != approval.Approved {
		t.Errorf("healed: %s", d.get(a.ID).Approval.Status)
	}
}

// A deadline is kept while the tracker is away, and what comes afterwards counts
// no more.
func TestDeadlineDuringAnOutage(t *testing.T) {
	d := newDesk(t, 10*time.Minute)
	a := d.hold()
	if err := d.attach(a, "OPS-1"); err != nil {
		t.Fatal(err)
	}
	d.tracker.before = sync.OnceFunc(func() {
		// It answers only once the deadline has passed.
		d.db.Exec(`SET LOCAL session_replication_role = replica; UPDATE approvals SET expires_at = clock_timestamp()`)
		if !d.settleQuietly(a.ID).Over {
			t.Error("not over at its deadline")
		}
	})
	if retry := d.look(a); retry != 0 {
		t.Errorf("to be asked again in %s", retry)
	}
	v := d.get(a.ID)
	if late := v.Approval.EndedAt.Sub(v.Approval.Plan.ExpiresAt); v.Approval.Status != approval.Expired || late < 0 || late > time.Minute {
		t.Errorf("%s, %s after its deadline", v.Approval.Status, late)
	}
	if v.Approval.Reasons[0].Code != "TIMEOUT" || len(v.Approval.Facts) != 1 || v.Token != "" {
		t.Errorf("%+v, facts %+v", v.Approval.Reasons, v.Approval.Facts)
	}
}

// What the tracker says of a ticket that was replaced meanwhile is nothing.
func TestTicketReplacedDuringTheLook(t *testing.T) {
	d := newDesk(t, time.Hour)
	a := d.hold()
	if err := d.attach(a, "OPS-1"); err != nil {
		t.Fatal(err)
	}
	for _, next := range []string{"OPS-1", "OPS-9"} { // the same one again is another fact
		d.tracker.before = sync.OnceFunc(func() {
			if err := d.attach(a, next); err != nil {
				t.Error(err)
			}
		})
		if retry := d.look(a); retry != 0 {
			t.Errorf("%s: to be asked again in %s", next, retry)
		}
		if found, checked := d.found(a); checked || found.Ref != next {
			t.Errorf("%s: %+v, checked %t", next, found, checked)
		}
	}
	d.tracker.before = nil
	d.step(a)
	if found, checked := d.found(a); !checked || found.Code != "ticket_not_found" || d.get(a.ID).Approval.Status != approval.Pending {
		t.Errorf("%+v, checked %t", found, checked)
	}
}

// Two looks at once are one answer.
func TestTwoLooksAtOnce(t *testing.T) {
	d := newDesk(t, time.Hour)
	a := d.hold()
	if err := d.attach(a, "OPS-1"); err != nil {
		t.Fatal(err)
	}
	var looks []func()
	for range 8 {
		looks = append(looks, func() {
			if _, err := d.checker.Check(context.Background(), a.ID); err != nil {
				t.Error(err)
			}
		})
	}
	race(looks...)
	if reasons, _ := d.reasonsOf(a); len(d.get(a.ID).Approval.Facts) != 2 || strings.Join(reasons, " ") != "TICKET_ATTACHED TICKET_VALIDATED" {
		t.Errorf("facts %+v, events %v", d.get(a.ID).Approval.Facts, reasons)
	}
}

// While a kill switch is on no ticket says yes, but one may say no.
func TestKillSwitchAndTickets(t *testing.T) {
	d := newDesk(t, time.Hour)
	ctx := context.Background()
	good, bad := d.hold(), d.hold()
	if err := errors.Join(d.attach(good, "OPS-1"), d.attach(bad, "OPS-9"), d.Registry.ThrowKillSwitch(ctx, operator, "bot", "", nil)); err != nil {
		t.Fatal(err)
	}
	if retry := d.look(good); retry <= 0 || !d.step(good) {
		t.Errorf("a good one: to be asked again in %s", retry)
	}
	if _, checked := d.found(good); checked {
		t.Error("a good one was taken")
	}
	d.step(bad)
	if found, checked := d.found(bad); !checked || found.Code == "" {
		t.Errorf("a bad one: %+v", found)
	}
	if err := d.Registry.ReleaseKillSwitch(ctx, operator, "bot", nil); err != nil {
		t.Fatal(err)
	}
	d.step(good)
	if got := d.get(good.ID).Approval.Status; got != approval.Approved {
		t.Errorf("released: %s", got)
	}
}

// The ticket has to cover the call when it runs, too.
func TestTicketIsLookedAtBeforeTheCallRuns(t *testing.T) {
	d := newDesk(t, time.Hour)
	a := d.hold()
	if err := d.attach(a, "OPS-1"); err != nil {
		t.Fatal(err)
	}
	d.step(a)
	raw := d.get(a.ID).Token
	spent := func() bool {
		v := d.get(a.ID)
		return v.Approval.Execution != approval.NotRun || v.Token == ""
	}
	hour := time.Now().Add(-time.Hour)
	good := ticket("OPS-1", "OPS", "ready", false, hour)
	for _, tc := range []struct {
		what   string
		status int
		says   string
		want   string
		kind   access.Kind
	}{
		{"closed meanwhile", 0, ticket("OPS-1", "OPS", "done", true, hour), "ticket_rejected", access.Conflict},
		{"moved meanwhile", 0, ticket("OPS-1", "HR", "ready", false, hour), "ticket_rejected", access.Conflict},
		{"gone", 404, good, "ticket_rejected", access.Conflict},
		{"down", 503, good, "ticket_unavailable", access.Unavailable},
		{"credentials gone", 401, good, "ticket_unavailable", access.Unavailable},
		{"redirected", 302, good, "ticket_unavailable", access.Unavailable},
	} {
		d.tracker.says("OPS-1", tc.says)
		d.tracker.answers(tc.status)
		err := d.redeem(d.agent, raw, "change", args)
		var r *access.Refusal
		if !errors.As(err, &r) || r.Code != tc.want || r.Kind != tc.kind || spent() || (tc.kind == access.Unavailable) != (r.RetryAfter > 0) {
			t.Errorf("%s: %v, spent %t", tc.what, err, spent())
		}
	}
	// Who has no business with it does not have the tracker asked.
	d.tracker.says("OPS-1", good)
	d.tracker.answers(0)
	asked := d.tracker.times()
	other := access.Principal{KeyID: "key_o", AgentID: "other-bot", Kind: access.AgentKey}
	if got := code(d.redeem(other, raw, "change", args)); got != "not_found" || d.tracker.times() != asked {
		t.Errorf("another agent: %q, asked %d times", got, d.tracker.times()-asked)
	}
	if err := d.redeem(d.agent, raw, "change", args); err != nil {
		t.Errorf("with a good ticket again: %v", err)
	}
	if got := code(d.redeem(d.agent, raw, "change", args)); got != "token_used" {
		t.Errorf("twice: %q", got)
	}
}

// An address that means another place when it is dialed is not asked.
func TestTrackerAtAForbiddenAddress(t *testing.T) {
	reached := newTracker(t)
	config := reached.config()
	config.BaseURL = "http://localhost:" + reached.URL[strings.LastIndex(reached.URL, ":")+1:]
	config.AllowPrivate = []string{"10.0.0.0/8"}
	d := newDesk(t, time.Hour, config)
	a := d.hold()
	if err := d.attach(a, "OPS-1"); err != nil {
		t.Fatal(err)
	}
	if d.look(a) <= 0 || !d.step(a) || reached.times() != 0 {
		t.Errorf("asked %d times", reached.times())
	}
	for _, base := range []string{"http://169.254.169.254", "https://127.0.0.1", "http://[::1]:1"} {
		config.BaseURL = base
		if _, err := tracker.NewTrackers([]tracker.Config{config}); err == nil {
			t.Errorf("%s is taken", base)
		}
	}
}

// Nothing that is kept of a ticket holds the connector's token.
func TestNoTokenIsKept(t *testing.T) {
	d := newDesk(t, time.Hour)
	a := d.hold()
	if err := d.attach(a, "OPS-1"); err != nil {
		t.Fatal(err)
	}
	d.step(a)
	kept, err := json.Marshal(d.get(a.ID).Approval.Facts)
	_, payload := d.reasonsOf(a)
	if err != nil || strings.Contains(string(kept)+payload+d.log.String()+fmt.Sprintf("%+v", d.tracker.config()), trackerToken) {
		t.Errorf("%s %s", kept, payload)
	}
}
