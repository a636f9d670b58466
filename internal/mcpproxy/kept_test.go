package mcpproxy

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	holdpoint "holdpoint.example/client"

	"holdpoint/engine/canon"
)

// keptHosts are hosts of one agent, one after another or at once, each with a proxy of its
// own that keeps tasks in one directory.
type keptHosts struct {
	*workshop
	dir string
}

func newKeptHosts(t *testing.T) *keptHosts {
	w := newWorkshop(t)
	w.office.outcome = "REQUIRE_APPROVAL"
	return &keptHosts{w, filepath.Join(t.TempDir(), "tasks")}
}

func (k *keptHosts) open(edit ...func(*Config)) *taskHost {
	k.t.Helper()
	return k.tasking(tasksVersion, `{}`, func(c *Config) {
		c.Tasks = k.dir
		for _, e := range edit {
			e(c)
		}
	})
}

// anew ends a host's conversation, and opens another one.
func (k *keptHosts) anew(h *taskHost) *taskHost {
	k.t.Helper()
	k.ends(h)
	return k.open()
}

func (k *keptHosts) ends(h *taskHost) {
	k.t.Helper()
	if err := h.leave(); err != nil {
		k.t.Fatal(err)
	}
	<-k.done
	k.done <- nil // for its cleanup
}

// waits begins a task that waits for people.
func (k *keptHosts) waits(h *taskHost, arguments, task string) (s state, a *held) {
	k.t.Helper()
	s = h.begin("pay", arguments, task)
	k.office.set(func() { a = k.office.approvals[len(k.office.approvals)-1] }) // it is there before the task is told
	if a.arguments != arguments {
		k.t.Fatalf("the newest approval is of %s", a.arguments)
	}
	return s, a
}

// over fails the test unless a task's result is an error that says this, and nothing has
// been proposed or run for it.
func (k *keptHosts) over(h *taskHost, id, says string) {
	k.t.Helper()
	runs, checks := k.runs.Load(), 0
	k.office.set(func() { checks = len(k.office.checks) })
	for _, method := range []string{"tasks/get", "tasks/get"} {
		if _, err := h.about(method, id); err != nil {
			k.t.Errorf("%s: %v", method, err)
		}
	}
	if text, isError := h.result(id); !isError || !strings.Contains(text, says) {
		k.t.Errorf("its result is %t %q, want %q", isError, text, says)
	}
	k.office.set(func() {
		if got := len(k.office.checks); got != checks || k.runs.Load() != runs {
			k.t.Errorf("%d proposals and %d runs for a task that is over", got-checks, k.runs.Load()-runs)
		}
	})
}

func (k *keptHosts) files() (names []string) {
	k.t.Helper()
	files, err := os.ReadDir(k.dir)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// A task that waits is found by its id when the proxy was started anew, runs once when it
// is approved, and is told as over ever after.
func TestTaskOutlivesProxy(t *testing.T) {
	k := newKeptHosts(t)
	h := k.open()
	s, a := k.waits(h, `{"secret":"flamingo"}`, `{}`)
	file := filepath.Join(k.dir, s.TaskID)
	data, err := os.ReadFile(file)
	if info, statErr := os.Stat(file); err != nil || statErr != nil || info.Mode().Perm() != 0o600 || strings.Contains(string(data), "flamingo") {
		t.Errorf("it is kept as %q, %v, %v", data, err, statErr)
	}
	h = k.anew(h)
	for _, id := range []string{"NONE", "", "../pins/s", s.TaskID[1:]} {
		if _, err := h.about("tasks/get", id); err == nil || !strings.Contains(err.Error(), "no such task") {
			t.Errorf("a task that there is not: %v", err)
		}
	}
	now, err := h.about("tasks/get", s.TaskID)
	if err != nil || now.Status != "working" || !now.CreatedAt.Equal(s.CreatedAt) || now.TTL != s.TTL {
		t.Errorf("it is %+v, %v", now, err)
	}
	k.office.set(func() { a.Status = "approved" })
	if text, isError := h.result(s.TaskID); isError || !strings.Contains(text, "done") {
		t.Errorf("the result is %t %q", isError, text)
	}
	if got := k.ranWith(); !strings.HasPrefix(got, `{"secret":"flamingo"}`) || strings.Contains(got, "progressToken") {
		t.Errorf("it ran with %s", got)
	}
	for range 2 {
		h = k.anew(h)
		k.over(h, s.TaskID, "has run, and succeeded (apr_0)")
	}
	if k.runs.Load() != 1 || fmt.Sprint(k.office.reports) != "[apr_0 succeeded]" {
		t.Errorf("%d runs, reported %s", k.runs.Load(), k.office.reports)
	}
}

// Whoever looks at a former task proposes nothing: not when the same call has been made again
// and has run, when it was denied, is over, not known, or has begun and nobody knows.
func TestKeptTaskProposesNothing(t *testing.T) {
	k := newKeptHosts(t)
	h := k.open()
	first, a := k.waits(h, `{"n":1}`, `{}`)
	h = k.anew(h)
	again := h.begin("pay", `{"n":1}`, `{}`)
	k.office.set(func() { a.Status = "approved" })
	if text, isError := h.result(again.TaskID); isError || k.runs.Load() != 1 || len(k.office.approvals) != 1 {
		t.Fatalf("the same call again: %t %q, %d runs", isError, text, k.runs.Load())
	}
	k.office.set(func() { k.office.outcome = "ALLOW" }) // by now the rules accept it
	k.over(h, first.TaskID, "has run, and succeeded")

	k.office.set(func() { k.office.outcome = "REQUIRE_APPROVAL" })
	for i, each := range []struct {
		becomes func(a *held)
		says    string
	}{
		{func(a *held) { a.Status, a.Denial = "denied", &holdpoint.Denial{Kind: "never", Comment: "no"} }, `"no"`},
		{func(a *held) { a.Status = "expired" }, "it is expired"},
		{func(a *held) { a.Status = "cancelled" }, "it is cancelled"},
		{func(a *held) { a.ID = "apr_other" }, "does not know its approval any more"},
		{func(a *held) { a.Status, a.Execution, a.spent = "approved", "redeemed", true }, "nobody knows what became of it"},
		{func(a *held) { a.Status, a.Execution, a.spent = "approved", "unknown", true }, "nobody knows what became of it"},
		{func(a *held) { a.Status, a.Execution, a.spent = "approved", "failed", true }, "has run, and failed"},
		{func(a *held) { a.Status, a.spent = "approved", true }, "the time to run it is over"},
	} {
		s, a := k.waits(h, fmt.Sprintf(`{"case":%d}`, i), `{}`)
		k.ends(h)
		k.office.set(func() { each.becomes(a); k.office.outcome = "ALLOW" })
		h = k.open()
		k.over(h, s.TaskID, each.says)
		k.office.set(func() { k.office.outcome = "REQUIRE_APPROVAL" })
	}
	if k.runs.Load() != 1 {
		t.Errorf("%d runs", k.runs.Load())
	}

	// The tool is another by now.
	s, a := k.waits(h, `{"n":2}`, `{}`)
	k.ends(h)
	k.office.set(func() { a.Status = "approved" })
	k.tool("pay", "Pays Eve.")
	h = k.open()
	if text, isError := h.result(s.TaskID); !isError || k.runs.Load() != 1 {
		t.Errorf("of a tool that is described otherwise: %t %q, %d runs", isError, text, k.runs.Load())
	}
}

// A task that was cancelled, or whose time is over, is on no disk, before that is told.
func TestKeptTaskEnds(t *testing.T) {
	k := newKeptHosts(t)
	h := k.open()
	s, a := k.waits(h, `{"n":1}`, `{}`)
	if now, err := h.about("tasks/cancel", s.TaskID); err != nil || now.Status != "cancelled" || len(k.files()) != 0 {
		t.Fatalf("it is %+v, %v; kept are %s", now, err, k.files())
	}
	k.ends(h)
	k.office.set(func() { a.Status = "approved" })
	h = k.open()
	if _, err := h.about("tasks/get", s.TaskID); err == nil {
		t.Error("a cancelled task goes on")
	}

	// Cancelled by its id in the next conversation: what is approved does not run.
	s, a = k.waits(h, `{"n":2}`, `{}`)
	k.ends(h)
	k.office.set(func() { a.Status = "approved" })
	h = k.open()
	if now, err := h.about("tasks/cancel", s.TaskID); err != nil || now.Status != "cancelled" || len(k.files()) != 0 {
		t.Fatalf("it is %+v, %v; kept are %s", now, err, k.files())
	}
	if text, isError := h.result(s.TaskID); !isError || !strings.Contains(text, "Not run") {
		t.Errorf("%t %q", isError, text)
	}

	// Its time is over while a proxy is there, and while none is.
	s, _ = k.waits(h, `{"n":3}`, `{"ttl":1}`)
	for err := error(nil); err == nil; {
		_, err = h.about("tasks/get", s.TaskID)
	}
	if files := k.files(); len(files) != 0 {
		t.Errorf("kept are %s", files)
	}
	one := keptTask{Approval: a.ID, Params: []byte(`{"name":"pay"}`), TTL: 1}
	if err := k.proxy.kept.write("AAAA", one); err != nil {
		t.Fatal(err)
	}
	if _, err := h.about("tasks/get", "AAAA"); err == nil || len(k.files()) != 0 {
		t.Errorf("a task whose time was over: %v, kept are %s", err, k.files())
	}

	// Another key, and a file under another id, are no task.
	s, a = k.waits(h, `{"n":4}`, `{}`)
	k.office.set(func() { a.Status = "approved" })
	if err := os.Rename(filepath.Join(k.dir, s.TaskID), filepath.Join(k.dir, "BBBB")); err != nil {
		t.Fatal(err)
	}
	h.result(s.TaskID)
	h = k.anew(h)
	if _, err := h.about("tasks/get", "BBBB"); err == nil {
		t.Error("a task under another id")
	}
	if other, err := keepTasks(k.dir, "hp_other"); err != nil {
		t.Error(err)
	} else if _, err := other.read("BBBB"); err == nil {
		t.Error("another key reads it")
	}
	if k.runs.Load() != 1 {
		t.Errorf("%d runs", k.runs.Load())
	}

	// Where nothing can be kept, a task ends with the proxy, and runs as ever.
	if err := os.RemoveAll(k.dir); err != nil {
		t.Fatal(err)
	}
	s, a = k.waits(h, `{"n":5}`, `{}`)
	k.office.set(func() { a.Status = "approved" })
	if text, isError := h.result(s.TaskID); isError {
		t.Errorf("%q", text)
	}
}

// Two proxies that go on with one task at once run it once, and an outage in between is
// waited through.
func TestKeptTaskOfTwoProxies(t *testing.T) {
	k := newKeptHosts(t)
	h := k.open()
	s, a := k.waits(h, `{"n":1}`, `{}`)
	k.ends(h)
	down := true
	k.office.set(func() {
		k.office.broken = func(w http.ResponseWriter, r *http.Request) bool {
			k.office.mu.Lock()
			defer k.office.mu.Unlock()
			if down {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return down
		}
	})
	one, other := k.open(), k.open()
	for _, h := range []*taskHost{one, other} {
		if now, err := h.about("tasks/get", s.TaskID); err != nil || now.Status != "working" {
			t.Fatalf("it is %+v, %v", now, err)
		}
	}
	k.office.set(func() { down = false; a.Status = "approved" })
	ok := 0
	for _, h := range []*taskHost{one, other} {
		if _, isError := h.result(s.TaskID); !isError {
			ok++
		}
	}
	if k.runs.Load() != 1 || ok != 1 {
		t.Errorf("%d runs, %d results", k.runs.Load(), ok)
	}
}

// One of two proxies cannot redeem while the other one runs the call: it does not run it, and
// says nothing of it to Holdpoint; who calls again is told of the run.
func TestKeptTaskOfAnother(t *testing.T) {
	k := newKeptHosts(t)
	k.hold = make(chan struct{})
	h := k.open()
	s, a := k.waits(h, `{"n":1}`, `{}`)
	k.ends(h)
	hosts := []*taskHost{k.open(), k.open()}
	for _, h := range hosts {
		if now, err := h.about("tasks/get", s.TaskID); err != nil || now.Status != "working" {
			t.Fatalf("it is %+v, %v", now, err)
		}
	}
	first := ""
	k.office.set(func() {
		k.office.broken = func(w http.ResponseWriter, r *http.Request) bool {
			k.office.mu.Lock()
			defer k.office.mu.Unlock()
			if key := r.Header.Get("Idempotency-Key"); r.URL.Path != "/v1/tokens/redeem" || first == "" || first == key {
				if r.URL.Path == "/v1/tokens/redeem" {
					first = key
				}
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		a.Status = "approved"
	})
	k.ranWith()
	// The one that does not run it ends, whichever it is.
	ended := make(chan int, 2)
	var results [2]string
	var errs [2]bool
	for i, h := range hosts {
		go func() { results[i], errs[i] = h.result(s.TaskID); ended <- i }()
	}
	other := <-ended
	if !errs[other] || !strings.Contains(results[other], "may have been run elsewhere") {
		t.Errorf("the other says %t %q", errs[other], results[other])
	}
	k.office.set(func() {
		if len(k.office.reports) > 0 {
			t.Errorf("while it runs, reported: %s", k.office.reports)
		}
		k.office.broken, k.office.outcome = nil, "ALLOW"
	})
	close(k.hold)
	if <-ended; errs[1-other] || !strings.Contains(results[1-other], "done") {
		t.Errorf("the one says %t %q", errs[1-other], results[1-other])
	}
	again := hosts[other].begin("pay", `{"n":1}`, `{}`)
	if text, isError := hosts[other].result(again.TaskID); !isError || !strings.Contains(text, "has run by its approval (apr_0), and succeeded") {
		t.Errorf("called again: %t %q", isError, text)
	}
	if k.runs.Load() != 1 || fmt.Sprint(k.office.reports) != "[apr_0 succeeded]" {
		t.Errorf("%d runs, reported %s", k.runs.Load(), k.office.reports)
	}
}

// What is kept of a call has no token by which its first host is told of its progress.
func TestKeptWithoutProgress(t *testing.T) {
	params, err := canon.Parse([]byte(`{"_meta":{"a":1,"progressToken":7},"arguments":{"progressToken":2},"name":"pay"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(withoutProgress(params).Canonical()), `{"_meta":{"a":1},"arguments":{"progressToken":2},"name":"pay"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
