package tests

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkWaiters gives what 5,000 streams, and 5,000 long polls, on twenty approvals cost:
// memory for each, the gate's answers beside them, and how long after a vote's answer
// everybody has been told of it.
//
//	go test ./tests -run '^$' -bench Waiters -benchtime 1x
func BenchmarkWaiters(b *testing.B) {
	const waiters, approvals, perKey = 5000, 20, 900
	d := startDev(b, nil)
	agent := d.agent(b)
	keys := []string{d.AgentKey}
	for len(keys)*perKey < waiters {
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
	for _, by := range []struct {
		name string
		wait func(w waiter, waits func()) error
	}{{"streams", waiter.stream}, {"polls", waiter.poll}} {
		b.Run("by="+by.name, func(b *testing.B) {
			for range b.N {
				var waiting []approval
				for i := range approvals {
					waiting = append(waiting, agent.hold("waiters", map[string]any{"n": newID(""), "i": i}))
				}
				aloneHalf, alone := quiet()
				before := resident(b, d.PID)
				told := make([]time.Time, waiters)
				var there, ended sync.WaitGroup
				there.Add(waiters)
				transport := &http.Transport{MaxIdleConnsPerHost: perKey, DisableCompression: true}
				for i := range waiters {
					ended.Go(func() {
						waits := sync.OnceFunc(there.Done)
						defer waits()
						w := waiter{transport: transport, url: d.URL + approvalPath(waiting[i%approvals].ID), key: keys[i/perKey]}
						if err := by.wait(w, waits); err != nil {
							b.Errorf("waiter %d: %v", i, err)
						}
						told[i] = time.Now()
					})
					if i%200 == 199 { // not all at the same moment
						time.Sleep(50 * time.Millisecond)
					}
				}
				there.Wait()
				besideHalf, beside := quiet()
				after := resident(b, d.PID)
				voted := make([]time.Time, approvals)
				var votes []float64
				for i, a := range waiting {
					at := time.Now()
					d.reviewer(b, 0).approve(a)
					voted[i] = time.Now()
					votes = append(votes, voted[i].Sub(at).Seconds()*1000)
				}
				ended.Wait()
				transport.CloseIdleConnections()
				var lag []float64
				for i := range told {
					lag = append(lag, told[i].Sub(voted[i%approvals]).Seconds())
				}
				slices.Sort(lag)
				slices.Sort(votes)
				b.ReportMetric(lag[len(lag)/2], "told-p50-s")
				b.ReportMetric(lag[len(lag)-1], "told-last-s")
				b.ReportMetric(votes[len(votes)-1], "slowest-vote-ms")
				b.ReportMetric((after-before)*1024/waiters, "KiB/waiter")
				b.ReportMetric(besideHalf/aloneHalf, "gate-p50-ratio")
				b.ReportMetric(beside/alone, "gate-p99-ratio")
			}
		})
	}
}

// waiter waits for an approval, by a connection of its own.
type waiter struct {
	transport *http.Transport
	url, key  string
}

// ask gets what is at the approval's address with that behind it, as often as it takes.
func (w waiter) ask(rest string) (*http.Response, error) {
	for {
		req, err := http.NewRequest(http.MethodGet, w.url+rest, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+w.key)
		res, err := w.transport.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		switch res.StatusCode {
		case http.StatusOK:
			return res, nil
		case http.StatusTooManyRequests:
			_ = res.Body.Close()
			time.Sleep(20 * time.Millisecond) // as an agent would
		default:
			_ = res.Body.Close()
			return nil, fmt.Errorf("GET %s: %s", rest, res.Status)
		}
	}
}

// stream waits by the approval's stream of events, and calls waits when it has said how
// things stand.
func (w waiter) stream(waits func()) error {
	res, err := w.ask("/events")
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			waits()
		}
		if strings.Contains(lines.Text(), `"status":"approved"`) {
			return nil
		}
	}
	return errors.New("the stream ended before its approval")
}

// poll waits by long polls, one after another, and calls waits when it has had an answer at
// once and is about to ask for the next one.
func (w waiter) poll(waits func()) error {
	for rest := ""; ; rest = "?wait=25" {
		if rest != "" {
			waits()
		}
		res, err := w.ask(rest)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			return err
		}
		if bytes.Contains(body, []byte(`"status":"approved"`)) {
			return nil
		}
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
