package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"holdpoint/internal/admin"
)

type accessReviewCommand struct {
	Start    accessReviewStart    `cmd:"" help:"Have people review who has which role."`
	List     accessReviewList     `cmd:"" help:"List access reviews."`
	Show     accessReviewShow     `cmd:"" help:"Show an access review, with what was said of each role."`
	Assign   accessReviewAssign   `cmd:"" help:"Have somebody else review what is not reviewed yet."`
	Remove   accessReviewRemove   `cmd:"" help:"Take the roles away that reviewers asked to take away."`
	Complete accessReviewComplete `cmd:"" help:"Complete an access review."`
}

type accessReviewStart struct {
	databaseFlags
	Title        string            `arg:"" help:"What it is called, such as “Access, third quarter”."`
	Due          time.Time         `help:"Until when it is due, RFC 3339." placeholder:"TIME"`
	Within       time.Duration     `help:"How long reviewers have, instead of --due: 336h." placeholder:"DURATION"`
	Role         []string          `help:"Only this role; again for more." placeholder:"ROLE"`
	Since        time.Time         `help:"Beginning of the period that it is of, RFC 3339; 90 days before its end when left out." placeholder:"TIME"`
	Until        time.Time         `help:"End of the period, RFC 3339; now when left out." placeholder:"TIME"`
	Reviewer     string            `help:"E-mail address of whoever reviews what --role-reviewer names nobody for." placeholder:"EMAIL"`
	RoleReviewer map[string]string `help:"Who reviews a role: ROLE=EMAIL; again for more." placeholder:"ROLE=EMAIL"`
	Alternate    string            `help:"E-mail address of whoever reviews what would be a reviewer's own." placeholder:"EMAIL"`
}

// Help is shown by "holdpoint access-review start --help".
func (accessReviewStart) Help() string {
	return `Every role of every enabled account gets a line, and every line a reviewer, who is
another human being than the account's. Reviewers decide in the console: the role is
still needed, or it is to be taken away. They are told by the endpoints of “holdpoint
notify”, at once, a week and a day before it is due, when it is due, and daily from then on.

Roles of being on call are left out: they end by themselves.

Example:
  holdpoint access-review start "Access, third quarter" --within 336h --reviewer olga@example.com \
    --role-reviewer finance-approver=fin@example.com --alternate ada@example.com`
}

func (s *accessReviewStart) Run(ctx context.Context, c *cli) error {
	if s.Due.IsZero() == (s.Within <= 0) {
		return errors.New("say until when it is due, with either --due or --within")
	}
	a, by, err := s.administration(ctx, c)
	if err != nil {
		return err
	}
	if s.Due.IsZero() {
		s.Due = c.opened.Clock().Add(s.Within)
	}
	r, err := a.AccessReviews.Start(ctx, by, admin.AccessReviewRequest{
		Title: s.Title, Roles: s.Role, Since: s.Since, Until: s.Until, DueAt: s.Due, Reviewer: s.Reviewer, Alternate: s.Alternate, ByRole: s.RoleReviewer,
	}, nil)
	if err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "started: %s, %d roles of people to review until %s\n", r.ID, r.Lines, r.DueAt.Format(time.RFC3339))
	if c.publicURL != "" {
		fmt.Fprintf(terminal, "reviewers find it at %s/access-reviews/%s\n", strings.TrimSuffix(c.publicURL, "/"), r.ID)
	}
	return nil
}

type accessReviewList struct {
	databaseFlags
	listing
}

// listedReview is what "access-review list --json" prints of one.
type listedReview struct {
	ID         string     `json:"id"`
	Title      string     `json:"title"`
	Roles      []string   `json:"roles"`
	Since      time.Time  `json:"since"`
	Until      time.Time  `json:"until"`
	DueAt      time.Time  `json:"due_at"`
	Overdue    bool       `json:"overdue"`
	StartedAt  time.Time  `json:"started_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	Incomplete string     `json:"incomplete,omitempty"`
	Accesses   int        `json:"accesses"`
	Open       int        `json:"open"`
	Certified  int        `json:"certified"`
	Asked      int        `json:"removal_asked"`
	Removed    int        `json:"removed"`
	Digest     string     `json:"digest,omitempty"`
}

func (l *accessReviewList) Run(ctx context.Context, c *cli) error {
	a, err := l.reading(ctx, c)
	if err != nil {
		return err
	}
	list, now, err := a.AccessReviews.List(ctx, "")
	if err != nil {
		return err
	}
	if l.JSON {
		return printEach(list, func(r admin.AccessReview) listedReview {
			return listedReview{
				r.ID, r.Title, r.Roles, r.Since.UTC(), r.Until.UTC(), r.DueAt.UTC(), admin.AccessOverdue(r, now), r.StartedAt.UTC(), r.EndedAt, r.Incomplete,
				r.Lines, r.Open, r.Certified, r.Asked, r.Removed, r.Digest,
			}
		})
	}
	if len(list) == 0 {
		fmt.Fprintln(terminal, "there was no access review yet: holdpoint access-review start --help")
		return nil
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tTITLE\tSTATE\tDUE\tOPEN\tCERTIFIED\tTO TAKE AWAY\tTAKEN AWAY")
	for _, r := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d of %d\t%d\t%d\t%d\n", r.ID, r.Title, reviewState(r, now), r.DueAt.Format(time.RFC3339), r.Open, r.Lines, r.Certified, r.Asked-r.Removed, r.Removed)
	}
	return table.Flush()
}

func reviewState(r admin.AccessReview, now time.Time) string {
	switch {
	case r.EndedAt != nil && r.Incomplete != "":
		return "ended"
	case r.EndedAt != nil:
		return "completed"
	case admin.AccessOverdue(r, now):
		return "overdue"
	}
	return "open"
}

type accessReviewShow struct {
	databaseFlags
	listing
	ID string `arg:"" help:"The review."`
}

// listedAccess is what "access-review show --json" prints of a line.
type listedAccess struct {
	Line       int        `json:"line"`
	PersonID   string     `json:"person_id"`
	Email      string     `json:"email"`
	Role       string     `json:"role"`
	Reviewer   string     `json:"reviewer"`
	LastSignIn *time.Time `json:"last_sign_in,omitempty"`
	Votes      int        `json:"votes"`
	Decision   string     `json:"decision"`
	DecidedAt  *time.Time `json:"decided_at,omitempty"`
	Comment    string     `json:"comment,omitempty"`
	RemovedAt  *time.Time `json:"removed_at,omitempty"`
}

func (s *accessReviewShow) Run(ctx context.Context, c *cli) error {
	a, err := s.reading(ctx, c)
	if err != nil {
		return err
	}
	r, err := a.AccessReviews.Get(ctx, s.ID, "")
	if err != nil {
		return plain(err)
	}
	if s.JSON {
		return printEach(r.AccessLines, func(l admin.AccessLine) listedAccess {
			return listedAccess{l.N, l.Person.ID, l.Person.Email, l.Role, l.Reviewer.Email, l.LastSignIn, l.Votes, l.Decision, l.DecidedAt, l.Comment, l.RemovedAt}
		})
	}
	fmt.Fprintf(terminal, "%s: %s, due %s, %d of %d not reviewed\n", r.Title, reviewState(r.AccessReview, r.Now), r.DueAt.Format(time.RFC3339), r.Open, r.Lines)
	if r.Incomplete != "" {
		fmt.Fprintf(terminal, "ended all the same: %s\n", r.Incomplete)
	}
	switch {
	case r.Changed:
		fmt.Fprintf(terminal, "CHANGED: these lines are not those of its end, %s\n", r.Digest)
	case r.EndedAt != nil:
		fmt.Fprintf(terminal, "the lines are those of its end: %s\n", r.Digest)
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LINE\tPERSON\tROLE\tREVIEWER\tDECISION\tCOMMENT")
	for _, l := range r.AccessLines {
		decision := strings.ReplaceAll(l.Decision, "_", " ")
		switch {
		case decision == "":
			decision = "open"
		case l.RemovedAt != nil:
			decision = "removed"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", l.N, l.Person.Email, l.Role, l.Reviewer.Email, decision, l.Comment)
	}
	return table.Flush()
}

type accessReviewAssign struct {
	databaseFlags
	ID   string `arg:"" help:"The review."`
	From string `help:"E-mail address of whoever was to review it." placeholder:"EMAIL"`
	To   string `required:"" help:"E-mail address of whoever reviews it from now on." placeholder:"EMAIL"`
	Line []int  `help:"Only this line of “access-review show”; again for more." placeholder:"N"`
}

func (s *accessReviewAssign) Run(ctx context.Context, c *cli) error {
	a, by, err := s.administration(ctx, c)
	if err != nil {
		return err
	}
	if _, err := a.AccessReviews.Assign(ctx, by, s.ID, s.From, s.To, s.Line, nil); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "assigned to %s, who is told\n", s.To)
	return nil
}

type accessReviewRemove struct {
	databaseFlags
	ID string `arg:"" help:"The review."`
}

// Help is shown by "holdpoint access-review remove --help".
func (accessReviewRemove) Help() string {
	return `Each account is changed as by “holdpoint user set --remove-role”, by the same rules and
with the same events. What one account refuses keeps no other from being changed.`
}

func (s *accessReviewRemove) Run(ctx context.Context, c *cli) error {
	a, by, err := s.administration(ctx, c)
	if err != nil {
		return err
	}
	done, err := a.AccessReviews.Remove(ctx, by, s.ID, nil)
	if err != nil {
		return plain(err)
	}
	refused := 0
	for _, one := range done {
		if one.Why != "" {
			refused++
			fmt.Fprintf(terminal, "%s keeps %s: %s\n", one.Person.Email, strings.Join(one.Roles, ", "), one.Why)
		} else {
			fmt.Fprintf(terminal, "%s has no longer %s\n", one.Person.Email, strings.Join(one.Roles, ", "))
		}
	}
	if refused > 0 {
		return exitCode(1)
	}
	return nil
}

type accessReviewComplete struct {
	databaseFlags
	ID         string `arg:"" help:"The review."`
	Incomplete string `help:"Why to end it although something is left to do." placeholder:"TEXT"`
}

// Help is shown by "holdpoint access-review complete --help".
func (accessReviewComplete) Help() string {
	return `It is refused while somebody has something left to review, or a role is still there
that is to be taken away. The audit log has the counts, and a digest of all lines.`
}

func (s *accessReviewComplete) Run(ctx context.Context, c *cli) error {
	a, by, err := s.administration(ctx, c)
	if err != nil {
		return err
	}
	r, err := a.AccessReviews.Complete(ctx, by, s.ID, s.Incomplete, nil)
	if err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "%s: %d certified, %d taken away, %d left as they are\n", reviewState(r, r.DueAt), r.Certified, r.Removed, r.Open+r.Asked-r.Removed)
	fmt.Fprintf(terminal, "on record as %s\n", r.Digest)
	return nil
}
