package tests

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const ticketPolicy = `version: "1"
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2099-01-01T00:00:00Z"
rules:
  - {id: change, description: A change needs a ticket., match: {tool_name: change, environment: "*"}, outcome: REQUIRE_TICKET}
  - {id: brief, description: A short time., match: {tool_name: brief, environment: "*"}, outcome: REQUIRE_TICKET, approval: {expires_in: 4s}}
  - {id: both, description: A ticket and a person., match: {tool_name: both, environment: "*"}, outcome: REQUIRE_TICKET, approver_role: reviewer, approval: {quorum: 1}}
defaults: {outcome: DENY}
`

const trackerToken = "canary-tracker-token"

// tracker is an issue tracker on this machine, in the shape of docs/tickets.md.
type tracker struct {
	mu     sync.Mutex
	closed map[string]bool // by reference
	status int             // of every answer, when not 0
	hang   chan struct{}   // answers wait for it, when not nil
	asked  int
}

func (k *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ref := strings.TrimPrefix(r.URL.Path, "/")
	k.mu.Lock()
	k.asked++
	closed, known := k.closed[ref]
	status, hang := k.status, k.hang
	k.mu.Unlock()
	if hang != nil {
		<-hang
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer "+trackerToken:
		status = http.StatusUnauthorized
	case status == 0 && !known:
		status = http.StatusNotFound
	}
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	io.WriteString(w, fmt.Sprintf(`{"ref": %q, "title": "Refund 4711", "project": "OPS", "state": "ready", "closed": %t, "created_at": "2026-01-02T15:04:05Z"}`, ref, closed))
}

func (k *tracker) set(edit func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	edit()
}

// ticketed is an approval with its ticket.
type ticketed struct {
	approval
	Ticket *struct {
		System, Ref, Title, State, Code, Message string
		Checked                                  bool
	}
}

// TestTickets takes calls that need a ticket through the running program.
func TestTickets(t *testing.T) {
	ownPrograms(t)
	k := &tracker{closed: map[string]bool{"OPS-1": false, "OPS-2": true}}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	secret := t.TempDir() + "/token"
	if err := os.WriteFile(secret, []byte(trackerToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startWith(t, map[string]string{
		"policy.yaml": ticketPolicy,
		"settings.yaml": `routing:
  default: {role: reviewer, needed: 1, expires_in: 1h}
tickets:
  - {name: ops, kind: http, base_url: "` + server.URL + `", token_file: "` + secret + `", projects: [OPS], allow_private: [127.0.0.1/32], allow_http: true}
`,
	})
	agent, admin := d.agent(t), d.admin(t)
	arguments := map[string]any{"order": 4711}
	hold := func(t *testing.T, tool string) approval {
		t.Helper()
		var r securityResult
		agent.do("POST", "/v1/tool-calls/check", params(tool, arguments)).want(t, http.StatusAccepted).into(t, &r)
		if r.Approval == nil || r.Approval.NextAction != "attach_ticket" || r.Approval.Requirements[0].Kind != "ticket" {
			t.Fatalf("got %+v", r)
		}
		return *r.Approval
	}
	attach := func(a approval, ref string, headers ...header) answer {
		return agent.do("POST", approvalPath(a.ID)+"/ticket", map[string]any{"ticket": ref}, headers...)
	}
	read := func(t *testing.T, a approval) (got ticketed) {
		t.Helper()
		agent.do("GET", approvalPath(a.ID), nil).want(t, http.StatusOK).into(t, &got)
		return got
	}

	t.Run("who decides the call finds it in the inbox, and attaches one", func(t *testing.T) {
		a := hold(t, "both")
		b := openBrowser(t, d.URL)
		b.signIn(d.Reviewers[2])
		b.sees("main", "Attach a ticket: it waits for one")
		b.click(`main a[href$="` + a.ID + `"]`)
		if b.visible(testid("ticket-ref")); b.eval(`document.querySelector("select[name=system]") === null`) != "true" {
			t.Error("somebody is asked which of one system it is")
		}
		b.write(testid("ticket-ref"), "OPS-1")
		b.click(testid("attach-ticket"))
		b.visible(testid("approve"))
		b.click(testid("approve"))
		b.sees(testid("status"), "approved")
		b.clean()
	})

	t.Run("from a bad one to a good one, and the call runs once", func(t *testing.T) {
		a := hold(t, "change")
		attach(a, "no reference!").want(t, http.StatusUnprocessableEntity, "ticket_ref")
		agent.do("POST", approvalPath(a.ID)+"/ticket", map[string]any{"ticket": "OPS-1", "system": "jira"}).want(t, http.StatusUnprocessableEntity, "ticket_ref")
		agent.do("POST", approvalPath(a.ID)+"/ticket", map[string]any{}).want(t, http.StatusUnprocessableEntity)
		attach(a, "OPS-2").want(t, http.StatusOK)
		eventually(t, settleWithin, "the ticket is rejected", func() bool { return read(t, a).Ticket.Checked })
		got := read(t, a)
		if got.Status != "pending" || got.NextAction != "attach_ticket" || got.Ticket.Code != "ticket_closed" || got.Ticket.Message == "" || got.Ticket.Title != "" || got.Ticket.Ref != "OPS-2" || got.Ticket.System != "ops" {
			t.Fatalf("got %+v %+v", got, got.Ticket)
		}
		key := header{"Idempotency-Key", newID("k_")}
		first, again := attach(a, "OPS-1", key).want(t, http.StatusOK), attach(a, "OPS-1", key).want(t, http.StatusOK)
		if string(first.Body) != string(again.Body) || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s\n%s", first, again)
		}
		done := agent.wait(a.ID)
		if done.Status != "approved" || done.Token == "" {
			t.Fatalf("got %+v", done)
		}
		if got := read(t, a); got.Ticket.Title != "Refund 4711" || got.Ticket.State != "ready" || got.Ticket.Code != "" || !got.Ticket.Checked {
			t.Errorf("got %+v", got.Ticket)
		}
		attach(a, "OPS-1").want(t, http.StatusConflict, "already_approved")
		// It was closed meanwhile, then nobody knows, then it is open again.
		k.set(func() { k.closed["OPS-1"] = true })
		agent.redeem(done.Token, "change", arguments).want(t, http.StatusConflict, "ticket_rejected")
		k.set(func() { k.closed["OPS-1"], k.status = false, http.StatusServiceUnavailable })
		agent.redeem(done.Token, "change", arguments).want(t, http.StatusServiceUnavailable, "ticket_unavailable")
		k.set(func() { k.status = 0 })
		agent.redeem(done.Token, "change", arguments).want(t, http.StatusOK)
		agent.redeem(done.Token, "change", arguments).want(t, http.StatusConflict, "token_used")
		want := []string{
			"decision REQUIRE_TICKET change", "ticket DENY ticket_ref", "ticket DENY ticket_ref", "ticket REQUIRE_TICKET TICKET_ATTACHED",
			"ticket REQUIRE_TICKET TICKET_REJECTED", "ticket REQUIRE_TICKET TICKET_ATTACHED", "ticket REQUIRE_TICKET TICKET_VALIDATED", "settled APPROVED TICKET_VALIDATED",
		}
		story := slices.DeleteFunc(admin.story(a.ID), func(line string) bool {
			return strings.HasPrefix(line, "redeem ") || line == "ticket DENY already_approved"
		})
		if !slices.Equal(story, want) {
			t.Errorf("story %q", story)
		}
	})

	t.Run("an outage of the tracker", func(t *testing.T) {
		k.set(func() { k.status = http.StatusServiceUnavailable })
		a := hold(t, "both")
		asked := func() (n int) { k.set(func() { n = k.asked }); return n }
		before := asked()
		attach(a, "OPS-1").want(t, http.StatusOK)
		eventually(t, settleWithin, "the tracker is asked", func() bool { return asked() > before })
		if got := read(t, a); got.Status != "pending" || got.Ticket.Checked {
			t.Fatalf("got %+v %+v", got, got.Ticket)
		}
		k.set(func() { k.status = 0 })
		eventually(t, settleWithin, "the ticket is found good", func() bool { got := read(t, a); return got.Ticket.Checked && got.Requirements[0].Status == "satisfied" })
		// And then a person, who sees it.
		got := read(t, a)
		if got.Status != "pending" || got.NextAction != "wait" || got.Requirements[1].Status != "waiting" {
			t.Fatalf("got %+v", got)
		}
		d.reviewer(t, 0).approve(got.approval)
		if done := agent.wait(a.ID); done.Status != "approved" {
			t.Errorf("got %+v", done)
		}
	})

	t.Run("a deadline while the tracker hangs", func(t *testing.T) {
		hang := make(chan struct{})
		k.set(func() { k.hang = hang })
		defer func() {
			k.set(func() { k.hang = nil })
			close(hang)
		}()
		a := hold(t, "brief")
		attach(a, "OPS-1").want(t, http.StatusOK)
		done := agent.wait(a.ID)
		if late := done.EndedAt.Sub(done.ExpiresAt); done.Status != "expired" || late < 0 || late > 6*time.Second || done.Reasons[0].Code != "TIMEOUT" {
			t.Errorf("%s, %s after its deadline: %+v", done.Status, late, done.Reasons)
		}
		attach(a, "OPS-1").want(t, http.StatusGone, "expired")
	})

	t.Run("nobody else's business", func(t *testing.T) {
		a := hold(t, "change")
		admin.do("POST", approvalPath(a.ID)+"/ticket", map[string]any{"ticket": "OPS-1"}).want(t, http.StatusNotFound, "not_found")
		agent.do("POST", approvalPath("apr_"+strings.Repeat("a", 26))+"/ticket", map[string]any{"ticket": "OPS-1"}).want(t, http.StatusNotFound, "not_found")
		agent.cancel(a.ID).want(t, http.StatusOK)
	})
	if text := d.program.text(); strings.Contains(text, trackerToken) {
		t.Error("the program has said the tracker's token")
	}
	for _, e := range admin.events(url.Values{}) {
		if strings.Contains(string(e.Safe), trackerToken) {
			t.Errorf("the log has the tracker's token: %s", e.Safe)
		}
	}
}

// TestBrowserWithoutATracker: where no ticket system is configured nobody is offered to
// attach a ticket, nor told that they should.
func TestBrowserWithoutATracker(t *testing.T) {
	ownPrograms(t)
	d := startWith(t, map[string]string{"policy.yaml": ticketPolicy})
	var r securityResult
	d.agent(t).do("POST", "/v1/tool-calls/check", params("both", map[string]any{"order": 4711})).want(t, http.StatusAccepted).into(t, &r)
	for _, p := range []person{d.Reviewers[0], d.Owner} {
		b := openBrowser(t, d.URL)
		b.signIn(p)
		b.until("the whole inbox", loaded)
		if text := b.text("main"); strings.Contains(text, "Attach a ticket") || strings.Contains(text, "needs a ticket") {
			t.Errorf("%s is told to attach one: %s", p.Email, text)
		}
		b.open("/approvals/" + r.Approval.ID)
		b.sees(testid("no-tracker"), "No ticket system is configured here")
		if b.eval(`document.querySelector("[data-testid=ticket-ref]") === null`) != "true" {
			t.Error("a ticket is offered")
		}
		b.clean()
	}
}
