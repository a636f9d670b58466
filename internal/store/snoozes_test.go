package store

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// TestSnoozes: what somebody has snoozed is in no list of theirs but its own, and in
// everybody else's; it comes back by itself, also when its time is up before the end.
func TestSnoozes(t *testing.T) {
	ctx := context.Background()
	s, owner := open(t)
	db := connect(t, owner)
	if _, err := db.Exec(ctx, `INSERT INTO people (id, email, name, identity, roles, password_hash) VALUES ('usr_a', 'a@x', 'A', 'usr_a', '{r}', 'x'), ('usr_b', 'b@x', 'B', 'usr_b', '{r}', 'x')`); err != nil {
		t.Fatal(err)
	}
	first := s.openFor(t, func(o *Opening) { o.ExpiresIn = time.Hour })
	second := s.openFor(t, func(o *Opening) { o.ExpiresIn = 2 * time.Hour })
	lists := func(what string, search InboxSearch, snoozed int, want ...string) {
		t.Helper()
		search.Limit = 10
		page := s.inbox(t, search)
		if got := idsOf(page); !slices.Equal(got, want) || page.All != len(want) || page.Found != len(want) || page.Snoozed != snoozed {
			t.Errorf("%s: %v of %d, %d, and %d snoozed; want %v and %d", what, got, page.All, page.Found, page.Snoozed, want, snoozed)
		}
	}
	mine, theirs := InboxSearch{PersonID: "usr_a"}, InboxSearch{PersonID: "usr_b"}
	lists("nothing is snoozed", mine, 0, first, second)
	if err := s.Inbox.Snooze(ctx, "usr_a", first, time.Hour); !errors.Is(err, ErrConflict) {
		t.Errorf("past its time: %v", err)
	}
	if err := s.Inbox.Snooze(ctx, "usr_a", NewID("apr"), time.Minute); !errors.Is(err, ErrConflict) {
		t.Errorf("one that is not there: %v", err)
	}
	for range 2 { // again is no error
		if err := s.Inbox.Snooze(ctx, "usr_a", second, 30*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	lists("one's own", mine, 1, first)
	lists("the snoozed", InboxSearch{PersonID: "usr_a", Snoozed: true}, 1, second)
	lists("somebody else's", theirs, 0, first, second)
	if row := s.inbox(t, InboxSearch{PersonID: "usr_a", Snoozed: true, Limit: 10}).Rows[0]; time.Until(row.SnoozedUntil) < 25*time.Minute {
		t.Errorf("its row says until %v", row.SnoozedUntil)
	}
	if until, err := s.Inbox.Snoozed(ctx, "usr_a", second); err != nil || time.Until(until) < 25*time.Minute {
		t.Errorf("snoozed until %v, %v", until, err)
	}
	// Its time is up before the end now.
	set := func(sql string) {
		t.Helper()
		if _, err := db.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	set(`UPDATE snoozes SET until = (SELECT due_at FROM approvals WHERE id = approval_id) + interval '1 second'`)
	lists("due before the end", mine, 0, first, second)
	set(`UPDATE snoozes SET until = clock_timestamp() - interval '1 second'`)
	lists("the end has come", mine, 0, first, second)
	if until, err := s.Inbox.Snoozed(ctx, "usr_a", second); err != nil || !until.IsZero() {
		t.Errorf("after the end: %v, %v", until, err)
	}
	if err := s.Inbox.Snooze(ctx, "usr_a", second, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := s.Inbox.Unsnooze(ctx, "usr_a", second); err != nil {
		t.Fatal(err)
	}
	lists("brought back", mine, 0, first, second)
	if err := s.Inbox.Snooze(ctx, "usr_a", second, time.Minute); err != nil {
		t.Fatal(err)
	}
	set(`UPDATE approvals SET status = 'cancelled' WHERE id = '` + second + `'`)
	if n := 0; db.QueryRow(ctx, `SELECT count(*) FROM snoozes`).Scan(&n) != nil || n != 0 {
		t.Errorf("%d rows are left of a call that has ended", n)
	}
}
