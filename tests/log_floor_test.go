package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// superuser runs statements in a database of the cluster, each for itself.
func (c *cluster) superuser(database string, statements ...string) {
	c.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, c.postgres.SuperuserURL(database))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			c.t.Fatalf("%s: %v", s, err)
		}
	}
}

// backup writes a copy of the database to a file, once the log has what was
// appended and the floor has the log's end.
func (c *cluster) backup(name string) string {
	c.t.Helper()
	c.admin(c.t).do("GET", "/v1/audit/events?limit=1", nil).want(c.t, 200) // waits for the log
	eventually(c.t, healWithin, "the floor has the log's end", func() bool { return c.floor() == c.logSize() })
	file := filepath.Join(c.dir, name)
	if out, err := exec.Command("pg_dump", "-Fc", "-f", file, c.postgres.SuperuserURL("holdpoint")).CombinedOutput(); err != nil {
		c.t.Fatalf("pg_dump: %v\n%s", err, out)
	}
	return file
}

// restore makes the database what it was in a backup. Nobody may be using it.
func (c *cluster) restore(file string) {
	c.t.Helper()
	c.superuser("postgres", "DROP DATABASE holdpoint WITH (FORCE)", "CREATE DATABASE holdpoint OWNER hp_owner")
	if out, err := exec.Command("pg_restore", "-d", c.postgres.SuperuserURL("holdpoint"), file).CombinedOutput(); err != nil {
		c.t.Fatalf("pg_restore: %v\n%s", err, out)
	}
}

// floor is the size of the checkpoint in the floor's file.
func (c *cluster) floor() int64 {
	c.t.Helper()
	lines := strings.Split(fileText(filepath.Join(c.dir, "log-floor")), "\n")
	if len(lines) < 3 {
		return 0
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return size
}

func (c *cluster) logSize() (size int64) {
	c.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, c.OwnerURL)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, `SELECT size FROM log_head`).Scan(&size); err != nil {
		c.t.Fatal(err)
	}
	return size
}

// stopAll stops all programs, and startAll starts one of each again.
func (c *cluster) stopAll() {
	c.t.Helper()
	for _, p := range append(c.serves, c.workers...) {
		if err := p.stop(); err != nil {
			c.t.Error(err)
		}
		// The next one of this name is not to be taken for ready by what this one said.
		if err := os.Remove(p.log); err != nil {
			c.t.Error(err)
		}
	}
	c.serves, c.workers, c.urls = nil, nil, nil
}

func (c *cluster) startAll() {
	c.t.Helper()
	c.startWorker()
	c.startServe(binary(c.t))
	c.URL = c.urls[0]
}

// refused starts programs that must not start, and say why.
func (c *cluster) refused(what ...string) {
	c.t.Helper()
	before := c.logSize()
	for _, name := range []string{"serve", "worker"} {
		got := cli(c.t, append(c.env, "HOLDPOINT_LISTEN=127.0.0.1:0", "HOLDPOINT_PUBLIC_URL=http://127.0.0.1"), "", name)
		if got.code == 0 {
			c.t.Errorf("%s ran", name)
		}
		for _, want := range append(what, "Nothing was started, and nothing was changed", filepath.Join(c.dir, "log-floor")) {
			if !strings.Contains(got.err, want) {
				c.t.Errorf("%s does not say %q:\n%s", name, want, got.err)
			}
		}
	}
	if after := c.logSize(); after != before {
		c.t.Errorf("the log has %d events, and had %d", after, before)
	}
}

// TestRestoredBackup: a database that was restored from an older copy, or whose
// last events were removed, is refused by serve and worker; with the newest copy
// everything goes on.
func TestRestoredBackup(t *testing.T) {
	ownPrograms(t)
	c := startCluster(t, 1, 1)
	decide := func(n int) {
		t.Helper()
		for range n {
			c.agent(t).propose(event("search_docs", "accept", nil)).want(t, 200)
		}
	}
	decide(5)
	old := c.backup("old")
	decide(5)
	newest := c.backup("newest")
	c.stopAll()
	c.restore(old)
	c.refused("It was restored from an older copy, or its last events were removed", "a checkpoint of "+strconv.FormatInt(c.floor(), 10)+" events is kept outside the database")
	c.restore(newest)
	c.startAll()
	decide(3)
	newest = c.backup("newest-again")

	// Under the running programs: the worker says so, and nobody goes on after it.
	size := c.floor()
	cut := strconv.FormatInt(size-2, 10)
	c.superuser("holdpoint", `BEGIN; SET LOCAL session_replication_role = replica;
		DELETE FROM events WHERE seq > (SELECT seq FROM log_entries WHERE leaf = `+cut+` - 1);
		DELETE FROM log_entries WHERE leaf >= `+cut+`; DELETE FROM log_checkpoints WHERE size > `+cut+`;
		UPDATE log_tiles SET hashes = substring(hashes FOR 32 * `+cut+`) WHERE level = 0;
		UPDATE log_head SET size = `+cut+`, seq = (SELECT max(seq) FROM log_entries); COMMIT`)
	eventually(t, 2*healWithin, "the worker says that the log has gone back", func() bool {
		return strings.Contains(c.workers[0].text(), "a checkpoint of "+strconv.FormatInt(size, 10)+" events is kept outside the database, and the database has "+cut)
	})
	c.stopAll()
	c.refused("It was restored from an older copy, or its last events were removed")

	// What is in the way of the floor is refused as well.
	c.restore(newest)
	file := filepath.Join(c.dir, "log-floor")
	note := fileText(file)
	for _, damage := range []string{"", "hello", strings.Replace(note, "log.example.com/tests\n", "log.example.com/others\n", 1)} {
		if err := os.WriteFile(file, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		want := "checkpoint that is kept outside the database"
		if damage == "" {
			want = "it is no checkpoint"
		}
		c.refused(want)
	}
	if err := os.WriteFile(file, []byte(note), 0o600); err != nil {
		t.Fatal(err)
	}
	c.startAll()
	decide(3)
	c.backup("last")
}

// TestDevRestored: dev keeps a floor as well, and refuses an older copy of its
// own database.
func TestDevRestored(t *testing.T) {
	ownPrograms(t)
	d := startDev(t, nil)
	d.grow(t, 5)
	stop := func(d *dev) {
		t.Helper()
		if err := d.program.stop(); err != nil {
			t.Fatal(err)
		}
	}
	copied := func(from, to string) {
		t.Helper()
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v\n%s", err, out)
		}
	}
	data := filepath.Join(d.dir, "postgres", "data")
	stop(d)
	copied(data, d.dir+"-old")
	d = d.again(t, nil)
	d.grow(t, 5)
	stop(d)
	copied(data, d.dir+"-new")
	copied(d.dir+"-old", data)
	got := cli(t, nil, "", "dev", "--data", d.dir, "--listen", "127.0.0.1:0")
	for _, want := range []string{"It was restored from an older copy", "Nothing was started, and nothing was changed", filepath.Join(d.dir, "log-floor")} {
		if got.code == 0 || !strings.Contains(got.err, want) {
			t.Errorf("dev: exit %d, without %q:\n%s", got.code, want, got.err)
		}
	}
	copied(d.dir+"-new", data)
	d = d.again(t, nil)
	d.grow(t, 5)
}
