package report

import (
	"context"
	"errors"
	"strings"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// List is a report that is a list of rows: the same rows are a page, a CSV file and JSON.
type List struct {
	Name  string `json:"name" doc:"As in its address."`
	Title string `json:"title"`
	// Asks is what the report answers, and None what it means that there is nothing.
	Asks    string       `json:"asks" doc:"The question that it answers."`
	None    string       `json:"-"`
	Columns []ListColumn `json:"columns" doc:"In the order of the CSV file."`
	Terms   []Term       `json:"terms" doc:"What the words mean that a column may have."`
}

// ListColumn is a column of a report. Names stay, and new ones come at the end.
type ListColumn struct {
	Name  string    `json:"name"`
	Title string    `json:"title"`
	Kind  CellKind  `json:"kind" enum:"text,time,number,seconds,term,approval,event,amount"`
	Place CellPlace `json:"-"`
	// Lead stands before the value where it is shown below another one.
	Lead string `json:"-"`
}

// CellKind says what a column holds.
type CellKind string

// The kinds of cells. A time is RFC 3339 in UTC; an approval and an event are ids; a term
// is one of List.Terms. An amount is a plain decimal, in the currency of the column that
// is called so.
const (
	TextCell     CellKind = "text"
	TimeCell     CellKind = "time"
	NumberCell   CellKind = "number"
	SecondsCell  CellKind = "seconds"
	TermCell     CellKind = "term"
	ApprovalCell CellKind = "approval"
	EventCell    CellKind = "event"
	AmountCell   CellKind = "amount"
)

// CellPlace says where a column is on the page.
type CellPlace uint8

// A cell has a column of its own, is below the one before it, or is in the file alone.
const (
	OwnColumn CellPlace = iota
	Below
	InFile
)

// Term is a word that a report uses.
type Term struct {
	Word  string `json:"word"`
	Means string `json:"means"`
}

// ListQuery says of which period a report is, and which page of it. Zero times stand for
// the last thirty days.
type ListQuery struct {
	Since, Until time.Time
	Cursor       string
	Limit        int // 0 means 100
	Count        bool
	// Person is the id, the address or the name of the one person whom the rows are to be
	// about: in the report of approvals, who decided them. "" is everybody.
	Person string
	// AtLeast leaves out what is about less than an amount, "1000" or "1000 EUR": with a
	// currency, also what is in another one. "" is everything.
	AtLeast string
	// Zone is the time zone by which the report of reviewers counts nights, weekends and
	// days; "" is UTC.
	Zone string
}

// ListPerson is whom the rows of a report are about.
type ListPerson struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Email string `json:"email"`
}

// ListPage is a page of a report.
type ListPage struct {
	List
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Person is whom the rows are about, where one person was asked for.
	Zone   string      `json:"zone,omitempty" doc:"By which time zone nights, weekends and days are counted, where the report counts them."`
	Person *ListPerson `json:"person,omitempty" doc:"Whom the rows are about, where the report was asked for one person."`
	// Rows have a text for each column, by its name.
	Rows       []map[string]string `json:"rows" doc:"By the columns' names. What is not known, or is not there, is an empty text."`
	NextCursor string              `json:"next_cursor" doc:"Where the next page begins; \"\" at the end."`
	Gaps       []string            `json:"gaps" doc:"What the log does not reach: sentences."`
	// Found is how many rows there are, up to ListCounted; one more stands for more. It is
	// there where it was asked for, unless the rows are Uncounted.
	Found     int  `json:"-"`
	Uncounted bool `json:"-"`
}

// Bounds of lists.
const (
	// MaxListPage is how many rows a page has at the most.
	MaxListPage = 1000
	// ListCounted is how many rows are counted.
	ListCounted = 10_000
	listPage    = 100
)

var errNoList = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such report."}

// FindList is the list of a name; ok is false where there is none.
func FindList(name string) (l List, ok bool) {
	for _, l := range Lists() {
		if l.Name == name {
			return l, true
		}
	}
	return List{}, false
}

// OfPeople reports whether the list can be narrowed to one person.
func (l List) OfPeople() bool {
	return l.Name == AmountsList || l.Name == AccessList || l.Name == ReviewersList || store.ListOfPeople(l.Name)
}

// OfAmounts reports whether the list has amounts, which are read out of the sealed arguments.
func (l List) OfAmounts() bool { return l.Name == AmountsList || l.Name == approvalsList }

// OfHours reports whether the list counts hours of the day, which takes a time zone.
func (l List) OfHours() bool { return l.Name == ReviewersList }

// List is a page of a report that is a list. Refusals are not_found (404), bad_cursor,
// bad_query, bad_amount, zone, those of periods and those of access.FindPerson. Where the report has
// amounts, whoever is given the page takes along what Told records.
func (s Reports) List(ctx context.Context, name string, q ListQuery) (ListPage, error) {
	l, ok := FindList(name)
	if !ok {
		return ListPage{}, errNoList
	}
	page := ListPage{List: l, Gaps: []string{}}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return page, err
	}
	if page.Since, page.Until, err = reportPeriod(q.Since, q.Until, now); err != nil {
		return page, err
	}
	began, err := s.Store.Reports.LogBegan(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return page, err
	}
	if page.Since.Before(began) {
		page.Gaps = append(page.Gaps, "The log begins at "+stampUTC(began)+", later than the period.")
	}
	if q.Limit <= 0 {
		q.Limit = listPage
	}
	q.Person = strings.TrimSpace(q.Person)
	if page.Zone = strings.TrimSpace(q.Zone); page.Zone != "" && !l.OfHours() {
		return page, &access.Refusal{Kind: access.Malformed, Code: "bad_query", Detail: "This report counts no hours of the day: leave out the time zone."}
	}
	if q.Person != "" && !l.OfPeople() {
		return page, &access.Refusal{Kind: access.Malformed, Code: "bad_query", Detail: "This report is not about people: leave out the person."}
	}
	wanted := store.ListQuery{
		List: l.Name, Since: page.Since, Until: page.Until, After: q.Cursor, Limit: min(q.Limit, MaxListPage), Admin: access.AdminRole, Auditor: access.AuditorRole,
	}
	if q.Person != "" {
		p, err := access.FindPerson(ctx, s.Store.People, q.Person)
		if err != nil {
			return page, err
		}
		wanted.PersonID, page.Person = p.ID, &ListPerson{p.ID, p.Name, p.Email}
	}
	least, err := atLeast(l, q.AtLeast)
	if err != nil {
		return page, err
	}
	if least != nil {
		page.Gaps = append(page.Gaps, "Calls whose amount is not known are left out here; the report of amounts counts them without it.")
	}
	switch {
	case l.Name == AmountsList:
		err = s.totals(ctx, &page, wanted, least, q.Count)
	case l.made():
		err = s.made(ctx, &page, wanted, now)
	case least != nil:
		err = s.narrowed(ctx, &page, wanted, least)
	default:
		err = s.listed(ctx, &page, wanted, q.Count)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = errNoPlace
	}
	return page, err
}

var errNoPlace = &access.Refusal{Kind: access.Malformed, Code: "bad_cursor", Detail: "That is no place in this report. Start at its beginning."}

// listed fills in a page of what the store lists.
func (s Reports) listed(ctx context.Context, page *ListPage, wanted store.ListQuery, count bool) error {
	found, err := s.Store.Reports.List(ctx, wanted)
	if err != nil {
		return err
	}
	page.NextCursor, page.Rows = found.Next, rowsOf(found)
	if page.OfAmounts() {
		if err := s.amounts(ctx, page.Rows); err != nil {
			return err
		}
	}
	if count {
		page.Found, err = s.Store.Reports.CountList(ctx, wanted, ListCounted)
	}
	return err
}

// rowsOf are a listing's rows, by the columns' names.
func rowsOf(found store.Listing) []map[string]string {
	rows := make([]map[string]string, len(found.Rows))
	for i, cells := range found.Rows {
		rows[i] = make(map[string]string, len(cells))
		for n, name := range found.Columns {
			rows[i][name] = cells[n]
		}
	}
	return rows
}
