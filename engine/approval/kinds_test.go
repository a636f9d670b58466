package approval

import (
	"testing"
	"time"

	"holdpoint/engine"
)

// TestEveryKindCanBeGiven: an approval that waits for one thing of a kind is
// approved by what its giver gives, and a kind that people decide by nothing but
// their votes.
func TestEveryKindCanBeGiven(t *testing.T) {
	ticket := Details{Ticket: &Ticket{System: "jira", Ref: "OPS-1"}}
	attached, found := by(1, TicketLink, "owner", time.Second), system(2, TicketCheck, 2*time.Second)
	attached.Details, found.Details, found.Yes = ticket, ticket, true
	confirmed := Fact{Seq: 1, At: start.Add(time.Second), Kind: Reply, Yes: true, Actor: engine.Actor{Kind: engine.ServiceActor, ID: "runtime"}}
	proved := by(1, Verification, "owner", time.Second)
	proved.Yes, proved.Details.Proof = true, &Proof{Method: "totp", At: proved.At}
	given := map[engine.Discharger][]Fact{
		engine.Requester: {confirmed}, engine.Accountable: {proved}, engine.Tracker: {attached, found}, engine.Reviewers: {yes(1, "ada", time.Second)},
	}
	for _, k := range engine.Kinds() {
		p, giver := plan(engine.Requirement{Kind: k, Role: "a", Needed: 1}), k.Traits().Discharger
		p.Accountable = []string{"owner"}
		if s := Advance(p, given[giver], start.Add(3*time.Second)); s.Status != Approved {
			t.Errorf("%s is %s after what the giver %q gives (%d facts): the machine admits nothing, or this test does not know what", k, s.Status, giver, len(given[giver]))
		}
		for other, facts := range given {
			wrong := other != giver && (other != engine.Reviewers || !k.Traits().VotesCount)
			if s := Advance(p, facts, start.Add(3*time.Second)); wrong && s.Status != Pending {
				t.Errorf("%s is %s after what the giver %q gives", k, s.Status, other)
			}
		}
	}
}
