package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/store"
)

// Night is between these hours of the reviewers' time zone.
const (
	nightFrom = 22
	nightTo   = 6
)

// What the reviewer report takes for a sign of fatigue. None is proof: each says
// where to look.
const (
	// QuickVote is how soon after the card was first shown a vote is hardly the
	// result of reading it.
	QuickVote = 5 * time.Second
	// NoteFrom is how many decisions it takes before anything is noted.
	NoteFrom = 20
	// QuickShare, YesShare, OffHoursShare and AloneShare are in percent.
	QuickShare    = 25
	YesShare      = 98
	OffHoursShare = 30
	AloneShare    = 50
	// BusyDay is how many decisions on one day are many.
	BusyDay = 40
	// maxVotes is how many votes a report looks at.
	maxVotes = 100000
)

// ReviewerQuery says which votes a reviewer report is about. Zero times stand
// for the last thirty days, and "" for UTC.
type ReviewerQuery struct {
	Since, Until time.Time
	Zone         string
}

// ReviewerReport says what reviewers did in a period.
type ReviewerReport struct {
	Now       time.Time      `json:"now"`
	Since     time.Time      `json:"since"`
	Until     time.Time      `json:"until"`
	Zone      string         `json:"zone" doc:"The time zone by which it was night or a weekend."`
	Reviewers []ReviewerLoad `json:"reviewers" doc:"Those who did most come first."`
	Total     ReviewerLoad   `json:"total"`
	// ShiftsSince is from when on shifts are known.
	ShiftsSince time.Time `json:"shifts_since" doc:"Shifts that ended before are forgotten: alone_on_call counts from then on."`
}

// ReviewerLoad is what one reviewer did. A vote that somebody changed counts
// once, as it stood last.
type ReviewerLoad struct {
	PersonID       string     `json:"person_id,omitempty"`
	Name           string     `json:"name,omitempty"`
	Email          string     `json:"email,omitempty"`
	Disabled       bool       `json:"disabled,omitempty"`
	Decided        int        `json:"decided"`
	Approved       int        `json:"approved"`
	Denied         int        `json:"denied"`
	ApprovedShare  *float64   `json:"approved_share,omitempty" doc:"Percent."`
	MedianSeconds  *float64   `json:"median_seconds,omitempty" doc:"From when the call was put to people until the vote."`
	P95Seconds     *float64   `json:"p95_seconds,omitempty"`
	Timed          int        `json:"timed" doc:"Votes of which it is known when the card was shown."`
	Quick          int        `json:"quick" doc:"Of those, cast within 5 seconds of the card being shown."`
	Nights         int        `json:"nights" doc:"22:00 to 06:00."`
	Weekends       int        `json:"weekends"`
	OffHours       int        `json:"off_hours" doc:"At night or on a weekend."`
	Questions      int        `json:"questions"`
	OnCall         int        `json:"on_call" doc:"While on call."`
	AloneOnCall    int        `json:"alone_on_call" doc:"Of those, while nobody else was on the schedule."`
	ByGrant        int        `json:"by_grant" doc:"Cast beforehand, by standing grants; counted nowhere else."`
	AsDeputy       int        `json:"as_deputy" doc:"In somebody else's place."`
	BusiestDay     string     `json:"busiest_day,omitempty"`
	BusiestDecided int        `json:"busiest_decided,omitempty"`
	LastVote       *time.Time `json:"last_vote,omitempty"`
	Notes          []LoadNote `json:"notes"`
}

// LoadNote is something that looks like fatigue.
type LoadNote struct {
	Code string `json:"code" enum:"quick_votes,always_yes,off_hours,alone,busy_day"`
	Text string `json:"text"`
}

// Reviewers reports what reviewers did in a period.
func (s Reports) Reviewers(ctx context.Context, q ReviewerQuery) (ReviewerReport, error) {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return ReviewerReport{}, err
	}
	r := ReviewerReport{Now: now, Zone: cmp.Or(strings.TrimSpace(q.Zone), "UTC"), Reviewers: []ReviewerLoad{}}
	if r.Since, r.Until, err = reportPeriod(q.Since, q.Until, now); err != nil {
		return r, err
	}
	noZone := &access.Refusal{Kind: access.Invalid, Code: "zone", Detail: "There is no such time zone. Write one such as Europe/Berlin, or UTC."}
	if _, err := time.LoadLocation(r.Zone); err != nil || r.Zone == "Local" {
		return r, noZone
	}
	people, total, err := s.Store.Reports.Loads(ctx, store.LoadQuery{
		Since: r.Since, Until: r.Until, Zone: r.Zone, Quick: QuickVote, NightFrom: nightFrom, NightTo: nightTo, Most: maxVotes,
	})
	switch {
	case errors.Is(err, store.ErrTooMany):
		return r, &access.Refusal{Kind: access.Invalid, Code: "period_too_long", Detail: fmt.Sprintf("There are more than %d votes and questions in this period. Choose a shorter one.", maxVotes)}
	case errors.Is(err, store.ErrUnstorable):
		return r, noZone
	case err != nil:
		return r, err
	}
	everybody, err := s.Store.People.List(ctx)
	if err != nil {
		return r, err
	}
	// Shifts that ended ninety days ago may be gone.
	r.ShiftsSince = now.Add(-admin.MaxAway)
	if r.Since.After(r.ShiftsSince) {
		r.ShiftsSince = r.Since
	}
	r.Total = loadOf(total)
	for _, one := range people {
		l := loadOf(one)
		l.Name = one.PersonID
		for _, p := range everybody {
			if p.ID == one.PersonID {
				l.Name, l.Email, l.Disabled = cmp.Or(p.Name, p.Email), p.Email, p.Disabled
			}
		}
		l.Notes = notesOn(l)
		r.Reviewers = append(r.Reviewers, l)
	}
	return r, nil
}

func loadOf(s store.Load) ReviewerLoad {
	l := ReviewerLoad{
		PersonID: s.PersonID, Decided: s.Decided, Approved: s.Approved, Denied: s.Denied, Timed: s.Timed, Quick: s.Quick, Nights: s.Nights, Weekends: s.Weekends,
		OffHours: s.OffHours, Questions: s.Questions, OnCall: s.OnCall, AloneOnCall: s.Alone, ByGrant: s.ByGrant, AsDeputy: s.AsDeputy,
		BusiestDecided: s.Busiest, Notes: []LoadNote{},
	}
	if s.Decided > 0 {
		share, median, p95 := percent(s.Approved, s.Decided), s.Median.Seconds(), s.P95.Seconds()
		l.ApprovedShare, l.MedianSeconds, l.P95Seconds = &share, &median, &p95
	}
	if !s.BusiestDay.IsZero() {
		l.BusiestDay = s.BusiestDay.Format(time.DateOnly)
	}
	if !s.LastVote.IsZero() {
		l.LastVote = &s.LastVote
	}
	return l
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(whole) }

// notesOn says what looks like fatigue. A few decisions say nothing.
func notesOn(l ReviewerLoad) []LoadNote {
	notes := []LoadNote{}
	if l.Decided < NoteFrom {
		return notes
	}
	note := func(code, format string, args ...any) {
		notes = append(notes, LoadNote{code, fmt.Sprintf(format, args...)})
	}
	if l.Timed >= NoteFrom && percent(l.Quick, l.Timed) >= QuickShare {
		note("quick_votes", "%.0f%% of the votes came within %d seconds of seeing the card: too soon to have read it.", percent(l.Quick, l.Timed), int(QuickVote.Seconds()))
	}
	if percent(l.Approved, l.Decided) >= YesShare {
		note("always_yes", "%d of %d were approved: either what is asked needs no person, or nobody looks.", l.Approved, l.Decided)
	}
	if percent(l.OffHours, l.Decided) >= OffHoursShare {
		note("off_hours", "%.0f%% were decided at night or on a weekend.", percent(l.OffHours, l.Decided))
	}
	if percent(l.AloneOnCall, l.Decided) >= AloneShare {
		note("alone", "%.0f%% were decided while nobody else was on call.", percent(l.AloneOnCall, l.Decided))
	}
	if l.BusiestDecided >= BusyDay {
		note("busy_day", "%d were decided on one day, %s.", l.BusiestDecided, l.BusiestDay)
	}
	return notes
}
