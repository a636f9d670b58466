package worker

import (
	"testing"
	"time"
)

func TestLookIsAsSmallAsASweepAnHourAllows(t *testing.T) {
	for _, c := range []struct{ pending, want int }{
		{0, 10}, {1_000, 10}, {18_000, 10}, {18_001, 11}, {36_000, 20}, {90_000, 50}, {1_000_000, 50},
	} {
		if got := lookSize(c.pending, 2*time.Second); got != c.want {
			t.Errorf("of %d pending approvals a look asks for %d; want %d", c.pending, got, c.want)
		}
		if looks := time.Hour / (2 * time.Second); c.want < sweepMost && c.want*int(looks) < c.pending {
			t.Errorf("%d pending approvals take more than an hour", c.pending)
		}
	}
	if got := lookSize(10, 2*time.Hour); got != sweepLeast {
		t.Errorf("with a pause longer than the sweep: %d", got)
	}
}
