package gate

import (
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
)

// JudgeEvent judges an Agent Action Contract event as PreToolCheck does.
func JudgeEvent(j *Judge, p access.Principal, doc canon.Value, now time.Time) (Proposal, Judgement) {
	proposal := proposeEvent(p.AgentID, aana.State(p.MaxState), doc, now)
	return proposal, j.Judge(&proposal, now)
}

// JudgeAction judges an Agent-SPM request as CheckToolCall does.
func JudgeAction(j *Judge, p access.Principal, doc canon.Value, now time.Time) (Judgement, []FieldError) {
	proposal, wrong := proposeAction(p.AgentID, doc)
	proposal.state = stateOf(p.MaxState)
	return j.Judge(&proposal, now), wrong
}

// JudgeEvaluation judges an AuthZEN request as Evaluate does, and tells its arguments.
func JudgeEvaluation(j *Judge, p access.Principal, doc canon.Value, now time.Time) (Judgement, canon.Value, []FieldError) {
	proposal, wrong := proposeEvaluation(p.AgentID, doc)
	proposal.state = stateOf(p.MaxState)
	return j.Judge(&proposal, now), proposal.Arguments, wrong
}

// JudgeInterception judges a call whose SafeAI contract allows it.
func JudgeInterception(j *Judge, p access.Principal, tool string, arguments canon.Value, tags []string, now time.Time) engine.Decision {
	asks := Proposal{
		Call: engine.Call{Dialect: DialectSafeAI, Tool: tool, AgentID: p.AgentID}, Valid: true, Arguments: arguments, labels: tags,
		state: stateOf(p.MaxState), claim: registry.Claim{AgentID: p.AgentID, Tool: tool},
	}
	return j.Beside(&asks, now)
}
