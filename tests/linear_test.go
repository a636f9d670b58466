package tests

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// TestLinearizable: whatever people and the agent do at once at two gates, while
// gates and workers are killed, what they are told is what one approval could
// have told them that does one thing after the other.
func TestLinearizable(t *testing.T) {
	ownPrograms(t)
	c := startCluster(t, 2, 2)
	people := make([]*client, len(c.Reviewers))
	for i := range people {
		people[i] = c.reviewer(t, i)
	}
	agent := c.agent(t)
	stop, stopped := make(chan struct{}), make(chan int)
	go func() { stopped <- c.killing(stop) }()
	var mu sync.Mutex
	var sum linearSum
	slots := make(chan struct{}, 6)
	var all sync.WaitGroup
	for i := range rounds() {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			r := recorded{c: c, people: people, agent: agent, tool: "linear_" + newID("")}
			if err := r.run(); err != nil {
				t.Errorf("round %d: %v", i, err)
				return
			}
			checked, wrong := r.check()
			for _, what := range wrong {
				t.Errorf("round %d: %s", i, what)
			}
			mu.Lock()
			defer mu.Unlock()
			sum.add(checked)
		})
	}
	all.Wait()
	close(stop)
	t.Logf("%d kills; %+v", <-stopped, sum)
	if sum.Lies == 0 || sum.Open > sum.Lies/2 {
		t.Errorf("of %d lies %d were not told in %s each: too little was checked", sum.Lies, sum.Open, checkWithin)
	}
}

// linearSum is what rounds came to.
type linearSum struct {
	Operations, Lost int // Lost are those without a reply
	Ends, Codes      map[string]int
	Lies, Open       int // Open are histories, true or with a lie, that took too long to check
	Longest          time.Duration
}

func (s *linearSum) add(o linearSum) {
	if s.Ends == nil {
		s.Ends, s.Codes = map[string]int{}, map[string]int{}
	}
	for k, n := range o.Ends {
		s.Ends[k] += n
	}
	for k, n := range o.Codes {
		s.Codes[k] += n
	}
	s.Operations, s.Lost, s.Lies, s.Open = s.Operations+o.Operations, s.Lost+o.Lost, s.Lies+o.Lies, s.Open+o.Open
	s.Longest = max(s.Longest, o.Longest)
}

// check is whether what was recorded is linearizable, and the same with a lie is
// not. What takes too long to check says neither.
func (r *recorded) check() (sum linearSum, wrong []string) {
	sum = linearSum{Operations: len(r.history), Ends: map[string]int{r.end: 1}, Codes: map[string]int{}}
	for _, op := range r.history {
		if o := op.Output.(reply); o.unknown {
			sum.Lost++
		} else {
			sum.Codes[op.Input.(request).what+" "+o.code]++
		}
	}
	began := time.Now()
	verdict, info := linearizable(r.begins, r.history, checkWithin)
	sum.Longest = time.Since(began)
	if verdict == porcupine.Unknown {
		sum.Open++
	}
	if verdict == porcupine.Illegal {
		return sum, []string{"it is not linearizable:\n" + r.story(info)}
	}
	for name, h := range doctored(r.history) {
		sum.Lies++
		began = time.Now()
		verdict, info := linearizable(r.begins, h, checkWithin)
		if verdict == porcupine.Unknown {
			sum.Open++
		}
		if verdict == porcupine.Ok {
			wrong = append(wrong, fmt.Sprintf("a history with %s is taken for linearizable:\n%s", name, r.story(info)))
		}
		sum.Longest = max(sum.Longest, time.Since(began))
	}
	return sum, wrong
}

// killing kills one process after the other and starts it again, until it is told
// to stop. It returns how many it has killed.
func (c *cluster) killing(stop <-chan struct{}) (kills int) {
	for {
		select {
		case <-stop:
			return kills
		case <-time.After(time.Duration(200+rand.IntN(600)) * time.Millisecond): // the phase is the test
		}
		i := rand.IntN(len(c.serves))
		victim, name, env, args := &c.serves[i], fmt.Sprintf("serve-%d-%d", i, kills), []string{
			"HOLDPOINT_LISTEN=" + strings.TrimPrefix(c.urls[i], "http://"), "HOLDPOINT_PUBLIC_URL=" + c.urls[i],
		}, "serve"
		if rand.IntN(2) == 0 {
			i := rand.IntN(len(c.workers))
			victim, name, env, args = &c.workers[i], fmt.Sprintf("worker-%d-%d", i, kills), nil, "worker"
		}
		(*victim).kill()
		kills++
		p, err := run(binary(c.t), c.dir, name, environment(append(env, c.env...)...), nil, args)
		if err != nil {
			c.t.Errorf("start %s again: %v", name, err)
			return kills
		}
		*victim = p
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			ready := strings.Contains(p.text(), `"working"`)
			if args == "serve" {
				ready = c.client(c.t).at("http://"+strings.TrimPrefix(env[0], "HOLDPOINT_LISTEN=")).do("GET", "/readyz", nil).Status == 200
			}
			if ready {
				break
			}
			if p.exited() || time.Since(began) > readyWithin {
				c.t.Errorf("%s does not come up again\n%s", name, p.tail())
				return kills
			}
		}
	}
}

// recorded is one approval, and what its clients did and were told.
type recorded struct {
	c      *cluster
	people []*client
	agent  *client
	tool   string
	id     string
	begins standing
	end    string

	mu      sync.Mutex
	history []porcupine.Operation
	edits   int
}

// run opens the approval, has everybody work on it, and waits for its end.
func (r *recorded) run() error {
	var a approval
	deadline := time.Now().Add(readyWithin + settleWithin)
	for opened := false; !opened; {
		got := r.agent.at(r.c.where(rand.IntN(2))).propose(event(r.tool, "defer", map[string]any{"n": 0}))
		var v struct{ Approval approval }
		if opened = got.Status == 202; opened {
			got.into(r.agent.t, &v)
			a = v.Approval
		} else if got.Err == nil && got.Status < 500 {
			return fmt.Errorf("propose: %s", got)
		} else if time.Now().After(deadline) {
			return fmt.Errorf("nobody opens it: %s", got)
		} else {
			time.Sleep(50 * time.Millisecond) // whoever was killed is being started again
		}
	}
	if want := linearDigest(r.tool, 0); a.Digest != want {
		return fmt.Errorf("the digest is %s, want %s", a.Digest, want)
	}
	r.id, r.begins = a.ID, begun(a.Digest, a.ExpiresAt.UnixNano())
	var all sync.WaitGroup
	for i := range len(r.people) + 2 {
		all.Go(func() { r.work(i, a) })
	}
	all.Wait()
	// Nothing missing: it ends, and all that is known of it then is the end.
	deadline = time.Now().Add(settleWithin + 5*time.Second)
	for {
		seen, ok := r.do(len(r.people), request{what: "read"})
		if ok && seen.Status != "pending" {
			r.end = seen.Status
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s has not ended: %+v", r.id, seen)
		}
		time.Sleep(100 * time.Millisecond)
	}
	// What never was answered can have been done until now.
	for i, op := range r.history {
		if out := op.Output.(reply); out.unknown {
			out.at = time.Now().UnixNano()
			r.history[i].Output = out
		}
	}
	return nil
}

// work is one client: a reviewer, or the agent twice.
func (r *recorded) work(i int, a approval) {
	requests := []string{"approve", "approve", "approve", "deny", "edit", "ask", "ask", "extend", "read", "read"}
	if i >= len(r.people) {
		requests = []string{"tell", "tell", "tell", "read", "read", "read", "read", "cancel"}
	}
	for range 3 + rand.IntN(4) {
		<-time.After(time.Duration(rand.IntN(450)) * time.Millisecond) // the phase is the test
		d := request{what: requests[rand.IntN(len(requests))], who: uint(i), digest: a.Digest, version: a.Version, by: time.Duration(rand.IntN(4)) * 100 * time.Millisecond}
		d.by = cmp.Or(d.by, 50*time.Millisecond)
		seen, ok := r.do(i, d)
		if ok {
			a = seen
		}
		if ok && a.Status != "pending" {
			return
		}
	}
}

// do does one thing at one of the gates and records it. ok says that the answer
// showed the approval.
func (r *recorded) do(i int, d request) (seen approval, ok bool) {
	c := r.agent
	if i < len(r.people) {
		c = r.people[i]
	}
	c = c.at(r.c.where(rand.IntN(2)))
	card := map[string]any{"digest": d.digest, "version": d.version}
	var path string
	var body map[string]any
	switch d.what {
	case "approve", "deny":
		path, body = "/votes", ballot(approval{Digest: d.digest, Version: d.version}, d.what)
	case "edit":
		r.mu.Lock()
		r.edits++
		n := r.edits
		r.mu.Unlock()
		card["arguments"], card["comment"], d.becomes = map[string]any{"n": n}, "x", linearDigest(r.tool, n)
		path, body = "/edits", card
	case "ask":
		path, body = "/questions", map[string]any{"comment": "Why?"}
	case "tell":
		path, body = "/answers", map[string]any{"information": "Because."}
	case "extend":
		path, body = "/extensions", map[string]any{"by": d.by.String()}
	case "cancel":
		path, body = "/cancel", map[string]any{}
	}
	method := "POST"
	d.called = time.Now().UnixNano()
	var got answer
	if d.what == "read" {
		method = "GET"
		got = c.do(method, approvalPath(r.id), nil)
	} else {
		got = c.do(method, approvalPath(r.id)+path, body)
	}
	out := reply{at: time.Now().UnixNano(), code: got.code(), unknown: got.Err != nil || got.Status >= 500}
	switch {
	case errors.Is(got.Err, syscall.ECONNREFUSED) || out.unknown && method == "GET":
		return seen, false // nobody heard it, or it does nothing
	case got.Status == 200 && json.Unmarshal(got.Body, &seen) == nil:
		ok = true
		out.seen = &snapshot{
			status: seen.Status, digest: seen.Digest, version: seen.Version, edition: seen.Edition, given: seen.Requirements[0].Given,
			denied: seen.Requirements[0].Denied, question: seen.Question != nil, expires: seen.ExpiresAt.UnixNano(),
		}
	case !out.unknown && out.code == "":
		out.code = got.String() // which no outcome of the model is
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, did(i, d, out))
	return seen, ok
}

// linearDigest is the digest of the call with one argument: of the canonical JSON
// of tool and arguments.
func linearDigest(tool string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, `{"arguments":{"n":%d},"tool":"%s"}`, n, tool))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// story is the history in the order of its calls, as far as it can be explained.
func (r *recorded) story(info porcupine.LinearizationInfo) string {
	var b strings.Builder
	explained := map[int]bool{}
	for _, partial := range info.PartialLinearizations() {
		for _, order := range partial {
			if len(order) > len(explained) {
				explained = map[int]bool{}
				for _, id := range order {
					explained[id] = true
				}
			}
		}
	}
	for i, op := range r.history {
		d, out := op.Input.(request), op.Output.(reply)
		mark := " "
		if !explained[i] {
			mark = "?"
		}
		fmt.Fprintf(&b, "%s client %d %6.1f–%6.1f ms %s by %s on %.12s v%d → %q unknown=%v", mark, op.ClientId, r.ms(d.called), r.ms(out.at), d.what, d.by, d.digest, d.version, out.code, out.unknown)
		if g := out.seen; g != nil {
			fmt.Fprintf(&b, " %s %.12s v%d e%d given %d denied %d question %v until %.1f", g.status, g.digest, g.version, g.edition, g.given, g.denied, g.question, r.ms(g.expires))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// ms is a moment, counted from two and a half seconds before the first deadline.
func (r *recorded) ms(at int64) float64 {
	return float64(at-r.begins.deadline.lo)/1e6 + 2500
}
