package workflows_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"holdpoint/workflows"
)

var silent = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// settler is a scripted Settle: what it answers, call by call; the last answer
// stands for all that follow.
type settler struct {
	answers []workflows.SettleResult
	calls   int
	fail    int // how many first calls fail
}

func (s *settler) settle(_ context.Context, in workflows.SettleInput) (workflows.SettleResult, error) {
	if in.ApprovalID != "apr_x" {
		return workflows.SettleResult{}, errors.New("asked about " + in.ApprovalID)
	}
	s.calls++
	if s.calls <= s.fail {
		return workflows.SettleResult{}, errors.New("the database is away")
	}
	return s.answers[min(s.calls-s.fail, len(s.answers))-1], nil
}

func environment(t *testing.T, s *settler) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silent)
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(workflows.Approval, workflow.RegisterOptions{Name: workflows.ApprovalWorkflow})
	env.RegisterActivityWithOptions(s.settle, activity.RegisterOptions{Name: workflows.SettleActivity})
	return env
}

var input = workflows.ApprovalInput{ApprovalID: "apr_x"}

func TestApprovalEndsWhenSettled(t *testing.T) {
	waiting, over := workflows.SettleResult{WakeIn: time.Hour}, workflows.SettleResult{Over: true}
	for _, tc := range []struct {
		name    string
		settler settler
		signals []time.Duration
		within  time.Duration
		calls   int
	}{
		{"already over", settler{answers: []workflows.SettleResult{over}}, nil, time.Second, 1},
		{"by a signal", settler{answers: []workflows.SettleResult{waiting, over}}, []time.Duration{time.Minute}, 2 * time.Minute, 2},
		{"by its deadline", settler{answers: []workflows.SettleResult{waiting, over}}, nil, 2 * time.Hour, 2},
		{"a deadline that is not quite there", settler{answers: []workflows.SettleResult{waiting, {WakeIn: 0}, {WakeIn: -time.Second}, over}}, nil, 2 * time.Hour, 4},
		{"signals that change nothing", settler{answers: []workflows.SettleResult{waiting, waiting, waiting, over}}, []time.Duration{time.Minute, 2 * time.Minute}, 4 * time.Hour, 4},
		{"signals at the same moment are one look", settler{answers: []workflows.SettleResult{waiting, over}}, []time.Duration{time.Minute, time.Minute}, time.Hour, 2},
		{"through an outage", settler{answers: []workflows.SettleResult{waiting, over}, fail: 5}, nil, 3 * time.Hour, 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := environment(t, &tc.settler)
			began := env.Now()
			for _, at := range tc.signals {
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.ChangedSignal, nil) }, at)
			}
			env.SetTestTimeout(30 * time.Second)
			env.ExecuteWorkflow(workflows.ApprovalWorkflow, input)
			if !env.IsWorkflowCompleted() || env.GetWorkflowError() != nil {
				t.Fatalf("completed %t, error %v", env.IsWorkflowCompleted(), env.GetWorkflowError())
			}
			if tc.settler.calls != tc.calls {
				t.Errorf("settled %d times, want %d", tc.settler.calls, tc.calls)
			}
			if took := env.Now().Sub(began); took > tc.within {
				t.Errorf("took %s, want at most %s", took, tc.within)
			}
		})
	}
}

// A flood of signals starts a new run instead of an endless history, and the
// new run goes on with the same approval.
func TestFloodContinuesAsNew(t *testing.T) {
	s := &settler{answers: []workflows.SettleResult{{WakeIn: time.Second}}}
	env := environment(t, s)
	env.SetTestTimeout(30 * time.Second)
	env.ExecuteWorkflow(workflows.ApprovalWorkflow, input)
	var again *workflow.ContinueAsNewError
	if err := env.GetWorkflowError(); !errors.As(err, &again) {
		t.Fatalf("ended with %v, want a new run", err)
	}
	if again.WorkflowType.Name != workflows.ApprovalWorkflow || s.calls < 50 {
		t.Errorf("a new run of %s after %d looks", again.WorkflowType.Name, s.calls)
	}
}
