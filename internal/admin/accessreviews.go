package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

type (
	// AccessReview is a round in which people look through who has which role.
	AccessReview = store.AccessReview
	// AccessLine is one role of one account in it.
	AccessLine = store.AccessLine
	// AwaitedReview is what a reviewer has left to do.
	AwaitedReview = store.AwaitedReview
)

// AccessRemovalAsked is the decision that a role is to be taken away.
const AccessRemovalAsked = store.AccessRemovalAsked

// Bounds of an access review.
const (
	// maxAccessLines is how many accesses one is about.
	maxAccessLines = 10_000
	// MaxAccessDecisions is how many of them are decided, or assigned, at once.
	MaxAccessDecisions = 500
	// maxAccessDue is how far ahead one may be due.
	maxAccessDue   = 366 * 24 * time.Hour
	maxReviewTitle = 200
	maxReviews     = 200
)

// AccessReviewRequest starts an access review.
type AccessReviewRequest struct {
	Title string
	// Roles are those that it is about; none means every role.
	Roles []string
	// Since and Until are the period that it is of; the 90 days before now when zero.
	Since, Until time.Time
	DueAt        time.Time
	// Reviewer is the address of whoever reviews what nobody in ByRole does; ByRole has an
	// address for a role. Alternate reviews what would be a reviewer's own.
	Reviewer, Alternate string
	ByRole              map[string]string
}

// AccessDecision says what becomes of accesses, by their numbers.
type AccessDecision struct {
	Lines   []int
	Remove  bool // their roles are to be taken away, rather than kept
	Comment string
}

// AccessState is an access review as somebody looks at it.
type AccessState struct {
	AccessReview
	AccessLines []AccessLine
	Now         time.Time
	// Changed says that the lines are not those of the review's end.
	Changed bool
}

// AccessOverdue reports whether a review should have been over by now.
func AccessOverdue(r AccessReview, now time.Time) bool {
	return r.EndedAt == nil && !now.Before(r.DueAt)
}

// Held are accesses that are to be taken away, and are not.
func (a AccessState) Held() []AccessLine {
	var held []AccessLine
	for _, l := range a.AccessLines {
		if l.Decision == AccessRemovalAsked && l.RemovedAt == nil {
			held = append(held, l)
		}
	}
	return held
}

var (
	noSuchReview = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such access review."}
	reviewOver   = &access.Refusal{Kind: access.Conflict, Code: "review_over", Detail: "This access review is over, and stays as it is. Start another one."}
)

func invalidReview(code, format string, args ...any) error {
	return &access.Refusal{Kind: access.Invalid, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Start starts a review: of every role, or of some, that enabled accounts have now. Nobody
// reviews an access of their own, under whichever account.
func (a AccessReviews) Start(ctx context.Context, by access.Initiator, q AccessReviewRequest, once *access.Idempotency[AccessReview]) (AccessReview, error) {
	now, err := a.Store.Now(ctx)
	if err != nil {
		return AccessReview{}, err
	}
	r := AccessReview{ID: store.NewID("arv"), Title: strings.TrimSpace(q.Title), Roles: uniqueRoles(q.Roles), Since: q.Since.UTC(), Until: q.Until.UTC(), DueAt: q.DueAt.UTC(), StartedBy: by.Actor.ID}
	if r.Until.IsZero() {
		r.Until = now.UTC()
	}
	if r.Since.IsZero() {
		r.Since = r.Until.AddDate(0, 0, -90)
	}
	if err := reviewFits(r, now); err != nil {
		return r, err
	}
	if once != nil {
		if err := a.Store.Answered(ctx, once.Of()); err != nil {
			return r, a.administered(ctx, err)
		}
	}
	who, err := a.reviewers(ctx, q, r.Roles)
	if err != nil {
		return r, err
	}
	accounts, err := a.Store.Reports.Accounts(ctx, now)
	if err != nil {
		return r, err
	}
	signIns := map[string]*time.Time{}
	for _, account := range accounts {
		signIns[account.ID] = account.LastSignIn
	}
	started, err := a.Store.AccessReviews.Start(ctx, r, signIns, once, func(lines []AccessLine) (engine.Event, error) {
		switch {
		case len(lines) == 0:
			return engine.Event{}, invalidReview("nothing_to_review", "No enabled account has such a role.")
		case len(lines) > maxAccessLines:
			return engine.Event{}, invalidReview("too_many", "There are %d accesses; a review has at most %d. Review some roles at a time.", len(lines), maxAccessLines)
		}
		counts := map[string]int{}
		for i := range lines {
			if lines[i].Reviewer, err = who.of(lines[i]); err != nil {
				return engine.Event{}, err
			}
			counts[lines[i].Reviewer.ID]++
		}
		e := by.Event("ACCESS_REVIEW_STARTED", "People were asked to review who has which role.", "", "")
		return e, e.SetPayload(map[string]any{"review": r.ID, "roles": append([]string{}, r.Roles...), "since": r.Since, "until": r.Until, "due": r.DueAt, "accesses": len(lines), "reviewers": counts})
	})
	if errors.Is(err, store.ErrUnstorable) {
		err = access.UnstorableText
	}
	return started, a.administered(ctx, err)
}

func reviewFits(r AccessReview, now time.Time) error {
	switch {
	case r.Title == "" || len(r.Title) > maxReviewTitle || !utf8.ValidString(r.Title) || strings.ContainsFunc(r.Title, unseen):
		return invalidReview("unfit_title", "A title has 1 to %d bytes, on one line.", maxReviewTitle)
	case r.DueAt.IsZero() || !r.DueAt.After(now):
		return invalidReview("due_too_early", "Say until when it is due: a time after now.")
	case r.DueAt.Sub(now) > maxAccessDue:
		return invalidReview("too_far", "It is due at most a year from now.")
	case !r.Until.After(r.Since):
		return invalidReview("until_too_early", "The period's end has to come after its beginning.")
	}
	return rolesFit(r.Roles, anyRoles)
}

// accessReviewers are the reviewers that a review names.
type accessReviewers struct {
	any, alternate *engine.Person
	byRole         map[string]engine.Person
}

// reviewers finds the accounts of the addresses that a request names.
func (a AccessReviews) reviewers(ctx context.Context, q AccessReviewRequest, roles []string) (accessReviewers, error) {
	who := accessReviewers{byRole: map[string]engine.Person{}}
	for role, email := range q.ByRole {
		if len(roles) > 0 && !slices.Contains(roles, role) {
			return who, invalidReview("unknown_role", "The review is not about the role %q, which has a reviewer.", role)
		}
		p, err := a.reviewer(ctx, email)
		if err != nil {
			return who, err
		}
		who.byRole[role] = p
	}
	for _, one := range []struct {
		email string
		into  **engine.Person
	}{{q.Reviewer, &who.any}, {q.Alternate, &who.alternate}} {
		if one.email != "" {
			p, err := a.reviewer(ctx, one.email)
			if err != nil {
				return who, err
			}
			*one.into = &p
		}
	}
	return who, nil
}

// reviewer is the enabled account of an address or id.
func (a AccessReviews) reviewer(ctx context.Context, who string) (engine.Person, error) {
	p, err := Retention(a).person(ctx, who)
	var refusal *access.Refusal
	if errors.As(err, &refusal) || err == nil && p.Disabled {
		err = invalidReview("unknown_people", "There is no active account with the address %q.", who)
	}
	return p, err
}

// of says who reviews an access.
func (w accessReviewers) of(l AccessLine) (engine.Person, error) {
	first, ok := w.byRole[l.Role]
	if !ok && w.any != nil {
		first, ok = *w.any, true
	}
	switch {
	case !ok:
		return first, invalidReview("no_reviewer", "Nobody is named to review the role %q. Name somebody for it, or somebody for all other roles.", l.Role)
	case first.Identity != l.Person.Identity:
		return first, nil
	case w.alternate == nil:
		return first, invalidReview("own_access", "%s would review their own role %q. Name an alternate, who reviews what is a reviewer's own.", first.Email, l.Role)
	case w.alternate.Identity == l.Person.Identity:
		return first, invalidReview("own_access", "%s and the alternate are the same human being: nobody reviews their own role %q.", first.Email, l.Role)
	}
	return *w.alternate, nil
}

// List lists reviews, the newest first: for whoever reads everything all of them, and with
// a reviewer's id those in which that one has something to review.
func (a AccessReviews) List(ctx context.Context, reviewerID string) ([]AccessReview, time.Time, error) {
	now, err := a.Store.Now(ctx)
	if err != nil {
		return nil, now, err
	}
	list, err := a.Store.AccessReviews.List(ctx, reviewerID, maxReviews)
	return list, now, err
}

// Awaited says how many accesses the person has still to review, and until when.
func (a AccessReviews) Awaited(ctx context.Context, personID string) (AwaitedReview, error) {
	return a.Store.AccessReviews.Awaited(ctx, personID)
}

// Get reads a review; with a reviewer's id, with that one's lines alone, and not_found
// where there are none.
func (a AccessReviews) Get(ctx context.Context, id, reviewerID string) (AccessState, error) {
	var s AccessState
	var err error
	if s.Now, err = a.Store.Now(ctx); err != nil {
		return s, err
	}
	s.AccessReview, s.AccessLines, err = a.Store.AccessReviews.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnstorable) {
		return s, noSuchReview
	}
	if err != nil {
		return s, err
	}
	if s.EndedAt != nil {
		seal, err := sealOf(s.AccessLines, nil)
		if err != nil {
			return s, err
		}
		s.Changed = seal != s.Digest
	}
	if reviewerID != "" {
		s.AccessLines = slices.DeleteFunc(s.AccessLines, func(l AccessLine) bool { return l.Reviewer.ID != reviewerID })
		if len(s.AccessLines) == 0 {
			return s, noSuchReview
		}
	}
	return s, nil
}

// change changes a review that is not over.
func (a AccessReviews) change(ctx context.Context, id string, once *access.Idempotency[AccessReview], judge func(AccessReview, []AccessLine) (store.AccessEdit, engine.Event, error)) (AccessReview, error) {
	r, err := a.Store.AccessReviews.Change(ctx, id, once, func(r AccessReview, lines []AccessLine) (store.AccessEdit, engine.Event, error) {
		if r.EndedAt != nil {
			return store.AccessEdit{}, engine.Event{}, reviewOver
		}
		return judge(r, lines)
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = noSuchReview
	case errors.Is(err, store.ErrUnstorable):
		err = access.UnstorableText
	}
	return r, a.administered(ctx, err)
}

// Decide says of accesses that a person reviews that they are still needed, or that they
// are to be taken away. What was said stays said.
func (a AccessReviews) Decide(ctx context.Context, p engine.Person, id string, d AccessDecision, channel, requestID string) (AccessReview, error) {
	d.Comment = strings.TrimSpace(d.Comment)
	switch {
	case len(d.Lines) == 0:
		return AccessReview{}, invalidReview("no_lines", "Choose the accesses that you decide about.")
	case len(d.Lines) > MaxAccessDecisions:
		return AccessReview{}, invalidReview("too_many", "At most %d accesses are decided at once.", MaxAccessDecisions)
	case d.Remove && d.Comment == "":
		return AccessReview{}, invalidReview("comment_required", "Say why they are to be taken away.")
	case len(d.Comment) > access.MaxReason || !utf8.ValidString(d.Comment):
		return AccessReview{}, invalidReview("comment_too_long", "The comment has %d bytes; at most %d are kept.", len(d.Comment), access.MaxReason)
	}
	by := access.PersonInitiator(p, channel, requestID)
	return a.change(ctx, id, nil, func(r AccessReview, lines []AccessLine) (store.AccessEdit, engine.Event, error) {
		edit := store.AccessEdit{Decision: store.AccessCertified, DecidedBy: p.ID, Comment: d.Comment}
		code, message := "ACCESS_CERTIFIED", "Roles that people have were reviewed, and are still needed."
		if d.Remove {
			edit.Decision, code, message = AccessRemovalAsked, "ACCESS_REMOVAL_ASKED", "Roles that people have were reviewed, and are to be taken away."
		}
		chosen, err := chosenLines(lines, d.Lines)
		if err != nil {
			return edit, engine.Event{}, err
		}
		for _, l := range chosen {
			switch {
			case l.Reviewer.ID != p.ID:
				return edit, engine.Event{}, noSuchReview // it is nobody else's business
			case l.Person.Identity == p.Identity:
				return edit, engine.Event{}, &access.Refusal{Kind: access.Forbidden, Code: "own_access", Detail: "Nobody reviews their own roles. Whoever started the review can assign it to somebody else."}
			case l.Decision != "":
				return edit, engine.Event{}, &access.Refusal{Kind: access.Conflict, Code: "already_reviewed", Detail: fmt.Sprintf("The role %q of %s was reviewed already, and that stays.", l.Role, l.Person.Email)}
			}
			edit.Decide = append(edit.Decide, l.N)
		}
		e := by.Event(code, message, "", "")
		return edit, e, e.SetPayload(map[string]any{"review": r.ID, "accesses": linePayloads(chosen)})
	})
}

// linePayloads are accesses as events name them.
func linePayloads(lines []AccessLine) []map[string]any {
	list := []map[string]any{}
	for _, l := range lines {
		list = append(list, map[string]any{"line": l.N, "person": l.Person.ID, "role": l.Role})
	}
	return list
}

func chosenLines(lines []AccessLine, numbers []int) ([]AccessLine, error) {
	var chosen []AccessLine
	for _, n := range slices.Compact(slices.Sorted(slices.Values(numbers))) {
		i := slices.IndexFunc(lines, func(l AccessLine) bool { return l.N == n })
		if i < 0 {
			return nil, invalidReview("unknown_line", "The review has no line %d.", n)
		}
		chosen = append(chosen, lines[i])
	}
	return chosen, nil
}

// Assign has somebody else review what a reviewer has not decided yet: all of it, or the
// given lines. from may be "" with lines. The new reviewer is told.
func (a AccessReviews) Assign(ctx context.Context, by access.Initiator, id, from, to string, numbers []int, once *access.Idempotency[AccessReview]) (AccessReview, error) {
	next, err := a.reviewer(ctx, to)
	if err != nil {
		return AccessReview{}, err
	}
	var former engine.Person
	if from != "" {
		if former, err = Retention(a).person(ctx, from); err != nil {
			return AccessReview{}, err
		}
	} else if len(numbers) == 0 {
		return AccessReview{}, invalidReview("no_lines", "Say whose accesses somebody else is to review, or which.")
	}
	return a.change(ctx, id, once, func(r AccessReview, lines []AccessLine) (store.AccessEdit, engine.Event, error) {
		edit := store.AccessEdit{Reviewer: next.ID}
		chosen := lines
		if len(numbers) > 0 {
			var err error
			if chosen, err = chosenLines(lines, numbers); err != nil {
				return edit, engine.Event{}, err
			}
		}
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(l AccessLine) bool {
			return l.Decision != "" || former.ID != "" && l.Reviewer.ID != former.ID || l.Reviewer.ID == next.ID
		})
		if len(chosen) == 0 {
			return edit, engine.Event{}, invalidReview("unchanged", "There is nothing left to review that somebody else could be given. Nothing was changed.")
		}
		for _, l := range chosen {
			if l.Person.Identity == next.Identity {
				return edit, engine.Event{}, invalidReview("own_access", "%s would review their own role %q. Assign that line to somebody else.", next.Email, l.Role)
			}
			edit.Assign = append(edit.Assign, l.N)
		}
		e := by.Event("ACCESS_REVIEW_ASSIGNED", "Somebody else reviews who has some roles.", "", "")
		return edit, e, e.SetPayload(map[string]any{"review": r.ID, "reviewer": next.ID, "accesses": linePayloads(chosen[:min(len(chosen), MaxAccessDecisions)]), "count": len(chosen)})
	})
}

// AccessRemoval is what came of taking the roles of one account away.
type AccessRemoval struct {
	Person engine.Person
	Roles  []string
	// Why says what kept them from being taken away; "" where they were.
	Why string
}

// Remove takes the roles away that reviewers have asked to be taken away, in the name of
// whoever administers: each account by the same door as any other change of roles, with
// all of its rules and an event of its own. What one account refuses keeps no other from
// being changed.
func (a AccessReviews) Remove(ctx context.Context, by access.Initiator, id string, once *access.Idempotency[[]AccessRemoval]) ([]AccessRemoval, error) {
	if once != nil {
		if err := a.Store.Answered(ctx, once.Of()); err != nil {
			return nil, a.administered(ctx, err)
		}
	}
	s, err := a.Get(ctx, id, "")
	held := s.Held()
	switch {
	case err != nil:
		return nil, err
	case s.EndedAt != nil:
		return nil, reviewOver
	case len(held) == 0:
		return nil, &access.Refusal{Kind: access.Conflict, Code: "nothing_to_remove", Detail: "No role is to be taken away that has not been already."}
	case !People(a).MayBeChanged():
		return nil, byCommand
	}
	var done []AccessRemoval
	at := map[string]int{}
	for _, l := range held {
		if _, known := at[l.Person.ID]; !known {
			at[l.Person.ID] = len(done)
			done = append(done, AccessRemoval{Person: l.Person})
		}
		one := &done[at[l.Person.ID]]
		one.Roles = append(one.Roles, l.Role)
	}
	for i, one := range done {
		_, err := People(a).Change(ctx, by, one.Person.ID, PersonChange{RemoveRoles: one.Roles, AllowUnknownRoles: true}, nil)
		var refusal *access.Refusal
		if errors.As(err, &refusal) {
			done[i].Why = refusal.Detail // of a role that is gone already, nothing is left to say below
		} else if err != nil {
			return done, err
		}
	}
	_, err = a.change(ctx, id, access.Adapt(once, func(AccessReview) []AccessRemoval { return done }), func(r AccessReview, lines []AccessLine) (store.AccessEdit, engine.Event, error) {
		edit, gone := removedOf(lines)
		for i := range done {
			if !slices.ContainsFunc(lines, func(l AccessLine) bool {
				return l.Person.ID == done[i].Person.ID && slices.Contains(done[i].Roles, l.Role) && l.StillHasAccess
			}) {
				done[i].Why = ""
			} else if done[i].Why == "" {
				done[i].Why = "The account has it still."
			}
		}
		e, err := removedEvent(by, r, gone)
		if len(gone) == 0 {
			e.Outcome = engine.Deny
			e.Reasons[0] = engine.Reason{Code: "ACCESS_NOT_REMOVED", Message: "No role that a review asked to take away could be taken away."}
		}
		return edit, e, err
	})
	return done, err
}

// removedOf notes the roles that were to be taken away and that their accounts have no more.
func removedOf(lines []AccessLine) (store.AccessEdit, []AccessLine) {
	gone := slices.DeleteFunc(AccessState{AccessLines: lines}.Held(), func(l AccessLine) bool { return l.StillHasAccess })
	var edit store.AccessEdit
	for _, l := range gone {
		edit.Removed = append(edit.Removed, l.N)
	}
	return edit, gone
}

func removedEvent(by access.Initiator, r AccessReview, gone []AccessLine) (engine.Event, error) {
	e := by.Event("ACCESS_REMOVED", "Roles that a review asked to take away were taken away.", "", "")
	return e, e.SetPayload(map[string]any{"review": r.ID, "accesses": linePayloads(gone[:min(len(gone), MaxAccessDecisions)]), "count": len(gone)})
}

// Complete ends a review. It is refused while somebody has something left to review, or a
// role is still there that is to be taken away, unless incomplete says why it ends all the
// same. The event of the end has the counts, and a digest of all lines.
func (a AccessReviews) Complete(ctx context.Context, by access.Initiator, id, incomplete string, once *access.Idempotency[AccessReview]) (AccessReview, error) {
	incomplete = strings.TrimSpace(incomplete)
	if len(incomplete) > access.MaxReason || !utf8.ValidString(incomplete) {
		return AccessReview{}, invalidReview("reason_too_long", "The reason has %d bytes; at most %d are kept.", len(incomplete), access.MaxReason)
	}
	if once != nil {
		if err := a.Store.Answered(ctx, once.Of()); err != nil {
			return AccessReview{}, a.administered(ctx, err)
		}
	}
	return a.change(ctx, id, once, func(r AccessReview, lines []AccessLine) (store.AccessEdit, engine.Event, error) {
		edit, gone := removedOf(lines) // some may have been taken away by another way
		edit.End, edit.EndedBy, edit.Incomplete = true, by.Actor.ID, incomplete
		held := len(AccessState{AccessLines: lines}.Held()) - len(gone)
		if incomplete == "" && (r.Open > 0 || held > 0) {
			var left []string
			if r.Open > 0 {
				left = append(left, fmt.Sprintf("%d of %d accesses are not reviewed", r.Open, r.Lines))
			}
			if held > 0 {
				left = append(left, fmt.Sprintf("%d that are to be taken away are still there", held))
			}
			return edit, engine.Event{}, &access.Refusal{Kind: access.Conflict, Code: "review_incomplete", Detail: "It cannot be completed: " + strings.Join(left, ", and ") + ". Say why to end it all the same."}
		}
		if r.Open == 0 && held == 0 {
			edit.Incomplete = ""
		}
		var err error
		if edit.Seal, err = sealOf(lines, edit.Removed); err != nil {
			return edit, engine.Event{}, err
		}
		code, message := "ACCESS_REVIEW_COMPLETED", "An access review was completed."
		if edit.Incomplete != "" {
			code, message = "ACCESS_REVIEW_ENDED", "An access review was ended with something left to do."
		}
		e := by.Event(code, message, "", "")
		return edit, e, e.SetPayload(map[string]any{
			"review": r.ID, "accesses": r.Lines, "certified": r.Certified, "removed": r.Removed + len(gone), "not_removed": held, "not_reviewed": r.Open, "digest": edit.Seal,
		})
	})
}

// sealOf is the digest of all lines as a review's end has it: SHA-256 of them as JSON, in
// order; removed are those that are noted as removed with the end. Names, addresses and
// comments, which an erasure takes, are not in it.
func sealOf(lines []AccessLine, removed []int) (string, error) {
	type sealed struct {
		Line      int        `json:"line"`
		Person    string     `json:"person"`
		Role      string     `json:"role"`
		Reviewer  string     `json:"reviewer"`
		Decision  string     `json:"decision"`
		DecidedBy string     `json:"decided_by"`
		DecidedAt *time.Time `json:"decided_at"`
		Removed   bool       `json:"removed"`
	}
	all := make([]sealed, len(lines))
	for i, l := range lines {
		all[i] = sealed{l.N, l.Person.ID, l.Role, l.Reviewer.ID, l.Decision, l.DecidedBy, nil, l.RemovedAt != nil || slices.Contains(removed, l.N)}
		if l.DecidedAt != nil {
			at := l.DecidedAt.UTC()
			all[i].DecidedAt = &at
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("seal an access review: %w", err)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
