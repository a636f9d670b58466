package views

import (
	"slices"
	"strings"
	"time"
)

// Outcome is what a rule decides.
type Outcome struct {
	Code  string // "REQUIRE_APPROVAL"
	Words string // "waits for people to approve it"
	Kind  string // allow, ask, wait, deny
}

// Piece is a part of a phrase: words, or something of the rule itself.
type Piece struct {
	Text string
	Code bool
}

// Phrase is a condition or a term of a rule, in words.
type Phrase []Piece

// Policies is the page of what is in force.
type Policies struct {
	Frame
	// Digest is what events name.
	Digest string
	// History says that there is a page of what was in force, Propose that the reader may
	// propose a change, and ByFile that the reader could if changes took an approval.
	History, Propose, ByFile bool
	// Query is what is searched for in the rules, "" for nothing.
	Query string
	// Problems are why the last new file did not come into force.
	Problems []string
	// Policy is nil when there is none.
	Policy          *Policy
	HasContracts    bool
	Contracts       []Contract
	ContractsDigest string
	ContractsFile   Code
	Try             Try
}

// Policy is the policy bundle in force.
type Policy struct {
	Version, Digest    string
	Generated, Expires time.Time
	Signed             bool // by the shared secret
	// SignedBy are the people who have signed it, and Wanted says what of them is wanted, "" for
	// nothing.
	SignedBy []string
	Wanted   string
	Expired  bool
	// Warning says that it has expired or soon will, or "".
	Warning string
	Default Outcome
	// Rules are those of Count that are shown.
	Rules    []Rule
	Count    int
	Warnings []Lint
	File     Code
}

// Rule is a rule of the policy.
type Rule struct {
	Number          int
	ID, Description string
	Line            int // of the file; 0 is unknown
	// Match and When are the conditions, all of which have to hold.
	Match, When []Phrase
	// Terms are who has to agree, by when, and constraints.
	Terms   []Phrase
	Outcome Outcome
	// Unread says that only the file tells the conditions and terms.
	Unread bool
}

// Matches reports whether each word of a query is in the rule, as the page shows it.
func (r Rule) Matches(query string) bool {
	var text strings.Builder
	for _, part := range []string{r.ID, r.Description, r.Outcome.Code, r.Outcome.Words} {
		text.WriteString(strings.ToLower(part) + "\n")
	}
	for _, p := range slices.Concat(r.Match, r.When, r.Terms) {
		for _, piece := range p {
			text.WriteString(strings.ToLower(piece.Text) + " ")
		}
	}
	for _, word := range strings.Fields(strings.ToLower(query)) {
		if !strings.Contains(text.String(), word) {
			return false
		}
	}
	return true
}

// Lint is a warning about the policy.
type Lint struct {
	Line                int
	Rule, Message, Hint string
}

// Contract is a tool contract.
type Contract struct {
	Tool         string
	Tags, Fields []string
	Masks        bool
	// Unread says that only the file tells its terms.
	Unread bool
}

// Try is the form that tries a call, and what came of it.
type Try struct {
	Tool, Arguments, Environment, Request string
	Failures                              []string
	Result                                *Explained
}

// Explained is why the policy decides what it decides.
type Explained struct {
	Tool, Environment string
	Outcome           Outcome
	Rule              string // "" when none matched
	Role              string
	Expired           bool
	Reasons           []string
	Rules             []ExplainedRule
}

// ExplainedRule is how a rule met a call.
type ExplainedRule struct {
	Number           int
	ID               string
	Outcome          Outcome
	Matched, Decided bool
	// After says that an earlier rule had decided already.
	After bool
	// Because is the first condition that did not hold.
	Because    string
	Conditions []Condition
}

// Condition is one condition of a rule; Held is yes, no or unknown.
type Condition struct{ Name, Held, Why string }
