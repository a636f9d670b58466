package web

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/report"
	"holdpoint/web/views"
)

// History is what has ended, as far as a person may see it. Errors are as Inbox's are.
type History interface {
	// History is a page of the approvals that have ended, the newest end first.
	History(ctx context.Context, p engine.Person, search gate.HistorySearch) (gate.HistoryPage, error)
	// ExportHistory writes what a search finds as CSV, and records it. flush is called
	// after every page.
	ExportHistory(ctx context.Context, by access.Initiator, p engine.Person, search gate.HistorySearch, w io.Writer, flush func() error) error
}

// historyHandler serves the history.
type historyHandler struct {
	site    *site
	history History
	listed  Listed
}

func (h *historyHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /history", h.site.signedIn(h.show))
	mux.HandleFunc("POST /history/export", h.site.takesForm(h.site.reports(h.export)))
}

// byMe stands for the reader where a search names who decided.
const byMe = "me"

var historyParams = []searchParam{
	{"q", "Search"},
	{"tool", "Tool"},
	{"agent", "Agent"},
	{"env", "Environment"},
	{"outcome", "Outcome"},
	{"by", "Decided by"},
	{"part", "Took part"},
	{"since", "Ended from"},
	{"until", "Ended to"},
}

var historyChoices = map[string][]views.Option{
	"outcome": {
		{Value: string(approval.Approved), Label: "approved"},
		{Value: string(approval.Denied), Label: "denied"},
		{Value: string(approval.Expired), Label: "expired: nobody decided in time"},
		{Value: string(approval.Cancelled), Label: "cancelled by the requesting side"},
	},
	"part": {{Value: byMe, Label: "me"}},
}

// historyAsked is a search of the history as its address has it.
type historyAsked struct {
	searchForm
	search gate.HistorySearch
}

// readHistory reads a search of the history from what comes after the question mark of
// an address.
func readHistory(raw string, p engine.Person) historyAsked {
	query, err := url.ParseQuery(raw)
	asked := historyAsked{searchForm: readSearch("/history", historyParams, historyChoices, query)}
	if err != nil {
		asked.problem("A part of the search cannot be read.")
	}
	form, s := asked.form, &asked.search
	s.Words = asked.words()
	s.Tool, s.AgentID, s.Environment, s.Status, s.DecidedBy = form["tool"], form["agent"], form["env"], approval.Status(form["outcome"]), form["by"]
	if s.DecidedBy == byMe {
		s.DecidedBy = p.ID
	}
	if form["part"] != "" {
		s.PartOf = p.ID
	}
	when := func(param searchParam, wholeDay bool) time.Time {
		at, ok := parseTime(form[param.name], wholeDay)
		if !ok || at.Year() < 0 || at.Year() > 9999 {
			asked.problem("%s is no day. Write it as 2026-11-21, in UTC.", param.words)
		}
		return at
	}
	s.Since, s.Until = when(historyParams[7], false), when(historyParams[8], true)
	if !s.Since.IsZero() && !s.Until.IsZero() && !s.Since.Before(s.Until) {
		asked.problem("The period ends before it begins.")
	}
	if s.After, s.Before = query.Get("after"), query.Get("before"); s.After != "" {
		s.Before = ""
	}
	return asked
}

// view is the search as its page shows it.
func (a historyAsked) view(recent map[string][]gate.Count, name func(string) string) views.HistorySearch {
	v := views.HistorySearch{Form: a.form, Query: a.query(), Problems: a.problems, Options: map[string][]views.Option{"outcome": historyChoices["outcome"]}}
	for param, of := range map[string]string{"tool": "tool", "agent": "agent", "env": "environment"} {
		for _, c := range recent[of] {
			label := c.Value
			switch param {
			case "agent":
				label = name(label)
			case "tool":
				label = calledTool(label)
			}
			v.Options[param] = append(v.Options[param], views.Option{Value: c.Value, Label: views.Visible(label)})
		}
		slices.SortFunc(v.Options[param], func(a, b views.Option) int { return compareFold(a.Label, b.Label) })
	}
	v.Chips = a.chips(func(param, value string) string {
		switch {
		case param == "agent":
			return name(value)
		case param == "tool":
			return calledTool(value)
		case param == "by" && value == byMe:
			return "me"
		}
		return value
	})
	v.Mine, v.IsMine = a.address("by", byMe, "part", ""), a.form["by"] == byMe
	v.Part, v.IsPart = a.address("by", "", "part", byMe), a.form["part"] != ""
	v.Anybody = a.address("by", "", "part", "")
	return v
}

func (h *historyHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	asked := readHistory(r.URL.RawQuery, p)
	v := views.History{Frame: h.site.frame(p, "History", "history"), MayExport: gate.MayExportHistory(p)}
	if len(asked.problems) > 0 {
		return h.refuse(w, r, p, http.StatusBadRequest, asked)
	}
	asked.search.Counts = true
	page, err := h.history.History(r.Context(), p, asked.search)
	if detail, is := refused(err); is {
		return h.refuse(w, r, p, http.StatusUnprocessableEntity, asked, detail)
	}
	if err != nil {
		return err
	}
	told := h.site.stakes(r.Context(), h.listed, page.Rows)
	name := h.names(r.Context(), page)
	v.Search = asked.view(page.Recent, name)
	v.Found, v.More = min(page.Found, gate.HistoryCounted), page.Found > gate.HistoryCounted
	v.First = asked.address()
	if page.Previous != "" {
		v.Previous = asked.address("before", page.Previous)
	}
	if page.Next != "" {
		v.Next = asked.address("after", page.Next)
	}
	for _, a := range page.Rows {
		v.Rows = append(v.Rows, historyRow(a, p, told[a.ID], name))
	}
	if len(told) > 0 {
		return h.site.render(w, r, http.StatusOK, views.HistoryPage(v)) // it has arguments: see renderList
	}
	return h.site.renderList(w, r, views.HistoryPage(v))
}

// refuse shows the search again, with what is wrong with it.
func (h *historyHandler) refuse(w http.ResponseWriter, r *http.Request, p engine.Person, status int, asked historyAsked, problems ...string) error {
	asked.problems = append(asked.problems, problems...)
	v := views.History{Frame: h.site.frame(p, "History", "history"), MayExport: gate.MayExportHistory(p), Search: asked.view(nil, nameIn(nil))}
	return h.site.render(w, r, status, views.HistoryPage(v))
}

// names gives the names of everybody on a page of the history.
func (h *historyHandler) names(ctx context.Context, page gate.HistoryPage) func(string) string {
	var ids []string
	for _, a := range page.Rows {
		ids = append(ids, a.Call.AgentID)
		for _, f := range a.Facts {
			ids = append(append(ids, f.Actor.ID), f.Via...)
		}
	}
	for _, c := range page.Recent["agent"] {
		ids = append(ids, c.Value)
	}
	slices.Sort(ids)
	return h.site.names(ctx, slices.Compact(ids)...)
}

// ownWords are what the person has written about an approval themself, the last of it.
func ownWords(a approval.Approval, p engine.Person) (own []views.Remark) {
	verbs := map[approval.FactKind]string{
		approval.Vote: "With your vote", approval.Comment: "Your comment", approval.Question: "You asked", approval.Information: "You answered",
		approval.Edit: "Why you changed it", approval.BreakGlass: "Why you broke the glass",
	}
	for _, f := range factsInOrder(a.Facts) {
		if f.Actor.ID == p.ID && f.Comment != "" && verbs[f.Kind] != "" {
			own = append(own, views.Remark{What: verbs[f.Kind], Text: f.Comment})
		}
	}
	return own[max(0, len(own)-maxOwnWords):]
}

// maxOwnWords is how much of what somebody has written a row of the history has.
const maxOwnWords = 3

// historyRow tells the person p how an approval ended.
func historyRow(a approval.Approval, p engine.Person, told gate.Stakes, name func(string) string) views.HistoryRow {
	row := views.HistoryRow{
		ID: a.ID, Tool: a.Call.Tool, Agent: name(a.Call.AgentID), Environment: a.Call.Environment, Stakes: views.Stakes{Sentence: told.Sentence, From: told.From},
		Status: status(a), By: ending(a, name), EndedAt: a.EndedAt, Took: gate.OpenFor(a), Execution: executionWords(a), Erased: !a.ErasedAt.IsZero(), Edited: edited(a),
		Own: ownWords(a, p),
	}
	if row.Change = gate.ChangeUnder(a.Call.Tool) != ""; row.Change {
		row.Tool, row.Agent = calledTool(a.Call.Tool), ""
	}
	row.Execution = cmp.Or(row.Execution, "did not run")
	return row
}

// export sends what a search finds as a file.
func (h *historyHandler) export(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	asked := readHistory(r.PostForm.Get("query"), p)
	if len(asked.problems) > 0 {
		return h.refuse(w, r, p, http.StatusBadRequest, asked)
	}
	file := newDownload(w, r, "text/csv; charset=utf-8", report.FileName("history", asked.search.Since, asked.search.Until, "csv"))
	err := file.End(h.history.ExportHistory(r.Context(), by(p), p, asked.search, file, file.Flush))
	if detail, is := refused(err); is {
		return h.refuse(w, r, p, http.StatusUnprocessableEntity, asked, detail)
	}
	return err
}

// compareFold is the order of names in lists, without regard to case.
func compareFold(a, b string) int {
	return bytes.Compare(bytes.ToLower([]byte(a)), bytes.ToLower([]byte(b)))
}
