package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// historyPage is how many approvals a page of the history holds.
const historyPage = 30

// Inbox is what waits for a person, and what has ended. All methods return errors
// that wrap a *access.Refusal when the person, not the system, has to do something
// about it; any other error is an outage and nothing happened.
type Inbox interface {
	// Inbox lists the pending approvals on which the person may act now, the
	// most urgent deadline first, without arguments.
	Inbox(ctx context.Context, p engine.Person) ([]approval.Approval, error)
	// Tasks lists what the person is asked for beside deciding.
	Tasks(ctx context.Context, p engine.Person) (gate.Tasks, error)
	// History lists approvals that have ended, newest end first. cursor is ""
	// or what the last call returned; next is "" at the end.
	History(ctx context.Context, p engine.Person, cursor string, limit int) (page []approval.Approval, next string, err error)
}

// inboxHandler serves the inbox and the history.
type inboxHandler struct {
	site  *site
	inbox Inbox
}

func (h *inboxHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", h.site.signedIn(h.show))
	mux.HandleFunc("GET /history", h.site.signedIn(h.history))
}

func (h *inboxHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	waiting, err := h.inbox.Inbox(r.Context(), p)
	if err != nil {
		return err
	}
	tasks, err := h.inbox.Tasks(r.Context(), p)
	if err != nil {
		return err
	}
	var ids []string
	for _, a := range slices.Concat(waiting, tasks.Unknown, tasks.Reviews, tasks.Mine) {
		ids = append(ids, a.Call.AgentID)
		if a.State.Claim != nil {
			ids = append(ids, a.State.Claim.Actor.ID)
		}
	}
	name := h.site.names(r.Context(), ids...)
	v := views.Inbox{Frame: h.site.frame(p, "Inbox", "inbox"), Full: len(waiting) >= gate.MaxInbox}
	for _, a := range tasks.Unknown {
		v.Tasks = append(v.Tasks, taskRow(a, "Say what became of it: nobody knows whether it ran", name))
	}
	for _, a := range tasks.Reviews {
		v.Tasks = append(v.Tasks, taskRow(a, "Look at it afterwards: somebody broke the glass alone", name))
	}
	for _, a := range tasks.Mine {
		v.Mine = append(v.Mine, taskRow(a, wantedFromRequester(a), name))
	}
	if n := len(waiting) + len(v.Tasks) + len(v.Mine); n > 0 {
		v.Title = "(" + strconv.Itoa(n) + ") Inbox"
	}
	v.Live, v.Refresh = "/live?seen="+inboxMark(waiting, tasks), true
	for _, a := range waiting {
		v.Rows = append(v.Rows, inboxRow(a, name))
	}
	return h.site.render(w, r, http.StatusOK, views.InboxPage(v))
}

func (h *inboxHandler) history(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	cursor := r.URL.Query().Get("cursor")
	ended, next, err := h.inbox.History(r.Context(), p, cursor, historyPage)
	if err != nil {
		return err
	}
	var ids []string
	for _, a := range ended {
		ids = append(ids, a.Call.AgentID)
		for _, f := range a.Facts {
			ids = append(ids, f.Actor.ID)
		}
	}
	name := h.site.names(r.Context(), ids...)
	v := views.History{Frame: h.site.frame(p, "History", "history"), Next: next, First: cursor == ""}
	for _, a := range ended {
		v.Rows = append(v.Rows, historyRow(a, name))
	}
	return h.site.render(w, r, http.StatusOK, views.HistoryPage(v))
}

// inboxRow tells an approval in one row.
func inboxRow(a approval.Approval, name func(string) string) views.InboxRow {
	row := views.InboxRow{
		ID: a.ID, Tool: a.Call.Tool, Agent: name(a.Call.AgentID), Domain: words(a.Call.RiskDomain),
		Deadline: deadline(a),
	}
	if fs := strictestFirst(a.Decision.Findings); len(fs) > 0 {
		row.Why = fs[0].Message
	}
	if req, ok := waiting(a); ok {
		row.Asked, row.Given, row.Needed = lowerFirst(requirementWords(req.Kind, rolesOf(req))), req.Given, req.Needed
	}
	if a.State.Claim != nil {
		row.ClaimedBy = name(a.State.Claim.Actor.ID)
	}
	return row
}

// historyRow tells how an approval ended.
func historyRow(a approval.Approval, name func(string) string) views.HistoryRow {
	row := views.HistoryRow{
		ID: a.ID, Tool: a.Call.Tool, Agent: name(a.Call.AgentID), Status: status(a),
		By: ending(a, name), EndedAt: a.EndedAt, Execution: executionWords(a), Erased: !a.ErasedAt.IsZero(),
	}
	if row.Execution == "" {
		row.Execution = "did not run"
	}
	return row
}

// taskRow tells something that the person is asked for.
func taskRow(a approval.Approval, what string, name func(string) string) views.TaskRow {
	row := views.TaskRow{ID: a.ID, Tool: a.Call.Tool, Agent: name(a.Call.AgentID), What: what}
	if !over(a) {
		row.Deadline = deadline(a)
	}
	return row
}

// wantedFromRequester says what a waiting call wants of its own side.
func wantedFromRequester(a approval.Approval) string {
	if a.State.Question != nil {
		return "A reviewer asks a question"
	}
	req, _ := waiting(a)
	return req.Kind.Traits().Wanted
}
