// Command report runs the benchmarks of the whole program, and writes what they found
// as Markdown and as a picture, beside the figures of an earlier run.
//
//	go run ./tests/bench/report                  # all of them, about ten minutes
//	go run ./tests/bench/report -quick           # the gate and the flood, a minute
//	go run ./tests/bench/report -keep            # and keep the figures in the history
//
// It fails when a benchmark fails, and never because a figure is worse: machines are
// noisy. Figures that are ratios, each measured within one run, can be compared between
// machines; the others cannot.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// sets are the benchmarks of a report: arguments of go test.
var sets = [][]string{
	{"./tests/bench", "-bench", "."},
	{"./tests", "-bench", "Waiters|Deadlines|Cycle|Pending"},
	{"./internal/store", "-bench", "Inbox"},
}

type options struct {
	quick, keep   bool
	from, out, of string
}

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "only ./tests/bench, one short round")
	flag.BoolVar(&o.keep, "keep", false, "append the figures to the history")
	flag.StringVar(&o.from, "from", "", "read the output of go test -bench from this file and run nothing")
	flag.StringVar(&o.out, "out", "", "write report.md and report.svg into this directory")
	flag.StringVar(&o.of, "history", "tests/bench/history.jsonl", "file with the figures of earlier runs, one run to a line")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := report(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func report(ctx context.Context, o options, out, progress io.Writer) error {
	earlier, err := history(o.of)
	if err != nil {
		return err
	}
	text, err := o.measure(ctx, progress)
	if err != nil {
		return err
	}
	now := run{At: time.Now().UTC().Truncate(time.Second), Commit: commit(ctx), Machine: machine(text), Figures: figures(text)}
	if len(now.Figures) == 0 {
		return errors.New("no benchmark reported a figure")
	}
	before := now.former(earlier)
	md := markdown(now, before)
	fmt.Fprint(out, md)
	if o.out != "" {
		for name, data := range map[string]string{"report.md": md, "report.svg": picture(now, before)} {
			if err := os.WriteFile(filepath.Join(o.out, name), []byte(data), 0o644); err != nil { // #nosec G306 -- to be read
				return err
			}
		}
	}
	if o.keep {
		return now.keep(o.of)
	}
	return nil
}

// measure is what the benchmarks say.
func (o options) measure(ctx context.Context, progress io.Writer) ([]byte, error) {
	if o.from != "" {
		return os.ReadFile(o.from)
	}
	var all bytes.Buffer
	run := sets
	if o.quick {
		run = [][]string{append(sets[0], "-seconds", "1", "-bench-rounds", "1")}
	}
	for _, set := range run {
		args := append([]string{"test", set[0], "-run", "^$", "-benchtime", "1x", "-timeout", "30m"}, set[1:]...)
		fmt.Fprintln(progress, "go", strings.Join(args, " "))
		cmd := exec.CommandContext(ctx, "go", args...) // #nosec G204 -- of sets
		cmd.Stdout, cmd.Stderr = io.MultiWriter(&all, progress), progress
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
	}
	return all.Bytes(), nil
}

// commit names the sources, as far as git knows them.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// machine describes where the benchmarks ran.
func machine(text []byte) string {
	cpu := "unknown processor"
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "cpu: "); ok {
			cpu = strings.TrimSpace(name)
		}
	}
	return fmt.Sprintf("%d × %s, %s/%s, %s", runtime.NumCPU(), cpu, runtime.GOOS, runtime.GOARCH, runtime.Version())
}
