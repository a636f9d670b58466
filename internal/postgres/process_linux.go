package postgres

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// endWithParent has the kernel send sig to the child when the thread that started it dies.
func endWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// leftoverProcesses are the live Postgres processes whose working directory is the cluster: the postmaster and its backends, also
// those whose postmaster was killed, also those of an interrupted creation.
func leftoverProcesses(_ context.Context, dir directory) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cwd, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		if err != nil || cwd != dir.data() && cwd != dir.partial() {
			continue
		}
		name, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "comm"))
		if err == nil && (strings.HasPrefix(string(name), "postgres") || strings.HasPrefix(string(name), "postmaster")) {
			pids = append(pids, pid)
		}
	}
	return pids
}
