package store

import (
	"testing"
	"time"
)

// A reading corrects what is known as far as it shows it to be wrong, and no further:
// one that took long tells little.
func TestReadingsCorrectTheClock(t *testing.T) {
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var c clock
	for _, reading := range []struct {
		name            string
		now             time.Duration // after base
		asked, answered time.Duration // after the process began
		want            time.Duration // the database's time, after base, when the process began
	}{
		{"the first", 5 * time.Second, 4 * time.Second, 5 * time.Second, 0},
		{"a slow one that agrees", 60 * time.Second, 55 * time.Second, 65 * time.Second, 0},
		{"a quick one that says more", 70200 * time.Millisecond, 70 * time.Second, 70100 * time.Millisecond, 100 * time.Millisecond},
		{"a quick one that agrees", 80150 * time.Millisecond, 80 * time.Second, 80100 * time.Millisecond, 100 * time.Millisecond},
		{"the database's clock was set back", 30 * time.Second, 90 * time.Second, 91 * time.Second, -60 * time.Second},
		{"the machine slept for an hour", time.Hour, 100 * time.Second, 101 * time.Second, time.Hour - 101*time.Second},
	} {
		c.correct(base.Add(reading.now), reading.asked, reading.answered)
		if got := time.Unix(0, c.ahead.Load()).Sub(base); got != reading.want {
			t.Errorf("%s: %s, want %s", reading.name, got, reading.want)
		}
	}
}
