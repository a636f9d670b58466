package tests

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// BenchmarkCycle gives how many calls a second are proposed, approved by one person and
// redeemed, and how long a token takes after its vote; and what Temporal alone does on
// the same server in the same minutes: start, an activity, a signal, an activity, end.
//
//	go test ./tests -run '^$' -bench Cycle -benchtime 1x
func BenchmarkCycle(b *testing.B) {
	d := startDev(b, nil)
	quiet := sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	temporal, err := temporalclient.Dial(temporalclient.Options{HostPort: d.Temporal, Namespace: "holdpoint", Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer temporal.Close()
	w := worker.New(temporal, "bare", worker.Options{})
	nothing := func(context.Context) error { return nil }
	w.RegisterActivity(nothing)
	bare := func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		if err := workflow.ExecuteActivity(ctx, nothing).Get(ctx, nil); err != nil {
			return err
		}
		workflow.GetSignalChannel(ctx, "go").Receive(ctx, nil)
		return workflow.ExecuteActivity(ctx, nothing).Get(ctx, nil)
	}
	w.RegisterWorkflow(bare)
	if err := w.Start(); err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	agent, reviewer := d.agent(b), d.reviewer(b, 0)
	ours := func(caller, i int) (time.Duration, error) {
		args := map[string]any{"caller": caller, "n": i, "run": newID("")}
		a := agent.hold("cycle_call", args)
		reviewer.approve(a)
		voted := time.Now()
		got, err := agent.await(a.ID, time.Minute)
		if err != nil || got.Token == "" {
			return 0, fmt.Errorf("%s: %q, %v", a.ID, got.Status, err)
		}
		took := time.Since(voted)
		if got := agent.redeem(got.Token, "cycle_call", args); got.Status != http.StatusOK {
			return 0, fmt.Errorf("redeem: %s", got)
		}
		return took, nil
	}
	theirs := func(int, int) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		run, err := temporal.ExecuteWorkflow(ctx, temporalclient.StartWorkflowOptions{TaskQueue: "bare"}, bare)
		if err != nil {
			return 0, err
		}
		if err := temporal.SignalWorkflow(ctx, run.GetID(), "", "go", nil); err != nil {
			return 0, err
		}
		signalled := time.Now()
		err = run.Get(ctx, nil)
		return time.Since(signalled), err
	}
	const span = 6 * time.Second
	// spent is the processor time of server and database, in seconds.
	spent := func() (ticks float64) {
		for _, pid := range append(descendants(d.PID), d.PID) {
			ticks += processorTime(b, pid)
		}
		return ticks / 100
	}
	measure := func(callers int, cycle func(caller, i int) (time.Duration, error)) (perSecond, p50, cost float64) {
		var mu sync.Mutex
		var took []float64
		began, before := time.Now(), spent()
		var group sync.WaitGroup
		for caller := range callers {
			group.Go(func() {
				for i := 0; time.Since(began) < span; i++ {
					waited, err := cycle(caller, i)
					if err != nil {
						b.Error(err)
						return
					}
					mu.Lock()
					took = append(took, waited.Seconds()*1000)
					mu.Unlock()
				}
			})
		}
		group.Wait()
		slices.Sort(took)
		return float64(len(took)) / time.Since(began).Seconds(), took[len(took)/2], (spent() - before) * 1000 / float64(len(took))
	}
	for range b.N {
		measure(8, ours) // whatever is slow the first time
		measure(8, theirs)
		for _, callers := range []int{1, 8, 32} {
			var ratios, mine, waits, bares, costs, bareCosts []float64
			for range 3 {
				rate, p50, cost := measure(callers, ours)
				alone, _, bareCost := measure(callers, theirs)
				ratios, mine, waits, bares = append(ratios, rate/alone), append(mine, rate), append(waits, p50), append(bares, alone)
				costs, bareCosts = append(costs, cost), append(bareCosts, bareCost)
			}
			for _, list := range [][]float64{ratios, mine, waits, bares, costs, bareCosts} {
				slices.Sort(list)
			}
			b.ReportMetric(mine[1], fmt.Sprintf("cycles/s-%d", callers))
			b.ReportMetric(bares[1], fmt.Sprintf("bare/s-%d", callers))
			b.ReportMetric(ratios[1], fmt.Sprintf("ratio-%d", callers))
			b.ReportMetric(costs[1], fmt.Sprintf("cpu-ms-%d", callers))
			b.ReportMetric(bareCosts[1], fmt.Sprintf("bare-cpu-ms-%d", callers))
			b.ReportMetric(waits[1], fmt.Sprintf("token-p50-ms-%d", callers))
		}
	}
}
