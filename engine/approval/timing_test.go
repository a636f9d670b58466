package approval

import (
	"slices"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/calendar"
)

// Eight business hours from Friday 13:00 end on Monday 13:00 by the wall, whether
// the clocks were changed in between or not.
func TestAcrossDST(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		friday time.Time
		real   time.Duration
	}{
		{time.Date(2026, 3, 27, 13, 0, 0, 0, berlin), 71 * time.Hour},
		{time.Date(2026, 3, 20, 13, 0, 0, 0, berlin), 72 * time.Hour},
		{time.Date(2026, 10, 23, 13, 0, 0, 0, berlin), 73 * time.Hour},
	} {
		r := review(1)
		r.Within, r.Calendar = 8*hour, "office"
		p := Plan{OpenedAt: tc.friday, ExpiresAt: tc.friday.Add(MaxExpiresIn), Requirements: []engine.Requirement{r}}
		p.Calendars = map[string]calendar.Calendar{"office": office}
		want := tc.friday.AddDate(0, 0, 3)
		s := Advance(p, nil, tc.friday)
		if !s.Deadline.Equal(want) || s.Deadline.Sub(tc.friday) != tc.real {
			t.Errorf("from %s until %s, want %s", tc.friday, s.Deadline.In(berlin), want)
		}
		for after, status := range map[time.Duration]Status{-time.Millisecond: Pending, 0: Expired, time.Millisecond: Expired} {
			if got := Advance(p, nil, want.Add(after)); got.Status != status {
				t.Errorf("%s after the deadline it is %s, want %s", after, got.Status, status)
			}
		}
		expiry := Routing{Calendars: p.Calendars}.Expiry(Rule{ExpiresIn: 8 * hour, Calendar: "office"}, tc.friday)
		if !expiry.Equal(want) {
			t.Errorf("the whole expires at %s, want %s", expiry, want)
		}
	}
}

func TestToTheMillisecond(t *testing.T) {
	p := plan(review(1))
	for at, want := range map[time.Duration]Status{time.Minute - time.Millisecond: Approved, time.Minute: Expired, time.Minute + time.Millisecond: Expired} {
		wantStatus(t, Advance(p, []Fact{yes(1, "ada", at)}, start.Add(at)), want)
	}
	cancel := Fact{Seq: 2, At: start.Add(2), Kind: Cancel, Actor: engine.Actor{Kind: engine.AgentActor}}
	wantStatus(t, try(t, p, []Fact{yes(1, "ada", 2), cancel}, nil, ErrDecided), Approved)
	cancel.Seq = 0
	wantStatus(t, try(t, p, []Fact{cancel, yes(1, "ada", 2)}, nil, ErrDecided), Cancelled)
}

func TestPauseAndResume(t *testing.T) {
	p := long(review(1))
	p.PauseFor, p.Requirements[0].Within = 2*hour, 8*hour
	info := Fact{Seq: 2, At: start.Add(90 * time.Minute), Kind: Information, Comment: "this", Actor: engine.Actor{Kind: engine.AgentActor}}
	question := by(1, Question, "ada", time.Hour)
	if s := try(t, p, []Fact{question}); !s.PausedUntil.Equal(start.Add(3*time.Hour)) || !s.Deadline.Equal(start.Add(10*time.Hour)) || s.Question == nil {
		t.Errorf("asked: %+v", s)
	}
	if s := try(t, p, []Fact{question, info}); !s.PausedUntil.IsZero() || !s.Deadline.Equal(start.Add(8*time.Hour+30*time.Minute)) || s.Question != nil {
		t.Errorf("answered: %+v", s)
	}
	// The second question may stop the clock for what is left, the third not at all.
	facts := []Fact{question, info, by(3, Question, "ben", 2*time.Hour)}
	if s := try(t, p, facts); !s.PausedUntil.Equal(start.Add(3*time.Hour + 30*time.Minute)) {
		t.Errorf("asked again: %+v", s)
	}
	info.Seq, info.At = 4, start.Add(5*time.Hour)
	facts = append(facts, info, by(5, Question, "ada", 6*time.Hour))
	if s := try(t, p, facts); !s.PausedUntil.IsZero() || !s.Deadline.Equal(start.Add(10*time.Hour)) || !s.ExpiresAt.Equal(start.Add(26*time.Hour)) {
		t.Errorf("asked a third time: %+v", s)
	}
	wantStatus(t, try(t, p, []Fact{question, by(2, Question, "ben", 61*time.Minute)}, nil, ErrAsked), Pending)
}

// A weekend's question takes nothing of business hours away.
func TestPauseWithCalendar(t *testing.T) {
	r := review(1)
	r.Within, r.Calendar = 8*hour, "office"
	friday := time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)  // 13:00 CET
	monday := time.Date(2026, 3, 30, 11, 0, 0, 0, time.UTC)  // 13:00 CEST
	saturday := time.Date(2026, 3, 28, 9, 0, 0, 0, time.UTC) // nobody works
	p := Plan{OpenedAt: friday, ExpiresAt: friday.Add(MaxExpiresIn), Requirements: []engine.Requirement{r}}
	p.Calendars, p.PauseFor = map[string]calendar.Calendar{"office": office}, 72*hour
	ask := func(at time.Time) Fact {
		f := by(1, Question, "ada", 0)
		f.At = at
		return f
	}
	info := Fact{Seq: 2, At: saturday.Add(24 * time.Hour), Kind: Information, Comment: "this", Actor: engine.Actor{Kind: engine.AgentActor}}
	if s := try(t, p, []Fact{ask(saturday), info}); !s.Deadline.Equal(monday) {
		t.Errorf("over the weekend: %s, want %s", s.Deadline, monday)
	}
	info.At = friday.Add(2 * time.Hour)
	if s := try(t, p, []Fact{ask(friday.Add(time.Hour)), info}); !s.Deadline.Equal(monday.Add(time.Hour)) {
		t.Errorf("for an hour of work: %s, want %s", s.Deadline, monday.Add(time.Hour))
	}
}

func TestExtend(t *testing.T) {
	p := plan(review(1))
	p.Extenders = []string{"b"}
	extend := func(seq int64, who string, d time.Duration) Fact {
		f := by(seq, Extend, who, time.Second)
		f.Details.By = engine.Duration(d)
		return f
	}
	most := MaxExpiresIn - time.Minute
	for _, tc := range []struct {
		fact Fact
		want error
	}{
		{extend(1, "cleo", time.Hour), nil},
		{extend(1, "ada", time.Hour), ErrNotEligible},
		{extend(1, "owner", time.Hour), ErrSelfReview},
		{extend(1, "disabled", time.Hour), ErrNotEligible},
		{extend(1, "cleo", 0), ErrTooLong},
		{extend(1, "cleo", -1), ErrTooLong},
		{extend(1, "cleo", most), nil},
		{extend(1, "cleo", most+1), ErrTooLong},
		{extend(1, "cleo", 1<<63-1), ErrTooLong},
	} {
		s := try(t, p, []Fact{tc.fact}, tc.want)
		more := time.Duration(0)
		if tc.want == nil {
			more = time.Duration(tc.fact.Details.By)
		}
		if got, want := s.Deadline, p.ExpiresAt.Add(more); !got.Equal(want) {
			t.Errorf("until %s, want %s", got, want)
		}
	}
	try(t, p, []Fact{extend(1, "cleo", most), extend(2, "cleo", time.Nanosecond)}, nil, ErrTooLong)
	p.Extenders = nil
	try(t, p, []Fact{extend(1, "cleo", time.Hour)}, ErrNotEligible)
}

func TestEscalateAtOnce(t *testing.T) {
	p := long(review(1))
	try(t, p, []Fact{system(1, Escalate, 1)}, ErrNotEligible) // there is nobody to escalate to
	p.Requirements[0].Escalation = []engine.Escalation{{After: hour, Role: "c"}, {After: 2 * hour, Role: "d"}}
	byPerson := by(1, Escalate, "ada", 1)
	s := try(t, p, []Fact{byPerson, yes(2, "chief", 2), system(3, Escalate, 2), system(4, Escalate, 3)}, ErrNotEligible, ErrNotEligible, nil, ErrNotEligible)
	if s.Status != Pending || !slices.Equal(s.Requirements[0].Escalated, []string{"c", "d"}) {
		t.Errorf("escalated: %+v", s)
	}
	told := 0
	for _, n := range Advance(p, []Fact{system(1, Escalate, 1)}, start.Add(3*time.Hour)).Due {
		if n.Kind == engine.NotifyEscalated {
			told++
		}
	}
	if told != 1 {
		t.Errorf("people are told %d times that it has escalated", told)
	}
	wantStatus(t, try(t, p, []Fact{system(1, Escalate, 1), yes(2, "chief", 1)}), Approved)
}
