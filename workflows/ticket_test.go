package workflows_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"holdpoint/workflows"
)

// desk is a database and a tracker as the workflow sees them, on the test's clock.
type desk struct {
	env *testsuite.TestWorkflowEnvironment
	// ticket is the one that is attached and not looked at; 0 for none.
	ticket   int64
	deadline time.Duration
	over     bool
	// answer is what the tracker does with a look.
	answer func() (workflows.CheckTicketResult, error)

	began   time.Time
	settled int
	looks   []time.Duration // when
	ended   time.Duration
}

// anything matches every argument of an activity.
const anything = "mock.Anything"

func (d *desk) now() time.Duration { return d.env.Now().Sub(d.began).Round(time.Second) }

func (d *desk) settle(_ context.Context, in workflows.SettleInput) (workflows.SettleResult, error) {
	d.settled++
	if in.Version != workflows.Version {
		return workflows.SettleResult{}, errors.New("asked by another version")
	}
	if d.over || d.now() >= d.deadline {
		d.ended = d.now()
		return workflows.SettleResult{Over: true}, nil
	}
	return workflows.SettleResult{WakeIn: d.deadline - d.env.Now().Sub(d.began), CheckTicket: d.ticket != 0, Ticket: d.ticket}, nil
}

func (d *desk) check(_ context.Context, in workflows.CheckTicketInput) (workflows.CheckTicketResult, error) {
	if in.ApprovalID != "apr_x" {
		return workflows.CheckTicketResult{}, errors.New("asked about " + in.ApprovalID)
	}
	d.looks = append(d.looks, d.now())
	return d.answer()
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silent)
	d := &desk{env: suite.NewTestWorkflowEnvironment(), ticket: 7, deadline: 24 * time.Hour}
	d.env.SetTestTimeout(30 * time.Second)
	d.env.RegisterWorkflowWithOptions(workflows.Approval, workflow.RegisterOptions{Name: workflows.ApprovalWorkflow})
	d.env.RegisterActivityWithOptions(d.settle, activity.RegisterOptions{Name: workflows.SettleActivity})
	d.env.RegisterActivityWithOptions(d.check, activity.RegisterOptions{Name: workflows.CheckTicketActivity})
	d.began = d.env.Now()
	return d
}

func (d *desk) signalAt(at time.Duration) {
	d.env.RegisterDelayedCallback(func() { d.env.SignalWorkflow(workflows.ChangedSignal, nil) }, at)
}

func (d *desk) run(t *testing.T) {
	t.Helper()
	d.env.ExecuteWorkflow(workflows.ApprovalWorkflow, input)
	if !d.env.IsWorkflowCompleted() || d.env.GetWorkflowError() != nil {
		t.Fatalf("completed %t, error %v", d.env.IsWorkflowCompleted(), d.env.GetWorkflowError())
	}
}

func seconds(n ...int) (all []time.Duration) {
	for _, s := range n {
		all = append(all, time.Duration(s)*time.Second)
	}
	return all
}

func TestTicketIsLookedAtOnce(t *testing.T) {
	d := newDesk(t)
	d.answer = func() (workflows.CheckTicketResult, error) {
		d.ticket, d.over = 0, true
		return workflows.CheckTicketResult{}, nil
	}
	d.run(t)
	if !slices.Equal(d.looks, seconds(0)) || d.settled != 2 || d.ended != 0 {
		t.Errorf("looked at %v, settled %d times, ended at %s", d.looks, d.settled, d.ended)
	}
}

// A ticket that does not cover the call leaves it waiting, and another one is
// looked at at once.
func TestAnotherTicketIsLookedAtOnce(t *testing.T) {
	d := newDesk(t)
	d.answer = func() (workflows.CheckTicketResult, error) {
		d.over = len(d.looks) == 2
		d.ticket = 0
		return workflows.CheckTicketResult{}, nil
	}
	d.env.RegisterDelayedCallback(func() { d.ticket = 8 }, 3*time.Second)
	d.signalAt(3 * time.Second)
	d.run(t)
	if !slices.Equal(d.looks, seconds(0, 3)) || d.ended != 3*time.Second {
		t.Errorf("looked at %v, ended at %s", d.looks, d.ended)
	}
}

func TestOutageOfTheTracker(t *testing.T) {
	for what, answer := range map[string]func() (workflows.CheckTicketResult, error){
		"it says so": func() (workflows.CheckTicketResult, error) {
			return workflows.CheckTicketResult{RetryIn: time.Second}, nil
		},
		"it fails":     func() (workflows.CheckTicketResult, error) { return workflows.CheckTicketResult{}, errors.New("no") },
		"it said less": func() (workflows.CheckTicketResult, error) { return workflows.CheckTicketResult{}, nil },
	} {
		for name, tc := range map[string]struct {
			signals []time.Duration
			replace time.Duration
			want    []time.Duration
		}{
			"alone":   {nil, 0, seconds(0, 5, 20, 50, 110, 170)},
			"signals": {seconds(1, 2, 3, 4, 6, 30, 31, 51, 52, 53, 112), 0, seconds(0, 5, 20, 50, 110, 170)},
			// The patience with one ticket is not the next one's.
			"another": {seconds(60), 60 * time.Second, seconds(0, 5, 20, 50, 60, 65, 80, 110, 170)},
		} {
			t.Run(what+", "+name, func(t *testing.T) {
				d := newDesk(t)
				d.answer = func() (workflows.CheckTicketResult, error) {
					if d.now() >= 170*time.Second {
						d.over = true
						return workflows.CheckTicketResult{}, nil
					}
					return answer()
				}
				if tc.replace > 0 {
					d.env.RegisterDelayedCallback(func() { d.ticket++ }, tc.replace)
				}
				for _, at := range tc.signals {
					d.signalAt(at)
				}
				d.run(t)
				if !slices.Equal(d.looks, tc.want) {
					t.Errorf("looked at %v, want %v", d.looks, tc.want)
				}
			})
		}
	}
}

// What the tracker asks for is kept to, where that is longer.
func TestTrackerWantsToBeLeftAlone(t *testing.T) {
	d := newDesk(t)
	d.answer = func() (workflows.CheckTicketResult, error) {
		d.over = len(d.looks) == 3
		return workflows.CheckTicketResult{RetryIn: 40 * time.Second}, nil
	}
	d.run(t)
	if !slices.Equal(d.looks, seconds(0, 40, 80)) {
		t.Errorf("looked at %v", d.looks)
	}
}

// Neither a deadline nor a signal waits for a tracker that hangs, and there is
// one look at a time.
func TestNobodyWaitsForATracker(t *testing.T) {
	d := newDesk(t)
	d.deadline = 9 * time.Second
	d.env.OnActivity(workflows.CheckTicketActivity, anything, anything).After(11 * time.Second).Return(func(context.Context, workflows.CheckTicketInput) (workflows.CheckTicketResult, error) {
		d.looks = append(d.looks, d.now())
		return workflows.CheckTicketResult{}, nil
	})
	d.signalAt(2 * time.Second)
	d.signalAt(4 * time.Second)
	d.run(t)
	if d.ended != 9*time.Second || d.settled != 4 || len(d.looks) != 0 {
		t.Errorf("ended at %s, settled %d times, looks that ended %v", d.ended, d.settled, d.looks)
	}
}

func TestCancelledByTheRequestDuringALook(t *testing.T) {
	d := newDesk(t)
	d.env.OnActivity(workflows.CheckTicketActivity, anything, anything).After(11*time.Second).Return(workflows.CheckTicketResult{}, nil)
	d.env.RegisterDelayedCallback(func() { d.over = true }, 3*time.Second)
	d.signalAt(3 * time.Second)
	d.run(t)
	if d.ended != 3*time.Second {
		t.Errorf("ended at %s", d.ended)
	}
}
