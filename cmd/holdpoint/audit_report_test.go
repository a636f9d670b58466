package main

import (
	"testing"
	"time"
)

func TestPeriod(t *testing.T) {
	for text, want := range map[string][2]string{
		"2026": {"2026-01-01", "2027-01-01"}, "2026-Q1": {"2026-01-01", "2026-04-01"}, "2026q4": {"2026-10-01", "2027-01-01"},
		"2028-02": {"2028-02-01", "2028-03-01"}, "2026-12-31": {"2026-12-31", "2027-01-01"},
	} {
		since, until, err := period(text)
		if err != nil || since.Format(time.DateOnly) != want[0] || until.Format(time.DateOnly) != want[1] {
			t.Errorf("%s: %s to %s, %v", text, since, until, err)
		}
	}
	for _, text := range []string{"", "2026-Q5", "2026-13", "26", "2026-02-30", "Q1", "2026-1"} {
		if since, until, err := period(text); err == nil {
			t.Errorf("%s: %s to %s", text, since, until)
		}
	}
}
