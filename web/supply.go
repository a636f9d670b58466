package web

import (
	"net/http"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/form"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// asked reads the card, and the form of what it asks to be supplied.
func (c *Console) asked(r *http.Request, p engine.Person) (gate.Card, *form.Form, error) {
	found, err := c.cfg.Desk.Card(r.Context(), p, r.PathValue("id"), gate.Glance)
	if err != nil {
		return found, nil, err
	}
	f, err := gate.AskedFor(found.Approval)
	if err == nil && f == nil {
		err = &gate.Refusal{Status: http.StatusConflict, Code: "nothing_to_answer", Detail: "This call asks for nothing to be supplied, or not any more."}
	}
	return found, f, err
}

func (c *Console) supplyForm(w http.ResponseWriter, r *http.Request, p engine.Person) {
	found, f, err := c.asked(r, p)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	c.renderAnswer(w, r, p, http.StatusOK, found, f.Fields(canon.Object()), nil)
}

func (c *Console) renderAnswer(w http.ResponseWriter, r *http.Request, p engine.Person, status int, found gate.Card, fields []form.Field, problems []string) {
	a := found.Approval
	c.site.render(w, r, status, views.AnswerPage(views.Answer{
		Frame: c.site.frame(p, "What is asked for: "+views.Visible(a.Call.Tool), ""), ID: a.ID, Digest: a.Call.Digest, Version: a.Version,
		Tool: a.Call.Tool, Agent: found.AgentName, Fields: editFields(fields), Problems: problems,
	}))
}

// supply supplies what was entered. Where that does not do, the form comes back
// with what is wrong.
func (c *Console) supply(w http.ResponseWriter, r *http.Request, p engine.Person) {
	if err := readFormOf(w, r, maxEditForm); err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	found, f, err := c.asked(r, p)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	s := said(r, p)
	s.Comment = ""
	digest, version, err := pageOf(r.PostForm)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	entered := map[string][]string{}
	for name, v := range r.PostForm {
		if field, is := strings.CutPrefix(name, argumentField); is {
			entered[field] = v
		}
	}
	values, problems := f.Read(entered, canon.Object())
	if len(problems) == 0 {
		problems = f.Validate(values)
	}
	if len(problems) > 0 {
		fields, rest := f.Again(entered, canon.Object(), problems)
		words := problemWords(rest)
		if len(words) == 0 {
			words = []string{"Some of the fields need another look."}
		}
		c.renderAnswer(w, r, p, http.StatusUnprocessableEntity, found, fields, words)
		return
	}
	if _, err := c.cfg.Desk.AnswerInPerson(r.Context(), s, values, digest, version, nil); err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	c.site.redirectWithFlash(w, r, "answered", cardURL(s.ApprovalID))
}
