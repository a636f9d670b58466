package spm

import (
	"holdpoint/engine"
	"holdpoint/engine/policy"
	"holdpoint/engine/registry"
)

// Answer words a decision as Agent-SPM's Decision: the reasons are those of the
// outcome, not everything that was noticed on the way. judged is what the policy
// alone says; it may be nil.
func Answer(decided engine.Decision, judged *policy.Decision) policy.Decision {
	d := policy.Decision{Outcome: decided.Outcome, Reasons: []engine.Reason{}, Constraints: decided.Constraints}
	for _, f := range decided.Findings {
		if f.Route == decided.Route && f.Code != registry.ClaimOverridden {
			d.Reasons = append(d.Reasons, engine.Reason{Code: f.Code, Message: f.Message})
		}
	}
	for _, r := range decided.Requirements {
		if r.Role != "" {
			d.ApproverRole = r.Role // the strictest one's
		}
	}
	if judged != nil && judged.ApproverRole != "" && decided.Route.Waits() {
		d.ApproverRole = judged.ApproverRole
	}
	return d
}
