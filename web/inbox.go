package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// Inbox is what waits for a person. All methods return errors
// that wrap a *access.Refusal when the person, not the system, has to do something
// about it; any other error is an outage and nothing happened.
type Inbox interface {
	// Inbox is a page of the pending approvals on which the person may act now,
	// without arguments.
	Inbox(ctx context.Context, p engine.Person, search gate.InboxSearch) (gate.InboxPage, error)
	Listed
	// Groups says what is at stake with the calls of rows that stand for several, by the id
	// of the row.
	Groups(ctx context.Context, rows []gate.InboxRow) (map[string]gate.GroupStakes, error)
	// Tasks lists what the person is asked for beside deciding.
	Tasks(ctx context.Context, p engine.Person) (gate.Tasks, error)
	// InboxViews lists the searches of the inbox that the person keeps by a name, which
	// SaveInboxView and DropInboxView change.
	InboxViews(ctx context.Context, p engine.Person) ([]gate.InboxView, error)
	SaveInboxView(ctx context.Context, p engine.Person, name, query string) error
	DropInboxView(ctx context.Context, p engine.Person, id string) error
	// Snooze keeps an approval out of the person's inbox for so long, but not past its
	// time; Unsnooze brings it back, and Snoozed says until when, zero for not at all.
	Snooze(ctx context.Context, p engine.Person, id string, long time.Duration) error
	Unsnooze(ctx context.Context, p engine.Person, id string) error
	Snoozed(ctx context.Context, p engine.Person, id string) (time.Time, error)
}

// Listed is what rows of lists are told by.
type Listed interface {
	// Stakes says what is at stake with each of these approvals, by id, which the person
	// has been listed. What has long arguments is left out.
	Stakes(ctx context.Context, listed []approval.Approval) (map[string]gate.Stakes, error)
}

// inboxHandler serves the inbox.
type inboxHandler struct {
	site  *site
	inbox Inbox
}

func (h *inboxHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", h.site.signedIn(h.show))
	mux.HandleFunc("POST /inbox/views", h.site.takesForm(h.saveView))
	mux.HandleFunc("POST /inbox/views/{id}", h.site.takesForm(h.dropView))
	mux.HandleFunc("POST /inbox/snooze", h.site.takesForm(h.snoozeSeveral))
	mux.HandleFunc("POST /inbox/unsnooze", h.site.takesForm(h.unsnoozeSeveral))
	mux.HandleFunc("POST /approvals/{id}/snooze", h.site.takesForm(h.snooze))
	mux.HandleFunc("POST /approvals/{id}/unsnooze", h.site.takesForm(h.unsnooze))
}

func (h *inboxHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	asked := readInboxOf(r.URL.RawQuery, p)
	v := views.Inbox{Frame: h.site.frame(p, "Inbox", "inbox"), Roles: p.Roles}
	v.Undo = undoOf(r, unsnoozeURL(asked))
	v.Notice = h.site.flash(w, r)
	saved, err := h.inbox.InboxViews(r.Context(), p)
	if err != nil {
		return err
	}
	for _, s := range saved {
		v.Saved = append(v.Saved, views.SavedView{ID: s.ID, Name: s.Name, URL: inboxURL(s.Query), Here: s.Query == asked.query()})
	}
	if len(asked.problems) > 0 {
		v.Search = asked.view(nil, nameIn(nil))
		return h.site.render(w, r, http.StatusBadRequest, views.InboxPage(v))
	}
	asked.search.Counts = true
	page, tasks, err := h.read(r.Context(), p, asked)
	if err != nil {
		return err
	}
	if h.site.reviews != nil {
		awaited, err := h.site.reviews.Awaited(r.Context(), p.ID)
		if err != nil {
			return err
		}
		v.Accesses = views.AwaitedReview(awaited)
	}
	told := atStake{h.stakes(r.Context(), page.Rows), h.groups(r.Context(), page.Rows)}
	name := h.names(r.Context(), page, tasks)
	for _, a := range tasks.Unknown {
		v.Tasks = append(v.Tasks, taskRow(a, "Say what became of it: nobody knows whether it ran", name))
	}
	for _, a := range tasks.Reviews {
		v.Tasks = append(v.Tasks, taskRow(a, "Look at it afterwards: somebody broke the glass alone", name))
	}
	for _, a := range tasks.Tickets {
		v.Tickets = append(v.Tickets, taskRow(a, "Attach a ticket: it waits for one", name))
	}
	for _, a := range tasks.Mine {
		v.Mine = append(v.Mine, taskRow(a, wantedFromRequester(a), name))
	}
	kills := h.site.inForce().Registered.Kills
	fillInbox(&v, asked, page, told, kills, name)
	v.Search, v.Snoozes = asked.view(page.Counts, name), snoozes
	v.Agents = agentLinks(page, name)
	v.Refresh = true
	v.Live = "/live?" + asked.query("after", asked.search.After, "before", asked.search.Before, "seen", inboxMark(page, tasks, kills))
	if len(told.rows)+len(told.groups) > 0 {
		return h.site.render(w, r, http.StatusOK, views.InboxPage(v)) // it has arguments: see renderList
	}
	return h.site.renderList(w, r, views.InboxPage(v))
}

// read reads a page of the inbox, and what the person is asked for beside it.
func (h *inboxHandler) read(ctx context.Context, p engine.Person, asked inboxAsked) (gate.InboxPage, gate.Tasks, error) {
	page, err := h.inbox.Inbox(ctx, p, asked.search)
	if err != nil {
		return page, gate.Tasks{}, err
	}
	tasks, err := h.inbox.Tasks(ctx, p)
	return page, tasks, err
}

// stakes reads what is at stake with rows of the inbox.
func (h *inboxHandler) stakes(ctx context.Context, rows []gate.InboxRow) map[string]gate.Stakes {
	listed := make([]approval.Approval, len(rows))
	for i, row := range rows {
		listed[i] = row.Approval
	}
	return h.site.stakes(ctx, h.inbox, listed)
}

// stakes reads what is at stake with rows of a list.
func (s *site) stakes(ctx context.Context, from Listed, listed []approval.Approval) map[string]gate.Stakes {
	if len(listed) == 0 {
		return nil
	}
	told, err := from.Stakes(ctx, listed)
	if err != nil && !hungUp(ctx) { // the rows have their reasons, and can be opened
		s.logger.ErrorContext(ctx, "what is at stake not read", "error", err)
	}
	return told
}

// names gives the names of everybody on a page of the inbox.
func (h *inboxHandler) names(ctx context.Context, page gate.InboxPage, tasks gate.Tasks) func(string) string {
	var ids []string
	for _, a := range slices.Concat(tasks.Unknown, tasks.Reviews, tasks.Tickets, tasks.Mine) {
		ids = append(ids, a.Call.AgentID)
	}
	for _, row := range page.Rows {
		ids = append(append(ids, row.Call.AgentID), row.InPlaceOf...)
		if row.State.Claim != nil {
			ids = append(ids, row.State.Claim.Actor.ID, row.State.Claim.Claimant())
		}
	}
	for _, c := range page.Counts["agent"] {
		ids = append(ids, c.Value)
	}
	slices.Sort(ids)
	return h.site.names(ctx, slices.Compact(ids)...)
}

// groups reads what is at stake with rows that stand for several calls.
func (h *inboxHandler) groups(ctx context.Context, rows []gate.InboxRow) map[string]gate.GroupStakes {
	told, err := h.inbox.Groups(ctx, rows)
	if err != nil && !hungUp(ctx) { // the rows lead to the calls
		h.site.logger.ErrorContext(ctx, "what is at stake with groups not read", "error", err)
	}
	return told
}

// atStake is what is at stake with rows and groups of a page.
type atStake struct {
	rows   map[string]gate.Stakes
	groups map[string]gate.GroupStakes
}

// fillInbox writes a page of the inbox into its view. kills are the kill switches that are on,
// by agent.
func fillInbox(v *views.Inbox, asked inboxAsked, page gate.InboxPage, told atStake, kills map[string]registry.Kill, name func(string) string) {
	v.All, v.Found, v.Groups, v.From, v.First = page.All, page.Found, page.Groups, page.From, asked.address()
	if page.Previous != "" {
		v.Previous = asked.address("before", page.Previous)
	}
	if page.Next != "" {
		v.Next = asked.address("after", page.Next)
	}
	if n := page.All + v.OtherTasks(); n > 0 {
		v.Title = "(" + strconv.Itoa(n) + ") Inbox"
	}
	for _, row := range page.Rows {
		v.Rows = append(v.Rows, inboxRow(asked, row, told.rows[row.ID], name))
		if g, there := told.groups[row.ID]; there {
			addGroup(&v.Rows[len(v.Rows)-1], g)
		}
		if k, on := kills[row.Call.AgentID]; on {
			last := &v.Rows[len(v.Rows)-1]
			last.Stopped, last.StoppedWhy = true, k.Reason
		}
	}
	if v.Snoozed = page.Snoozed; page.Snoozed > 0 && !asked.search.Snoozed {
		v.SnoozedURL = inboxURL("snoozed=1")
	}
	v.Search.Query, v.Search.Form, v.Search.Alike = asked.query(), asked.form, asked.search.Alike
	v.Search.Other = asked.address("group", map[bool]string{true: "", false: "alike"}[asked.search.Alike])
}

// maxAgentLinks is how many agents are named above a list that is longer than a page.
const maxAgentLinks = 8

// agentLinks leads to what waits of each agent, so that nobody's flood hides what
// others propose.
func agentLinks(page gate.InboxPage, name func(string) string) (links []views.CountLink) {
	if page.Found < page.All || page.Groups <= len(page.Rows) {
		return nil
	}
	for i, c := range page.Counts["agent"] {
		if i < maxAgentLinks {
			links = append(links, views.CountLink{Name: name(c.Value), URL: inboxURL(url.Values{"agent": {c.Value}}.Encode()), N: c.N})
		}
	}
	return links
}

// snoozes are for how long a call can be snoozed.
var snoozes = []views.Option{{Value: "30m", Label: "30 minutes"}, {Value: "1h", Label: "1 hour"}, {Value: "4h", Label: "4 hours"}, {Value: "24h", Label: "1 day"}, {Value: "72h", Label: "3 days"}}

// snooze keeps a call out of the person's own inbox for a while.
func (h *inboxHandler) snooze(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	long, err := time.ParseDuration(r.PostForm.Get("for"))
	if err != nil {
		return invalid("incomplete_form", "Choose for how long.")
	}
	id := r.PathValue("id")
	err = h.inbox.Snooze(r.Context(), p, id, long)
	return h.site.redirectOrFail(w, r, err, withUndo("snoozed", []string{id}), "/")
}

func (h *inboxHandler) unsnooze(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	id := r.PathValue("id")
	err := h.inbox.Unsnooze(r.Context(), p, id)
	return h.site.redirectOrFail(w, r, err, "unsnoozed", cardURL(id))
}

// snoozeSeveral keeps the calls that are ticked out of the person's own inbox for a while,
// but for those whose deadline is before that: they stay.
func (h *inboxHandler) snoozeSeveral(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	long, err := time.ParseDuration(r.PostForm.Get("for"))
	if err != nil {
		return invalid("incomplete_form", "Choose for how long.")
	}
	return h.several(w, r, p, "snoozedall", "snoozedsome", true, func(id string) error { return h.inbox.Snooze(r.Context(), p, id, long) })
}

func (h *inboxHandler) unsnoozeSeveral(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	return h.several(w, r, p, "unsnoozedall", "unsnoozedall", false, func(id string) error { return h.inbox.Unsnooze(r.Context(), p, id) })
}

// several does something to each call that is ticked, and leads back to the search with
// what all or some says of it. What is refused of each alike is refused. What is undoable is
// undone by bringing back.
func (h *inboxHandler) several(w http.ResponseWriter, r *http.Request, p engine.Person, all, some string, undoable bool, do func(id string) error) error {
	ids, err := chosen(r.PostForm["id"])
	if err != nil {
		return err
	}
	what := all
	var done []string
	var refused error
	for _, id := range ids {
		err := do(id)
		var refusal *access.Refusal
		switch {
		case err == nil:
			done = append(done, id)
		case errors.As(err, &refusal):
			what, refused = some, err
		default:
			return err
		}
	}
	if len(done) == 0 {
		return refused
	}
	if undoable {
		what = withUndo(what, done)
	}
	h.site.redirectWithFlash(w, r, what, readInboxOf(r.URL.RawQuery, p).address())
	return nil
}

// saveView keeps a search by a name.
func (h *inboxHandler) saveView(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	query, err := url.ParseQuery(r.PostForm.Get("query"))
	asked := readInbox(query, p)
	if err != nil || len(asked.problems) > 0 {
		return &access.Refusal{Kind: access.Invalid, Code: "bad_view", Detail: strings.Join(append(asked.problems, "This search cannot be saved."), "\n")}
	}
	err = h.inbox.SaveInboxView(r.Context(), p, r.PostForm.Get("name"), asked.query())
	return h.site.redirectOrFail(w, r, err, "viewsaved", asked.address())
}

// dropView forgets a search.
func (h *inboxHandler) dropView(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	err := h.inbox.DropInboxView(r.Context(), p, r.PathValue("id"))
	return h.site.redirectOrFail(w, r, err, "viewgone", "/")
}

// inboxRow tells an approval, or several alike, in one row.
func inboxRow(asked inboxAsked, found gate.InboxRow, told gate.Stakes, name func(string) string) views.InboxRow {
	a := found.Approval
	row := views.InboxRow{
		ID: a.ID, Tool: a.Call.Tool, Agent: name(a.Call.AgentID), Environment: a.Call.Environment, Named: told.Environment, Domain: words(a.Call.RiskDomain),
		Stakes:   views.Stakes{Sentence: told.Sentence, From: told.From},
		OpenedAt: a.Plan.OpenedAt, Deadline: deadline(a), Edited: edited(a), Question: a.State.Question != nil, Alike: found.Alike,
		Pick: !asked.search.Alike,
	}
	if row.SnoozedUntil = found.SnoozedUntil; !row.SnoozedUntil.IsZero() && !asked.search.Alike {
		row.BringBack = unsnoozeURL(asked)
	}
	if row.Change = gate.ChangeUnder(a.Call.Tool) != ""; row.Change {
		row.Tool, row.Agent = calledTool(a.Call.Tool), "" // no agent asks for it
	}
	if fs := a.Decision.StrictestFirst(); len(fs) > 0 {
		row.Why = fs[0].Message
	}
	if req, ok := waiting(a); ok {
		row.Asked, row.Given, row.Needed = lowerFirst(requirementWords(req.Kind, rolesOf(req))), req.Given, req.Needed
		if found.Alike > 1 {
			row.AlikeURL = asked.address("group", "", "tool", a.Call.Tool, "agent", a.Call.AgentID, "asked", string(req.Kind), "roles", strings.Join(found.Roles, ","))
		}
	}
	row.Answered, row.AskedByMe = answeredWords(a, asked.reader)
	row.Unreadable = told.Unreadable
	row.Before, row.MostlyDenied = alikeBefore(told.Alike), told.Alike.Denied > max(1, told.Alike.Approved)
	if told.Same != nil {
		row.Flags = append(row.Flags, sameWords(*told.Same, "before"))
	}
	if found.Alike <= 1 { // of several, it would be said of the first one only
		if told.Larger {
			row.Flags = append(row.Flags, "Larger than before")
		}
		for _, place := range told.FirstTime {
			row.Flags = append(row.Flags, "First time: "+place)
		}
		if told.Sentence.Amount != "" {
			row.Amounts = []string{told.Sentence.Amount}
		}
	}
	if a.State.Claim != nil {
		row.ClaimedBy, row.Mine = name(a.State.Claim.Claimant()), a.State.Claim.Claimant() == asked.reader
		if a.State.Claim.Details.For != "" {
			row.PassedBy, row.ByMe = name(a.State.Claim.Actor.ID), a.State.Claim.Actor.ID == asked.reader
		}
	}
	if len(found.InPlaceOf) > 0 {
		row.WhyMe = "In place of " + name(found.InPlaceOf[len(found.InPlaceOf)-1])
	}
	for _, text := range []string{row.Tool, row.Agent, row.Environment, row.Named, row.Domain, row.Why, row.Stakes.String()} {
		row.Deceptive = row.Deceptive || views.Visible(text) != text
	}
	return row
}

// unsnoozeURL is where calls are brought back, in the same search.
func unsnoozeURL(asked inboxAsked) string {
	if query := asked.query(); query != "" {
		return "/inbox/unsnooze?" + query
	}
	return "/inbox/unsnooze"
}

// addGroup says of a row what is at stake with all calls that it stands for.
func addGroup(row *views.InboxRow, g gate.GroupStakes) {
	of := views.Thousands(g.Of) + " calls"
	if g.Of < row.Alike {
		row.Group = append(row.Group, "of "+of+" that were looked at")
	}
	row.Amounts = g.Ranges
	if len(g.Ranges) > 0 && g.WithAmount < g.Of {
		row.Group = append(row.Group, "no amount in "+views.Thousands(g.Of-g.WithAmount)+" of "+of)
	}
	for _, t := range g.Targets {
		row.Group = append(row.Group, views.Thousands(t.N)+" different in “"+t.Value+"”")
	}
	for _, t := range g.FirstTime {
		in := "in each of them"
		if t.N < g.Of || g.Of < row.Alike {
			in = "in " + views.Thousands(t.N) + " of " + of
		}
		row.Flags = append(row.Flags, "First time: "+t.Value+", "+in)
	}
}

// edited reports whether a reviewer has changed the call.
func edited(a approval.Approval) bool {
	return slices.ContainsFunc(a.Facts, func(f approval.Fact) bool { return f.Kind == approval.Edit })
}

// answeredWords says that the last question about the call has its answer, and whether it was the
// reader who asked; "" while one is open, and where nobody has asked.
func answeredWords(a approval.Approval, reader string) (words string, mine bool) {
	facts := factsInOrder(a.Facts)
	at := len(facts) - 1
	for at >= 0 && facts[at].Kind != approval.Question {
		at--
	}
	if at < 0 || !slices.ContainsFunc(facts[at:], func(f approval.Fact) bool { return f.Kind == approval.Information }) {
		return "", false
	}
	if facts[at].Actor.ID == reader {
		return "Your question has an answer", true
	}
	return "A question was answered", false
}

// taskRow tells something that the person is asked for.
func taskRow(a approval.Approval, what string, name func(string) string) views.TaskRow {
	row := views.TaskRow{ID: a.ID, Tool: calledTool(a.Call.Tool), Agent: name(a.Call.AgentID), What: what}
	if !over(a) {
		row.Deadline = deadline(a)
	}
	return row
}

// wantedFromRequester says what a waiting call wants of its own side.
func wantedFromRequester(a approval.Approval) string {
	if a.State.Question != nil {
		return "A reviewer asks: “" + a.State.Question.Comment + "”"
	}
	req, _ := waiting(a)
	return req.Kind.Traits().Wanted
}
