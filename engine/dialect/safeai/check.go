package safeai

import (
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/redact"
)

// Violation is the code of every finding of Check that refuses, and approvalNeeded that
// of the one that asks for a person.
const (
	Violation      = "tool_contract_violation"
	approvalNeeded = "tool_contract_requires_approval"
)

// maxFindings bounds what one opinion tells: one violation refuses already.
const maxFindings = 50

// Check judges a call for the gate, whichever dialect proposed it: args is
// its arguments, dataTags what it declares about them. Each violation is a
// finding that refuses: a tool without a contract, a declared tag that the
// contract does not cover, an argument that is none of the contract's fields, a
// secret in the arguments, any other detected tag that it does not cover. All of
// them are reported. A call without violations gives no findings, unless the
// contract says that each call needs an approval: then a review.
//
// Where InterceptRequest would mask, Check refuses. The gate binds an approval
// to the digest of the arguments, and what was approved is what must run; a call
// whose arguments were changed on the way would be another one, which nobody
// proposed, and letting the original run would hand over what the contract
// keeps back. The agent learns the tag and the place, and may propose the call
// again without that. Nothing discharges a refusal, so no reviewer can be
// talked into it either.
//
// The names of members are searched as well as the strings: a contract that
// could be got around by swapping name and value would be none.
func (s *Set) Check(call engine.Call, args canon.Value, dataTags []string, d *redact.Detector) engine.CheckResult {
	var o engine.CheckResult
	found := map[string]bool{}
	refuse := func(message string) {
		if !found[message] && len(found) < maxFindings {
			found[message] = true
			o.Findings = append(o.Findings, engine.Finding{Source: "tool_contract", Code: Violation, Message: message, Route: engine.Refuse})
		}
	}
	c := s.find(call.Tool)
	if c == nil {
		refuse("The tool has no contract, so it may be given nothing.")
		c = &contract{}
	} else {
		for _, raw := range dataTags {
			if tag := normal(raw); tag != "" && !c.accepts(tag) {
				refuse("The call declares data that the tool's contract does not allow: " + shown(tag) + ".")
			}
		}
		if _, found := c.foreign(args); found {
			// A name of the caller's might be anything: it is not repeated.
			refuse("The call has an argument that is none of the fields of the tool's contract.")
		}
		if c.approval {
			o.Findings = append(o.Findings, engine.Finding{Source: "tool_contract", Code: approvalNeeded, Message: "The tool's contract says that its calls need an approval.", Route: engine.Defer})
			o.Requirements = []engine.Requirement{{Kind: engine.Review, Needed: 1}}
		}
	}
	declared := s.Declared(call.Tool)
	look := func(text string) {
		for _, span := range d.Find(text) {
			switch {
			case redact.Secret(span.Tag):
				refuse("The arguments seem to hold a secret: " + span.Tag + ".")
			case declared && !c.accepts(span.Tag):
				refuse("The arguments seem to hold data that the tool's contract does not allow: " + span.Tag + ".")
			}
		}
	}
	eachText(args, look)
	return o
}

// Tags lists the tags of everything that is found in a value, sorted: in its
// strings, its numbers and the names of its members.
func Tags(v canon.Value, d *redact.Detector) []string {
	var found []string
	eachText(v, func(text string) {
		for _, span := range d.Find(text) {
			found = append(found, span.Tag)
		}
	})
	slices.Sort(found)
	return slices.Compact(found)
}

// eachText calls f with every string, every number as it is written, and every
// member's name in v: a card's number is one without quotes, too.
func eachText(v canon.Value, f func(string)) {
	switch v.Kind() {
	case canon.StringKind:
		f(v.Str())
	case canon.NumberKind:
		f(string(v.Canonical()))
	case canon.NullKind, canon.BoolKind, canon.ArrayKind, canon.ObjectKind:
	}
	for _, e := range v.Elements() {
		eachText(e, f)
	}
	for name, e := range v.All() {
		f(name)
		eachText(e, f)
	}
}

// shown is a tag from outside as a message may show it. A tag is a word of the
// caller's, and might be anything: what looks unlike a tag is not repeated.
func shown(tag string) string {
	digits := 0
	for _, r := range tag {
		if r < '0' && r != '.' && r != '-' || r > '9' && r < 'a' && r != '_' || r > 'z' && r < 0xC0 {
			return "(a tag with unusual characters)"
		}
		if '0' <= r && r <= '9' {
			digits++
		}
	}
	if len(tag) > maxName || digits > 4 {
		return "(a tag that is no name)"
	}
	return tag
}
