package web

import (
	"net/http"
	"net/url"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/form"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// answerHandler serves the page on which somebody supplies what a call asks for.
type answerHandler struct {
	site         *site
	cards        Cards
	requirements Requirements
}

func (h *answerHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /approvals/{id}/answer", h.site.signedIn(h.form))
	mux.HandleFunc("POST /approvals/{id}/answer", h.site.takesFormOf(maxEditForm, h.submit))
}

// read reads the card, and the form of what it asks to be supplied.
func (h *answerHandler) read(r *http.Request, p engine.Person) (gate.Card, *form.Form, error) {
	found, err := h.cards.Card(r.Context(), p, r.PathValue("id"), gate.Unrecorded)
	if err != nil {
		return found, nil, err
	}
	f, err := gate.AskedForm(found.Approval)
	if err == nil && f == nil {
		err = &access.Refusal{Kind: access.Conflict, Code: "nothing_to_answer", Detail: "This call asks for nothing to be supplied, or not any more."}
	}
	return found, f, err
}

func (h *answerHandler) form(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	found, f, err := h.read(r, p)
	if err != nil {
		return err
	}
	fields := editFields(f.Fields(canon.Object()), nil)
	if kept := h.site.draftsOf(r, p, found.Approval.ID)["answer"]; kept != nil {
		fields = writtenBefore(f, kept)
	}
	return h.render(w, r, p, http.StatusOK, found, fields, nil)
}

// writtenBefore are the form's fields as they were left.
func writtenBefore(f *form.Form, kept url.Values) []views.EditField {
	values, again, problems := readArguments(f, kept, canon.Object())
	if len(problems) == 0 {
		return editFields(f.Fields(values), nil)
	}
	for i := range again {
		again[i].Problem = ""
	}
	return again
}

func (h *answerHandler) render(w http.ResponseWriter, r *http.Request, p engine.Person, status int, found gate.Card, fields []views.EditField, problems []string) error {
	a := found.Approval
	return h.site.render(w, r, status, views.AnswerPage(views.Answer{
		Frame: h.site.frame(p, "What is asked for: "+views.Visible(a.Call.Tool), ""), ID: a.ID, Digest: a.Call.Digest, Version: a.Version,
		Tool: a.Call.Tool, Agent: found.AgentName, Fields: fields, Problems: problems,
	}))
}

// submit supplies what was entered. Where that does not do, the form comes back
// with what is wrong.
func (h *answerHandler) submit(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	found, f, err := h.read(r, p)
	if err != nil {
		return err
	}
	s := contributionOf(r, p)
	s.Comment = ""
	digest, version, err := cardVersion(r.PostForm)
	if err != nil {
		return err
	}
	values, again, problems := readArguments(f, r.PostForm, canon.Object())
	if len(problems) > 0 {
		return h.render(w, r, p, http.StatusUnprocessableEntity, found, again, problems)
	}
	_, err = h.requirements.AnswerInPerson(r.Context(), s, values, digest, version, nil)
	return h.site.redirectOrFail(w, r, err, "answered", cardURL(s.ApprovalID))
}
