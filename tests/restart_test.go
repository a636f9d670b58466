package tests

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killPolicy gives calls deadlines that pass while the program is down, and
// soon after it is up again.
const killPolicy = `routing:
  rules:
    - {tool: "brief_*", role: reviewer, needed: 1, expires_in: 1s}
    - {tool: "soon_*", role: reviewer, needed: 1, expires_in: 30s}
    - {tool: "pair_*", role: reviewer, needed: 2, expires_in: 1h}
  default: {role: reviewer, needed: 1, expires_in: 1h}
`

// TestKilledWhileApprovalsWait: kill -9 of the whole program while approvals
// wait. Started again, they wait on; each ends once, as it should.
func TestKilledWhileApprovalsWait(t *testing.T) {
	idlePrograms(t)
	d := startDev(t, func(o *devOptions) { o.policy = killPolicy })
	agent := d.agent(t)
	approve, cancel, deny, half := agent.hold("one", nil), agent.hold("two", nil), agent.hold("three", nil), agent.hold("pair_four", nil)
	d.reviewer(t, 0).approve(half)
	spent := agent.hold("five", nil)
	d.reviewer(t, 0).approve(spent)
	token := agent.wait(spent.ID).Token
	agent.redeem(token, "five", map[string]any{}).want(t, 200)
	unspent := agent.hold("six", nil)
	d.reviewer(t, 0).approve(unspent)
	unspentToken := agent.wait(unspent.ID).Token
	late, during := agent.hold("soon_seven", nil), agent.hold("brief_eight", nil)
	away, reset := d.Reviewers[4], d.Reviewers[3]
	d.changePeople(t, map[string]string{away.Email: "disable", reset.Email: "reset-password"})
	// One vote that is acknowledged at the last moment, and maybe not settled.
	last := agent.hold("nine", nil)
	d.reviewer(t, 1).approve(last)

	below := descendants(d.program.cmd.Process.Pid)
	if len(below) < 3 {
		t.Fatalf("there is no Postgres below the program: %v", below)
	}
	d.program.kill()
	eventually(t, settleWithin, "Postgres ends with the program", func() bool { return !slices.ContainsFunc(below, alive) })

	began := time.Now()
	again := d.again(t, nil)
	t.Logf("back after %s", time.Since(began).Round(10*time.Millisecond))
	if d.AgentKey != again.AgentKey || d.AdminKey != again.AdminKey || d.RuntimeKey != again.RuntimeKey ||
		!reflect.DeepEqual(d.Reviewers, again.Reviewers) || d.Owner.Email != again.Owner.Email {
		t.Error("keys or people are not the same")
	}
	start := again.program.text()
	start = start[strings.LastIndex(start, "Sign in as"):]
	for _, want := range []string{away.Email + " (disabled)", reset.Email + " (changed)", d.Owner.Email + " " + d.Owner.Password} {
		if !strings.Contains(strings.Join(strings.Fields(start), " "), want) {
			t.Errorf("who signs in how is not told by %q:\n%s", want, start)
		}
	}
	agent = again.agent(t)
	if got, err := agent.await(during.ID, settleWithin); err != nil || got.Status != "expired" || got.EndedAt.Before(during.ExpiresAt) {
		t.Errorf("the deadline that passed while everything was down: %v, %+v", err, got)
	}
	for _, a := range []approval{approve, cancel, deny, half, late} {
		if got := agent.get(a.ID); got.Status != "pending" || got.Digest != a.Digest || got.ExpiresAt != a.ExpiresAt {
			t.Errorf("after the restart: %+v, want it as before: %+v", got, a)
		}
	}
	if given := agent.get(half.ID).Requirements[0].Given; given != 1 {
		t.Errorf("the vote from before counts %d times", given)
	}
	reviewer := again.reviewer(t, 0) // with the session from before
	reviewer.approve(approve)
	agent.cancel(cancel.ID).want(t, 200)
	reviewer.vote(deny, "deny").want(t, 200)
	reviewer.vote(half, "approve").want(t, 409, "already_voted")
	again.reviewer(t, 1).approve(half)
	agent.redeem(token, "five", map[string]any{}).want(t, 409, "token_used")
	agent.redeem(unspentToken, "six", map[string]any{}).want(t, 200)
	for _, want := range []struct {
		approval
		status, settled string
	}{
		{approve, "approved", "APPROVED"},
		{cancel, "cancelled", "REJECTED"},
		{deny, "denied", "REJECTED"},
		{half, "approved", "APPROVED"},
		{last, "approved", "APPROVED"},
		{late, "expired", "TIMEOUT"},
		{during, "expired", "TIMEOUT"},
	} {
		got, err := agent.await(want.ID, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		ends := slices.DeleteFunc(again.admin(t).story(want.ID), func(line string) bool { return !strings.HasPrefix(line, "settled ") })
		if got.Status != want.status || len(ends) != 1 || !strings.HasPrefix(ends[0], "settled "+want.settled) {
			t.Errorf("%s: %s, terminal events %q; want %s, one %s", want.ID, got.Status, ends, want.status, want.settled)
		}
	}
	again.check(t)
}

// changePeople sends an administrator's request for each person: address to what is done.
func (d *dev) changePeople(t testing.TB, do map[string]string) {
	t.Helper()
	var everybody struct{ People []struct{ ID, Email string } }
	admin := d.admin(t)
	admin.do("GET", "/v1/admin/people", nil).want(t, 200).into(t, &everybody)
	for _, p := range everybody.People {
		if what, ok := do[p.Email]; ok {
			admin.do("POST", "/v1/admin/people/"+p.ID+"/"+what, map[string]any{}).want(t, 200)
			delete(do, p.Email)
		}
	}
	if len(do) > 0 {
		t.Fatalf("these people are missing: %v", do)
	}
}

// TestKilledUnderLoad kills the program in the middle of everything, more than
// once: what was acknowledged is there, and what is there is whole.
func TestKilledUnderLoad(t *testing.T) {
	ownPrograms(t)
	d := startDev(t, func(o *devOptions) { o.policy = killPolicy })
	n := 3
	if *long {
		n = 10
	}
	for round := range n {
		// Of the test's own goroutine, before the load begins.
		reviewer, other, agent := d.reviewer(t, 0), d.reviewer(t, 1), d.agent(t)
		stop := make(chan struct{})
		ended := make(chan int, 8)
		for i := range cap(ended) {
			go func() {
				done := 0
				defer func() { ended <- done }()
				for {
					select {
					case <-stop:
						return
					default:
					}
					done += live(agent, reviewer, other, i+done)
				}
			}()
		}
		// The phase of the kill is what is random; nothing is waited for.
		time.Sleep(time.Duration(300+217*round) * time.Millisecond)
		d.program.kill()
		close(stop)
		acknowledged := 0
		for range cap(ended) {
			acknowledged += <-ended
		}
		began := time.Now()
		d = d.again(t, nil)
		t.Logf("round %d: %d steps were acknowledged before the kill; back after %s", round, acknowledged, time.Since(began).Round(10*time.Millisecond))
		d.check(t)
	}
	// Everything that waits can still be ended.
	h := d.check(t)
	began := time.Now()
	for _, a := range h.approvals {
		if a.status != "pending" {
			continue
		}
		if got := d.agent(t).cancel(a.id); got.Status != 200 && got.Status != 409 && got.Status != 410 {
			t.Errorf("cancel %s: %s", a.id, got)
		}
	}
	slowest := time.Duration(0)
	for _, a := range h.approvals {
		if ended := d.agent(t).wait(a.id).EndedAt; ended.Sub(began) > slowest {
			slowest = ended.Sub(began)
		}
	}
	t.Logf("the last of them was over after %s", slowest.Round(10*time.Millisecond))
	if slowest > healWithin {
		t.Errorf("what was under way at the kill was over only after %s, want %s", slowest, healWithin)
	}
}

// live runs one call's life as far as the program lets it and returns how many
// of its steps were acknowledged.
func live(agent, reviewer, other *client, i int) (done int) {
	ok := func(a answer) bool {
		whole := a.Err == nil && a.Status/100 == 2 // what was cut off was not acknowledged
		if whole {
			done++
		}
		return whole
	}
	tool := "load"
	if i%3 == 0 {
		tool = "pair_load"
	}
	a := agent.propose(event(tool, "defer", map[string]any{"i": i}))
	if !ok(a) {
		return done
	}
	var v struct{ Approval approval }
	a.into(agent.t, &v)
	switch i % 4 {
	case 0:
		ok(agent.cancel(v.Approval.ID))
		return done
	case 1:
		ok(reviewer.vote(v.Approval, "deny"))
		return done
	}
	if !ok(reviewer.vote(v.Approval, "approve")) || i%3 == 0 && !ok(other.vote(v.Approval, "approve")) {
		return done
	}
	approved, err := agent.await(v.Approval.ID, 5*time.Second)
	if err == nil && approved.Token != "" && ok(agent.redeem(approved.Token, tool, map[string]any{"i": i})) {
		ok(agent.do("POST", "/v1/executions", map[string]any{"approval_id": approved.ID, "outcome": "succeeded"}))
	}
	return done
}

// oneLine is the program's only word when it will not start.
func oneLine(t testing.TB, c command, texts ...string) {
	t.Helper()
	line, rest, _ := strings.Cut(c.err, "\n")
	if c.code == 0 || rest != "" || !strings.HasPrefix(line, "holdpoint: ") {
		t.Errorf("exit %d, said %q; want one line", c.code, c.err)
	}
	for _, text := range texts {
		if !strings.Contains(line, text) {
			t.Errorf("%q does not name %q", line, text)
		}
	}
}

// TestSecondStart: a second start on the same directory is refused in one
// line, and does the first no harm.
func TestSecondStart(t *testing.T) {
	d := onShared(t)
	oneLine(t, cli(t, nil, "", "dev", "--data", d.dir, "--listen", "127.0.0.1:0"), d.dir, strconv.Itoa(d.PID))
	if got, err := os.ReadFile(filepath.Join(d.dir, "dev.json")); err != nil || !strings.Contains(string(got), d.URL) {
		t.Errorf("dev.json of the first: %v %s", err, got)
	}
	d.agent(t).propose(event("search_docs", "accept", nil)).want(t, 200)
}

// TestPortInUse: one line, before anything is made.
func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := devDir(t)
	oneLine(t, cli(t, nil, "", "dev", "--data", dir, "--listen", l.Addr().String()), l.Addr().String(), "in use")
	if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
		t.Error("a Postgres was made all the same")
	}
}

// TestDevTakesAPolicyThatIsThere: a policy that somebody wrote before the first
// start is the policy, and one that is wrong is said so in one line.
func TestDevTakesAPolicyThatIsThere(t *testing.T) {
	ownPrograms(t)
	dir := devDir(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "settings.yaml")
	if err := os.WriteFile(file, []byte(killPolicy), 0o644); err != nil {
		t.Fatal(err)
	}
	d := startDev(t, func(o *devOptions) { o.dir = dir })
	if d.policy() != killPolicy {
		t.Errorf("the policy was replaced by\n%s", d.policy())
	}
	for _, name := range []string{"dev.json", "secrets.json", "signing-keys.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, mode %v", name, err, info.Mode())
		}
	}
	if out := must(t, nil, "", "doctor", "--data", dir); !strings.Contains(out, "ok    login that changes accounts\n") || !strings.Contains(out, "ok    audit log's key\n") || !strings.Contains(out, "ok    Temporal at ") {
		t.Errorf("doctor of a dev that runs:\n%s", out)
	}
	oneLine(t, cli(t, nil, "", "doctor", "--data", t.TempDir()), "is no data directory of a running")
	if err := d.program.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("routing:\n  default: {role: reviewer, needed: 0, expires_in: 1h}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	oneLine(t, last(cli(t, nil, "", "dev", "--data", dir, "--listen", "127.0.0.1:0")), "settings.yaml", "routing.default.needed")
}

// last keeps the last line of what a command said.
func last(c command) command {
	lines := strings.Split(strings.TrimSuffix(c.err, "\n"), "\n")
	c.err = lines[len(lines)-1] + "\n"
	return c
}

// TestStopsWhileSomebodyWaits: SIGTERM ends the program in time although
// requests are held and pages are open, and those who wait get an answer.
func TestStopsWhileSomebodyWaits(t *testing.T) {
	ownPrograms(t)
	d := startDev(t, nil)
	a := d.agent(t).hold("wait_for_it", nil)
	reviewer := d.reviewer(t, 0)
	held := make(chan answer, 1)
	agent := d.agent(t)
	go func() { held <- agent.do("GET", approvalPath(a.ID)+"?wait=55", nil) }()
	for _, stream := range []struct {
		path, name, value string
	}{{approvalPath(a.ID) + "/events", "Authorization", "Bearer " + d.AgentKey}, {"/live", "Cookie", reviewer.cookie}, {"/approvals/" + a.ID + "/live", "Cookie", reviewer.cookie}} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", d.URL+stream.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(stream.name, stream.value)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != 200 {
			t.Fatalf("%s: %s", stream.path, res.Status)
		}
	}
	eventually(t, settleWithin, "the reader is held", func() bool {
		return strings.Contains(string(d.admin(t).do("GET", "/metrics", nil).Body), "holdpoint_waiting_readers 2")
	})
	began := time.Now()
	if err := d.program.stop(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	if t.Logf("stopped within %s", took.Round(10*time.Millisecond)); took > stopWithin {
		t.Errorf("it took %s to stop, with people and an agent waiting", took)
	}
	if got := <-held; got.Status != 200 || got.approval(t).Status != "pending" {
		t.Errorf("who waited got %s", got)
	}
	if text := d.program.text(); strings.Contains(text, "cut off") {
		t.Errorf("open pages were cut off instead of ended:\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "postgres", "data", "postmaster.pid")); err == nil {
		t.Error("Postgres left its pid file: it did not stop cleanly")
	}
}

// TestRunsAsAnOrdinaryUser: the same program, the same loop, without root.
func TestRunsAsAnOrdinaryUser(t *testing.T) {
	ownPrograms(t)
	if os.Geteuid() != 0 {
		t.Log("all of these tests run as an ordinary user here")
		return
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	dir, err := os.MkdirTemp("", "holdpoint-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "holdpoint")
	if err := copyFile(devBinary(t), bin); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, uid, gid); err != nil {
		t.Fatal(err)
	}
	d := startDev(t, func(o *devOptions) {
		o.bin, o.dir = bin, data
		o.env = []string{"HOME=" + dir, "TMPDIR=" + dir}
		o.edit = func(cmd *exec.Cmd) {
			cmd.Dir = dir
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	})
	for _, pid := range append(descendants(d.PID), d.PID) {
		info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		if err != nil {
			continue // a backend that has ended
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; int(got) != uid {
			t.Errorf("process %d runs as %d", pid, got)
		}
	}
	a := d.agent(t).hold("plain_user", nil)
	d.reviewer(t, 0).approve(a)
	approved := d.agent(t).wait(a.ID)
	d.agent(t).redeem(approved.Token, "plain_user", map[string]any{}).want(t, 200)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
