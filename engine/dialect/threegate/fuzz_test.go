package threegate_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/threegate"
)

// FuzzJudge: no bytes make the checker panic, contradict itself or point at a
// line that is not there; what is valid has one meaning.
func FuzzJudge(f *testing.F) {
	f.Add([]byte(document))
	f.Add([]byte(asJSON))
	f.Add([]byte(draft(f)))
	for _, b := range breaches {
		f.Add([]byte(change(f, b.old, b.replacements[0])))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		got := threegate.Judge(document, now)
		wellFormed(t, document, got)
		draft := threegate.JudgeDraft(document, now)
		wellFormed(t, document, draft)
		if got.Valid {
			holds(t, document, got)
		}
		if draft.Valid && got.Valid {
			t.Fatal("both a draft and promoted")
		}
		if promoted, err := threegate.Promote(document, "mara", now); err == nil {
			if !draft.Valid {
				t.Fatal("promoted what is no valid draft")
			}
			if back, err := threegate.Demote(promoted); err != nil || string(back) != string(document) {
				t.Fatalf("demoted with %v: %q", err, back)
			}
		} else if draft.Valid {
			t.Fatalf("a valid draft cannot be promoted: %v", err)
		}
	})
}

func wellFormed(t *testing.T, document []byte, r threegate.Report) {
	t.Helper()
	if r.Valid != (len(r.Violations) == 0) || r.Request == nil || r.Violations == nil || r.Warnings == nil {
		t.Fatalf("contradicts itself: %+v", r)
	}
	last := strings.Count(string(document), "\n") + 1
	for i, v := range r.Violations {
		if v.Line < 0 || v.Line > last || v.Rule == "" || v.Message == "" || !utf8.ValidString(v.Message) || strings.ContainsAny(v.Message, "\n\x1b\u202e") {
			t.Fatalf("violation %+v of a document of %d lines", v, last)
		}
		if i > 0 && v.Line < r.Violations[i-1].Line || slices.Contains(r.Violations[:i], v) {
			t.Fatalf("violation %+v is twice or out of order", v)
		}
	}
}

// holds asserts of a valid document what a runner relies on.
func holds(t *testing.T, document []byte, report threegate.Report) {
	t.Helper()
	r := report.Request
	for _, c := range string(document) {
		if c < ' ' && c != '\n' || c == 0x7f || c == '\u202e' {
			t.Fatalf("holds %U", c)
		}
	}
	if strings.ContainsAny(r.Command.Line, ";&|<>`$(){}\\!#~*?[]^\n") || len(r.Command.Argv) < 2 || r.Command.Argv[0] != r.Command.Program {
		t.Fatalf("command %q", r.Command.Line)
	}
	for _, word := range r.Command.Argv {
		if strings.Contains(word, "/../") || strings.HasPrefix(word, "/") && !strings.HasPrefix(word, "/in/") && !strings.HasPrefix(word, "/out/") {
			t.Fatalf("command %q", r.Command.Line)
		}
	}
	if r.RequestID == "" || r.ApprovedBy == "" || r.ApprovedUTC.After(now) || r.ApprovedUTC.Before(r.CreatedUTC) || r.Language == "" || r.Purpose == "" ||
		r.Network == "" || r.CPULimit == "" || r.MemoryLimitMB < 1 || r.TimeLimitSec < 1 || len(r.OutputsExpected) == 0 || len(r.Constraints) == 0 ||
		r.Risk.Level == "" || r.Risk.Justification == "" || r.Risk.DataSensitivity == "" || (r.Network == "allowlist") != (len(r.NetworkAllowlist) > 0) {
		t.Fatalf("a field is not there: %+v", r)
	}
	if threegate.Arguments(document).Kind() != canon.ObjectKind {
		t.Fatal("no arguments")
	}
}
