package auditlog_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdpoint/engine/audit"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/auditlog/floor"
	"holdpoint/internal/store"
)

const orderVariable = "SEQUENCER_TEST_ORDER"

// order is what a child is to do.
type order struct {
	URL, Key, Floor string
	// Signal is what the child sends itself when it is at Step for the Nth time.
	Step   string
	Nth    int
	Signal syscall.Signal
	Every  time.Duration // 20 ms when 0
	// Timeout is the store's: a minute when 0.
	Timeout time.Duration
}

// sequence is the whole program of a child.
func sequence(text string) {
	debug.SetGCPercent(400) // as the worker does
	var o order
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fail(json.Unmarshal([]byte(text), &o))
	keys, err := audit.ParseKeys(o.Key)
	fail(err)
	ctx := context.Background()
	s, err := store.Open(ctx, store.Config{URL: o.URL, Timeout: cmp.Or(o.Timeout, time.Minute)})
	fail(err)
	q := &auditlog.Sequencer{Store: s, Keys: keys, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Every: 20 * time.Millisecond}
	if o.Every != 0 {
		q.Every = o.Every
	}
	if o.Floor != "" {
		q.Floors = []auditlog.Floor{floor.File{Path: o.Floor}}
	}
	if o.Step != "" {
		seen := 0
		q.At = func(step string) {
			if step != o.Step {
				return
			}
			if seen++; seen == o.Nth {
				_ = syscall.Kill(os.Getpid(), o.Signal)
			}
		}
	}
	fail(q.Check(ctx))
	q.Run(ctx)
}

// child is a process that is a sequencer.
type child struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  *output
	done chan struct{}
}

type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (in *installation) child(o order) *child {
	in.t.Helper()
	o.URL = cmp.Or(o.URL, in.app)
	o.Key = in.key
	text, err := json.Marshal(o)
	must(in.t, err)
	c := &child{t: in.t, cmd: exec.Command(os.Args[0]), out: &output{}, done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
	c.cmd.Stderr = c.out
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(in.t, c.cmd.Start())
	go func() { _ = c.cmd.Wait(); close(c.done) }()
	in.t.Cleanup(c.kill)
	return c
}

// kill ends the child by SIGKILL, also one that is stopped or has ended.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// dies waits until the child has killed itself.
func (c *child) dies(within time.Duration) {
	c.t.Helper()
	select {
	case <-c.done:
		if s, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
			c.t.Fatalf("the sequencer ended otherwise: %s\n%s", c.cmd.ProcessState, c.out)
		}
	case <-time.After(within):
		c.t.Fatalf("the sequencer did not come to its step within %s\n%s", within, c.out)
	}
}

// stopped waits until the child is stopped.
func (c *child) stopped(within time.Duration) {
	c.t.Helper()
	eventually(c.t, within, "the sequencer is stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
		if err != nil {
			c.t.Fatalf("the sequencer ended: %v\n%s", err, c.out)
		}
		return bytes.Contains(stat[bytes.LastIndexByte(stat, ')'):], []byte(") T"))
	})
}
