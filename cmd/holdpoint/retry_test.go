package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever waits says so at once and then every minute, tries at least every two
// seconds, and ends at once when told to or when waiting does not help.
func TestWaiting(t *testing.T) {
	away, wrong := errors.New("away"), errors.New("wrong")
	later := func(err error) bool { return errors.Is(err, away) }
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var said []time.Duration
		say := func(waited time.Duration, err error) {
			if !errors.Is(err, away) {
				t.Errorf("said: %v", err)
			}
			said = append(said, waited)
		}
		attempts := 0
		err := waitFor(t.Context(), func() error {
			attempts++
			if time.Since(began) < 150*time.Second {
				return away
			}
			return nil
		}, later, say)
		if took := time.Since(began); err != nil || took > 152*time.Second || attempts > 90 {
			t.Errorf("it took %s and %d attempts: %v", took, attempts, err)
		}
		if len(said) != 3 || said[0] != 0 || !slices.IsSorted(said) || said[2] > 125*time.Second {
			t.Errorf("said after %v", said)
		}

		if err := waitFor(t.Context(), func() error { return wrong }, later, say); !errors.Is(err, wrong) {
			t.Errorf("what waiting does not mend: %v", err)
		}

		ctx, stop := context.WithCancel(t.Context())
		began = time.Now()
		time.AfterFunc(30*time.Second, stop)
		if err := waitFor(ctx, func() error { return away }, later, func(time.Duration, error) {}); !errors.Is(err, context.Canceled) || time.Since(began) != 30*time.Second {
			t.Errorf("told to stop: %v after %s", err, time.Since(began))
		}
	})
}
