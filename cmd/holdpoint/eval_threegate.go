package main

import (
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/threegate"
)

// evalThreeGate judges one input {document, now}: a promoted tool execution
// request, at a time. What is no such input is an invalid document. Without a
// time it is judged now.
func evalThreeGate(input []byte) any {
	v, err := canon.Parse(input)
	document, _ := v.Get("document")
	if err != nil || document.Kind() != canon.StringKind {
		return noRequest("the input must be an object with document, a text, and now, a time")
	}
	now := time.Now()
	if at, given := v.Get("now"); given {
		if now, err = time.Parse(time.RFC3339, at.Str()); err != nil {
			return noRequest("now must be a time such as 2026-03-01T00:00:00Z")
		}
	}
	return threegate.Eval(document.Str(), now)
}

func noRequest(message string) threegate.Verdict {
	return threegate.Verdict{Violations: []threegate.Violation{{Rule: "D1", Message: message}}}
}
