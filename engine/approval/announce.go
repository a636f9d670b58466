package approval

import (
	"fmt"
	"time"

	"holdpoint/engine"
)

// Tell is what people are told of.
type Tell string

// What people are told of. The last four are found by whoever settles.
const (
	TellOpened           Tell = "opened"
	TellStage            Tell = "stage"
	TellEdited           Tell = "edited"
	TellReminder         Tell = "reminder"
	TellEscalated        Tell = "escalated"
	TellInfoRequested    Tell = "info_requested"
	TellInfoGiven        Tell = "info_given"
	TellBreakGlass       Tell = "break_glass"
	TellDecided          Tell = "decided"
	TellNobody           Tell = "nobody_eligible"
	TellReviewOwed       Tell = "review_owed"
	TellExecutionUnknown Tell = "execution_unknown"

	turned Tell = ""
)

// Announcement is something that people are to be told, once.
type Announcement struct {
	// Key is the same whenever it is found again, and no other's within the approval.
	Key  string
	Tell Tell
	// Stage is the requirement that it is about.
	Stage int
}

func (m *machine) tell(what Tell, key string, stage int) {
	if what == turned {
		what = TellStage
		if stage == 0 {
			what = TellOpened
			if m.p.Edition > 1 {
				what = TellEdited
			}
		}
	}
	m.Due = append(m.Due, Announcement{Key: key, Tell: what, Stage: stage})
}

// remind adds what has come up by the mere passing of time.
func (m *machine) remind(now time.Time) {
	for i := m.lo; i < m.hi; i++ {
		if m.Requirements[i].Given >= m.Requirements[i].Needed {
			continue
		}
		past := func(after engine.Duration) bool { return !now.Before(m.reach(i, after)) }
		for k, after := range m.p.Requirements[i].Reminders {
			if past(after) {
				m.tell(TellReminder, fmt.Sprintf("reminder/%d/%d/%d", m.p.Edition, i, k), i)
			}
		}
		for k, e := range m.p.Requirements[i].Escalation {
			if past(e.After) && (m.escalated == nil || !m.escalated.At.Before(m.reach(i, e.After))) {
				m.tell(TellEscalated, fmt.Sprintf("escalated/%d/%d/%d", m.p.Edition, i, k), i)
			}
		}
	}
}
