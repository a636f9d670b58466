package audit

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// forgery is a log that its own operator signs: everything about the tree is
// right, and what it says of an approval is not.
type forgery struct {
	make func(w *world)
	edit func(t *testing.T, events []engine.Event) []engine.Event
	want string
}

// told changes what the n-th event of a type tells, from 0; n below 0 counts from
// the end. Refusals do not count.
func telling(t *testing.T, events []engine.Event, kind engine.EventType, n int, edit func(e *engine.Event, p map[string]any)) []engine.Event {
	t.Helper()
	i := find(t, events, kind, n)
	e := events[i]
	var p map[string]any
	if err := json.Unmarshal(e.SafePayload, &p); err != nil {
		t.Fatal(err)
	}
	edit(&e, p)
	var err error
	if e.SafePayload, err = json.Marshal(p); err != nil {
		t.Fatal(err)
	}
	events[i] = e
	return events
}

func find(t *testing.T, events []engine.Event, kind engine.EventType, n int) int {
	t.Helper()
	var places []int
	for i, e := range events {
		if e.Type == kind && e.Outcome != engine.Deny {
			places = append(places, i)
		}
	}
	if n < 0 {
		n += len(places)
	}
	if n < 0 || n >= len(places) {
		t.Fatalf("there are %d events of type %s", len(places), kind)
	}
	return places[n]
}

// in is a member of a payload.
func in(p map[string]any, path ...string) map[string]any {
	for _, name := range path {
		p, _ = p[name].(map[string]any)
	}
	return p
}

// behind changes the standing of everybody who stood behind the facts of an end.
func behind(t *testing.T, events []engine.Event, edit func(who map[string]any)) []engine.Event {
	return telling(t, events, engine.Settled, -1, func(_ *engine.Event, p map[string]any) {
		list, _ := in(p, "ended")["behind"].([]any)
		for _, one := range list {
			who, _ := one.(map[string]any)
			edit(who)
		}
	})
}

func drop(t *testing.T, events []engine.Event, kind engine.EventType, n int) []engine.Event {
	i := find(t, events, kind, n)
	return slices.Delete(events, i, i+1)
}

// facts changes the list of facts that an end names.
func facts(t *testing.T, events []engine.Event, edit func([]any) []any) []engine.Event {
	return telling(t, events, engine.Settled, -1, func(_ *engine.Event, p map[string]any) {
		list, _ := in(p, "ended")["facts"].([]any)
		in(p, "ended")["facts"] = edit(list)
	})
}

// TestForgedApprovals: the operator has the key and signs what did not come about
// by the rules. The replay names it.
func TestForgedApprovals(t *testing.T) {
	two := func(w *world) {
		a := w.ask("pay", time.Hour, approval.Terms{}, review("finance", 2))
		w.say(a, yes("usr_ben"))
		w.say(a, yes("usr_cleo"))
		w.settle(a, "")
		w.redeem(a)
		w.executed(a, "EXECUTION_SUCCEEDED", agent)
	}
	later := func(w *world) {
		a := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 1))
		w.say(a, yes("usr_ben"))
		w.settle(a, "")
		w.pass(5 * time.Minute)
		w.redeem(a)
	}
	deny := func(w *world) {
		a := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 2))
		w.say(a, yes("usr_ben"))
		w.say(a, no("usr_cleo"))
		w.settle(a, "")
	}
	timeout := func(w *world) {
		a := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 1))
		w.say(a, approval.Fact{Kind: approval.Comment, Actor: human("usr_ben"), Comment: "hm"})
		w.pass(2 * time.Hour)
		w.settle(a, "")
	}
	asked := func(what string, value any) func(*engine.Event, map[string]any) {
		return func(_ *engine.Event, p map[string]any) { in(p, "asked")[what] = value }
	}
	set := func(what string, value any) func(*engine.Event, map[string]any) {
		return func(_ *engine.Event, p map[string]any) { in(p, "ended")[what] = value }
	}
	for name, f := range map[string]forgery{
		"too few votes, told of": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return drop(t, e, engine.Voted, 1)
		}, "it ended with 2 facts, and the log has 1"},
		"too few votes, hushed up": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			e = facts(t, drop(t, e, engine.Voted, 1), func(l []any) []any { return l[:1] })
			return telling(t, e, engine.Settled, -1, func(_ *engine.Event, p map[string]any) {
				list, _ := in(p, "ended")["behind"].([]any)
				in(p, "ended")["behind"] = list[:1]
			})
		}, "it says that its facts have made it approved, and they have made it pending"},
		"a vote for somebody who was not told of": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return facts(t, drop(t, e, engine.Voted, 1), func(l []any) []any { return l[:1] })
		}, "somebody stands behind fact 2, which there is not"},
		"self-approval": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return behind(t, e, func(who map[string]any) {
				if who["identity"] == "ben@example.com" {
					who["identity"] = "owner@example.com"
				}
			})
		}, "have made it pending"},
		"one person twice, by two accounts": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return behind(t, e, func(who map[string]any) { who["identity"] = "ben@example.com" })
		}, "have made it pending"},
		"one account that is two people": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 1, func(e *engine.Event, _ map[string]any) { e.Actor.ID = "usr_ben" })
		}, "usr_ben is two people in it"},
		"somebody disabled": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return behind(t, e, func(who map[string]any) { who["active"] = false })
		}, "have made it pending"},
		"somebody without the role": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return behind(t, e, func(who map[string]any) { who["roles"] = []string{"gardener"} })
		}, "have made it pending"},
		"an agent that votes": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 1, func(e *engine.Event, _ map[string]any) { e.Actor.Kind = engine.AgentActor })
		}, "a person stands behind fact 2, which is not one's"},
		"a vote that names another kind": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 1, func(_ *engine.Event, p map[string]any) { in(p, "fact")["kind"] = "answer" })
		}, "does not tell what it contributes"},
		"a no made a yes": {deny, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 1, func(_ *engine.Event, p map[string]any) { in(p, "fact")["yes"] = true })
		}, "it says that its facts have made it denied, and they have made it approved"},
		"a denial dropped from the log": {deny, func(t *testing.T, e []engine.Event) []engine.Event {
			return drop(t, e, engine.Voted, 1)
		}, "it ended with 2 facts, and the log has 1"},
		"a denial dropped from the end": {deny, func(t *testing.T, e []engine.Event) []engine.Event {
			return facts(t, e, func(l []any) []any { return l[:1] })
		}, "it ended with 1 facts, and the log has 2"},
		"a denial that is a refusal": {deny, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 1, func(e *engine.Event, _ map[string]any) { e.Outcome = engine.Deny })
		}, "it ended with 2 facts, and the log has 1"},
		"a denial of another approval": {deny, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 1, func(e *engine.Event, _ map[string]any) { e.ApprovalID = "apr_other" })
		}, "approval apr_other, which is not open"},
		"a denial of no approval": {deny, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 1, func(e *engine.Event, _ map[string]any) { e.ApprovalID = "" })
		}, "names no approval"},
		"denied, and approved": {deny, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, -1, func(e *engine.Event, p map[string]any) {
				e.Outcome = engine.Approved
				in(p, "ended")["valid_until"] = e.Timestamp.Add(time.Hour)
			})
		}, "it ends as APPROVED, and its facts have made it denied"},
		"denied, and a token": {deny, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, -1, func(e *engine.Event, p map[string]any) {
				in(p, "ended")["valid_until"] = e.Timestamp.Add(time.Hour)
			})
		}, "it has a token and is not approved"},
		"approved, and refused for no reason": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			e = e[:find(t, e, engine.Settled, 0)+1]
			return telling(t, e, engine.Settled, -1, func(e *engine.Event, p map[string]any) {
				e.Outcome = engine.Rejected
				delete(in(p, "ended"), "valid_until")
			})
		}, "it ends as REJECTED, and its facts have made it approved"},
		"an end that is a refusal": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, -1, func(e *engine.Event, _ map[string]any) { e.Outcome = engine.Deny })
		}, "an approval ends as DENY"},
		"a vote after the deadline": {func(w *world) {
			a := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 1))
			w.pass(59 * time.Minute)
			w.say(a, yes("usr_ben"))
			w.settle(a, "")
		}, func(t *testing.T, e []engine.Event) []engine.Event {
			// All but the beginning two minutes later.
			for i := 1; i < len(e); i++ {
				e[i].Timestamp = e[i].Timestamp.Add(2 * time.Minute)
			}
			at := e[1].Timestamp
			e = telling(t, e, engine.Voted, 0, func(_ *engine.Event, p map[string]any) {
				in(p, "fact")["at"] = at
				in(p, "proof")["at"] = at
			})
			return telling(t, e, engine.Settled, 0, func(e *engine.Event, p map[string]any) {
				in(p, "ended")["at"] = e.Timestamp
				in(p, "ended")["valid_until"] = e.Timestamp.Add(time.Minute)
			})
		}, "they have made it expired"},
		"a vote after the deadline, dated back": {timeout, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Commented, 0, func(e *engine.Event, p map[string]any) { e.Timestamp = e.Timestamp.Add(2 * time.Minute) })
		}, "fact 1 says that it is of"},
		"another deadline": {timeout, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, func(e *engine.Event, p map[string]any) { in(p, "ended")["expires_at"] = e.Timestamp.Add(time.Hour) })
		}, "it ends with another deadline than it began with"},
		"another beginning": {timeout, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, func(e *engine.Event, p map[string]any) {
				in(p, "ended")["opened_at"] = e.Timestamp.Add(-90 * time.Minute)
			})
		}, "it says that it began at another time"},
		"a timeout too early": {timeout, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, func(e *engine.Event, p map[string]any) {
				e.Timestamp = e.Timestamp.Add(-90 * time.Minute)
				in(p, "ended")["at"] = e.Timestamp
			})
		}, "it says that its facts have made it expired, and they have made it pending"},
		"a timeout too early that says it is late": {timeout, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, func(e *engine.Event, _ map[string]any) { e.Timestamp = e.Timestamp.Add(-90 * time.Minute) })
		}, "it was not computed when it was written"},
		"a second end": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return append(e, e[find(t, e, engine.Settled, 0)])
		}, "ends a second time"},
		"a second beginning": {deny, func(t *testing.T, e []engine.Event) []engine.Event {
			return append(e, e[0])
		}, "begins a second time"},
		"a contribution after the end": {deny, func(t *testing.T, e []engine.Event) []engine.Event {
			return append(e, e[1])
		}, "which has ended"},
		"an end of nothing": {two, func(t *testing.T, e []engine.Event) []engine.Event { return e[find(t, e, engine.Settled, 0):] }, "ends and has not begun"},
		"a token twice":     {later, func(t *testing.T, e []engine.Event) []engine.Event { return append(e, e[len(e)-1]) }, "spent a second time"},
		"a token twice, after the call": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return append(e, e[find(t, e, engine.Redeemed, 0)])
		}, "has run or is long over"},
		"a token too late": {later, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Redeemed, 0, func(e *engine.Event, _ map[string]any) { e.Timestamp = e.Timestamp.Add(time.Hour) })
		}, "and was good until"},
		"a token of another call": {later, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Redeemed, 0, func(e *engine.Event, _ map[string]any) { e.DigestHMAC = hmacOf("other") })
		}, "spent for another call"},
		"a token of another agent": {later, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Redeemed, 0, func(e *engine.Event, _ map[string]any) { e.AgentID = "thief" })
		}, "spent for another call"},
		"a token of what was denied": {deny, func(t *testing.T, e []engine.Event) []engine.Event {
			spent := e[len(e)-1]
			spent.Type, spent.Outcome = engine.Redeemed, engine.Allow
			return append(e, spent)
		}, "which was not approved"},
		"a token longer than a voter allowed": {func(w *world) {
			a := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 1))
			vote := yes("usr_ben")
			vote.Details.ValidFor = engine.Duration(2 * time.Minute)
			w.say(a, vote)
			w.settle(a, "")
		}, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, func(e *engine.Event, p map[string]any) {
				in(p, "ended")["valid_until"] = e.Timestamp.Add(time.Hour)
			})
		}, "fact 1 has made it good for 2m0s"},
		"a call that was not approved": {deny, func(t *testing.T, e []engine.Event) []engine.Event {
			ran := e[len(e)-1]
			ran.Type, ran.Outcome = engine.Executed, engine.Allow
			return append(e, ran)
		}, "a call is reported for approval"},
		"a call without its token": {two, func(t *testing.T, e []engine.Event) []engine.Event { return drop(t, e, engine.Redeemed, 0) }, "whose token was not spent"},
		"other requirements in the end": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, func(e *engine.Event, _ map[string]any) { e.Requirements = []engine.Requirement{review("finance", 1)} })
		}, "it ends by other requirements"},
		"another requesting side": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, set("excluded", []string{}))
		}, "another requesting side"},
		"other terms": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, set("terms", map[string]any{"accountable": []string{"ben@example.com"}}))
		}, "it ends by other terms"},
		"another edition": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, set("edition", 2))
		}, "it ends in edition 2, and the log has 1"},
		"a vote of another edition": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 1, func(_ *engine.Event, p map[string]any) { in(p, "fact")["edition"] = 2 })
		}, "is about edition 2"},
		"a vote about another call": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 1, func(e *engine.Event, _ map[string]any) { e.DigestHMAC = hmacOf("other") })
		}, "is about another call"},
		"an end as another call": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, func(e *engine.Event, _ map[string]any) { e.DigestHMAC = hmacOf("other") })
		}, "it ends as another call"},
		"an edit that is not told of": {func(w *world) { w.edited() }, func(t *testing.T, e []engine.Event) []engine.Event {
			return drop(t, e, engine.Edited, 0)
		}, "edition 2"},
		"an edit that asks for less": {func(w *world) { w.reopened() }, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Reopened, 0, func(e *engine.Event, _ map[string]any) {
				e.Requirements = []engine.Requirement{{Kind: engine.Answer, Role: "reviewer", Needed: 1}}
			})
		}, "asks for less"},
		"an edit that lets the requesting side vote": {func(w *world) { w.edited() }, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Edited, 0, func(_ *engine.Event, p map[string]any) { in(p, "asked")["excluded"] = []string{"cleo@example.com"} })
		}, "lets somebody vote who belonged to the requesting side"},
		"a claim that excludes nobody": {func(w *world) { w.widened() }, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Decided, -1, asked("excluded", []string{"owner@example.com"}))
		}, "somebody is excluded by claim who is not excluded"},
		"a claim about whoever answers for it": {func(w *world) { w.widened() }, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Decided, -1, func(_ *engine.Event, p map[string]any) {
				in(p, "asked", "terms")["excluded_by_claim"] = []string{"owner@example.com"}
			})
		}, "or by registration"},
		"an edit that makes a claim of who was excluded": {func(w *world) { w.edited() }, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Edited, 0, func(_ *engine.Event, p map[string]any) {
				in(p, "asked", "terms")["excluded_by_claim"] = []string{"cleo@example.com"}
			})
		}, "somebody is excluded by claim who was not before"},
		"widened to others than was asked": {func(w *world) { w.widened() }, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Decided, -1, func(_ *engine.Event, p map[string]any) { in(p, "asked", "terms")["if_too_few"] = "gardener" })
		}, "it ends by other terms"},
		"widened by nobody": {func(w *world) { w.widened() }, func(t *testing.T, e []engine.Event) []engine.Event {
			return facts(t, drop(t, e, engine.Escalated, 0), func(l []any) []any { return l[1:] })
		}, "have made it pending"},
		"whom a claim excludes votes": {func(w *world) { w.widened() }, func(t *testing.T, e []engine.Event) []engine.Event {
			return behind(t, e, func(who map[string]any) {
				if who["identity"] == "cleo@example.com" {
					who["identity"] = "ben@example.com"
				}
			})
		}, "have made it pending"},
		"whoever edits votes": {func(w *world) { w.edited() }, func(t *testing.T, e []engine.Event) []engine.Event {
			e = telling(t, e, engine.Edited, 0, func(_ *engine.Event, p map[string]any) { in(p, "asked")["excluded"] = []string{"owner@example.com"} })
			return telling(t, e, engine.Settled, 0, set("excluded", []string{"owner@example.com"}))
		}, "may vote on them"},
		"an edit that gives more time": {func(w *world) { w.edited() }, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Edited, 0, func(_ *engine.Event, p map[string]any) { in(p, "asked")["expires_in"] = "9h0m0s" })
		}, "has more time than there was"},
		"an edit by a program": {func(w *world) { w.edited() }, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Edited, 0, func(e *engine.Event, _ map[string]any) { e.Actor = agent })
		}, "of kind edit is of a agent"},
		"a stand-in that is not told of": {func(w *world) { w.deputy() }, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 0, func(_ *engine.Event, p map[string]any) { delete(p, "in_place_of") })
		}, "is in the place of 0 people, and 1 are told of"},
		"the excluded owner, as who is told to be somebody else": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 0, func(e *engine.Event, _ map[string]any) { e.Actor.ID = "owner@example.com" })
		}, "owner@example.com, who belongs to the requesting side, and not of ben@example.com"},
		"another account of the excluded owner": {func(w *world) {
			w.added("usr_owner")
			two(w)
		}, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 0, func(e *engine.Event, _ map[string]any) { e.Actor.ID = "usr_owner" })
		}, "usr_owner is told to be ben@example.com, and is owner@example.com"},
		"who spoke elsewhere as somebody else": {func(w *world) {
			a := w.ask("pay", time.Hour, approval.Terms{}, review("security", 1))
			w.say(a, yes("usr_dina"))
			w.settle(a, "")
			two(w)
		}, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 1, func(e *engine.Event, _ map[string]any) { e.Actor.ID = "usr_dina" })
		}, "usr_dina is told to be ben@example.com, and is dina@example.com"},
		"who is somebody in their own right": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 1, func(e *engine.Event, _ map[string]any) { e.Actor.ID = "ben@example.com" })
		}, "ben@example.com is told to be cleo@example.com, and is somebody in their own right"},
		"a stand-in for somebody else": {func(w *world) {
			w.added("usr_owner")
			w.deputy()
		}, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Voted, 0, func(_ *engine.Event, p map[string]any) { p["in_place_of"] = []any{"usr_owner"} })
		}, "usr_owner is told to be ben@example.com, and is owner@example.com"},
		"somebody added as two people": {func(w *world) {
			w.added("usr_ben")
			two(w)
		}, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Admin, 0, func(_ *engine.Event, p map[string]any) { p["identity"] = "owner@example.com" })
		}, "usr_ben is told to be ben@example.com, and is owner@example.com"},
		"nobody told of": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, set("behind", []any{}))
		}, "does not tell who stands behind fact"},
		"a no of somebody who is not told of": {func(w *world) {
			a := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 2))
			w.say(a, yes("usr_ben"))
			w.say(a, no("usr_cleo"))
			w.settle(a, "")
		}, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, func(_ *engine.Event, p map[string]any) {
				list, _ := in(p, "ended")["behind"].([]any)
				in(p, "ended")["behind"] = list[:1]
			})
		}, "does not tell who stands behind fact"},
		"another call is reported": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Executed, 0, func(e *engine.Event, _ map[string]any) { e.DigestHMAC = hmacOf("other") })
		}, "another call is reported"},
		"another tool's call is reported": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Executed, 0, func(e *engine.Event, _ map[string]any) { e.ToolName = "delete" })
		}, "another call is reported"},
		"an end that tells nothing": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			return telling(t, e, engine.Settled, 0, func(_ *engine.Event, p map[string]any) { delete(p, "ended") })
		}, "does not tell how it came about"},
		"votes in another order": {two, func(t *testing.T, e []engine.Event) []engine.Event {
			i, j := find(t, e, engine.Voted, 0), find(t, e, engine.Voted, 1)
			e[i].SafePayload, e[j].SafePayload = e[j].SafePayload, e[i].SafePayload
			return e
		}, "comes after fact"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			f.make(w)
			mustBeWell(t, verify(newLog(t, "log.example.com", w.events).verifier(), newLog(t, "log.example.com", w.events).whole()))
			l := newLog(t, "log.example.com", f.edit(t, slices.Clone(w.events)))
			r := verify(l.verifier(), l.whole())
			mustName(t, r, f.want, "event ")
		})
	}
}

// TestTimesRunForward: a clock may be set right, and no more.
func TestTimesRunForward(t *testing.T) {
	w := newWorld(t, 5)
	for range 20 {
		w.add(engine.Event{Type: engine.SignIn, Outcome: engine.Allow, Actor: human("usr_ada")})
	}
	const at = 10
	for name, test := range map[string]struct {
		back []time.Duration // of the events from at on
		want int
	}{
		"in order":                     {nil, 0},
		"as far as may be":             {[]time.Duration{maxClockSetBack}, 0},
		"further":                      {[]time.Duration{maxClockSetBack + time.Microsecond}, 1},
		"in small steps":               {[]time.Duration{40 * time.Second, 80 * time.Second}, 1},
		"for good, which is told once": {slices.Repeat([]time.Duration{time.Hour}, 10), 1},
	} {
		t.Run(name, func(t *testing.T) {
			events := slices.Clone(w.events)
			for i, back := range test.back {
				events[at+i].Timestamp = events[at-1].Timestamp.Add(-back)
			}
			l := newLog(t, "log.example.com", events)
			for what, lines := range map[string][][]byte{"whole": l.whole(), "a part": l.export(Filter{ActorID: "usr_ada"}, func(Record) bool { return true })} {
				r := verify(l.verifier(), lines)
				if len(r.Problems) != test.want {
					t.Errorf("%s: got %v", what, r.Problems)
				}
				if test.want > 0 {
					mustName(t, r, "times do not run backwards by more than 1m0s")
				}
			}
		})
	}
}
