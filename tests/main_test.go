// Package tests drives the real binary from outside: over HTTP, in a real
// browser, from many clients at once, and through the failures of everything
// that it stands on. It looks at nothing inside the program; what must hold
// afterwards it reads from the database itself (checker_test.go). Of the
// module's own packages it uses only those that run a Postgres and a Temporal
// for it to stop and start.
package tests

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/internal/postgres/pgtest"
)

var (
	long = flag.Bool("long", false, "run the race tests for 300 rounds instead of 20")
	race = flag.Bool("holdpoint-race", false, "build the program with the race detector")
	made = flag.String("holdpoint", "", "test this binary instead of building one")
	keep = flag.Bool("keep", false, "keep the directories of the programs that were started")
)

// seldomCollected is the GOGC of what runs briefly: these tests, and commands, a
// third of whose start was the collector. Servers set their own.
const seldomCollected = 400

// commandEnv is the environment of a command that ends by itself.
func commandEnv(more ...string) []string {
	return environment(append([]string{"GOGC=" + strconv.Itoa(seldomCollected)}, more...)...)
}

// rounds is how often a race is run.
func rounds() int {
	if *long {
		return 300
	}
	return 20
}

func TestMain(m *testing.M) {
	if file := os.Getenv(toolServerEnv); file != "" {
		if err := serveTools(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(seldomCollected)
	}
	// -parallel is of the tests with programs of their own. Those that wait for their
	// turn would take the places of those whose turn it is.
	parallel := flag.Lookup("test.parallel").Value
	limit, _ := strconv.Atoi(parallel.String()) // the flag is a number
	places, idle = make(chan struct{}, min(limit+1, 4)), make(chan struct{}, min(limit, 3))
	_ = parallel.Set("1000")
	if limit := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration); limit > 0 {
		time.AfterFunc(limit-limit/20, hangs)
	}
	code := m.Run()
	chrome.Close()
	whole.Close()
	for _, s := range []*sharedDev{&shared, &called, &hosted, &browsed, &waiting} {
		if err := s.dev.proves(); err != nil {
			fmt.Fprintln(os.Stderr, "the shared program:", err)
			code = 1
		}
		if err := s.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "the shared program:", err)
			code = 1
		}
	}
	if built.done != nil {
		<-built.done
	}
	if !*keep {
		_ = os.RemoveAll(built.dir)
		_ = os.RemoveAll(built.data)
	}
	os.Exit(code)
}

// hangs ends the tests shortly before their time is over. What they wait in is said
// briefly: what the runtime would say of the servers in this process buries it.
func hangs() {
	all := make([]byte, 64<<20)
	all = all[:runtime.Stack(all, true)]
	fmt.Fprintln(os.Stderr, "the time is over; tests are here:")
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		if strings.Contains(stack, "holdpoint/tests.") && !strings.Contains(stack, "tests.TestMain") && !strings.Contains(stack, "tests.inPlace") && !strings.Contains(stack, "(*queue).turn") {
			fmt.Fprintln(os.Stderr, stack+"\n")
		}
	}
	os.Exit(1)
}

// places are what tests with programs of their own run in, idle those of the tests that
// wait most of their time.
var places, idle chan struct{}

// ownPrograms is called first by a test that starts programs of its own: a Postgres,
// a Temporal, gates and workers. It runs beside others, as soon as there is place.
func ownPrograms(t *testing.T) { t.Helper(); inPlace(t, places) }

// idlePrograms is ownPrograms for a test that waits longer than it computes, for
// deadlines and outages: its wait keeps no other test from the processors.
func idlePrograms(t *testing.T) { t.Helper(); inPlace(t, idle) }

func inPlace(t *testing.T, places chan struct{}) {
	t.Helper()
	build()
	t.Parallel()
	places <- struct{}{}
	t.Cleanup(func() { <-places })
}

// queue is of tests that use something together, one after another in the order of
// the source, beside those that do not use it.
type queue struct {
	last <-chan struct{} // closed when the last test that came has ended
}

// turn waits until all tests that came before have ended.
func (q *queue) turn(t *testing.T) {
	t.Helper()
	before, ended := q.last, make(chan struct{})
	q.last = ended
	t.Cleanup(func() { close(ended) })
	build()
	t.Parallel()
	if before != nil {
		<-before
	}
}

// built is the program under test, made when the first test asks for it: with "dev", and
// as it is in production, without. The second starts in half the time, and is what serves,
// works and is called a thousand times in these tests.
var built struct {
	once sync.Once
	done chan struct{} // closed when both are there, or err says why not
	dir  string
	data string // for what programs keep
	err  error
}

// build begins to make the program, once, from the sources beside this package: while the
// tests that need none of it run.
func build() {
	built.once.Do(func() {
		built.done = make(chan struct{})
		go func() {
			defer close(built.done)
			built.err = makeProgram()
		}()
	})
}

func makeProgram() (err error) {
	if built.data, err = pgtest.TempDir("programs"); err != nil {
		return err
	}
	if built.dir, err = os.MkdirTemp("", "holdpoint-tests-"); err != nil {
		return err
	}
	if err = os.Chmod(built.dir, 0o755); err != nil || *made != "" {
		return err
	}
	for path, more := range map[string][]string{devPath(): nil, binaryPath(): {"-tags", "nodev"}} {
		args := append([]string{"build", "-ldflags=-s -w", "-o", path}, more...)
		if *race {
			args = append(args, "-race")
		}
		if out, err := exec.Command("go", append(args, "holdpoint/cmd/holdpoint")...).CombinedOutput(); err != nil {
			return fmt.Errorf("build the program: %w\n%s", err, out)
		}
	}
	return nil
}

// binary is the path of the program as it is in production, once it is there.
func binary(t testing.TB) string { t.Helper(); waitBuilt(t); return binaryPath() }

// devBinary is the path of the program with "dev", once it is there.
func devBinary(t testing.TB) string { t.Helper(); waitBuilt(t); return devPath() }

func waitBuilt(t testing.TB) {
	t.Helper()
	build()
	<-built.done
	if built.err != nil {
		t.Fatal(built.err)
	}
}

// binaryPath and devPath are where the programs are, once they are there.
func binaryPath() string { return cmp.Or(*made, filepath.Join(built.dir, "holdpoint")) }
func devPath() string    { return cmp.Or(*made, filepath.Join(built.dir, "dev", "holdpoint")) }

// environment is the present one without settings of ours, and with more.
func environment(more ...string) []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "HOLDPOINT_") {
			env = append(env, pair)
		}
	}
	return append(env, more...)
}
