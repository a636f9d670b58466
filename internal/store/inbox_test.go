package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// openFor opens an approval that edit has made another one.
func (s *Store) openFor(t testing.TB, edit func(o *Opening)) string {
	t.Helper()
	o := opening(NewID("apr"), time.Hour)
	edit(o)
	if _, err := s.Submit(context.Background(), Submission{Event: event(o.ID), Opening: o}); err != nil {
		t.Fatal(err)
	}
	return o.ID
}

var reviewerOfR = []Eligibility{{Roles: []string{"r"}, Voices: []string{"usr_a"}}}

func (s *Store) inbox(t testing.TB, search InboxSearch) InboxPage {
	t.Helper()
	page, err := s.Inbox.Page(context.Background(), reviewerOfR, search)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func idsOf(page InboxPage) []string {
	ids := []string{}
	for _, row := range page.Rows {
		ids = append(ids, row.ID)
	}
	return ids
}

// TestInboxPages: with more than fits on a page, the pages are in the order in which
// they are shown, in both directions, and nothing is on none of them: not even what is
// due last among the calls of an agent that floods the inbox, nor what another agent
// proposed first.
func TestInboxPages(t *testing.T) {
	ctx := context.Background()
	s, owner := open(t)
	if _, err := connect(t, owner).Exec(ctx, `INSERT INTO agents (id, name) VALUES ('other', 'Other')`); err != nil {
		t.Fatal(err)
	}
	byDue := make([]string, 400)
	for i := range byDue {
		at := (i * 171) % len(byDue) // what is due first is not proposed first
		byDue[at] = s.openFor(t, func(o *Opening) {
			o.ExpiresIn = time.Hour + time.Duration(at)*10*time.Minute
			if at == 250 {
				o.Call.AgentID = "other"
			}
		})
	}
	var pages []InboxPage
	var seen []string
	for search := (InboxSearch{Limit: 50, Counts: true}); ; search.After = pages[len(pages)-1].Next {
		page := s.inbox(t, search)
		if page.All != 400 || page.Found != 400 || page.Groups != 400 || page.From != len(seen) {
			t.Fatalf("page %d begins at %d of %d, %d, %d", len(pages), page.From, page.All, page.Found, page.Groups)
		}
		pages, seen = append(pages, page), append(seen, idsOf(page)...)
		if page.Next == "" {
			break
		}
	}
	if len(pages) != 8 || !slices.Equal(seen, byDue) {
		t.Fatalf("%d pages, and not what is due first", len(pages))
	}
	if got := pages[0].Counts["agent"]; !slices.Equal(got, []Count{{"bot", 399}, {"other", 1}}) {
		t.Errorf("the first page counts %v", got)
	}
	for i := len(pages) - 1; i > 0; i-- {
		back := s.inbox(t, InboxSearch{Limit: 50, Before: pages[i].Previous})
		if !slices.Equal(idsOf(back), idsOf(pages[i-1])) || back.From != pages[i-1].From || back.Next == "" || (back.Previous == "") != (i == 1) {
			t.Errorf("before page %d is another page than %d, from %d", i, i-1, back.From)
		}
	}
	newest, oldest := s.inbox(t, InboxSearch{Limit: 400, Order: Newest}), s.inbox(t, InboxSearch{Limit: 400, Order: Oldest})
	backwards := idsOf(oldest)
	slices.Reverse(backwards)
	if !slices.Equal(idsOf(newest), backwards) || slices.Equal(backwards, byDue) {
		t.Error("the newest first is not the oldest first, backwards")
	}
}

// TestInboxSearch finds what is wanted, and nothing that is for others.
func TestInboxSearch(t *testing.T) {
	ctx := context.Background()
	s, owner := open(t)
	if _, err := connect(t, owner).Exec(ctx, `INSERT INTO agents (id, name) VALUES ('other', 'Refund 100% robot')`); err != nil {
		t.Fatal(err)
	}
	refund := s.openFor(t, func(o *Opening) {
		o.Call.Tool, o.Call.RiskDomain, o.Call.Environment, o.Call.RequestID = "refund_order", "finance", "prod", "req-7"
	})
	again := s.openFor(t, func(o *Opening) {
		o.Call.Tool, o.Call.RiskDomain, o.Call.Environment, o.ExpiresIn = "refund_order", "finance", "prod", 2*time.Hour
	})
	mail := s.openFor(t, func(o *Opening) { o.Call.Tool, o.Call.AgentID, o.ExpiresIn = "send_mail", "other", 5*time.Minute })
	human := s.openFor(t, func(o *Opening) {
		o.Requirements = []engine.Requirement{{Kind: engine.Human, Role: "r", Needed: 1}}
		o.ExpiresIn = 3 * time.Hour
	})
	s.openFor(t, func(o *Opening) { o.Requirements[0].Role = "elsewhere" })
	s.openFor(t, func(o *Opening) { o.Excluded = []string{"usr_a"} })
	s.openFor(t, func(o *Opening) { // reviewed by others first
		o.Requirements = []engine.Requirement{{Kind: engine.Review, Role: "elsewhere", Needed: 1}, {Kind: engine.Human, Role: "r", Needed: 1}}
	})
	for _, test := range []struct {
		search InboxSearch
		want   []string
	}{
		{InboxSearch{}, []string{mail, refund, again, human}},
		{InboxSearch{Words: []string{"REFUND"}}, []string{mail, refund, again}},
		{InboxSearch{Words: []string{"refund", "finance"}}, []string{refund, again}},
		{InboxSearch{Words: []string{"100%"}}, []string{mail}},
		{InboxSearch{Words: []string{"1_0%"}}, nil},
		{InboxSearch{Words: []string{"req-7"}}, []string{refund}},
		{InboxSearch{Words: []string{mail}}, []string{mail}},
		{InboxSearch{Tool: "refund_order"}, []string{refund, again}},
		{InboxSearch{Tool: "refund"}, nil},
		{InboxSearch{AgentID: "other"}, []string{mail}},
		{InboxSearch{Environment: "prod"}, []string{refund, again}},
		{InboxSearch{Domain: "finance"}, []string{refund, again}},
		{InboxSearch{Waits: "human"}, []string{human}},
		{InboxSearch{DueWithin: 10 * time.Minute}, []string{mail}},
		{InboxSearch{ClaimedBy: "usr_a"}, nil},
		{InboxSearch{Roles: []string{"r"}}, []string{mail, refund, again, human}},
		{InboxSearch{Roles: []string{"q", "r"}}, nil},
		{InboxSearch{Alike: true}, []string{mail, refund, human}},
		{InboxSearch{Alike: true, Order: Newest}, []string{human, mail, again}},
	} {
		test.search.Limit = 50
		page := s.inbox(t, test.search)
		if got := idsOf(page); !slices.Equal(got, test.want) && len(got)+len(test.want) > 0 {
			t.Errorf("%+v: got %v, want %v", test.search, got, test.want)
		}
		if page.All != 4 || page.Groups != len(test.want) || !test.search.Alike && page.Found != len(test.want) {
			t.Errorf("%+v: %d of %d, %d rows", test.search, page.Found, page.All, page.Groups)
		}
		if test.search.Alike && (page.Found != 4 || page.Rows[1].Alike+page.Rows[2].Alike != 3) {
			t.Errorf("%+v: %+v", test.search, page)
		}
		for _, row := range page.Rows {
			if test.search.Alike && (len(row.AlikeIDs) != row.Alike || !slices.Contains(row.AlikeIDs, row.ID)) || !test.search.Alike && row.AlikeIDs != nil {
				t.Errorf("%+v: %s stands for %v", test.search, row.ID, row.AlikeIDs)
			}
		}
	}
	for _, cursor := range []string{"?", "AAAA", place(time.Now(), "elsewhere")} {
		if _, err := s.Inbox.Page(ctx, reviewerOfR, InboxSearch{Limit: 1, After: cursor}); !errors.Is(err, ErrNotFound) {
			t.Errorf("after %q: %v", cursor, err)
		}
	}
	if _, err := s.Inbox.Page(ctx, reviewerOfR, InboxSearch{Limit: 1, Words: []string{"a\x00"}}); !errors.Is(err, ErrUnstorable) {
		t.Errorf("a NUL: %v", err)
	}
}

// TestInboxFollows: a vote, a claim and the end of an approval change at once who finds
// it, without anybody settling it.
func TestInboxFollows(t *testing.T) {
	ctx := context.Background()
	s, _ := open(t)
	id := s.openFor(t, func(o *Opening) { o.Requirements[0].Needed = 2 })
	add := func(facts ...approval.Fact) {
		t.Helper()
		if err := s.Approvals.Change(ctx, id, nil, func(c *Change) (err error) {
			for i := range facts {
				err = errors.Join(err, c.AddFact(facts[i]))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	by := func(who string) approval.Fact {
		return approval.Fact{
			Actor: engine.Actor{Kind: engine.HumanActor, ID: who, Channel: "console"}, Voter: approval.Voter{Identity: who, Roles: []string{"r"}, Active: true},
		}
	}
	sees := func(who string, search InboxSearch) bool {
		t.Helper()
		search.Limit = 1
		page, err := s.Inbox.Page(ctx, []Eligibility{{Roles: []string{"r"}, Voices: []string{who}}}, search)
		if err != nil {
			t.Fatal(err)
		}
		return page.All == 1 && page.Found == 1
	}
	claim := by("usr_a")
	claim.Kind = approval.Claim
	add(claim)
	if !sees("usr_a", InboxSearch{ClaimedBy: "usr_a"}) || sees("usr_b", InboxSearch{ClaimedBy: "usr_b"}) {
		t.Error("a claim is nobody's, or somebody else's")
	}
	vote, second := by("usr_a"), by("usr_b")
	vote.Kind, vote.Yes, second.Kind, second.Yes = approval.Vote, true, approval.Vote, true
	add(vote)
	if sees("usr_a", InboxSearch{}) || !sees("usr_b", InboxSearch{}) {
		t.Error("whoever has voted still finds it, or the other one does not")
	}
	// Without events, votes count no more once they are read again: both come at once.
	id = s.openFor(t, func(o *Opening) { o.Requirements[0].Needed = 2 })
	add(vote, second)
	page, err := s.Inbox.Page(ctx, []Eligibility{{Roles: []string{"r"}, Voices: []string{"usr_c"}}}, InboxSearch{Limit: 2})
	if err != nil || slices.Contains(idsOf(page), id) {
		t.Errorf("what has enough votes is still found: %v", err)
	}
}

// TestInboxViews: a person's saved searches are theirs, by name, and not too many.
func TestInboxViews(t *testing.T) {
	ctx := context.Background()
	s, owner := open(t)
	if _, err := connect(t, owner).Exec(ctx, `INSERT INTO people (id, email, name, password_hash, identity) VALUES ('usr_a', 'a@x', 'A', '', 'a'), ('usr_b', 'b@x', 'B', '', 'b')`); err != nil {
		t.Fatal(err)
	}
	save := func(who, name, query string) error {
		return s.Inbox.SaveView(ctx, who, InboxView{ID: NewID("view"), Name: name, Query: query}, 2)
	}
	for _, v := range [][3]string{{"usr_a", "soon", "due=1h"}, {"usr_a", "Mail", "tool=mail"}, {"usr_a", "soon", "due=10m"}, {"usr_b", "soon", "q=b"}} {
		if err := save(v[0], v[1], v[2]); err != nil {
			t.Fatal(err)
		}
	}
	if err := save("usr_a", "third", "q=c"); !errors.Is(err, ErrConflict) {
		t.Errorf("one too many: %v", err)
	}
	list, err := s.Inbox.Views(ctx, "usr_a")
	if err != nil || len(list) != 2 || list[0].Name != "Mail" || list[1].Query != "due=10m" {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := s.Inbox.DropView(ctx, "usr_b", list[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Inbox.DropView(ctx, "usr_a", list[1].ID); err != nil {
		t.Fatal(err)
	}
	if list, err = s.Inbox.Views(ctx, "usr_a"); err != nil || fmt.Sprint(list[0].Name, len(list)) != "Mail1" {
		t.Errorf("%+v, %v", list, err)
	}
}
