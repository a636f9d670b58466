package web

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/web/views"
)

// Drafts keeps what people have written into a form of an approval until it is sent.
// Errors are as Inbox's are.
type Drafts interface {
	// Keep keeps a form's fields in place of those before; nothing takes them away.
	Keep(ctx context.Context, p engine.Person, id, form string, fields url.Values) error
	// OfApproval is what the person has written about the approval, by form.
	OfApproval(ctx context.Context, p engine.Person, id string) (map[string]url.Values, error)
	// Drop takes away what was kept of a form.
	Drop(ctx context.Context, p engine.Person, id, form string) error
}

// draftFields are the forms of which drafts are kept, called as the last part of their
// address is, and the fields of each that people fill in. One that ends with a colon
// stands for all that begin so. What proves who somebody is, is never kept.
var draftFields = map[string][]string{
	"votes":          {"comment", "constraints", "valid_minutes", termField, "kind", "digest"},
	"comments":       {"comment"},
	"questions":      {"comment"},
	"pass-on":        {"comment", "to"},
	"information":    {"comment"},
	"ticket":         {"ref", "system"},
	"reconciliation": {"comment", "outcome"},
	"afterwards":     {"comment", "justified"},
	"break-glass":    {"comment", "how"},
	"edit":           {"comment", "json", "from", "digest", argumentField, quotedField},
	"answer":         {"digest", argumentField, quotedField},
	bulkForm:         {"comment", "kind"},
}

// beside are fields that say nothing without one that somebody has written.
var beside = []string{"kind", "how", "outcome", "justified", "from", "digest", "system", "to"}

// draftOf is what a posted form says that is worth keeping; nil for nothing. Fields
// are called prefix and then their name.
func draftOf(form, prefix string, posted url.Values) url.Values {
	fields, written := url.Values{}, false
	for name, values := range posted {
		name, mine := strings.CutPrefix(name, prefix)
		if !mine || !slices.ContainsFunc(draftFields[form], func(known string) bool {
			return name == known || strings.HasSuffix(known, ":") && strings.HasPrefix(name, known)
		}) {
			continue
		}
		fields[name] = values
		written = written || !slices.Contains(beside, name) && strings.Join(values, "") != ""
	}
	if !written {
		return nil
	}
	return fields
}

// carriers are what a card's other buttons do that send the form of the vote along, where no
// script runs (views.carrying).
var carriers = []string{"reveal", "claim", "unclaim", "extension", "snooze", "unsnooze", "withdraw", "draft"}

// formOf is the approval of a request with a form, and which of its forms it is; "" for
// one of which no draft is kept. A form that only comes along is one of which the request
// wants nothing but that its words stay.
func formOf(r *http.Request) (id, form string, along bool) {
	id = r.PathValue("id")
	form, mine := strings.CutPrefix(r.URL.Path, "/approvals/"+id+"/")
	switch {
	case id == "" || !mine:
		return id, "", false
	case slices.Contains(carriers, form) && r.PostForm.Has("comment"):
		return id, "votes", true
	case draftFields[form] == nil:
		return id, "", false
	}
	return id, form, false
}

// keepingDraft keeps what the form says before the handler looks at it, and drops it
// once that leads on: whatever becomes of the request in between, no word is lost.
func (s *site) keepingDraft(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request, p engine.Person) error {
		id, form, along := formOf(r)
		if form == "" || s.drafts == nil {
			return h(w, r, p)
		}
		fields := draftOf(form, "", r.PostForm)
		if fields != nil {
			s.keepDraft(r.Context(), p, id, form, fields)
		}
		if along {
			if fields == nil {
				s.dropDraft(r.Context(), p, id, form)
			}
			r.PostForm.Del("comment") // it is the vote's
			return h(w, r, p)
		}
		seen := &answered{ResponseWriter: w}
		err := h(seen, r, p)
		if err == nil && (seen.status == http.StatusSeeOther || seen.status == http.StatusNoContent) {
			s.dropDraft(r.Context(), p, id, form)
		}
		return err
	}
}

func (s *site) dropDraft(ctx context.Context, p engine.Person, id, form string) {
	if err := s.drafts.Drop(ctx, p, id, form); err != nil {
		s.logger.WarnContext(ctx, "draft not dropped", "approval", id, "error", err)
	}
}

// keepDraft keeps a draft. What the person may not see is none of theirs, and what is
// over takes no more; an outage the handler tells of itself.
func (s *site) keepDraft(ctx context.Context, p engine.Person, id, form string, fields url.Values) {
	var refusal *access.Refusal
	if err := s.drafts.Keep(ctx, p, id, form, fields); err != nil && !errors.As(err, &refusal) {
		s.logger.WarnContext(ctx, "draft not kept", "approval", id, "error", err)
	}
}

// answered remembers the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// draftsOf is what the person has written about an approval and not sent. Without it the
// page is as good as ever, so that an outage of it is none of the page.
func (s *site) draftsOf(r *http.Request, p engine.Person, id string) views.Drafts {
	if s.drafts == nil {
		return nil
	}
	kept, err := s.drafts.OfApproval(r.Context(), p, id)
	if err != nil {
		s.logger.WarnContext(r.Context(), "drafts not read", "approval", id, "error", err)
	}
	return kept
}

// draftHandler keeps what a page's script sends while somebody writes.
type draftHandler struct{ site *site }

func (h *draftHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("POST /approvals/{id}/draft", h.site.takesFormOf(maxEditForm, h.keep))
}

// keep keeps the forms that the request names; their fields are called
// form:field. A script is answered without a page.
func (h *draftHandler) keep(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	id := r.PathValue("id")
	for form, fields := range draftsIn(r.PostForm) {
		if err := h.site.drafts.Keep(r.Context(), p, id, form, fields); err != nil {
			if fromScript(r) {
				h.site.renderJSON(w, r, nil, err)
				return nil
			}
			return err
		}
	}
	if fromScript(r) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	http.Redirect(w, r, nextAfterDraft(id, r.URL.Query().Get("then")), http.StatusSeeOther)
	return nil
}

// nextAfterDraft is where a card's link leads that has kept what was written: the card itself, where
// it names nothing else that a card leads to.
func nextAfterDraft(id, then string) string {
	switch then {
	case "edit", "grant", "answer":
		return cardURL(id) + "/" + then
	case "full":
		return cardURL(id) + "?full=1"
	case "verify":
		return verifyURL(cardURL(id))
	case "account":
		return "/account"
	}
	if offered[then] != nil {
		return cardURL(id) + "/" + then
	}
	return cardURL(id)
}

// fromScript reports whether a page's script asks, and not a page that is left.
func fromScript(r *http.Request) bool { return r.Header.Get("Sec-Fetch-Dest") == "empty" }

// carriedFor names the approval about which a sign-in carries forms, or several.
const carriedFor = "draft_for"

// signInAgain answers a form that came without a live session with the page to sign in
// on, which carries what it says: the server takes nothing from somebody unknown. It
// reports false for a form that says nothing.
func (s *site) signInAgain(w http.ResponseWriter, r *http.Request) bool {
	if fromScript(r) || readFormOf(w, r, maxEditForm) != nil {
		return false
	}
	id, form, _ := formOf(r)
	v := views.SignIn{Frame: s.frame(engine.Person{}, "Sign in", ""), Next: localPath(parent(r)), Lost: true}
	drafts := map[string]url.Values{}
	switch {
	case s.drafts == nil:
	case form != "":
		drafts[form] = draftOf(form, "", r.PostForm)
	case r.URL.Path == cardURL(id)+"/draft":
		drafts = draftsIn(r.PostForm)
	case r.URL.Path == bulkPath, r.URL.Path == togetherDraft:
		if ids, fields, err := bulkDraftIn(r.PostForm); err == nil {
			id, drafts[bulkForm] = strings.Join(ids, " "), fields
			v.Next, v.Together = localPath(bulkURL(ids)), true
		}
	}
	for _, page := range []string{"edit", "answer"} {
		if drafts[page] != nil {
			v.Next = localPath(cardURL(id) + "/" + page)
		}
	}
	v.Carried = carry(id, r.PostForm.Get(writer), drafts)
	if v.Carried == nil || s.sso != nil { // a provider carries nothing
		v.Words = cmp.Or(r.PostForm.Get("comment"), r.PostForm.Get("reason"))
	}
	if v.Carried == nil && v.Words == "" {
		return false
	}
	if err := s.render(w, r, http.StatusUnauthorized, s.signInPage(v)); err != nil {
		s.fail(w, r, engine.Person{}, err)
	}
	return true
}

// draftsIn are the drafts that a form carries: the forms that it names, whose fields are
// called form:field.
func draftsIn(posted url.Values) map[string]url.Values {
	drafts := map[string]url.Values{}
	for _, form := range posted["form"] {
		if draftFields[form] != nil {
			drafts[form] = draftOf(form, form+":", posted)
		}
	}
	return drafts
}

// carry are the hidden fields in which draftsIn finds drafts about an approval again;
// nil for none, and for those of which nobody knows whose they are.
func carry(id, by string, drafts map[string]url.Values) []views.Field {
	var hidden []views.Field
	for _, form := range slices.Sorted(maps.Keys(drafts)) {
		if drafts[form] == nil {
			continue
		}
		hidden = append(hidden, views.Field{Name: "form", Value: form})
		for _, name := range slices.Sorted(maps.Keys(drafts[form])) {
			for _, value := range drafts[form][name] {
				hidden = append(hidden, views.Field{Name: form + ":" + name, Value: value})
			}
		}
	}
	if hidden == nil || by == "" {
		return nil
	}
	return append(hidden, views.Field{Name: carriedFor, Value: id}, views.Field{Name: writer, Value: by})
}

// carried are the hidden fields of a form that goes on carrying what it carries.
func carried(posted url.Values) []views.Field {
	return carry(posted.Get(carriedFor), posted.Get(writer), draftsIn(posted))
}

// keepCarried keeps what the sign-in has carried, when it is their writer who has signed
// in.
func (s *site) keepCarried(r *http.Request, p engine.Person) {
	ids, err := chosen(strings.Fields(r.PostForm.Get(carriedFor)))
	if err != nil || s.drafts == nil || r.PostForm.Get(writer) != p.ID {
		return
	}
	for form, fields := range draftsIn(r.PostForm) {
		for _, id := range ids {
			if fields != nil {
				s.keepDraft(r.Context(), p, id, form, fields)
			}
		}
	}
}
