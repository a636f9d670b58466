package approval

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"holdpoint/engine"
)

// logged is what the log has of an approval and its facts: written and read again.
func logged(t interface{ Fatal(args ...any) }, p Plan, facts []Fact, s State) (SettledPayload, []engine.Requirement, []LoggedFact) {
	again := func(v, into any) {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "a secret remark") {
			t.Fatal("the log has a comment: ", string(data))
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	var ended SettledPayload
	again(Approval{Plan: p, Facts: facts}.SettledPayload(s, s.At), &ended)
	var requirements []engine.Requirement
	again(PayloadRequirements(p.Requirements), &requirements)
	list := make([]LoggedFact, len(facts))
	for i, f := range facts {
		again(f.Payload(), &list[i].FactPayload)
		list[i].Actor = f.Actor
	}
	return ended, requirements, list
}

// told holds what the log tells against the approval itself.
func (w *walk) payloadOf(s State) {
	facts := slices.Clone(w.facts)
	for i := range facts {
		facts[i].Seq = int64(i + 1)
		if facts[i].Comment != "" {
			facts[i].Comment, facts[i].Details.Salt = facts[i].Comment+" a secret remark", "salt"
		}
	}
	ended, requirements, list := logged(w.T, w.p, facts, s)
	ended.At = w.now
	got, err := ended.Replay(requirements, list)
	if err != nil {
		w.Fatal(err)
	}
	want := Advance(w.p, facts, w.now)
	if visible(got) != visible(want) {
		w.Fatalf("the log says\n%s\nand the approval\n%s", visible(got), visible(want))
	}
	if len(list) == 0 {
		return
	}
	if _, err := ended.Replay(requirements, list[1:]); err == nil {
		w.Fatal("a fact that is missing was not missed")
	}
	if _, err := ended.Replay(requirements, append(slices.Clone(list), list[0])); err == nil {
		w.Fatal("a fact too many was not seen")
	}
}

// TestEventsHoldNoWrittenText: what a person writes of a call is in no event.
func TestEventsHoldNoWrittenText(t *testing.T) {
	f := Fact{Seq: 1, Kind: Vote, Comment: "CANARY", Details: Details{
		Salt: "CANARY", Digest: "CANARY", Constraints: json.RawMessage(`{"to":"CANARY"}`), Ticket: &Ticket{System: "s", Ref: "R-1", Title: "CANARY"}, Changed: []string{"a"},
	}}
	data, err := json.Marshal(f.Payload())
	if err != nil || strings.Contains(string(data), "CANARY") || !strings.Contains(string(data), "R-1") {
		t.Errorf("it tells %s: %v", data, err)
	}
}

func TestCommentDigest(t *testing.T) {
	if got := CommentDigest("salt", ""); got != "" {
		t.Errorf("of no comment: %q", got)
	}
	a, b := CommentDigest("ab", "c"), CommentDigest("a", "bc")
	if a == b || a == CommentDigest("", "abc") {
		t.Error("salt and comment run into each other")
	}
	if want := "sha256:"; !strings.HasPrefix(a, want) || len(a) != len(want)+64 {
		t.Errorf("got %q", a)
	}
}
