package tests

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	holdpoint "holdpoint.example/client"
	holdpointtemporal "holdpoint.example/client/temporal"
)

// payment is the argument of the activity that is gated in these tests.
type payment struct {
	To     string `json:"to"`
	Amount int    `json:"amount"`
}

// agentWorkflow is an agent that already is a workflow: it calls one activity.
func agentWorkflow(ctx workflow.Context, tool string, p payment) (string, error) {
	return agentPatience(ctx, tool, p, time.Minute)
}

// agentPatience is agentWorkflow with another limit of an attempt.
func agentPatience(ctx workflow.Context, tool string, p payment, limit time.Duration) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: limit, RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Millisecond, MaximumAttempts: 3},
	})
	var result string
	err := workflow.ExecuteActivity(ctx, tool, p).Get(ctx, &result)
	return result, err
}

// temporalAgent is a worker with a gated activity, and what has run.
type temporalAgent struct {
	t     *testing.T
	d     *dev
	c     temporalclient.Client
	queue string
	tool  string
	runs  atomic.Int32
	paid  atomic.Value // payment
	err   error        // of the activity
	lost  bool         // an attempt never ends
}

func (d *dev) temporalAgent(t *testing.T, fails error) *temporalAgent {
	t.Helper()
	return d.temporalTool(t, "Pay", fails, holdpointtemporal.Tool{}, &holdpoint.Client{URL: d.URL, Key: d.AgentKey})
}

// temporalTool is a temporalAgent whose tool is called and proposed as the test says, by
// a client of its own.
func (d *dev) temporalTool(t *testing.T, name string, fails error, tool holdpointtemporal.Tool, client *holdpoint.Client) *temporalAgent {
	t.Helper()
	c, err := temporalclient.Dial(temporalclient.Options{HostPort: d.Temporal, Namespace: "holdpoint", Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	a := &temporalAgent{t: t, d: d, c: c, queue: newID("q-"), tool: newID(name), err: fails}
	gate := holdpointtemporal.New(client, holdpointtemporal.Tools{a.tool: tool})
	w := worker.New(c, a.queue, worker.Options{Interceptors: []interceptor.WorkerInterceptor{gate}, WorkerStopTimeout: time.Second})
	w.RegisterWorkflow(agentWorkflow)
	w.RegisterWorkflow(agentPatience)
	end := make(chan struct{})
	w.RegisterActivityWithOptions(func(_ context.Context, p payment) (string, error) {
		a.runs.Add(1)
		a.paid.Store(p)
		if a.lost {
			<-end
		}
		return "paid " + p.To, a.err
	}, activity.RegisterOptions{Name: a.tool})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(end)
		w.Stop()
		c.Close()
	})
	return a
}

// quiet is a logger that says nothing.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

// starts starts the workflow, and returns it with the approval that its call waits for.
func (a *temporalAgent) starts(to string) (temporalclient.WorkflowRun, approval) {
	a.t.Helper()
	run := a.begins(agentWorkflow, a.tool, payment{to, 7})
	return run, a.opened(a.d.agent(a.t))
}

func (a *temporalAgent) begins(workflow any, args ...any) temporalclient.WorkflowRun {
	a.t.Helper()
	run, err := a.c.ExecuteWorkflow(a.t.Context(), temporalclient.StartWorkflowOptions{TaskQueue: a.queue}, workflow, args...)
	if err != nil {
		a.t.Fatal(err)
	}
	return run
}

// opened is the approval that the call waits for, of the agent with this client.
func (a *temporalAgent) opened(agent *client) approval {
	a.t.Helper()
	var waiting approval
	eventually(a.t, seeWithin, "the call's approval", func() bool {
		var page struct{ Approvals []approval }
		agent.do("GET", "/v1/approvals?status=pending&tool_name="+a.tool, nil).want(a.t, 200).into(a.t, &page)
		if len(page.Approvals) == 1 {
			waiting = page.Approvals[0]
		}
		return waiting.ID != ""
	})
	return agent.get(waiting.ID)
}

// ends is how the workflow ends.
func (a *temporalAgent) ends(run temporalclient.WorkflowRun) (result, kind string, err error) {
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	defer cancel()
	err = run.Get(ctx, &result)
	var failed *temporal.ApplicationError
	if errors.As(err, &failed) {
		kind = failed.Type()
	}
	return result, kind, err
}

// TestTemporalActivities: a gated activity of a workflow runs once, when people have
// approved it and as they approved it, and never when they said no; waiting leaves no
// trace in the workflow's history.
func TestTemporalActivities(t *testing.T) {
	d := onCalled(t)
	a := d.temporalAgent(t, nil)
	reviewer := d.reviewer(t, 0)

	run, waiting := a.starts("Ann")
	reviewer.approve(waiting)
	if result, _, err := a.ends(run); err != nil || result != "paid Ann" || a.runs.Load() != 1 {
		t.Fatalf("%q, %v, %d runs", result, err, a.runs.Load())
	}
	if got := d.agent(t).get(waiting.ID); got.Execution != "succeeded" {
		t.Errorf("execution %s", got.Execution)
	}
	var scheduled int
	history := a.c.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		e, err := history.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.EventType == enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
			scheduled++
		}
		if strings.Contains(e.String(), "resumption") || strings.Contains(e.String(), d.AgentKey) {
			t.Errorf("the history holds a token or the key: %s", e)
		}
	}
	if scheduled != 2 {
		t.Errorf("%d activities in the history", scheduled)
	}

	run, waiting = a.starts("Bob")
	reviewer.do("POST", approvalPath(waiting.ID)+"/edits", map[string]any{"digest": waiting.Digest, "version": waiting.Version, "arguments": payment{"Bob", 5}, "comment": "less"}).want(t, 200)
	d.reviewer(t, 1).approve(d.agent(t).get(waiting.ID))
	if result, _, err := a.ends(run); err != nil || result != "paid Bob" || a.paid.Load() != any(payment{"Bob", 5}) {
		t.Errorf("%q, %v, paid %+v", result, err, a.paid.Load())
	}

	run, waiting = a.starts("Eve")
	reviewer.vote(waiting, "deny").want(t, 200)
	if _, kind, err := a.ends(run); kind != holdpointtemporal.Refused || a.runs.Load() != 2 {
		t.Errorf("%v, %d runs", err, a.runs.Load())
	}
}

// TestTemporalActivityFails: an activity that has failed is not run again by its retries:
// it was permitted once.
func TestTemporalActivityFails(t *testing.T) {
	d := onCalled(t)
	a := d.temporalAgent(t, errors.New("the bank is shut"))
	run, waiting := a.starts("Ann")
	d.reviewer(t, 0).approve(waiting)
	if _, kind, err := a.ends(run); kind != holdpointtemporal.Failed || a.runs.Load() != 1 || !strings.Contains(err.Error(), "the bank is shut") {
		t.Errorf("%v, %d runs", err, a.runs.Load())
	}
	if got := d.agent(t).get(waiting.ID); got.Execution != "failed" {
		t.Errorf("execution %s", got.Execution)
	}
}

// TestTemporalWithoutPermit: a worker of workflows without the interceptor does not get
// round the one of the activities.
func TestTemporalWithoutPermit(t *testing.T) {
	d := onCalled(t)
	a := d.temporalAgent(t, nil)
	plain := worker.New(a.c, a.queue+"-plain", worker.Options{})
	plain.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: a.queue, StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, a.tool, payment{"Mallory", 1}).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "plain"})
	if err := plain.Start(); err != nil {
		t.Fatal(err)
	}
	defer plain.Stop()
	run, err := a.c.ExecuteWorkflow(t.Context(), temporalclient.StartWorkflowOptions{TaskQueue: a.queue + "-plain"}, "plain")
	if err != nil {
		t.Fatal(err)
	}
	if _, kind, err := a.ends(run); kind != holdpointtemporal.Ungated || a.runs.Load() != 0 {
		t.Errorf("%v, %d runs", err, a.runs.Load())
	}
}
