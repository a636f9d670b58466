package engine

import "fmt"

// Route is what becomes of a call, ordered by strictness:
// Accept < Ask < Defer < Refuse (Agent Action Contract v1, "Route Semantics").
// The zero value is Accept, so a Route must always be computed, never assumed;
// Evaluate is the only place that turns opinions into one.
type Route uint8

// The four routes, from loosest to strictest.
const (
	Accept Route = iota
	Ask
	Defer
	Refuse
)

var routeNames = [...]string{"accept", "ask", "defer", "refuse"}

// String is the route's wire name: accept, ask, defer or refuse.
func (r Route) String() string {
	if int(r) < len(routeNames) {
		return routeNames[r]
	}
	return fmt.Sprintf("route(%d)", uint8(r))
}

// Waits reports whether a call of this route starts an approval.
func (r Route) Waits() bool { return r == Ask || r == Defer }

// Stricter returns the stricter of two routes.
func (r Route) Stricter(other Route) Route { return max(r, other) }

// ParseRoute reads a wire name. Unknown names are an error: a caller fails closed.
func ParseRoute(name string) (Route, error) {
	for i, n := range routeNames {
		if n == name {
			return Route(i), nil
		}
	}
	return Refuse, fmt.Errorf("unknown route %q", name)
}

// MarshalText writes the wire name; a Route outside the four is an error.
func (r Route) MarshalText() ([]byte, error) {
	if int(r) >= len(routeNames) {
		return nil, fmt.Errorf("unknown route %d", uint8(r))
	}
	return []byte(routeNames[r]), nil
}

// UnmarshalText reads a wire name as ParseRoute does.
func (r *Route) UnmarshalText(text []byte) error {
	parsed, err := ParseRoute(string(text))
	*r = parsed
	return err
}

// Outcome is the audit name of a decision or of the end of a wait
// (Agent-SPM v0.3's eleven outcomes).
type Outcome string

// The eleven outcomes.
const (
	Allow           Outcome = "ALLOW"
	Deny            Outcome = "DENY"
	RequireApproval Outcome = "REQUIRE_APPROVAL"
	RequireStepUp   Outcome = "STEP_UP"
	RequireTicket   Outcome = "REQUIRE_TICKET"
	RequireHuman    Outcome = "REQUIRE_HUMAN"
	Approved        Outcome = "APPROVED"
	Rejected        Outcome = "REJECTED"
	KillSwitch      Outcome = "KILL_SWITCH"
	RateLimited     Outcome = "RATE_LIMITED"
	Timeout         Outcome = "TIMEOUT"
)

// Outcomes returns all eleven, in the order above.
func Outcomes() []Outcome {
	return []Outcome{Allow, Deny, RequireApproval, RequireStepUp, RequireTicket, RequireHuman, Approved, Rejected, KillSwitch, RateLimited, Timeout}
}

// Route is the route that an outcome stands for. Outcomes that end a wait or a
// call without running it are Refuse, and so is any name that is not known.
func (o Outcome) Route() Route {
	switch o {
	case Allow, Approved:
		return Accept
	case RequireStepUp, RequireTicket:
		return Ask
	case RequireApproval, RequireHuman:
		return Defer
	case Deny, Rejected, KillSwitch, RateLimited, Timeout:
		return Refuse
	}
	return Refuse
}
