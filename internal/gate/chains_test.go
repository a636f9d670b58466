package gate_test

import (
	"fmt"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// Where everybody stands in for everybody there are more ways to speak for somebody than anybody needs: those
// that are looked at are bounded, and whoever named the deputy themselves is among them.
func TestEverybodyStandsInForEverybody(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	const people = 14
	for i := range people {
		h.people[fmt.Sprint(i)] = h.db.Person(engine.Person{Name: fmt.Sprint("p", i), Roles: []string{}})
	}
	h.db.Exec(`INSERT INTO delegations (id, person_id, deputy_id, from_at, until_at, reason, created_by)
		SELECT 'dlg_' || md5(a.id || b.id), a.id, b.id, clock_timestamp() - interval '1 minute', clock_timestamp() + interval '1 hour', 'x', a.id
		FROM people a, people b WHERE a.id <> b.id AND a.roles = '{}' AND b.roles = '{}'`)
	h.delegate("ada", "0")
	chains, err := h.Store.Delegations.Chains(t.Context(), h.people["0"].ID)
	if err != nil {
		t.Fatal(err)
	}
	direct := 0
	for i, chain := range chains {
		if len(chain.Via) == 1 {
			direct++
		}
		if i > 0 && len(chain.Via) < len(chains[i-1].Via) {
			t.Fatal("a shorter way comes later")
		}
	}
	if len(chains) != 500 || direct != people {
		t.Errorf("%d ways, %d of them without anybody in between; want 500 and %d", len(chains), direct, people)
	}
	a := h.open(deferred)
	if err := h.vote("0", a, true); err != nil {
		t.Error(err)
	}
	h.settle(a.ID)
	if got := h.get(a.ID).Approval.Status; got != approval.Approved {
		t.Error(got)
	}
}
