package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/report"
	"holdpoint/web/views"
)

// statistics shows what happened in a period as plots.
func (h *reportHandler) statistics(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	form, since, until, err := reportForm(r.URL.Query())
	v := views.Statistics{Frame: h.site.frame(p, "Statistics", "audit"), Form: form}
	v.Form.Periods = periods(h.site.clock().UTC(), "/audit/statistics", form)
	var found report.StatisticsReport
	if err == nil {
		found, err = h.reports.Statistics(r.Context(), since, until)
	}
	if detail, is := refused(err); is {
		v.Form.Failure = detail
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.StatisticsPage(v))
	}
	if err != nil {
		return err
	}
	fillPeriod(&v.Form, found.Since, found.Until)
	v.Ready, v.Since, v.Until = true, found.Since, found.Until
	var ids []string
	for _, a := range found.Agents {
		ids = append(ids, a.Name)
	}
	for _, one := range found.Reviewers {
		ids = append(ids, one.PersonID)
	}
	for _, g := range found.Grants {
		ids = append(ids, g.AgentID, g.PersonID)
	}
	name := h.site.names(r.Context(), ids...)
	v.Plots = []views.Plot{
		waitingPlot(found), timePlot(found), timeoutPlot(found),
		ratePlot("tools", "Approval rate by tool", "Tool", found.Tools, func(tool string) string { return tool }),
		ratePlot("agents", "Approval rate by agent", "Agent", found.Agents, name),
		loadPlot(found, name), grantPlot(found, name),
	}
	return h.site.renderList(w, r, views.StatisticsPage(v))
}

// waitingPlot shows what waits now, by age.
func waitingPlot(r report.StatisticsReport) views.Plot {
	p := views.Plot{ID: "waiting", Title: "Waiting now, by age", Table: views.PlotTable{Head: []string{"Waits for", "Approvals"}}}
	all := 0
	for _, n := range r.Waiting {
		all += n
	}
	for i, n := range r.Waiting {
		label := "less than " + ageWords(report.WaitingAges[0])
		switch {
		case i == len(report.WaitingAges):
			label = "longer"
		case i > 0:
			label = ageWords(report.WaitingAges[i-1]) + " to " + ageWords(report.WaitingAges[i])
		}
		p.Bars = append(p.Bars, views.Bar{Label: label, Value: views.Thousands(n), Parts: []float64{share(n, all)}})
		p.Table.Rows = append(p.Table.Rows, []string{label, views.Thousands(n)})
	}
	p.Summary = views.Plural(all, "approval waits", "approvals wait") + " now."
	return p
}

func ageWords(d time.Duration) string {
	switch {
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d <= 24*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

func share(n, all int) float64 {
	if all == 0 {
		return 0
	}
	return float64(n) / float64(all)
}

// each names what a column stands for.
func each(r report.StatisticsReport) string {
	if r.Weekly {
		return "Week from"
	}
	return "Day"
}

// columnsOf are the days or weeks of the period, with none left out, and for each the
// index of what there is, or -1.
func columnsOf(r report.StatisticsReport) (days []time.Time, at []int) {
	step, day := 1, r.Since.Truncate(24*time.Hour)
	if r.Weekly {
		step = 7
		for day.Weekday() != time.Monday {
			day = day.AddDate(0, 0, -1)
		}
	}
	for ; day.Before(r.Until); day = day.AddDate(0, 0, step) {
		i := -1
		for n, d := range r.Days {
			if d.Day.Equal(day) {
				i = n
			}
		}
		days, at = append(days, day), append(at, i)
	}
	return days, at
}

// timePlot shows how long decisions took.
func timePlot(r report.StatisticsReport) views.Plot {
	days, at := columnsOf(r)
	c := &views.Columns{Days: days, Steps: views.DurationSteps, Few: make([]bool, len(days)), Words: func(s float64) string { return axisWords(seconds(s)) }}
	p := views.Plot{
		ID: "time", Title: "Time to decision", Columns: c, Legend: []string{"half are decided within", "nine of ten are decided within"},
		Note:  fmt.Sprintf("From when a call was proposed until it was approved or denied. Hollow points are of fewer than %d decisions.", report.StatisticsFrom),
		Table: views.PlotTable{Head: []string{each(r), "Decisions", "Half within", "Nine of ten within"}},
	}
	half, most, n := make([]float64, len(days)), make([]float64, len(days)), 0
	for i := range days {
		half[i], most[i] = -1, -1
		if at[i] < 0 || r.Days[at[i]].Decided == 0 {
			continue
		}
		d := r.Days[at[i]]
		half[i], most[i], c.Few[i] = d.P50, d.P90, d.Decided < report.StatisticsFrom
		n += d.Decided
		p.Table.Rows = append(p.Table.Rows, []string{views.Day(d.Day), views.Thousands(d.Decided), views.Elapsed(seconds(d.P50)), views.Elapsed(seconds(d.P90))})
	}
	c.Lines = [][]float64{half, most}
	p.Summary = views.Plural(n, "approval was", "approvals were") + " approved or denied in the period."
	return p
}

// axisWords writes a time shortly.
func axisWords(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Minutes()), ".0") + " min"
	case d < 48*time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Hours()), ".0") + " h"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Hours()/24), ".0") + " days"
}

// timeoutPlot shows how many ended because nobody decided in time.
func timeoutPlot(r report.StatisticsReport) views.Plot {
	days, at := columnsOf(r)
	c := &views.Columns{Days: days, Stack: make([]float64, len(days)), Words: func(n float64) string { return fmt.Sprintf("%.0f", n) }}
	p := views.Plot{ID: "timeouts", Title: "Timeouts", Columns: c, Table: views.PlotTable{Head: []string{each(r), "Timed out", "Ended in all"}}}
	expired, ended := 0, 0
	for i := range days {
		if at[i] < 0 {
			continue
		}
		d := r.Days[at[i]]
		c.Stack[i] = float64(d.Expired)
		expired, ended = expired+d.Expired, ended+d.Ended
		p.Table.Rows = append(p.Table.Rows, []string{views.Day(d.Day), views.Thousands(d.Expired), views.Thousands(d.Ended)})
	}
	p.Summary = views.Thousands(expired) + " of the " + views.Plural(ended, "approval", "approvals") + " that ended had run out of time: nobody decided."
	return p
}

// ratePlot shows of how many decisions how many were approved.
func ratePlot(id, title, what string, rows []report.Rate, name func(string) string) views.Plot {
	p := views.Plot{
		ID: id, Title: title, Legend: []string{"approved", "denied"},
		Note:  fmt.Sprintf("Those with the most decisions. Fewer than %d decisions have no share: they say nothing.", report.StatisticsFrom),
		Table: views.PlotTable{Head: []string{what, "Decisions", "Approved", "Denied", "Timed out"}},
	}
	for _, one := range rows {
		n := one.Approved + one.Denied
		bar := views.Bar{Label: name(one.Name), Value: fmt.Sprintf("%s of %s", views.Thousands(one.Approved), views.Thousands(n)), Few: n < report.StatisticsFrom}
		bar.Parts = []float64{share(one.Approved, n), share(one.Denied, n)}
		if !bar.Few {
			bar.Value = fmt.Sprintf("%.0f%%, %s", 100*share(one.Approved, n), bar.Value)
		}
		p.Bars = append(p.Bars, bar)
		p.Table.Rows = append(p.Table.Rows, []string{name(one.Name), views.Thousands(n), views.Thousands(one.Approved), views.Thousands(one.Denied), views.Thousands(one.Expired)})
	}
	p.Summary = "How many of the decisions were approvals."
	if len(rows) == 0 {
		p.Summary, p.Note = "Nothing was decided in the period.", ""
	}
	return p
}

// loadPlot shows who votes how much: in order of names, because more is no merit and less
// no fault.
func loadPlot(r report.StatisticsReport, name func(string) string) views.Plot {
	p := views.Plot{
		ID: "load", Title: "Reviewers’ load", Legend: []string{"votes", "votes by standing grants"},
		Note:  "In order of names. How many calls come to somebody follows from their roles and shifts: it says nothing about diligence.",
		Table: views.PlotTable{Head: []string{"Reviewer", "Votes", "By standing grants"}},
	}
	rows := slices.Clone(r.Reviewers)
	slices.SortStableFunc(rows, func(a, b report.Votes) int { return compareFold(name(a.PersonID), name(b.PersonID)) })
	most, all := 0, 0
	for _, one := range rows {
		most, all = max(most, one.Votes+one.ByGrant), all+one.Votes+one.ByGrant
	}
	for _, one := range rows {
		if len(rows) <= maxLoads {
			p.Bars = append(p.Bars, views.Bar{Label: name(one.PersonID), Value: views.Thousands(one.Votes + one.ByGrant), Parts: []float64{share(one.Votes, most), share(one.ByGrant, most)}})
		}
		p.Table.Rows = append(p.Table.Rows, []string{name(one.PersonID), views.Thousands(one.Votes), views.Thousands(one.ByGrant)})
	}
	p.Summary = views.Plural(all, "vote", "votes") + " of " + views.Plural(len(rows), "person", "people") + "."
	if len(rows) > maxLoads {
		p.Bars, p.Legend = spread(rows), nil
		p.Note = "How many people cast how many votes; who they are is in the table. " + p.Note
	}
	return p
}

// maxLoads is how many people have a bar each.
const maxLoads = 20

// spread shows how many people voted how often.
func spread(rows []report.Votes) []views.Bar {
	limits := []int{10, 30, 100, 300}
	counts := make([]int, len(limits)+1)
	for _, one := range rows {
		i, _ := slices.BinarySearch(limits, one.Votes+one.ByGrant+1)
		counts[i]++
	}
	var bars []views.Bar
	for i, n := range counts {
		label := fmt.Sprintf("fewer than %d votes", limits[0])
		switch {
		case i == len(limits):
			label = fmt.Sprintf("%d votes or more", limits[i-1])
		case i > 0:
			label = fmt.Sprintf("%d to %d votes", limits[i-1], limits[i]-1)
		}
		bars = append(bars, views.Bar{Label: label, Value: views.Plural(n, "person", "people"), Parts: []float64{share(n, len(rows))}})
	}
	return bars
}

// grantPlot shows how much of standing grants is used up.
func grantPlot(r report.StatisticsReport, name func(string) string) views.Plot {
	p := views.Plot{
		ID: "grants", Title: "Use of standing grants", Legend: []string{"used of what a grant allows"},
		Table: views.PlotTable{Head: []string{"Grant", "Votes in the period", "Used in all", "Allowed"}},
	}
	votes := 0
	for _, g := range r.Grants {
		label := g.Tool + " for " + name(g.AgentID) + ", by " + name(g.PersonID)
		p.Bars = append(p.Bars, views.Bar{Label: label, Value: fmt.Sprintf("%d of %d", g.Uses, g.MaxUses), Parts: []float64{share(g.Uses, g.MaxUses)}})
		p.Table.Rows = append(p.Table.Rows, []string{label, views.Thousands(g.Votes), views.Thousands(g.Uses), views.Thousands(g.MaxUses)})
		votes += g.Votes
	}
	p.Summary = views.Plural(votes, "vote was", "votes were") + " cast by standing grants in the period."
	return p
}
