package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/registry"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// inboxShown is a page of the inbox as an open page shows it.
type inboxShown struct {
	mark  string // names all of it
	tasks string // names what is asked for beside deciding
	view  views.Inbox
	rows  []shownRow
}

// shownRow is a row that an open page has, by what it shows.
type shownRow struct{ id, mark string }

func showInbox(s *site, p engine.Person, asked inboxAsked, page gate.InboxPage, told atStake, tasks gate.Tasks, kills map[string]registry.Kill, name func(string) string) *inboxShown {
	v := views.Inbox{Frame: s.frame(p, "Inbox", "inbox"), Roles: p.Roles}
	for range slices.Concat(tasks.Unknown, tasks.Reviews) {
		v.Tasks = append(v.Tasks, views.TaskRow{})
	}
	v.Tickets, v.Mine = make([]views.TaskRow, len(tasks.Tickets)), make([]views.TaskRow, len(tasks.Mine))
	fillInbox(&v, asked, page, told, kills, name)
	shown := &inboxShown{mark: inboxMark(page, tasks, kills), tasks: inboxMark(gate.InboxPage{}, tasks, kills), view: v}
	shown.rows = marksOf(page.Rows, kills)
	return shown
}

func marksOf(rows []gate.InboxRow, kills map[string]registry.Kill) []shownRow {
	marks := make([]shownRow, len(rows))
	for i, row := range rows {
		marks[i] = shownRow{row.ID, rowMark(row, kills)}
	}
	return marks
}

// coming are those of the rows that an open page which shows s has to put: of the others
// nothing is written. Where nobody knows what the page shows, it loads itself again.
func (s *inboxShown) coming(rows []gate.InboxRow, kills map[string]registry.Kill) []gate.InboxRow {
	if s == nil {
		return nil
	}
	now := inboxShown{rows: marksOf(rows, kills)}
	stay := now.staying(s)
	return slices.DeleteFunc(slices.Clone(rows), func(row gate.InboxRow) bool {
		return slices.Contains(stay, shownRow{row.ID, rowMark(row, kills)})
	})
}

// rowMark names what a row shows.
func rowMark(row gate.InboxRow, kills map[string]registry.Kill) string {
	return fmt.Sprint(row.Revision, " ", row.Alike, " ", row.State.Deadline.UnixMicro(), killMark(kills, row.Call.AgentID))
}

// inboxMark names a page of the inbox, what is asked for beside it, and the kill switch of all.
func inboxMark(page gate.InboxPage, tasks gate.Tasks, kills map[string]registry.Kill) string {
	h := sha256.New()
	_, _ = fmt.Fprintln(h, page.All, page.Found, page.Groups, page.From, page.Snoozed, page.Next != "", killMark(kills, "")) // a hash takes everything
	for _, row := range page.Rows {
		_, _ = fmt.Fprintln(h, row.ID, rowMark(row, kills))
	}
	for _, list := range [][]approval.Approval{tasks.Unknown, tasks.Reviews, tasks.Tickets, tasks.Mine} {
		_, _ = fmt.Fprintln(h)
		for _, a := range list {
			_, _ = fmt.Fprintln(h, a.ID, a.Revision)
		}
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// rowsChange is what an open page does to become what it would be if it were loaded now.
type rowsChange struct {
	// Drop are the rows that go; Put are those that come, or change, in the order in which
	// each is put behind the row that it names.
	Drop []string `json:"drop,omitempty"`
	Put  []putRow `json:"put,omitempty"`
	// Rows is how many there are then: a page that has another number loads itself again.
	Rows int `json:"rows"`
	// Head and Pager are what is above and below, Say what is said, Title the page's.
	Head  string `json:"head"`
	Pager string `json:"pager"`
	Say   string `json:"say"`
	Title string `json:"title"`
}

type putRow struct {
	ID    string `json:"id"`
	After string `json:"after,omitempty"` // "" for the first place
	HTML  string `json:"html"`
}

// since is the event that takes an open page from what it shows to s. Where more than
// rows changes, or nobody knows what it shows, the page is to load itself again.
func (s *inboxShown) since(ctx context.Context, shown *inboxShown) (string, error) {
	if shown == nil || shown.tasks != s.tasks || len(shown.rows) == 0 || len(s.rows) == 0 {
		return changedEvent(s.mark), nil
	}
	change := rowsChange{Rows: len(s.rows), Say: views.SayWords(s.view), Title: views.PageTitle(s.view.Frame)}
	stay := s.staying(shown)
	for _, old := range shown.rows {
		if !slices.ContainsFunc(s.rows, func(r shownRow) bool { return r.id == old.id }) {
			change.Drop = append(change.Drop, old.id)
		}
	}
	after := ""
	for i, row := range s.rows {
		if len(stay) > 0 && stay[0] == row {
			stay = stay[1:]
		} else {
			put := putRow{ID: row.id, After: after}
			if err := renderTo(ctx, &put.HTML, views.InboxItem(s.view.Frame, s.view.Rows[i])); err != nil {
				return "", err
			}
			change.Put = append(change.Put, put)
		}
		after = row.id
	}
	if err := renderTo(ctx, &change.Head, views.InboxHead(s.view)); err != nil {
		return "", err
	}
	if err := renderTo(ctx, &change.Pager, views.InboxPager(s.view)); err != nil {
		return "", err
	}
	data, err := json.Marshal(change)
	return "event: rows\ndata: " + string(data) + "\n\n", err
}

// staying are the rows that stay where shown has them, unchanged, in their order. A row
// that moves has another deadline, and so another mark.
func (s *inboxShown) staying(shown *inboxShown) (stay []shownRow) {
	from := 0
	for _, row := range s.rows {
		if at := slices.Index(shown.rows[from:], row); at >= 0 {
			stay, from = append(stay, row), from+at+1
		}
	}
	return stay
}

func renderTo(ctx context.Context, into *string, part templ.Component) error {
	var b strings.Builder
	if err := part.Render(ctx, &b); err != nil {
		return fmt.Errorf("%w: %w", errNotRendered, err)
	}
	*into = b.String()
	return nil
}
