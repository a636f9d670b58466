package main

import (
	"errors"
	"os"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/spm"
	"holdpoint/engine/policy"
)

// evalSPM judges one request by the bundle that comes with it or, where none
// does, by the file's.
func evalSPM(file string) (func([]byte) any, error) {
	var bundle *policy.Bundle
	if file != "" {
		data, err := os.ReadFile(file) // #nosec G304 -- the user names the file
		if err != nil {
			return nil, err
		}
		var problems []policy.Problem
		if bundle, problems = policy.Load(data, policy.Options{File: file, Now: time.Now()}); policy.HasErrors(problems) {
			var errs []error
			for _, p := range problems {
				errs = append(errs, errors.New(p.String()))
			}
			return nil, errors.Join(errs...)
		}
	}
	return func(input []byte) any {
		if bundle != nil {
			if v, err := canon.ParseExact(input); err == nil {
				if _, own := v.Get("policy_bundle"); !own {
					if request, ok := v.Get("request"); ok {
						v = request
					}
					return bundle.Decide(spm.RequestOf(v), time.Now())
				}
			}
		}
		result, err := spm.Eval(input, time.Now())
		if err != nil {
			return spm.Result{LoadError: err.Error()}
		}
		return result
	}, nil
}
