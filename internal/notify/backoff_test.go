package notify

import (
	"strconv"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	total := time.Duration(0)
	for i, want := range []time.Duration{
		0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
		20 * time.Hour, 24 * time.Hour,
	} {
		least, most := 25*time.Hour, time.Duration(0)
		for j := range 2000 {
			id := "ntf_" + strconv.Itoa(j)
			got, ok := Backoff(id, i+1)
			if again, _ := Backoff(id, i+1); !ok || again != got || got < want || got > want+want/10 {
				t.Fatalf("attempt %d of %s: %v, %t, then %v; want %v and up to a tenth", i+1, id, got, ok, again, want)
			}
			least, most = min(least, got), max(most, got)
		}
		if spread := most - least; spread < want/11 {
			t.Errorf("attempt %d: everybody comes within %v", i+1, spread)
		}
		total += want
	}
	if total < 72*time.Hour {
		t.Errorf("all is over after %v", total)
	}
	for _, attempt := range []int{-1, 0, 11, 1 << 40} {
		if got, ok := Backoff("ntf_1", attempt); ok || got != 0 {
			t.Errorf("attempt %d: %v, %t", attempt, got, ok)
		}
	}
}
