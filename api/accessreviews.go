package api

import (
	"net/http"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
)

// AccessReview is an access review on the wire.
type AccessReview struct {
	ID         string     `json:"id"`
	Title      string     `json:"title"`
	Roles      []string   `json:"roles" doc:"What it is about; [] for every role."`
	Since      time.Time  `json:"since" doc:"The period that it is of."`
	Until      time.Time  `json:"until"`
	DueAt      time.Time  `json:"due_at"`
	Overdue    bool       `json:"overdue"`
	StartedAt  time.Time  `json:"started_at"`
	StartedBy  string     `json:"started_by"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	EndedBy    string     `json:"ended_by,omitempty"`
	Incomplete string     `json:"incomplete,omitempty" doc:"Why it ended with something left to do."`
	Digest     string     `json:"digest,omitempty" doc:"Of all lines at the end; the event ACCESS_REVIEW_COMPLETED, or ACCESS_REVIEW_ENDED, has it, too."`
	Accesses   int        `json:"accesses"`
	Open       int        `json:"open" doc:"Not reviewed yet."`
	Certified  int        `json:"certified"`
	Asked      int        `json:"removal_asked"`
	Removed    int        `json:"removed"`
}

// AccessReviews lists access reviews.
type AccessReviews struct {
	Reviews []AccessReview `json:"reviews"`
}

// AccessReviewState is an access review with its lines.
type AccessReviewState struct {
	AccessReview

	Changed bool         `json:"changed" doc:"The lines are not those that the digest was made of: somebody has changed the database."`
	Lines   []AccessLine `json:"lines"`
}

// AccessLine is one role of one account in a review.
type AccessLine struct {
	Line       int        `json:"line"`
	PersonID   string     `json:"person_id"`
	Email      string     `json:"email"`
	Name       string     `json:"name"`
	Role       string     `json:"role"`
	Reviewer   string     `json:"reviewer" doc:"E-mail address of whoever reviews it."`
	LastSignIn *time.Time `json:"last_sign_in,omitempty" doc:"When the review started."`
	Votes      int        `json:"votes" doc:"In the period."`
	Decision   string     `json:"decision" enum:",certified,removal_asked"`
	DecidedBy  string     `json:"decided_by,omitempty"`
	DecidedAt  *time.Time `json:"decided_at,omitempty"`
	Comment    string     `json:"comment,omitempty"`
	RemovedAt  *time.Time `json:"removed_at,omitempty"`
}

// AccessReviewBody starts an access review.
type AccessReviewBody struct {
	Title         string            `json:"title" minLength:"1" maxLength:"200"`
	Roles         []string          `json:"roles,omitempty" doc:"Which roles it is about; every role when left out."`
	Since         *time.Time        `json:"since,omitempty" doc:"The period that it is of; the 90 days before until when left out."`
	Until         *time.Time        `json:"until,omitempty" doc:"Now when left out."`
	DueAt         time.Time         `json:"due_at"`
	Reviewer      string            `json:"reviewer,omitempty" doc:"E-mail address of whoever reviews what nobody in role_reviewers does."`
	RoleReviewers map[string]string `json:"role_reviewers,omitempty" doc:"E-mail addresses by role."`
	Alternate     string            `json:"alternate,omitempty" doc:"E-mail address of whoever reviews what would be a reviewer's own."`
}

// AccessAssignBody has somebody else review what is not reviewed yet.
type AccessAssignBody struct {
	From  string `json:"from,omitempty" doc:"E-mail address of whoever was to review it."`
	To    string `json:"to"`
	Lines []int  `json:"lines,omitempty" doc:"Which lines; all of from when left out."`
}

// AccessCompleteBody ends a review.
type AccessCompleteBody struct {
	Incomplete string `json:"incomplete,omitempty" maxLength:"1000" doc:"Why to end it with something left to do."`
}

// AccessRemovals says what came of taking roles away.
type AccessRemovals struct {
	Accounts []AccessRemoval `json:"accounts"`
}

// AccessRemoval is what came of it at one account.
type AccessRemoval struct {
	PersonID string   `json:"person_id"`
	Email    string   `json:"email"`
	Roles    []string `json:"roles"`
	Refused  string   `json:"refused,omitempty" doc:"What kept them from being taken away."`
}

// accessReviews are the operations of access reviews. People decide in the console.
func (a peopleDoor) accessReviews() []operation {
	const path = "/v1/admin/access-reviews"
	change := func(at, summary, detail string, in, out any, handle func(*call) error) operation {
		return operation{
			method: "POST", path: path + at, summary: summary, detail: detail, scope: identity.ScopeAdmin, in: in, out: out,
			statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 413, 415, 422, 503}, repeats: true, handle: handle,
		}
	}
	return []operation{
		{method: "GET", path: path, summary: "List access reviews", scope: identity.ScopeAdmin, out: AccessReviews{}, statuses: []int{200}, problems: []int{401, 403, 503}, handle: a.listAccessReviews},
		{method: "GET", path: path + "/{id}", summary: "Read an access review", scope: identity.ScopeAdmin, out: AccessReviewState{}, statuses: []int{200}, problems: []int{401, 403, 404, 503}, handle: a.getAccessReview},
		change("", "Start an access review", "Every role of every enabled account gets a line, and every line a reviewer, who is somebody else. Reviewers decide in the console, and are told.", AccessReviewBody{}, AccessReview{}, a.startAccessReview),
		change("/{id}/assign", "Have somebody else review what is not reviewed yet", "", AccessAssignBody{}, AccessReview{}, a.assignAccessReview),
		change("/{id}/remove", "Take the roles away that reviewers asked to take away", "By the same rules as any other change of roles. It takes database_people_url.", CancelBody{}, AccessRemovals{}, a.removeAccesses),
		change("/{id}/complete", "Complete an access review", "Refused (409 review_incomplete) while something is left to do, unless incomplete says why.", AccessCompleteBody{}, AccessReview{}, a.completeAccessReview),
	}
}

func wireReview(r admin.AccessReview, now time.Time) AccessReview {
	return AccessReview{
		ID: r.ID, Title: r.Title, Roles: append([]string{}, r.Roles...), Since: r.Since.UTC(), Until: r.Until.UTC(), DueAt: r.DueAt.UTC(), Overdue: admin.AccessOverdue(r, now),
		StartedAt: r.StartedAt.UTC(), StartedBy: r.StartedBy, EndedAt: r.EndedAt, EndedBy: r.EndedBy, Incomplete: r.Incomplete, Digest: r.Digest,
		Accesses: r.Lines, Open: r.Open, Certified: r.Certified, Asked: r.Asked, Removed: r.Removed,
	}
}

func (a peopleDoor) listAccessReviews(c *call) error {
	list, now, err := a.Admin.AccessReviews.List(c.r.Context(), "")
	if err != nil {
		return err
	}
	out := AccessReviews{Reviews: []AccessReview{}}
	for _, r := range list {
		out.Reviews = append(out.Reviews, wireReview(r, now))
	}
	return ok(c, out)
}

func (a peopleDoor) getAccessReview(c *call) error {
	s, err := a.Admin.AccessReviews.Get(c.r.Context(), c.r.PathValue("id"), "")
	if err != nil {
		return err
	}
	out := AccessReviewState{AccessReview: wireReview(s.AccessReview, s.Now), Changed: s.Changed, Lines: []AccessLine{}}
	for _, l := range s.AccessLines {
		out.Lines = append(out.Lines, AccessLine{
			Line: l.N, PersonID: l.Person.ID, Email: l.Person.Email, Name: l.Person.Name, Role: l.Role, Reviewer: l.Reviewer.Email, LastSignIn: l.LastSignIn, Votes: l.Votes,
			Decision: l.Decision, DecidedBy: l.DecidedBy, DecidedAt: l.DecidedAt, Comment: l.Comment, RemovedAt: l.RemovedAt,
		})
	}
	return ok(c, out)
}

// reviewing is a handler that answers with the review that was changed.
func reviewing(a peopleDoor, c *call, in any, do func(by access.Initiator, once *access.Idempotency[admin.AccessReview]) (admin.AccessReview, error)) error {
	body, err := readInto(c, in)
	if err != nil {
		return err
	}
	now, err := a.Admin.Registry.Store.Now(c.r.Context())
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[admin.AccessReview]) (admin.AccessReview, error) {
		return do(c.principal.Initiator(RequestID(c.r.Context())), once)
	}, func(r admin.AccessReview) (access.Reply, error) {
		return jsonReply(http.StatusOK, wireReview(r, now), nil)
	})
}

func (a peopleDoor) startAccessReview(c *call) error {
	var in AccessReviewBody
	return reviewing(a, c, &in, func(by access.Initiator, once *access.Idempotency[admin.AccessReview]) (admin.AccessReview, error) {
		q := admin.AccessReviewRequest{Title: in.Title, Roles: in.Roles, DueAt: in.DueAt, Reviewer: in.Reviewer, Alternate: in.Alternate, ByRole: in.RoleReviewers}
		if in.Since != nil {
			q.Since = *in.Since
		}
		if in.Until != nil {
			q.Until = *in.Until
		}
		return a.Admin.AccessReviews.Start(c.r.Context(), by, q, once)
	})
}

func (a peopleDoor) assignAccessReview(c *call) error {
	var in AccessAssignBody
	return reviewing(a, c, &in, func(by access.Initiator, once *access.Idempotency[admin.AccessReview]) (admin.AccessReview, error) {
		return a.Admin.AccessReviews.Assign(c.r.Context(), by, c.r.PathValue("id"), in.From, in.To, in.Lines, once)
	})
}

func (a peopleDoor) completeAccessReview(c *call) error {
	var in AccessCompleteBody
	return reviewing(a, c, &in, func(by access.Initiator, once *access.Idempotency[admin.AccessReview]) (admin.AccessReview, error) {
		return a.Admin.AccessReviews.Complete(c.r.Context(), by, c.r.PathValue("id"), in.Incomplete, once)
	})
}

func (a peopleDoor) removeAccesses(c *call) error {
	body, err := readInto(c, &CancelBody{})
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[[]admin.AccessRemoval]) ([]admin.AccessRemoval, error) {
		return a.Admin.AccessReviews.Remove(c.r.Context(), c.principal.Initiator(RequestID(c.r.Context())), c.r.PathValue("id"), once)
	}, func(done []admin.AccessRemoval) (access.Reply, error) {
		out := AccessRemovals{Accounts: []AccessRemoval{}}
		for _, one := range done {
			out.Accounts = append(out.Accounts, AccessRemoval{PersonID: one.Person.ID, Email: one.Person.Email, Roles: one.Roles, Refused: one.Why})
		}
		return jsonReply(http.StatusOK, out, nil)
	})
}
