package rules_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
	"holdpoint/internal/store"
)

// Whoever changes an endpoint at the moment at which they have it switched on gets no approval
// for another address than the one that people are shown.
func TestShownIsApproved(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.EndpointsChange)
	ctx, r := t.Context(), h.admin.Endpoints
	id, _, err := r.Add(ctx, h.by("olga"), admin.NewEndpoint{Kind: notify.Email, Name: "box", Off: true, Settings: notify.Settings{To: []string{"good@example.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	var shown string
	var approves store.ProposedEndpoint
	hold := r.Hold
	r.Hold = func(ctx context.Context, by access.Initiator, c admin.PendingChange) (admin.PendingApproval, error) {
		shown = c.After
		if err := json.Unmarshal(c.Entries[0].Becomes, &approves); err != nil {
			t.Error(err)
		}
		return hold(ctx, by, c)
	}
	to := func(address string) error {
		return r.Change(ctx, h.by("olga"), id, admin.EndpointChange{Settings: func(s *notify.Settings) { s.To = []string{address} }})
	}
	conn := h.db.Connect(h.db.URL)
	edition := func() (n int64) {
		if err := conn.QueryRow(ctx, `SELECT edition FROM endpoints WHERE id = $1`, id).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 20 {
		if err := to("good@example.com"); err != nil {
			t.Fatal(err)
		}
		shown, approves = "", store.ProposedEndpoint{}
		good := edition()
		var both sync.WaitGroup
		both.Go(func() { _ = r.Switch(ctx, h.by("olga"), id, false) }) // is refused where the other one comes between
		both.Go(func() { _ = to("eve@example.com") })
		both.Wait()
		if shown != "" && strings.Contains(shown, "good@") != (approves.Edition == good) {
			t.Fatalf("people are shown %s, and decide on edition %d; of good@example.com it is %d", shown, approves.Edition, good)
		}
	}
}

// A temporary table of a guard's name is not what the guards look at.
func TestGuardsIgnoreTemporaryTables(t *testing.T) {
	t.Parallel()
	h := newHarness(t, store.EndpointsChange)
	h.db.Exec(`DO $$ BEGIN EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO PUBLIC', current_database()); END $$`)
	conn := h.db.Connect(h.db.RuntimeURL)
	if _, err := conn.Exec(t.Context(), `CREATE TEMP TABLE guarded_documents (kind text, rule jsonb, by_groups text[])`); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Exec(t.Context(), `INSERT INTO endpoints (id, kind, name, settings, created_by) VALUES ('end_mine', 'email', 'mine', '{"to": ["eve@example.com"]}', 'usr_eve')`)
	if err == nil || !strings.Contains(err.Error(), "guarded_endpoints") && !strings.Contains(err.Error(), "by an approval only") {
		t.Errorf("switched on beside a table of that name: %v", err)
	}
}
