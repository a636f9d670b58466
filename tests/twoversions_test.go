package tests

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"holdpoint/internal/store"
	"holdpoint/migrations"
)

// TestTwoVersions replaces an older program by a newer one under load, each with gates and
// workers of its own on one Postgres and one Temporal, and loses and doubles nothing.
//
// One pair is this program, and the same with another migration that only adds: the older
// one is started anew on the newer schema as well. The other pair is the last program before
// the newest migration, out of the repository's history, and this one.
func TestTwoVersions(t *testing.T) {
	if !*long {
		t.Skip("with -long only")
	}
	ownPrograms(t)
	t.Run("this program and the next", func(t *testing.T) {
		replaced(t, binary(t), nextProgram(t), store.SchemaVersion(), true)
	})
	t.Run("the former program and this one", func(t *testing.T) {
		former := formerProgram(t)
		out, err := exec.Command(former, "version", "--json").Output()
		var says struct{ Schema int }
		if err == nil {
			err = json.Unmarshal(out, &says)
		}
		if err != nil || says.Schema == 0 || says.Schema >= store.SchemaVersion() {
			t.Fatalf("the former program needs schema %d, this one %d: %v", says.Schema, store.SchemaVersion(), err)
		}
		replaced(t, former, binary(t), says.Schema, says.Schema >= 39) // from there on a schema says whom it fits
	})
}

// replaced starts the older program on its schema, and has the newer one take its place.
func replaced(t *testing.T, older, newer string, schema int, startsAnew bool) {
	t.Helper()
	d := &day{t: t, cluster: layCluster(t, false)}
	downTo(t, d.OwnerURL, schema)
	d.bin = older
	d.startPrograms(2, 1)
	urls := append([]string{}, d.cluster.urls...)
	d.urls.Store(&urls)
	d.callers(3)
	more := func(what string, n int64) {
		t.Helper()
		from, began := d.cycles.Load(), d.attempts.Load()
		took := eventually(t, 10*settleWithin, "calls are redeemed while "+what, func() bool { return d.cycles.Load() >= from+n || t.Failed() })
		t.Logf("%s: %d calls redeemed in %s, %d attempts made again", what, d.cycles.Load()-from, took, d.attempts.Load()-began)
	}
	more("the older program is alone", 20)
	migrate := exec.Command(newer, "migrate")
	migrate.Env = environment(d.operator()...)
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}
	more("the schema is newer than the program", 20)
	if startsAnew {
		d.startWorker()
		d.startServe(older)
		more("the older program was started anew", 20)
	}
	serves, workers := d.serves, d.workers
	d.serves, d.workers = nil, nil
	d.bin = newer
	d.startWorker()
	d.startServe(newer)
	d.startServe(newer)
	all := append([]string{}, d.cluster.urls...)
	d.urls.Store(&all)
	more("both versions run", 60)
	newest := d.cluster.urls[len(serves):]
	d.urls.Store(&newest)
	for _, p := range append(serves, workers...) {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
	more("the newer program is alone", 20)
	close(d.ended)
	d.load.Wait()
	d.URL = newest[0]
	done := d.cycles.Load()
	opened := number(t, d.OwnerURL, `SELECT count(*) FROM approvals WHERE tool LIKE 'load_%'`)
	redeemed := number(t, d.OwnerURL, `SELECT count(*) FROM tokens WHERE redeemed_at IS NOT NULL`)
	if d.lost.Load() != 0 || opened != done || redeemed != done {
		t.Errorf("%d calls were redeemed, %d lost; the database has %d approvals and %d spent tokens", done, d.lost.Load(), opened, redeemed)
	}
}

// downTo takes a schema back to a version.
func downTo(t *testing.T, url string, version int) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithTableName("schema_migrations"))
	if err == nil {
		_, err = p.DownTo(context.Background(), int64(version))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// nextProgram is this program with another migration, which only adds.
func nextProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	added := filepath.Join(dir, "next.sql")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "migrations", fmt.Sprintf("%05d_next.sql", store.SchemaVersion()+1)): added}})
	if err != nil {
		t.Fatal(err)
	}
	const next = "-- +goose Up\nALTER TABLE approvals ADD COLUMN of_next text NOT NULL DEFAULT '';\nCREATE TABLE next_things (id text PRIMARY KEY);\n-- +goose Down\nDROP TABLE next_things;\nALTER TABLE approvals DROP COLUMN of_next;\n"
	for file, text := range map[string][]byte{added: []byte(next), filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return production(t, root, dir, "-overlay", filepath.Join(dir, "overlay.json"))
}

// formerProgram is the last one before the newest migration, by the repository's history.
func formerProgram(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("../migrations/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	git := func(args ...string) ([]byte, error) {
		return exec.Command("git", append([]string{"-C", ".."}, args...)...).Output()
	}
	added, err := git("log", "--diff-filter=A", "--format=%H", "-1", "--", "migrations/"+filepath.Base(names[len(names)-1]))
	commit := strings.TrimSpace(string(added)) + "^"
	if err == nil {
		_, err = git("rev-parse", "--verify", "--quiet", commit)
	}
	if err != nil || commit == "^" {
		t.Skip("the history does not reach back to the program before the newest migration")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	archive, err := git("archive", "--format=tar", commit)
	if err != nil {
		t.Fatal(err)
	}
	unpack := exec.Command("tar", "-x", "-C", source)
	unpack.Stdin = bytes.NewReader(archive)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", commit, err, out)
	}
	return production(t, source, dir)
}

// production builds the production program of a source tree into dir.
func production(t *testing.T, source, dir string, more ...string) string {
	t.Helper()
	program := filepath.Join(dir, "holdpoint")
	build := exec.Command("go", append(append([]string{"build", "-tags", "nodev", "-ldflags=-s -w"}, more...), "-o", program, "./cmd/holdpoint")...)
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program of %s: %v\n%s", source, err, out)
	}
	return program
}
