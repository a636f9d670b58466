package views

import (
	"strconv"
	"time"
)

// AccessReviews lists access reviews.
type AccessReviews struct {
	Frame
	Rows     []AccessReviewRow
	MayStart bool
}

// AccessReviewRow is an access review. Counts are the reviewer's own where the reader is
// one and no more.
type AccessReviewRow struct {
	ID, URL, Name                          string
	State                                  Status
	DueAt                                  time.Time
	Lines, Open, Certified, Asked, Removed int
}

// reviewed says how far a review has come.
func (r AccessReviewRow) reviewed() string {
	return Thousands(r.Lines-r.Open) + " of " + Thousands(r.Lines)
}

// AccessReviewPage is an access review.
type AccessReviewPage struct {
	Frame
	AccessReviewRow
	Since, Until, StartedAt time.Time
	StartedBy               string
	Roles                   []string
	EndedAt                 *time.Time
	EndedBy                 string
	Incomplete, Digest      string
	Changed                 bool
	Failure                 string
	// Mine are the reader's open lines, by role; Comment is what they wrote.
	Mine    []AccessRole
	Comment string
	// All are lines for whoever may see them; More is how many are not shown.
	All  []AccessRow
	More int
	// MayManage says that the reader assigns and completes, MayRemove that they take roles away
	// here, and Held how many are to be taken away.
	MayManage, MayRemove bool
	Held                 int
	Proof                *VerifyForm
	ReportURL            string
}

// AccessRole are lines of one role.
type AccessRole struct {
	Role string
	Rows []AccessRow
}

// AccessRow is one role of one account.
type AccessRow struct {
	N                        int
	Person, Email, Role, URL string
	Reviewer                 string
	LastSignIn               *time.Time
	Votes                    int
	State                    Status
	DecidedAt                *time.Time
	Comment                  string
}

func (r AccessRow) number() string { return strconv.Itoa(r.N) }

// NewAccessReview is the form that starts one.
type NewAccessReview struct {
	Frame
	Name, Due, Roles, Reviewer, RoleReviewers, Alternate, Since, Until string
	Known                                                              []string
	Failure                                                            string
}
