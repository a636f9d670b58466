package main

import "testing"

func TestGarbagePercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 10 << 20: 400, 64 << 20: 400, 128 << 20: 200, 256 << 20: 100, 4 << 30: 100} {
		if got := garbagePercent(live, 1<<40); got != want {
			t.Errorf("with %d MiB alive, under load: %d %%, want %d %%", live>>20, got, want)
		}
	}
	for soon, want := range map[uint64]int{0: 50, 32 << 20: 50, 64 << 20: 100, 150 << 20: 234, 1 << 30: 400} {
		if got := garbagePercent(64<<20, soon); got != want {
			t.Errorf("with 64 MiB alive and %d MiB soon: %d %%, want %d %%", soon>>20, got, want)
		}
	}
}
