package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// bulkHandler serves the page on which alike calls are decided together: as a table
// of their differences, with a vote of its own for each.
type bulkHandler struct {
	site    *site
	cards   Cards
	votes   Votes
	factors *identity.Factors // nil when nobody can have any
}

const (
	bulkPath = "/inbox/together"
	// maxBulk is how many calls are decided together at most, and maxBulkForm
	// how long the form with all of their signatures is, in bytes.
	maxBulk     = 100
	maxBulkForm = 512 << 10
)

func (h *bulkHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+bulkPath, h.site.signedIn(h.show))
	mux.HandleFunc("POST "+bulkPath, h.site.takesFormOf(maxBulkForm, h.vote))
	if h.site.drafts != nil {
		mux.HandleFunc("POST "+togetherDraft, h.site.takesFormOf(maxBulkForm, h.keep))
	}
}

// bulkURL is the page for these calls.
func bulkURL(ids []string) string { return bulkPath + "?" + url.Values{"id": ids}.Encode() }

func (h *bulkHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if err := refusePrefetch(r); err != nil {
		return err
	}
	ids, err := chosen(r.URL.Query()["id"])
	if err != nil {
		return err
	}
	if len(ids) == 1 {
		http.Redirect(w, r, cardURL(ids[0]), http.StatusSeeOther)
		return nil
	}
	return h.render(w, r, p, ids, views.Bulk{Frame: views.Frame{Notice: h.site.flash(w, r)}}, http.StatusOK)
}

// chosen are the ids of a form, each once.
func chosen(named []string) ([]string, error) {
	var ids []string
	known := map[string]bool{}
	for _, id := range named {
		if id != "" && !known[id] {
			known[id] = true
			ids = append(ids, id)
		}
	}
	switch {
	case len(ids) == 0:
		return nil, invalid("nothing_chosen", "Tick the calls first. Nothing was done.")
	case len(ids) > maxBulk:
		return nil, invalid("too_many", "Up to "+strconv.Itoa(maxBulk)+" calls are taken together. Choose fewer. Nothing was done.")
	}
	return ids, nil
}

// render shows the calls; v says what was entered already.
func (h *bulkHandler) render(w http.ResponseWriter, r *http.Request, p engine.Person, ids []string, v views.Bulk, status int) error {
	calls, err := h.read(r, p, ids)
	if err != nil {
		return err
	}
	if rows := plainCalls(calls); len(rows) == 1 {
		i := slices.IndexFunc(calls, func(c alikeCall) bool { return c.id == rows[0].id })
		calls[i].apart = "None of the others is like it: decide it on its own card."
	}
	// What deserves a second look comes first.
	slices.SortStableFunc(calls, func(a, b alikeCall) int {
		return cmp.Compare(min(len(b.view.Sum.Flags), 1), min(len(a.view.Sum.Flags), 1))
	})
	fillBulk(&v, calls)
	notice := v.Notice
	v.Frame, v.Kinds, v.MaxComment = h.site.frame(p, "Decide together", ""), denials, gate.MaxComment
	v.Notice = notice
	if v.Drafts = h.site.drafts != nil; v.Drafts && v.Failure == "" {
		h.fillBulkDraft(r, p, plainCalls(calls), &v)
	}
	var seen []gate.SeenCard
	for i, c := range plainCalls(calls) {
		row := &v.Rows[i]
		// What is evidence is rendered once, as on the call's own page.
		if row.Seen, err = views.RenderCard(r.Context(), shownCard(c.found).Open(), c.view, audit.CardEnd); err != nil {
			return err
		}
		seen = append(seen, gate.SeenCard{Approval: c.found.Approval, Card: []byte(row.Seen)})
	}
	if r.Method != http.MethodHead {
		if err := h.cards.Show(r.Context(), p, "console", seen...); err != nil {
			return err
		}
	}
	return h.site.render(w, r, status, views.BulkPage(v))
}

// read reads the calls, and says of each that cannot be decided together with the others
// why not.
func (h *bulkHandler) read(r *http.Request, p engine.Person, ids []string) ([]alikeCall, error) {
	elsewhere := passkeysElsewhere(h.factors, r)
	calls := make([]alikeCall, len(ids))
	for i, id := range ids {
		found, err := h.cards.Card(r.Context(), p, id, gate.Unrecorded)
		var refusal *access.Refusal
		switch {
		case errors.As(err, &refusal):
			calls[i] = alikeCall{id: id, apart: refusal.Detail}
			continue
		case err != nil:
			return nil, err
		}
		c := alikeCall{id: id, found: found, view: card(found, p, gate.Unrecorded, h.site.stopped(found.Approval.Call.AgentID))}
		c.view.Rules = h.site.rules(r, h.cards, p, found)
		signedHere(&c.view.Decide, elsewhere)
		c.apart = c.reasonApart()
		calls[i] = c
	}
	setApart(calls)
	return calls, nil
}

// vote takes one decision for all calls that are ticked. Each gets a vote of its own, on
// its own digest and version, as a form on its card would: that one fails does not undo
// another, and a form that comes again says what it said before.
func (h *bulkHandler) vote(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	form := r.PostForm
	ids, err := chosen(form["id"])
	say := views.Bulk{Comment: form.Get("comment"), Kind: form.Get("kind")}
	if err == nil {
		err = validBulk(form)
	}
	var refusal *access.Refusal
	if errors.As(err, &refusal) {
		say.Failure = refusal.Detail
		shown, unknown := chosen(strings.Fields(form.Get("shown")))
		if unknown != nil || len(ids) > maxBulk {
			return keeping(err, say.Comment)
		}
		h.dropBulkDraft(r.Context(), p, form, nil, shown)
		return h.render(w, r, p, shown, say, http.StatusUnprocessableEntity)
	}
	// A browser that leaves takes no vote back: all of them are cast, or none is known of.
	ctx := context.WithoutCancel(r.Context())
	calls, err := h.read(r.WithContext(ctx), p, ids)
	if err != nil {
		return keeping(err, say.Comment)
	}
	v := views.BulkDone{Frame: h.site.frame(p, "Decided together", "")}
	var voted, again []string
	away := false
	for _, c := range calls {
		result := views.BulkResult{ID: c.id, Tool: c.view.Tool, Stakes: c.view.Stakes, Text: "Not recorded: Holdpoint cannot answer right now. Try again in a moment."}
		if !away {
			result.Text, result.Good, err = h.voteOne(ctx, p, c, form)
			if away = err != nil; away {
				h.site.logger.ErrorContext(ctx, "vote not recorded", "approval", c.id, "error", err)
			}
		}
		if result.Good {
			v.Good++
			voted = append(voted, c.id)
		} else {
			v.Comment = say.Comment
			if c.view.ID != "" && !c.view.Over {
				again = append(again, c.id)
			}
		}
		v.Results = append(v.Results, result)
	}
	h.dropBulkDraft(ctx, p, form, voted, again)
	if len(again) > 0 {
		v.AgainURL = bulkURL(again)
	}
	if fromScript(r) && v.Good == len(v.Results) { // who leaves a page that held it
		h.site.setFlash(w, "votedall")
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return h.site.render(w, r, http.StatusOK, views.BulkDonePage(v))
}

// validBulk refuses what makes no sense for any call.
func validBulk(form url.Values) error {
	switch decision := form.Get("decision"); {
	case decision != "approve" && decision != "deny":
		return invalid("incomplete_form", "The form said neither approve nor deny. Nothing was recorded.")
	case decision == "deny" && !approval.Denial(form.Get("kind")).Valid():
		return invalid("incomplete_form", "Choose what kind of no it is. Nothing was recorded.")
	case len(form.Get("comment")) > gate.MaxComment:
		return invalid("comment_too_long", "The comment is longer than "+views.Thousands(gate.MaxComment)+" bytes. Shorten it and send it again. Nothing was recorded.")
	}
	return nil
}

// voteOne casts the vote on one call, and says what became of it. An error is an outage.
func (h *bulkHandler) voteOne(ctx context.Context, p engine.Person, c alikeCall, form url.Values) (text string, good bool, err error) {
	v := gate.VoteRequest{
		Person: p, ApprovalID: c.id, Approve: form.Get("decision") == "approve", Comment: form.Get("comment"), Digest: form.Get("digest:" + c.id),
		RequestID: by(p).RequestID, Channel: "console",
		Signed: identity.Proof{Assertion: []byte(form.Get("assertion:" + c.id)), ChallengeID: form.Get("challenge:" + c.id)},
	}
	if !v.Approve {
		v.Denial = approval.Denial(form.Get("kind"))
	}
	v.Version, err = strconv.Atoi(form.Get("version:" + c.id))
	switch {
	case err != nil || v.Digest == "":
		return "Not recorded: the form did not say which version of the card it was about.", false, nil
	case hasVoted(c.found.Approval, v):
		return map[bool]string{true: "You approved it.", false: "You denied it."}[v.Approve], true, nil
	case c.view.ID != "" && !isAbout(v, c.found):
		return "Not recorded: " + strings.Join(changesSince(v, c.found), " "), false, nil
	case c.apart != "":
		return "Not recorded: " + c.apart, false, nil
	}
	after, err := h.votes.Vote(ctx, v, nil)
	return voteResult(v.Approve, after, err)
}

// hasVoted reports whether the vote is on record already: its form has come before.
func hasVoted(a approval.Approval, v gate.VoteRequest) bool {
	said, yes := false, false
	for _, f := range factsInOrder(a.Facts) {
		if f.Kind == approval.Vote && f.Actor.ID == v.Person.ID && f.Edition == a.Plan.Edition && f.Details.Grant == "" {
			said, yes = true, f.Yes
		}
	}
	return said && yes == v.Approve && v.Digest == a.Call.Digest
}

// voteResult says what became of a vote. An error is an outage: nobody knows then.
func voteResult(approve bool, after approval.Approval, err error) (text string, good bool, outage error) {
	var refusal *access.Refusal
	switch {
	case errors.As(err, &refusal):
		return "Not recorded: " + refusal.Detail, false, nil
	case err != nil:
		return "Not recorded: Holdpoint cannot answer right now. Try again in a moment.", false, err
	}
	text = map[bool]string{true: "You approved it.", false: "You denied it."}[approve]
	if !over(after) {
		text += " " + strings.TrimSpace(sentence(after, nameIn(nil)))
	}
	return text, true, nil
}

// fillBulk writes the calls into their view.
func fillBulk(v *views.Bulk, calls []alikeCall) {
	rows := plainCalls(calls)
	for _, c := range calls {
		if c.apart != "" {
			v.Apart = append(v.Apart, views.ApartCall{ID: c.id, Tool: c.view.Tool, Why: c.apart})
		}
	}
	if len(rows) == 0 {
		return
	}
	v.All = rows[0].view
	differs := func(of func(views.Approval) string) bool {
		return slices.ContainsFunc(rows, func(c alikeCall) bool { return of(c.view) != of(v.All) })
	}
	v.Credentials = differs(func(a views.Approval) string { return a.Requester.Credential })
	v.Claims = differs(func(a views.Approval) string { return a.Requester.ByClaim + a.Requester.Widened })
	v.Statements = slices.ContainsFunc(rows, func(c alikeCall) bool { return !reflect.DeepEqual(c.view.Statements, v.All.Statements) })
	if differs(func(a views.Approval) string { return a.Sum.Alike }) {
		v.All.Sum.Alike = ""
	}
	for _, c := range rows {
		v.All.Stakes.Danger = max(v.All.Stakes.Danger, c.view.Stakes.Danger)
	}
	last := v.All.Deadline
	for _, c := range rows {
		if d := c.view.Deadline; d.Before(v.All.Deadline) {
			v.All.Deadline = d
		} else if d.After(last) {
			last = d
		}
	}
	v.Deadlines = last.Sub(v.All.Deadline) > time.Minute
	var differing []string
	v.Same, differing = compare(rows)
	v.Columns, v.More = differing, 0
	if len(differing) > maxColumns {
		v.Columns, v.More = differing[:maxColumns], len(differing)-maxColumns
	}
	for _, c := range rows {
		row := views.BulkRow{
			ID: c.id, Digest: c.view.Digest, Version: c.view.Version, Stakes: c.view.Stakes, Credential: c.view.Requester.Credential,
			ByClaim: strings.TrimSpace(c.view.Requester.ByClaim + " " + c.view.Requester.Widened), Deadline: c.view.Deadline, Flags: c.view.Sum.Flags,
		}
		if !c.view.Claim.Mine {
			row.ClaimedBy = c.view.Claim.By
		}
		for _, path := range v.Columns {
			var cell *views.Code
			if i := slices.IndexFunc(c.args, func(a views.Argument) bool { return a.Path == path }); i >= 0 {
				cell = &c.args[i].Code
			}
			row.Cells, row.InSentence = append(row.Cells, cell), append(row.InSentence, c.showsArgument(path))
		}
		v.Rows = append(v.Rows, row)
	}
}
