package views

import (
	"strings"
	"time"
)

// Keys is the page of the API keys.
type Keys struct {
	Frame
	Query string
	// Dead says that those that are good for nothing any more are shown as well; Hidden
	// counts them where they are not.
	Dead   bool
	Hidden int
	// Total is how many there are, Found how many of them fit, of which the first are Rows.
	Total, Found int
	Rows         []KeyRow
	MayChange    bool
}

// KeyRow is an API key, without its secret.
type KeyRow struct {
	ID, URL, Label  string
	Agent, AgentURL string // "" for an administrator's
	// Person is whose own key it is, "" for nobody's in particular.
	Person, PersonURL string
	Kind              string
	Scopes            []string
	MaxState          string
	CreatedAt         time.Time
	ExpiresAt         *time.Time
	RevokedAt         *time.Time
	LastUsedAt        *time.Time // nil where no use is noted
	State             Status
}

// Matches reports whether the row is one that a query looks for: each of its words is
// part of the label, the id, the agent or person, the kind or the state.
func (r KeyRow) Matches(query string) bool {
	text := strings.ToLower(strings.Join([]string{r.Label, r.ID, r.Agent, r.Person, r.Kind, r.State.Word}, "\n"))
	for _, word := range strings.Fields(strings.ToLower(query)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// KeyPage is the page of one key.
type KeyPage struct {
	Frame
	KeyRow
	MayChange bool
	// Proof is what revoking it has to prove; nil where the last proof is fresh.
	Proof   *VerifyForm
	Failure string
}

// NewKey is the page on which a key is made.
type NewKey struct {
	Frame
	MayChange                    bool
	Kind, Agent, Label, Lifetime string
	Kinds, Agents, Lifetimes     []Option
	Proof                        *VerifyForm
	Failure                      string
}

// KeyMade shows a key's text, this once.
type KeyMade struct {
	Frame
	KeyRow
	Text string
}
