package views

import "time"

// ReportIndex is the page from which each report is reached.
type ReportIndex struct {
	Frame
	Lists, Others []ReportLink
}

// ReportLink leads to a report; Asks is the question that it answers.
type ReportLink struct{ Title, URL, Asks string }

// ListReport is the page of a report that is a list.
type ListReport struct {
	Frame
	Form              ReportForm
	Ready             bool
	Name, Title, Asks string
	// None is what it means that there is no row.
	None         string
	Since, Until time.Time
	// Exact is the period as a form sends it.
	Exact Exact
	Gaps  []string
	Heads []ListHead
	Rows  [][]ListCell
	Terms []Term
	// Found is how many rows there are; More says that there are more than are counted.
	// Uncounted says that it is not known how many there are besides those of the page.
	Found           int
	More, Uncounted bool
	// OfPeople says that the report can be narrowed to a person, and Decided that this is who
	// decided. OfAmounts says that it has amounts, and OfHours that it counts hours of the
	// day, by the time zone Zone.
	OfPeople, Decided, OfAmounts, OfHours bool
	Zone                                  string
	// Who is whom the rows are about, "" for everybody.
	Who string
	// History is where the same approvals are with what each call was to do, "" for none.
	History string
	// Beside is where the same approvals are added up, or those that were, "" for nowhere.
	Beside string
	// Whole is the page that tells more of the same; its URL is "" where there is none.
	Whole ReportLink
	// First and Next are addresses, or "".
	First, Next string
}

// Exact are two moments, RFC 3339.
type Exact struct{ Since, Until string }

// PeriodLink leads to the same report of another period.
type PeriodLink struct {
	Label, URL string
	Here       bool
}

// ListHead is the head of a column.
type ListHead struct {
	Title  string
	Number bool
}

// ListCell is a cell, with what belongs to it below.
type ListCell struct {
	Part  ListPart
	Below []ListPart
}

// ListPart is a value. Lead stands before it; a zero Time is none.
type ListPart struct {
	Text, Lead, Href string
	Time             time.Time
	Term             bool
}

// Term is a word with what it means.
type Term struct{ Word, Means string }

// listFound says how many rows a report has.
func listFound(v ListReport) string {
	if v.Uncounted {
		return Plural(len(v.Rows), "row on this page", "rows on this page")
	}
	if v.More {
		return "More than " + Thousands(v.Found) + " rows"
	}
	return Plural(v.Found, "row", "rows")
}

// listAbout leads to whom the rows are about.
func listAbout(v ListReport) string {
	if v.Decided {
		return " decided by "
	}
	return " about "
}

// numberClass is the class of a column of numbers.
func numberClass(h ListHead) string {
	if h.Number {
		return "num"
	}
	return ""
}
