package postgres

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// helperDir makes this binary a program that starts a server in the named directory, says its pid, and waits to be killed.
const helperDir = "HOLDPOINT_POSTGRES_HELPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		s, err := Start(context.Background(), Config{Dir: dir, NoSync: true})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		// Threads that come and go must not take the server with them: one ends with each of these goroutines.
		var ended sync.WaitGroup
		for range 50 {
			ended.Go(runtime.LockOSThread)
		}
		ended.Wait()
		fmt.Println(s.PID())
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	m.Run()
	if standing != "" {
		_ = os.RemoveAll(standing)
	}
}

// standing is where the directories from modes and closed are.
var standing string

// closed and open are directories in which the tests share a cluster, because making one takes far longer than starting it;
// every test leaves it stopped. As root the server runs in a user namespace in the first (a parent has mode 0700) and as another
// user in the second.
func closed(t *testing.T) string { return shared(t, "closed", 0o700) }
func open(t *testing.T) string   { return shared(t, "open", 0o755) }

func shared(t *testing.T, name string, mode os.FileMode) string {
	t.Helper()
	var err error
	if standing == "" {
		if standing, err = os.MkdirTemp("", "holdpoint-postgres-"); err == nil {
			err = os.Chmod(standing, 0o755)
		}
	}
	parent := filepath.Join(standing, name)
	if err == nil {
		err = os.MkdirAll(parent, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(parent, "pg")
}

// modes runs a test in each of the ways the server can run here.
func modes(t *testing.T, test func(t *testing.T, dir string)) {
	t.Run("closed parent", func(t *testing.T) { test(t, closed(t)) })
	t.Run("open parent", func(t *testing.T) { test(t, open(t)) })
}

func begin(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Config{Dir: dir, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, s) })
	return s
}

func end(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// programs are what Start runs in dir, and as whom.
func programs(t *testing.T, dir directory) (installation, account) {
	t.Helper()
	inst, err := locate(t.Context(), dir, 0, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	acc, err := chooseAccount(t.Context(), dir, inst)
	if err != nil {
		t.Fatal(err)
	}
	return inst, acc
}

func connect(t *testing.T, s *Server) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.SuperuserURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, s *Server, statement string) {
	t.Helper()
	if _, err := connect(t, s).Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func query(t *testing.T, s *Server, statement string) string {
	t.Helper()
	var got string
	if err := connect(t, s).QueryRow(t.Context(), statement).Scan(&got); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return got
}

func TestStartStopStart(t *testing.T) {
	modes(t, func(t *testing.T, dir string) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		var progress []string
		began := time.Now()
		s, err := Start(t.Context(), Config{Dir: dir, Progress: func(line string) { progress = append(progress, line) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("new cluster: %v", time.Since(began).Round(time.Millisecond))
		if len(progress) != 1 || !strings.Contains(progress[0], dir) {
			t.Errorf("progress is %q, want one line that names the directory", progress)
		}
		for name, want := range map[string]string{
			"server_encoding": "UTF8", "lc_collate": "C", "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "on",
			"synchronous_commit": "on", "max_connections": "300", "shared_buffers": "128MB", "log_min_error_statement": "panic",
			"log_parameter_max_length": "0", "log_parameter_max_length_on_error": "0", "log_statement": "none",
		} {
			if got := query(t, s, "SELECT setting FROM (SELECT current_setting('"+name+"') AS setting) s"); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if root := os.Geteuid(); root == 0 && runtime.GOOS == "linux" {
			uid, err := ownerOf(s.dir.data())
			if want := strings.Contains(t.Name(), "closed"); err != nil || want != (uid == root) {
				t.Errorf("the server runs as %d (%v): in a user namespace is %v, want %v", uid, err, uid == root, want)
			}
		}
		execute(t, s, "CREATE TABLE kept AS SELECT 'still here' AS text")
		port := s.port

		began = time.Now()
		end(t, s)
		t.Logf("stop: %v", time.Since(began).Round(time.Millisecond))
		end(t, s) // again is fine
		select {
		case <-s.Done():
		default:
			t.Error("Done is open after Stop")
		}
		if err := s.Err(); err != nil {
			t.Errorf("Err after Stop is %v, want nil", err)
		}
		if alive(s.PID()) {
			t.Errorf("process %d is alive after Stop", s.PID())
		}

		began = time.Now()
		s = begin(t, dir)
		t.Logf("existing cluster: %v", time.Since(began).Round(time.Millisecond))
		if got, want := query(t, s, "SELECT text FROM kept"), "still here"; got != want {
			t.Errorf("after a restart got %q, want %q", got, want)
		}
		if s.port != port {
			// Anybody may have taken it while no server ran.
			if l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port)); err != nil {
				t.Logf("port is %d, because %d is taken: %v", s.port, port, err)
			} else {
				l.Close()
				t.Errorf("port is %d, want %d as before", s.port, port)
			}
		}
	})
}

func TestFilesArePrivate(t *testing.T) {
	dir := open(t)
	begin(t, dir)
	for _, name := range []string{"data", "data/superuser.password", "postgres.log", "lock"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v: others may use it", name, info.Mode().Perm())
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.partial")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPasswordIsNeeded(t *testing.T) {
	s := begin(t, open(t))
	conn, err := pgx.Connect(t.Context(), s.URL(superuser, "guess", "postgres"))
	if err == nil {
		_ = conn.Close(t.Context())
		t.Fatal("connected with a wrong password")
	}
}

func TestKilledPostmaster(t *testing.T) {
	modes(t, func(t *testing.T, dir string) {
		s := begin(t, dir)
		execute(t, s, "DROP TABLE IF EXISTS also_kept; CREATE TABLE also_kept ()")
		busy := connect(t, s)
		go func() { _, _ = busy.Exec(context.Background(), "SELECT pg_sleep(60)") }() // a backend that does not notice by itself
		if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.Done():
		case <-time.After(time.Minute):
			t.Fatal("Done is open after the postmaster was killed")
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("Err is %v, want one that says it was killed", err)
		}
		end(t, s)
		if got, want := query(t, begin(t, dir), "SELECT to_regclass('also_kept')::text"), "also_kept"; got != want {
			t.Errorf("after kill -9 got %q, want %q", got, want)
		}
	})
}

func TestKilledParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no parent-death signal here; TestOrphanIsReplaced is what counts")
	}
	modes(t, func(t *testing.T, dir string) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), helperDir+"="+dir)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(out).ReadString('\n')
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			_ = cmd.Wait()
			t.Fatalf("the helper said %q, want a pid", line)
		}
		if pids := leftoverProcesses(t.Context(), directory(dir)); !slices.Contains(pids, pid) {
			t.Fatalf("the server is dead before its parent: %d is not one of %v", pid, pids)
		}

		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		began := time.Now()
		for len(leftoverProcesses(t.Context(), directory(dir))) > 0 {
			if time.Since(began) > 10*time.Second {
				t.Fatalf("still there: %v", leftoverProcesses(t.Context(), directory(dir)))
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Logf("gone %v after its parent", time.Since(began).Round(time.Millisecond))
		begin(t, dir)
	})
}

func TestOrphanIsReplaced(t *testing.T) {
	modes(t, func(t *testing.T, dir string) {
		s := begin(t, dir)
		execute(t, s, "CREATE TABLE IF NOT EXISTS kept AS SELECT 'still here' AS text")
		end(t, s)

		// The same server again, but bound to nobody's life and without the lock.
		d := s.dir
		inst, acc := programs(t, d)
		orphan, err := startProcess(acc.command(d, inst.postgres(), settings(d, s.port, true)...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { orphan.signal(syscall.SIGKILL) })
		for ready := false; !ready; {
			_, ready = d.pidFile()
			if orphan.exited() {
				t.Fatalf("the orphan did not start: %s", orphan.state())
			}
			time.Sleep(10 * time.Millisecond)
		}

		s = begin(t, dir)
		select {
		case <-orphan.done:
		case <-time.After(time.Minute):
			t.Errorf("the orphan (pid %d) still runs", orphan.pid)
		}
		if got, want := query(t, s, "SELECT text FROM kept"), "still here"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestDirectoryInUse(t *testing.T) {
	dir := open(t)
	s := begin(t, dir)
	_, err := Start(t.Context(), Config{Dir: dir})
	if want := "in use by another process (pid " + strconv.Itoa(os.Getpid()) + ")"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("second start: %v, want an error with %q", err, want)
	}
	if s.Err() != nil || !alive(s.PID()) {
		t.Error("the second start harmed the first")
	}
}

func TestInterruptedCreation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pg")
	for name, text := range map[string]string{
		"data.partial/PG_VERSION": "9", "data.partial/base/1/2": "half a file", "superuser.password.partial": "old",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begin(t, dir)
}

func TestForeignDataIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "data", "thesis.txt")
	if err := os.Mkdir(filepath.Dir(precious), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(precious, []byte("…"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "not a Postgres cluster") {
		t.Errorf("got %v, want a refusal", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

// TestStartsOverLeftovers starts over things that earlier runs and other programs leave in the way.
func TestStartsOverLeftovers(t *testing.T) {
	dir := open(t)
	s := begin(t, dir)
	port := s.port
	end(t, s)

	t.Run("pid file with a stranger's pid", func(t *testing.T) {
		// The parent of a test is alive and no Postgres.
		file := filepath.Join(dir, "data", "postmaster.pid")
		text := fmt.Sprintf("%d\n%s\n%d\n%d\n\n127.0.0.1\n", os.Getppid(), filepath.Join(dir, "data"), time.Now().Unix(), port)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		end(t, begin(t, dir))
		if !alive(os.Getppid()) {
			t.Error("the stranger was harmed")
		}
	})
	t.Run("port taken", func(t *testing.T) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		port := l.Addr().(*net.TCPAddr).Port
		if err := os.WriteFile(filepath.Join(dir, "port"), []byte(strconv.Itoa(port)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := begin(t, dir)
		if s.port == port {
			t.Errorf("got port %d, which is taken", port)
		}
		end(t, s)

		// And if it is taken after we looked, the next attempt gets another.
		inst, acc := programs(t, s.dir)
		s.port = port
		var failed *launchError
		if err := s.launch(t.Context(), inst, acc, true); !errors.As(err, &failed) || !failed.portTaken() {
			t.Errorf("launch on a taken port: %v, want it recognised", err)
		}
	})
	t.Run("stopped context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		progress := func(line string) { t.Errorf("began something: %s", line) }
		if s, err := Start(ctx, Config{Dir: dir, Progress: progress}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v, want %v", s, err, context.Canceled)
		}
		if pids := leftoverProcesses(t.Context(), directory(dir)); len(pids) > 0 {
			t.Errorf("left running: %v", pids)
		}
	})
	t.Run("broken configuration", func(t *testing.T) {
		conf := filepath.Join(dir, "data", "postgresql.auto.conf")
		before, err := os.ReadFile(conf)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.WriteFile(conf, before, 0o600); err != nil {
				t.Fatal(err)
			}
		}()
		if err := os.WriteFile(conf, []byte("no_such_setting = 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Start(t.Context(), Config{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "no_such_setting") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one line that quotes the log", err)
		}
	})
}

func TestClosedDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root changes accounts")
	}
	parent, err := os.MkdirTemp("", "holdpoint-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	// Neither the server's user nor root without its powers may enter somebody else's directory.
	if err := os.Chmod(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(parent, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), Config{Dir: filepath.Join(parent, "pg")})
	if err == nil || !strings.Contains(err.Error(), parent+" (mode 0700)") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line that names %s", err, parent)
	}
}

// TestLogHoldsNoValues provokes the messages in which Postgres likes to quote statements and values.
func TestLogHoldsNoValues(t *testing.T) {
	dir := open(t)
	s := begin(t, dir)
	const secret = "hunter2"
	execute(t, s, "DROP TABLE IF EXISTS unique_text; CREATE TABLE unique_text (text text PRIMARY KEY, CHECK (text <> 'no "+secret+"'))")
	for _, statement := range []string{
		"INSERT INTO unique_text VALUES ('" + secret + "')",
		"INSERT INTO unique_text VALUES ('" + secret + "')", // duplicate key
		"INSERT INTO unique_text VALUES ('no " + secret + "')",
		"SELECT '" + secret + "'::int",
		"SELECT '" + secret + "' FRM t",
		"DO $$ BEGIN RAISE WARNING '" + secret + "'; END $$",
		"DO $$ BEGIN RAISE EXCEPTION '" + secret + "'; END $$",
		"SELECT pg_sleep(0.2) /* " + secret + " */", // long
	} {
		_, _ = connect(t, s).Exec(t.Context(), statement)
	}
	conn := connect(t, s)
	_, _ = conn.Exec(t.Context(), "SELECT $1::text::int", secret)
	_, _ = conn.Exec(t.Context(), "SELECT 1/(length($1::text)-7)", secret)
	// A backend that dies while it runs a statement is logged with it, by default.
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = conn.Exec(context.Background(), "SELECT pg_sleep(60) /* "+secret+" */")
	}()
	pid := conn.PgConn().PID()
	for query(t, s, fmt.Sprintf("SELECT state FROM pg_stat_activity WHERE pid = %d", pid)) != "active" {
		time.Sleep(10 * time.Millisecond)
	}
	if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-done
	end(t, s)

	log, err := os.ReadFile(filepath.Join(dir, "postgres.log"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(log, []byte("terminated by signal 9")) {
		t.Errorf("the log does not tell of the crash:\n%s", log)
	}
	if bytes.Contains(log, []byte(secret)) {
		t.Errorf("the log tells the secret:\n%s", log)
	}
}
