//go:build !nodev

package devserver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"holdpoint/internal/devserver"
	"holdpoint/internal/postgres/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const queue = "approvals"

// wait is a workflow that ends with the first word it is sent.
func wait(ctx workflow.Context) (string, error) {
	var word string
	workflow.GetSignalChannel(ctx, "word").Receive(ctx, &word)
	return word, nil
}

// buffer is a log that many goroutines write.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// database is a name for the server's database, dropped after the test.
func database(t *testing.T) string {
	t.Helper()
	// The database that pgtest made only lends its unique name; the server makes its own.
	cfg, err := pgx.ParseConfig(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	name := cfg.Database + "_temporal"
	t.Cleanup(func() { execute(t, "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	return name
}

func execute(t *testing.T, database, statement string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), pgtest.Server(t).SuperuserURL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(context.Background(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// dial connects a client and a worker, which both end before the server is stopped.
func dial(t *testing.T, s *devserver.Server) (c client.Client, hangUp func()) {
	t.Helper()
	c, err := client.Dial(client.Options{
		HostPort: s.Address(), Namespace: "holdpoint", Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflow(wait)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	return c, func() { w.Stop(); c.Close() }
}

func TestWaitingWorkflowsOutliveTheServer(t *testing.T) {
	name := database(t)
	// What a crash in the middle of an earlier setup leaves: tables, a function, and no version.
	execute(t, "postgres", "CREATE DATABASE "+name)
	execute(t, name, `CREATE TABLE schema_version (version_partition int, db_name text, curr_version text);
		CREATE TABLE executions (); CREATE FUNCTION convert_ts(s varchar) RETURNS int AS 'SELECT 1' LANGUAGE sql`)

	// The server would refuse to start over this, if it took exporters from the environment at all.
	t.Setenv("OTEL_TRACES_EXPORTER", "somewhere")

	log := &buffer{}
	cfg := devserver.Config{
		PostgresURL: pgtest.Server(t).SuperuserURL("postgres"), Database: name,
		Namespace: "holdpoint", Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	var ids []string
	for round, kind := range []string{"fresh", "existing", "existing"} {
		began := time.Now()
		s, err := devserver.Start(t.Context(), cfg)
		if err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		took := time.Since(began)
		c, hangUp := dial(t, s)
		id := fmt.Sprint("approval-", round)
		if _, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: queue}, wait); err != nil {
			t.Fatal(err)
		}
		t.Logf("start with %s databases: %v, first workflow after %v", kind, took.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		if cfg.FrontendPort != 0 && s.Address() != "127.0.0.1:"+strconv.Itoa(cfg.FrontendPort) {
			// Anybody may have taken it while no server ran.
			if l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(cfg.FrontendPort)); err != nil {
				t.Logf("address is %s, because port %d is taken: %v", s.Address(), cfg.FrontendPort, err)
			} else {
				l.Close()
				t.Errorf("address is %s, want port %d again", s.Address(), cfg.FrontendPort)
			}
		}
		for _, address := range listening(t) {
			if !strings.HasPrefix(address, "127.0.0.1:") {
				t.Errorf("listens on %s", address)
			}
		}
		var unlisted *serviceerror.Unimplemented
		if _, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{}); !errors.As(err, &unlisted) || !strings.Contains(err.Error(), "no list of workflows") {
			t.Errorf("a search for workflows: %v", err)
		}
		if n := connections(t, name); n > 40 {
			t.Errorf("%d connections to Postgres", n)
		} else {
			t.Logf("%d connections to Postgres", n)
		}

		// Those of the round before waited while no server ran.
		for _, id := range ids {
			if err := c.SignalWorkflow(t.Context(), id, "", "word", "go"); err != nil {
				t.Fatal(err)
			}
			var got string
			if err := c.GetWorkflow(t.Context(), id, "").Get(t.Context(), &got); err != nil || got != "go" {
				t.Errorf("workflow %s ended with %q, %v", id, got, err)
			}
		}
		ids = []string{id}

		if round == 1 {
			latency(t, c)
		}
		hangUp()
		began = time.Now()
		s.Stop()
		took = time.Since(began)
		t.Logf("stop: %v", took.Round(time.Millisecond))
		if took > 20*time.Second {
			t.Errorf("stop took %v", took)
		}
		s.Stop() // again is fine
		select {
		case <-s.Done():
		default:
			t.Error("Done is open after Stop")
		}
		if err := s.Err(); err != nil {
			t.Errorf("Err after Stop is %v, want nil", err)
		}
		_, port, err := net.SplitHostPort(s.Address())
		if err != nil {
			t.Fatal(err)
		}
		if cfg.FrontendPort, err = strconv.Atoi(port); err != nil {
			t.Fatal(err)
		}
	}
	if text := log.String(); text != "" {
		t.Logf("the server logged:\n%s", text)
	}
}

// latency shows what a signal costs, for comparison between settings.
func latency(t *testing.T, c client.Client) {
	t.Helper()
	var took []time.Duration
	for i := range 30 {
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: fmt.Sprint("latency-", i), TaskQueue: queue}, wait)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.SignalWorkflow(t.Context(), run.GetID(), "", "word", "go"); err != nil {
			t.Fatal(err)
		}
		if err := run.Get(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	median := took[len(took)/2]
	if median > 2*time.Second {
		t.Errorf("a signal takes %v (median): are the settings for latency in force?", median)
	}
	t.Logf("signal to end: median %v, slowest %v", median.Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
}

// connections counts what the server holds open.
func connections(t *testing.T, database string) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.Server(t).SuperuserURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = $1", database).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// listening are the addresses this process listens on, as far as the system tells.
func listening(t *testing.T) []string {
	t.Helper()
	mine := map[string]bool{}
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, "socket:[") {
			mine[strings.Trim(target, "socket:[]")] = true
		}
	}
	var addresses []string
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || fields[3] != "0A" || !mine[fields[9]] {
				continue
			}
			address, port, _ := strings.Cut(fields[1], ":")
			if address == "0100007F" {
				address = "127.0.0.1"
			}
			addresses = append(addresses, address+":"+port)
		}
	}
	return addresses
}

func TestRefusals(t *testing.T) {
	url := pgtest.Server(t).SuperuserURL("postgres")
	name := "role_" + strconv.Itoa(os.Getpid())
	execute(t, "postgres", "CREATE ROLE "+name+" LOGIN PASSWORD 'p'")
	t.Cleanup(func() { execute(t, "postgres", "DROP ROLE "+name) })
	for _, test := range []struct {
		name string
		cfg  devserver.Config
		want string
	}{
		{"no namespace", devserver.Config{PostgresURL: url, Database: "a"}, "namespace"},
		{"no database", devserver.Config{PostgresURL: url, Namespace: "n"}, "database"},
		{"bad url", devserver.Config{PostgresURL: "postgres://:x", Database: "a", Namespace: "n"}, "parse postgres url"},
		{"no rights", devserver.Config{
			PostgresURL: pgtest.Server(t).URL(name, "p", "postgres"), Database: "a", Namespace: "n",
		}, "may not create it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := devserver.Start(t.Context(), test.cfg)
			if err == nil {
				s.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
