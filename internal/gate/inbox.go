package gate

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

type (
	// InboxSearch says which approvals of an inbox are wanted, in which InboxOrder.
	InboxSearch = store.InboxSearch
	// InboxOrder is the order of an inbox.
	InboxOrder = store.InboxOrder
	// InboxPage is a page of an inbox, of InboxRow and, where asked for, of each Count.
	InboxPage = store.InboxPage
	// InboxRow is an approval in an inbox.
	InboxRow = store.InboxRow
	// Count is how often something is there.
	Count = store.Count
)

// The orders of an inbox.
const (
	ByDue  = store.ByDue
	Oldest = store.Oldest
	Newest = store.Newest
)

// inboxPage is how many rows a page of an inbox has.
const inboxPage = 50

// Inbox is a page of the pending approvals on which the person may act now.
func (g *Queries) Inbox(ctx context.Context, p engine.Person, search InboxSearch) (InboxPage, error) {
	d, err := g.delegate(ctx, p)
	if err != nil {
		return InboxPage{}, err
	}
	standings := d.standings()
	if len(p.Roles) > 0 {
		standings = append(standings, store.Eligibility{Roles: p.Roles, Voices: []string{p.Identity}})
	}
	search.Limit = cmp.Or(search.Limit, inboxPage)
	search.PersonID = p.ID
	page, err := g.Store.Inbox.Page(ctx, standings, search)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return page, &access.Refusal{Kind: access.Malformed, Code: "bad_cursor", Detail: "That is no place in the inbox. Start at its beginning."}
	case errors.Is(err, store.ErrUnstorable):
		return page, &access.Refusal{Kind: access.Malformed, Code: "bad_search", Detail: "The search has a character that no call has, such as NUL."}
	case err != nil:
		return page, err
	}
	// What finds the rows says nothing of who may vote: the rules do.
	mine := page.Rows[:0]
	for _, row := range page.Rows {
		if row.InPlaceOf, err = d.mayVote(row.Approval, page.Now); err == nil {
			mine = append(mine, row)
		}
	}
	page.Rows = mine
	return page, nil
}

// maxSnooze bounds how long a call can be kept out of one's inbox.
const maxSnooze = 7 * 24 * time.Hour

// Snooze keeps a call out of the person's inbox for so long, and out of nobody else's. It
// comes back by itself, and is never hidden when its deadline is before that.
func (g *Queries) Snooze(ctx context.Context, p engine.Person, id string, long time.Duration) error {
	r, _, err := g.readFor(ctx, p, id)
	switch {
	case err != nil:
		return err
	case long < time.Minute || long > maxSnooze:
		return &access.Refusal{Kind: access.Invalid, Code: "bad_snooze", Detail: "A call can be snoozed for a minute or more, up to seven days."}
	}
	if err := settledRefusal(r.Approval); err != nil {
		return err
	}
	if err = g.Store.Inbox.Snooze(ctx, p.ID, id, long); errors.Is(err, store.ErrConflict) {
		return &access.Refusal{Kind: access.Conflict, Code: "due_before", Detail: "Its deadline is before that, so it stays in your inbox."}
	}
	return err
}

// Unsnooze brings a call back.
func (g *Queries) Unsnooze(ctx context.Context, p engine.Person, id string) error {
	return g.Store.Inbox.Unsnooze(ctx, p.ID, id)
}

// Snoozed says until when the person has snoozed a call; the zero time for not at all.
func (g *Queries) Snoozed(ctx context.Context, p engine.Person, id string) (time.Time, error) {
	return g.Store.Inbox.Snoozed(ctx, p.ID, id)
}

// InboxView is a search of the inbox that a person keeps under a name.
type InboxView = store.InboxView

const (
	maxInboxViews = 20
	maxViewName   = 60   // characters
	maxViewQuery  = 2000 // bytes
)

// InboxViews lists the searches that the person keeps.
func (g *Queries) InboxViews(ctx context.Context, p engine.Person) ([]InboxView, error) {
	return g.Store.Inbox.Views(ctx, p.ID)
}

// SaveInboxView keeps a search under a name, in place of the one that has it.
func (g *Queries) SaveInboxView(ctx context.Context, p engine.Person, name, query string) error {
	name = strings.Join(strings.Fields(name), " ")
	refuse := func(why string) error {
		return &access.Refusal{Kind: access.Invalid, Code: "bad_view", Detail: why}
	}
	switch {
	case name == "":
		return refuse("A saved view needs a name.")
	case utf8.RuneCountInString(name) > maxViewName:
		return refuse("The name of a saved view has up to 60 characters.")
	case query == "" || len(query) > maxViewQuery:
		return refuse("There is no search to save, or it is too long.")
	}
	err := g.Store.Inbox.SaveView(ctx, p.ID, InboxView{ID: store.NewID("view"), Name: name, Query: query}, maxInboxViews)
	if errors.Is(err, store.ErrConflict) {
		return refuse("You have 20 saved views, and there is no room for more. Remove one first.")
	}
	return err
}

// DropInboxView forgets a search that the person keeps.
func (g *Queries) DropInboxView(ctx context.Context, p engine.Person, id string) error {
	return g.Store.Inbox.DropView(ctx, p.ID, id)
}
