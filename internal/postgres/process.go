package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// process is a started child and its end.
type process struct {
	pid  int
	cmd  *exec.Cmd
	done chan struct{} // closed after cmd.Wait
}

// startProcess starts cmd on an operating system thread of its own that lives until the child has ended: the kernel delivers a
// parent-death signal when the *thread* that forked dies, and Go ends threads as it pleases.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // what it says is in cmd.ProcessState
			close(p.done)
		}
	}()
	return p, <-started
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal is a no-op once the process has been waited for, so that a recycled pid is never hit.
func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

func (p *process) state() string { return p.cmd.ProcessState.String() }

// run runs cmd to its end; the error quotes what it said last. Like startProcess it keeps the thread alive while the child is.
func run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if err != nil {
		output := lastLines(string(out), 3)
		if output != "" {
			output = ": " + output
		}
		return fmt.Errorf("run %s: %w%s", cmd.Path, err, output)
	}
	return nil
}

// environment is what the children get: nothing of ours but what the loader and the resolver need. Variables such as PGPORT or
// PGOPTIONS would change the server, and our own may be secret.
func environment() []string {
	env := []string{"LC_ALL=C", "LANG=C", "TZ=UTC"}
	for _, name := range []string{"PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// stopLeftovers ends every server process that still works on dir and removes what would keep a new server from starting. The
// caller holds the directory's lock.
func stopLeftovers(ctx context.Context, dir directory, cfg Config) error {
	steps := []struct {
		signal  syscall.Signal
		timeout time.Duration
	}{{syscall.SIGINT, fastTimeout}, {syscall.SIGQUIT, immediateTimeout}, {syscall.SIGKILL, killTimeout}}
	pids := leftoverProcesses(ctx, dir)
	if len(pids) > 0 {
		cfg.Progress("stopping a Postgres that an earlier run left behind in " + string(dir))
		cfg.Logger.Warn("stopping orphaned postgres", "dir", dir, "pids", pids)
	}
	for _, step := range steps {
		deadline := time.Now().Add(step.timeout)
		postmaster, _ := dir.pidFile()
		if step.signal != syscall.SIGKILL && !slices.Contains(pids, postmaster) {
			continue // without its postmaster nobody can shut a backend down politely
		}
		for len(pids) > 0 && time.Now().Before(deadline) {
			if step.signal == syscall.SIGKILL {
				for _, pid := range pids {
					_ = syscall.Kill(pid, step.signal)
				}
			} else if pid, _ := dir.pidFile(); pid == postmaster {
				_ = syscall.Kill(postmaster, step.signal)
			}
			if err := sleep(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("stop orphaned postgres: %w", err)
			}
			pids = leftoverProcesses(ctx, dir)
		}
	}
	if len(pids) > 0 {
		return fmt.Errorf("an earlier Postgres still runs there (pids %s) and cannot be stopped", strings.Trim(fmt.Sprint(pids), "[]"))
	}

	// A stale pid file is no obstacle, unless its number now belongs to a stranger: then the server would refuse to start.
	if pid, _ := dir.pidFile(); pid != 0 && alive(pid) {
		if err := os.Remove(dir.data() + "/postmaster.pid"); err != nil {
			return fmt.Errorf("remove stale pid file: %w", err)
		}
	}
	return nil
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
