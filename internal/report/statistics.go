package report

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// StatisticsFrom is how many decisions it takes before a share or a percentile of them
// says anything: those of fewer are marked.
const StatisticsFrom = 5

const (
	// statisticsListed is how many tools, agents and grants are shown.
	statisticsListed = 12
	// maxCounted is how many approvals, and how many votes, are looked at.
	maxCounted = 200_000
	// dailyUntil is how long a period is shown by days; longer ones are by weeks.
	dailyUntil = 93 * 24 * time.Hour
)

// WaitingAges are the ages by which what waits is counted; what is older comes last.
var WaitingAges = []time.Duration{10 * time.Minute, time.Hour, 4 * time.Hour, 24 * time.Hour, 72 * time.Hour}

type (
	// Rate is how the approvals of a tool or an agent ended.
	Rate = store.RateStatistics
	// Votes is how often somebody voted.
	Votes = store.VoteStatistics
)

// StatisticsReport counts what happened in a period, and what waits.
type StatisticsReport struct {
	Since, Until time.Time
	Weekly       bool
	store.Statistics
}

// Statistics counts what ended in a period, how it ended and how long it took, who voted,
// and what waits now. Zero times stand for the last thirty days.
func (s Reports) Statistics(ctx context.Context, since, until time.Time) (StatisticsReport, error) {
	var r StatisticsReport
	now, err := s.Store.Now(ctx)
	if err != nil {
		return r, err
	}
	if r.Since, r.Until, err = reportPeriod(since, until, now); err != nil {
		return r, err
	}
	r.Weekly = r.Until.Sub(r.Since) > dailyUntil
	r.Statistics, err = s.Store.Reports.Statistics(ctx, store.StatisticsQuery{
		Since: r.Since, Until: r.Until, Weekly: r.Weekly, Ages: WaitingAges, Listed: statisticsListed, Most: maxCounted,
	})
	if errors.Is(err, store.ErrTooMany) {
		return r, &access.Refusal{Kind: access.Invalid, Code: "period_too_long", Detail: fmt.Sprintf("More than %d approvals ended in this period, or as many votes were cast. Choose a shorter one.", maxCounted)}
	}
	return r, err
}
