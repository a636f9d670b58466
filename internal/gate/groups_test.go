package gate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"holdpoint/internal/gate"
)

// TestGroups: a row that stands for several calls says between which amounts they are, of how
// many payees, and how many name one for the first time; a call that cannot be read is not
// counted, and rows of one call are told nothing.
func TestGroups(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	pay := func(amount, to string) string {
		return callOf("pay", fmt.Sprintf(`{"amount":%q,"currency":"EUR","to":%q}`, amount, to))
	}
	ann := h.decided(pay("3", "Ann"))
	if err := h.vote("ada", ann, true); err != nil {
		t.Fatal(err)
	}
	h.settle(ann.ID)
	h.open(callOf("send", `{"n":1}`))
	h.open(pay("12.50", "Ann"))
	h.open(pay("4600.00", "Eve"))
	odd := h.open(pay("40", "Ann"))
	groups := func(q *gate.Queries) map[string]gate.GroupStakes {
		t.Helper()
		page, err := q.Inbox(t.Context(), h.people["ben"], gate.InboxSearch{Alike: true})
		if err != nil {
			t.Fatal(err)
		}
		told, err := q.Groups(t.Context(), page.Rows)
		if err != nil {
			t.Fatal(err)
		}
		byTool := map[string]gate.GroupStakes{}
		for _, row := range page.Rows {
			if g, there := told[row.ID]; there {
				byTool[row.Call.Tool] = g
			}
		}
		return byTool
	}
	got := groups(h.Queries)
	if g := got["pay"]; len(got) != 1 || g.Of != 3 || g.WithAmount != 3 || !slices.Equal(g.Ranges, []string{"12.50 – 4,600.00 EUR"}) || !slices.Equal(g.Targets, []gate.Count{{Value: "to", N: 2}}) ||
		!slices.Equal(g.FirstTime, []gate.Count{{Value: "to", N: 1}}) {
		t.Errorf("%+v", got)
	}
	if again := groups(h.Queries); fmt.Sprint(again) != fmt.Sprint(got) {
		t.Errorf("told again: %+v", again)
	}
	// Another process has seen nothing of them yet.
	h.db.Exec(`ALTER TABLE approvals DISABLE TRIGGER approvals_guard`)
	h.db.Exec(`UPDATE approvals SET sealed = substring(sealed FROM 2) WHERE id = $1`, odd.ID)
	h.db.Exec(`ALTER TABLE approvals ENABLE TRIGGER approvals_guard`)
	other, err := gate.New(h.config)
	if err != nil {
		t.Fatal(err)
	}
	if g := groups(other.Queries)["pay"]; g.Of != 2 {
		t.Errorf("with one that cannot be read: %+v", g)
	}
}
