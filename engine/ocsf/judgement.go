package ocsf

import "holdpoint/engine"

var (
	success = named{1, "Success"}
	failure = named{2, "Failure"}
	waiting = named{other, "Waiting"}
)

// asks reports whether the event's outcome is about the call itself. Events of
// what people say carry the decision's outcome along, which was before.
func asks(t engine.EventType) bool { return t == engine.Decided || t == engine.Reopened }

// isKillSwitch reports whether the event is of a kill switch that was thrown, and not
// of something that one stopped.
func isKillSwitch(e engine.Event) bool {
	return e.Type == engine.Admin && e.Outcome == engine.KillSwitch
}

// statusOf says whether what was wanted came about. A call that waits has
// neither; of a call whose agent is silent nobody knows.
func statusOf(e engine.Event) named {
	for _, r := range e.Reasons {
		switch r.Code {
		case "EXECUTION_FAILED", "NOTIFICATION_GIVEN_UP":
			return failure
		case "EXECUTION_UNKNOWN":
			return named{0, "Unknown"}
		}
	}
	switch e.Outcome {
	case engine.Allow, engine.Approved:
		return success
	case engine.RequireApproval, engine.RequireStepUp, engine.RequireTicket, engine.RequireHuman:
		if asks(e.Type) {
			return waiting
		}
		return success
	case engine.KillSwitch:
		if isKillSwitch(e) {
			return success
		}
		return failure
	case engine.Deny, engine.Rejected, engine.RateLimited, engine.Timeout:
		return failure
	}
	return named{0, "Unknown"}
}

var (
	informational = named{1, "Informational"}
	low           = named{2, "Low"}
	medium        = named{3, "Medium"}
	high          = named{4, "High"}
)

// severityOf says how much somebody should care: High for emergencies, Medium
// where a person has to see to something, Low for what was refused.
func severityOf(e engine.Event) named {
	refused := e.Outcome.Route() == engine.Refuse
	if isKillSwitch(e) || e.Type == engine.Ungated || e.Type == engine.Broken && !refused {
		return high
	}
	found := informational
	if refused {
		found = low
	}
	for _, r := range e.Reasons {
		switch r.Code {
		case "BREAK_GLASS":
			if !refused {
				return high
			}
		case "EXECUTION_UNKNOWN", "OUTPUT_HOLDS_SECRET", "NOBODY_ELIGIBLE", "NOTIFICATION_GIVEN_UP", "ENDPOINT_GONE":
			found = medium
		}
	}
	if e.Outcome == engine.KillSwitch || e.Type == engine.Broken {
		found = medium
	}
	return found
}

// control is what Holdpoint did about it, by the security_control profile:
// action and disposition.
func control(e engine.Event) (action, disposition named) {
	var (
		allowed, denied  = named{1, "Allowed"}, named{2, "Denied"}
		observed, logged = named{3, "Observed"}, named{17, "Logged"}
		modified, held   = named{4, "Modified"}, named{14, "Delayed"}
	)
	switch e.Outcome {
	case engine.Allow:
		switch e.Type { //nolint:exhaustive // nothing was asked of Holdpoint by these alone
		case engine.Executed, engine.Ungated, engine.Afterward, engine.Notified, engine.Shown:
			return observed, logged
		}
		return allowed, named{1, "Allowed"}
	case engine.Approved:
		return allowed, named{8, "Approved"}
	case engine.RequireApproval, engine.RequireStepUp, engine.RequireTicket, engine.RequireHuman:
		if asks(e.Type) {
			return modified, held
		}
		return observed, logged
	case engine.Rejected:
		return denied, named{25, "Rejected"}
	case engine.KillSwitch:
		if isKillSwitch(e) {
			return allowed, named{1, "Allowed"}
		}
		return denied, named{2, "Blocked"}
	case engine.Deny, engine.RateLimited, engine.Timeout:
		return denied, named{2, "Blocked"}
	}
	return named{0, "Unknown"}, named{0, "Unknown"}
}
