package tests

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// disguises are the forms in which a secret may lie about.
func disguises(secret string) map[string][]byte {
	forms := map[string][]byte{
		"as it is": []byte(secret), "URL-encoded": []byte(url.QueryEscape(secret)), "path-encoded": []byte(url.PathEscape(secret)),
		"in hex": []byte(hex.EncodeToString([]byte(secret))), "in HEX": []byte(strings.ToUpper(hex.EncodeToString([]byte(secret)))),
	}
	for shift := range 3 {
		// Base64 of the secret at any offset; the ends depend on its neighbours.
		for name, encoding := range map[string]*base64.Encoding{"in base64": base64.RawStdEncoding, "in base64url": base64.RawURLEncoding} {
			encoded := encoding.EncodeToString(append(make([]byte, shift), secret...))
			forms[name+" at "+string(rune('0'+shift))] = []byte(encoded[(shift*8+5)/6 : len(encoded)-1])
		}
	}
	return forms
}

// find says in which forms the secret is in data.
func find(forms map[string][]byte, data []byte) (found []string) {
	for name, form := range forms {
		if bytes.Contains(data, form) {
			found = append(found, name)
		}
	}
	return found
}

// TestCanaryEncodings: the search would find what it looks for.
func TestCanaryEncodings(t *testing.T) {
	const secret = "canary/ü+7f3a9q"
	forms := disguises(secret)
	for _, text := range []string{
		"x" + secret, "x=" + url.QueryEscape(secret), hex.EncodeToString([]byte("ab" + secret + "c")),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte("a" + secret + "bc")), base64.URLEncoding.EncodeToString([]byte("{}" + secret + "}")),
	} {
		if find(forms, []byte(text)) == nil {
			t.Errorf("not found in %q", text)
		}
	}
	if found := find(forms, []byte("canary")); found != nil {
		t.Errorf("found %q where it is not", found)
	}
}

// cleanFiles stops the program, and looks for what must not be there in every file that it leaves.
func (d *dev) cleanFiles(t *testing.T, find func(data []byte) []string) {
	t.Helper()
	if err := d.program.stop(); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(filepath.Dir(d.dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if found := find(data); found != nil {
			t.Errorf("the file %s holds the canary: %q", path, found)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("looked at %d files: %v", files, err)
	}
}

// TestCanaryIsNowhere: an argument goes through everything that can happen to a
// call, and afterwards it is in the encrypted column and nowhere else: not in
// any table of ours or Temporal's, nor in any file, log, metric or event.
func TestCanaryIsNowhere(t *testing.T) {
	ownPrograms(t)
	d := startDev(t, func(o *devOptions) { o.args = []string{"--log-level", "debug"}; o.policy = sharedPolicy })
	secret := "canary/ü+" + newID("")
	forms := disguises(secret)
	args := map[string]any{"plain": secret, "nested": map[string]any{"list": []any{"x", secret}}, "text": "words around " + secret + " it"}
	agent, runtime, reviewer := d.agent(t), d.runtime(t), d.reviewer(t, 0)
	clean := func(what string, a answer) answer {
		t.Helper()
		if found := find(forms, a.Body); found != nil {
			t.Errorf("%s answers with the argument %q", what, found)
		}
		for name, values := range a.Header {
			if find(forms, []byte(strings.Join(values, "\n"))) != nil {
				t.Errorf("%s answers with the argument in %s", what, name)
			}
		}
		return a
	}

	// Decided at once, waiting, refused at every door, repeated.
	for _, route := range []string{"accept", "refuse"} {
		clean(route, agent.propose(event("search_docs", route, args)).want(t, 200))
	}
	key := header{"Idempotency-Key", newID("k-")}
	a := agent.hold("carry", args, key)
	for range 2 {
		clean("repeated", agent.propose(event("carry", "defer", args), key).want(t, 202))
	}
	clean("another body", agent.propose(event("carry", "defer", map[string]any{"other": secret}), key).want(t, 422, "idempotency_key_reused"))
	page := reviewer.do("GET", "/approvals/"+a.ID, nil)
	if !bytes.Contains(page.Body, []byte(secret)) {
		t.Fatal("the reviewer's page does not show the argument: the canary does not sing at all")
	}
	clean("read", agent.do("GET", approvalPath(a.ID), nil))
	reviewer.approve(a)
	token := agent.wait(a.ID).Token
	if payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1]); err != nil || find(forms, payload) != nil {
		t.Errorf("the token holds the argument: %v", err)
	}
	clean("wrong arguments", agent.redeem(token, "carry", map[string]any{"plain": secret + "!"}).want(t, 403, "arguments_mismatch"))
	clean("no token", agent.redeem("x.y.z", "carry", args).want(t, 401, "token_invalid"))
	clean("redeem", agent.redeem(token, "carry", args, header{"Idempotency-Key", newID("k-")}).want(t, 200))
	clean("used", agent.redeem(token, "carry", args).want(t, 409, "token_used"))
	clean("execution", agent.do("POST", "/v1/executions", map[string]any{"approval_id": a.ID, "outcome": "failed"}).want(t, 200))
	denied, cancelled, expired, asked := agent.hold("carry", args), agent.hold("carry", args), agent.hold("brief_carry", args), agent.submit(event("search_docs", "ask", args))
	clean("deny", reviewer.vote(denied, "deny").want(t, 200))
	clean("cancel", agent.cancel(cancelled.ID).want(t, 200))
	clean("answer", runtime.do("POST", approvalPath(asked.ID)+"/answers", map[string]any{"confirmed": true}).want(t, 200))
	for _, end := range []approval{denied, cancelled, expired, asked} {
		agent.wait(end.ID)
	}
	// What is not even JSON, or not the contract, or too much.
	for name, body := range map[string]string{
		"cut off": `{"proposed_arguments":{"a":"` + secret, "twice": `{"proposed_arguments":{"a":"` + secret + `","a":1}}`,
		"with NUL":          `{"proposed_arguments":{"a":"` + secret + `\u0000"}}`,
		"with an odd type":  `{"tool_name":{"x":"` + secret + `"},"proposed_arguments":"` + secret + `"}`,
		"with odd evidence": `{"tool_name":"t","tool_category":"write","authorization_state":"` + secret + `","evidence_refs":[],"risk_domain":"` + secret + `","proposed_arguments":{"a":"` + secret + `"},"recommended_route":"` + secret + `"}`,
		"nothing but it":    `"` + secret + `"`,
		"too large":         `{"proposed_arguments":{"a":"` + strings.Repeat(secret, 100_000) + `"}}`,
	} {
		clean(name, agent.do("POST", checkPath, []byte(body)))
		clean(name+" to redeem", agent.do("POST", "/v1/tokens/redeem", []byte(body)))
	}
	// The same call was denied above: this one is another.
	waiting := agent.hold("carry", map[string]any{"plain": secret, "another": true})

	clean("metrics", d.admin(t).do("GET", "/metrics", nil).want(t, 200))
	clean("audit", d.admin(t).do("GET", "/v1/audit/events?limit=1000", nil).want(t, 200))
	// The inbox says what calls do to those who may decide them, the history what they did,
	// and to nobody else.
	for _, page := range []string{"/", "/history"} {
		if got := reviewer.do("GET", page, nil).want(t, 200); !bytes.Contains(got.Body, []byte(secret)) {
			t.Errorf("%s does not say what the call does", page)
		}
	}
	for name, p := range map[string]person{"the owner's inbox": d.Owner, "the auditor's inbox": d.Auditor} {
		clean(name, d.as(t, p).do("GET", "/", nil).want(t, 200))
	}
	tables := 0
	for _, database := range []string{"holdpoint", "temporal"} {
		for table, data := range dump(t, d.OwnerURL, database) {
			tables++
			if found := find(forms, data); found != nil {
				t.Errorf("table %s of %s holds the argument %q", table, database, found)
			}
		}
	}
	if tables < 40 {
		t.Errorf("only %d tables were looked at", tables)
	}
	t.Logf("%d tables are clean", tables)
	d.check(t)
	d.cleanFiles(t, func(data []byte) []string { return find(forms, data) })
	if log := d.program.text(); !strings.Contains(log, "level=DEBUG") {
		t.Error("the log has no debug lines: nothing was proven of it")
	}
	// And all the while it was there, for those who may see it.
	again := d.again(t, nil)
	if page := again.reviewer(t, 0).do("GET", "/approvals/"+waiting.ID, nil); !bytes.Contains(page.Body, []byte(secret)) {
		t.Error("after a restart the reviewer does not see the argument")
	}
}

// dump is every row of every table of a database, in Postgres' binary form,
// where text and bytes are as they are.
func dump(t testing.TB, ownerURL, database string) map[string][]byte {
	t.Helper()
	u, err := url.Parse(ownerURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + database
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{}
	for _, table := range tables {
		var b bytes.Buffer
		if _, err := conn.PgConn().CopyTo(ctx, &b, "COPY (SELECT * FROM "+table+") TO STDOUT (FORMAT binary)"); err != nil {
			t.Fatalf("copy %s: %v", table, err)
		}
		data[table] = b.Bytes()
	}
	return data
}
