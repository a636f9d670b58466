package approval

import (
	"fmt"
	"time"

	"holdpoint/engine"
)

// Notification is something that people are told of an approval, once.
type Notification struct {
	// Key is the same whenever it is found again, and no other's within the approval.
	Key  string
	Kind engine.NotificationKind
	// Stage is the requirement that it is about.
	Stage int
}

func (m *machine) notify(kind engine.NotificationKind, key string, stage int) {
	m.Due = append(m.Due, Notification{Key: key, Kind: kind, Stage: stage})
}

// notifyTurn adds that it is a requirement's turn.
func (m *machine) notifyTurn(i int) {
	kind := engine.NotifyStage
	if i == 0 {
		kind = engine.NotifyOpened
		if m.p.Edition > 1 {
			kind = engine.NotifyEdited
		}
	}
	m.notify(kind, fmt.Sprintf("turn/%d/%d", m.p.Edition, i), i)
}

// remind adds what has come up by the mere passing of time.
func (m *machine) remind(now time.Time) {
	for i := m.lo; i < m.hi; i++ {
		if m.Requirements[i].Given >= m.Requirements[i].Needed {
			continue
		}
		past := func(after engine.Duration) bool { return !now.Before(m.dueAfter(i, after)) }
		for k, after := range m.p.Requirements[i].Reminders {
			if past(after) {
				m.notify(engine.NotifyReminder, fmt.Sprintf("reminder/%d/%d/%d", m.p.Edition, i, k), i)
			}
		}
		for k, e := range m.p.Requirements[i].Escalation {
			if past(e.After) && (m.escalated == nil || !m.escalated.At.Before(m.dueAfter(i, e.After))) {
				m.notify(engine.NotifyEscalated, fmt.Sprintf("escalated/%d/%d/%d", m.p.Edition, i, k), i)
			}
		}
	}
}
