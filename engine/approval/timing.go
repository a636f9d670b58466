package approval

import (
	"math"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/calendar"
)

// span is a time in which the clock stands still.
type span struct{ from, to time.Time }

// clock counts time: all of it, or that of a calendar.
type clock interface {
	Add(from time.Time, d time.Duration) time.Time
	Between(from, to time.Time) time.Duration
}

type everyHour struct{}

func (everyHour) Add(from time.Time, d time.Duration) time.Time { return from.Add(d) }

func (everyHour) Between(from, to time.Time) time.Duration { return max(to.Sub(from), 0) }

// clock is the one by which requirement i's times count. Hours that cannot be
// read are all hours: what waits ends sooner, never later.
func (m *machine) clock(i int) clock {
	name := m.p.Requirements[i].Calendar
	if name == "" {
		return everyHour{}
	}
	c, known := m.clocks[name]
	if !known {
		c = compiled(m.p.Calendars, name)
		if m.clocks == nil {
			m.clocks = map[string]clock{}
		}
		m.clocks[name] = c
	}
	return c
}

func compiled(calendars map[string]calendar.Calendar, name string) clock {
	c, known := calendars[name]
	if !known {
		return everyHour{}
	}
	w, err := c.Compile()
	if err != nil {
		return everyHour{}
	}
	return w
}

// dueAfter is the moment at which requirement i has waited for d since its turn
// came, by its clock, which stood still while questions were open.
func (m *machine) dueAfter(i int, d engine.Duration) time.Time {
	c := m.clock(i)
	return m.shift(c, c.Add(m.since, time.Duration(d)))
}

// shift moves a moment by the times that the clock stood still before it. An
// open question is counted as though it stayed open for as long as it may.
func (m *machine) shift(c clock, at time.Time) time.Time {
	for _, p := range m.pauses {
		if p.from.Before(at) && p.to.After(m.since) {
			from := p.from
			if from.Before(m.since) {
				from = m.since
			}
			at = c.Add(p.to, c.Between(from, at))
		}
	}
	return at
}

// due is when requirement i's time is up.
func (m *machine) due(i int) time.Time {
	overall := m.overall()
	within := m.p.Requirements[i].Within
	if within <= 0 {
		return overall
	}
	if own := m.dueAfter(i, within+engine.Duration(m.extended)); own.Before(overall) {
		return own
	}
	return overall
}

// overall is the deadline of the whole, with extensions and pauses. Extensions
// count in all hours.
func (m *machine) overall() time.Time {
	at := m.p.ExpiresAt.Add(m.extended)
	for _, p := range m.pauses {
		if p.from.Before(at) {
			at = p.to.Add(at.Sub(p.from))
		}
	}
	return at
}

// deadline is when the first of the requirements that still wait has no time
// left.
func (m *machine) deadline() time.Time {
	at := m.overall()
	for i := m.lo; i < m.hi; i++ {
		if m.Requirements[i].Given >= m.Requirements[i].Needed {
			continue
		}
		if due := m.due(i); due.Before(at) {
			at = due
		}
	}
	return at
}

// paused is for how long the clock has stood still, or still may.
func (m *machine) paused() time.Duration {
	var total time.Duration
	for _, p := range m.pauses {
		total += p.to.Sub(p.from)
	}
	return total
}

// factAt is a fact that comes at now, behind all others.
func factAt(now time.Time) *Fact { return &Fact{At: now, Seq: math.MaxInt64} }

// escalatedTo lists the roles whose people might decide requirement i as well when the
// fact came: who speaks too early is not heard later.
func (m *machine) escalatedTo(i int, f *Fact) []string {
	roles := m.escalation(i, f)
	if w := m.widened; w != nil && f.Seq > w.Seq && slices.Contains(w.Details.Widened, i) && !slices.Contains(roles, m.p.IfTooFew) {
		roles = append(roles, m.p.IfTooFew)
	}
	return roles
}

// escalation lists the roles to which requirement i had been escalated.
func (m *machine) escalation(i int, f *Fact) []string {
	var roles []string
	for _, e := range m.p.Requirements[i].Escalation {
		if m.escalated != nil && f.Seq > m.escalated.Seq || !f.At.Before(m.dueAfter(i, e.After)) {
			roles = append(roles, e.Role)
		}
	}
	return roles
}

// hasLater reports whether there is anybody to escalate to who may not decide yet.
func (m *machine) hasLater(f *Fact) bool {
	for i := m.lo; i < m.hi; i++ {
		if len(m.escalation(i, f)) < len(m.p.Requirements[i].Escalation) {
			return true
		}
	}
	return false
}

// CarryOver is what an edition that begins at now takes over from the former one:
// the overall deadline, moved by the pauses until now, and the time for which
// questions may still pause it. An open question ends with its edition.
func CarryOver(p Plan, facts []Fact, now time.Time) (expires time.Time, pauseFor engine.Duration) {
	m := replay(p, facts, now)
	if last := len(m.pauses) - 1; last >= 0 && m.pauses[last].to.After(now) {
		m.pauses[last].to = now
	}
	return m.overall(), max(p.PauseFor-engine.Duration(m.paused()), 0)
}
