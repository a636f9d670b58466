package store

import (
	"context"
	"slices"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

func TestPastApprovals(t *testing.T) {
	s, _ := open(t)
	ctx := context.Background()
	var want []string
	for range 5 {
		want = append(want, s.mustOpen(t, time.Hour))
	}
	slices.Sort(want)
	var got []string
	for after := ""; ; {
		page, err := s.Approvals.Past(ctx, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > 2 {
			t.Fatalf("a page of 2 has %d", len(page))
		}
		for _, r := range page {
			after = r.Approval.ID
			got = append(got, after)
			if r.Approval.Status != approval.Pending || string(r.Sealed.Data) != "x" || string(r.Sealed.Key) != "y" || r.Now.IsZero() {
				t.Errorf("%+v", r)
			}
		}
		if len(page) < 2 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCountDecidedAtOnce(t *testing.T) {
	s, _ := open(t)
	ctx := context.Background()
	s.mustOpen(t, time.Hour) // waits: not counted
	for _, o := range []engine.Outcome{engine.Deny, engine.Allow, engine.Deny} {
		e := event("")
		e.Outcome = o
		if _, err := s.Submit(ctx, Submission{Event: e}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Reports.CountDecidedAtOnce(ctx, time.Time{})
	if want := []DecidedAtOnce{{"t", engine.Allow, 1}, {"t", engine.Deny, 2}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, err := s.Reports.CountDecidedAtOnce(ctx, time.Now().Add(time.Hour)); err != nil || len(got) != 0 {
		t.Errorf("from an hour on: %v, %v", got, err)
	}
}
