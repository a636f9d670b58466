package web

import (
	"fmt"
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/policy"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// ruleTrace tells which rules met a call; nil for no trace.
func ruleTrace(t *gate.RuleTrace) *views.RuleTrace {
	switch {
	case t == nil:
		return nil
	case t.Gone:
		return &views.RuleTrace{Summary: "The rules of this call", Notes: []string{"The policy by which this call was judged is not kept here any more, so its rules cannot be shown. What they said is above."}}
	case t.None:
		return &views.RuleTrace{Summary: "The rules of this call", Notes: []string{"No policy was in force when this call was judged."}}
	case t.Expired:
		return &views.RuleTrace{Summary: "No rule was tried: the policy had expired", Notes: traceNotes(t)}
	}
	v := &views.RuleTrace{Summary: traceSummary(t), Notes: traceNotes(t)}
	if t.Differs {
		v.Warning = "The agent or the tool is registered in another way now than when this call was judged: these are not quite the rules that decided then. What decided is above."
	}
	for _, s := range t.Steps {
		v.Steps = append(v.Steps, traceStep(s))
		if unread(s) {
			v.Unread = append(v.Unread, traceStep(s))
		}
	}
	return v
}

// unread reports that a rule which asks for something would have matched, had the arguments
// been the numbers that it compares.
func unread(s policy.Step) bool {
	return s.Held == policy.HoldsNot && s.Outcome != engine.Allow && !slices.ContainsFunc(s.Conditions, func(c policy.TracedCondition) bool { return !c.Held && !c.NoNumber })
}

// traceSummary is one line: which rule it is, or how many there are.
func traceSummary(t *gate.RuleTrace) string {
	var decided []policy.Step
	for _, s := range t.Steps {
		if s.Held != policy.HoldsNot {
			decided = append(decided, s)
		}
	}
	tried := plainWord(len(t.Steps)+t.Omitted, "1 rule was tried", fmt.Sprintf("%d rules were tried", len(t.Steps)+t.Omitted))
	switch n := len(decided); {
	case n > 0 && decided[n-1].Held == policy.TooLong:
		return "Rule " + decided[n-1].ID + " could not be tried in bounded time, so the call is refused"
	case len(decided) == 0 && len(t.Steps) == 0:
		return "No rule is about this tool: the policy’s default decides"
	case len(decided) == 0:
		return "No rule matches: the policy’s default decides (" + tried + ")"
	case len(decided) == 1 && !t.ByDefault:
		return "Rule " + decided[0].ID + " decides (" + tried + ")"
	case len(decided) == 1:
		return "Rule " + decided[0].ID + " and the policy’s default decide together (" + tried + ")"
	}
	return fmt.Sprintf("%d rules decide together (%s)", len(decided), tried)
}

func traceNotes(t *gate.RuleTrace) []string {
	version := "By the policy’s version " + t.Version
	if t.Former {
		version += ", by which the call was judged and which is not in force any more"
	} else {
		version += ", which is in force"
	}
	notes := []string{version + ", and what is registered of agent and tool now."}
	if t.ByDefault && !t.Expired {
		notes = append(notes, "By default the policy says: a call "+outcome(t.Default).Words+".")
	}
	var left []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{t.Omitted, "more that do not match"}, {t.Behind, "behind the one that decides, not tried"}, {t.Elsewhere, "about other tools"},
	} {
		if part.n > 0 && !t.Expired {
			left = append(left, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(left) > 0 {
		notes = append(notes, "Other rules: "+list(left)+".")
	}
	return notes
}

// traceStep is a rule with what made it match, or with what did not.
func traceStep(s policy.Step) views.TraceStep {
	v := views.TraceStep{ID: s.ID, Description: s.Description, Outcome: outcome(s.Outcome)}
	switch s.Held {
	case policy.Holds:
		v.Held, v.Word = "yes", "matches"
	case policy.HoldsClaimed:
		v.Held, v.Word = "unknown", "may match"
	case policy.TooLong:
		v.Held, v.Word = "unknown", "too long"
	case policy.HoldsNot:
		v.Held, v.Word = "no", "no match"
	}
	for _, c := range s.Conditions {
		if s.Held == policy.HoldsNot && c.Held && !c.ByClaim {
			continue
		}
		x := views.TraceCondition{Held: "no", Word: "fails", Why: c.Why}
		switch {
		case c.ByClaim:
			x.Held, x.Word, x.Why = "unknown", "claimed", c.Why+" That depends on what the agent says, which nothing confirms."
		case c.Held:
			x.Held, x.Word = "yes", "holds"
		case c.Unknown:
			x.Held, x.Word = "unknown", "unknown"
		}
		v.Conditions = append(v.Conditions, x)
	}
	return v
}
