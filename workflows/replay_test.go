package workflows_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"holdpoint/internal/devserver"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/workflows"
)

var record = flag.Bool("record", false, "record the histories in testdata anew, from a real Temporal server")

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestReplay runs today's workflow over histories that former versions have
// left: one that would decide differently would get stuck in production. A
// changed workflow keeps these files and adds new ones, never replaces them.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d histories in testdata (%v); go test ./workflows -run TestRecord -record makes them", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			replayer := worker.NewWorkflowReplayer()
			replayer.RegisterWorkflowWithOptions(workflows.Approval, workflow.RegisterOptions{Name: workflows.ApprovalWorkflow})
			replayer.RegisterWorkflowWithOptions(workflows.Notification, workflow.RegisterOptions{Name: workflows.NotificationWorkflow})
			if err := replayer.ReplayWorkflowHistoryFromJSONFile(silent, file); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReplayNotices makes sure that the replay can fail at all: a workflow that
// does something else must not pass.
func TestReplayNotices(t *testing.T) {
	replayer := worker.NewWorkflowReplayer()
	other := func(ctx workflow.Context, _ workflows.ApprovalInput) error { return workflow.Sleep(ctx, time.Second) }
	replayer.RegisterWorkflowWithOptions(other, workflow.RegisterOptions{Name: workflows.ApprovalWorkflow})
	if err := replayer.ReplayWorkflowHistoryFromJSONFile(silent, "testdata/v1-signal.json"); err == nil {
		t.Error("a different workflow replayed without a complaint")
	}
}

// TestRecord records histories with -record; without it there is nothing to do.
func TestRecord(t *testing.T) {
	if !*record {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	pgtest.Database(t)
	server, err := devserver.Start(ctx, devserver.Config{PostgresURL: pgtest.Server(t).SuperuserURL("postgres"), Database: "record", VisibilityDatabase: "record_visibility", Namespace: "holdpoint"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	c, err := client.DialContext(ctx, client.Options{HostPort: server.Address(), Namespace: "holdpoint", Logger: silent, Identity: "recorder"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	waiting, over := workflows.SettleResult{WakeIn: time.Hour}, workflows.SettleResult{Over: true}
	for name, tc := range map[string]struct {
		settler settler
		signals int
	}{
		"v1-over":    {settler{answers: []workflows.SettleResult{over}}, 0},
		"v1-signal":  {settler{answers: []workflows.SettleResult{waiting, over}}, 1},
		"v1-signals": {settler{answers: []workflows.SettleResult{waiting, waiting, waiting, over}}, 3},
		"v1-timeout": {settler{answers: []workflows.SettleResult{{WakeIn: 50 * time.Millisecond}, {WakeIn: 0}, over}}, 0},
		"v1-outage":  {settler{answers: []workflows.SettleResult{waiting, over}, fail: 2}, 1},
		"v1-flood":   {settler{answers: []workflows.SettleResult{waiting}}, 64},
	} {
		w := worker.New(c, name, worker.Options{Identity: "recorder"})
		w.RegisterWorkflowWithOptions(workflows.Approval, workflow.RegisterOptions{Name: workflows.ApprovalWorkflow})
		w.RegisterActivityWithOptions(tc.settler.settle, activity.RegisterOptions{Name: workflows.SettleActivity})
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: name, TaskQueue: name}, workflows.ApprovalWorkflow, input)
		if err != nil {
			t.Fatal(err)
		}
		for n := range tc.signals {
			until(ctx, t, func() bool { return tc.settler.calls > n+tc.settler.fail })
			if err := c.SignalWorkflow(ctx, name, "", workflows.ChangedSignal, nil); err != nil {
				t.Fatal(err)
			}
		}
		if name == "v1-flood" {
			// Its first run is over when a second one begins.
			until(ctx, t, func() bool { return tc.settler.calls > 64 })
		} else if err := run.Get(ctx, nil); err != nil {
			t.Fatal(err)
		}
		save(ctx, t, c, name, run.GetRunID())
		w.Stop()
	}
}

func until(ctx context.Context, t *testing.T, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func save(ctx context.Context, t *testing.T, c client.Client, id, run string) {
	t.Helper()
	var h history.History
	for iter := c.GetWorkflowHistory(ctx, id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); iter.HasNext(); {
		e, err := iter.Next()
		if err != nil {
			t.Fatal(err)
		}
		h.Events = append(h.Events, e)
	}
	data, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(&h)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", id+".json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
}
