package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/policy"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/httpstatus"
	"holdpoint/web/views"
)

// People is what the pages of people need; admin.People is one. Every change is on
// record with who made it, and is judged by who they are at that moment.
type People interface {
	// MayBeChanged says that accounts can be changed from here.
	MayBeChanged() bool
	Accounts(ctx context.Context) ([]admin.Account, error)
	Account(ctx context.Context, id string) (admin.Account, error)
	// RolesTakeApproval says that giving roles takes an approval.
	RolesTakeApproval(ctx context.Context) (bool, error)
	// KnownRoles are those that some rule asks for.
	KnownRoles(ctx context.Context) ([]string, error)
	Invite(ctx context.Context, by access.Initiator, n admin.NewPerson, anyRole bool, once *access.Idempotency[admin.PasswordLink]) (admin.PasswordLink, error)
	Change(ctx context.Context, by access.Initiator, who string, c admin.PersonChange, once *access.Idempotency[engine.Person]) (engine.Person, error)
	Disable(ctx context.Context, by access.Initiator, who string, once *access.Idempotency[engine.Person]) (engine.Person, error)
	SignOut(ctx context.Context, by access.Initiator, who string, once *access.Idempotency[engine.Person]) (engine.Person, error)
	Enable(ctx context.Context, by access.Initiator, who string, once *access.Idempotency[admin.PasswordLink]) (admin.PasswordLink, error)
	ResetPassword(ctx context.Context, by access.Initiator, who string, once *access.Idempotency[admin.PasswordLink]) (admin.PasswordLink, error)
	// MailsLinks says that there is a mail server, by which Mail sends a link to whom it is for.
	MailsLinks() bool
	Mail(ctx context.Context, l admin.PasswordLink) error
}

// OnCall says who is on call, and changes it; admin.OnCall is one.
type OnCall interface {
	Shifts(ctx context.Context) ([]admin.Shift, error)
	Set(ctx context.Context, by access.Initiator, q admin.OnCallRequest, once *access.Idempotency[access.Done]) error
}

func personURL(id string) string { return "/people/" + url.PathEscape(id) }

// peopleHandler serves the list of people and the page of each.
type peopleHandler struct {
	freshProof
	people People
	onCall OnCall // nil where nobody is
}

func (h *peopleHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /people", h.site.forAdministrators(h.list))
	mux.HandleFunc("GET /people/new", h.site.forAdministrators(h.newForm))
	mux.HandleFunc("POST /people/new", h.changes(h.invite))
	mux.HandleFunc("GET /people/{id}", h.site.forAdministrators(h.show))
	mux.HandleFunc("POST /people/{id}", h.changes(h.change))
	mux.HandleFunc("POST /people/{id}/disable", h.changes(h.disable))
	mux.HandleFunc("POST /people/{id}/sign-out", h.changes(h.signOut))
	mux.HandleFunc("POST /people/{id}/enable", h.changes(h.linking(h.people.Enable)))
	mux.HandleFunc("POST /people/{id}/password", h.changes(h.linking(h.people.ResetPassword)))
}

// maxPeopleShown bounds a page of people; a search finds the others.
const maxPeopleShown = 500

func (h *peopleHandler) list(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	all, err := h.people.Accounts(r.Context())
	if err != nil {
		return err
	}
	duty, err := h.duty(r.Context())
	if err != nil {
		return err
	}
	v := views.People{Frame: h.site.frame(p, "People", "admin"), Query: strings.TrimSpace(r.URL.Query().Get("q")), Total: len(all), MayChange: h.people.MayBeChanged()}
	v.Notice = h.site.flash(w, r)
	for _, a := range all {
		row := personRow(a, duty)
		if !row.Matches(v.Query) {
			continue
		}
		if v.Found++; v.Found <= maxPeopleShown {
			v.Rows = append(v.Rows, row)
		}
	}
	return h.site.render(w, r, http.StatusOK, views.PeoplePage(v))
}

// duty are the schedules on which people are on call now, by address.
func (h *peopleHandler) duty(ctx context.Context) (map[string][]string, error) {
	if h.onCall == nil {
		return nil, nil
	}
	shifts, err := h.onCall.Shifts(ctx)
	duty := map[string][]string{}
	for _, s := range shifts {
		if s.OnCall && !slices.Contains(duty[s.Email], s.Schedule) {
			duty[s.Email] = append(duty[s.Email], s.Schedule)
		}
	}
	return duty, err
}

func personRow(a admin.Account, duty map[string][]string) views.PersonRow {
	row := views.PersonRow{
		ID: a.ID, URL: personURL(a.ID), Name: a.Name, Email: a.Email, Roles: a.Roles, OnCall: duty[a.Email], LastSignIn: a.LastSignIn,
		App: a.TOTPSince != nil, Passkeys: a.Passkeys, Disabled: a.Disabled, State: views.Status{Code: "active", Word: "Active"},
	}
	if a.Disabled {
		row.State = views.Status{Code: "revoked", Word: "Disabled"}
	}
	return row
}

func (h *peopleHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	v, err := h.page(r, p)
	if err != nil {
		return err
	}
	v.Notice = h.site.flash(w, r)
	return h.site.render(w, r, http.StatusOK, views.PersonPageView(v))
}

// page is the page of the person whom the address names.
func (h *peopleHandler) page(r *http.Request, p engine.Person) (views.PersonPage, error) {
	a, err := h.people.Account(r.Context(), r.PathValue("id"))
	if err != nil {
		return views.PersonPage{}, err
	}
	duty, err := h.duty(r.Context())
	if err != nil {
		return views.PersonPage{}, err
	}
	v := views.PersonPage{
		Frame: h.site.frame(p, "Person "+views.Visible(a.Name), "admin"), PersonRow: personRow(a, duty), CreatedAt: a.CreatedAt, DisabledAt: a.DisabledAt,
		MayChange: h.people.MayBeChanged(), Mail: h.mail(r), Own: a.ID == p.ID || a.Identity == p.Identity,
		AuditURL: "/audit?" + url.Values{"person": {a.Email}}.Encode(),
	}
	if !v.MayChange {
		return v, nil
	}
	if v.Boxes, err = h.boxes(r.Context(), a.Roles, a.Roles); err != nil {
		return v, err
	}
	v.NewName = a.Name
	if v.RolesWait, err = h.people.RolesTakeApproval(r.Context()); err != nil {
		return v, err
	}
	v.Proof, err = h.proof(r, p)
	return v, err
}

// boxes are the roles to choose from: those that rules ask for, and those that the
// person has.
func (h *peopleHandler) boxes(ctx context.Context, has, ticked []string) ([]views.RoleBox, error) {
	known, err := h.people.KnownRoles(ctx)
	if err != nil {
		return nil, err
	}
	var boxes []views.RoleBox
	asked := rulesByRole(h.site.inForce().Policy)
	for _, role := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(known, has)))) {
		boxes = append(boxes, views.RoleBox{Role: role, On: slices.Contains(ticked, role), Means: roleMeaning(role, asked[role], slices.Contains(known, role))})
	}
	return boxes, nil
}

// rulesByRole are the rules of a policy that ask for each role, by their names.
func rulesByRole(p *policy.Bundle) map[string][]string {
	asked := map[string][]string{}
	if p == nil {
		return asked
	}
	rules := p.Rules()
	for i, requirements := range p.Requirements() {
		for _, r := range requirements {
			roles := []string{r.Role}
			for _, g := range r.AnyOf {
				roles = append(roles, g.Role)
			}
			for _, role := range roles {
				if list := asked[role]; role != "" && !slices.Contains(list, rules[i].ID) {
					asked[role] = append(list, rules[i].ID)
				}
			}
		}
	}
	return asked
}

// roleMeaning says what whoever has a role may do by it.
func roleMeaning(role string, rules []string, known bool) string {
	var words []string
	if power := powerWords[role]; power != "" {
		words = append(words, power)
	}
	switch n := len(rules); {
	case n > 2:
		words = append(words, "Decides what "+views.Thousands(n)+" rules of the policy ask of it, such as "+rules[0]+" and "+rules[1]+".")
	case n > 0:
		words = append(words, "Decides what the policy asks of it: "+strings.Join(rules, " and ")+".")
	case len(words) > 0:
	case known:
		words = append(words, "Decides where the routing, or the approval of a change, asks for it.")
	default:
		words = append(words, "No rule asks for it.")
	}
	return strings.Join(words, " ")
}

// again shows the person's page with what was refused, and asks for a proof where that
// was it.
func (h *peopleHandler) again(w http.ResponseWriter, r *http.Request, refusal *access.Refusal, edit func(*views.PersonPage) error) error {
	p, err := h.site.sessions.again(r) // the proof may have been good, and the change not
	if err != nil {
		return err
	}
	v, err := h.page(r, p)
	if err == nil && edit != nil {
		err = edit(&v)
	}
	if err != nil {
		return err
	}
	v.Failure = refusal.Detail
	retryAfter(w, refusal)
	return h.site.render(w, r, httpstatus.Of(refusal.Kind), views.PersonPageView(v))
}

// do runs a change of the person whom the address names, with a proof.
func (h *peopleHandler) do(w http.ResponseWriter, r *http.Request, p engine.Person, said string, edit func(*views.PersonPage) error, change func() error) error {
	err := h.prove(r, p)
	if err == nil {
		err = change()
	}
	if h.site.leadsToApproval(w, r, err) {
		return nil
	}
	if refusal := (*access.Refusal)(nil); errors.As(err, &refusal) && refusal.Kind != access.NotFound {
		return h.again(w, r, refusal, edit)
	}
	if said == "" {
		return err
	}
	return h.site.redirectOrFail(w, r, err, said, personURL(r.PathValue("id")))
}

// chosenRoles are the roles of a form, and whether one of them is said to be for rules to come.
func chosenRoles(form url.Values) (roles []string, toCome bool) {
	roles = append([]string{}, form["roles"]...)
	if more := strings.TrimSpace(form.Get("role_to_come")); more != "" {
		return append(roles, more), true
	}
	return roles, false
}

func (h *peopleHandler) change(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	name := r.PostForm.Get("name")
	roles, toCome := chosenRoles(r.PostForm)
	c := admin.PersonChange{Name: &name, Roles: &roles, AllowUnknownRoles: toCome, Reason: r.PostForm.Get("reason")}
	if !r.PostForm.Has("with_roles") { // the form of one's own account
		c.Roles = nil
	}
	keep := func(v *views.PersonPage) (err error) {
		v.NewName, v.RoleToCome = name, r.PostForm.Get("role_to_come")
		v.Boxes, err = h.boxes(r.Context(), v.Roles, r.PostForm["roles"])
		return err
	}
	return h.do(w, r, p, "person", keep, func() error {
		_, err := h.people.Change(r.Context(), by(p), r.PathValue("id"), c, nil)
		return err
	})
}

func (h *peopleHandler) disable(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	return h.do(w, r, p, "persongone", nil, func() error {
		_, err := h.people.Disable(r.Context(), by(p), r.PathValue("id"), nil)
		return err
	})
}

func (h *peopleHandler) signOut(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	return h.do(w, r, p, "personout", nil, func() error {
		_, err := h.people.SignOut(r.Context(), by(p), r.PathValue("id"), nil)
		return err
	})
}

// linking is a handler that ends with a link, which is shown once.
func (h *peopleHandler) linking(change func(context.Context, access.Initiator, string, *access.Idempotency[admin.PasswordLink]) (admin.PasswordLink, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, p engine.Person) error {
		var link admin.PasswordLink
		shown := false
		err := h.do(w, r, p, "", func(*views.PersonPage) error { shown = true; return nil }, func() (err error) {
			link, err = change(r.Context(), by(p), r.PathValue("id"), nil)
			return err
		})
		if err != nil || shown {
			return err
		}
		return h.showLink(w, r, p, link)
	}
}

// mail is what a form says of sending its link; it is to be sent unless somebody has said no.
func (h *peopleHandler) mail(r *http.Request) views.MailChoice {
	return views.MailChoice{Offered: h.people.MailsLinks(), Ticked: r.Method != http.MethodPost || r.PostForm.Has("mail")}
}

// showLink sends a link to whom it is for, where that was ticked, and shows it, once, where it
// was not, or could not be sent: it exists by then.
func (h *peopleHandler) showLink(w http.ResponseWriter, r *http.Request, p engine.Person, l admin.PasswordLink) error {
	v := views.PersonLink{
		Frame: h.site.frame(p, "Link for "+views.Visible(l.Person.Name), "admin"), Name: l.Person.Name, Email: l.Person.Email, URL: personURL(l.Person.ID), Link: l.URL, ExpiresAt: l.ExpiresAt,
		Roles: l.Person.Roles,
	}
	if l.RolesWait != "" {
		v.RolesURL = cardURL(l.RolesWait)
	}
	if h.people.MailsLinks() && r.PostForm.Has("mail") {
		if err := h.people.Mail(r.Context(), l); err != nil {
			h.site.logger.Warn("a link to set a password could not be sent by mail", "person", l.Person.ID, "error", err)
			v.NotSent = true
		} else {
			v.Link = ""
		}
	}
	return h.site.render(w, r, http.StatusOK, views.PersonLinkPage(v))
}

func (h *peopleHandler) newForm(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	return h.renderNew(w, r, p, http.StatusOK, "")
}

func (h *peopleHandler) renderNew(w http.ResponseWriter, r *http.Request, p engine.Person, status int, failure string) error {
	v := views.NewPerson{
		Frame: h.site.frame(p, "Invite somebody", "admin"), MayChange: h.people.MayBeChanged(), Mail: h.mail(r), Failure: failure,
		Email: r.PostForm.Get("email"), Name: r.PostForm.Get("name"), SameAs: r.PostForm.Get("same_as"), RoleToCome: r.PostForm.Get("role_to_come"),
	}
	var err error
	if v.Boxes, err = h.boxes(r.Context(), nil, r.PostForm["roles"]); err != nil {
		return err
	}
	if v.Proof, err = h.proof(r, p); err != nil {
		return err
	}
	return h.site.render(w, r, status, views.NewPersonPage(v))
}

func (h *peopleHandler) invite(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	roles, toCome := chosenRoles(r.PostForm)
	f := r.PostForm
	err := h.prove(r, p)
	var link admin.PasswordLink
	if err == nil {
		n := admin.NewPerson{Email: f.Get("email"), Name: f.Get("name"), Roles: roles, SameAs: strings.TrimSpace(f.Get("same_as"))}
		link, err = h.people.Invite(r.Context(), by(p), n, toCome, nil)
	}
	var refusal *access.Refusal
	if errors.As(err, &refusal) {
		if p, err = h.site.sessions.again(r); err != nil {
			return err
		}
		retryAfter(w, refusal)
		return h.renderNew(w, r, p, httpstatus.Of(refusal.Kind), refusal.Detail)
	}
	if err != nil {
		return err
	}
	return h.showLink(w, r, p, link)
}
