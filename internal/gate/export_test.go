package gate

import (
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
)

// JudgeEvent judges an Agent Action Contract event as PreToolCheck does.
func JudgeEvent(j *Judge, p Principal, doc canon.Value, now time.Time) (Proposal, Judgement) {
	proposal, _ := proposeEvent(p.AgentID, aana.State(p.MaxState), "apr_", doc, now)
	return proposal, j.Judge(proposal, now)
}

// Stalled has the gate's next read not wait for the log.
func Stalled(g *Gate) { g.stalled.Store(time.Now().UnixNano()) }
