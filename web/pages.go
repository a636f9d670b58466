package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"holdpoint/engine"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// historyPage is how many approvals a page of the history holds.
const historyPage = 30

func (c *Console) inbox(w http.ResponseWriter, r *http.Request, p engine.Person) {
	waiting, err := c.cfg.Desk.Inbox(r.Context(), p)
	if err != nil {
		c.fail(w, r, p, err)
		return
	}
	ids := make([]string, len(waiting))
	for i, a := range waiting {
		ids[i] = a.Call.AgentID
	}
	name := c.names(r.Context(), ids...)
	v := views.Inbox{Frame: c.frame(p, "Inbox", "inbox"), Full: len(waiting) >= gate.MaxInbox}
	if n := len(waiting); n > 0 {
		v.Title = "(" + strconv.Itoa(n) + ") Inbox"
	}
	v.Live, v.Refresh = "/live?seen="+inboxMark(waiting), true
	for _, a := range waiting {
		v.Rows = append(v.Rows, inboxRow(a, name))
	}
	c.render(w, r, http.StatusOK, views.InboxPage(v))
}

func (c *Console) history(w http.ResponseWriter, r *http.Request, p engine.Person) {
	cursor := r.URL.Query().Get("cursor")
	ended, next, err := c.cfg.Desk.History(r.Context(), p, cursor, historyPage)
	if err != nil {
		c.fail(w, r, p, err)
		return
	}
	var ids []string
	for _, a := range ended {
		ids = append(ids, a.Call.AgentID)
		for _, f := range a.Facts {
			ids = append(ids, f.Actor.ID)
		}
	}
	name := c.names(r.Context(), ids...)
	v := views.History{Frame: c.frame(p, "History", "history"), Next: next, First: cursor == ""}
	for _, a := range ended {
		v.Rows = append(v.Rows, historyRow(a, name))
	}
	c.render(w, r, http.StatusOK, views.HistoryPage(v))
}

func (c *Console) approval(w http.ResponseWriter, r *http.Request, p engine.Person) {
	look := gate.Glance
	if onScreen(r) {
		look = gate.Page
		if r.URL.Query().Get("full") == "1" {
			look = gate.Whole
		}
	}
	found, err := c.cfg.Desk.Card(r.Context(), p, r.PathValue("id"), look)
	if err != nil {
		c.fail(w, r, p, err)
		return
	}
	v := card(found, p, look == gate.Whole, c.stopped(found.Approval.Call.AgentID))
	v.Frame = c.frame(p, v.Status.Word+": "+views.Visible(v.Tool), "")
	if !found.Now.IsZero() {
		v.Now = found.Now
	}
	if a := found.Approval; !final(a) {
		v.Live = "/approvals/" + url.PathEscape(a.ID) + "/live?seen=" + strconv.FormatInt(a.Revision, 10)
		v.Refresh = v.Status.Code == "settling"
	}
	c.render(w, r, http.StatusOK, views.ApprovalPage(v))
}

// onScreen reports whether a GET may count as showing a page to somebody: it is
// no HEAD, no prefetch, and, where the browser says so, a page being opened or
// our own script looking again.
func onScreen(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Moz"} {
		if v := strings.ToLower(r.Header.Get(name)); strings.Contains(v, "prefetch") || strings.Contains(v, "preview") {
			return false
		}
	}
	switch r.Header.Get("Sec-Fetch-Dest") {
	case "", "document":
		return true
	case "empty":
		return r.Header.Get("Sec-Fetch-Site") == "same-origin"
	}
	return false
}
