package gate

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

type (
	// HistorySearch says which approvals that have ended are wanted.
	HistorySearch = store.HistorySearch
	// HistoryPage is a page of them.
	HistoryPage = store.HistoryPage
)

// HistoryCounted is how many approvals that have ended are counted; one more stands for
// more.
const HistoryCounted = store.HistoryCounted

// historyPage is how many rows a page of the history has.
const historyPage = 30

// History is a page of the approvals that have ended and that the person may see. The search
// may name who decided by address or name. Refusals are bad_cursor, bad_search and those of
// access.FindPerson.
func (g *Histories) History(ctx context.Context, p engine.Person, search HistorySearch) (HistoryPage, error) {
	by, err := g.reader(ctx, p)
	if err != nil {
		return HistoryPage{}, err
	}
	search.Limit = cmp.Or(search.Limit, historyPage)
	if err = g.searched(ctx, p, &search); err != nil {
		return HistoryPage{}, err
	}
	return g.history(ctx, by, search)
}

// searched has the ids of whom a search names as having decided, by id, address or name. Who
// does not read everything is not told whether there is somebody of that name, or several: they
// find what they may see of all of them.
func (g *Histories) searched(ctx context.Context, p engine.Person, search *HistorySearch) error {
	if search.DecidedBy == "" || search.DecidedBy == p.ID {
		return nil
	}
	found, err := access.FindPerson(ctx, g.Store.People, search.DecidedBy)
	var refused *access.Refusal
	if errors.As(err, &refused) && refused.Kind == access.Invalid && !access.ReadsEverything(p) {
		namesakes, err := g.Store.People.Called(ctx, strings.TrimSpace(search.DecidedBy), namesakesSearched)
		search.DecidedBy, search.Deciders = "", []string{}
		for _, n := range namesakes {
			search.Deciders = append(search.Deciders, n.ID)
		}
		return err
	}
	search.DecidedBy = found.ID
	return err
}

// namesakesSearched is how many people of one name are searched for at once.
const namesakesSearched = 100

// reader is which approvals the person may see.
func (g *Histories) reader(ctx context.Context, p engine.Person) (store.Reader, error) {
	d, err := g.delegate(ctx, p)
	return store.Reader{All: access.ReadsEverything(p), Roles: p.Roles, Identity: p.Identity, For: d.standings()}, err
}

func (g *Histories) history(ctx context.Context, by store.Reader, search HistorySearch) (HistoryPage, error) {
	page, err := g.Store.Approvals.History(ctx, by, search)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return page, &access.Refusal{Kind: access.Malformed, Code: "bad_cursor", Detail: "That is no place in the history. Start at its beginning."}
	case errors.Is(err, store.ErrUnstorable):
		return page, &access.Refusal{Kind: access.Malformed, Code: "bad_search", Detail: "The search has a character that no call has, such as NUL."}
	}
	return page, err
}

// deciders are those whose say ended the approval: whose yes counted for it as it was
// then, or who denied it. A standing grant has no say of its own: its maker has.
func deciders(a approval.Approval) []approval.Fact {
	if f, denied := a.Denial(); denied {
		return []approval.Fact{f}
	}
	kind := approval.Vote
	if a.State.Broken {
		kind = approval.BreakGlass
	}
	var by []approval.Fact
	for _, f := range a.Facts {
		if a.Status == approval.Approved && f.Kind == kind && f.Yes && f.Edition == a.Plan.Edition {
			by = append(by, f)
		}
	}
	return by
}

// OpenFor is how long an approval was open, from when it was proposed to its end.
func OpenFor(a approval.Approval) time.Duration { return a.EndedAt.Sub(a.Plan.OpenedAt) }
