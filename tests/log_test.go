package tests

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// follower is a verifier that has only the log's address and its public key.
func (d *dev) follower(t testing.TB) *logClient {
	t.Helper()
	v, err := note.NewVerifier(strings.TrimSpace(fileText(filepath.Join(d.dir, "log-key.pub"))))
	if err != nil {
		t.Fatal(err)
	}
	return &logClient{prefix: d.URL + "/log/", verifier: v}
}

// grow has n more calls judged, and waits until they are in the log.
func (d *dev) grow(t testing.TB, n int) {
	t.Helper()
	agent := d.agent(t)
	const at = 16
	together(at, func(i int) {
		for j := i; j < n; j += at {
			if a := agent.propose(event("search_docs", "accept", map[string]any{"n": j})); a.Status != http.StatusOK {
				t.Errorf("call %d: %s", j, a)
			}
		}
	})
	d.logged(t)
}

// logged waits until every event that is committed has its place in the log.
func (in *installation) logged(t testing.TB) {
	t.Helper()
	eventually(t, settleWithin, "all events are in the log", func() bool {
		return in.count(t, `SELECT count(*) FROM events WHERE seq > (SELECT seq FROM log_head)`) == 0
	})
}

// TestLogIsVerifiedByOthers: code that knows nothing of this project verifies the
// log that a running program serves, follows it while it grows, and sees which
// entry somebody with all rights in the database has changed.
func TestLogIsVerifiedByOthers(t *testing.T) {
	ownPrograms(t)
	d := startDev(t, nil)
	d.grow(t, 300)
	log := d.follower(t)
	if err := log.follow(); err != nil || log.known.N < 300 {
		t.Fatalf("a log of %d: %v", log.known.N, err)
	}
	before := log.known.N
	d.grow(t, 300)
	if err := log.follow(); err != nil || log.known.N < before+300 {
		t.Fatalf("the log grew from %d to %d: %v", before, log.known.N, err)
	}
	if key := d.client(t).do("GET", "/log/key", nil).want(t, 200); string(key.Body) != fileText(filepath.Join(d.dir, "log-key.pub")) {
		t.Errorf("the key is %s", key)
	}
	t.Run("entries", func(t *testing.T) { entriesAreEvents(t, d, log) })
	t.Run("proofs", func(t *testing.T) { proofsHold(t, d, log) })
	t.Run("tampering", func(t *testing.T) { tamperingShows(t, d) })
	t.Run("malice", func(t *testing.T) { maliceIsCaught(t, d, log) })
	if err := log.follow(); err != nil {
		t.Errorf("at the end: %v", err)
	}
}

// digestOf is what the entry of an event has to say, by another implementation of
// RFC 8785 than the program's.
func digestOf(t testing.TB, event []byte) string {
	t.Helper()
	canonical, err := jcs.Transform(event)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(canonical))
}

// entriesAreEvents: whoever may read the events finds each of them in the log, in
// its place; whoever may not learns nothing but how many there are and when.
func entriesAreEvents(t *testing.T, d *dev, log *logClient) {
	var events []json.RawMessage
	for cursor := ""; ; {
		var page struct {
			Events []json.RawMessage
			Next   string `json:"next_cursor"`
		}
		d.admin(t).do("GET", "/v1/audit/events?limit=1000&cursor="+cursor, nil).want(t, 200).into(t, &page)
		events = append(events, page.Events...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(events) < len(log.entries) {
		t.Fatalf("there are %d events, and %d entries", len(events), len(log.entries))
	}
	for i, entry := range log.entries {
		var e struct {
			Seq       int64
			Timestamp string
		}
		if err := json.Unmarshal(events[i], &e); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"digest":%q,"seq":%d,"time":%q,"v":1}`, digestOf(t, events[i]), i+1, e.Timestamp)
		if string(entry) != want || e.Seq != int64(i)+1 {
			t.Fatalf("entry %d is %s, want %s", i, entry, want)
		}
	}
}

// eventProof is an answer of /v1/audit/events/{event_id}/proof.
type eventProof struct {
	Event      json.RawMessage
	Entry      string
	Index      int64 `json:"leaf_index"`
	Size       int64 `json:"tree_size"`
	Proof      []string
	Checkpoint string
}

// verify checks a proof by nothing but itself and the log's key.
func (p eventProof) verify(t testing.TB, log *logClient) {
	t.Helper()
	n, err := note.Open([]byte(p.Checkpoint), note.VerifierList(log.verifier))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(n.Text, "\n")
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || lines[1] != fmt.Sprint(p.Size) || !strings.Contains(p.Entry, digestOf(t, p.Event)) {
		t.Fatalf("%v in %+v", err, p)
	}
	if err := tlog.CheckRecord(decoded(t, p.Proof), p.Size, tlog.Hash(root), p.Index, tlog.RecordHash([]byte(p.Entry))); err != nil {
		t.Errorf("the proof of %s: %v", p.Event, err)
	}
}

func decoded(t testing.TB, proof []string) (list []tlog.Hash) {
	t.Helper()
	for _, text := range proof {
		h, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(h) != tlog.HashSize {
			t.Fatalf("%q is no hash", text)
		}
		list = append(list, tlog.Hash(h))
	}
	return list
}

// proofsHold: an event has its proof as soon as its request was answered, for
// those who may read events; and the log's own history is proved to them.
func proofsHold(t *testing.T, d *dev, log *logClient) {
	a := d.agent(t).hold("prove_me", nil)
	d.logged(t)
	var p eventProof
	for _, e := range d.admin(t).events(query("approval_id", a.ID)) {
		path := "/v1/audit/events/" + e.ID + "/proof"
		d.admin(t).do("GET", path, nil).want(t, 200).into(t, &p)
		p.verify(t, log)
		if p.Index != e.Seq-1 || p.Size <= p.Index {
			t.Errorf("the event %d has the leaf %d of %d", e.Seq, p.Index, p.Size)
		}
		d.as(t, d.Auditor).do("GET", path, nil).want(t, 200)
		d.as(t, d.Owner).do("GET", path, nil).want(t, 200)
		d.reviewer(t, 3).do("GET", path, nil).want(t, 403, "not_an_auditor")
		d.agent(t).do("GET", path, nil).want(t, 403, "scope_missing")
		d.client(t).do("GET", path, nil).want(t, 401, "unauthenticated")
	}
	var list struct {
		Checkpoints []struct {
			Size int64 `json:"tree_size"`
			Root string
		}
	}
	d.as(t, d.Auditor).do("GET", "/v1/audit/checkpoints?limit=1000", nil).want(t, 200).into(t, &list)
	newest := list.Checkpoints[0]
	for _, c := range list.Checkpoints {
		var between struct{ Proof []string }
		d.admin(t).do("GET", fmt.Sprintf("/v1/audit/consistency?from=%d&to=%d", c.Size, newest.Size), nil).want(t, 200).into(t, &between)
		roots := decoded(t, []string{newest.Root, c.Root})
		if c.Size == newest.Size {
			continue
		}
		if err := tlog.CheckTree(decoded(t, between.Proof), newest.Size, roots[0], c.Size, roots[1]); err != nil {
			t.Errorf("from %d to %d: %v", c.Size, newest.Size, err)
		}
	}
}

// tamperingShows: who takes the triggers away can change an event, and everybody
// sees which one.
func tamperingShows(t *testing.T, d *dev) {
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	const leaf = 259
	var id string
	var body []byte
	if err := conn.QueryRow(ctx, `SELECT e.event_id::text, e.body FROM events e JOIN log_entries l USING (seq) WHERE l.leaf = $1`, leaf).Scan(&id, &body); err != nil {
		t.Fatal(err)
	}
	rewrite := func(body []byte) {
		exec(`ALTER TABLE events DISABLE TRIGGER USER`)
		exec(`UPDATE events SET body = $2 WHERE event_id = $1`, id, body)
		exec(`ALTER TABLE events ENABLE TRIGGER USER`)
	}
	changed := bytes.Replace(body, []byte("search_docs"), []byte("search_dogs"), 1)
	if bytes.Equal(changed, body) {
		t.Fatalf("the event %s is not of this test: %s", id, body)
	}
	rewrite(changed)
	var wrong misfits
	if err := d.follower(t).follow(); !errors.As(err, &wrong) || !slices.Equal(wrong, misfits{leaf}) {
		t.Errorf("with the entry %d changed: %v", leaf, err)
	}
	d.admin(t).do("GET", "/v1/audit/events/"+id+"/proof", nil).want(t, 409, "event_changed")
	rewrite(body)
	if err := d.follower(t).follow(); err != nil {
		t.Errorf("with the event as it was: %v", err)
	}
	d.admin(t).do("GET", "/v1/audit/events/"+id+"/proof", nil).want(t, 200)
}

// maliceIsCaught: whatever a server between the log and its verifier does, the
// verifier does not take it for the log.
func maliceIsCaught(t *testing.T, d *dev, log *logClient) {
	signer, err := note.NewSigner(strings.TrimSpace(fileText(filepath.Join(d.dir, "log-key"))))
	if err != nil {
		t.Fatal(err)
	}
	older, err := log.fetch("checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	d.grow(t, 5)
	eventually(t, settleWithin, "another checkpoint", func() bool {
		now, err := log.fetch("checkpoint")
		return err == nil && !bytes.Equal(now, older)
	})
	if err := log.follow(); err != nil {
		t.Fatal(err)
	}
	// answer makes an answer of the true log's; a path that it says nothing of is
	// answered truly.
	through := func(t *testing.T, answer func(path string, honest []byte) []byte) error {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path := strings.TrimPrefix(r.URL.Path, "/")
			honest, err := log.fetch(path)
			data := answer(path, honest)
			if data == nil && err != nil {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write(data)
		}))
		defer server.Close()
		return (&logClient{prefix: server.URL + "/", verifier: log.verifier, known: log.known}).follow()
	}
	if err := through(t, func(_ string, honest []byte) []byte { return honest }); err != nil {
		t.Fatalf("an honest one: %v", err)
	}
	for _, kind := range []string{"checkpoint", "tile/0/000", "tile/0/002.p/", "tile/1/000.p/", "tile/entries/001", "tile/entries/002.p/"} {
		for _, at := range []float64{0, 0.3, 0.5, 0.999} {
			asked := false
			err := through(t, func(path string, honest []byte) []byte {
				if strings.HasPrefix(path, kind) {
					asked = true
					honest[int(at*float64(len(honest)))] ^= 1
				}
				return honest
			})
			if err == nil || !asked {
				t.Errorf("a bit of %s at %v is flipped: %v, asked for: %v", kind, at, err, asked)
			}
		}
		for what, edit := range map[string]func([]byte) []byte{
			"cut": func(b []byte) []byte { return b[:len(b)-1] }, "longer": func(b []byte) []byte { return append(b, b[len(b)-1]) }, "empty": func([]byte) []byte { return []byte{} },
		} {
			if err := through(t, func(path string, honest []byte) []byte {
				if strings.HasPrefix(path, kind) {
					return edit(honest)
				}
				return honest
			}); err == nil {
				t.Errorf("%s is %s, and nobody minds", kind, what)
			}
		}
	}
	first, err := log.fetch("tile/entries/000")
	if err != nil {
		t.Fatal(err)
	}
	serving := func(f *forged) func(string, []byte) []byte {
		return func(path string, _ []byte) []byte {
			data, err := f.serve(path)
			if err != nil {
				t.Error(path, err)
			}
			return data
		}
	}
	// The log's own key signs another history.
	rewritten := func(entries [][]byte) [][]byte {
		entries = slices.Clone(entries)
		entries[17] = bytes.Replace(entries[17], []byte("sha256:"), []byte("sha256:0"), 1)
		return entries
	}
	fork := func(entries [][]byte) *forged {
		f, err := forge(signer, entries)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	same, longer := fork(rewritten(log.entries)), fork(append(rewritten(log.entries), []byte("one more")))
	for name, answer := range map[string]func(path string, honest []byte) []byte{
		"an older checkpoint": func(path string, honest []byte) []byte {
			if path == "checkpoint" {
				return older
			}
			return honest
		},
		"entries of another bundle": func(path string, honest []byte) []byte {
			if path == "tile/entries/001" {
				return first
			}
			return honest
		},
		"a fork of the same size": serving(same),
		"a fork that is longer":   serving(longer),
		"a cut log, signed anew":  serving(fork(log.entries[:len(log.entries)-1])),
		"a fork's checkpoint alone": func(path string, honest []byte) []byte {
			if path == "checkpoint" {
				return serving(longer)(path, nil)
			}
			return honest
		},
	} {
		if err := through(t, answer); err == nil {
			t.Errorf("%s is taken for the log", name)
		}
	}
	// The forger is good: who knows nothing of the true log believes it, and who
	// knows it takes its true continuation.
	for name, f := range map[string]*forged{"longer": longer, "true": fork(append(slices.Clone(log.entries), []byte("one more")))} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(serving(f)(strings.TrimPrefix(r.URL.Path, "/"), nil))
		}))
		c := &logClient{prefix: server.URL + "/", verifier: log.verifier}
		if name == "true" {
			c.known = log.known
		}
		if err := c.follow(); err != nil {
			t.Errorf("the %s one does not stand by itself: %v", name, err)
		}
		server.Close()
	}
}
