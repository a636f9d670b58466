package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/httpstatus"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// AccessReviews is what the pages of access reviews need; admin.AccessReviews is one.
type AccessReviews interface {
	Start(ctx context.Context, by access.Initiator, q admin.AccessReviewRequest, once *access.Idempotency[admin.AccessReview]) (admin.AccessReview, error)
	// List and Get are of all lines, or with a reviewer's id of that one's.
	List(ctx context.Context, reviewerID string) ([]admin.AccessReview, time.Time, error)
	Get(ctx context.Context, id, reviewerID string) (admin.AccessState, error)
	// Awaited says how much the person has still to review.
	Awaited(ctx context.Context, personID string) (admin.AwaitedReview, error)
	Decide(ctx context.Context, p engine.Person, id string, d admin.AccessDecision, channel, requestID string) (admin.AccessReview, error)
	Assign(ctx context.Context, by access.Initiator, id, from, to string, numbers []int, once *access.Idempotency[admin.AccessReview]) (admin.AccessReview, error)
	Remove(ctx context.Context, by access.Initiator, id string, once *access.Idempotency[[]admin.AccessRemoval]) ([]admin.AccessRemoval, error)
	Complete(ctx context.Context, by access.Initiator, id, incomplete string, once *access.Idempotency[admin.AccessReview]) (admin.AccessReview, error)
}

// accessReviewHandler serves access reviews: to reviewers what is theirs, to auditors and
// administrators all of it.
type accessReviewHandler struct {
	site    *site
	reviews AccessReviews
	people  People
	factors *identity.Factors
}

func (h *accessReviewHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /access-reviews", h.site.signedIn(h.list))
	mux.HandleFunc("GET /access-reviews/new", h.site.forAuditors(h.newForm))
	mux.HandleFunc("POST /access-reviews/new", h.site.forAuditors(h.start))
	mux.HandleFunc("GET /access-reviews/{id}", h.site.signedIn(h.show))
	mux.HandleFunc("POST /access-reviews/{id}/decide", h.site.takesForm(h.decide))
	mux.HandleFunc("POST /access-reviews/{id}/assign", h.site.forAuditors(h.assign))
	mux.HandleFunc("POST /access-reviews/{id}/complete", h.site.forAuditors(h.complete))
	mux.HandleFunc("POST /access-reviews/{id}/remove", freshProof{h.site, h.factors}.changes(h.remove))
}

func accessReviewURL(id string) string { return "/access-reviews/" + url.PathEscape(id) }

// Bounds of what a page shows.
const (
	maxAccessesShown = 1000
	maxRoleShown     = admin.MaxAccessDecisions
)

// reviewsPart is the part of the console that access reviews are a tab of.
func reviewsPart(p engine.Person) string {
	if access.MayAdminister(p) {
		return "admin"
	}
	return "audit"
}

// reviewerFilter is whose lines somebody may see: "" for all.
func reviewerFilter(p engine.Person) string {
	if access.ReadsEverything(p) {
		return ""
	}
	return p.ID
}

func (h *accessReviewHandler) list(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	list, now, err := h.reviews.List(r.Context(), reviewerFilter(p))
	if err != nil {
		return err
	}
	v := views.AccessReviews{Frame: h.site.frame(p, "Access reviews", reviewsPart(p)), MayStart: access.ReadsEverything(p)}
	v.Notice = h.site.flash(w, r)
	for _, one := range list {
		v.Rows = append(v.Rows, accessReviewRow(one, now))
	}
	return h.site.render(w, r, http.StatusOK, views.AccessReviewsPage(v))
}

func accessReviewRow(r admin.AccessReview, now time.Time) views.AccessReviewRow {
	row := views.AccessReviewRow{ID: r.ID, URL: accessReviewURL(r.ID), Name: r.Title, DueAt: r.DueAt, Lines: r.Lines, Open: r.Open, Certified: r.Certified, Asked: r.Asked, Removed: r.Removed}
	switch {
	case r.EndedAt != nil && r.Incomplete != "":
		row.State = views.Status{Code: "stopped", Word: "Ended, not complete"}
	case r.EndedAt != nil:
		row.State = views.Status{Code: "approved", Word: "Completed"}
	case admin.AccessOverdue(r, now):
		row.State = views.Status{Code: "denied", Word: "Overdue"}
	default:
		row.State = views.Status{Code: "pending", Word: "Open"}
	}
	return row
}

func (h *accessReviewHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	v, err := h.page(r, p)
	if err != nil {
		return err
	}
	v.Notice = h.site.flash(w, r)
	return h.site.render(w, r, http.StatusOK, views.AccessReviewPageView(v))
}

// page is the page of the review that the address names.
func (h *accessReviewHandler) page(r *http.Request, p engine.Person) (views.AccessReviewPage, error) {
	s, err := h.reviews.Get(r.Context(), r.PathValue("id"), reviewerFilter(p))
	if err != nil {
		return views.AccessReviewPage{}, err
	}
	name := h.site.names(r.Context(), s.StartedBy, s.EndedBy)
	v := views.AccessReviewPage{
		Frame: h.site.frame(p, views.Visible(s.Title), reviewsPart(p)), AccessReviewRow: accessReviewRow(s.AccessReview, s.Now),
		Since: s.Since, Until: s.Until, StartedAt: s.StartedAt, StartedBy: name(s.StartedBy), Roles: s.Roles, EndedAt: s.EndedAt, EndedBy: name(s.EndedBy),
		Incomplete: s.Incomplete, Digest: s.Digest, Changed: s.Changed, MayManage: access.ReadsEverything(p), Held: len(s.Held()),
	}
	for _, l := range s.AccessLines {
		row := accessRow(l)
		if l.Reviewer.ID == p.ID && l.Decision == "" && s.EndedAt == nil {
			v.Mine = addAccess(v.Mine, row)
		}
		if len(v.All) < maxAccessesShown {
			v.All = append(v.All, row)
		} else {
			v.More++
		}
	}
	if !v.MayManage {
		return v, nil
	}
	v.ReportURL = "/audit/reports/access-reviews?" + url.Values{"since": {s.StartedAt.UTC().Format(time.DateOnly)}, "until": {s.StartedAt.UTC().Format(time.DateOnly)}}.Encode()
	if v.MayRemove = access.MayAdminister(p) && h.people.MayBeChanged(); v.MayRemove && v.Held > 0 {
		v.Proof, err = freshProof{h.site, h.factors}.proof(r, p)
	}
	return v, err
}

// addAccess puts a line to its role, as far as a form takes it.
func addAccess(roles []views.AccessRole, row views.AccessRow) []views.AccessRole {
	last := len(roles) - 1
	if last < 0 || roles[last].Role != row.Role {
		return append(roles, views.AccessRole{Role: row.Role, Rows: []views.AccessRow{row}})
	}
	if len(roles[last].Rows) < maxRoleShown {
		roles[last].Rows = append(roles[last].Rows, row)
	}
	return roles
}

func accessRow(l admin.AccessLine) views.AccessRow {
	row := views.AccessRow{
		N: l.N, Person: displayName(l.Person), Email: l.Person.Email, Role: l.Role, URL: personURL(l.Person.ID), Reviewer: displayName(l.Reviewer),
		LastSignIn: l.LastSignIn, Votes: l.Votes, DecidedAt: l.DecidedAt, Comment: l.Comment, State: views.Status{Code: "pending", Word: "Open"},
	}
	switch {
	case l.RemovedAt != nil:
		row.State = views.Status{Code: "revoked", Word: "Taken away"}
	case l.Decision == admin.AccessRemovalAsked:
		row.State = views.Status{Code: "denied", Word: "To take away"}
	case l.Decision != "":
		row.State = views.Status{Code: "approved", Word: "Still needed"}
	}
	return row
}

// again shows the page with what was refused.
func (h *accessReviewHandler) again(w http.ResponseWriter, r *http.Request, p engine.Person, err error, said string) error {
	var refusal *access.Refusal
	if !errors.As(err, &refusal) || refusal.Kind == access.NotFound {
		return h.site.redirectOrFail(w, r, err, said, accessReviewURL(r.PathValue("id")))
	}
	v, err := h.page(r, p)
	if err != nil {
		return err
	}
	v.Failure, v.Comment = refusal.Detail, r.PostForm.Get("comment")
	return h.site.render(w, r, httpstatus.Of(refusal.Kind), views.AccessReviewPageView(v))
}

func (h *accessReviewHandler) decide(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	chosen := r.PostForm["line"]
	if r.PostForm.Get("all") == "yes" {
		chosen = r.PostForm["shown"]
	}
	d := admin.AccessDecision{Remove: r.PostForm.Get("decision") == "remove", Comment: r.PostForm.Get("comment")}
	for _, text := range chosen {
		n, err := strconv.Atoi(text)
		if err != nil {
			return invalid("invalid_form", "A line is a number.")
		}
		d.Lines = append(d.Lines, n)
	}
	if !d.Remove && r.PostForm.Get("decision") != "certify" {
		return invalid("invalid_form", "Say whether the roles are still needed.")
	}
	by := by(p)
	_, err := h.reviews.Decide(r.Context(), p, r.PathValue("id"), d, by.Actor.Channel, by.RequestID)
	return h.again(w, r, p, err, "arsaid")
}

func (h *accessReviewHandler) assign(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	e := formValues{form: r.PostForm}
	_, err := h.reviews.Assign(r.Context(), by(p), r.PathValue("id"), e.text("from"), e.text("to"), nil, nil)
	return h.again(w, r, p, err, "arassign")
}

func (h *accessReviewHandler) complete(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	_, err := h.reviews.Complete(r.Context(), by(p), r.PathValue("id"), r.PostForm.Get("incomplete"), nil)
	return h.again(w, r, p, err, "arover")
}

func (h *accessReviewHandler) remove(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	err := freshProof{h.site, h.factors}.prove(r, p)
	if err == nil {
		var done []admin.AccessRemoval
		done, err = h.reviews.Remove(r.Context(), by(p), r.PathValue("id"), nil)
		if kept := slices.DeleteFunc(done, func(one admin.AccessRemoval) bool { return one.Why == "" }); err == nil && len(kept) > 0 {
			var why []string
			for _, one := range kept {
				why = append(why, one.Person.Email+" keeps "+strings.Join(one.Roles, ", ")+": "+one.Why)
			}
			err = &access.Refusal{Kind: access.Conflict, Code: "not_removed", Detail: strings.Join(why, "\n")}
		}
	}
	if refusal := (*access.Refusal)(nil); errors.As(err, &refusal) {
		again, lost := h.site.sessions.again(r)
		if lost != nil {
			return lost
		}
		p = again
	}
	return h.again(w, r, p, err, "argone")
}

func (h *accessReviewHandler) newForm(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	return h.renderNew(w, r, p, http.StatusOK, "")
}

func (h *accessReviewHandler) renderNew(w http.ResponseWriter, r *http.Request, p engine.Person, status int, failure string) error {
	known, err := h.people.KnownRoles(r.Context())
	if err != nil {
		return err
	}
	f := r.PostForm
	v := views.NewAccessReview{
		Frame: h.site.frame(p, "Start an access review", reviewsPart(p)), Known: known, Failure: failure,
		Name: f.Get("title"), Due: f.Get("due"), Roles: f.Get("roles"), Reviewer: f.Get("reviewer"), RoleReviewers: f.Get("role_reviewers"), Alternate: f.Get("alternate"),
		Since: f.Get("since"), Until: f.Get("until"),
	}
	return h.site.render(w, r, status, views.NewAccessReviewPage(v))
}

func (h *accessReviewHandler) start(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	e := formValues{form: r.PostForm}
	q := admin.AccessReviewRequest{
		Title: e.text("title"), Roles: e.lines("roles"), DueAt: e.moment("due", "Due", time.UTC), Since: e.moment("since", "Period from", time.UTC), Until: e.moment("until", "Period until", time.UTC),
		Reviewer: e.text("reviewer"), Alternate: e.text("alternate"), ByRole: map[string]string{},
	}
	for _, line := range e.lines("role_reviewers") {
		role, email, ok := strings.Cut(line, "=")
		if !ok {
			e.problems = append(e.problems, "Reviewers of single roles: write role=e-mail address, one a line.")
			break
		}
		q.ByRole[strings.TrimSpace(role)] = strings.TrimSpace(email)
	}
	err := e.err()
	var started admin.AccessReview
	if err == nil {
		started, err = h.reviews.Start(r.Context(), by(p), q, nil)
	}
	var refusal *access.Refusal
	if errors.As(err, &refusal) {
		return h.renderNew(w, r, p, httpstatus.Of(refusal.Kind), refusal.Detail)
	}
	return h.site.redirectOrFail(w, r, err, "arstart", accessReviewURL(started.ID))
}
