package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"holdpoint/engine/approval"
)

func statisticsOf(t testing.TB, s *Store, edit func(q *StatisticsQuery)) (Statistics, error) {
	t.Helper()
	q := StatisticsQuery{
		Since: time.Now().Add(-24 * time.Hour), Until: time.Now().Add(time.Hour), Ages: []time.Duration{time.Minute, time.Hour}, Listed: 2, Most: 100,
	}
	edit(&q)
	return s.Reports.Statistics(context.Background(), q)
}

// TestStatistics counts each approval once, where it belongs, and nothing of another
// period.
func TestStatistics(t *testing.T) {
	ctx := context.Background()
	s, owner := open(t)
	conn := connect(t, owner)
	if _, err := conn.Exec(ctx, `INSERT INTO agents (id, name) VALUES ('other', 'Other')`); err != nil {
		t.Fatal(err)
	}
	pay := func(o *Opening) { o.Call.Tool = "pay" }
	s.end(t, s.openFor(t, pay), approval.Approved, voteBy("usr_a", true))
	s.end(t, s.openFor(t, pay), approval.Denied, voteBy("usr_b", false))
	s.end(t, s.openFor(t, func(o *Opening) { o.Call.Tool, o.Call.AgentID = "mail", "other" }), approval.Approved, voteBy("usr_b", true))
	s.end(t, s.openFor(t, func(o *Opening) { o.Call.Tool = "late" }), approval.Expired)
	granted := voteBy("usr_a", true)
	granted.Details.Grant = "gra_a"
	if _, err := conn.Exec(ctx, `INSERT INTO people (id, email, name, password_hash, identity) VALUES ('usr_a', 'a@x.org', 'A', '', 'a');
		INSERT INTO standing_grants (id, person_id, agent_id, tool, environment, sealed, reason, max_uses, uses, expires_at) VALUES ('gra_a', 'usr_a', 'bot', 'pay', '', '', 'r', 5, 1, clock_timestamp() + interval '1 hour')`); err != nil {
		t.Fatal(err)
	}
	s.end(t, s.openFor(t, pay), approval.Approved, granted)
	s.mustOpen(t, time.Hour)
	old := s.mustOpen(t, 48*time.Hour)
	if _, err := conn.Exec(ctx, `ALTER TABLE approvals DISABLE TRIGGER USER; UPDATE approvals SET opened_at = opened_at - interval '3 hours' WHERE id = '`+old+`'; ALTER TABLE approvals ENABLE TRIGGER USER`); err != nil {
		t.Fatal(err)
	}
	got, err := statisticsOf(t, s, func(*StatisticsQuery) {})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Waiting, []int{1, 0, 1}) {
		t.Errorf("waiting: %v", got.Waiting)
	}
	var all DayStatistics
	for _, d := range got.Days { // it may be midnight
		all.Decided, all.Ended, all.Expired = all.Decided+d.Decided, all.Ended+d.Ended, all.Expired+d.Expired
		if d.P50 < 0 || d.P90 < d.P50 || d.P90 > 60 || d.Day.Hour() != 0 {
			t.Errorf("%+v", d)
		}
	}
	if all.Decided != 4 || all.Ended != 5 || all.Expired != 1 {
		t.Errorf("days: %+v", got.Days)
	}
	for what, pair := range map[string][2]any{
		"tools":     {got.Tools, []RateStatistics{{"pay", 2, 1, 0}, {"mail", 1, 0, 0}}},
		"agents":    {got.Agents, []RateStatistics{{"bot", 2, 1, 1}, {"other", 1, 0, 0}}},
		"reviewers": {got.Reviewers, []VoteStatistics{{"usr_b", 2, 0}, {"usr_a", 1, 1}}},
		"grants":    {got.Grants, []GrantStatistics{{"gra_a", "pay", "bot", "usr_a", 1, 1, 5}}},
	} {
		if fmt.Sprint(pair[0]) != fmt.Sprint(pair[1]) {
			t.Errorf("%s: got %v, want %v", what, pair[0], pair[1])
		}
	}
	if got, err = statisticsOf(t, s, func(q *StatisticsQuery) { q.Until = q.Since.Add(time.Hour) }); err != nil || len(got.Days)+len(got.Tools)+len(got.Agents)+len(got.Reviewers)+len(got.Grants) > 0 {
		t.Errorf("of another period: %+v, %v", got, err)
	}
	if got, err = statisticsOf(t, s, func(q *StatisticsQuery) { q.Weekly = true }); err != nil || len(got.Days) == 0 || got.Days[0].Day.UTC().Weekday() != time.Monday {
		t.Errorf("by weeks: %+v, %v", got.Days, err)
	}
	if _, err = statisticsOf(t, s, func(q *StatisticsQuery) { q.Most = 4 }); !errors.Is(err, ErrTooMany) {
		t.Errorf("more than may be looked at: %v", err)
	}
}

// BenchmarkStatistics gives what the statistics of thirty and of ninety days take when
// 100,000 approvals have ended in ninety days.
//
//	go test ./internal/store -run '^$' -bench Statistics -benchtime 10x
func BenchmarkStatistics(b *testing.B) {
	s, owner := open(b)
	if _, err := connect(b, owner).Exec(context.Background(), hundredThousand); err != nil {
		b.Fatal(err)
	}
	for _, days := range []int{30, 90} {
		b.Run(fmt.Sprint(days, " days"), func(b *testing.B) {
			for b.Loop() {
				got, err := statisticsOf(b, s, func(q *StatisticsQuery) {
					q.Since, q.Most, q.Listed = time.Now().AddDate(0, 0, -days), 200_000, 12
				})
				if err != nil || len(got.Days) < days || len(got.Tools) != 12 || len(got.Reviewers) < 20 {
					b.Fatalf("%d days, %d tools, %d people, %v", len(got.Days), len(got.Tools), len(got.Reviewers), err)
				}
			}
		})
	}
}
