package tests

import (
	"context"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"holdpoint/internal/freeport"
)

// killAll kills every process of the installation at once.
func (c *cluster) killAll() {
	c.t.Helper()
	c.stopTemporal()
	c.signalPostgres(syscall.SIGKILL)
	<-c.postgres.Done()
	if err := c.postgres.Stop(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	for _, p := range append(c.serves, c.workers...) {
		p.kill()
	}
	c.serves, c.workers = nil, nil
}

// served checks that an approval that is opened now comes to its end.
func (c *cluster) served(url string) {
	c.t.Helper()
	c.URL = url
	agent := c.agent(c.t)
	a := agent.hold("pay", map[string]any{"run": newID("")})
	c.reviewer(c.t, 0).approve(a)
	if got := agent.wait(a.ID); got.Status != "approved" {
		c.t.Fatalf("%+v", got)
	}
}

// TestStartedBeforePostgresAndTemporal: serve and worker wait for what they need, say
// so once, and serve as soon as it is there.
func TestStartedBeforePostgresAndTemporal(t *testing.T) {
	ownPrograms(t)
	c := startCluster(t, 1, 1)
	c.served(c.URL)

	c.killAll()
	began := time.Now()
	serve, url := c.beginServe(binary(t))
	worker := c.beginWorker()
	at := c.client(t).at(url)
	eventually(t, readyWithin, "serve says what it waits for", func() bool {
		if serve.exited() || worker.exited() {
			t.Fatal(serve.tail(), worker.tail())
		}
		if at.do("GET", "/healthz", nil).Status != 200 {
			return false
		}
		status, said := at.ready()
		return status == 503 && said == "unavailable postgres"
	})
	at.do("GET", "/v1/approvals", nil).want(t, 503, "store_unavailable")
	for _, p := range []*program{serve, worker} {
		eventually(t, readyWithin, p.name+" says that it waits", func() bool { return strings.Contains(p.text(), "waiting for Postgres") })
	}
	c.startPostgres()
	// Without Temporal calls are judged.
	c.ready(serve, url)
	eventually(t, readyWithin, "the worker waits for Temporal", func() bool { return strings.Contains(worker.text(), "waiting for Temporal") })
	c.startTemporal()
	c.works(worker)
	c.served(url)
	for _, p := range []*program{serve, worker} {
		if n := strings.Count(p.text(), "waiting for Postgres"); n > 1+int(time.Since(began).Minutes()) {
			t.Errorf("%s says %d times that it waits", p.name, n)
		}
	}

	// A namespace that is not there yet is waited for, too.
	port, err := freeport.Find(0)
	if err != nil {
		t.Fatal(err)
	}
	monitored := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	c.env = append(c.env, "HOLDPOINT_TEMPORAL_NAMESPACE=late", "HOLDPOINT_METRICS_LISTEN="+monitored)
	early := c.beginWorker()
	eventually(t, readyWithin, "a worker waits for its namespace", func() bool {
		return strings.Contains(early.text(), "waiting for Temporal") && strings.Contains(early.text(), "late is not found")
	})
	of := c.client(t).at("http://" + monitored)
	if status, said := of.ready(); status != 503 || said != "unavailable temporal" {
		t.Errorf("it is ready: %d %s", status, said)
	}
	of.do("GET", "/healthz", nil).want(t, 200)
	_, err = c.temporalClient().WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: "late", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.works(early)
	if status, said := of.ready(); status != 200 || said != "ok" {
		t.Errorf("it is not ready: %d %s", status, said)
	}
	// A reading is shown for 15 s: on a busy machine the first one may have found nobody.
	for _, line := range []string{"holdpoint_postgres_up 1", "holdpoint_temporal_up 1", "holdpoint_log_unsigned_events 0", `holdpoint_policy_info{version="0"} 1`} {
		eventually(t, settleWithin, line, func() bool {
			return strings.Contains(string(of.do("GET", "/metrics", nil).want(t, 200).Body), "\n"+line+"\n")
		})
	}
	of.do("GET", "/v1/approvals", nil).want(t, 404)
	// That it was started with other settings is on record, and that serve was: which ones, and no value.
	shown := regexp.MustCompile(`holdpoint_settings_info{program="worker",settings="([0-9a-f]{16})"} 1`).FindStringSubmatch(string(of.do("GET", "/metrics", nil).Body))
	if shown == nil {
		t.Fatal("its settings are not among its metrics")
	}
	record := string(c.admin(t).do("GET", "/v1/audit/events?limit=200", nil).want(t, 200).Body)
	for _, want := range []string{`"STARTED_OTHERWISE"`, `"temporal_namespace"`, `"public_url"`, `"settings":"` + shown[1] + `"`} {
		if !strings.Contains(record, want) {
			t.Errorf("the log does not have %s", want)
		}
	}
	if strings.Contains(record, "late") || strings.Contains(record, "postgres://") {
		t.Error("a setting's value is in the log")
	}
}

// TestStartThatWaitingCannotMend: what will not come by itself ends serve and worker at
// once, with its cause; and they stop at once while they wait.
func TestStartThatWaitingCannotMend(t *testing.T) {
	ownPrograms(t)
	c := startCluster(t, 1, 1)
	with := func(url string) []string {
		return append(slices.Clone(c.env), "HOLDPOINT_DATABASE_URL="+url, "HOLDPOINT_LISTEN=127.0.0.1:0", "HOLDPOINT_PUBLIC_URL=http://127.0.0.1:1")
	}
	at := strings.Index(c.RuntimeURL, "@")
	type ending struct {
		name, says string
		*program
	}
	var endings []ending
	begin := func(command, url string) *program {
		p, err := run(binary(t), c.dir, newID(command+"-"), environment(with(url)...), nil, command)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, command := range []string{"serve", "worker"} {
		for _, of := range []struct{ name, url, says string }{
			{"wrong password", c.RuntimeURL[:at] + "x" + c.RuntimeURL[at:], "password authentication failed"},
			{"missing role", strings.Replace(c.RuntimeURL, "hp_app", "hp_nobody", 1), "password authentication failed"},
			{"missing database", strings.Replace(c.RuntimeURL, "/holdpoint?", "/nowhere?", 1), `database "nowhere" does not exist`},
			{"missing schema", c.postgres.SuperuserURL("postgres"), "run holdpoint migrate"},
			{"the owner's role", c.OwnerURL, "log in as a member of holdpoint_runtime"},
		} {
			endings = append(endings, ending{command + ", " + of.name, of.says, begin(command, of.url)})
		}
	}
	for _, p := range endings {
		select {
		case <-p.done:
		case <-time.After(readyWithin):
			p.kill()
			t.Fatalf("%s: it did not end\n%s", p.name, p.tail())
		}
		if p.err == nil || !strings.Contains(p.text(), p.says) {
			t.Errorf("%s: %v, want %q\n%s", p.name, p.err, p.says, p.tail())
		}
	}

	for _, command := range []string{"serve", "worker"} {
		p := begin(command, "postgres://hp_app:secret-word@127.0.0.1:1/holdpoint?sslmode=disable") // nothing listens there
		eventually(t, readyWithin, command+" waits", func() bool { return strings.Contains(p.text(), "waiting for Postgres") })
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if text := p.text(); !strings.Contains(text, "refused") || strings.Contains(text, "secret-word") {
			t.Errorf("%s does not say that nothing listens there, or it says a password\n%s", command, p.tail())
		}
	}
}
