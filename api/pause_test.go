package api

import (
	"testing"
	"time"
)

// Some refusals of a second are told at once, the others later; a new second and a
// credential that has nothing in flight begin anew.
func TestPause(t *testing.T) {
	f := newInFlight(Limits{Calls: 1})
	leave, err := f.enter("flood", 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	refuse := func(after time.Duration) time.Duration {
		t.Helper()
		if _, err := f.enter("flood", 1, 10); err == nil {
			t.Fatal("it is not refused")
		}
		return f.retryAfter("flood", now.Add(after))
	}
	for i := range promptRefusals {
		if got := refuse(time.Duration(i) * time.Millisecond); got != 0 {
			t.Fatalf("refusal %d comes %s later", i, got)
		}
	}
	if got := refuse(refusedFor - 1); got != refusedFor {
		t.Errorf("one more comes %s later", got)
	}
	if got := f.retryAfter("quiet", now); got != 0 {
		t.Errorf("another credential waits %s", got)
	}
	if got := refuse(refusedFor); got != 0 {
		t.Errorf("the first of the next second comes %s later", got)
	}
	leave()
	if len(f.by) != 0 {
		t.Errorf("it remembers %v", f.by)
	}
}

// A long body is followed by a rest if calls of others are judged, and only then.
func TestPauseAfterALongBody(t *testing.T) {
	f := newInFlight(Limits{})
	now := time.Unix(1_700_000_000, 0)
	rest := func(after time.Duration) time.Duration { return f.rest("flood", 20*time.Millisecond, now.Add(after)) }
	f.judges("flood", now)
	if got := rest(0); got != 0 {
		t.Errorf("alone, the next one waits %s", got)
	}
	f.judges("quiet", now)
	f.judges("flood", now)
	f.judges("flood", now)
	if got := rest(othersFor - 1); got != pauseFactor*20*time.Millisecond {
		t.Errorf("beside another's calls, the next one waits %s", got)
	}
	if got := rest(othersFor); got != 0 {
		t.Errorf("after another's calls, the next one waits %s", got)
	}
}
