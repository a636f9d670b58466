package safeai

import (
	"errors"
	"fmt"

	"holdpoint/engine/canon"
	"holdpoint/engine/redact"
)

// errInput says that an input of Eval is not {tool_contracts, call}.
var errInput = errors.New("want an object with tool_contracts and call")

// Eval answers one input of "holdpoint eval --dialect safeai":
//
//	{tool_contracts, call: {method, tool_name, data_tags, payload | response}}
//
// usual, which may be nil, holds the contracts of an input that brings none.
// The result is a Validation, an Interception or a Filtered, by the method. The
// error is errInput, possibly wrapped, or holds the first Problem of the contracts.
func Eval(input canon.Value, usual *Set, d *redact.Detector) (any, error) {
	raw, ok := input.Get("tool_contracts")
	call, hasCall := input.Get("call")
	if !ok && usual == nil || !hasCall || call.Kind() != canon.ObjectKind {
		return nil, errInput
	}
	set := usual
	if ok {
		var problems []Problem
		if set, problems = Parse(raw); len(problems) > 0 {
			return nil, errors.New(problems[0].String())
		}
	}
	tool, err := text(call, "tool_name")
	if err != nil {
		return nil, err
	}
	tags, err := texts(call, "data_tags")
	if err != nil {
		return nil, err
	}
	payload, _ := call.Get("payload")
	response, _ := call.Get("response")
	switch method, _ := text(call, "method"); method {
	case "validate_tool_request":
		return set.ValidateRequest(tool, tags), nil
	case "intercept_tool_request":
		return set.InterceptRequest(tool, payload, tags, d), nil
	case "intercept_tool_response":
		return set.InterceptResponse(tool, response, d), nil
	}
	return nil, fmt.Errorf("%w: call.method is none of the three", errInput)
}

func text(v canon.Value, name string) (string, error) {
	m, _ := v.Get(name)
	if m.Kind() != canon.StringKind {
		return "", fmt.Errorf("%w: call.%s has to be text", errInput, name)
	}
	return m.Str(), nil
}

// texts reads a list of strings; it may be left out or null.
func texts(v canon.Value, name string) ([]string, error) {
	m, _ := v.Get(name)
	if m.Kind() != canon.ArrayKind && !m.IsNull() {
		return nil, fmt.Errorf("%w: call.%s has to be a list", errInput, name)
	}
	var out []string
	for _, e := range m.Elements() {
		if e.Kind() != canon.StringKind {
			return nil, fmt.Errorf("%w: call.%s has to be a list of text", errInput, name)
		}
		out = append(out, e.Str())
	}
	return out, nil
}
