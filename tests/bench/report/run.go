package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// run is one run of the benchmarks. Its figures are by benchmark and unit, such as
// "Gate/callers=8 ratio".
type run struct {
	At      time.Time          `json:"at"`
	Commit  string             `json:"commit"`
	Machine string             `json:"machine"`
	Figures map[string]float64 `json:"figures"`
}

// result is a benchmark's line: its name without the number of processors, how often it
// ran, and figures with their units.
var result = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// figures are those that the benchmarks report themselves; nanoseconds of a benchmark
// that waits and sleeps say nothing.
func figures(text []byte) map[string]float64 {
	found := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		parts := result.FindStringSubmatch(strings.TrimSpace(line))
		if parts == nil {
			continue
		}
		fields := strings.Fields(parts[2])
		for i := 0; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if unit := fields[i+1]; err == nil && unit != "ns/op" && unit != "B/op" && unit != "allocs/op" {
				found[parts[1]+" "+unit] = value
			}
		}
	}
	return found
}

// ratio reports whether a figure compares two things of one run.
func ratio(name string) bool {
	return strings.Contains(name[strings.LastIndexByte(name, ' '):], "ratio")
}

// history are the runs that were kept, the oldest first.
func history(file string) (runs []run, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for i, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var r run
		if err == nil && len(line) > 0 {
			if err = json.Unmarshal(line, &r); err != nil {
				err = fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
			runs = append(runs, r)
		}
	}
	return runs, err
}

// keep appends the run to the history.
func (r run) keep(file string) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) // #nosec G302 -- to be read
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// former is what a run is compared with: of each figure the last one that was kept. Of
// another machine only ratios count.
func (r run) former(earlier []run) map[string]float64 {
	last := map[string]float64{}
	for _, e := range earlier {
		for name, value := range e.Figures {
			if e.Machine == r.Machine || ratio(name) {
				last[name] = value
			}
		}
	}
	return last
}
