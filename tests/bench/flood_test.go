package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// long is a call of 1 MB with many members.
func long() []byte {
	var b bytes.Buffer
	b.WriteString(`{"tool_name":"search_docs","tool_category":"public_read","authorization_state":"none","evidence_refs":[],"risk_domain":"research","proposed_arguments":{"query":[""`)
	for i := 0; b.Len() < 1_000_000; i++ {
		fmt.Fprintf(&b, `,{"n":%d,"text":"hold point"}`, i)
	}
	b.WriteString(`]},"recommended_route":"accept"}`)
	return b.Bytes()
}

// BenchmarkFlood measures what one key's 120 connections with calls of 1 MB do to
// another key's calls, one after another, and to the server's memory.
func BenchmarkFlood(b *testing.B) {
	m := start(b)
	quiet := machine{URL: m.URL, AgentKey: m.RuntimeKey}
	measure := func() (p50, p99 time.Duration) {
		var took []time.Duration
		for end := time.Now().Add(time.Duration(*seconds * float64(time.Second))); time.Now().Before(end); {
			at := time.Now()
			if status, err := propose(quiet, call); err != nil || status != http.StatusOK {
				b.Fatalf("the quiet key's call: %d, %v", status, err)
			}
			took = append(took, time.Since(at))
		}
		slices.Sort(took)
		return took[len(took)/2], took[len(took)*99/100]
	}
	for b.Loop() {
		measure() // whatever is slow the first time
		alone50, alone := measure()
		before := memory(b, m.PID)
		flood := exec.Command("nice", "-n", "19", os.Args[0], "-test.run=^TestFloodProcess$")
		flood.Env = append(os.Environ(), "HOLDPOINT_FLOOD="+m.URL, "HOLDPOINT_FLOOD_KEY="+m.AgentKey)
		var output bytes.Buffer
		flood.Stdout, flood.Stderr = &output, os.Stderr
		stop, err := flood.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := flood.Start(); err != nil {
			b.Fatal(err)
		}
		beside50, beside := measure()
		after := memory(b, m.PID)
		_ = stop.Close()
		if err := flood.Wait(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(alone.Microseconds())/1000, "p99-alone-ms")
		b.ReportMetric(float64(beside.Microseconds())/1000, "p99-beside-ms")
		b.ReportMetric(float64(beside)/float64(alone), "ratio-p99")
		b.ReportMetric(float64(beside50)/float64(alone50), "ratio-p50")
		b.ReportMetric(float64(alone50.Microseconds())/1000, "p50-alone-ms")
		b.ReportMetric(before, "MiB-before")
		b.ReportMetric(after, "MiB-after")
		b.Log(strings.Split(output.String(), "\n")[0])
	}
}

// TestFloodProcess is the flood, in a process of its own that leaves the processors to
// whom it floods: elsewhere it would have its own.
func TestFloodProcess(t *testing.T) {
	m := machine{URL: os.Getenv("HOLDPOINT_FLOOD"), AgentKey: os.Getenv("HOLDPOINT_FLOOD_KEY")}
	if m.URL == "" {
		t.Skip("a process of BenchmarkFlood")
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when it is closed
		cancel()
	}()
	body := long()
	var group sync.WaitGroup
	var judged, refused, cut atomic.Int64
	for range 120 {
		group.Go(func() {
			for ctx.Err() == nil {
				switch status, err := propose(m, body); {
				case err != nil:
					cut.Add(1) // refused, as it was still being sent
				case status < 300:
					judged.Add(1)
				case status == http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("the flood is answered %d", status)
				}
			}
		})
	}
	group.Wait()
	fmt.Printf("of the flood, %d calls were judged, %d refused and %d cut off\n", judged.Load(), refused.Load(), cut.Load())
}

// propose sends a call, and returns the answer's status.
func propose(m machine, what []byte) (int, error) {
	r, err := http.NewRequest(http.MethodPost, m.URL+"/v1/pre-tool-check", bytes.NewReader(what))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+m.AgentKey)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// memory is what a process has resident, in MiB.
func memory(b *testing.B, pid int) float64 {
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
