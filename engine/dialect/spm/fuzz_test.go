package spm_test

import (
	"testing"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/spm"
)

// A document of any shape is judged or refused, never a panic.
func FuzzEval(f *testing.F) {
	f.Add([]byte(`{"policy_bundle":{"version":"1.0.0","generated_at":"2026-01-01","rules":[{"id":"a","match":{"tool_name":"pay","environment":"prod"},"when":{"tool_args_match":{"x":{"eq":1}}},"outcome":"DENY","reason":{"code":"C","message":"m"}}]},"request":{"agent":{"environment":"prod"},"action":{"tool_name":"pay","tool_args":{"x":"\u0000"}}}}`))
	f.Add([]byte(`{"policy_bundle":5,"request":{"agent":[],"action":"x","context":{"data_labels":[1,"a"]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		result, err := spm.Eval(data, now)
		if err == nil && (result.Decision == nil) == (result.LoadError == "") {
			t.Fatalf("got %+v, want a decision or an error", result)
		}
		if v, err := canon.Parse(data); err == nil {
			spm.ParseActionRequest(v)
			spm.ParseParams(v)
		}
	})
}
