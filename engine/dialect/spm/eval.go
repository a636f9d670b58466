package spm

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
)

// Result is what "holdpoint eval --dialect spm" says of a bundle and a request.
type Result struct {
	*policy.Decision
	// LoadError is what kept the bundle from being loaded; there is no decision
	// then.
	LoadError string `json:"load_error,omitempty"`
}

// maxLoadErrors bounds what a LoadError names.
const maxLoadErrors = 10

// Eval loads the bundle of the document {"policy_bundle": …, "request": …} and
// judges the request by it, both at now, for "holdpoint eval --dialect spm". A
// request of any shape is judged (RequestOf). Eval reads what canon.ParseExact reads, and besides U+0000 in strings, which the
// doors refuse but other implementations are asked about: only the text of
// arguments and the user's input may hold it. Errors are *canon.SyntaxError.
func Eval(input []byte, now time.Time) (Result, error) {
	nul := ""
	v, err := canon.ParseExact(input)
	var syntax *canon.SyntaxError
	if refused := err; errors.As(err, &syntax) && syntax.Code == canon.NULCharacter && !bytes.Contains(input, []byte(standIn)) {
		nul = standIn
		if v, err = canon.ParseExact(replaceNUL(input)); err == nil && bytes.Contains(member(v, "policy_bundle").Canonical(), []byte(nul)) {
			err = refused
		}
	}
	if err != nil {
		return Result{}, err
	}
	bundle, request := member(v, "policy_bundle"), RequestOf(member(v, "request"))
	request.NUL = nul
	return evaluate(bundle, request, now), nil
}

// standIn is a noncharacter, which no text should hold. A document that does is
// not read another time.
const standIn = "\uFDD0"

// replaceNUL writes the stand-in for every escape \u0000.
func replaceNUL(input []byte) []byte {
	const escape = `\u0000`
	var out []byte
	for i := 0; i < len(input); {
		switch {
		case bytes.HasPrefix(input[i:], []byte(escape)):
			out = append(out, standIn...)
			i += len(escape)
		case input[i] == '\\' && i+1 < len(input):
			out = append(out, input[i], input[i+1])
			i += 2
		default:
			out = append(out, input[i])
			i++
		}
	}
	return out
}

func evaluate(bundle canon.Value, request *policy.Request, now time.Time) Result {
	b, problems := policy.Compile(bundle, policy.Options{Now: now})
	if b == nil {
		var list []string
		for _, p := range problems {
			if p.Warning {
				continue
			}
			if len(list) == maxLoadErrors {
				list = append(list, "and more")
				break
			}
			list = append(list, p.String())
		}
		return Result{LoadError: strings.Join(list, "; ")}
	}
	d := b.Decide(request, now)
	return Result{Decision: &d}
}

// RequestOf takes what rules look at from an AgentActionRequest, whatever its
// shape: a field that is missing or of the wrong type is as if it were not
// there, and of an array only the strings count. It is for comparing decisions
// with other implementations (holdpoint eval, conformance cases), which
// are asked about sparse requests too. A door uses Parse instead:
// what is dropped here could be the very thing that a DENY rule looks for.
func RequestOf(v canon.Value) *policy.Request {
	agent, action, context := member(v, "agent"), member(v, "action"), member(v, "context")
	return &policy.Request{
		Tool:        member(action, "tool_name").Str(),
		Args:        member(action, "tool_args"),
		Environment: member(agent, "environment").Str(),
		AgentType:   optional(member(agent, "agent_type")),
		TrustLevel:  optional(member(agent, "trust_level")),
		Provider:    optional(member(member(action, "tool_identity"), "provider")),
		Roles:       stringsOf(member(agent, "roles")),
		UserInput:   member(context, "user_input").Str(),
		DataLabels:  stringsOf(member(context, "data_labels")),
	}
}

// member is an object's member, and null where there is none.
func member(v canon.Value, name string) canon.Value {
	m, _ := v.Get(name)
	return m
}

func optional(v canon.Value) *string {
	if v.Kind() != canon.StringKind {
		return nil
	}
	s := v.Str()
	return &s
}

func stringsOf(v canon.Value) []string {
	var list []string
	for _, e := range v.Elements() {
		if e.Kind() == canon.StringKind {
			list = append(list, e.Str())
		}
	}
	return list
}
