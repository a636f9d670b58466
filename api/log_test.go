package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/postgres/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestLogIsServed(t *testing.T) {
	h := newHarness(t)
	h.get("/log/checkpoint").want(t, 404, "not_in_log")
	h.get("/log/tile/0/000").want(t, 404, "not_in_log")
	h.get("/log/tile/entries/000.p/1").want(t, 404, "not_in_log")
	h.sequence()
	h.log(600)
	c := h.checkpoint()
	if c.Origin != origin || c.Size != 600 {
		t.Fatalf("the checkpoint is of %d events of %s", c.Size, c.Origin)
	}
	const text, bytes = "text/plain; charset=utf-8", "application/octet-stream"
	for _, tc := range []struct {
		path, kind, caching string
		size                int
	}{
		{"checkpoint", text, "public, no-cache", 0},
		{"key", text, "public, no-cache", 0},
		{"tile/0/000", bytes, "public, max-age=31536000, immutable", 8192},
		{"tile/0/001", bytes, "public, max-age=31536000, immutable", 8192},
		{"tile/0/001.p/7", bytes, "public, max-age=31536000, immutable", 7 * 32},
		{"tile/0/002.p/88", bytes, "public, max-age=31536000, immutable", 88 * 32},
		{"tile/1/000.p/2", bytes, "public, max-age=31536000, immutable", 64},
		{"tile/entries/001", bytes, "public, no-cache", 0},
		{"tile/entries/002.p/88", bytes, "public, no-cache", 0},
	} {
		got := h.get("/log/"+tc.path).want(t, 200, "")
		for name, want := range map[string]string{"Content-Type": tc.kind, "Cache-Control": tc.caching, "Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"} {
			if got := got.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", tc.path, name, got, want)
			}
		}
		if len(got.body) == 0 || tc.size > 0 && len(got.body) != tc.size {
			t.Errorf("%s has %d bytes, want %d", tc.path, len(got.body), tc.size)
		}
		tag := got.Header.Get("ETag")
		if again := h.do("GET", "/log/"+tc.path, "If-None-Match", tag); tag == "" || again.StatusCode != 304 || len(again.body) != 0 {
			t.Errorf("%s with its ETag %s: %d and %d bytes", tc.path, tag, again.StatusCode, len(again.body))
		}
		head := h.do("HEAD", "/log/"+tc.path)
		if head.StatusCode != 200 || len(head.body) != 0 || head.ContentLength != int64(len(got.body)) || head.Header.Get("ETag") != tag {
			t.Errorf("HEAD %s: %d, Content-Length %d", tc.path, head.StatusCode, head.ContentLength)
		}
	}
	for n, width := range map[int64]int{0: 256, 1: 256, 2: 88} {
		if wrong := h.misfits(n, width); wrong != nil {
			t.Errorf("entries %v of tile %d do not fit", wrong, n)
		}
	}
	before := h.count(`SELECT count(*) FROM events`)
	for path, code := range map[string]string{
		"tile/0/003": "not_in_log", "tile/0/002": "not_in_log", "tile/0/002.p/89": "not_in_log", "tile/0/003.p/1": "not_in_log", "tile/1/000": "not_in_log",
		"tile/1/000.p/3": "not_in_log", "tile/2/000.p/1": "not_in_log", "tile/7/000.p/1": "not_in_log", "tile/entries/002.p/89": "not_in_log", "tile/entries/x999/999": "not_in_log",
		"tile/0/000.p/256": "no_such_route", "tile/0/000.p/0": "no_such_route", "tile/0/0": "no_such_route", "tile/63/000": "no_such_route", "tile/00/000": "no_such_route", "tile/-1/000": "no_such_route",
		"tile/0/x000/000": "no_such_route", "tile/0/x000%2F000": "no_such_route", "tile/0/%300%30": "no_such_route", "tile/0/000.p/%37": "no_such_route", "tile/8/0/000": "no_such_route",
		"tile/0/-01": "no_such_route", "tile/entries/-01": "no_such_route", "tile/0/x-01/000": "no_such_route", "tile/entries/-01.p/1": "no_such_route", "tile/1/-99": "no_such_route",
		"tile/entries/000/": "no_such_route", "tile/": "no_such_route", "": "no_such_route", "tile/1": "no_such_route", "checkpoint/": "no_such_route", "nothing": "no_such_route", "issuer/00": "no_such_route",
	} {
		got := h.get("/log/"+path).want(t, 404, code)
		if got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: headers %v", path, got.Header)
		}
	}
	if got := h.count(`SELECT count(*) FROM events`); got != before {
		t.Errorf("asking for what is not there has added %d events", got-before)
	}
	h.do("POST", "/log/checkpoint").want(t, 405, "method_not_allowed")
	for _, query := range []string{"from=-1", "from=6000", "from=9223372036854775807", "from=1&to=-1", "from=1&to=9223372036854775807", "from=600&to=1"} {
		if got := h.do("GET", "/v1/audit/consistency?"+query, "Authorization", "Bearer auditing"); got.StatusCode != 400 && got.StatusCode != 404 {
			t.Errorf("%s: %d", query, got.StatusCode)
		}
	}
	if text := h.logged.String(); text != "" {
		t.Errorf("asking for what is not there made the log say: %s", text)
	}
}

// TestLogEndsAtItsCheckpoint: tiles and entries behind the newest checkpoint are
// served to nobody, whatever the database has of them.
func TestLogEndsAtItsCheckpoint(t *testing.T) {
	h := logged(t, 10)
	h.log(20)
	h.stop()
	h.exec(`DELETE FROM log_checkpoints WHERE size > 10`)
	size := h.checkpoint().Size
	if size < 1 || size > 10 {
		t.Fatalf("the newest checkpoint is of %d events", size)
	}
	for _, kind := range []string{"0", "entries"} {
		h.get(fmt.Sprintf("/log/tile/%s/000.p/%d", kind, size)).want(t, 200, "")
		h.get(fmt.Sprintf("/log/tile/%s/000.p/%d", kind, size+1)).want(t, 404, "not_in_log")
	}
}

// TestLogShowsWhatWasChanged: what somebody with all rights does to an event makes
// exactly its entry a misfit, and nobody gets a proof of it.
func TestLogShowsWhatWasChanged(t *testing.T) {
	h := logged(t, 300)
	var ids []string
	for leaf := range 300 {
		var id string
		if err := h.owner.QueryRow(t.Context(), `SELECT e.event_id::text FROM events e JOIN log_entries l USING (seq) WHERE l.leaf = $1`, leaf).Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	const path = "/log/tile/entries/000"
	tag := h.get(path).want(t, 200, "").Header.Get("ETag")
	changed := map[int]string{
		3:   `UPDATE events SET body = convert_to(replace(convert_from(body, 'UTF8'), 'turned away', 'let in'), 'UTF8') WHERE event_id = $1`,
		5:   `UPDATE events SET outcome = 'ALLOW' WHERE event_id = $1`,
		7:   `UPDATE events SET appended_at = appended_at - interval '1 microsecond' WHERE event_id = $1`,
		100: `UPDATE events SET body = 'no JSON' WHERE event_id = $1`,
		200: `UPDATE events SET body = body || convert_to(' ', 'UTF8'), type = 'decision' WHERE event_id = $1`,
	}
	var want []int
	for leaf, sql := range changed {
		h.exec(sql, ids[leaf])
		want = append(want, leaf)
		h.ask("/v1/audit/events/"+ids[leaf]+"/proof").want(t, 409, "event_changed")
	}
	h.exec(`DELETE FROM events WHERE event_id = $1`, ids[250])
	want = append(want, 250)
	h.ask("/v1/audit/events/"+ids[250]+"/proof").want(t, 404, "not_found")
	slices.Sort(want)
	if got := h.misfits(0, 256); !slices.Equal(got, want) {
		t.Errorf("entries %v do not fit, want %v", got, want)
	}
	if got := h.misfits(1, 44); got != nil {
		t.Errorf("entries %v of the other bundle do not fit", got)
	}
	now := h.do("GET", path, "If-None-Match", tag)
	if now.StatusCode != 200 {
		t.Errorf("the bundle is said to be unchanged: %d", now.StatusCode)
	}
	entries, err := audit.ParseBundle(now.body)
	if err != nil || string(entries[250]) != `{"gone":true,"seq":251,"v":1}` {
		t.Errorf("of the event that is gone: %s, %v", entries[250], err)
	}
	h.ask("/v1/audit/events/"+ids[4]+"/proof").want(t, 200, "")

	// A place that leads to another event, and one that leads nowhere.
	h.exec(`UPDATE log_entries SET seq = -1 WHERE leaf = 20`)
	h.exec(`UPDATE log_entries SET seq = (SELECT seq FROM log_entries WHERE leaf = 22) - 1000000 WHERE leaf = 22`)
	if got := h.misfits(0, 256); !slices.Contains(got, 20) || !slices.Contains(got, 22) || len(got) != len(want)+2 {
		t.Errorf("entries %v do not fit, want %v and 20, 22", got, want)
	}
}

// TestLogWhoseTilesWereChanged: no proof is made from them.
func TestLogWhoseTilesWereChanged(t *testing.T) {
	h := logged(t, 300)
	var id string
	if err := h.owner.QueryRow(t.Context(), `SELECT e.event_id::text FROM events e JOIN log_entries l USING (seq) WHERE l.leaf = 5`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	proof, consistency := "/v1/audit/events/"+id+"/proof", "/v1/audit/consistency?from=5"
	h.exec(`UPDATE log_tiles SET hashes = set_byte(hashes, 40, get_byte(hashes, 40) # 1) WHERE level = 0 AND n = 0`)
	h.ask(proof).want(t, 500, "log_broken")
	h.ask(consistency).want(t, 500, "log_broken")
	// What was remembered of the changed tile does not outlive it.
	h.exec(`UPDATE log_tiles SET hashes = set_byte(hashes, 40, get_byte(hashes, 40) # 1) WHERE level = 0 AND n = 0`)
	h.ask(proof).want(t, 200, "")
	h.ask(consistency).want(t, 200, "")
	// What is remembered makes right proofs, or none.
	h.exec(`UPDATE log_tiles SET hashes = set_byte(hashes, 40, get_byte(hashes, 40) # 1) WHERE level = 0 AND n = 0`)
	h.ask(proof).want(t, 200, "")
	h.exec(`DELETE FROM log_tiles WHERE level = 0 AND n = 1`)
	h.ask(proof).want(t, 500, "log_broken")
	h.get("/log/tile/0/001.p/44").want(t, 500, "log_broken")
	h.exec(`UPDATE log_checkpoints SET root = sha256('other') WHERE size = (SELECT max(size) FROM log_checkpoints)`)
	h.ask(consistency).want(t, 500, "log_broken")
}

func TestProofOfEveryEvent(t *testing.T) {
	h := logged(t, 270)
	var page struct{ Events []json.RawMessage }
	h.ask("/v1/audit/events?limit=1000").want(t, 200, "").into(t, &page)
	if len(page.Events) < 270 {
		t.Fatalf("there are %d events", len(page.Events))
	}
	for i, shown := range page.Events {
		var e struct {
			ID  string `json:"event_id"`
			Seq int64
		}
		if err := json.Unmarshal(shown, &e); err != nil {
			t.Fatal(err)
		}
		var p struct {
			Event             json.RawMessage
			Entry, Checkpoint string
			Index             int64  `json:"leaf_index"`
			LeafHash          string `json:"leaf_hash"`
			Size              int64  `json:"tree_size"`
			Root              string
			Proof             []string
			Text              string `json:"tlog_proof"`
		}
		h.ask("/v1/audit/events/"+e.ID+"/proof").want(t, 200, "").into(t, &p)
		signed, err := audit.OpenCheckpoint([]byte(p.Checkpoint), h.verifier)
		if err != nil {
			t.Fatal(err)
		}
		if p.Index != int64(i) || e.Seq != int64(i)+1 || signed.Size != p.Size || signed.Root.String() != p.Root || !bytes.Equal(p.Event, shown) {
			t.Fatalf("event %d: %+v", i, p)
		}
		// As a stranger would: canonical form, digest, entry, leaf hash, root.
		v, err := canon.Parse(p.Event)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`{"digest":"sha256:%x",`, sha256.Sum256(v.Canonical())); !strings.HasPrefix(p.Entry, want) {
			t.Fatalf("event %d: entry %s, want %s…", i, p.Entry, want)
		}
		leaf := tlog.RecordHash([]byte(p.Entry))
		if leaf.String() != p.LeafHash {
			t.Fatalf("event %d: leaf hash %s, want %s", i, p.LeafHash, leaf)
		}
		if err := tlog.CheckRecord(hashes(t, p.Proof), p.Size, signed.Root, p.Index, leaf); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if want := fmt.Sprintf("c2sp.org/tlog-proof@v1\nindex %d\n%s\n\n%s", i, strings.Join(p.Proof, "\n"), p.Checkpoint); p.Text != want {
			t.Fatalf("event %d: tlog-proof %s", i, p.Text)
		}
	}
}

func hashes(t testing.TB, list []string) (out []tlog.Hash) {
	t.Helper()
	for _, text := range list {
		h, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(h) != tlog.HashSize {
			t.Fatalf("%q is no hash", text)
		}
		out = append(out, tlog.Hash(h))
	}
	return out
}

// TestProofOfWhatHasNoPlace: an event that was only just appended is waited for;
// without a sequencer the answer says that there is no place yet.
func TestProofOfWhatHasNoPlace(t *testing.T) {
	h := logged(t, 3)
	h.stop()
	if err := h.RecordRejection(t.Context(), access.RejectedRequest{Code: "late", Payload: []byte(`{"route":"GET /","status":400}`)}); err != nil {
		t.Fatal(err)
	}
	var id string
	if err := h.owner.QueryRow(t.Context(), `SELECT event_id::text FROM events ORDER BY seq DESC LIMIT 1`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if got := h.ask("/v1/audit/events/"+id+"/proof").want(t, 409, "not_placed_yet"); got.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", got.Header.Get("Retry-After"))
	}
	h.sequence()
	if placed, err := h.Store.Log.CatchUp(t.Context(), 20*time.Second); err != nil || !placed {
		t.Fatalf("the log does not catch up: %v", err)
	}
	h.ask("/v1/audit/events/"+id+"/proof").want(t, 200, "")
	for _, unknown := range []string{"00000000-0000-4000-8000-000000000000", strings.ToUpper(id), "{" + id + "}", "urn:uuid:" + id, "1", "x%00y", "%27"} {
		h.ask("/v1/audit/events/"+unknown+"/proof").want(t, 404, "not_found")
	}
}

// TestProofWaitsForWitnesses: where witnesses are asked for, the public log and its
// proofs end where they have signed; what is behind that is not broken.
func TestProofWaitsForWitnesses(t *testing.T) {
	h := logged(t, 3)
	h.Log.Witnessed = 1
	last := func() (id string) {
		if err := h.owner.QueryRow(t.Context(), `SELECT event_id::text FROM events ORDER BY seq DESC LIMIT 1`).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := last()
	h.get("/log/checkpoint").want(t, 404, "not_in_log")
	if got := h.ask("/v1/audit/events/"+first+"/proof").want(t, 409, "not_witnessed_yet"); got.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", got.Header.Get("Retry-After"))
	}
	newest, err := h.Store.Log.LatestCheckpoint(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	line := "— witness.example.com " + base64.StdEncoding.EncodeToString(make([]byte, 76)) + "\n"
	if err := h.Store.Log.Cosign(t.Context(), newest.Size, "witness.example.com", line); err != nil {
		t.Fatal(err)
	}
	h.log(2)
	var proof struct {
		TreeSize int64 `json:"tree_size"`
	}
	h.ask("/v1/audit/events/"+first+"/proof").want(t, 200, "").into(t, &proof)
	if size := h.checkpoint().Size; proof.TreeSize != newest.Size || size != newest.Size {
		t.Errorf("the proof is to %d events and the public log has %d, where witnesses have signed %d", proof.TreeSize, size, newest.Size)
	}
	h.ask("/v1/audit/events/"+last()+"/proof").want(t, 409, "not_witnessed_yet")
	h.Log.Witnessed = 2
	h.ask("/v1/audit/events/"+first+"/proof").want(t, 409, "not_witnessed_yet")
	h.stop()
	h.exec(`DELETE FROM log_checkpoints WHERE size > 0`)
	h.ask("/v1/audit/events/"+first+"/proof").want(t, 500, "log_broken")
}

// TestWhoReadsTheLog: the public log is everybody's; what has events in it is for
// keys with scope audit, auditors and administrators.
func TestWhoReadsTheLog(t *testing.T) {
	h := logged(t, 2)
	for _, path := range []string{"/v1/audit/events/00000000-0000-4000-8000-000000000000/proof", "/v1/audit/consistency?from=0", "/v1/audit/checkpoints"} {
		h.person = engine.Person{}
		h.get(path).want(t, 401, "unauthenticated")
		h.do("GET", path, "Authorization", "Bearer checking").want(t, 403, "scope_missing")
		h.do("GET", path, "Authorization", "Bearer none").want(t, 401, "unauthenticated")
		for role, may := range map[string]bool{access.AuditorRole: true, access.AdminRole: true, "reviewer": false} {
			h.person = engine.Person{ID: "usr_a", Identity: "usr_a", Roles: []string{role}}
			if got := h.get(path); (got.StatusCode == 403) == may || got.StatusCode == 401 {
				t.Errorf("%s by a person with the role %s: %d %s", path, role, got.StatusCode, got.body)
			}
		}
		h.person = engine.Person{ID: "usr_a", Roles: []string{access.AuditorRole}, Disabled: true}
		h.get(path).want(t, 403, "not_an_auditor")
	}
}

type wireCheckpoint struct {
	Size int64 `json:"tree_size"`
	Root string
	At   time.Time
	Note string `json:"checkpoint"`
}

// TestLogOnlyGrows: every checkpoint that was ever signed is listed, and is proved
// to be a beginning of every later one.
func TestLogOnlyGrows(t *testing.T) {
	h := logged(t, 1)
	for range 5 {
		h.log(60)
	}
	h.exec(`INSERT INTO log_cosignatures (size, name, line) SELECT max(size), 'w', E'— witness.example.com d2l0bmVzcw==\n' FROM log_checkpoints`)
	var all []wireCheckpoint
	for before, pages := int64(0), 0; ; pages++ {
		var page struct {
			Checkpoints []wireCheckpoint
			Next        int64 `json:"next_before"`
		}
		h.ask(fmt.Sprintf("/v1/audit/checkpoints?limit=2&before=%d", before)).want(t, 200, "").into(t, &page)
		if len(page.Checkpoints) > 2 {
			t.Fatalf("a page has %d checkpoints", len(page.Checkpoints))
		}
		all = append(all, page.Checkpoints...)
		if before = page.Next; before == 0 {
			break
		}
	}
	if n := h.count(`SELECT count(*) FROM log_checkpoints`); len(all) < 6 || int64(len(all)) != n || all[0].Size != 301 {
		t.Fatalf("%d checkpoints are listed from %d on, want %d", len(all), all[0].Size, n)
	}
	if !strings.HasSuffix(all[0].Note, "\n— witness.example.com d2l0bmVzcw==\n") || string(h.get("/log/checkpoint").body) != all[0].Note {
		t.Errorf("the newest one is %s", all[0].Note)
	}
	open := func(c wireCheckpoint) audit.Checkpoint {
		opened, err := audit.OpenCheckpoint([]byte(c.Note), h.verifier)
		if err != nil || opened.Size != c.Size || opened.Root.String() != c.Root || c.At.IsZero() {
			t.Fatalf("checkpoint %+v: %v", c, err)
		}
		return opened
	}
	type consistency struct {
		From, To    int64
		Proof       []string
		Checkpoints []wireCheckpoint
	}
	for i, later := range all {
		for _, former := range all[i:] {
			var p consistency
			h.ask(fmt.Sprintf("/v1/audit/consistency?from=%d&to=%d", former.Size, later.Size)).want(t, 200, "").into(t, &p)
			if err := audit.CheckTree(hashes(t, p.Proof), open(later), open(former)); err != nil {
				t.Errorf("%d to %d: %v", former.Size, later.Size, err)
			}
			if n := len(p.Checkpoints); p.From != former.Size || p.To != later.Size || p.Checkpoints[n-1].Note != later.Note || p.Checkpoints[0].Note != former.Note {
				t.Errorf("%d to %d: %+v", former.Size, later.Size, p)
			}
		}
	}
	var unsigned int64
	for size := int64(2); unsigned == 0; size++ {
		if !slices.ContainsFunc(all, func(c wireCheckpoint) bool { return c.Size == size }) {
			unsigned = size
		}
	}
	var p consistency
	h.ask(fmt.Sprintf("/v1/audit/consistency?from=%d", unsigned)).want(t, 200, "").into(t, &p)
	if p.To != 301 || len(p.Proof) == 0 || len(p.Checkpoints) != 1 {
		t.Errorf("from a size that was not signed: %+v", p)
	}
	h.ask("/v1/audit/consistency?from=0").want(t, 200, "").into(t, &p)
	if len(p.Proof) != 0 || p.To != 301 {
		t.Errorf("from nothing: %+v", p)
	}
	h.stop() // what is refused is an event, too
	h.ask(fmt.Sprintf("/v1/audit/consistency?from=1&to=%d", unsigned)).want(t, 404, "no_checkpoint")
	h.ask("/v1/audit/consistency?from=1&to=302").want(t, 404, "no_checkpoint")
	for _, query := range []string{"", "from=302", "from=3&to=1", "from=-1", "from=x", "from=1&from=2", "from=1&to=-1", "from=9223372036854775808"} {
		h.ask("/v1/audit/consistency?"+query).want(t, 400, "bad_query")
	}
	h.ask("/v1/audit/consistency?from=1&until=3").want(t, 400, "unknown_parameter")
	h.ask("/v1/audit/checkpoints?after=3").want(t, 400, "unknown_parameter")
	for _, query := range []string{"limit=0", "limit=1001", "before=-1", "before=x"} {
		h.ask("/v1/audit/checkpoints?"+query).want(t, 400, "bad_query")
	}
}

// TestFilterThatNoEventFits: a filter that no event can fit is a mistake that is
// named, and no empty answer.
func TestFilterThatNoEventFits(t *testing.T) {
	h := logged(t, 1)
	for query, problem := range map[string]string{
		"outcome=deny": "the outcomes are [ALLOW DENY", "type=votes": "the types of events are [decision", "agent_id=%00": "want a text in UTF-8", "actor_id=%ff": "want a text in UTF-8", "tool_name=" + strings.Repeat("x", 1001): "its tool has more than 1000 bytes",
		"actor_id=ada@example.com": "its actor is no id", "actor_id=Ada+Archer": "its actor is no id", "actor_id=uid+7": "",
		"since=2026-11-02T00:00:00Z&until=2026-11-02T00:00:00Z": "begin before it ends", "type=": "", "outcome=DENY": "", "type=vote": "",
	} {
		if problem == "" {
			h.ask("/v1/audit/events?"+query).want(t, 200, "")
			continue
		}
		for _, path := range []string{"/v1/audit/events?", "/v1/audit/export?"} {
			if got := h.ask(path+query).want(t, 400, "bad_query"); !bytes.Contains(got.body, []byte(problem)) {
				t.Errorf("%s%s: %s", path, query, got.body)
			}
		}
	}
	var route, status string
	if err := h.owner.QueryRow(t.Context(), `SELECT e #>> '{safe_payload,route}', e #>> '{safe_payload,status}'
		FROM (SELECT seq, convert_from(body, 'UTF8')::jsonb AS e FROM events WHERE type = 'refusal' ORDER BY seq DESC LIMIT 1) last`).Scan(&route, &status); err != nil ||
		!strings.HasPrefix(route, "GET /v1/audit/") || status != "400" {
		t.Errorf("the log says of a refusal: %q, %s, %v", route, status, err)
	}
}

// TestLogKey: the key that is shown verifies the checkpoint.
func TestLogKey(t *testing.T) {
	h := logged(t, 1)
	verifiers, err := audit.ParseVerifiers(string(h.get("/log/key").want(t, 200, "").body))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := audit.OpenCheckpoint(h.get("/log/checkpoint").body, verifiers...); err != nil {
		t.Error(err)
	}
}
