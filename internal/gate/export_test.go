package gate

import (
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
	"holdpoint/internal/access"
)

// JudgeEvent judges an Agent Action Contract event as PreToolCheck does.
func JudgeEvent(j *Judge, p access.Principal, doc canon.Value, now time.Time) (Proposal, Judgement) {
	proposal, _ := proposeEvent(p.AgentID, aana.State(p.MaxState), "apr_", doc, now)
	return proposal, j.Judge(proposal, now)
}
