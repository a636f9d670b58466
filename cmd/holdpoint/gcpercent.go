package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How much garbage may lie about before it is collected: four times what is alive while
// that is little, because a gate's live heap is small and its garbage plenty (collecting a
// quarter as often is worth a fifth of its throughput), and no more than garbageRoom of it
// when much is alive, as in "dev" with thousands of calls that wait; then as much as is alive.
const (
	garbageRoom    = 256 << 20
	mostGarbage    = 400 // percent of what is alive
	leastGarbage   = 100
	garbageLookAt  = 2 * time.Second
	liveHeapMetric = "/gc/heap/live:bytes"
)

// tuneGarbage keeps the collector so until ctx ends. GOGC, when it is set, is left as it is.
func tuneGarbage(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(mostGarbage)
		go followHeap(ctx)
	}
}

func followHeap(ctx context.Context) {
	set := mostGarbage
	live := []metrics.Sample{{Name: liveHeapMetric}}
	tick := time.NewTicker(garbageLookAt)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(live)
		if live[0].Value.Kind() != metrics.KindUint64 {
			return // a Go that has no such figure: mostGarbage it is
		}
		// Setting it stops the program for a moment: not for a little.
		if want := garbagePercent(live[0].Value.Uint64()); want < set-set/10 || want > set+set/10 {
			set = want
			debug.SetGCPercent(set)
		}
	}
}

// garbagePercent is how much garbage may lie about, in percent of what is alive.
func garbagePercent(live uint64) int {
	return int(min(max(garbageRoom*100/max(live, 1), leastGarbage), mostGarbage)) // #nosec G115 -- at most mostGarbage
}
