package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// known are the parameters of a database's URL that Postgres' own programs take. The
// driver takes others as well, such as the size of a pool.
var known = []string{
	"application_name", "channel_binding", "connect_timeout", "gssencmode", "host", "hostaddr", "keepalives", "keepalives_count", "keepalives_idle",
	"keepalives_interval", "krbsrvname", "options", "passfile", "port", "require_auth", "sslcert", "sslcrl", "sslkey", "sslmode", "sslrootcert", "sslsni",
	"target_session_attrs", "user",
}

// connection is a URL without its password, and the environment that has it: everybody on
// a machine sees the arguments of its processes.
func connection(databaseURL string) (string, []string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", nil, errors.New("database_admin_url: it is not a postgres:// URL that can be read")
	}
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PGPASSFILE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "KRB5CCNAME"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	env = append(env, "LC_ALL=C", "PGAPPNAME=holdpoint")
	query := u.Query()
	password, has := u.User.Password()
	if has {
		u.User = url.User(u.User.Username())
	} else if query.Has("password") {
		password, has = query.Get("password"), true
	}
	if has {
		env = append(env, "PGPASSWORD="+password)
	}
	if query.Has("sslpassword") {
		env = append(env, "PGSSLPASSWORD="+query.Get("sslpassword"))
	}
	for name := range query {
		if !slices.Contains(known, name) {
			query.Del(name)
		}
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // a plus is no blank to them
	return u.String(), env, nil
}

// tool is a program of Postgres on one database.
type tool struct {
	path string
	env  []string
}

// run runs it to its end, and calls progress now and then. What it says on standard
// error is the error's text.
func (t tool) run(ctx context.Context, in io.Reader, out io.Writer, progress func(), args ...string) error {
	cmd := exec.CommandContext(ctx, t.path, args...) // #nosec G204 -- an installed program of Postgres
	cmd.Env, cmd.Stdin, cmd.Stdout = t.env, in, out
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it has a transaction to end
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	told := make(chan struct{})
	go func() {
		defer close(told)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for progress != nil {
			select {
			case <-ended:
				return
			case <-tick.C:
				progress()
			}
		}
	}()
	err := cmd.Wait()
	close(ended)
	<-told
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", t.path, err, ownLines(said.String(), filepath.Base(t.path)+": "))
	}
	return nil
}

// ownLines are the first lines that a program says in its own name. What is between them
// may quote rows.
func ownLines(text, name string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name) && len(lines) < 5 {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}
