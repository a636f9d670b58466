package tests

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"html"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var mostPending = flag.Int("pending", 10_000, "BenchmarkPending: how many approvals wait in the end, up to 100,000")

// BenchmarkPending gives what approvals that wait cost everybody else: the gate, the inbox,
// a card and a vote beside 10, 1,000, 10,000 and 100,000 of them, memory and processor
// time of a program that has nothing to do, bytes, and a restart.
//
//	go test ./tests -run '^$' -bench Pending -benchtime 1x -timeout 2h -pending 100000
func BenchmarkPending(b *testing.B) {
	p := pendingBench{startDev(b, func(o *devOptions) { o.policy = "max_pending: 200000\n" + sharedPolicy })}
	there, whole := 0, b
	for _, size := range []int{10, 1_000, 10_000, 100_000} {
		if size > *mostPending {
			break
		}
		b.Run(fmt.Sprintf("waiting=%d", size), func(b *testing.B) {
			for range b.N {
				p.open(b, there, size)
				there = size
				p.quiet(b)
				p.beside(b)
				p.idle(b)
				if err := p.program.stop(); err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				p.dev = p.again(whole, nil)
				b.ReportMetric(time.Since(began).Seconds(), "restart-s")
				b.ReportMetric(p.vote(b), "vote-to-token-after-restart-ms")
			}
		})
	}
}

type pendingBench struct{ *dev }

// ask asks the database for one figure.
func (p pendingBench) ask(b *testing.B, sql string) (figure float64) {
	b.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, p.OwnerURL)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, sql).Scan(&figure); err != nil {
		b.Fatal(err)
	}
	return figure
}

// open opens approvals until so many wait. It reports how many a second were opened, and
// how many a second Temporal had taken by then.
func (p pendingBench) open(b *testing.B, from, to int) {
	b.Helper()
	agent := p.agent(b)
	began := time.Now()
	var group sync.WaitGroup
	for caller := range 16 {
		group.Go(func() {
			for i := from + caller; i < to; i += 16 {
				agent.hold("pending_call", map[string]any{"n": i})
			}
		})
	}
	group.Wait()
	n := float64(to - from)
	b.ReportMetric(n/time.Since(began).Seconds(), "opened/s")
	// Behind the first tasks of all of them.
	b.ReportMetric(p.vote(b), "vote-to-token-at-once-ms")
	for p.ask(b, `SELECT count(*)::float8 FROM outbox`) > 0 {
		time.Sleep(20 * time.Millisecond) // the phase is the measure
	}
	b.ReportMetric(n/time.Since(began).Seconds(), "in-temporal/s")
}

// quiet waits until Temporal is through with the first tasks of what was opened, and
// reports how long that took. Nothing says when, but the processors.
func (p pendingBench) quiet(b *testing.B) {
	b.Helper()
	began := time.Now()
	for time.Since(began) < 40*time.Minute {
		before := p.spent(b)
		time.Sleep(time.Second)
		if p.spent(b)-before < 0.2 {
			break
		}
	}
	b.ReportMetric(time.Since(began).Seconds(), "until-quiet-s")
}

// beside reports what others notice of what waits.
func (p pendingBench) beside(b *testing.B) {
	b.Helper()
	agent := p.agent(b)
	some := agent.hold("pending_card", map[string]any{"n": newID("")})
	half := func(name string, do func()) {
		var took []float64
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			at := time.Now()
			do()
			took = append(took, time.Since(at).Seconds()*1000)
		}
		slices.Sort(took)
		b.ReportMetric(took[len(took)/2], name+"-p50-ms")
		b.ReportMetric(took[len(took)*99/100], name+"-p99-ms")
	}
	half("gate", func() { agent.propose(event("search_docs", "accept", nil)).want(b, http.StatusOK) })
	p.pages(b, map[string]string{
		"inbox": "/", "search": "/?q=pending_c", "group": "/?group=alike", "card": "/approvals/" + some.ID,
	})
	p.change(b)
	b.ReportMetric(p.vote(b), "vote-to-token-ms")
}

// pages reports what pages take, from the request's first byte to the answer's last, and
// how large they are. They are asked for in turns, and of several rounds the one with the
// least at 95 of 100 is reported: others use the processors, too.
func (p pendingBench) pages(b *testing.B, paths map[string]string) {
	b.Helper()
	const rounds, looks = 5, 60
	reviewer := p.reviewer(b, 0)
	names := slices.Sorted(maps.Keys(paths))
	best, size := map[string][]float64{}, map[string]int{}
	for range rounds {
		took := map[string][]float64{}
		for range looks {
			for _, name := range names {
				got := reviewer.do("GET", paths[name], nil)
				got.want(b, http.StatusOK)
				took[name], size[name] = append(took[name], got.Took.Seconds()*1000), len(got.Body)
			}
		}
		for name, each := range took {
			slices.Sort(each)
			if before := best[name]; before == nil || each[looks*95/100] < before[looks*95/100] {
				best[name] = each
			}
		}
	}
	for name, took := range best {
		for _, of := range []int{50, 95, 99} {
			b.ReportMetric(took[looks*of/100], fmt.Sprintf("%s-p%d-ms", name, of))
		}
		b.ReportMetric(float64(size[name])/1024, name+"-KiB")
	}
}

var (
	liveAddress = regexp.MustCompile(`data-live="([^"]+)"`)
	listedRow   = regexp.MustCompile(`data-row="(apr_[a-z0-9]+)"`)
)

// change reports what an open inbox is sent when one of its rows goes and another comes,
// and how long after the vote. A stream waits 150 ms for further changes.
func (p pendingBench) change(b *testing.B) {
	b.Helper()
	reviewer, other := p.reviewer(b, 0), p.reviewer(b, 1)
	page := reviewer.do("GET", "/", nil)
	page.want(b, http.StatusOK)
	live, rows := liveAddress.FindSubmatch(page.Body), listedRow.FindAllSubmatch(page.Body, 10)
	if live == nil || rows == nil {
		b.Fatal("the inbox has no rows, or tells no changes")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+html.UnescapeString(string(live[1])), nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Cookie", reviewer.cookie)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewReader(res.Body)
	event := func() (text string) { // the next one that is none to say that the stream is there
		for !strings.HasSuffix(text, "\n\n") || strings.HasPrefix(text, ":") {
			if strings.HasSuffix(text, "\n\n") {
				text = ""
			}
			line, err := lines.ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			text += line
		}
		return text
	}
	for range 2 { // it is listened to
		if _, err := lines.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
	}
	var took, bytes []float64
	for _, row := range rows {
		waits := other.get(string(row[1]))
		other.vote(waits, "deny").want(b, http.StatusOK)
		at := time.Now()
		bytes = append(bytes, float64(len(event())))
		took = append(took, time.Since(at).Seconds()*1000)
	}
	slices.Sort(took)
	slices.Sort(bytes)
	b.ReportMetric(took[len(took)/2], "change-ms")
	b.ReportMetric(bytes[len(bytes)/2]/1024, "change-KiB")
}

// vote gives the median of how long a token takes after its vote, in milliseconds.
func (p pendingBench) vote(b *testing.B) float64 {
	b.Helper()
	agent, reviewer := p.agent(b), p.reviewer(b, 0)
	var took []float64
	for range 10 {
		a := agent.hold("pending_vote", map[string]any{"n": newID("")})
		at := time.Now()
		reviewer.approve(a)
		if got := agent.wait(a.ID); got.Token == "" {
			b.Fatalf("%s is %s", a.ID, got.Status)
		}
		took = append(took, time.Since(at).Seconds()*1000)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// idle reports what the program and its Postgres use while nobody asks for anything.
func (p pendingBench) idle(b *testing.B) {
	b.Helper()
	const quiet = 10 * time.Second
	time.Sleep(2 * time.Second) // what was under way ends
	before := p.spent(b)
	time.Sleep(quiet)
	b.ReportMetric(100*(p.spent(b)-before)/quiet.Seconds(), "idle-cpu-%")
	b.ReportMetric(resident(b, p.PID), "MiB")
	b.ReportMetric(p.ask(b, `SELECT sum(pg_database_size(oid))::float8 / (1 << 20) FROM pg_database`), "database-MiB")
}

// spent is the processor time of the program and of what it started, in seconds.
func (d *dev) spent(t testing.TB) (seconds float64) {
	t.Helper()
	out, err := exec.Command("ps", "-e", "-o", "pid=,ppid=").Output()
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for line := range strings.Lines(string(out)) {
		var pid, parent int
		if _, err := fmt.Sscan(line, &pid, &parent); err == nil {
			parents[pid] = parent
		}
	}
	for pid := range parents {
		for up := pid; up > 1; up = parents[up] {
			if up != d.PID {
				continue
			}
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				break // it has ended
			}
			_, rest, _ := strings.Cut(string(text), ") ")
			fields := strings.Fields(rest)
			for _, ticks := range fields[11:13] { // utime and stime, in hundredths
				n, err := strconv.ParseFloat(ticks, 64)
				if err != nil {
					t.Fatal(err)
				}
				seconds += n / 100
			}
			break
		}
	}
	return seconds
}
