package tests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdpoint/internal/postgres/pgtest"
)

// How long a program may take to stop when it is told to (docs/spec/wire.md), and how long it is
// waited for, on a machine that others use as well.
const (
	stopWithin = 10 * time.Second
	stopsAtAll = time.Minute
)

// program is a running process of the binary under test.
type program struct {
	name string
	cmd  *exec.Cmd
	log  string // file with everything that it says
	done chan struct{}
	err  error // of Wait, once done is closed
}

// run starts the binary. Its output goes to a file in dir.
func run(bin, dir, name string, env []string, edit func(*exec.Cmd), args ...string) (*program, error) {
	p := &program{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own descriptor
	p.cmd = exec.Command(bin, args...)
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// A test binary that is killed takes its programs with it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if edit != nil {
		edit(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *program) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop ends the program by SIGTERM; it must end well and in time.
func (p *program) stop() error {
	if p.exited() {
		return fmt.Errorf("%s had ended before it was told to: %v\n%s", p.name, p.err, p.tail())
	}
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(stopsAtAll):
		p.kill()
		return fmt.Errorf("%s did not stop within %s\n%s", p.name, stopsAtAll, p.tail())
	}
	if strings.Contains(p.text(), "DATA RACE") {
		return fmt.Errorf("%s has a data race\n%s", p.name, p.text())
	}
	if p.err != nil {
		return fmt.Errorf("%s did not stop cleanly after %s: %v\n%s", p.name, time.Since(began), p.err, p.tail())
	}
	return nil
}

// kill ends the program by SIGKILL.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *program) text() string {
	data, _ := os.ReadFile(p.log)
	return string(data)
}

// tail is the end of what the program said.
func (p *program) tail() string { return p.tailOf(p.text()) }

// announced is how a dev says where everything is. It would push the line that failed out
// of sight.
var announced = regexp.MustCompile(`(?s)\nHoldpoint is ready: .*?\nStop: [^\n]*\n`)

func (p *program) tailOf(text string) string {
	lines := strings.Split(strings.Trim(announced.ReplaceAllString(text, ""), "\n"), "\n")
	if len(lines) > 40 {
		lines = lines[len(lines)-40:]
	}
	return "--- " + p.name + " said\n" + strings.Join(lines, "\n") + "\n---"
}

// person is somebody who signs in.
type person struct {
	Email    string   `json:"email"`
	Password string   `json:"password"`
	Roles    []string `json:"roles"`
	// TOTPSecret is of the person's authenticator app, in base32.
	TOTPSecret string `json:"totp_secret"`
}

// installation is a Holdpoint as its users see it: where it is, who its people
// are, and what it has answered so far.
type installation struct {
	URL        string   `json:"url"`
	AdminKey   string   `json:"admin_key"`
	AgentKey   string   `json:"agent_key"`
	RuntimeKey string   `json:"runtime_key"`
	Reviewers  []person `json:"reviewers"`
	Owner      person   `json:"owner"`
	Auditor    person   `json:"auditor"`
	RuntimeURL string   `json:"database_url"`
	OwnerURL   string   `json:"database_admin_url"`
	Temporal   string   `json:"temporal_address"`
	PID        int      `json:"pid"`

	journal  *journal
	sessions *sync.Map // email → cookie
}

// dev is a running "holdpoint dev".
type dev struct {
	*installation
	dir     string
	program *program
}

// devOptions change how a dev is started.
type devOptions struct {
	dir    string
	policy string // routing rules put before the example's
	args   []string
	bin    string
	edit   func(*exec.Cmd)
	env    []string
}

// readyWithin is how long a program may take to come up, on a busy machine.
const readyWithin = 60 * time.Second

// launchDev starts "holdpoint dev" and waits until it is ready.
func launchDev(bin string, o devOptions) (*dev, error) {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, err
	}
	if o.policy != "" {
		if err := os.WriteFile(filepath.Join(o.dir, "settings.yaml"), []byte(o.policy), 0o644); err != nil {
			return nil, err
		}
	}
	// A former start's file may name the number that this process gets.
	file := filepath.Join(o.dir, "dev.json")
	former, _ := os.ReadFile(file)
	p, err := run(bin, filepath.Dir(o.dir), filepath.Base(o.dir)+"-dev", environment(o.env...), o.edit,
		append([]string{"dev", "--data", o.dir, "--listen", "127.0.0.1:0"}, o.args...)...)
	if err != nil {
		return nil, err
	}
	d := &dev{dir: o.dir, program: p, installation: &installation{journal: &journal{}, sessions: &sync.Map{}}}
	deadline := time.Now().Add(readyWithin)
	for {
		if data, err := os.ReadFile(file); err == nil && !bytes.Equal(data, former) && json.Unmarshal(data, d.installation) == nil && d.PID == p.cmd.Process.Pid {
			break
		}
		if p.exited() {
			return nil, fmt.Errorf("holdpoint dev ended: %v\n%s", p.err, p.tail())
		}
		if time.Now().After(deadline) {
			p.kill()
			return nil, fmt.Errorf("holdpoint dev was not ready within %s\n%s", readyWithin, p.tail())
		}
		time.Sleep(20 * time.Millisecond)
	}
	if o.policy == "" || d.policy() == o.policy {
		return d, nil
	}
	// TestDevTakesAPolicyThatIsThere says that this should not be; the other
	// tests need not fail for it.
	if err := p.stop(); err != nil {
		return nil, err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return launchDev(bin, o)
}

func (d *dev) policy() string {
	data, _ := os.ReadFile(filepath.Join(d.dir, "settings.yaml"))
	return string(data)
}

// devDir is a new directory that every user can reach.
func devDir(t testing.TB) string {
	t.Helper()
	dir, err := pgtest.TempDir("dev")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !*keep {
			_ = os.RemoveAll(dir)
		}
	})
	return filepath.Join(dir, "data")
}

// started is the directory of a dev that has been started once and stopped.
var started struct {
	once sync.Once
	dir  string
	err  error
}

// copyStarted makes dir a copy of started. Making the databases is two thirds of a first
// start. A directory with a policy of its own needs that first start, because the
// copy has one in force.
func copyStarted(bin, dir string) error {
	started.once.Do(func() {
		started.dir = filepath.Join(built.data, "started")
		d, err := launchDev(bin, devOptions{dir: started.dir})
		if err == nil {
			err = d.program.stop()
		}
		if err == nil {
			err = os.Remove(filepath.Join(started.dir, "postgres", "port")) // each copy finds one of its own
		}
		started.err = err
	})
	if started.err != nil {
		return started.err
	}
	// With owners: as root, Postgres runs as another user.
	if out, err := exec.Command("cp", "-a", started.dir, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w\n%s", started.dir, err, out)
	}
	return nil
}

// starting bounds how many programs start for the first time at once: on two processors
// ten would all be late.
var starting = make(chan struct{}, 3)

// startDev starts a dev of the test's own. After the test it must stop cleanly,
// and its database must hold no broken promise.
func startDev(t testing.TB, edit func(*devOptions)) *dev {
	t.Helper()
	o := devOptions{bin: devBinary(t)}
	if edit != nil {
		edit(&o)
	}
	if o.dir == "" {
		o.dir = devDir(t)
		if err := copyStarted(o.bin, o.dir); err != nil {
			t.Fatal(err)
		}
		starting <- struct{}{}
		defer func() { <-starting }()
	}
	d, err := launchDev(o.bin, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.program.exited() {
			return // the test did it, and looked itself
		}
		if !t.Failed() {
			d.check(t)
			if err := d.proves(); err != nil {
				t.Error(err)
			}
		}
		if err := d.program.stop(); err != nil {
			t.Error(err)
		} else if t.Failed() {
			t.Log(d.program.tail())
		}
	})
	return d
}

// again starts the same directory again, keeping what the clients remember.
func (d *dev) again(t testing.TB, edit func(*devOptions)) *dev {
	t.Helper()
	next := startDev(t, func(o *devOptions) {
		o.dir = d.dir
		if edit != nil {
			edit(o)
		}
	})
	next.journal, next.sessions = d.journal, d.sessions
	return next
}

// sharedDev is the program that tests use together which leave it as it is.
type sharedDev struct {
	queue
	dev *dev
	err error
}

// browsed is a second one, for the tests with browsers, which take their time, called a
// third, for what agents call it with, clients and proxies, and hosted a fourth, for what
// models are hosted in: coding agents, frameworks, and whatever speaks MCP.
var shared, browsed, called, hosted sharedDev

// sharedPolicy is the example policy and rules that tests need.
const sharedPolicy = `routing:
  rules:
    - {tool: "root_*", role: security-approver, needed: 2, within: 30m, expires_in: 1h}
    - {tool: "brief_*", role: reviewer, needed: 1, expires_in: 1s}
    - {tool: "soon_*", role: reviewer, needed: 1, expires_in: 6s}
    - {tool: "pair_*", role: reviewer, needed: 2, expires_in: 1h}
    - {tool: "signed_*", role: security-approver, needed: 1, signed: true, expires_in: 1h}
    - {risk_domain: finance, role: finance-approver, needed: 1, expires_in: 1h}
  default: {role: reviewer, needed: 1, expires_in: 1h}
`

// onShared gives a test the shared program, started when the first one asks.
func onShared(t *testing.T) *dev { t.Helper(); return shared.use(t, launchShared("shared")) }

// onCalled is onShared for a test of what agents call it with.
func onCalled(t *testing.T) *dev { t.Helper(); return called.use(t, launchShared("called")) }

// onHosted is onShared for a test of what models are hosted in.
func onHosted(t *testing.T) *dev { t.Helper(); return hosted.use(t, launchShared("hosted")) }

// onBrowsed is onShared for a test with a browser.
func onBrowsed(t *testing.T) *dev { t.Helper(); return browsed.use(t, launchShared("browsed")) }

func launchShared(name string) func(bin string) (*dev, error) {
	return func(bin string) (*dev, error) {
		dir := filepath.Join(built.data, name)
		if err := copyStarted(bin, dir); err != nil {
			return nil, err
		}
		return launchDev(bin, devOptions{dir: dir, policy: sharedPolicy})
	}
}

// use gives a test the program when it is its turn, started when the first one asks.
// After the test its database must hold no broken promise.
func (s *sharedDev) use(t *testing.T, launch func(bin string) (*dev, error)) *dev {
	t.Helper()
	s.turn(t)
	if bin := devBinary(t); s.dev == nil && s.err == nil {
		starting <- struct{}{}
		s.dev, s.err = launch(bin)
		<-starting
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	d := s.dev
	if d.program.exited() {
		t.Fatalf("the shared program has ended\n%s", d.program.tail())
	}
	from := len(d.program.text())
	t.Cleanup(func() {
		if !t.Failed() {
			d.check(t)
		}
		if t.Failed() {
			t.Log("meanwhile\n" + d.program.tailOf(d.program.text()[from:]))
		}
	})
	return d
}

func (s *sharedDev) stop() error {
	if s.dev == nil {
		return nil
	}
	return s.dev.program.stop()
}

// endsBy kills a started command that talks for too long, so that whoever listens to it
// fails and does not wait for ever.
func endsBy(t testing.TB, cmd *exec.Cmd) {
	timer := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop() })
}

// startTalking starts a command that is spoken to line by line. It is killed when this
// process ends, and when it talks for too long.
func startTalking(t testing.TB, cmd *exec.Cmd) (in io.WriteCloser, lines *bufio.Scanner) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	endsBy(t, cmd)
	lines = bufio.NewScanner(out)
	lines.Buffer(nil, 8<<20)
	return in, lines
}

// command is a finished run of a subcommand.
type command struct {
	out, err string
	code     int
}

// cli runs a subcommand to its end.
func cli(t testing.TB, env []string, stdin string, args ...string) command {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	bin := binary(t)
	if len(args) > 0 && args[0] == "dev" {
		bin = devBinary(t)
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = commandEnv(env...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = 10 * time.Second // what it started may still hold its output
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("holdpoint %s: %v", strings.Join(args, " "), err)
	}
	return command{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// must is cli for what has to work.
func must(t testing.TB, env []string, stdin string, args ...string) string {
	t.Helper()
	c := cli(t, env, stdin, args...)
	if c.code != 0 {
		t.Fatalf("holdpoint %s: exit %d\n%s%s", strings.Join(args, " "), c.code, c.out, c.err)
	}
	return c.out
}

// eventually waits until ok says so. It is for what nothing can be waited on.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > within {
			t.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(began)
}

// alive reports whether a process is there and no zombie.
func alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// descendants lists the processes below pid.
func descendants(pid int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		var id, parent int
		var state string
		if _, err := fmt.Sscan(entry.Name(), &id); err != nil {
			continue
		}
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		if _, err := fmt.Sscan(rest, &state, &parent); err == nil {
			children[parent] = append(children[parent], id)
		}
	}
	var all []int
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		all = append(all, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return all
}

func fileText(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}
