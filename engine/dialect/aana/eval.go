package aana

import (
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
)

// Verdict is the answer of Eval: the whole answer of the contract, and at its top
// what the conformance cases compare.
type Verdict struct {
	Route    engine.Route `json:"route"`
	Executes bool         `json:"executes"`
	Envelope
}

// Eval judges an event with the authorization that it declares, for "holdpoint
// eval --dialect aana". What the strict reader refuses has not the contract's
// structure either.
func Eval(input []byte, now time.Time) Verdict {
	var result Result
	v, err := canon.ParseExact(input)
	if err != nil {
		result = Invalid(v, []ValidationError{{Message: err.Error()}})
	} else if event, invalid := Parse(v); len(invalid) > 0 {
		result = Invalid(v, invalid)
	} else {
		result = event.Judge(now)
	}
	decision := engine.Evaluate(engine.Call{Dialect: "aana"}, "", func(engine.Call) engine.CheckResult { return result.CheckResult() })
	return Verdict{Route: result.Route, Executes: result.Executes, Envelope: result.Envelope(decision)}
}
