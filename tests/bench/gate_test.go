// Package bench measures; it asserts nothing but that answers are right. Every
// figure is given with the ratio to a reference measured in the same run,
// because machines differ and are noisy.
//
//	go test ./tests/bench -bench . -benchtime 1x
package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var (
	seconds = flag.Float64("seconds", 2, "how long each measurement of a round lasts")
	rounds  = flag.Int("bench-rounds", 3, "interleaved rounds; the median counts")
)

// machine is a running "holdpoint dev", fsync on.
type machine struct {
	URL              string `json:"url"`
	AgentKey         string `json:"agent_key"`
	RuntimeKey       string `json:"runtime_key"`
	PID              int    `json:"pid"`
	DatabaseAdminURL string `json:"database_admin_url"`
	path             string // of the check, where it is another one
}

func start(b *testing.B) machine {
	b.Helper()
	dir := b.TempDir()
	binary := filepath.Join(dir, "holdpoint")
	build := exec.Command("go", "build", "-o", binary, "./cmd/holdpoint")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	data := filepath.Join(dir, "data")
	var log bytes.Buffer
	dev := exec.Command(binary, "dev", "--data", data, "--listen", "127.0.0.1:0")
	dev.Stdout, dev.Stderr = &log, &log
	if err := dev.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- dev.Wait() }()
	b.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(15 * time.Second):
			_ = dev.Process.Kill()
		}
	})
	var m machine
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(data, "dev.json"))
		if err == nil {
			if err := json.Unmarshal(text, &m); err != nil {
				b.Fatal(err)
			}
			return m
		}
		select {
		case err := <-ended:
			b.Fatalf("dev ended: %v\n%s", err, log.String())
		default:
		}
		if time.Now().After(deadline) {
			b.Fatalf("dev is not ready\n%s", log.String())
		}
	}
}

// call is a 1 KB event that is decided at once.
var call = []byte(`{"tool_name":"search_docs","tool_category":"public_read","authorization_state":"none","evidence_refs":["doc:1","doc:2"],"risk_domain":"research",` +
	`"proposed_arguments":{"query":"` + strings.Repeat("hold point ", 60) + `","limit":10,"filters":{"language":"en","tags":["a","b","c"]}},"recommended_route":"accept"}`)

type measured struct {
	n         float64 // how many there were
	perSecond float64
	p50, p99  time.Duration
}

// gate asks the gate for decisions from as many callers for a while, by http.Client.
func gate(b *testing.B, m machine, callers int) measured {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers, MaxConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	return during(b, callers, func(int) error { return ask(client, m) })
}

// lean asks the gate for decisions from as many callers for a while, each over a connection
// of its own and without http.Client.
func lean(b *testing.B, m machine, callers int) measured {
	b.Helper()
	all := make([]*caller, callers)
	for i := range all {
		c, err := dial(m.URL, m.AgentKey)
		if err != nil {
			b.Fatal(err)
		}
		defer c.close()
		all[i] = c
	}
	return during(b, callers, func(i int) error {
		status, body, err := all[i].ask()
		if err == nil && (status != http.StatusOK || !bytes.Contains(body, passes)) {
			err = fmt.Errorf("%d: %s", status, body)
		}
		return err
	})
}

// during has as many callers ask again and again for a while.
func during(b *testing.B, callers int, ask func(caller int) error) measured {
	b.Helper()
	latencies := make([][]time.Duration, callers)
	var failed atomic.Pointer[string]
	var group sync.WaitGroup
	began := time.Now()
	for i := range callers {
		group.Go(func() {
			for at := began; at.Sub(began).Seconds() < *seconds && failed.Load() == nil; {
				if err := ask(i); err != nil {
					text := err.Error()
					failed.Store(&text)
					return
				}
				now := time.Now()
				latencies[i] = append(latencies[i], now.Sub(at))
				at = now
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	if text := failed.Load(); text != nil {
		b.Fatal(*text)
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return measured{n: float64(len(all)), perSecond: float64(len(all)) / took.Seconds(), p50: all[len(all)/2], p99: all[len(all)*99/100]}
}

// passes is in the answer to a call that may run.
var passes = []byte(`"gate_decision":"pass"`)

func ask(client *http.Client, m machine) error {
	r, err := http.NewRequest(http.MethodPost, m.URL+cmp.Or(m.path, "/v1/pre-tool-check"), bytes.NewReader(call))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+m.AgentKey)
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK || !bytes.Contains(body, passes) {
		return fmt.Errorf("%s: %s", answer.Status, body)
	}
	return nil
}

// insertedRow is the text of a row that pgbench inserts, and the bare server.
var insertedRow = strings.Repeat("x", 500)

var (
	tps       = regexp.MustCompile(`tps = ([0-9.]+)`)
	processed = regexp.MustCompile(`actually processed: ([0-9]+)`)
)

// pgbench inserts single rows of about an event's size into a table of the same
// database, one commit each, from as many clients for as long.
func pgbench(b *testing.B, m machine, clients int) inserted {
	b.Helper()
	program, err := exec.LookPath("pgbench")
	if err != nil {
		found, globErr := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
		if globErr != nil || len(found) == 0 {
			b.Fatal("pgbench is missing; it comes with Postgres")
		}
		program = found[len(found)-1]
	}
	script := filepath.Join(b.TempDir(), "insert.sql")
	if err := os.WriteFile(script, []byte("INSERT INTO bench_rows (agent, tool, body) VALUES ('agent', 'tool', '"+insertedRow+"');\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	insert := func(how ...string) (out []byte, took float64) {
		before := processors(b)
		run := exec.Command(program, append(how, "-n", "-M", "prepared", "-f", script, "-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, 2)), m.DatabaseAdminURL)...) // #nosec G204 -- pgbench
		out, err := run.CombinedOutput()
		if err != nil {
			b.Fatalf("pgbench: %v\n%s", err, out)
		}
		// Its sessions have ended with it; those of others are in both.
		running, ended := processors(b).since(before).belowAndEnded(m.PID)
		return out, running + ended + float64((run.ProcessState.UserTime() + run.ProcessState.SystemTime()).Microseconds())
	}
	_, connecting := insert("-t", "1")
	out, took := insert("-T", strconv.Itoa(max(1, int(*seconds))), "--log", "--log-prefix="+filepath.Join(filepath.Dir(script), "log"), "--sampling-rate=0.1")
	match, rows := tps.FindSubmatch(out), processed.FindSubmatch(out)
	if match == nil || rows == nil {
		b.Fatalf("pgbench: %s", out)
	}
	rate, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.ParseFloat(string(rows[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return inserted{perSecond: rate, cost: (took - connecting) / n, p99: slowest(b, filepath.Dir(script))}
}

// inserted is what pgbench found: cost is the processor time for a row, of pgbench and
// Postgres together, without that for connecting, in microseconds; p99 is what 99 of 100 of
// every tenth row took at most, in milliseconds.
type inserted struct{ perSecond, cost, p99 float64 }

// slowest is what 99 of 100 rows took at most, by the logs that pgbench has left.
func slowest(b *testing.B, dir string) float64 {
	b.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "log.*"))
	if err != nil {
		b.Fatal(err)
	}
	var took []float64
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line) // client, transaction, microseconds, …
			if len(fields) < 3 {
				b.Fatalf("%s: %s", log, line)
			}
			us, err := strconv.ParseFloat(fields[2], 64)
			if err != nil {
				b.Fatalf("%s: %s", log, line)
			}
			took = append(took, us/1000)
		}
	}
	if len(took) == 0 {
		b.Fatalf("pgbench has logged no row in %s", dir)
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// own is the processor time that this process has taken, in microseconds.
func own(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
}

// BenchmarkGate gives the gate's durable decisions a second, over HTTP with the
// load client on the same machine, and their ratio to pgbench's single-row
// inserts. ratio-of-parts is to a decision that would cost no more than its parts: a
// request to a server that does nothing, and one such insert. Where callers share a
// commit, a decision may cost less than that.
//
// decisions/s and ratio are by Go's http.Client, as they always were. What is lean is by a
// client that takes as little of the machine as pgbench does, and so says what the gate can.
//
// floor-… is a server of net/http that does nothing but insert pgbench's row for each
// request, asked by the lean client: what is between it and the gate is the gate's own.
// cpu-us-… is processor time for a decision or a row, in microseconds, of the program, of its
// Postgres, and of the floor's two, of the lean client, of net/http with nothing behind it, and
// of pgbench with its Postgres: on a busy machine it says more than a rate.
//
// limit-ratio is what the ratio would come to, by these times, if the program had nothing to
// do but net/http: client, net/http, and what Postgres takes for the event and its place.
func BenchmarkGate(b *testing.B) {
	m := start(b)
	prepare := exec.Command("psql", m.DatabaseAdminURL, "-q", "-c", "CREATE TABLE bench_rows (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, agent text, tool text, body text, at timestamptz DEFAULT clock_timestamp())")
	if out, err := prepare.CombinedOutput(); err != nil {
		b.Fatalf("psql: %v\n%s", err, out)
	}
	bare, floor := startBare(b, ""), startBare(b, m.DatabaseAdminURL)
	gate(b, m, 8) // warm
	lean(b, floor, 8)
	gate(b, bare, 8)
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			for range b.N {
				var ours, light, theirs, their99, http, p50, p99, lean50, lean99, least []float64
				var cpu [7][]float64
				for range *rounds {
					rows := pgbench(b, m, callers)
					theirs, their99, cpu[6] = append(theirs, rows.perSecond), append(their99, rows.p99), append(cpu[6], rows.cost)
					http = append(http, gate(b, bare, callers).perSecond)
					got := gate(b, m, callers)
					ours, p50, p99 = append(ours, got.perSecond), append(p50, ms(got.p50)), append(p99, ms(got.p99))
					before, mine := processors(b), own(b)
					got = lean(b, m, callers)
					mine = own(b) - mine
					used := processors(b).since(before)
					cpu[0], cpu[1] = append(cpu[0], used.of(m.PID)/got.n), append(cpu[1], used.below(m.PID)/got.n)
					cpu[4] = append(cpu[4], mine/got.n)
					light, lean50, lean99 = append(light, got.perSecond), append(lean50, ms(got.p50)), append(lean99, ms(got.p99))
					before = processors(b)
					got = lean(b, floor, callers)
					used = processors(b).since(before)
					cpu[2], cpu[3] = append(cpu[2], used.of(floor.PID)/got.n), append(cpu[3], used.below(m.PID)/got.n)
					least = append(least, got.perSecond)
					before = processors(b)
					got = lean(b, bare, callers)
					cpu[5] = append(cpu[5], processors(b).since(before).of(bare.PID)/got.n)
				}
				b.ReportMetric(median(ours), "decisions/s")
				b.ReportMetric(median(light), "lean-decisions/s")
				b.ReportMetric(median(theirs), "pgbench/s")
				b.ReportMetric(median(http), "bare-http/s")
				b.ReportMetric(median(least), "floor/s")
				b.ReportMetric(median(ours)/median(theirs), "ratio")
				b.ReportMetric(median(least)/median(theirs), "floor-ratio")
				for i, name := range []string{"cpu-us-program", "cpu-us-postgres", "cpu-us-floor", "cpu-us-floor-postgres", "cpu-us-client", "cpu-us-net-http", "cpu-us-pgbench"} {
					b.ReportMetric(median(cpu[i]), name)
				}
				b.ReportMetric(median(cpu[6])/(median(cpu[4])+median(cpu[5])+median(cpu[1])), "limit-ratio")
				b.ReportMetric(median(light)/median(theirs), "lean-ratio")
				b.ReportMetric(median(ours)*(1/median(http)+1/median(theirs)), "ratio-of-parts")
				b.ReportMetric(median(p50), "p50-ms")
				b.ReportMetric(median(p99), "p99-ms")
				b.ReportMetric(median(lean50), "lean-p50-ms")
				b.ReportMetric(median(lean99), "lean-p99-ms")
				b.ReportMetric(median(their99), "pgbench-p99-ms")
				b.ReportMetric(median(lean99)/median(their99), "lean-ratio-p99")
			}
		})
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
