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
//
// That is so under load. What makes little garbage needs no room for it: no more than comes
// within garbageWithin, and quietRoom. The rest goes back to the system.
const (
	garbageRoom   = 256 << 20
	quietRoom     = 32 << 20
	mostGarbage   = 400 // percent of what is alive
	garbageWithin = 10 * time.Second
	garbageLookAt = time.Second / 2
	// quietLooks is for how many looks there has to be less of it before there is less room.
	quietLooks = 12
	// returnEvery is how often memory is given back at once at most: all that is alive is read for it.
	returnEvery = time.Minute

	liveHeapMetric  = "/gc/heap/live:bytes"
	allocatedMetric = "/gc/heap/allocs:bytes"
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
	heap := []metrics.Sample{{Name: liveHeapMetric}, {Name: allocatedMetric}}
	metrics.Read(heap)
	if heap[0].Value.Kind() != metrics.KindUint64 || heap[1].Value.Kind() != metrics.KindUint64 {
		return // a Go that has no such figures: mostGarbage it is
	}
	tick := time.NewTicker(garbageLookAt)
	defer tick.Stop()
	var returned time.Time
	for quiet, former := 0, heap[1].Value.Uint64(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(heap)
		live, allocated := heap[0].Value.Uint64(), heap[1].Value.Uint64()
		want := garbagePercent(live, (allocated-former)*uint64(garbageWithin/garbageLookAt))
		former = allocated
		if quiet++; want >= set-set/10 {
			quiet = 0
		}
		// Setting it stops the program for a moment: not for a little.
		less := quiet >= quietLooks
		if want > set+set/10 || less {
			set, quiet = want, 0
			debug.SetGCPercent(set)
		}
		// By itself it goes back within minutes.
		if less && time.Since(returned) > returnEvery {
			debug.FreeOSMemory()
			returned = time.Now()
		}
	}
}

// garbagePercent is how much garbage may lie about, in percent of what is alive, where so
// many bytes of it come within garbageWithin.
func garbagePercent(live, soon uint64) int {
	live = max(live, 1)
	room := min(max(soon, quietRoom), max(garbageRoom, live))
	return int(min(max(room*100/live, 1), mostGarbage)) // #nosec G115 -- at most mostGarbage
}
