package views

import "time"

// ProposeChange is the page on which a change of the policy or the tool contracts is
// proposed.
type ProposeChange struct {
	Frame
	Kind  string
	Kinds []Option
	// Takes says that such changes take an approval, and Role of whom.
	Takes bool
	Role  string
	// Able is how many people other than the reader have the role, and Needed how many it takes.
	Able, Needed int
	// File is the file of such documents, "" for none; People says that there is a page of people.
	File   string
	People bool
	// What the form says.
	Text, Reason, From, Zone string
	Zones                    []Option
	// Failures are what is wrong with it, a sentence each.
	Failures []string
	// Seen is what it would change; nil before it was looked at.
	Seen *SeenChange
}

// SeenChange is what a change would be.
type SeenChange struct {
	Version, Former string
	From, Until     time.Time
	Difference      Code
	Simulation      string
	SignedBy        string // people and their keys, "" for none
}

// Editions is the page of what was in force.
type Editions struct {
	Frame
	Kind     string
	Kinds    []Option
	Rows     []EditionRow
	From, To string // digests of what is compared
	// Difference is nil where nothing is compared; Same says that there is none.
	Difference *Code
	Same       bool
	Failure    string
	// CompareFrom and CompareTo are what the form to compare begins with.
	CompareFrom, CompareTo string
}

// EditionRow is one policy, or set of tool contracts, that is or was in force.
type EditionRow struct {
	Version, Digest            string
	From                       time.Time
	Until                      *time.Time
	Author, ApprovedBy, Reason string
	// SignedBy are the people whose keys have signed it, "" for none.
	SignedBy string
	// Alone says that people should have approved it, and were not asked.
	Alone bool
	// ApprovalURL and ChangesURL are "" where there is none.
	ApprovalURL, ChangesURL string
}

// tooFew says why what the reader proposes cannot be approved, "" where it can.
func (v ProposeChange) tooFew() string {
	switch {
	case v.Able >= v.Needed:
		return ""
	case v.Able == 0:
		return "Nobody else has the role " + Visible(v.Role) + ", so nobody can approve what you propose."
	}
	return "It takes " + Plural(v.Needed, "person", "people") + " with the role " + Visible(v.Role) + ", and only " + itoa(v.Able) + " besides you " + map[bool]string{true: "has", false: "have"}[v.Able == 1] + " it."
}

// name is what an edition is called in a list of them.
func (r EditionRow) name() string {
	if r.Version != "" {
		return r.Version + ", from " + Clock(r.From)
	}
	return "from " + Clock(r.From)
}

// orDash is what is known of something.
func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// cutDigest is as much of a digest as tells it from others.
func cutDigest(digest string) string { return digest[:min(len(digest), len("sha256:")+12)] }
