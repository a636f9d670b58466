package policy

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"holdpoint/engine/canon"
)

// Result is what "holdpoint eval --dialect spm" says of a bundle and a request.
type Result struct {
	*Decision
	// LoadError is what kept the bundle from being loaded; there is no decision
	// then.
	LoadError string `json:"load_error,omitempty"`
}

// maxLoadErrors bounds what a LoadError names.
const maxLoadErrors = 10

// Evaluate loads the bundle and judges the request, both at now, as the
// conformance cases want it. A request of any shape is judged (RequestOf).
func Evaluate(bundle, request canon.Value, now time.Time) Result {
	return evaluate(bundle, RequestOf(request), now)
}

// EvaluateJSON is Evaluate for the document {"policy_bundle": …, "request": …}.
// It reads what canon.Parse reads, and besides U+0000 in strings, which the
// doors refuse but other implementations are asked about: only the text of
// arguments and the user's input may hold it. Errors are *canon.SyntaxError.
func EvaluateJSON(input []byte, now time.Time) (Result, error) {
	nul := ""
	v, err := canon.Parse(input)
	var syntax *canon.SyntaxError
	if refused := err; errors.As(err, &syntax) && syntax.Code == canon.NULCharacter && !bytes.Contains(input, []byte(standIn)) {
		nul = standIn
		if v, err = canon.Parse(replaceNUL(input)); err == nil && bytes.Contains(member(v, "policy_bundle").Canonical(), []byte(nul)) {
			err = refused
		}
	}
	if err != nil {
		return Result{}, err
	}
	bundle, request := member(v, "policy_bundle"), RequestOf(member(v, "request"))
	request.nul = nul
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

func evaluate(bundle canon.Value, request *Request, now time.Time) Result {
	b, problems := Compile(bundle, Options{Now: now})
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
