package views

import "time"

// Notifications is the page of who is told of approvals.
type Notifications struct {
	Frame
	Endpoints []EndpointRow
	Forms     []EndpointForm
	Dead      []DeadRow
	// MoreDead says that not all of them are shown.
	MoreDead bool
	// Secret is what a receiver verifies by, shown this once; SecretOf names the
	// endpoint.
	Secret, SecretOf string
	// SecretWaits is the address of the approval that the endpoint waits for; "" for none.
	SecretWaits string
}

// EndpointRow is an endpoint in one row.
type EndpointRow struct {
	ID, URL, Name, Kind string
	// Where is a host, or mail addresses.
	Where []string
	// Events and About say what it is told, and about what; empty for everything.
	Events, About []string
	Digest        string
	On            bool
	State         Status
	// Change is the address of the approval that a change of it waits for, or its being switched on; ""
	// for none.
	Change     string
	Waiting    int
	Sent, Dead int
	LastAt     *time.Time
	// NeedsTo says that a test needs an address; it is the suggestion. Rotates and
	// NewURL say what kind of secret there is to change.
	NeedsTo         bool
	TestTo          string
	Rotates, NewURL bool
	// Decides says up to which danger calls can be decided there, "" for none; Presses and
	// Commands are the paths that the Slack app is told of.
	Decides           string
	Presses, Commands string
	// Tests says that an administrator can send a test.
	Tests bool
	// Open shows what can be done with it; Failure says why something was not.
	Open    bool
	Failure string
}

// EndpointForm is the form that adds an endpoint of a kind.
type EndpointForm struct {
	Kind, Label, Hint      string
	Name, To, URL          string
	Roles, Tools, Agents   string
	Digest                 string
	Own, Plain, Pair, Open bool
	Format                 string // of a webhook, one of Formats
	Formats                []Option
	Kinds                  []Tick
	Decide                 string // in Slack, one of Decides
	Decides                []Option
	Failure                string
	// Known says that the endpoint is there already: its name stays, and its address unless
	// another one is given.
	Known bool
}

// EndpointSettings is the page on which the settings of an endpoint are changed. Seen stands
// for those that it shows.
type EndpointSettings struct {
	Frame
	EndpointRow
	Form EndpointForm
	Seen string
}

// Tick is a box to tick.
type Tick struct {
	Value, Label string
	On           bool
}

// DeadRow is a notification that was given up.
type DeadRow struct {
	ID, URL, Endpoint, Recipient, About, Approval string
	Attempts                                      int
	Reason                                        string
	At                                            time.Time
}

// changeWaits says that a change of an endpoint waits.
func changeWaits(on bool) string {
	if on {
		return "change waits for approval"
	}
	return "waits for approval"
}
