package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// end ends an approval, with what somebody said of it before.
func (s *Store) end(t testing.TB, id string, status approval.Status, facts ...approval.Fact) {
	t.Helper()
	if err := s.Approvals.Change(context.Background(), id, nil, func(c *Change) error {
		for i := range facts {
			if err := c.AddFact(facts[i]); err != nil {
				return err
			}
		}
		return c.Settle(status, nil, "", 0, nil)
	}); err != nil {
		t.Fatal(err)
	}
}

func voteBy(who string, yes bool) approval.Fact {
	return approval.Fact{
		Kind: approval.Vote, Yes: yes, Actor: engine.Actor{Kind: engine.HumanActor, ID: who, Channel: "console"},
		Voter: approval.Voter{Identity: who, Roles: []string{"r"}, Active: true},
	}
}

func (s *Store) history(t testing.TB, by Reader, search HistorySearch) (ids []string, page HistoryPage) {
	t.Helper()
	page, err := s.Approvals.History(context.Background(), by, search)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range page.Rows {
		ids = append(ids, a.ID)
	}
	return ids, page
}

// TestHistoryPages: the pages hold all that the reader may see, the newest end first, in
// both directions, and their number is exact.
func TestHistoryPages(t *testing.T) {
	ctx := context.Background()
	s, _ := open(t)
	var want []string
	for range 7 {
		id := s.mustOpen(t, time.Hour)
		s.end(t, id, approval.Denied)
		want = append(want, id)
	}
	slices.Reverse(want)
	s.mustOpen(t, time.Hour) // waits
	reader := Reader{Roles: []string{"r"}}
	var seen []string
	var pages []HistoryPage
	for search := (HistorySearch{Limit: 3, Counts: true}); ; search.After = pages[len(pages)-1].Next {
		ids, page := s.history(t, reader, search)
		if page.Found != 7 || (page.Previous == "") != (len(pages) == 0) || !slices.Equal(page.Recent["tool"], []Count{{"t", 7}}) {
			t.Fatalf("page %d: %d, before it %q, %v", len(pages), page.Found, page.Previous, page.Recent)
		}
		seen, pages = append(seen, ids...), append(pages, page)
		if page.Next == "" || len(pages) > 3 {
			break
		}
	}
	if !slices.Equal(seen, want) {
		t.Fatalf("saw %v, want %v", seen, want)
	}
	back, page := s.history(t, reader, HistorySearch{Limit: 3, Before: pages[2].Previous})
	if !slices.Equal(back, want[3:6]) || page.Next == "" || page.Previous == "" {
		t.Errorf("before the last page: %v", back)
	}
	back, page = s.history(t, reader, HistorySearch{Limit: 3, Before: pages[1].Previous})
	if !slices.Equal(back, want[:3]) || page.Next == "" || page.Previous != "" {
		t.Errorf("before the second page: %v, before it %q", back, page.Previous)
	}
	for _, cursor := range []string{"x", "!!", "bm90IGEgdGltZSBhcHJfeA"} {
		if _, err := s.Approvals.History(ctx, Reader{All: true}, HistorySearch{After: cursor, Limit: 3}); !errors.Is(err, ErrNotFound) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	if _, err := s.Approvals.History(ctx, Reader{All: true}, HistorySearch{Words: []string{"a\x00"}, Limit: 3}); !errors.Is(err, ErrUnstorable) {
		t.Errorf("a NUL: %v", err)
	}
}

// TestHistorySearch finds what is wanted, among what the reader may see.
func TestHistorySearch(t *testing.T) {
	ctx := context.Background()
	s, owner := open(t)
	conn := connect(t, owner)
	for _, sql := range []string{
		`INSERT INTO agents (id, name) VALUES ('other', 'Refund 100% robot')`,
		`INSERT INTO people (id, email, name, password_hash, identity) VALUES ('usr_a', 'ada@x.org', 'Ada', '', 'a'), ('usr_b', 'b@x.org', 'Grace', '', 'b')`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	mail := s.openFor(t, func(o *Opening) { o.Call.Tool, o.Call.AgentID = "send_mail", "other" })
	refund := s.openFor(t, func(o *Opening) {
		o.Call.Tool, o.Call.RiskDomain, o.Call.Environment = "refund_order", "finance", "prod"
	})
	again := s.openFor(t, func(o *Opening) {
		o.Call.Tool, o.Call.RiskDomain, o.Call.Environment = "refund_order", "finance", "test"
	})
	elsewhere := s.openFor(t, func(o *Opening) { o.Requirements[0].Role = "elsewhere" })
	own := s.openFor(t, func(o *Opening) { o.Requirements[0].Role, o.Excluded = "elsewhere", []string{"a"} })
	escalated := s.openFor(t, func(o *Opening) {
		o.Requirements = []engine.Requirement{{Kind: engine.Review, Role: "elsewhere", Needed: 1, Escalation: []engine.Escalation{{Role: "r", After: engine.Duration(time.Minute)}}}}
	})
	remark := voteBy("usr_a", false)
	remark.Kind, remark.Comment = approval.Comment, "Who is it for?"
	s.end(t, mail, approval.Cancelled, remark)
	s.end(t, refund, approval.Approved, voteBy("usr_a", true))
	s.end(t, again, approval.Denied, voteBy("usr_a", true), voteBy("usr_b", false))
	s.end(t, elsewhere, approval.Expired)
	s.end(t, own, approval.Expired)
	s.end(t, escalated, approval.Expired)
	mine := Reader{Roles: []string{"r"}, Identity: "a"}
	var middle time.Time
	if err := conn.QueryRow(ctx, `SELECT ended_at FROM approvals WHERE id = $1`, again).Scan(&middle); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		by     Reader
		search HistorySearch
		want   []string
	}{
		{mine, HistorySearch{}, []string{escalated, own, again, refund, mail}},
		{Reader{All: true}, HistorySearch{}, []string{escalated, own, elsewhere, again, refund, mail}},
		{Reader{Roles: []string{"other"}, Identity: "x"}, HistorySearch{}, nil},
		{Reader{Identity: "x"}, HistorySearch{}, nil},
		{Reader{Identity: "x", For: []Eligibility{{Roles: []string{"elsewhere"}, Voices: []string{"x", "a"}}}}, HistorySearch{}, []string{escalated, elsewhere}},
		{mine, HistorySearch{Words: []string{"REFUND"}}, []string{again, refund, mail}},
		{mine, HistorySearch{Words: []string{"refund", "finance"}}, []string{again, refund}},
		{mine, HistorySearch{Words: []string{"1_0%"}}, nil},
		{mine, HistorySearch{Words: []string{mail}}, []string{mail}},
		{mine, HistorySearch{Words: []string{elsewhere}}, nil},
		{mine, HistorySearch{Tool: "refund_order", Environment: "test"}, []string{again}},
		{mine, HistorySearch{AgentID: "other"}, []string{mail}},
		{mine, HistorySearch{Status: approval.Expired}, []string{escalated, own}},
		{mine, HistorySearch{DecidedBy: "usr_a"}, []string{again, refund}},
		{mine, HistorySearch{DecidedBy: "usr_b"}, []string{again}},
		{mine, HistorySearch{DecidedBy: "Grace"}, nil},
		{mine, HistorySearch{DecidedBy: "nobody"}, nil},
		{mine, HistorySearch{PartOf: "usr_a"}, []string{again, refund, mail}},
		{mine, HistorySearch{PartOf: "usr_b"}, []string{again}},
		{mine, HistorySearch{PartOf: "Grace"}, nil},
		{mine, HistorySearch{Since: middle}, []string{escalated, own, again}},
		{mine, HistorySearch{Until: middle}, []string{refund, mail}},
	} {
		test.search.Limit, test.search.Counts = 50, true
		got, page := s.history(t, test.by, test.search)
		if !slices.Equal(got, test.want) || page.Found != len(test.want) {
			t.Errorf("%+v %+v: %d, %v, want %v", test.by, test.search, page.Found, got, test.want)
		}
	}
	if _, page := s.history(t, mine, HistorySearch{Limit: 1, Counts: true, Tool: "none"}); fmt.Sprint(page.Recent["agent"]) != "[{bot 4} {other 1}]" ||
		strings.Contains(fmt.Sprint(page.Recent), "elsewhere") {
		t.Errorf("there is to choose %v", page.Recent)
	}
}
