package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// CallSessions is the calls of an agent's session, to be decided together. Errors are as
// Inbox's are.
type CallSessions interface {
	// Session lists the calls of a session that the person may see, those that wait
	// first, and whether more were left out. look is as for Card.
	Session(ctx context.Context, p engine.Person, agentID, session string, look gate.Display) ([]gate.Card, bool, error)
	Show(ctx context.Context, p engine.Person, channel string, cards ...gate.SeenCard) error
}

// sessionHandler serves the page of all calls of a session.
type sessionHandler struct {
	site     *site
	sessions CallSessions
	votes    Votes
}

func (h *sessionHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /sessions/{agent}/{session}", h.site.signedIn(h.show))
	mux.HandleFunc("POST /sessions/{agent}/{session}/votes", h.site.takesForm(h.vote))
}

// sessionURL is the page of all calls of a session; "" where no address can name it.
func sessionURL(agent, session string) string {
	for _, name := range []string{agent, session} {
		if name == "" || name == "." || name == ".." {
			return ""
		}
	}
	return "/sessions/" + url.PathEscape(agent) + "/" + url.PathEscape(session)
}

// How much a row of a session shows of a call's arguments: what is longer is
// decided on its own card.
const (
	rowLines = 14
	rowRunes = 1200
)

func (h *sessionHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if err := refusePrefetch(r); err != nil {
		return err
	}
	return h.render(w, r, p, http.StatusOK, nil, "")
}

// render shows all calls of a session. results say what became of what the
// person has just decided, and comment is what they wrote if nothing was.
func (h *sessionHandler) render(w http.ResponseWriter, r *http.Request, p engine.Person, status int, results []views.SessionResult, failure string) error {
	look := viewingOf(r)
	agent, session := r.PathValue("agent"), r.PathValue("session")
	cards, full, err := h.sessions.Session(r.Context(), p, agent, session, look)
	if err != nil {
		return err
	}
	v := views.SessionPage{
		Frame: h.site.frame(p, "Session of "+views.Visible(agentName(cards[0])), ""), Agent: agentName(cards[0]), AgentID: agent, Session: session,
		Action: sessionURL(agent, session) + "/votes", Full: full, Kinds: denials, MaxComment: gate.MaxComment, Results: results, Failure: failure,
	}
	var seen []gate.SeenCard
	for _, found := range cards {
		row := h.row(found, p)
		if row.Approve || row.Deny {
			v.Open++
		}
		if row.Seen, err = views.RenderRow(r.Context(), shownCard(found).Open(), row, audit.CardEnd); err != nil {
			return err
		}
		if look != gate.Unrecorded && len(row.Arguments.Lines) > 0 && !row.Cut && !row.Masked {
			seen = append(seen, gate.SeenCard{Approval: found.Approval, Card: []byte(row.Seen)})
		}
		v.Rows = append(v.Rows, row)
	}
	if err := h.sessions.Show(r.Context(), p, "console", seen...); err != nil {
		return err
	}
	return h.site.render(w, r, status, views.SessionView(v))
}

// row is one call, and what can be decided of it without its card.
func (h *sessionHandler) row(found gate.Card, p engine.Person) views.SessionRow {
	a := found.Approval
	name := nameIn(found.Names)
	row := views.SessionRow{
		ID: a.ID, Tool: a.Call.Tool, Digest: a.Call.Digest, Version: a.Version, Status: status(a), Sentence: sentence(a, name),
	}
	if fs := a.Decision.StrictestFirst(); len(fs) > 0 {
		row.Why = fs[0].Message
	}
	if over(a) {
		return row
	}
	row.Deadline = deadline(a)
	d := decisionOf(found, p, false, h.site.stopped(a.Call.AgentID))
	row.Approve, row.Deny, row.Note = d.Approve, d.Deny, d.Note
	masked := found.Masked != nil
	found = found.Concealed()
	if found.Arguments != nil {
		code := views.JSON(found.Arguments)
		var lines, runes int
		row.Arguments, lines, runes = code.Preview(rowLines, rowRunes)
		row.Stakes = views.Stakes{Sentence: found.Stakes.Sentence, From: found.Stakes.From}
		row.Warnings = code.Warnings.Total()
		row.Cut, row.Masked = lines > 0 || runes > 0, masked
	}
	switch {
	case found.Unreadable:
		row.Note = "This call cannot be read, so nobody can approve it. Its card says more."
	case !row.Approve:
	case masked:
		row.Approve, row.Note = false, "Some of its values look like secrets and are masked: approve it on its own card."
	case found.Arguments == nil:
		row.Approve, row.Note = false, d.Blocked
	case found.Long || row.Cut:
		row.Approve, row.Note = false, "Its arguments are long: approve it on its own card."
	case row.Warnings > 0:
		row.Approve, row.Note = false, "Something in it is not what it looks like: approve it on its own card."
	case d.Sign:
		row.Approve, row.Note = false, "Your passkey has to sign this one: decide it on its own card."
	case d.Blocked != "":
		row.Approve, row.Note = false, d.Blocked
	case d.Verify != "":
		row.Approve, row.Note = false, "A person has to decide this one: prove who you are on its own card."
	}
	if d.SignDeny {
		row.Deny, row.Note = false, "Your passkey has to sign what you say of this one: decide it on its own card."
	}
	return row
}

// vote takes one decision for each row that has one. Each is a vote of its
// own, on its own digest and version: that one fails does not undo another.
func (h *sessionHandler) vote(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	ids := r.PostForm["id"]
	if len(ids) > gate.MaxSession {
		return invalid("incomplete_form", "The form decides more calls than one page shows.")
	}
	agent, session := r.PathValue("agent"), r.PathValue("session")
	cards, _, err := h.sessions.Session(r.Context(), p, agent, session, gate.Unrecorded)
	if err != nil {
		return err
	}
	offered := map[string]views.SessionRow{}
	for _, found := range cards {
		offered[found.Approval.ID] = h.row(found, p)
	}
	var results []views.SessionResult
	for _, id := range ids {
		decision := r.PostForm.Get("decision:" + id)
		row, there := offered[id]
		if decision == "" || decision == "leave" || !there {
			continue
		}
		delete(offered, id) // an id that is named twice is decided once
		results = append(results, h.voteOne(r, p, row, decision))
	}
	if len(results) == 0 {
		return h.render(w, r, p, http.StatusUnprocessableEntity, nil, "Nothing was decided: choose approve or deny for at least one call.")
	}
	return h.render(w, r, p, http.StatusOK, results, "")
}

// voteOne casts the vote of one row.
func (h *sessionHandler) voteOne(r *http.Request, p engine.Person, row views.SessionRow, decision string) views.SessionResult {
	result := views.SessionResult{ID: row.ID, Tool: row.Tool}
	s := contributionOf(r, p)
	v := gate.VoteRequest{
		Person: p, ApprovalID: row.ID, Approve: decision == "approve", Comment: s.Comment, Digest: r.PostForm.Get("digest:" + row.ID),
		RequestID: s.RequestID, Channel: s.Channel,
	}
	var err error
	v.Version, err = strconv.Atoi(r.PostForm.Get("version:" + row.ID))
	switch {
	case err != nil || v.Digest == "" || !v.Approve && decision != "deny":
		result.Text = "Not recorded: the form was incomplete."
		return result
	case len(v.Comment) > gate.MaxComment:
		result.Text = "Not recorded: the comment is too long."
		return result
	case v.Approve && !row.Approve:
		result.Text = "Not recorded: " + row.Note
		return result
	case !v.Approve:
		if v.Denial = approval.Denial(r.PostForm.Get("kind")); !v.Denial.Valid() {
			result.Text = "Not recorded: choose what kind of no it is."
			return result
		}
	}
	after, err := h.votes.Vote(r.Context(), v, nil)
	if result.Text, result.Good, err = voteResult(v.Approve, after, err); err != nil && !hungUp(r.Context()) {
		h.site.logger.ErrorContext(r.Context(), "vote not recorded", "approval", row.ID, "error", err)
	}
	return result
}
