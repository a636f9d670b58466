package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// usage is the processor time that each process has taken, and those of its children that
// have ended, in microseconds, and whose child it is.
type usage map[int]struct {
	parent      int
	time, ended float64
}

// processors reads the usage of all processes. Linux tells it to a hundredth of a second.
func processors(b *testing.B) usage {
	b.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	now := usage{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// Behind the name, which may hold anything: state, parent, …, user and system time.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || len(fields) < 15 {
			b.Fatalf("%s: %s", file, text)
		}
		number := func(i int) int {
			n, err := strconv.Atoi(fields[i])
			if err != nil {
				b.Fatalf("%s: %s", file, text)
			}
			return n
		}
		one := now[pid]
		one.parent, one.time, one.ended = number(1), float64(number(11)+number(12))*10_000, float64(number(13)+number(14))*10_000
		now[pid] = one
	}
	return now
}

// since is what was taken since then.
func (u usage) since(then usage) usage {
	taken := usage{}
	for pid, now := range u {
		now.time -= then[pid].time
		now.ended -= then[pid].ended
		taken[pid] = now
	}
	return taken
}

// of is what a process has taken.
func (u usage) of(pid int) float64 { return u[pid].time }

// below is what has been taken by the children of a process, and theirs.
func (u usage) below(pid int) float64 {
	sum, _ := u.belowAndEnded(pid)
	return sum
}

// belowAndEnded is below, and what those have taken that have ended since.
func (u usage) belowAndEnded(pid int) (sum, ended float64) {
	for _, one := range u {
		for at := one.parent; at > 1; at = u[at].parent {
			if at == pid {
				sum, ended = sum+one.time, ended+one.ended
				break
			}
		}
	}
	return sum, ended
}
