package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// historyPage is how many approvals a page of the history holds.
const historyPage = 30

func (c *Console) inbox(w http.ResponseWriter, r *http.Request, p engine.Person) {
	waiting, err := c.cfg.Desk.Inbox(r.Context(), p)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	errands, err := c.cfg.Desk.Errands(r.Context(), p)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	var ids []string
	for _, a := range slices.Concat(waiting, errands.Unknown, errands.Reviews, errands.Mine) {
		ids = append(ids, a.Call.AgentID)
		if a.State.Claim != nil {
			ids = append(ids, a.State.Claim.Actor.ID)
		}
	}
	name := c.site.names(r.Context(), ids...)
	v := views.Inbox{Frame: c.site.frame(p, "Inbox", "inbox"), Full: len(waiting) >= gate.MaxInbox}
	for _, a := range errands.Unknown {
		v.Owed = append(v.Owed, errandRow(a, "Say what became of it: nobody knows whether it ran", name))
	}
	for _, a := range errands.Reviews {
		v.Owed = append(v.Owed, errandRow(a, "Look at it afterwards: somebody broke the glass alone", name))
	}
	for _, a := range errands.Mine {
		v.Mine = append(v.Mine, errandRow(a, wantedOf(a), name))
	}
	if n := len(waiting) + len(v.Owed) + len(v.Mine); n > 0 {
		v.Title = "(" + strconv.Itoa(n) + ") Inbox"
	}
	v.Live, v.Refresh = "/live?seen="+inboxMark(waiting, errands), true
	for _, a := range waiting {
		v.Rows = append(v.Rows, inboxRow(a, name))
	}
	c.site.render(w, r, http.StatusOK, views.InboxPage(v))
}

func (c *Console) history(w http.ResponseWriter, r *http.Request, p engine.Person) {
	cursor := r.URL.Query().Get("cursor")
	ended, next, err := c.cfg.Desk.History(r.Context(), p, cursor, historyPage)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	var ids []string
	for _, a := range ended {
		ids = append(ids, a.Call.AgentID)
		for _, f := range a.Facts {
			ids = append(ids, f.Actor.ID)
		}
	}
	name := c.site.names(r.Context(), ids...)
	v := views.History{Frame: c.site.frame(p, "History", "history"), Next: next, First: cursor == ""}
	for _, a := range ended {
		v.Rows = append(v.Rows, historyRow(a, name))
	}
	c.site.render(w, r, http.StatusOK, views.HistoryPage(v))
}

func (c *Console) approval(w http.ResponseWriter, r *http.Request, p engine.Person) {
	if c.ahead(w, r, p) {
		return
	}
	look := lookOf(r)
	if look == gate.Page && r.URL.Query().Get("full") == "1" {
		look = gate.Whole
	}
	c.showApproval(w, r, p, look, http.StatusOK, "")
}

// showApproval shows the card. failure is what to say of a proof that was none.
func (c *Console) showApproval(w http.ResponseWriter, r *http.Request, p engine.Person, look gate.Look, status int, failure string) {
	found, err := c.cfg.Desk.Card(r.Context(), p, r.PathValue("id"), look)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	v := card(found, p, look == gate.Whole, c.site.stopped(found.Approval.Call.AgentID))
	// What is evidence is rendered once: these bytes are hashed, kept and sent.
	if v.Seen, err = views.RenderCard(r.Context(), cardOf(found).Open(), v, audit.CardEnd); err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	if look != gate.Glance && !v.Arguments.Erased && !v.Arguments.Cut() {
		if err := c.cfg.Desk.Show(r.Context(), p, "console", gate.SeenCard{Approval: found.Approval, Card: []byte(v.Seen)}); err != nil {
			c.site.fail(w, r, p, err)
			return
		}
	}
	if v.Asked.StepUp != nil {
		if err := c.stepUpForm(r, p, v.Asked.StepUp); err != nil {
			c.site.fail(w, r, p, err)
			return
		}
		v.Asked.StepUp.Failure = failure
	}
	if gate.MayReadRules(p) {
		v.EvidenceURL = "/v1/audit/evidence?approval_id=" + url.QueryEscape(found.Approval.ID)
	}
	v.Frame = c.site.frame(p, v.Status.Word+": "+views.Visible(v.Tool), "")
	if !found.Now.IsZero() {
		v.Now = found.Now
	}
	if status == http.StatusOK {
		v.Notice = c.site.flash(w, r)
	}
	if a := found.Approval; !final(a) || v.After.Owed {
		v.Live = "/approvals/" + url.PathEscape(a.ID) + "/live?seen=" + strconv.FormatInt(a.Revision, 10)
		v.Refresh = v.Status.Code == "settling"
	}
	c.site.render(w, r, status, views.ApprovalPage(v))
}

// cardOf says which card somebody is shown.
func cardOf(c gate.Card) audit.Card {
	return audit.Card{ApprovalID: c.Approval.ID, Edition: c.Approval.Plan.Edition, CallDigest: c.Approval.Call.Digest, Salt: c.Salt}
}

// lookOf is how somebody looks at the answer to a request: not at all at a HEAD's.
func lookOf(r *http.Request) gate.Look {
	if r.Method == http.MethodHead {
		return gate.Glance
	}
	return gate.Page
}

// ahead refuses a GET whose answer may be on somebody's screen later, or never, and
// reports whether it did: what is sent of a card is on record as shown, and what is
// not on record is not sent.
func (c *Console) ahead(w http.ResponseWriter, r *http.Request, p engine.Person) bool {
	if r.Method != http.MethodGet || onScreen(r) {
		return false
	}
	c.site.fail(w, r, p, &gate.Refusal{Status: http.StatusServiceUnavailable, Code: "not_on_screen", Detail: "Cards are sent to a page that is being opened, and not ahead of it."})
	return true
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
