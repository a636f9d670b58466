package gate

import (
	"context"
	"encoding/json"
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
)

// Tasks is what somebody is asked for beside deciding.
type Tasks struct {
	// Unknown are calls of which the person can say what became of them, and
	// Reviews calls for which somebody else broke the glass alone.
	Unknown, Reviews []approval.Approval
	// Mine are calls of the person's own side that wait for something that it can
	// give: a proof of identity, a ticket, the answer to a question.
	Mine []approval.Approval
	// Tickets are calls that wait for a ticket and will ask the person afterwards: who
	// decides them can attach it, too. Administrators have those with which nobody else
	// has to do.
	Tickets []approval.Approval
}

const (
	// maxTasks bounds each list of tasks.
	maxTasks = 50
	// maxRequesting is how many waiting calls of the person's own side are looked at.
	maxRequesting = 200
	// maxTickets bounds the calls that are looked at for those that wait for a ticket.
	maxTickets = 200
)

// Tasks lists what the person is asked for beside deciding.
func (g *Queries) Tasks(ctx context.Context, p engine.Person) (Tasks, error) {
	var e Tasks
	var err error
	if e.Unknown, err = g.Store.Approvals.ExecutionUnknown(ctx, p.Has(access.AdminRole), p.Identity, maxTasks); err != nil {
		return e, err
	}
	owed, err := g.Store.Approvals.AwaitingBreakGlassReview(ctx, p.Identity, maxTasks)
	if err != nil {
		return e, err
	}
	for _, a := range owed {
		if MayReviewBreakGlass(p, a) {
			e.Reviews = append(e.Reviews, a)
		}
	}
	mine, err := g.Store.Approvals.Requesting(ctx, p.Identity, maxRequesting)
	if err != nil {
		return e, err
	}
	for _, a := range mine {
		if AwaitsRequester(p, a) && g.givable(a) {
			e.Mine = append(e.Mine, a)
		}
	}
	e.Tickets, err = g.tickets(ctx, p)
	return e, err
}

// givable reports whether what a waiting call wants can be given here: a ticket of a
// system that is not configured cannot.
func (g *Queries) givable(a approval.Approval) bool {
	req := a.Plan.Requirements[a.State.Stage]
	return req.Kind.Traits().Discharger != engine.Tracker || a.State.Question != nil || g.Tickets != nil && tracked(req, g.Tickets.Names())
}

// tickets lists the calls that wait for a ticket and give the person a say.
func (g *Queries) tickets(ctx context.Context, p engine.Person) ([]approval.Approval, error) {
	d, err := g.delegate(ctx, p)
	if err != nil || g.Tickets == nil {
		return nil, err
	}
	roles := slices.Clone(p.Roles)
	for _, s := range d.standings() {
		roles = append(roles, s.Roles...)
	}
	list, err := g.Store.Approvals.AwaitingTickets(ctx, roles, p.Has(access.AdminRole), maxTickets)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(a approval.Approval) bool {
		return !AwaitsTicket(a, g.Tickets.Names()) || slices.Contains(a.Plan.Excluded, p.Identity) || !d.mayRead(a)
	})
	return list[:min(len(list), maxTasks)], nil
}

// AwaitsTicket reports whether a call waits for somebody to attach a ticket of one of the
// systems.
func AwaitsTicket(a approval.Approval, systems []string) bool {
	if a.Status.Terminal() || a.State.Status.Terminal() || a.State.Stage >= len(a.Plan.Requirements) {
		return false
	}
	req := a.Plan.Requirements[a.State.Stage]
	return req.Kind.Traits().Discharger == engine.Tracker && (a.State.Ticket == nil || a.State.Checked != nil) && tracked(req, systems)
}

// tracked reports whether a ticket that satisfies the requirement can be looked up.
func tracked(req engine.Requirement, systems []string) bool {
	if req.Ticket != nil && req.Ticket.System != "" {
		return slices.Contains(systems, req.Ticket.System)
	}
	return len(systems) > 0
}

// MayReconcile reports whether the person may say what became of the call.
func MayReconcile(p engine.Person, a approval.Approval) bool {
	return a.Execution == approval.Unknown && (p.Has(access.AdminRole) || slices.Contains(a.Plan.Excluded, p.Identity))
}

// MayReviewBreakGlass reports whether the person may look afterwards at a call
// for which somebody broke the glass, if that is owed.
func MayReviewBreakGlass(p engine.Person, a approval.Approval) bool {
	return mayRead(p, a) && mayReviewBreakGlass(p, a) == nil
}

// AwaitsRequester reports whether a waiting call asks for something that the person can
// give as one of the requesting side.
func AwaitsRequester(p engine.Person, a approval.Approval) bool {
	if a.Status.Terminal() || a.State.Status.Terminal() || !slices.Contains(a.Plan.Excluded, p.Identity) || a.State.Stage >= len(a.Plan.Requirements) {
		return false
	}
	switch req := a.Plan.Requirements[a.State.Stage]; req.Kind.Traits().Discharger {
	case engine.Accountable:
		return slices.Contains(a.Plan.Accountable, p.Identity)
	case engine.Tracker:
		return a.State.Ticket == nil || a.State.Checked != nil
	case engine.Requester:
		if len(req.Form) > 0 && slices.Contains(a.Plan.Accountable, p.Identity) {
			return true
		}
	default: // kinds without Wanted ask nothing of the requesting side
	}
	return a.State.Question != nil && !HasEdited(p, a)
}

// MaxSession bounds the calls of a session that are shown together.
const MaxSession = 50

// Session lists the calls of one of an agent's sessions that the person may see,
// as their cards: those that wait first. full says whether more were left out.
// look is Page when the cards are put before the person; what is long never is.
func (g *Queries) Session(ctx context.Context, p engine.Person, agentID, session string, look Display) (cards []Card, full bool, err error) {
	list, err := g.Store.Approvals.OfSession(ctx, agentID, session, MaxSession+1)
	if err != nil {
		return nil, false, err
	}
	if full = len(list) > MaxSession; full {
		list = list[:MaxSession]
	}
	if look == Full {
		look = Excerpt
	}
	d, err := g.delegate(ctx, p)
	if err != nil {
		return nil, false, err
	}
	for _, a := range list {
		if !d.mayRead(a) {
			continue
		}
		card, err := g.Card(ctx, p, a.ID, look)
		if err != nil {
			return nil, false, err
		}
		cards = append(cards, card)
	}
	if len(cards) == 0 {
		return nil, false, access.NoSuchApproval
	}
	return cards, full, nil
}

// Permits is what an approval permits by the votes that count: the decision's
// constraints, as reviewers have tightened them; nil for none.
func Permits(a approval.Approval) json.RawMessage {
	permits, err := approval.Constraints(a.Decision.Constraints, a.State.Counted)
	if err != nil {
		return a.Decision.Constraints // it will not be approved so
	}
	return permits
}
