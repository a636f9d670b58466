package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/web/views"
)

const (
	// bulkForm is the form of several calls: its draft is kept with each of them, so that
	// the words are there for those that are left when one has ended.
	bulkForm      = "together"
	togetherDraft = "/inbox/draft"
)

// bulkDraftIn are the calls that a posted form of several is about, and what it says that is
// worth keeping, nil for nothing.
func bulkDraftIn(posted url.Values) (ids []string, fields url.Values, err error) {
	shown := posted.Get("shown")
	if slices.Contains(posted["form"], bulkForm) {
		shown, fields = posted.Get(bulkForm+":shown"), draftsIn(posted)[bulkForm]
	} else {
		fields = draftOf(bulkForm, "", posted)
	}
	ids, err = chosen(strings.Fields(shown))
	return ids, fields, err
}

// keep keeps what is written about several calls, while somebody writes or before they go.
func (h *bulkHandler) keep(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	ids, fields, err := bulkDraftIn(r.PostForm)
	if err == nil {
		err = h.keepBulkDraft(r.Context(), p, ids, fields)
	}
	if fields == nil && r.URL.Query().Has("then") { // a link has nothing to keep
		err = nil
	}
	switch {
	case err != nil && fromScript(r):
		h.site.renderJSON(w, r, nil, err)
	case err != nil:
		return keeping(err, r.PostForm.Get("comment"))
	case fromScript(r):
		w.WriteHeader(http.StatusNoContent)
	default:
		http.Redirect(w, r, nextAfterBulk(ids, r.URL.Query()), http.StatusSeeOther)
	}
	return nil
}

// nextAfterBulk is where a link of the page leads that has kept what was written: a card, the
// inbox, or the page itself, where it names neither.
func nextAfterBulk(ids []string, asked url.Values) string {
	switch then := asked.Get("then"); then {
	case "":
		return bulkURL(ids)
	case "inbox":
		return "/"
	default:
		return cardURL(then)
	}
}

// keepBulkDraft keeps a draft with each of these calls. One that takes none any more is none of
// the others; an error says that none has it.
func (h *bulkHandler) keepBulkDraft(ctx context.Context, p engine.Person, ids []string, fields url.Values) error {
	var refused error
	kept := 0
	for _, id := range ids {
		if err := h.site.drafts.Keep(ctx, p, id, bulkForm, fields); err != nil {
			refused = err
			continue
		}
		kept++
	}
	if kept > 0 {
		return nil
	}
	return refused
}

// fillBulkDraft fills in what the person has written and not sent: into the form, where it
// was about all of these calls, and otherwise beside it, to copy: nobody sends with a call what
// they have written about others.
func (h *bulkHandler) fillBulkDraft(r *http.Request, p engine.Person, calls []alikeCall, v *views.Bulk) {
	var all []url.Values
	without := false
	for _, c := range calls {
		fields := h.site.draftsOf(r, p, c.id)[bulkForm]
		if fields.Get("comment") == "" {
			without = true
		} else if !slices.ContainsFunc(all, func(f url.Values) bool { return f.Get("comment") == fields.Get("comment") }) {
			all = append(all, fields)
		}
	}
	if len(all) == 1 && !without {
		v.Comment, v.Kind, v.Again = all[0].Get("comment"), all[0].Get("kind"), true
		return
	}
	for _, fields := range all {
		v.Elsewhere = append(v.Elsewhere, fields.Get("comment"))
	}
}

// dropBulkDraft drops what was written about the calls on which a vote is recorded, and keeps
// it for those that can still be decided.
func (h *bulkHandler) dropBulkDraft(ctx context.Context, p engine.Person, form url.Values, voted, again []string) {
	if h.site.drafts == nil {
		return
	}
	for _, id := range voted {
		h.site.dropDraft(ctx, p, id, bulkForm)
	}
	if fields := draftOf(bulkForm, "", form); fields != nil {
		for _, id := range again {
			h.site.keepDraft(ctx, p, id, bulkForm, fields)
		}
	}
}
