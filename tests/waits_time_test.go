package tests

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestQuestionStopsTheClock: while a question is open the clock stands still as
// long as the rule says, and goes on with the answer.
func TestQuestionStopsTheClock(t *testing.T) {
	d := onWaiting(t)
	agent, reviewer := d.agent(t), d.reviewer(t, ada)
	// What nobody answers, for the end: its time passes meanwhile.
	short, not := agent.hold("askshort_x", nil), agent.hold("asknopause_x", nil)
	reviewer.act(short.ID, "questions", map[string]any{"comment": "Which?"}).want(t, 200)
	reviewer.act(not.ID, "questions", map[string]any{"comment": "Which?"}).want(t, 200)

	a := agent.hold("ask_x", nil)
	agent.act(a.ID, "answers", map[string]any{"information": "Nobody asked."}).want(t, 409, "nothing_to_answer")
	reviewer.act(a.ID, "questions", map[string]any{"comment": " "}).want(t, 422, "reason_required")
	d.as(t, d.Owner).act(a.ID, "questions", map[string]any{"comment": "Why?"}).want(t, 403, "self_review")
	asked := reviewer.act(a.ID, "questions", map[string]any{"comment": "Which account?"}).want(t, 200).approval(t)
	d.reviewer(t, ben).act(a.ID, "questions", map[string]any{"comment": "And why?"}).want(t, 409, "already_asked")
	if got := agent.get(a.ID); got.NextAction != "answer" || got.Question == nil || got.Question.Text != "Which account?" ||
		!got.PausedUntil.Equal(got.Question.At.Add(time.Hour)) || !got.ExpiresAt.Equal(a.ExpiresAt.Add(time.Hour)) {
		t.Errorf("with an open question: %+v", got)
	}
	past(a.ExpiresAt)
	if got := agent.get(a.ID); got.Status != "pending" {
		t.Fatalf("the clock did not stand still: %+v", got)
	}
	agent.act(a.ID, "answers", map[string]any{"confirmed": true, "information": "x"}).want(t, 422, "invalid_body")
	answering := time.Now()
	resumed := agent.act(a.ID, "answers", map[string]any{"information": "The one of the invoice."}).want(t, 200).approval(t)
	// It stood still from the question to the answer, and no longer.
	stood := resumed.ExpiresAt.Sub(a.ExpiresAt)
	if stood < answering.Sub(asked.Question.At) || stood > time.Since(asked.Question.At) || resumed.Question != nil || resumed.NextAction != "wait" {
		t.Errorf("the clock stood still for %s: %+v", stood, resumed)
	}
	if len(resumed.Comments) != 2 || resumed.Comments[1].Kind != "information" || resumed.Comments[1].Text != "The one of the invoice." {
		t.Errorf("comments %+v", resumed.Comments)
	}
	reviewer.approve(resumed)
	if got := agent.wait(a.ID); got.Status != "approved" {
		t.Errorf("got %+v", got)
	}

	// Who answers for the agent may answer too, and nobody else.
	b := agent.hold("ask_y", nil)
	reviewer.act(b.ID, "questions", map[string]any{"comment": "Which?"}).want(t, 200)
	d.reviewer(t, ben).act(b.ID, "information", map[string]any{"comment": "I guess."}).want(t, 403, "not_accountable")
	d.as(t, d.Owner).act(b.ID, "information", map[string]any{"comment": "This one."}).want(t, 200)
	agent.cancel(b.ID).want(t, 200)

	// Where nobody answers, it stands still no longer than the rule lets it; where
	// the rule says nothing, not at all.
	if got := agent.wait(not.ID); got.Status != "expired" || got.EndedAt.Before(not.ExpiresAt) {
		t.Errorf("without a pause: %+v", got)
	}
	if got := agent.wait(short.ID); got.Status != "expired" || got.EndedAt.Before(short.ExpiresAt.Add(time.Second)) || got.EndedAt.After(short.ExpiresAt.Add(time.Second+healWithin)) {
		t.Errorf("with a pause of a second: %+v, first %s", got, short.ExpiresAt)
	}
}

// TestExtension: those whom the rule names give it more time, others do not.
func TestExtension(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	a, b := agent.hold("extend_x", nil), agent.hold("extend_y", nil)
	more := map[string]any{"by": "1h", "comment": "We are on it."}
	d.reviewer(t, dina).act(a.ID, "extensions", more).want(t, 403, "not_eligible")
	d.as(t, d.Owner).act(a.ID, "extensions", more).want(t, 403, "self_review")
	for by, status := range map[string]int{"0s": 422, "-1h": 422, "2161h": 422, "soon": 422} {
		if got := d.reviewer(t, ada).act(a.ID, "extensions", map[string]any{"by": by}); got.Status != status && got.Status != 400 {
			t.Errorf("by %s: %s", by, got)
		}
	}
	agent.act(a.ID, "extensions", more).want(t, 403, "machine_principal")
	if got := agent.get(a.ID); !got.ExpiresAt.Equal(a.ExpiresAt) {
		t.Fatalf("it was extended to %s", got.ExpiresAt)
	}
	got := d.reviewer(t, ada).act(a.ID, "extensions", more).want(t, 200).approval(t)
	if !got.ExpiresAt.Equal(a.ExpiresAt.Add(time.Hour)) || got.Version != a.Version {
		t.Errorf("after an hour more: %+v", got)
	}
	past(a.ExpiresAt)
	d.reviewer(t, dina).approve(a)
	if got := agent.wait(a.ID); got.Status != "approved" {
		t.Errorf("after its first deadline: %+v", got)
	}
	// Too late is too late.
	past(b.ExpiresAt)
	d.reviewer(t, ada).act(b.ID, "extensions", more).want(t, 410, "expired")
	if got := agent.wait(b.ID); got.Status != "expired" {
		t.Errorf("got %+v", got)
	}
}

// TestEscalation: when it has waited, others may decide as well; not before.
func TestEscalation(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	a := agent.hold("late_x", nil)
	d.reviewer(t, dina).vote(a, "approve").want(t, 403, "not_eligible")
	d.reviewer(t, dina).vote(a, "deny").want(t, 403, "not_eligible")
	past(a.OpenedAt.Add(8 * time.Second))
	if got := agent.get(a.ID); !slices.Equal(got.Requirements[0].Escalated, []string{"finance-approver"}) {
		t.Errorf("after eight seconds: %+v", got.Requirements)
	}
	eventually(t, healWithin, "people are told of it", func() bool {
		return d.count(t, `SELECT count(*) FROM announcements WHERE approval_id = $1 AND tell = 'escalated'`, a.ID) == 1
	})
	d.reviewer(t, dina).approve(a)
	if got := agent.wait(a.ID); got.Status != "approved" {
		t.Errorf("after the escalation: %+v", got)
	}
	// People were told of each once, and of nothing that did not come up.
	if n := d.count(t, `SELECT count(*) FROM announcements WHERE approval_id = $1 AND tell IN ('reminder', 'escalated')
		AND at BETWEEN $2::timestamptz + CASE tell WHEN 'reminder' THEN interval '500 ms' ELSE interval '8 s' END AND clock_timestamp()`, a.ID, a.OpenedAt); n != 2 {
		t.Errorf("people were told %d times in time", n)
	}
	if n := d.count(t, `SELECT count(*) FROM announcements WHERE approval_id = $1`, a.ID); n != 4 {
		t.Errorf("people were told %d things, want: opened, a reminder, an escalation, the end", n)
	}
}

// TestNobodyMayDecide: where there is nobody, others are asked at once; and what
// nobody at all may decide is never approved.
func TestNobodyMayDecide(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	a, lost := agent.hold("nobody_x", nil), agent.hold("lost_x", nil)
	eventually(t, settleWithin, "it is escalated", func() bool { return len(agent.get(a.ID).Requirements[0].Escalated) == 1 })
	if story := d.admin(t).story(a.ID); !slices.ContainsFunc(story, func(line string) bool {
		return strings.HasPrefix(line, "escalate ") && strings.HasSuffix(line, " NOBODY_ELIGIBLE")
	}) {
		t.Errorf("story %q", story)
	}
	if got := agent.get(a.ID); got.Status != "pending" || got.Requirements[0].Given != 0 {
		t.Errorf("escalated, and not approved: %+v", got)
	}
	d.reviewer(t, dina).approve(a)
	if got := agent.wait(a.ID); got.Status != "approved" {
		t.Errorf("got %+v", got)
	}
	d.reviewer(t, ada).vote(lost, "approve").want(t, 404, "not_found")
	if got := agent.wait(lost.ID); got.Status != "expired" || got.EndedAt.Before(lost.ExpiresAt) || got.Reasons[0].Code != "TIMEOUT" {
		t.Errorf("what nobody may decide: %+v", got)
	}
}

// TestBusinessHours: deadlines count in the rule's hours only.
func TestBusinessHours(t *testing.T) {
	d := onWaiting(t)
	a := d.agent(t).hold("hours_x", nil)
	// An hour and a half on the next such day, and half an hour a week later.
	day := a.OpenedAt.UTC().Truncate(24 * time.Hour)
	var hours struct{ at time.Time }
	for hours.at = day.Add(10 * time.Hour); hours.at.Weekday() != weekdayOf(t, d); hours.at = hours.at.AddDate(0, 0, 1) {
		continue
	}
	if want := hours.at.Add(30 * time.Minute); !a.Requirements[0].ExpiresAt.Equal(want) {
		t.Errorf("within half an hour: %s, want %s", a.Requirements[0].ExpiresAt, want)
	}
	if want := hours.at.AddDate(0, 0, 7).Add(30 * time.Minute); a.ExpiresAt.Sub(want).Abs() > time.Second {
		t.Errorf("in two hours: %s, want %s", a.ExpiresAt, want)
	}
	d.agent(t).cancel(a.ID).want(t, 200)
}

// weekdayOf is the day on which the program's people work.
func weekdayOf(t testing.TB, d *dev) time.Weekday {
	t.Helper()
	_, text, _ := strings.Cut(d.policy(), "hours: {")
	for day := range time.Weekday(7) {
		if strings.HasPrefix(text, strings.ToLower(day.String()[:3])+":") {
			return day
		}
	}
	t.Fatalf("no day in %s", d.policy())
	return 0
}

// TestClaimAndComments: taking something on keeps nobody else from deciding, and
// what is said of it the agent reads.
func TestClaimAndComments(t *testing.T) {
	d := onWaiting(t)
	agent, first, second := d.agent(t), d.reviewer(t, ada), d.reviewer(t, ben)
	a := agent.hold("orders_claimed", nil)
	first.act(a.ID, "claim", nil).want(t, 200)
	first.act(a.ID, "claim", nil).want(t, 409, "already_voted")
	second.act(a.ID, "unclaim", nil).want(t, 409, "not_claimed")
	d.as(t, d.Owner).act(a.ID, "claim", nil).want(t, 403, "self_review")
	second.approve(a)
	first.act(a.ID, "unclaim", nil).want(t, 200)
	first.act(a.ID, "unclaim", nil).want(t, 409, "not_claimed")
	second.act(a.ID, "claim", nil).want(t, 200)
	first.act(a.ID, "comments", map[string]any{"comment": ""}).want(t, 422, "reason_required")
	first.act(a.ID, "comments", map[string]any{"comment": "Looks right to me."}).want(t, 200)
	d.as(t, d.Auditor).act(a.ID, "comments", map[string]any{"comment": "Noted."}).want(t, 200)
	d.as(t, d.newPerson(t, "--role", "gardener")).act(a.ID, "comments", map[string]any{"comment": "I am curious."}).want(t, 404, "not_found")
	got := agent.get(a.ID)
	if len(got.Comments) != 2 || got.Comments[0].Text != "Looks right to me." || got.Comments[1].Kind != "comment" || got.Version != a.Version {
		t.Errorf("the agent reads %+v", got)
	}
	first.approve(a)
	agent.wait(a.ID)
	first.act(a.ID, "comments", map[string]any{"comment": "Too late."}).want(t, 409, "already_approved")
}
