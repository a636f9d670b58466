package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// proves exports the log of a program after its tests and verifies it: whatever
// they have done, it is in order.
func (d *dev) proves() error {
	if d == nil || d.program.exited() {
		return nil
	}
	return proves(filepath.Join(d.dir, "log-key.pub"), nil, "--data", d.dir)
}

func proves(key string, env []string, from ...string) error {
	dir, err := os.MkdirTemp("", "holdpoint-proof-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	file := filepath.Join(dir, "log.jsonl")
	for _, args := range [][]string{
		append([]string{"audit", "export", "-o", file, "-q"}, from...), {"audit", "verify", file, "--key", key, "-q"},
	} {
		cmd := exec.CommandContext(ctx, binaryPath(), args...)
		cmd.Env = commandEnv(env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("its audit log is not in order: %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// exported exports from a program and returns the file.
func (d *dev) exported(t *testing.T, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "export")
	must(t, nil, "", append([]string{"audit", "export", "--data", d.dir, "-q", "-o", file}, args...)...)
	return file
}

// verified runs verify with the log's key, and returns what it says.
func (d *dev) verified(t *testing.T, args ...string) command {
	t.Helper()
	return cli(t, nil, "", append([]string{"audit", "verify", "--key", filepath.Join(d.dir, "log-key.pub")}, args...)...)
}

// TestAuditExport drives approvals to every end, from several sides at once, and
// verifies what the program exports of it.
func TestAuditExport(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	one, two := d.reviewer(t, cleo), d.reviewer(t, dina)
	ids := make(chan string, rounds())
	inRounds(t, func(i int) error {
		tool := []string{"orders_x", "denies_x", "lost_x", "orders_y"}[i%4]
		a, err := opened(agent, tool)
		if err != nil {
			return err
		}
		ids <- a.ID
		decision := []string{"approve", "deny", "approve", "approve"}[i%4]
		together(3, func(k int) {
			switch {
			case k < 2:
				[]*client{one, two}[k].vote(a, decision)
			case i%4 == 3:
				agent.cancel(a.ID)
			}
		})
		ended, err := agent.await(a.ID, settleWithin)
		if err == nil && ended.Token != "" {
			together(2, func(int) { agent.redeem(ended.Token, tool, nil) })
		}
		return err
	})
	close(ids)

	d.logged(t)
	whole := d.exported(t)
	if got := d.verified(t, whole); got.code != 0 || strings.Contains(got.out, "BAD") || strings.Contains(got.out, "note") || strings.Count(got.out, "ok  ") != 3 {
		t.Fatalf("the whole log: exit %d\n%s%s", got.code, got.out, got.err)
	}
	if got := cli(t, nil, "", "audit", "verify", whole); got.code != 3 || !strings.Contains(got.out, "no --key was given") {
		t.Errorf("without a key: exit %d\n%s", got.code, got.out)
	}
	for id := range ids {
		got := d.verified(t, d.exported(t, "--approval", id))
		if got.code != 0 || !strings.Contains(got.out, "1 approval ended by the rules, 0 still open") {
			t.Errorf("approval %s: exit %d\n%s%s", id, got.code, got.out, got.err)
		}
	}
	for _, filter := range [][]string{
		{"--tool", "orders_x"},
		{"--outcome", "DENY"},
		{"--type", "vote"},
		{"--person", "bot"},
		{"--since", time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)},
		{"--until", time.Now().UTC().Format(time.RFC3339)},
		{"--type", "vote", "--outcome", "DENY", "--until", "2000-01-01T00:00:00Z"},
	} {
		if got := d.verified(t, d.exported(t, filter...)); got.code != 0 {
			t.Errorf("%s: exit %d\n%s%s", filter, got.code, got.out, got.err)
		}
	}
	// What the API exports is the same, and verifies as well.
	got := d.as(t, d.Auditor).do("GET", "/v1/audit/export", nil).want(t, http.StatusOK)
	if v := cliBytes(t, got.Body, "audit", "verify", "-", "--key", filepath.Join(d.dir, "log-key.pub")); v.code != 0 {
		t.Errorf("over HTTP: exit %d\n%s%s", v.code, v.out, v.err)
	}
	// Somebody who was cut off in the middle of a line goes on.
	body := got.Body
	have := body[:bytes.LastIndexByte(body[:len(body)/2], '\n')+1]
	seq := bytes.Count(have, []byte("\n")) - 1
	var head struct{ Checkpoint string }
	if err := json.Unmarshal(body[:bytes.IndexByte(body, '\n')], &head); err != nil {
		t.Fatal(err)
	}
	size := strings.Split(head.Checkpoint, "\n")[1]
	auditor := d.as(t, d.Auditor)
	rest := auditor.do("GET", fmt.Sprintf("/v1/audit/export?cursor=%d&size=%s&before=%d", seq, size, seq), nil).want(t, http.StatusOK)
	if !bytes.Equal(append(bytes.Clone(have), rest.Body...), body) {
		t.Error("what goes on over HTTP is something else")
	}
	if csv := auditor.do("GET", "/v1/audit/export?format=csv&type=vote", nil).want(t, http.StatusOK); !strings.HasPrefix(csv.Header.Get("Content-Type"), "text/csv") ||
		!strings.Contains(csv.Header.Get("Content-Disposition"), "holdpoint-audit.csv") || !bytes.HasPrefix(csv.Body, []byte("seq,timestamp,")) {
		t.Errorf("as CSV: %v\n%.200s", csv.Header, csv.Body)
	}
	// Files of two periods lie beside each other.
	for path, want := range map[string]string{
		"/v1/audit/export?format=csv&since=2026-07-01T00:00:00Z&until=2026-10-01T00:00:00Z": "holdpoint-audit-from-2026-07-01-to-2026-09-30.csv",
		"/v1/audit/export?since=2026-07-01T00:00:00Z":                                       "holdpoint-audit-from-2026-07-01.jsonl",
		"/v1/audit/reports/roles?format=csv&since=2026-07-01&until=2026-10-01":              "holdpoint-roles-from-2026-07-01-to-2026-09-30.csv",
	} {
		if named := d.admin(t).do("GET", path, nil).want(t, http.StatusOK).Header.Get("Content-Disposition"); named != `attachment; filename="`+want+`"` {
			t.Errorf("GET %s is %s, want %s", path, named, want)
		}
	}
	for _, query := range []string{"format=pdf", "format=csv&format=jsonl", "size=0", "size=x", "before=-1", "since=yesterday"} {
		auditor.do("GET", "/v1/audit/export?"+query, nil).want(t, http.StatusBadRequest, "bad_query")
	}
	for _, query := range []string{"limit=5", "order=desc", "color=red"} {
		auditor.do("GET", "/v1/audit/export?"+query, nil).want(t, http.StatusBadRequest, "unknown_parameter")
	}
	for _, size := range []string{"9000000", "99999999999"} {
		auditor.do("GET", "/v1/audit/export?size="+size, nil).want(t, http.StatusNotFound, "no_checkpoint")
	}
	agent.do("GET", "/v1/audit/export", nil).want(t, http.StatusForbidden)
	one.do("GET", "/v1/audit/export", nil).want(t, http.StatusForbidden)

	// One byte of the middle, and the exit code says so.
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Replace(data, []byte(`"outcome":"APPROVED"`), []byte(`"outcome":"REJECTED"`), 1)
	if v := cliBytes(t, bad, "audit", "verify", "-", "--key", filepath.Join(d.dir, "log-key.pub")); v.code != 1 || !strings.HasPrefix(v.out, "BAD  line ") || !strings.Contains(v.out, "it was changed after it was logged") {
		t.Errorf("with one word changed: exit %d\n%s%s", v.code, v.out, v.err)
	}
	// Where the log is slow, it may be in the next export only.
	eventually(t, settleWithin, "the last event of an export is that somebody exports", func() bool {
		lines := strings.Split(strings.TrimSpace(fileText(d.exported(t))), "\n")
		var e struct{ Type string }
		if err := json.Unmarshal([]byte(lines[len(lines)-2]), &e); err != nil {
			t.Fatal(err)
		}
		return e.Type == "export"
	})
}

// cliBytes is cli with binary input.
func cliBytes(t *testing.T, stdin []byte, args ...string) command {
	t.Helper()
	return cli(t, nil, string(stdin), args...)
}

// TestIndependentVerification: the script of docs/audit-verify.md, which has nothing of ours,
// finds the same root as the program, and finds what was changed.
func TestIndependentVerification(t *testing.T) {
	d := onShared(t)
	doc, err := os.ReadFile(filepath.Join("..", "docs", "audit-verify.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, script, begins := strings.Cut(string(doc), "```python\nimport base64, hashlib, json, sys\n")
	script, _, ends := strings.Cut("import base64, hashlib, json, sys\n"+script, "```")
	python, err := exec.LookPath("python3")
	if !begins || !ends || err != nil {
		t.Fatalf("there is no script, or nothing to run it by: %v", err)
	}
	run := func(file string) (string, error) {
		out, err := exec.CommandContext(t.Context(), python, "-c", script, file).CombinedOutput()
		return string(out), err
	}
	file := d.exported(t)
	if out, err := run(file); err != nil || !strings.HasPrefix(out, "all ") || !strings.Contains(out, "dev.holdpoint.local/") {
		t.Fatalf("of what is in order it says %q, %v", out, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string][]byte{
		"is not what the log has in its place":       bytes.Replace(data, []byte(`"type":"export"`), []byte(`"type":"exposé"`), 1),
		"the events are not those of the checkpoint": bytes.Join(slices.Delete(bytes.SplitAfter(data, []byte("\n")), bytes.Count(data, []byte("\n"))-2, bytes.Count(data, []byte("\n"))-1), nil),
	} {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := run(file); err == nil || !strings.Contains(out, what) {
			t.Errorf("got %q, %v, want %q", out, err, what)
		}
	}
}
