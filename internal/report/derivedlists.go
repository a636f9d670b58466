package report

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"holdpoint/internal/store"
)

// The lists whose rows are made of a report that tells more.
const (
	AccessList    = "access"
	ReviewersList = "reviewers"
	ClaimsList    = "claims"
)

// made reports whether the list's rows are made of another report.
func (l List) made() bool {
	return l.Name == AccessList || l.Name == ReviewersList || l.Name == ClaimsList
}

// asItIs marks the cursor of a list that tells how things are now, so that its next page
// does not tell how they were when the first was made.
const asItIs = "now-"

// made fills in a page of the rows of one of these reports. They are made anew for each
// page: there are some thousand of them at the most.
func (s Reports) made(ctx context.Context, page *ListPage, wanted store.ListQuery, now time.Time) error {
	place, isNow := strings.CutPrefix(wanted.After, asItIs)
	from := 0
	if place != "" || isNow {
		var err error
		if from, err = strconv.Atoi(place); err != nil || from < 0 || place != strconv.Itoa(from) {
			return errNoPlace
		}
	}
	isNow = page.Name == AccessList && (isNow || wanted.After == "" && !page.Until.Before(now))
	var rows []map[string]string
	var err error
	switch page.Name {
	case AccessList:
		rows, err = s.accessRows(ctx, page, isNow)
	case ReviewersList:
		rows, err = s.reviewerRows(ctx, page)
	case ClaimsList:
		rows, err = s.claimRows(ctx, page)
	}
	if err != nil {
		return err
	}
	if wanted.PersonID != "" {
		kept := []map[string]string{}
		for _, row := range rows {
			if row["person_id"] == wanted.PersonID {
				kept = append(kept, row)
			}
		}
		rows = kept
	}
	page.Found = len(rows)
	upTo := min(from+wanted.Limit, len(rows))
	if page.Rows = rows[min(from, len(rows)):upTo]; upTo < len(rows) {
		page.NextCursor = strconv.Itoa(upTo)
		if isNow {
			page.NextCursor = asItIs + page.NextCursor
		}
	}
	return nil
}

// accessRows are who has which role at the period's end: as it is, or as the log tells of
// that moment.
func (s Reports) accessRows(ctx context.Context, page *ListPage, isNow bool) ([]map[string]string, error) {
	q := AccessQuery{Since: page.Since, Until: page.Until}
	if !isNow {
		q.At = page.Until
	}
	r, err := s.accessTo(ctx, q)
	if err != nil {
		return nil, err
	}
	page.Gaps = append(page.Gaps, r.Gaps...)
	rows := []map[string]string{}
	for n, a := range append(r.Roles, r.Powers...) {
		asked := "by rules"
		if n >= len(r.Roles) {
			asked = "by Holdpoint itself"
		}
		row := func(how string) map[string]string {
			return map[string]string{
				"role": a.Role, "asked": asked, "how": how, "needed": strconv.Itoa(a.Needed), "people": strconv.Itoa(a.People), "as_of": formatTime(&r.At), "person": "", "email": "", "person_id": "",
				"via": "", "since": "", "until": "", "unsure": "", "factors": "", "last_sign_in": "",
			}
		}
		if len(a.Holders) == 0 {
			rows = append(rows, row("nobody"))
		}
		for _, h := range a.Holders {
			one := row(h.How)
			one["person"], one["email"], one["person_id"], one["via"] = cmp.Or(h.Name, h.Email), h.Email, h.PersonID, strings.Join(h.Via, ", for ")
			one["since"], one["until"], one["unsure"], one["factors"], one["last_sign_in"] = formatTime(h.Since), formatTime(h.Until), h.Unsure, factorsTold(h.Factors), formatTime(h.LastSignIn)
			rows = append(rows, one)
		}
	}
	return rows, nil
}

func factorsTold(factors []HeldFactor) string {
	words := make([]string, len(factors))
	for i, f := range factors {
		switch {
		case f.Kind != "passkey":
			words[i] = "authenticator app"
		case f.Count == 1:
			words[i] = "1 passkey"
		default:
			words[i] = fmt.Sprintf("%d passkeys", f.Count)
		}
	}
	return strings.Join(words, ", ")
}

// reviewerRows are what each reviewer did in the period, by the page's time zone, which it completes.
func (s Reports) reviewerRows(ctx context.Context, page *ListPage) ([]map[string]string, error) {
	r, err := s.Reviewers(ctx, ReviewerQuery{Since: page.Since, Until: page.Until, Zone: page.Zone})
	if err != nil {
		return nil, err
	}
	page.Zone = r.Zone
	if r.ShiftsSince.After(r.Since) {
		page.Gaps = append(page.Gaps, "Shifts that ended before "+stampUTC(r.ShiftsSince)+" are forgotten: who was alone on call is counted from then on.")
	}
	rows := make([]map[string]string, len(r.Reviewers))
	for i, l := range r.Reviewers {
		notes := make([]string, len(l.Notes))
		for n, note := range l.Notes {
			notes[n] = note.Text
		}
		row := map[string]string{
			"person": l.Name, "email": l.Email, "person_id": l.PersonID, "median_seconds": secondsTold(l.MedianSeconds), "p95_seconds": secondsTold(l.P95Seconds), "busiest_day": l.BusiestDay,
			"last_vote": formatTime(l.LastVote), "note": strings.Join(notes, " "), "disabled": map[bool]string{true: "yes"}[l.Disabled],
			"zone": r.Zone,
		}
		for name, n := range map[string]int{
			"decided": l.Decided, "approved": l.Approved, "denied": l.Denied, "timed": l.Timed, "quick": l.Quick, "nights": l.Nights, "weekends": l.Weekends, "off_hours": l.OffHours,
			"questions": l.Questions, "on_call": l.OnCall, "alone": l.AloneOnCall, "by_grant": l.ByGrant, "as_deputy": l.AsDeputy, "busiest": l.BusiestDecided,
		} {
			row[name] = strconv.Itoa(n)
		}
		rows[i] = row
	}
	return rows, nil
}

// claimRows are for each agent how often its word excluded anybody, and whom.
func (s Reports) claimRows(ctx context.Context, page *ListPage) ([]map[string]string, error) {
	r, err := s.Claims(ctx, ClaimQuery{Since: page.Since, Until: page.Until})
	if err != nil {
		return nil, err
	}
	rows := []map[string]string{}
	for _, a := range r.Agents {
		add := func(of, person, identity string, times, before int, opened, widened string) {
			rows = append(rows, map[string]string{
				"agent": a.Name, "agent_id": a.AgentID, "of": of, "person": person, "identity": identity, "times": strconv.Itoa(times), "before": strconv.Itoa(before),
				"opened": opened, "widened": widened, "sudden": map[bool]string{true: "sudden"}[isSpike(times, before)],
			})
		}
		add("all", "", "", a.Claimed, a.Before, strconv.Itoa(a.Opened), strconv.Itoa(a.Widened))
		for _, p := range a.People {
			add("person", p.Name, p.Identity, p.Times, p.Before, "", "")
		}
	}
	return rows, nil
}

// formatTime writes a time as a list does; "" for none.
func formatTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func secondsTold(s *float64) string {
	if s == nil {
		return ""
	}
	return strconv.FormatFloat(*s, 'f', 3, 64)
}
