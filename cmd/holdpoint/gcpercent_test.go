package main

import "testing"

func TestGarbagePercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 10 << 20: 400, 64 << 20: 400, 128 << 20: 200, 256 << 20: 100, 4 << 30: 100} {
		if got := garbagePercent(live); got != want {
			t.Errorf("with %d MiB alive %d %%, want %d %%", live>>20, got, want)
		}
	}
}
