// Package postgres runs a private Postgres cluster as a child process: the database of `holdpoint dev` and of every test that
// needs a real one. It finds the installed binaries (or fetches some where none are), creates the cluster once, starts it on
// the loopback interface only, and sees to it that the child never outlives this process. It knows nothing of what is stored
// in the cluster, never listens beyond loopback, never touches another cluster, and never writes a statement or a value of one
// into the server's log.
//
// One directory holds everything:
//
//	DIR/lock            held (flock) by the process that runs the cluster
//	DIR/data            the cluster; it appears here complete, by a rename, or not at all
//	DIR/data/superuser.password
//	DIR/data.partial    a creation under way, or what a crash left of one: redone at the next start
//	DIR/postgres.log    what the server says; postgres.log.1 is the part before
//	DIR/port            the port of the last start, used again when it is free
//	DIR/postgresql-N    fetched binaries, only where none are installed
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/internal/freeport"
)

// superuser is the name of the cluster's bootstrap role. Its password is random and lies in the cluster's directory.
const superuser = "postgres"

// Bounds on how long things may take, whatever the caller's context allows.
const (
	startTimeout     = 2 * time.Minute // crash recovery of a busy cluster replays up to a gigabyte of log
	fastTimeout      = 4 * time.Second // a fast shutdown writes one checkpoint
	immediateTimeout = 1500 * time.Millisecond
	killTimeout      = 15 * time.Second // a killed process of a busy machine may have to wait for its turn to end
)

// maxAttempts is how often the server process is started when what stopped it may pass by itself.
const maxAttempts = 5

// Config says where the cluster lives.
type Config struct {
	// Dir is the absolute directory that holds the cluster and everything about it. It is created when missing.
	Dir string
	// Logger receives what happens to the server process. Nil: nothing is logged.
	Logger *slog.Logger
	// Progress receives one line for people before each step that takes longer than a moment: creating the cluster, fetching
	// binaries, replacing an orphan. May be nil.
	Progress func(line string)
	// NoSync switches fsync off. What is committed then still survives kill -9 of any process, but not a crash of the machine:
	// for tests only.
	NoSync bool
}

// Server is a running cluster. All methods are safe for concurrent use.
type Server struct {
	dir      directory
	log      *slog.Logger
	lock     *os.File
	password string
	port     int
	proc     *process
	stopping atomic.Bool
	logStart int64
}

// Start brings up the cluster in cfg.Dir and returns when it accepts connections: about a second when it exists, a few when it
// must be created first. A cluster that was not shut down cleanly recovers; a server that outlived the process which started it
// is stopped and replaced; a directory in use by another live process is refused. ctx bounds the start only, not the server's
// life. Every error is one line and, where the server itself failed, quotes the end of its log.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("start postgres: directory %q is not absolute", cfg.Dir)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	dir, err := openDirectory(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	lock, err := dir.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	s, err := start(ctx, cfg, dir)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("start postgres in %s: %w", dir, err)
	}
	s.lock = lock
	return s, nil
}

// start does Start's work under the directory's lock.
func start(ctx context.Context, cfg Config, dir directory) (*Server, error) {
	// The lock is ours, so a server still running here has lost the process that started it.
	if err := stopLeftovers(ctx, dir, cfg); err != nil {
		return nil, err
	}
	major, err := dir.clusterVersion()
	if err != nil {
		return nil, err
	}
	inst, err := locate(ctx, dir, major, cfg.Progress)
	if err != nil {
		return nil, err
	}
	acc, err := chooseAccount(ctx, dir, inst)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if major == 0 {
		cfg.Progress("creating a private Postgres " + strconv.Itoa(inst.major) + " cluster in " + string(dir))
		if err := create(ctx, dir, inst, acc, cfg.NoSync); err != nil {
			return nil, fmt.Errorf("create cluster: %w", err)
		}
	}
	if err := acc.own(dir.data()); err != nil {
		return nil, err
	}
	password, err := os.ReadFile(dir.passwordFile())
	if err != nil {
		return nil, fmt.Errorf("read superuser password: %w", err)
	}

	s := &Server{dir: dir, log: cfg.Logger, password: string(bytes.TrimSpace(password))}
	if s.port, err = dir.choosePort(); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		err := s.launch(ctx, inst, acc, cfg.NoSync)
		if err == nil {
			s.log.Debug("postgres is ready", "dir", dir, "port", s.port, "pid", s.PID(), "version", inst.major, "account", acc.name)
			return s, nil
		}
		var failed *launchError
		if attempt == maxAttempts || !errors.As(err, &failed) {
			return nil, err
		}
		switch {
		case failed.portTaken():
			// Somebody was quicker between our look at the port and the server's bind.
			if s.port, err = freeport.Find(0); err != nil {
				return nil, err
			}
		case failed.memoryInUse():
			// Backends of a server that was killed are still on their way out.
			if err := sleep(ctx, time.Second); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// launch starts the server process once and waits until it is ready.
func (s *Server) launch(ctx context.Context, inst installation, acc account, noSync bool) error {
	out, err := s.dir.openLog()
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the child has its own descriptor
	if s.logStart, err = out.Seek(0, 2); err != nil {
		return fmt.Errorf("find end of server log: %w", err)
	}

	cmd := acc.command(s.dir, inst.postgres(), settings(s.dir, s.port, noSync)...)
	// An immediate shutdown: the server is gone at once, the next start recovers. A polite one could wait for ever on a client.
	endWithParent(cmd.SysProcAttr, syscall.SIGQUIT)
	cmd.Stdout, cmd.Stderr = out, out
	if s.proc, err = startProcess(cmd); err != nil {
		return fmt.Errorf("run %s as %s: %w", inst.postgres(), acc.name, err)
	}
	if err := s.awaitReady(ctx); err != nil {
		if !s.proc.exited() {
			s.stopping.Store(true)
			_ = s.shutDown(context.Background(), 0)
		}
		return err
	}
	// The port is a convenience for the next start; without it that one merely picks another.
	if err := os.WriteFile(s.dir.portFile(), []byte(strconv.Itoa(s.port)+"\n"), 0o600); err != nil {
		s.log.Warn("cannot remember the port of postgres", "err", err)
	}
	return nil
}

// awaitReady returns nil as soon as the server says so in its pid file and lets us in. Watching the file instead of knocking
// keeps "the database system is starting up" out of the log.
func (s *Server) awaitReady(ctx context.Context) error {
	for {
		if pid, ready := s.dir.pidFile(); ready && pid == s.PID() {
			return s.ping(ctx)
		}
		select {
		case <-s.proc.done:
			return &launchError{state: s.proc.state(), log: s.logTail()}
		case <-ctx.Done():
			return fmt.Errorf("wait until postgres is ready: %w%s", context.Cause(ctx), quote(s.logTail()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.SuperuserURL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the new server: %w", err)
	}
	return conn.Close(ctx)
}

// URL is the connection string for a role and a database of this cluster: postgres://…@127.0.0.1:port/database?sslmode=disable.
// Neither needs to exist.
func (s *Server) URL(user, password, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(user, password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// SuperuserURL is the connection string of the cluster's superuser. It carries the password: never print it.
func (s *Server) SuperuserURL(database string) string { return s.URL(superuser, s.password, database) }

// PID is the process id of the postmaster.
func (s *Server) PID() int { return s.proc.pid }

// Done is closed when the server process has ended, by itself or by Stop; Err tells which.
func (s *Server) Done() <-chan struct{} { return s.proc.done }

// Err is nil while the server runs and after Stop, else one line that says how it ended and quotes the end of its log.
func (s *Server) Err() error {
	if !s.proc.exited() || s.stopping.Load() {
		return nil
	}
	return &launchError{state: s.proc.state(), log: s.logTail()}
}

// Stop ends the server and gives the directory free: a fast shutdown (open transactions are rolled back, everything committed
// is checkpointed), after a few seconds or when ctx ends an immediate one, and in the end, after six seconds at most, SIGKILL,
// upon which a process is gone as soon as the system has time for it. In every case nothing committed is lost. An error means
// that even SIGKILL did not help. Stopping twice is fine.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	err := s.shutDown(ctx, fastTimeout)
	_ = s.lock.Close()
	if err != nil {
		return fmt.Errorf("stop postgres in %s: %w", s.dir, err)
	}
	return nil
}

func (s *Server) shutDown(ctx context.Context, patience time.Duration) error {
	steps := []struct {
		signal  syscall.Signal
		timeout time.Duration
	}{{syscall.SIGINT, patience}, {syscall.SIGQUIT, immediateTimeout}, {syscall.SIGKILL, killTimeout}}
	for i, step := range steps {
		if s.proc.exited() {
			return nil
		}
		if step.timeout == 0 {
			continue
		}
		s.proc.signal(step.signal)
		timer := time.NewTimer(step.timeout)
		var canceled <-chan struct{}
		if i == 0 {
			canceled = ctx.Done()
		}
		select {
		case <-s.proc.done:
			timer.Stop()
			return nil
		case <-timer.C:
		case <-canceled:
			timer.Stop()
		}
		s.log.Warn("postgres did not stop", "signal", step.signal.String(), "pid", s.PID())
	}
	return fmt.Errorf("process %d is still there after SIGKILL", s.PID())
}

func (s *Server) logTail() string { return tail(s.dir.logFile(), s.logStart, 4) }

// launchError is the end of a server process that nobody asked for.
type launchError struct {
	state string
	log   string
}

func (e *launchError) Error() string { return "postgres ended (" + e.state + ")" + quote(e.log) }

func (e *launchError) portTaken() bool {
	return strings.Contains(e.log, "could not create any TCP/IP sockets") || strings.Contains(e.log, "could not bind")
}

func (e *launchError) memoryInUse() bool {
	return strings.Contains(e.log, "pre-existing shared memory block")
}

// settings are the server's arguments. They go on the command line because nothing in the cluster's own files, ALTER SYSTEM
// included, can override them there.
func settings(dir directory, port int, noSync bool) []string {
	args := []string{"-D", dir.data(), "-p", strconv.Itoa(port)}
	set := func(name, value string) { args = append(args, "-c", name+"="+value) }
	set("listen_addresses", "127.0.0.1")
	set("unix_socket_directories", "") // a socket file would be a second door, and its path has a length limit
	set("password_encryption", "scram-sha-256")
	set("max_connections", "300")
	set("shared_buffers", "128MB")
	set("synchronous_commit", "on")
	if noSync {
		set("fsync", "off")
		set("full_page_writes", "off")
	} else {
		set("fsync", "on")
		set("full_page_writes", "on")
	}
	set("timezone", "UTC")

	// The log is for what happens to the server, never for what is stored in it. Statements, their parameters and the messages
	// of failing statements (which quote values: `invalid input syntax for type uuid: "…"`) are below the level "log"; terse
	// drops DETAIL and QUERY from the rest, such as the statement that a crashed backend was running.
	set("logging_collector", "off")
	set("log_destination", "stderr")
	set("log_line_prefix", "%m [%p] ")
	set("log_timezone", "UTC")
	set("lc_messages", "C")
	set("log_min_messages", "log")
	set("log_error_verbosity", "terse")
	set("log_min_error_statement", "panic")
	set("log_statement", "none")
	set("log_duration", "off")
	set("log_min_duration_statement", "-1")
	set("log_min_duration_sample", "-1")
	set("log_parameter_max_length", "0")
	set("log_parameter_max_length_on_error", "0")
	set("log_lock_waits", "off")
	set("log_checkpoints", "off")
	return args
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
