package web

import (
	"net/http"

	"holdpoint/engine"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// offered says, of the forms of a card into which people write beside their vote, whether
// the card has one.
var offered = map[string]func(views.Approval) bool{
	"comments":       func(v views.Approval) bool { return v.Actions.Comment },
	"questions":      func(v views.Approval) bool { return v.Actions.Ask },
	"pass-on":        func(v views.Approval) bool { return len(v.Actions.PassOn) > 0 || v.Actions.PassOnByEmail },
	"break-glass":    func(v views.Approval) bool { return v.Actions.Break },
	"information":    func(v views.Approval) bool { return v.Tasks.Question != nil },
	"ticket":         func(v views.Approval) bool { return v.Tasks.Ticket != nil },
	"reconciliation": func(v views.Approval) bool { return v.Tasks.Reconcile },
	"afterwards":     func(v views.Approval) bool { return v.Tasks.BreakGlassReview },
}

// form shows one of the card's forms on a page of its own, where without script nothing
// else can be sent: words in the other forms of a page are lost then. It shows nothing of
// the arguments but the sentence that the inbox has, and leads to the card where that has
// no such form.
func (h *cardHandler) form(form string, has func(views.Approval) bool) handler {
	return func(w http.ResponseWriter, r *http.Request, p engine.Person) error {
		id := r.PathValue("id")
		found, err := h.cards.Card(r.Context(), p, id, gate.Unrecorded)
		if err != nil {
			return err
		}
		v := card(found, p, gate.Unrecorded, h.site.stopped(found.Approval.Call.AgentID))
		if !has(v) {
			http.Redirect(w, r, cardURL(id), http.StatusSeeOther)
			return nil
		}
		v.Apart, v.Drafts = true, h.site.draftsOf(r, p, id)
		v.Frame = h.site.frame(p, views.Visible(v.Tool), "")
		if !found.Now.IsZero() {
			v.Now = found.Now
		}
		return h.site.render(w, r, http.StatusOK, views.FormPage(v, form))
	}
}
