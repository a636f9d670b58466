package report

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// What the report on claims takes for sudden: SuddenFrom approvals at least, and more
// than SuddenTimes as many as in the period before.
const (
	SuddenFrom  = 3
	SuddenTimes = 3
)

// ClaimQuery says which approvals a report on claims is about: those opened from Since
// on, until Until; zero times stand for the last thirty days.
type ClaimQuery struct{ Since, Until time.Time }

// ClaimReport says which agents named people as their own side, so that these could
// not decide.
type ClaimReport struct {
	Now    time.Time     `json:"now"`
	Since  time.Time     `json:"since"`
	Until  time.Time     `json:"until"`
	Agents []AgentClaims `json:"agents" doc:"Those with something sudden first, then those that claim most often."`
}

// AgentClaims is what one agent claimed.
type AgentClaims struct {
	AgentID string          `json:"agent_id"`
	Name    string          `json:"name"`
	Opened  int             `json:"opened" doc:"How many approvals it opened."`
	Claimed int             `json:"claimed" doc:"How many of them exclude somebody whom nothing but its word excludes."`
	Before  int             `json:"before" doc:"How many did in the period before, which is as long."`
	Widened int             `json:"widened" doc:"How many were opened to people of another role, because too few were left."`
	Sudden  bool            `json:"sudden" doc:"At least 3, and more than three times as many as before; or that holds of somebody whom it names."`
	People  []ClaimedPerson `json:"people" doc:"Whom it named, the most often named first."`
}

// ClaimedPerson is somebody whom an agent named.
type ClaimedPerson struct {
	Identity string `json:"identity"`
	Name     string `json:"name"`
	Times    int    `json:"times" doc:"In how many approvals."`
	Before   int    `json:"before" doc:"In the period before."`
	Sudden   bool   `json:"sudden"`
}

// Claims reports which agents named people as their own side, and whom.
func (s Reports) Claims(ctx context.Context, q ClaimQuery) (ClaimReport, error) {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return ClaimReport{}, err
	}
	r := ClaimReport{Now: now, Agents: []AgentClaims{}}
	if r.Since, r.Until, err = reportPeriod(q.Since, q.Until, now); err != nil {
		return r, err
	}
	rows, err := s.Store.Reports.Claimed(ctx, r.Since, r.Until)
	if err != nil {
		return r, err
	}
	everybody, err := s.Store.People.List(ctx)
	if err != nil {
		return r, err
	}
	names := map[string]string{}
	for _, p := range everybody {
		if names[p.Identity] == "" || p.ID == p.Identity {
			names[p.Identity] = cmp.Or(p.Name, p.Email)
		}
	}
	known, err := s.Store.Registry.Snapshot(ctx)
	if err != nil {
		return r, err
	}
	// Of each agent the row without an identity comes first.
	for _, row := range rows {
		if row.Identity == "" {
			r.Agents = append(r.Agents, AgentClaims{
				AgentID: row.AgentID, Name: cmp.Or(known.Agents[row.AgentID].Name, row.AgentID), Opened: row.Opened, Claimed: row.Times, Before: row.Before,
				Widened: row.Widened, Sudden: isSpike(row.Times, row.Before), People: []ClaimedPerson{},
			})
			continue
		}
		a := &r.Agents[len(r.Agents)-1]
		p := ClaimedPerson{Identity: row.Identity, Name: cmp.Or(names[row.Identity], row.Identity), Times: row.Times, Before: row.Before, Sudden: isSpike(row.Times, row.Before)}
		a.People, a.Sudden = append(a.People, p), a.Sudden || p.Sudden
	}
	for _, a := range r.Agents {
		slices.SortStableFunc(a.People, func(x, y ClaimedPerson) int {
			return cmp.Or(order(x.Sudden, y.Sudden), cmp.Compare(y.Times, x.Times), cmp.Compare(x.Name, y.Name))
		})
	}
	slices.SortStableFunc(r.Agents, func(x, y AgentClaims) int {
		return cmp.Or(order(x.Sudden, y.Sudden), cmp.Compare(y.Claimed, x.Claimed))
	})
	return r, nil
}

func isSpike(times, before int) bool { return times >= SuddenFrom && times > SuddenTimes*before }

// order puts what is true first.
func order(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}
