package workflows_test

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"holdpoint/workflows"
)

// deliverer is a scripted Deliver; its last answer stands for all that follow.
type deliverer struct {
	answers []workflows.DeliverResult
	calls   int
	fail    int // how many first calls fail
}

func (d *deliverer) deliver(_ context.Context, in workflows.DeliverInput) (workflows.DeliverResult, error) {
	if in.NotificationID != "ntf_x" {
		return workflows.DeliverResult{}, errors.New("asked about " + in.NotificationID)
	}
	d.calls++
	if d.calls <= d.fail {
		return workflows.DeliverResult{}, errors.New("the database is away")
	}
	return d.answers[min(d.calls-d.fail, len(d.answers))-1], nil
}

var notice = workflows.NotificationInput{NotificationID: "ntf_x"}

func TestNotificationIsTriedUntilDone(t *testing.T) {
	done := workflows.DeliverResult{Done: true}
	in := func(d time.Duration) workflows.DeliverResult { return workflows.DeliverResult{RetryIn: d} }
	for _, tc := range []struct {
		name  string
		d     deliverer
		calls int
		takes time.Duration
	}{
		{"at once", deliverer{answers: []workflows.DeliverResult{done}}, 1, 0},
		{"after three attempts", deliverer{answers: []workflows.DeliverResult{in(5 * time.Second), in(5 * time.Minute), in(30 * time.Minute), done}}, 4, 35*time.Minute + 5*time.Second},
		{"nothing said of when", deliverer{answers: []workflows.DeliverResult{{}, in(-time.Hour), done}}, 3, 0},
		{"through an outage of ours", deliverer{answers: []workflows.DeliverResult{done}, fail: 4}, 5, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := notifying(&tc.d)
			began := env.Now()
			env.ExecuteWorkflow(workflows.NotificationWorkflow, notice)
			if !env.IsWorkflowCompleted() || env.GetWorkflowError() != nil {
				t.Fatalf("completed %t, error %v", env.IsWorkflowCompleted(), env.GetWorkflowError())
			}
			if tc.d.calls != tc.calls {
				t.Errorf("delivered %d times, want %d", tc.d.calls, tc.calls)
			}
			if took := env.Now().Sub(began); took < tc.takes || took > tc.takes+10*time.Second {
				t.Errorf("took %s, want %s", took, tc.takes)
			}
		})
	}
}

func TestNotificationHistoryIsBounded(t *testing.T) {
	d := &deliverer{answers: []workflows.DeliverResult{{RetryIn: time.Second}}}
	env := notifying(d)
	env.ExecuteWorkflow(workflows.NotificationWorkflow, notice)
	var again *workflow.ContinueAsNewError
	if err := env.GetWorkflowError(); !errors.As(err, &again) || again.WorkflowType.Name != workflows.NotificationWorkflow {
		t.Fatalf("ended with %v, want a new run", err)
	}
}

func notifying(d *deliverer) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silent)
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(30 * time.Second)
	env.RegisterWorkflowWithOptions(workflows.Notification, workflow.RegisterOptions{Name: workflows.NotificationWorkflow})
	env.RegisterActivityWithOptions(d.deliver, activity.RegisterOptions{Name: workflows.DeliverActivity})
	return env
}

// TestReplayNotifications runs today's Notification workflow over the histories
// that former versions have left, and makes sure that it can fail.
func TestReplayNotifications(t *testing.T) {
	files, err := filepath.Glob("testdata/v*-notification-*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d histories of notifications in testdata (%v); go test ./workflows -run TestRecordNotifications -record-notifications makes them", len(files), err)
	}
	other := func(ctx workflow.Context, _ workflows.NotificationInput) error {
		return workflow.Sleep(ctx, time.Second)
	}
	for _, file := range files {
		for _, tc := range []struct {
			does any
			good bool
		}{{workflows.Notification, true}, {other, false}} {
			replayer := worker.NewWorkflowReplayer()
			replayer.RegisterWorkflowWithOptions(tc.does, workflow.RegisterOptions{Name: workflows.NotificationWorkflow})
			if err := replayer.ReplayWorkflowHistoryFromJSONFile(silent, file); (err == nil) != tc.good {
				t.Errorf("%s, by the workflow that there is %t: %v", file, tc.good, err)
			}
		}
	}
}

var recordNotifications = flag.Bool("record-notifications", false, "record the histories of notifications in testdata anew, from a real Temporal server")

// TestRecordNotifications records histories; without the flag there is nothing to do.
func TestRecordNotifications(t *testing.T) {
	if !*recordNotifications {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := recorder(ctx, t)
	again, done := workflows.DeliverResult{RetryIn: 20 * time.Millisecond}, workflows.DeliverResult{Done: true}
	for name, d := range map[string]*deliverer{
		"v1-notification-sent":    {answers: []workflows.DeliverResult{done}},
		"v1-notification-retried": {answers: []workflows.DeliverResult{again, again, again, done}},
		"v1-notification-outage":  {answers: []workflows.DeliverResult{again, done}, fail: 2},
		"v1-notification-many":    {answers: []workflows.DeliverResult{again}},
	} {
		w := worker.New(c, name, worker.Options{Identity: "recorder"})
		w.RegisterWorkflowWithOptions(workflows.Notification, workflow.RegisterOptions{Name: workflows.NotificationWorkflow})
		w.RegisterActivityWithOptions(d.deliver, activity.RegisterOptions{Name: workflows.DeliverActivity})
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: name, TaskQueue: name}, workflows.NotificationWorkflow, notice)
		if err != nil {
			t.Fatal(err)
		}
		first := run.GetRunID()
		if strings.HasSuffix(name, "many") {
			// Its first run is over when a second one begins.
			until(ctx, t, func() bool { return d.calls > 64 })
		} else if err := run.Get(ctx, nil); err != nil {
			t.Fatal(err)
		}
		save(ctx, t, c, name, first)
		w.Stop()
	}
}
