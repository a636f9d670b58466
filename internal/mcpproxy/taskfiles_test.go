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
	*harness
	dir string
}

func newKeptHosts(t *testing.T) *keptHosts {
	w := newHarness(t)
	w.fake.outcome = "REQUIRE_APPROVAL"
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
	k.fake.set(func() { a = k.fake.approvals[len(k.fake.approvals)-1] }) // it is there before the task is told
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
	k.fake.set(func() { checks = len(k.fake.checks) })
	for _, method := range []string{"tasks/get", "tasks/get"} {
		if _, err := h.about(method, id); err != nil {
			k.t.Errorf("%s: %v", method, err)
		}
	}
	if text, isError := h.result(id); !isError || !strings.Contains(text, says) {
		k.t.Errorf("its result is %t %q, want %q", isError, text, says)
	}
	k.fake.set(func() {
		if got := len(k.fake.checks); got != checks || k.runs.Load() != runs {
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
	k.fake.set(func() { a.Status = "approved" })
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
	if k.runs.Load() != 1 || fmt.Sprint(k.fake.reports) != "[apr_0 succeeded]" {
		t.Errorf("%d runs, reported %s", k.runs.Load(), k.fake.reports)
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
	k.fake.set(func() { a.Status = "approved" })
	if text, isError := h.result(again.TaskID); isError || k.runs.Load() != 1 || len(k.fake.approvals) != 1 {
		t.Fatalf("the same call again: %t %q, %d runs", isError, text, k.runs.Load())
	}
	k.fake.set(func() { k.fake.outcome = "ALLOW" }) // by now the rules accept it
	k.over(h, first.TaskID, "and succeeded")

	k.fake.set(func() { k.fake.outcome = "REQUIRE_APPROVAL" })
	for i, each := range []struct {
		becomes func(a *held)
		says    string
	}{
		{func(a *held) { a.Status, a.Denial = "denied", &holdpoint.Denial{Kind: "never", Comment: "no"} }, `"no"`},
		{func(a *held) { a.Status = "expired" }, "it is expired"},
		{func(a *held) { a.Status = "cancelled" }, "it is cancelled"},
		{func(a *held) { a.ID = "apr_other" }, "does not know its approval any more"},
		{func(a *held) { a.Status, a.Execution, a.spent = "approved", "unknown", true }, "nobody knows what became of it"},
		{func(a *held) { a.Status, a.Execution, a.spent = "approved", "failed", true }, "and failed"},
		{func(a *held) { a.Status, a.spent = "approved", true }, "the time to run it is over"},
	} {
		s, a := k.waits(h, fmt.Sprintf(`{"case":%d}`, i), `{}`)
		k.ends(h)
		k.fake.set(func() { each.becomes(a); k.fake.outcome = "ALLOW" })
		h = k.open()
		k.over(h, s.TaskID, each.says)
		k.fake.set(func() { k.fake.outcome = "REQUIRE_APPROVAL" })
	}
	if k.runs.Load() != 1 {
		t.Errorf("%d runs", k.runs.Load())
	}

	// The tool is another by now.
	s, a := k.waits(h, `{"n":2}`, `{}`)
	k.ends(h)
	k.fake.set(func() { a.Status = "approved" })
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
	k.fake.set(func() { a.Status = "approved" })
	h = k.open()
	if _, err := h.about("tasks/get", s.TaskID); err == nil {
		t.Error("a cancelled task goes on")
	}

	// Cancelled by its id in the next conversation: what is approved does not run.
	s, a = k.waits(h, `{"n":2}`, `{}`)
	k.ends(h)
	k.fake.set(func() { a.Status = "approved" })
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
	one := storedTask{Approval: a.ID, Params: []byte(`{"name":"pay"}`), TTL: 1}
	if err := k.proxy.calls.files.write("AAAA", one); err != nil {
		t.Fatal(err)
	}
	if _, err := h.about("tasks/get", "AAAA"); err == nil || len(k.files()) != 0 {
		t.Errorf("a task whose time was over: %v, kept are %s", err, k.files())
	}

	// Another key, and a file under another id, are no task.
	s, a = k.waits(h, `{"n":4}`, `{}`)
	data, err := os.ReadFile(filepath.Join(k.dir, s.TaskID))
	if err == nil {
		err = os.WriteFile(filepath.Join(k.dir, "BBBB"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	k.fake.set(func() { a.Status = "approved" })
	h.result(s.TaskID)
	h = k.anew(h)
	if _, err := h.about("tasks/get", "BBBB"); err == nil {
		t.Error("a task under another id")
	}
	if other, err := openTaskFiles(k.dir, "hp_other"); err != nil {
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
	k.fake.set(func() { a.Status = "approved" })
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
	k.fake.set(func() {
		k.fake.broken = func(w http.ResponseWriter, r *http.Request) bool {
			k.fake.mu.Lock()
			defer k.fake.mu.Unlock()
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
	k.fake.set(func() { down = false; a.Status = "approved" })
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

// One of two proxies cannot redeem while the other one runs the call: it does not run it, says
// nothing of it to Holdpoint, and tells what became of it.
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
	first, lost := "", 0
	k.fake.set(func() {
		k.fake.broken = func(w http.ResponseWriter, r *http.Request) bool {
			k.fake.mu.Lock()
			defer k.fake.mu.Unlock()
			key := r.Header.Get("Idempotency-Key")
			if r.URL.Path != "/v1/tokens/redeem" {
				return false
			}
			if first == "" || first == key {
				for first = key; lost == 0; { // both have the token
					k.fake.changed.Wait()
				}
				return false
			}
			lost++
			k.fake.changed.Broadcast()
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		a.Status = "approved"
	})
	k.ranWith()
	// The other one has given up redeeming, and waits for what becomes of the call.
	k.fake.until(t, "the last try", func() bool { return lost == redeemTries*4 })
	waits := 0
	for waits == 0 {
		for i, h := range hosts {
			if now, err := h.about("tasks/get", s.TaskID); err != nil || now.Status != "working" {
				t.Fatalf("it is %+v, %v", now, err)
			} else if strings.Contains(now.StatusMessage, "has begun elsewhere") {
				waits = i + 1
			}
		}
	}
	one, other := hosts[2-waits], hosts[waits-1]
	if _, err := other.about("tasks/cancel", s.TaskID); err == nil || !strings.Contains(err.Error(), "its call has begun") {
		t.Errorf("cancelled: %v", err)
	}
	k.fake.set(func() {
		if len(k.fake.reports) > 0 {
			t.Errorf("while it runs, reported: %s", k.fake.reports)
		}
		k.fake.broken = nil
	})
	close(k.hold)
	if text, isError := one.result(s.TaskID); isError || !strings.Contains(text, "done") {
		t.Errorf("the one says %t %q", isError, text)
	}
	k.over(other, s.TaskID, "has run, and succeeded (apr_0)")
	if k.runs.Load() != 1 || fmt.Sprint(k.fake.reports) != "[apr_0 succeeded]" {
		t.Errorf("%d runs, reported %s", k.runs.Load(), k.fake.reports)
	}
}

// A task cannot be cancelled by its id once its call has run, whoever has run it; and one that
// is cancelled in one proxy runs in none.
func TestKeptTaskCancelled(t *testing.T) {
	k := newKeptHosts(t)
	h := k.open()
	s, a := k.waits(h, `{"n":1}`, `{}`)
	k.ends(h)
	k.fake.set(func() { a.Status, a.Execution, a.spent = "approved", "succeeded", true })
	h = k.open()
	for range 2 {
		if now, err := h.about("tasks/cancel", s.TaskID); err == nil || !strings.Contains(err.Error(), "over already") {
			t.Errorf("what has run is cancelled: %+v, %v", now, err)
		}
	}
	k.over(h, s.TaskID, "and succeeded")
	h = k.anew(h)
	k.over(h, s.TaskID, "and succeeded")

	// Holdpoint cannot be asked: it is not said to be cancelled, and does not go on.
	s, a = k.waits(h, `{"n":2}`, `{}`)
	k.ends(h)
	k.fake.set(func() {
		k.fake.broken = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
	})
	h = k.open()
	if now, err := h.about("tasks/cancel", s.TaskID); err == nil || !strings.Contains(err.Error(), "not cancelled") {
		t.Errorf("in an outage: %+v, %v", now, err)
	}
	k.fake.set(func() { k.fake.broken = nil })

	// The proxy that waits lives on, and another one cancels.
	other := k.open()
	if now, err := h.about("tasks/get", s.TaskID); err != nil || now.Status != "working" {
		t.Fatalf("it is %+v, %v", now, err)
	}
	if now, err := other.about("tasks/cancel", s.TaskID); err != nil || now.Status != "cancelled" || len(k.files()) != 1 {
		t.Errorf("it is %+v, %v; kept are %s", now, err, k.files())
	}
	k.fake.set(func() { a.Status = "approved" })
	for _, h := range []*taskHost{h, other} {
		if text, isError := h.result(s.TaskID); !isError || !strings.Contains(text, "cancelled") {
			t.Errorf("%t %q", isError, text)
		}
	}
	if k.runs.Load() != 0 || a.spent {
		t.Errorf("%d runs of what was cancelled; redeemed %t", k.runs.Load(), a.spent)
	}
}

// A task that is found while its call runs elsewhere goes on until it is known what became of
// that, and is not cancelled meanwhile.
func TestKeptTaskRunsElsewhere(t *testing.T) {
	k := newKeptHosts(t)
	k.hold = make(chan struct{})
	h := k.open()
	s, a := k.waits(h, `{"n":1}`, `{}`)
	k.fake.set(func() { a.Status = "approved" })
	k.ranWith()
	other := k.open()
	if now, err := other.about("tasks/cancel", s.TaskID); err == nil || !strings.Contains(err.Error(), "its call has begun") {
		t.Errorf("cancelled: %+v, %v", now, err)
	}
	if now, err := other.about("tasks/get", s.TaskID); err != nil || now.Status != "working" {
		t.Errorf("it is %+v, %v", now, err)
	}
	close(k.hold)
	if text, isError := h.result(s.TaskID); isError || k.runs.Load() != 1 {
		t.Errorf("%t %q, %d runs", isError, text, k.runs.Load())
	}
	k.over(other, s.TaskID, "and succeeded")

	// Nobody says what became of it.
	s, a = k.waits(h, `{"n":2}`, `{}`)
	k.ends(other)
	k.fake.set(func() { a.Status, a.Execution, a.spent = "approved", "redeemed", true })
	other = k.open()
	if now, err := other.about("tasks/get", s.TaskID); err != nil || now.Status != "working" {
		t.Errorf("it is %+v, %v", now, err)
	}
	k.fake.set(func() { a.Execution = "unknown" })
	k.over(other, s.TaskID, "nobody knows what became of it")
}

// A task that was accepted at once, and whose proxy has ended, is told as one that may have
// run, and is on the disk no longer than it runs.
func TestKeptTaskAccepted(t *testing.T) {
	k := newKeptHosts(t)
	k.fake.outcome = "ALLOW"
	k.hold = make(chan struct{})
	h := k.open()
	s := h.begin("pay", `{"n":1}`, `{}`)
	k.ranWith()
	other := k.open()
	if _, err := other.about("tasks/cancel", s.TaskID); err == nil || !strings.Contains(err.Error(), "its call has begun") {
		t.Errorf("cancelled: %v", err)
	}
	k.over(other, s.TaskID, "Do not call it again before you know")
	close(k.hold)
	if text, isError := h.result(s.TaskID); isError {
		t.Errorf("%q", text)
	}
	for len(k.files()) != 0 { // a moment later
		if _, err := h.about("tasks/get", s.TaskID); err != nil {
			t.Fatal(err)
		}
	}
	third := k.open()
	if _, err := third.about("tasks/get", s.TaskID); err == nil || !strings.Contains(err.Error(), "may have run") {
		t.Errorf("afterwards: %v", err)
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
