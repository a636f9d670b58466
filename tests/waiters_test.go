package tests

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkWaiters gives what 5,000 streams on twenty approvals cost: memory for each,
// the gate's answers beside them, and how long after a vote's answer everybody has been
// told of it.
//
//	go test ./tests -run '^$' -bench Waiters -benchtime 1x
func BenchmarkWaiters(b *testing.B) {
	const streams, approvals, perKey = 5000, 20, 900
	d := startDev(b, nil)
	agent := d.agent(b)
	var waiting []approval
	for i := range approvals {
		waiting = append(waiting, agent.hold("waiters", map[string]any{"n": i}))
	}
	keys := []string{d.AgentKey}
	for len(keys)*perKey < streams {
		keys = append(keys, d.newKey(b, "--agent", "demo-agent"))
	}
	quiet := func() (p50, p99 float64) {
		var took []float64
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
			at := time.Now()
			agent.propose(event("search_docs", "accept", nil)).want(b, http.StatusOK)
			took = append(took, time.Since(at).Seconds()*1000)
		}
		slices.Sort(took)
		return took[len(took)/2], took[len(took)*99/100]
	}
	for range b.N {
		aloneHalf, alone := quiet()
		before := resident(b, d.PID)
		told := make([]time.Time, streams)
		var opened, ended sync.WaitGroup
		opened.Add(streams)
		transport := &http.Transport{MaxIdleConnsPerHost: -1}
		for i := range streams {
			ended.Go(func() {
				once := sync.OnceFunc(opened.Done)
				defer once()
				req, err := http.NewRequest(http.MethodGet, d.URL+approvalPath(waiting[i%approvals].ID)+"/events", nil)
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+keys[i/perKey])
				res, err := transport.RoundTrip(req)
				for ; err == nil && res.StatusCode == http.StatusTooManyRequests; res, err = transport.RoundTrip(req) {
					_ = res.Body.Close()
					time.Sleep(20 * time.Millisecond) // as an agent would
				}
				if err != nil || res.StatusCode != http.StatusOK {
					b.Errorf("stream %d: %+v", i, err)
					return
				}
				defer func() { _ = res.Body.Close() }()
				for lines := bufio.NewScanner(res.Body); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "data: ") {
						once()
					}
					if strings.Contains(lines.Text(), `"status":"approved"`) {
						told[i] = time.Now()
						return
					}
				}
				b.Errorf("stream %d ended before its approval", i)
			})
			if i%200 == 199 { // not all at the same moment
				time.Sleep(50 * time.Millisecond)
			}
		}
		opened.Wait()
		after := resident(b, d.PID)
		besideHalf, beside := quiet()
		voted := make([]time.Time, approvals)
		var votes []float64
		for i, a := range waiting {
			at := time.Now()
			d.reviewer(b, 0).approve(a)
			voted[i] = time.Now()
			votes = append(votes, voted[i].Sub(at).Seconds()*1000)
		}
		ended.Wait()
		var lag []float64
		for i := range told {
			lag = append(lag, told[i].Sub(voted[i%approvals]).Seconds())
		}
		slices.Sort(lag)
		slices.Sort(votes)
		b.ReportMetric(lag[len(lag)/2], "told-p50-s")
		b.ReportMetric(lag[len(lag)-1], "told-last-s")
		b.ReportMetric(votes[len(votes)-1], "slowest-vote-ms")
		b.ReportMetric((after-before)*1024/streams, "KiB/stream")
		b.ReportMetric(besideHalf/aloneHalf, "gate-p50-ratio")
		b.ReportMetric(beside/alone, "gate-p99-ratio")
	}
}

// resident is what a process has resident, in MiB.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kB float64
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		b.Fatal(err)
	}
	return kB / 1024
}
