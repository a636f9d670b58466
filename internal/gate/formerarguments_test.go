package gate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
)

// TestFormerArguments: whoever decides an edited call is shown what it was before the
// last edit, and what the agent asked for; nothing of that outlives an erasure.
func TestFormerArguments(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	a := h.open(deferred)
	asked := string(h.card("cleo", a.ID).Arguments)
	if c := h.card("cleo", a.ID); c.Former != nil || c.First != nil {
		t.Errorf("nobody has edited it, and it was %s, %s", c.Former, c.First)
	}
	for i, step := range []struct{ who, arguments, former, first string }{
		{"ada", `{"amount":17}`, asked, ""},
		{"ben", `{"amount":18}`, `{"amount":17}`, asked},
	} {
		var err error
		if a, err = h.edit(step.who, h.get(a.ID).Approval, step.arguments); err != nil {
			t.Fatal(err)
		}
		if c := h.card("cleo", a.ID); string(c.Arguments) != step.arguments || string(c.Former) != step.former || string(c.First) != step.first {
			t.Errorf("after edit %d it is %s, was %s, first %s", i+1, c.Arguments, c.Former, c.First)
		}
	}
	// What the rules reopen has the same arguments.
	if err := h.vote("cleo", a, false); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	var kept string
	conn := h.db.Connect(h.db.URL)
	count := func() (n int) {
		t.Helper()
		if err := conn.QueryRow(context.Background(), `SELECT count(*), coalesce(string_agg(f::text, ''), '') FROM former_documents f WHERE approval_id = $1`, a.ID).Scan(&n, &kept); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 2 || strings.Contains(kept, "amount") {
		t.Errorf("%d former documents: %s", n, kept)
	}
	h.db.Exec(`UPDATE retention_floor SET shortest = '0'`)
	by := access.PersonInitiator(h.people["owner"], "console", "r1")
	if _, err := h.Retention.Erase(context.Background(), by, admin.EraseRequest{ApprovalID: a.ID, Reason: "request 4711"}, nil); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 0 {
		t.Errorf("%d are left after an erasure", n)
	}
	if c := h.card("cleo", a.ID); c.Former != nil || c.First != nil {
		t.Error("a card has them after an erasure")
	}
}

// TestTicketsAreFound: a call that waits for a ticket is a task of its own side and of
// those who decide it, where a tracker can look at it.
func TestTicketsAreFound(t *testing.T) {
	d := newDesk(t, time.Hour)
	d.rules.Policy = bundle(t, strings.Replace(bundleText, `outcome: REQUIRE_TICKET}`, `outcome: REQUIRE_TICKET, approver_role: reviewer}`, 1))
	d.judgeBy(d.rules)
	a := d.hold()
	d.join("boss", "admin")
	lists := func() (all [4]int) {
		for i, who := range []string{"ada", "stranger", "owner", "boss"} {
			tasks := d.tasks(who)
			all[i] = len(tasks.Tickets) + 10*len(tasks.Mine)
		}
		return all
	}
	if got, want := lists(), [4]int{1, 0, 10, 0}; got != want {
		t.Errorf("reviewer, stranger, owner, administrator: %v, want %v", got, want)
	}
	trackers := d.Tickets
	d.Tickets = nil
	if got := lists(); got != [4]int{} {
		t.Errorf("without a tracker: %v", got)
	}
	if c := d.card("ada", a.ID); len(c.Trackers) != 0 {
		t.Errorf("a card without a tracker names %v", c.Trackers)
	}
	d.Tickets = trackers
	if c := d.card("ada", a.ID); len(c.Trackers) != 1 || c.Trackers[0] != "ops" {
		t.Errorf("a card names %v", c.Trackers)
	}
	if err := d.attach(a, "OPS-1"); err != nil {
		t.Fatal(err)
	}
	if got := lists(); got != [4]int{} {
		t.Errorf("while its tracker is asked: %v", got)
	}
	d.step(a)
	if got := d.get(a.ID).Approval; got.Status != approval.Approved || len(d.tasks("ada").Tickets) != 0 {
		t.Errorf("with a good ticket: %+v", got.State)
	}
}
