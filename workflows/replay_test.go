package workflows_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
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

var record = flag.Bool("record", false, "record the histories of this version that testdata has not, from a real Temporal server")

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestReplay runs today's workflow over histories that former versions have
// left: one that would decide differently would get stuck in production. A
// changed workflow keeps these files and adds new ones, never replaces them.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 6+len(histories()) {
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

// recorded is what a history is made of: what Settle and CheckTicket answer, and
// how often somebody says that something has changed.
type recorded struct {
	settler settler
	signals int
	tracker tracker
}

// tracker is a scripted CheckTicket: what it answers, look by look; the last
// answer stands for all that follow.
type tracker struct {
	answers []error
	hangs   bool // until the recording ends
	looks   int
}

var (
	errNoAnswer = errors.New("no answer")
	errBusy     = errors.New("busy")
)

func (k *tracker) check(ctx context.Context, _ workflows.CheckTicketInput) (workflows.CheckTicketResult, error) {
	k.looks++
	if k.hangs {
		<-activity.GetWorkerStopChannel(ctx)
	}
	if len(k.answers) == 0 {
		return workflows.CheckTicketResult{}, nil
	}
	switch err := k.answers[min(k.looks, len(k.answers))-1]; {
	case errors.Is(err, errBusy):
		return workflows.CheckTicketResult{RetryIn: time.Second}, nil
	default:
		return workflows.CheckTicketResult{}, err
	}
}

func histories() map[string]*recorded {
	waiting, over := workflows.SettleResult{WakeIn: time.Hour}, workflows.SettleResult{Over: true}
	soon := workflows.SettleResult{WakeIn: 50 * time.Millisecond}
	ticket := workflows.SettleResult{WakeIn: time.Hour, CheckTicket: true, Ticket: 7}
	another := workflows.SettleResult{WakeIn: time.Hour, CheckTicket: true, Ticket: 9}
	late := workflows.SettleResult{WakeIn: 300 * time.Millisecond, CheckTicket: true, Ticket: 7}
	script := func(answers ...workflows.SettleResult) settler { return settler{answers: answers} }
	return map[string]*recorded{
		"over":    {settler: script(over)},
		"signal":  {settler: script(waiting, over), signals: 1},
		"outage":  {settler: settler{answers: []workflows.SettleResult{waiting, over}, fail: 2}, signals: 1},
		"timeout": {settler: script(soon, workflows.SettleResult{}, over)},
		"flood":   {settler: script(waiting), signals: 64},
		// A proof of identity: reminders pass, then it comes.
		"stepup": {settler: script(soon, soon, waiting, over), signals: 1},
		// People: votes one after the other; a question stops the clock and its
		// answer lets it go on; a new edition begins.
		"review":   {settler: script(waiting, waiting, waiting, over), signals: 3},
		"question": {settler: script(soon, workflows.SettleResult{WakeIn: 2 * time.Hour}, waiting, over), signals: 2},
		// A redeemed call: its agent has until its lease ends to say what became of it.
		"lease":          {settler: script(soon, over)},
		"lease-reported": {settler: script(waiting, over), signals: 1},
		"lease-late":     {settler: script(soon, workflows.SettleResult{WakeIn: time.Millisecond}, over)},
		// Tickets.
		"ticket":          {settler: script(ticket, over)},
		"ticket-attached": {settler: script(waiting, ticket, over), signals: 1},
		"ticket-rejected": {settler: script(ticket, waiting, another, over), signals: 1},
		"ticket-review":   {settler: script(ticket, waiting, over), signals: 1},
		"ticket-outage":   {settler: script(ticket, ticket, ticket, ticket, ticket, over), tracker: tracker{answers: []error{errBusy, errNoAnswer, nil}}},
		"ticket-replaced": {settler: script(ticket, ticket, another, another, over), signals: 1, tracker: tracker{answers: []error{errBusy, nil}}},
		"ticket-hangs":    {settler: script(late, over), tracker: tracker{hangs: true}},
	}
}

// recorder is a client of a real Temporal server.
func recorder(ctx context.Context, t *testing.T) client.Client {
	t.Helper()
	pgtest.Database(t)
	server, err := devserver.Start(ctx, devserver.Config{PostgresURL: pgtest.Server(t).SuperuserURL("postgres"), Database: "record", Namespace: "holdpoint"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	c, err := client.DialContext(ctx, client.Options{HostPort: server.Address(), Namespace: "holdpoint", Logger: silent, Identity: "recorder"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestRecord records histories with -record: those of this version that are not
// there yet. Those of former versions can be recorded no more.
func TestRecord(t *testing.T) {
	if !*record {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c := recorder(ctx, t)
	for what, r := range histories() {
		name := fmt.Sprintf("v%d-%s", workflows.Version, what)
		if _, err := os.Stat(fileOf(name)); err == nil {
			continue
		}
		r.record(ctx, t, c, name)
	}
}

func (r *recorded) record(ctx context.Context, t *testing.T, c client.Client, name string) {
	w := worker.New(c, name, worker.Options{Identity: "recorder"})
	w.RegisterWorkflowWithOptions(workflows.Approval, workflow.RegisterOptions{Name: workflows.ApprovalWorkflow})
	w.RegisterActivityWithOptions(r.settler.settle, activity.RegisterOptions{Name: workflows.SettleActivity})
	w.RegisterActivityWithOptions(r.tracker.check, activity.RegisterOptions{Name: workflows.CheckTicketActivity})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: name, TaskQueue: name}, workflows.ApprovalWorkflow, input)
	if err != nil {
		t.Fatal(err)
	}
	// A signal comes once Settle has been asked and there is nothing left to do
	// but wait: where answers are short, when it says that it waits for long.
	for range r.signals {
		n := r.settler.calls
		until(ctx, t, func() bool { n = r.settler.calls; return n > r.settler.fail && r.idle(n-r.settler.fail) })
		if err := c.SignalWorkflow(ctx, name, "", workflows.ChangedSignal, nil); err != nil {
			t.Fatal(err)
		}
		until(ctx, t, func() bool { return r.settler.calls > n })
	}
	if flood := len(r.settler.answers) == 1 && r.signals > 0; flood {
		// Its first run is over when a second one begins.
		until(ctx, t, func() bool { return r.settler.calls > 64 })
	} else if err := run.Get(ctx, nil); err != nil {
		t.Fatal(err)
	}
	save(ctx, t, c, name, run.GetRunID())
}

// idle reports whether nothing will happen by itself after the n-th answer.
func (r *recorded) idle(n int) bool {
	answer := r.settler.answers[min(n, len(r.settler.answers))-1]
	return answer.WakeIn >= time.Hour && !answer.CheckTicket || answer.CheckTicket && len(r.tracker.answers) > 0 && r.tracker.looks > 0 && n > 1
}

func fileOf(name string) string { return filepath.Join("testdata", name+".json") }

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
	if err := os.WriteFile(fileOf(id), data, 0o644); err != nil {
		t.Fatal(err)
	}
}
