package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"holdpoint/internal/freeport"
)

// maxLog is the size from which a server log is put aside at the next start.
const maxLog = 8 << 20

// directory is the place of one cluster, free of symbolic links: the package comment draws it.
type directory string

// openDirectory creates the directory when it is missing. As root the server runs under another account, which must be able to
// pass through; everybody else keeps it to themselves.
func openDirectory(path string) (directory, error) {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", fmt.Errorf("create directory: %w", err)
	}
	// The system names a process's directory without links, and that is what an orphan is recognised by.
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("resolve directory: %w", err)
	}
	if err := os.Chmod(resolved, mode); err != nil {
		return "", fmt.Errorf("protect directory: %w", err)
	}
	return directory(resolved), nil
}

func (d directory) join(name string) string { return filepath.Join(string(d), name) }
func (d directory) data() string            { return d.join("data") }
func (d directory) partial() string         { return d.join("data.partial") }
func (d directory) logFile() string         { return d.join("postgres.log") }
func (d directory) portFile() string        { return d.join("port") }
func (d directory) passwordFile() string    { return filepath.Join(d.data(), passwordName) }

// acquire takes the directory's lock, which the kernel gives back the moment this process ends, however it ends. A little
// patience, because a process that was just killed may still be on its way out.
func (d directory) acquire(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(d.join("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for deadline := time.Now().Add(time.Second); ; {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) || sleep(ctx, 50*time.Millisecond) != nil {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		_ = f.Close()
		return nil, fmt.Errorf("%s is in use by another process (pid %s)", d, strings.TrimSpace(string(holder)))
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	// Who holds it is for the message above only.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

// clusterVersion is the major version that created the cluster here, 0 when there is none yet.
func (d directory) clusterVersion() (int, error) {
	text, err := os.ReadFile(filepath.Join(d.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		// A cluster gets its name only when it is complete, so a data directory without a version is not ours to replace.
		if _, err := os.Lstat(d.data()); err == nil {
			return 0, fmt.Errorf("%s exists but is not a Postgres cluster", d.data())
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read cluster version: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read cluster version: %w", err)
	}
	return major, nil
}

// pidFile reads what the server last wrote about itself; zero values when there is nothing to read.
func (d directory) pidFile() (pid int, ready bool) {
	text, err := os.ReadFile(filepath.Join(d.data(), "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	lines := strings.Split(string(text), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 0 {
		return 0, false
	}
	return pid, len(lines) > 7 && strings.TrimSpace(lines[7]) == "ready"
}

// choosePort is the port of the last start if it is free, else any free one.
func (d directory) choosePort() (int, error) {
	if text, err := os.ReadFile(d.portFile()); err == nil {
		port, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil && port > 1023 && port < 65536 {
			return freeport.Find(port)
		}
	}
	return freeport.Find(0)
}

func (d directory) openLog() (*os.File, error) {
	if info, err := os.Stat(d.logFile()); err == nil && info.Size() > maxLog {
		if err := os.Rename(d.logFile(), d.logFile()+".1"); err != nil {
			return nil, fmt.Errorf("put server log aside: %w", err)
		}
	}
	f, err := os.OpenFile(d.logFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open server log: %w", err)
	}
	return f, nil
}

// tail is the last lines that a log file got since offset from, joined into one line.
func tail(path string, from int64, lines int) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	const most = 4 << 10
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size-from > most {
		from = size - most
	}
	text, err := io.ReadAll(io.NewSectionReader(f, from, most))
	if err != nil {
		return ""
	}
	return lastLines(string(text), lines)
}

func lastLines(text string, n int) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " | ")
}

// quote appends what a log said to an error message.
func quote(log string) string {
	if log == "" {
		return ""
	}
	return "; its log ends: " + log
}
