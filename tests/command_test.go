package tests

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"holdpoint/engine/audit"
)

// TestCommands runs the scripts of testdata/script against the real binary. A
// script that needs a database has a running "holdpoint dev" in $DEV.
func TestCommands(t *testing.T) {
	d := onShared(t)
	bin := filepath.Dir(binary(t))
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// expand writes a file's $NAMES as the script has them.
			"expand": func(ts *testscript.TestScript, _ bool, files []string) {
				for _, f := range files {
					ts.Check(os.WriteFile(ts.MkAbs(f), []byte(os.Expand(ts.ReadFile(f), ts.Getenv)), 0o600))
				}
			},
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("WITH_DEV", devBinary(t))
			env.Setenv("GOGC", strconv.Itoa(seldomCollected))
			env.Setenv("DEV", d.dir)
			env.Setenv("OWNER_URL", d.OwnerURL)
			env.Setenv("UNIQUE", newID("u"))
			return nil
		},
	})
}

// TestProductionSetUp goes the operator's way: migrate, migrate again, and
// doctor, which names what is wrong and how to mend it.
func TestProductionSetUp(t *testing.T) {
	ownPrograms(t)
	c := startCluster(t, 1, 1)
	admin := "HOLDPOINT_DATABASE_ADMIN_URL=" + c.OwnerURL
	if out := must(t, []string{admin}, "", "migrate"); !strings.Contains(out, "nothing to do") {
		t.Errorf("the second migrate says %q", out)
	}
	env := append(c.env, "HOLDPOINT_LISTEN=127.0.0.1:0", "HOLDPOINT_PUBLIC_URL="+c.URL, admin)
	if got := cli(t, env, "", "doctor"); got.code != 0 || strings.Contains(got.out, "FAIL") || strings.Count(got.out, "ok ") < 6 {
		t.Errorf("doctor of a sound installation: exit %d\n%s%s", got.code, got.out, got.err)
	}
	// What a login may do that only reads is told.
	for _, made := range [][2]string{
		{"CREATE ROLE hp_auditor LOGIN IN ROLE holdpoint_reader", "hp_auditor may take all connections"},
		{"CREATE ROLE hp_locker LOGIN CONNECTION LIMIT 2 IN ROLE holdpoint_reader; GRANT EXECUTE ON FUNCTION pg_catalog.pg_advisory_lock(bigint) TO hp_locker", "hp_locker may hold the locks by which the programs take turns"},
	} {
		statement, want := made[0], made[1]
		super, err := pgx.Connect(t.Context(), c.postgres.SuperuserURL("holdpoint"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = super.Exec(t.Context(), statement)
		_ = super.Close(t.Context())
		if got := must(t, env, "", "doctor"); err != nil || !strings.Contains(got, want) || strings.Contains(got, "hp_app") {
			t.Errorf("after %s (%v), doctor says\n%s", statement, err, got)
		}
	}
	change := func(name, value string) []string {
		return append(append([]string{}, env...), "HOLDPOINT_"+name+"="+value)
	}
	policy := filepath.Join(c.dir, "many.yaml")
	if err := os.WriteFile(policy, []byte("routing:\n  default: {role: wizard, needed: 2, expires_in: 1h}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.agent(t).hold(newID("tool."), nil)
	var origin string
	eventually(t, settleWithin, "a signed event", func() bool {
		a := c.client(t).do("GET", "/log/checkpoint", nil)
		origin, _, _ = strings.Cut(string(a.Body), "\n")
		return a.Status == 200
	})
	private, other, err := audit.NewKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := audit.ParseKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := audit.Sign(audit.Checkpoint{Origin: origin, Size: 1 << 40}, audit.Signers(keys)...)
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(c.dir, "another-log-key")
	if err := os.WriteFile(foreign, []byte(private+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := cli(t, change("LOG_FLOOR_FILE", ""), "", "doctor"); got.code != 0 || !strings.Contains(got.out, "warn  audit log's floor: none is set") || !strings.Contains(got.out, "ok    audit log's key") {
		t.Errorf("doctor without a floor: exit %d\n%s%s", got.code, got.out, got.err)
	}
	above := filepath.Join(c.dir, "above")
	if err := os.WriteFile(above, signed, 0o600); err != nil {
		t.Fatal(err)
	}
	anotherKey := filepath.Join(c.dir, "another-data-key")
	if err := os.WriteFile(anotherKey, []byte(strings.Repeat("A", 43)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]struct {
		env  []string
		want []string
	}{
		"the owner's URL":       {change("DATABASE_URL", c.OwnerURL), []string{"FAIL  audit log is append-only", "must not"}},
		"another data key":      {change("DATA_KEY_FILE", anotherKey), []string{"FAIL  database", "not the one"}},
		"no Postgres":           {change("DATABASE_URL", "postgres://hp_app:secret-word@127.0.0.1:1/holdpoint"), []string{"FAIL  database", "refused"}},
		"no Temporal":           {change("TEMPORAL_ADDRESS", "127.0.0.1:1"), []string{"FAIL  Temporal"}},
		"no such people":        {change("CONFIG", policy), []string{"FAIL  enough people for 2 × wizard", "user add"}},
		"another log's key":     {change("LOG_PUBLIC_KEY", other), []string{"FAIL  audit log, ", "the log has not signed it"}},
		"a worker's other key":  {change("LOG_KEY_FILE", foreign), []string{"FAIL  audit log's key: the audit log's last checkpoint was not signed by this key", "log_key_file"}},
		"a floor above the log": {change("LOG_FLOOR_FILE", above), []string{"FAIL  audit log's floor", "Restore the newest copy"}},
		"sso_only, and nothing": {change("SSO_ONLY", "true"), []string{"FAIL  configuration", "an administrator who has a password, for when the provider is away"}},
		"no public URL":         {change("PUBLIC_URL", ""), []string{"FAIL  configuration", "public_url"}},
	} {
		got := cli(t, wrong.env, "", "doctor")
		for _, want := range wrong.want {
			if got.code != 1 || !strings.Contains(got.out, want) {
				t.Errorf("doctor with %s: exit %d, no %q in\n%s%s", name, got.code, want, got.out, got.err)
			}
		}
		if strings.Contains(got.out+got.err, "secret-word") {
			t.Errorf("doctor with %s tells a password:\n%s%s", name, got.out, got.err)
		}
	}
	endsSoon(t, c, env)
	commandsNameAKey(t, c, admin)
	// Serve and worker refuse what doctor finds fault with, if no wait can mend it.
	for _, command := range []string{"serve", "worker"} {
		oneLine(t, cli(t, change("DATA_KEY_FILE", anotherKey), "", command), "data_key: it is not the one")
	}
}

// commandsNameAKey has commands name an operator's key: each that changes something is refused
// without, what looks or stops is not, and the way in an emergency is on record.
func commandsNameAKey(t *testing.T, c *cluster, admin string) {
	t.Helper()
	owner, dir := []string{admin}, c.dir
	keyFile := func(name string, args ...string) string {
		out := must(t, owner, "", append([]string{"key", "create", "--kind", "admin"}, args...)...)
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.TrimSpace(out[strings.LastIndex(out, ": ")+2:])), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	id := func(out string) string { return regexp.MustCompile(`usr_[a-z0-9]+`).FindString(out) }
	keeper := id(must(t, owner, "", "user", "add", "keeper@example.com", "--role", "admin"))
	must(t, owner, "", "user", "add", "second@example.com", "--role", "admin")
	olga, labelled := keyFile("olga", "--person", "keeper@example.com"), keyFile("labelled", "--label", "Olga Owner")
	refused := func(says string, args ...string) {
		t.Helper()
		if got := cli(t, owner, "", args...); got.code == 0 || !strings.HasPrefix(got.err, "holdpoint: "+says) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%s: exit %d, want one line that says %q\n%s%s", strings.Join(args, " "), got.code, says, got.out, got.err)
		}
	}
	refused("name your own key", "changes", "require", "operator-key")
	refused("operator-key takes --operator-key, and nothing else", "changes", "require", "operator-key", "--role", "admin", "--operator-key", olga)
	must(t, owner, "", "changes", "require", "operator-key", "--operator-key", olga)
	if out := must(t, owner, "", "changes", "list"); !strings.Contains(out, "operator-key  -") {
		t.Errorf("changes list says %s", out)
	}
	const none = "commands name a person's own key here: add --operator-key FILE"
	empty := filepath.Join(dir, "empty.yaml")
	if err := os.WriteFile(empty, []byte("agents: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"user", "add", "x@example.com", "--role", "reviewer"},
		{"key", "create", "--kind", "admin", "--label", "mine"},
		{"agent", "set", "a-bot"},
		{"tool", "set", "a-tool"},
		{"release", "--all"},
		{"changes", "require", "policy", "--role", "reviewer"},
		{"changes", "free", "policy", "--reason", "x"},
		{"retention", "set-floor", "24h"},
		{"settings", "--max-delegation", "3", "--unapproved", "x"},
	} {
		refused(none, args...)
	}
	refused("--operator-key: key_", "user", "add", "x@example.com", "--role", "reviewer", "--operator-key", labelled)
	must(t, owner, "", "user", "add", "with-key@example.com", "--role", "reviewer", "--operator-key", olga)
	// What it does is on record in the person's name, an export, too; to themselves it does nothing.
	refused("Nobody", "user", "disable", "keeper@example.com", "--operator-key", olga)
	must(t, c.env, "", "audit", "export", "-q", "-o", filepath.Join(dir, "by-olga.jsonl"), "--operator-key", olga)
	log := must(t, c.env, "", "audit", "export", "-q", "--format", "csv", "--person", keeper, "-o", "-")
	for _, has := range []string{"USER_ADDED", "BY_KEY", "EXPORTED", "human", "cli"} {
		if !strings.Contains(log, has) {
			t.Errorf("the log of %s has no %s:\n%s", keeper, has, log)
		}
	}
	if list := must(t, owner, "", "key", "list", "--json"); !strings.Contains(list, `"person":"`+keeper+`"`) {
		t.Errorf("key list does not say whose it is:\n%s", list)
	}
	for _, args := range [][]string{{"user", "list"}, {"key", "list"}, {"agent", "list"}, {"retention", "show"}, {"settings"}, {"kill", "--all", "--reason", "it must not wait"}, {"kill", "--list"}} {
		must(t, owner, "", args...)
	}
	must(t, append(owner, "HOLDPOINT_OPERATOR_KEY_FILE="+olga), "", "release", "--all")
	refused("--operator-key: ", "changes", "free", "operator-key", "--reason", "x", "--operator-key", empty)
	// Whoever is disabled has no key any more, and had none when they are back.
	second := keyFile("second", "--person", "second@example.com", "--operator-key", olga)
	must(t, owner, "", "user", "disable", "keeper@example.com", "--operator-key", second)
	refused("--operator-key: "+olga+" has no key of this installation", "release", "--all", "--operator-key", olga)
	must(t, append(owner, "HOLDPOINT_PUBLIC_URL="+c.URL), "", "user", "enable", "keeper@example.com", "--operator-key", second)
	refused("--operator-key: "+olga+" has no key of this installation", "release", "--all", "--operator-key", olga)
	must(t, owner, "", "changes", "free", "operator-key", "--reason", "the last key is lost")
	must(t, owner, "", "user", "add", "without-key@example.com", "--role", "reviewer")
}

// endsSoon: doctor tells of what is good and ends within days, before anybody is refused by it.
func endsSoon(t *testing.T, c *cluster, env []string) {
	t.Helper()
	file := filepath.Join(c.dir, "policy.yaml")
	former, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ends := time.Now().Add(5 * 24 * time.Hour).UTC().Format(time.RFC3339)
	next := strings.NewReplacer(`version: "0"`, `version: "1"`, "2099-01-01T00:00:00Z", ends).Replace(string(former))
	if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`key_\w+`).FindString(must(t, env, "", "key", "create", "--agent", "soon-over", "--expires-in", "240h"))
	conn, err := pgx.Connect(t.Context(), c.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if got := must(t, env, "", "doctor"); strings.Contains(got, "API keys") {
		t.Errorf("doctor warns of a key that nobody uses:\n%s", got)
	}
	if _, err := conn.Exec(t.Context(), `INSERT INTO key_uses (key_id, used_at) VALUES ($1, clock_timestamp())`, id); err != nil {
		t.Fatal(err)
	}
	var got string
	eventually(t, settleWithin, "a word on the policy's end", func() bool {
		got = must(t, env, "", "doctor")
		return strings.Contains(got, "warn  the policy's end: it expires in ") && strings.Contains(got, "at "+ends+": every call is refused from then on")
	})
	if !strings.Contains(got, "warn  API keys that are in use and expire soon: 1, first "+id+" of soon-over, at ") {
		t.Errorf("doctor says nothing of a key:\n%s", got)
	}
}

// TestOpenAPI: the document is there, is 3.1, and has every door.
func TestOpenAPI(t *testing.T) {
	d := onShared(t)
	var doc struct {
		OpenAPI string                    `json:"openapi"`
		Paths   map[string]map[string]any `json:"paths"`
	}
	d.client(t).do("GET", "/openapi.json", nil).want(t, 200).into(t, &doc)
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("openapi is %q", doc.OpenAPI)
	}
	for path, method := range map[string]string{
		"/v1/pre-tool-check": "post", "/pre-tool-check": "post", "/v1/approvals/{id}": "get", "/v1/approvals/{id}/events": "get",
		"/v1/approvals/{id}/answers": "post", "/v1/approvals/{id}/cancel": "post", "/v1/approvals/{id}/votes": "post", "/v1/tokens/redeem": "post", "/v1/executions": "post",
		"/v1/audit/events": "get", "/.well-known/jwks.json": "get", "/healthz": "get", "/readyz": "get", "/metrics": "get",
	} {
		if doc.Paths[path][method] == nil {
			t.Errorf("%s %s is not in the document", method, path)
		}
	}
	page := d.client(t).do("GET", "/docs", nil).want(t, 200)
	if !strings.Contains(string(page.Body), "/v1/tokens/redeem") || !strings.Contains(page.Header.Get("Content-Type"), "text/html") {
		t.Errorf("the docs page: %s", page.Header.Get("Content-Type"))
	}
}

// TestSecurityHeaders: every page and every answer has them.
func TestSecurityHeaders(t *testing.T) {
	d := onShared(t)
	reviewer := d.reviewer(t, 0)
	for _, path := range []string{"/login", "/", "/history", "/approvals/none", "/nowhere", "/docs", "/v1/nothing", "/v1/approvals/none", "/static/none", "/healthz"} {
		got := reviewer.do("GET", path, nil)
		csp := got.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe-") || !strings.Contains(csp, "frame-ancestors 'none'") ||
			got.Header.Get("X-Content-Type-Options") != "nosniff" || got.Header.Get("X-Frame-Options") != "DENY" || got.Header.Get("Referrer-Policy") == "" {
			t.Errorf("%s: %v", path, got.Header)
		}
		if got.Header.Get("Server") != "" || got.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: Server %q, X-Request-Id %q", path, got.Header.Get("Server"), got.Header.Get("X-Request-Id"))
		}
	}
	for next, want := range map[string]string{"//evil.example": "/", "https://evil.example/": "/", "/\\evil.example": "/", "/history": "/history"} {
		form := formOf(d.Reviewers[0].Email, d.Reviewers[0].Password)
		form.Set("next", next)
		got := d.client(t).do("POST", "/login", form)
		if location := got.Header.Get("Location"); got.Status != 303 || location != want {
			t.Errorf("next=%s leads to %d %s", next, got.Status, location)
		}
		for _, cookie := range got.Header.Values("Set-Cookie") {
			for _, flag := range []string{"HttpOnly", "SameSite=Lax", "Path=/"} {
				if !strings.Contains(cookie, flag) {
					t.Errorf("the cookie %q lacks %s", cookie, flag)
				}
			}
		}
	}
}

// TestConformance runs the agreed cases through the real command: those of this
// repository that do not depend on the time, which the command takes from the
// clock, and the whole of the agreed ones where they are at hand.
func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, filepath.Join("..", "engine", "dialect", "aana", "testdata", "cases.jsonl"), "retrieved_at")
	if all := filepath.Join("..", "..", "shared", "conformance", "aana.jsonl"); fileText(all) != "" {
		conform(t, all, "no case says this")
	}
}

// conform compares the command's answers with a file's, but for the cases that
// mention a word.
func conform(t *testing.T, file, but string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in := strings.Split(strings.TrimSpace(string(data)), "\n")
	in = slices.DeleteFunc(in, func(line string) bool { return strings.Contains(line, but) })
	out := strings.Split(strings.TrimSpace(must(t, nil, strings.Join(in, "\n"), "eval", "--dialect", "aana")), "\n")
	if len(in) != len(out) || len(in) < 15 {
		t.Fatalf("%d answers to %d cases", len(out), len(in))
	}
	wrong := 0
	for i := range in {
		type verdict struct {
			Route    string   `json:"route"`
			Executes bool     `json:"executes"`
			Blockers []string `json:"hard_blockers"`
		}
		var c struct {
			ID       string
			Expected verdict
		}
		var got struct {
			ID     string
			Result verdict
		}
		if err := json.Unmarshal([]byte(in[i]), &c); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(out[i]), &got); err != nil {
			t.Fatal(err)
		}
		if got.ID != c.ID || got.Result.Route != c.Expected.Route || got.Result.Executes != c.Expected.Executes ||
			strings.Join(got.Result.Blockers, " ") != strings.Join(c.Expected.Blockers, " ") {
			if wrong++; wrong <= 5 {
				t.Errorf("%s: got %+v, want %+v", c.ID, got.Result, c.Expected)
			}
		}
	}
	t.Logf("%d of %d cases agree", len(in)-wrong, len(in))
}
