package views

import (
	"regexp"
	"slices"
	"time"

	"holdpoint/web/static"
)

// Components is the page of all components, with their sample data.
type Components struct {
	Frame
	Statuses  []Status
	Outcomes  []Outcome
	Sentences []Stakes
	Rows      []InboxRow
	Plots     []Plot
	// Far and Soon are deadlines.
	Far, Soon time.Time
	// Deceptive is a text that is not what it looks like.
	Deceptive string
	// Call has the parts of a card, and Forms its arguments, laid out.
	Call  Approval
	Forms []Form
}

var colourName = regexp.MustCompile(`--([a-z-]+): #[0-9a-f]{6}`)

// ColourNames are the names of the stylesheet's colours, in its order.
func ColourNames() []string {
	var names []string
	for _, found := range colourName.FindAllSubmatch(static.Stylesheet(), -1) {
		if name := string(found[1]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
