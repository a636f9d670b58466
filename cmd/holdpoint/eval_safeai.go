package main

import (
	"errors"
	"os"
	"sync"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/redact"
)

// safeAIDetector is compiled when it is first needed: it takes some 20 ms.
var safeAIDetector = sync.OnceValue(redact.New)

// evalError is the answer to an input that has not the structure of its dialect.
type evalError struct {
	Error string `json:"error"`
}

// evalSafeAI answers one call of a SafeAI method, under the contracts that come
// with it or, where none do, under the file's.
func evalSafeAI(file string) (func([]byte) any, error) {
	var contracts *safeai.Set
	if file != "" {
		data, err := os.ReadFile(file) // #nosec G304 -- the user names the file
		if err != nil {
			return nil, err
		}
		var problems []safeai.Problem
		if contracts, problems = safeai.Load(data, file); len(problems) > 0 {
			var errs []error
			for _, p := range problems {
				errs = append(errs, errors.New(p.String()))
			}
			return nil, errors.Join(errs...)
		}
	}
	return func(input []byte) any {
		v, err := canon.ParseExact(input)
		if err != nil {
			return evalError{err.Error()}
		}
		result, err := safeai.Eval(v, contracts, safeAIDetector())
		if err != nil {
			return evalError{err.Error()}
		}
		return result
	}, nil
}
