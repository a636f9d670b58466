package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
)

// ready is what /readyz says.
type ready struct {
	Status  string   `json:"status"`
	Missing []string `json:"missing"`
}

func (c *client) ready() (int, string) {
	c.t.Helper()
	var r ready
	a := c.do("GET", "/readyz", nil)
	if a.Err != nil {
		c.t.Fatal(a.Err)
	}
	a.into(c.t, &r)
	return a.Status, strings.TrimSpace(r.Status + " " + strings.Join(r.Missing, " "))
}

// TestTemporalStopped: the gate does not need Temporal. Calls are judged, votes
// recorded, and when it is back everything is settled by what happened when.
func TestTemporalStopped(t *testing.T) {
	idlePrograms(t)
	c := startCluster(t, 1, 1)
	agent, reviewer, runtime := c.agent(t), c.reviewer(t, 0), c.runtime(t)
	if status, body := agent.ready(); status != 200 || body != "ok" {
		t.Errorf("before: %d %s", status, body)
	}
	before := agent.hold("pay", nil)
	cancelled, denied, expired := agent.hold("pay", nil), agent.hold("pay", nil), agent.hold("soon_pay", nil)
	asked := agent.submit(event("ask", "ask", nil))
	c.stopTemporal()

	agent.propose(event("search_docs", "accept", nil)).want(t, 200)
	agent.propose(event("search_docs", "refuse", nil)).want(t, 200)
	inTime := agent.hold("soon_pay", nil)
	reviewer.approve(inTime) // in time, settled after its deadline
	after := agent.hold("pay", nil)
	reviewer.approve(before)
	reviewer.approve(after)
	reviewer.vote(denied, "deny").want(t, 200)
	agent.cancel(cancelled.ID).want(t, 200)
	runtime.do("POST", approvalPath(asked.ID)+"/answers", map[string]any{"confirmed": true}).want(t, 200)
	for _, a := range []approval{before, after, denied, cancelled, asked} {
		if got := agent.get(a.ID); got.Status != "pending" || got.Token != "" {
			t.Errorf("without Temporal nothing is settled, but %s is %s", a.ID, got.Status)
		}
		if got := reviewer.vote(a, "approve"); got.Status != 409 {
			t.Errorf("a vote on what is decided: %s", got)
		}
	}
	eventually(t, settleWithin, "/readyz misses Temporal", func() bool {
		status, body := agent.ready()
		return status == 200 && body == "degraded temporal"
	})
	<-time.After(time.Until(expired.ExpiresAt.Add(100 * time.Millisecond))) // the outage lasts beyond the deadline
	reviewer.vote(expired, "approve").want(t, 410, "expired")

	c.startTemporal()
	back := time.Now()
	for _, want := range []struct {
		approval
		status string
	}{{before, "approved"}, {after, "approved"}, {inTime, "approved"}, {denied, "denied"}, {cancelled, "cancelled"}, {asked, "approved"}, {expired, "expired"}} {
		got := agent.wait(want.ID)
		if got.Status != want.status {
			t.Errorf("%s ended %s, want %s", want.ID, got.Status, want.status)
		}
		if took := got.EndedAt.Sub(back); took > healWithin {
			t.Errorf("%s (%s) was settled %s after Temporal was back", want.ID, want.status, took)
		}
	}
	agent.redeem(agent.get(after.ID).Token, "pay", map[string]any{}).want(t, 200)
	eventually(t, healWithin, "/readyz is ok again", func() bool { _, body := agent.ready(); return body == "ok" })
}

// TestTemporalIsNotBelieved: who has Temporal in hand can forge, repeat and end
// what he likes there. Nothing is granted by it, and nothing stays lost.
func TestTemporalIsNotBelieved(t *testing.T) {
	idlePrograms(t)
	c := startCluster(t, 1, 1)
	temporal := c.temporalClient()
	agent, ctx := c.agent(t), t.Context()
	// runs is the run of a workflow that is running now, or empty.
	runs := func(id string) string {
		d, err := temporal.DescribeWorkflowExecution(ctx, id, "")
		if err != nil || d.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			return ""
		}
		return d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	}
	running := func(id string) bool { return runs(id) != "" }

	a := agent.hold("pair_pay", nil)
	eventually(t, settleWithin, "the workflow runs", func() bool { return running(a.ID) })
	// It has nothing to do until somebody says something.
	var kinds []enums.EventType
	for history := temporal.GetWorkflowHistory(ctx, a.ID, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); history.HasNext(); {
		event, err := history.Next()
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, event.GetEventType())
	}
	if !slices.Equal(kinds, []enums.EventType{enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED}) {
		t.Errorf("what waits has %v", kinds)
	}
	before := agent.do("GET", approvalPath(a.ID), nil).want(t, 200)
	for i := range 30 {
		for _, signal := range []struct {
			name    string
			payload any
		}{{"changed", nil}, {"changed", map[string]any{"status": "approved", "approved": true}}, {"approve", "yes"}, {"settled", a.ID}} {
			if err := temporal.SignalWorkflow(ctx, a.ID, "", signal.name, signal.payload); err != nil {
				t.Fatalf("signal %d: %v", i, err)
			}
		}
	}
	// A workflow of ours for an approval that there is not, and a second one
	// under another id for one that there is.
	for id, input := range map[string]string{"apr_forged": "apr_forged", "another-" + a.ID: a.ID} {
		if _, err := temporal.ExecuteWorkflow(ctx, temporalclient.StartWorkflowOptions{ID: id, TaskQueue: "holdpoint"}, "Approval", map[string]string{"approval_id": input}); err != nil {
			t.Fatal(err)
		}
	}
	forged := temporal.GetWorkflow(ctx, "apr_forged", "")
	limited, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	if err := forged.Get(limited, nil); err == nil {
		t.Error("a workflow for no approval ended well")
	}
	if after := agent.do("GET", approvalPath(a.ID), nil).want(t, 200); string(after.Body) != string(before.Body) {
		t.Errorf("forged signals changed\n%s\ninto\n%s", before, after)
	}
	c.reviewer(t, 0).approve(a)
	c.reviewer(t, 1).approve(a)
	if got := agent.wait(a.ID); got.Status != "approved" {
		t.Errorf("after the forged signals: %+v", got)
	}

	ends := []struct {
		name string
		end  func(id string) error
	}{
		{"terminated", func(id string) error { return temporal.TerminateWorkflow(ctx, id, "", "a test") }},
		{"cancelled", func(id string) error { return temporal.CancelWorkflow(ctx, id, "") }},
		{"deleted", func(id string) error {
			_, err := temporal.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
				Namespace: temporalNamespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: id},
			})
			return err
		}},
	}
	for _, how := range ends {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel() // they wait for the same deadline
			agent, reviewer := c.agent(t), c.reviewer(t, 0)
			var a, late approval
			for _, one := range []struct {
				tool string
				held *approval
			}{{"pay", &a}, {"soon_pay", &late}} {
				*one.held = agent.hold(one.tool, nil)
				id := one.held.ID
				eventually(t, settleWithin, "the workflow runs", func() bool { return running(id) })
				run := runs(id)
				if err := how.end(id); err != nil {
					t.Fatal(err)
				}
				// It may have been started again before anybody looks.
				eventually(t, settleWithin, "the workflow is gone", func() bool { return runs(id) != run })
			}
			// Nobody votes and nothing happens: the reconciler finds it.
			took := eventually(t, healWithin, "the reconciler starts the workflow again", func() bool { return running(a.ID) })
			t.Logf("started again after %s", took.Round(10*time.Millisecond))
			reviewer.approve(a)
			if got := agent.wait(a.ID); got.Status != "approved" {
				t.Errorf("ended %+v", got)
			}
			if got := agent.wait(late.ID); got.Status != "expired" || got.EndedAt.Sub(late.ExpiresAt) > healWithin {
				t.Errorf("deadline %s, ended %s at %s", late.ExpiresAt, got.Status, got.EndedAt)
			}
		})
	}
}

// refusedWithin bounds how long a refusal may take while Postgres hangs.
const refusedWithin = 25 * time.Second

// TestPostgresStopped: without the event store nothing is granted, everything
// is refused with 503 in bounded time, and when it is back so is the service.
func TestPostgresStopped(t *testing.T) {
	idlePrograms(t)
	c := startCluster(t, 1, 1)
	agent, reviewer := c.agent(t), c.reviewer(t, 0)
	for _, how := range []struct {
		name        string
		stop, start func()
	}{
		{"hangs", func() { c.signalPostgres(syscall.SIGSTOP) }, func() { c.signalPostgres(syscall.SIGCONT) }},
		{"killed", func() { c.signalPostgres(syscall.SIGKILL); <-c.postgres.Done() }, func() {
			if err := c.postgres.Stop(context.Background()); err != nil {
				t.Fatal(err)
			}
			c.startPostgres()
		}},
	} {
		t.Run(how.name, func(t *testing.T) {
			approved, waiting := agent.hold("pay", nil), agent.hold("pay", nil)
			reviewer.approve(approved)
			token := agent.wait(approved.ID).Token
			held := make(chan answer, 1)
			go func() { held <- agent.do("GET", approvalPath(waiting.ID)+"?wait=50", nil) }()
			doors := []struct {
				name string
				ask  func() answer
			}{
				{"accept", func() answer { return agent.propose(event("search_docs", "accept", nil)) }},
				{"refuse", func() answer { return agent.propose(event("search_docs", "refuse", nil)) }},
				{"wait", func() answer { return agent.propose(event("pay", "defer", nil)) }},
				{"repeatable", func() answer {
					return agent.propose(event("pay", "defer", nil), header{"Idempotency-Key", newID("k-")})
				}},
				{"read", func() answer { return agent.do("GET", approvalPath(approved.ID), nil) }},
				{"vote", func() answer { return reviewer.vote(waiting, "approve") }},
				{"cancel", func() answer { return agent.cancel(waiting.ID) }},
				{"redeem", func() answer { return agent.redeem(token, "pay", map[string]any{}) }},
				{"events", func() answer { return c.admin(t).do("GET", "/v1/audit/events", nil) }},
				{"keys", func() answer { return agent.do("GET", "/.well-known/jwks.json", nil) }},
				{"readyz", func() answer { return agent.do("GET", "/readyz", nil) }},
			}
			how.stop()
			answers := make([]answer, 4*len(doors))
			together(len(answers), func(i int) { answers[i] = doors[i%len(doors)].ask() })
			slowest := time.Duration(0)
			for i, a := range answers {
				door := doors[i%len(doors)].name
				slowest = max(slowest, a.Took)
				if a.Status != 503 || a.Took > refusedWithin {
					t.Errorf("%s: %s after %s, want 503 within %s", door, a, a.Took, refusedWithin)
				}
				if door == "readyz" {
					var r ready
					if a.into(t, &r); r.Status != "unavailable" || len(r.Missing) == 0 || r.Missing[0] != "postgres" {
						t.Errorf("readyz: %s", a)
					}
				} else if a.code() != "store_unavailable" || a.Header.Get("Retry-After") == "" && door != "keys" {
					t.Errorf("%s: %s %v", door, a, a.Header)
				}
			}
			t.Logf("all refused, the last after %s", slowest.Round(10*time.Millisecond))
			if got := agent.do("GET", "/healthz", nil); got.Status != 200 {
				t.Errorf("healthz: %s", got)
			}
			page := reviewer.do("GET", "/approvals/"+waiting.ID, nil)
			if page.Status != 503 || !strings.Contains(string(page.Body), "Nothing was decided") {
				t.Errorf("the page: %d", page.Status)
			}

			how.start()
			back := time.Now()
			took := eventually(t, healWithin, "the gate is back", func() bool {
				return agent.propose(event("search_docs", "accept", nil)).Status == 200
			})
			t.Logf("the gate was back after %s", took.Round(10*time.Millisecond))
			agent.redeem(token, "pay", map[string]any{}).want(t, 200)
			agent.redeem(token, "pay", map[string]any{}).want(t, 409, "token_used")
			reviewer.approve(waiting)
			if got := agent.wait(waiting.ID); got.Status != "approved" || got.EndedAt.Sub(back) > healWithin+took {
				t.Errorf("what waited ended %s, %s after Postgres was back", got.Status, got.EndedAt.Sub(back))
			}
			if got := <-held; got.Status != 200 && got.Status != 503 {
				t.Errorf("who was held got %s", got)
			}
			c.check(t)
		})
	}
	for _, p := range append(c.serves, c.workers...) {
		if p.exited() {
			t.Errorf("%s did not survive the outage: %v", p.name, p.err)
		}
	}
}

// TestDevSurvivesItsPostgres: the program that runs everything starts its
// Postgres again when that is killed, and goes on.
func TestDevSurvivesItsPostgres(t *testing.T) {
	idlePrograms(t)
	d := startDev(t, nil)
	agent := d.agent(t)
	a, reviewer := agent.hold("pay", nil), d.reviewer(t, 0)
	var postmaster int
	if _, err := fmt.Sscan(fileText(d.dir+"/postgres/data/postmaster.pid"), &postmaster); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(postmaster, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, 2*healWithin, "another Postgres is ready", func() bool {
		var pid int
		text := fileText(d.dir + "/postgres/data/postmaster.pid")
		_, err := fmt.Sscan(text, &pid)
		return err == nil && pid != postmaster && strings.Contains(text, "ready")
	})
	eventually(t, healWithin, "the gate is back", func() bool { return agent.propose(event("search_docs", "accept", nil)).Status == 200 })
	took := time.Since(began)
	t.Logf("back after %s", took.Round(10*time.Millisecond))
	back := time.Now()
	reviewer.approve(a)
	if got := agent.wait(a.ID); got.Status != "approved" || got.EndedAt.Sub(back) > healWithin {
		t.Errorf("what waited ended %s %s later", got.Status, got.EndedAt.Sub(back))
	}
	if got := agent.get(a.ID).Token; agent.redeem(got, "pay", map[string]any{}).Status != 200 {
		t.Error("its token is no good")
	}
}
