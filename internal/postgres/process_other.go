//go:build !linux

package postgres

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// endWithParent does nothing: these systems have no parent-death signal. An orphan is found and replaced by the next Start.
func endWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// leftovers is the postmaster named in the cluster's pid file, if that process is a Postgres that was started on this cluster.
func leftovers(ctx context.Context, dir directory) []int {
	pid, _ := dir.pidFile()
	if pid == 0 || !alive(pid) {
		return nil
	}
	command, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil || !strings.Contains(string(command), "postgres") || !strings.Contains(string(command), dir.data()) {
		return nil
	}
	return []int{pid}
}
