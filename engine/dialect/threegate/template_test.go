package threegate_test

import (
	"os"
	"testing"
	"time"

	"holdpoint/engine/dialect/threegate"
)

// The draft that people begin with breaks no rule and has no warning.
func TestTemplateIsValid(t *testing.T) {
	document, err := os.ReadFile("../../../examples/toolrequests/draft.md")
	if err != nil {
		t.Fatal(err)
	}
	report := threegate.JudgeDraft(document, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
	if !report.Valid || len(report.Violations) > 0 || len(report.Warnings) > 0 {
		t.Errorf("got %+v", report)
	}
}
