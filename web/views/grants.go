package views

import (
	"slices"
	"time"
)

// Grants is the list of standing grants.
type Grants struct {
	Frame
	Rows []GrantRow
	// Full says that there may be more than the rows.
	Full bool
}

// GrantRow is a standing grant.
type GrantRow struct {
	ID, Tool, Agent, AgentID, Environment string
	By, Reason                            string
	State                                 Status // active, cancelled (used up), expired, revoked
	Uses, MaxUses                         int
	MadeAt, ExpiresAt                     time.Time
	RevokedAt                             *time.Time
	RevokedBy                             string
	// Matches says what calls have to be like; empty where that cannot be read.
	Matches []Phrase
	// From is the card that it was made from.
	From string
	// UsedBy are the ids of the approvals for which it has voted, Acknowledged
	// those of the denials that its maker has looked at.
	UsedBy, Acknowledged []string
	MayRevoke            bool
}

// GrantForm is the form that makes a grant from a card.
type GrantForm struct {
	Frame
	ID, Tool, Agent, Environment, Digest string
	Leaves                               []GrantLeaf
	Lasting                              []Option
	For, Uses, Reason                    string
	MaxUses, MaxReason                   int
	// Failure is what is wrong with what was entered, one mistake a line.
	Failure string
	// VerifyURL is where to prove who one is, where that is needed first, or "".
	VerifyURL string
	// Backtest is what the grant would have done; nil before anybody has asked.
	Backtest *GrantBacktest
	// Seen names what Past is about, so that a form that was changed since can be
	// told.
	Seen string
}

// GrantLeaf is one leaf of the arguments and what it may be.
type GrantLeaf struct {
	// Number tells the fields of one leaf from those of another.
	Number int
	// Names is where it is, from the outside to the inside.
	Names []string
	// Is is the leaf of this call, as text.
	Is  string
	Ops []Option
	Op  string
	// Value is what the operation compares with; Fields says how it is entered:
	// "text", "number", or "" for not at all.
	Value, Fields string
	// Folded says that it is a line to open: there are many, and it is as in this call.
	Folded bool
	// Sum says that it is a text which is a sum, so that nothing is at most that.
	Sum bool
}

// offers reports whether a leaf can be compared so.
func (v GrantForm) offers(op string) bool {
	return slices.ContainsFunc(v.Leaves, func(l GrantLeaf) bool {
		return slices.ContainsFunc(l.Ops, func(o Option) bool { return o.Value == op })
	})
}

// line is the leaf of this call in one line.
func (l GrantLeaf) line() string {
	if r := []rune(l.Is); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return l.Is
}

// GrantBacktest is what a grant would have done to the past.
type GrantBacktest struct {
	Looked, Unreadable                            int
	Capped                                        bool
	Matching                                      int
	Approved, Denied, Expired, Cancelled, Pending int
	Denials                                       []PastCall
	// Others are the newest of the rest.
	Others []PastCall
}

// PastCall is a former call that a grant would have voted for.
type PastCall struct {
	ID           string
	At           time.Time
	Status       Status
	Acknowledged bool
}
