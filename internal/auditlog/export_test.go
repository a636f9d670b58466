package auditlog_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

// logged is a database with a log in it, which a sequencer has made.
type logged struct {
	testing.TB
	*store.Store
	owner     *pgx.Conn
	key       audit.Key
	verifiers []note.Verifier
	exporter  *auditlog.Exporter
	size      int64
	records   []audit.Record
}

func newLogged(t testing.TB) *logged {
	t.Helper()
	db := storetest.New(t)
	l := &logged{TB: t, Store: db.Runtime(), owner: db.Connect(db.URL)}
	private, public, err := audit.NewKey(rand.Reader, "log.example.com/export")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := audit.ParseKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	l.key = keys[0]
	if l.verifiers, err = audit.ParseVerifiers(public); err != nil {
		t.Fatal(err)
	}
	l.exporter = &auditlog.Exporter{Store: l.Store, Keys: []string{public}, Encodings: map[string]auditlog.Encoding{
		"lines": {Header: []byte("id\n"), Event: func(e engine.Event) ([]byte, error) {
			return fmt.Appendf(nil, "%d %s %s\n", e.Seq, e.ID, e.Reasons), nil
		}},
	}}
	return l
}

func (l *logged) exec(sql string, args ...any) int64 {
	l.Helper()
	tag, err := l.owner.Exec(context.Background(), sql, args...)
	if err != nil {
		l.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

// add appends events that differ in everything that can be searched for.
func (l *logged) add(n int) {
	l.Helper()
	kinds := []engine.EventType{engine.Decided, engine.ToolContract, engine.Granted, engine.SignIn}
	outcomes := []engine.Outcome{engine.Allow, engine.Deny, engine.RequireApproval}
	for i := range n {
		e := engine.Event{
			ID: uuid.NewString(), Type: kinds[i%4], Outcome: outcomes[i%3], AgentID: fmt.Sprint("bot", i%2), ToolName: fmt.Sprint("tool", i%5),
			RequestID: fmt.Sprint("req", i), Reasons: []engine.Reason{{Code: "X", Message: "A message — of " + strings.Repeat("some ", i%40) + "length."}},
			SafePayload: json.RawMessage(`{"n":1,"list":["a","b"]}`), Actor: engine.Actor{Kind: engine.HumanActor, ID: fmt.Sprint("usr_", i%6), Channel: "api"},
		}
		if i%7 == 0 {
			e.ApprovalID = fmt.Sprint("apr_", i%3)
		}
		if _, err := l.Submit(context.Background(), store.Submission{Event: e}); err != nil {
			l.Fatal(err)
		}
	}
}

// sequence gives all events that are there their places.
func (l *logged) sequence() {
	l.Helper()
	l.place(20 * time.Second)
	var err error
	if l.records, err = l.Events.Records(context.Background(), store.EventFilter{Limit: 100_000}); err != nil {
		l.Fatal(err)
	}
}

func (l *logged) place(within time.Duration) {
	l.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	q := &auditlog.Sequencer{Store: l.Store, Keys: []audit.Key{l.key}, Logger: slog.New(slog.DiscardHandler), Every: 5 * time.Millisecond}
	done := make(chan struct{})
	go func() {
		defer close(done)
		q.Run(ctx)
	}()
	placed, err := l.Store.Log.CatchUp(context.Background(), within)
	cancel()
	<-done
	if err != nil || !placed {
		l.Fatalf("the log stands still: %v", err)
	}
	head, err := l.Store.Log.Head(context.Background())
	if err != nil {
		l.Fatal(err)
	}
	l.size = head.Size
}

// export exports at the size that the log had; nothing waits for a sequencer.
func (l *logged) export(r auditlog.ExportRequest) ([]byte, auditlog.ExportSummary, error) {
	r.Format = cmp.Or(r.Format, auditlog.JSONL)
	r.Size = cmp.Or(r.Size, l.size)
	var out bytes.Buffer
	s, err := l.exporter.Write(context.Background(), &out, r)
	return out.Bytes(), s, err
}

func (l *logged) verify(text []byte) audit.Report {
	v := &audit.Verifier{Verifiers: l.verifiers}
	for line := range bytes.Lines(text) {
		v.Line(bytes.TrimSuffix(line, []byte("\n")))
	}
	return v.Done()
}

// seqs are the places of the events in an export.
func seqs(t testing.TB, text []byte) (list []int64) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var e struct{ Seq int64 }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Seq > 0 {
			list = append(list, e.Seq)
		}
	}
	return list
}

// TestFilters: an export has exactly what fits, and proves it.
func TestFilters(t *testing.T) {
	l := newLogged(t)
	l.add(640)
	l.sequence()
	middle, late := l.records[200].At, l.records[500].At
	none := store.EventFilter{}
	for name, f := range map[string]store.EventFilter{
		"everything": none, "an agent": {AgentID: "bot1"}, "a tool": {Tool: "tool3"}, "an outcome": {Outcome: "DENY"}, "a type": {Type: "grant"},
		"an actor": {ActorID: "usr_4"}, "an approval": {ApprovalID: "apr_2"}, "from on": {Since: middle}, "until": {Until: middle},
		"a time": {Since: middle, Until: late}, "agent and tool": {AgentID: "bot0", Tool: "tool1"},
		"all of it": {AgentID: "bot0", Tool: "tool2", Outcome: "ALLOW", Type: "decision", ActorID: "usr_0", Since: middle}, "nobody": {ActorID: "usr_99"},
		"approval and type": {ApprovalID: "apr_0", Type: "contract"}, "what is no text": {Tool: "tool1'; DROP TABLE events; --"},
	} {
		var want []int64
		for _, r := range l.records {
			if fits(f, r) {
				want = append(want, r.Seq())
			}
		}
		text, s, err := l.export(auditlog.ExportRequest{Filter: f})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := seqs(t, text); !slices.Equal(got, want) || s.Events != int64(len(want)) || s.Mismatches != 0 {
			t.Errorf("%s: %d events, want %d; %+v", name, len(got), len(want), s)
		}
		r := l.verify(text)
		if len(r.Problems) > 0 || r.Header.Whole != (f == none) || r.Events != int64(len(want)) || r.Checkpoint.Size != l.size {
			t.Errorf("%s: %v, %+v", name, r.Problems, r.Header)
		}
		if len(want) > 0 != (strings.Contains("no time, nobody, what is no text", name) == false) {
			t.Errorf("%s: %d events", name, len(want))
		}
		// Other formats have the same events.
		text, _, err = l.export(auditlog.ExportRequest{Filter: f, Format: "lines"})
		if err != nil || bytes.Count(text, []byte("\n")) != len(want)+1 || !bytes.HasPrefix(text, []byte("id\n")) {
			t.Errorf("%s: in lines: %v, %d lines", name, err, bytes.Count(text, []byte("\n")))
		}
	}
	if _, _, err := l.export(auditlog.ExportRequest{Format: "pdf"}); !errors.Is(err, auditlog.ErrFormat) {
		t.Errorf("another format: %v", err)
	}
	if _, _, err := l.export(auditlog.ExportRequest{Size: 17}); !errors.Is(err, auditlog.ErrNoCheckpoint) {
		t.Errorf("a size without a checkpoint: %v", err)
	}
}

func fits(f store.EventFilter, r audit.Record) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(f.AgentID, r.AgentID) && is(f.Tool, r.ToolName) && is(f.Outcome, r.Outcome) && is(f.Type, r.Type) && is(f.ActorID, r.Actor()) &&
		is(f.ApprovalID, r.ApprovalID) && (f.Since.IsZero() || !r.At.Before(f.Since)) && (f.Until.IsZero() || r.At.Before(f.Until))
}

// TestExportIsOnRecord: that somebody exports is in the log, and so is how it ended.
func TestExportIsOnRecord(t *testing.T) {
	l := newLogged(t)
	l.add(3)
	l.sequence()
	by := engine.Actor{Kind: engine.HumanActor, ID: "usr_x", Channel: "api"}
	text, s, err := l.export(auditlog.ExportRequest{Filter: store.EventFilter{AgentID: "bot1"}, Actor: by, RequestID: "req_7"})
	if err != nil {
		t.Fatal(err)
	}
	l.sequence()
	last := l.records[len(l.records)-2:]
	for i, code := range []string{"EXPORT_BEGUN", "EXPORTED"} {
		var e engine.Event
		if err := json.Unmarshal(last[i].Body, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != engine.Exported || e.Actor != by || e.RequestID != "req_7" || e.Reasons[0].Code != code || !strings.Contains(string(e.SafePayload), `"agent_id":"bot1"`) {
			t.Errorf("got %s", last[i].Body)
		}
		if i == 1 && !strings.Contains(string(e.SafePayload), s.Digest) {
			t.Errorf("no digest %s in %s", s.Digest, e.SafePayload)
		}
	}
	if s.Digest != audit.Digest(text) {
		t.Errorf("the digest of what was written is %s, and not %s", audit.Digest(text), s.Digest)
	}
	// What somebody looks for and no event has is not put into the log for good.
	for _, f := range []store.EventFilter{{AgentID: "ada@example.com"}, {Tool: "hunter2"}, {ApprovalID: "ada@example.com"}, {ActorID: "hunter2"}} {
		if text, _, err := l.export(auditlog.ExportRequest{Filter: f}); err != nil || !strings.Contains(string(text), "ada@") && !strings.Contains(string(text), "hunter2") {
			t.Errorf("%v, the file says %s", err, text)
		}
	}
	l.sequence()
	for _, r := range l.records[len(l.records)-8:] {
		if body := string(r.Body); strings.Contains(body, "ada@") || strings.Contains(body, "hunter2") || !strings.Contains(body, "(in no event)") {
			t.Errorf("the log has %s", body)
		}
	}
	// Nothing is exported when it cannot be put on record.
	l.Close()
	if text, _, err := l.export(auditlog.ExportRequest{}); err == nil || len(text) > 0 {
		t.Errorf("without a log: %d bytes, %v", len(text), err)
	}
}

// errCut is a connection that is cut.
var errCut = errors.New("cut")

// TestResume: an export that is cut off after any page has no end, and what goes on
// from there is the same as one that was not.
func TestResume(t *testing.T) {
	l := newLogged(t)
	l.add(700)
	l.sequence()
	for name, f := range map[string]store.EventFilter{"whole": {}, "part": {AgentID: "bot1"}} {
		want, _, err := l.export(auditlog.ExportRequest{Filter: f})
		if err != nil {
			t.Fatal(err)
		}
		cuts := 0
		for page := 1; ; page++ {
			var out bytes.Buffer
			flushed := 0
			_, err := l.exporter.Write(context.Background(), &out, auditlog.ExportRequest{Format: auditlog.JSONL, Filter: f, Size: l.size, Flush: func() error {
				if flushed++; flushed == page {
					return errCut
				}
				return nil
			}})
			if err == nil {
				break
			}
			cuts++
			if !errors.Is(err, errCut) || bytes.Contains(out.Bytes(), []byte(`"holdpoint":"end"`)) {
				t.Fatalf("%s, cut at page %d: %v", name, page, err)
			}
			if r := l.verify(out.Bytes()); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, "was cut off") {
				t.Errorf("%s, cut at page %d: %v", name, page, r.Problems)
			}
			have := seqs(t, out.Bytes())
			rest, s, err := l.export(auditlog.ExportRequest{Filter: after(f, have[len(have)-1]), Size: l.size, Before: int64(len(have))})
			if err != nil {
				t.Fatal(err)
			}
			if got := append(out.Bytes(), rest...); !bytes.Equal(got, want) || s.Events+int64(len(have)) != int64(len(seqs(t, want))) {
				t.Fatalf("%s, cut at page %d: what goes on is something else", name, page)
			}
		}
		if cuts < 3 {
			t.Errorf("%s: only %d pages", name, cuts)
		}
		// A writer that takes no more.
		if _, err := l.exporter.Write(context.Background(), &full{left: 5000}, auditlog.ExportRequest{Format: auditlog.JSONL, Filter: f, Size: l.size}); !errors.Is(err, errCut) {
			t.Errorf("%s: a full disk: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out bytes.Buffer
	_, err := l.exporter.Write(ctx, &out, auditlog.ExportRequest{Format: auditlog.JSONL, Size: l.size, Progress: func(int64, int64) { cancel() }})
	if err == nil || bytes.Contains(out.Bytes(), []byte(`"holdpoint":"end"`)) {
		t.Errorf("when nobody waits any more: %v", err)
	}
}

func after(f store.EventFilter, seq int64) store.EventFilter {
	f.After = seq
	return f
}

type full struct{ left int }

func (w *full) Write(data []byte) (int, error) {
	if w.left -= len(data); w.left < 0 {
		return 0, errCut
	}
	return len(data), nil
}

// TestTampered: a superuser, whom no trigger stops, changes every column of every
// table of the log. What it comes to is the table of docs/audit-verify.md.
func TestTampered(t *testing.T) {
	l := newLogged(t)
	l.add(100)
	l.sequence()
	l.add(200)
	l.sequence()
	tables := []string{"events", "log_entries", "log_spans", "log_tiles", "log_checkpoints", "log_head"}
	for _, table := range tables {
		l.exec(`CREATE TABLE kept_` + table + ` AS SELECT * FROM ` + table)
	}
	l.exec(`SET session_replication_role = replica`)
	restore := func() {
		for _, table := range tables {
			l.exec(`DELETE FROM ` + table)
			l.exec(`INSERT INTO ` + table + ` OVERRIDING SYSTEM VALUE SELECT * FROM kept_` + table)
		}
	}
	const at7 = ` WHERE leaf = 6`
	const event7 = ` WHERE seq = (SELECT seq FROM log_entries WHERE leaf = 6)`
	const removed = "event 7: the log has an event in this place, and the database has none any more"
	const changed = "event 7 (.*): it is not the event that the log has in this place"
	for _, c := range []struct {
		what, sql string
		whole     string // the first problem of a whole export; "" for none
		part      string // that of a part with event 7
		misfiled  bool
	}{
		{"events.event_id", `UPDATE events SET event_id = gen_random_uuid()` + event7, changed, changed, false},
		{"events.appended_at", `UPDATE events SET appended_at = appended_at + interval '1 second'` + event7, changed, changed, true},
		{"events.type", `UPDATE events SET type = 'sign_in'` + event7, changed, changed, true},
		{"events.outcome", `UPDATE events SET outcome = 'DENY'` + event7, changed, changed, true},
		{"events.agent_id", `UPDATE events SET agent_id = 'bot1'` + event7, changed, changed, true},
		{"events.tool_name", `UPDATE events SET tool_name = 'other'` + event7, changed, changed, true},
		{"events.approval_id", `UPDATE events SET approval_id = 'apr_9'` + event7, changed, changed, true},
		{"events.body", `UPDATE events SET body = replace(convert_from(body, 'UTF8'), 'length', 'width')::bytea` + event7, changed, changed, false},
		{"events.body, to nothing", `UPDATE events SET body = ''` + event7, changed, changed, true},
		{"events, of all columns", `UPDATE events SET outcome = 'DENY', body = replace(convert_from(body, 'UTF8'), '"outcome":"ALLOW"', '"outcome":"DENY"')::bytea` + event7, changed, changed, true},
		{"events.seq", `UPDATE events SET seq = DEFAULT` + event7, removed, removed, false},
		{"events, the row", `DELETE FROM events` + event7, removed, removed, false},
		{"events, a row more", `INSERT INTO events (seq, event_id, type, outcome, agent_id, tool_name, body) OVERRIDING SYSTEM VALUE
			SELECT -7, gen_random_uuid(), type, outcome, agent_id, tool_name, body FROM events` + event7, "", "", false}, // it is in no export, and counted
		{"events.xact", `UPDATE events SET xact = '1'::xid8` + event7, "", "", false}, // no part of the event
		{"log_entries.leaf", `UPDATE log_entries SET leaf = 1000000` + at7, "event 8 (.*): event 7 is missing before it", "", false},
		{"log_entries.leaf, two", `UPDATE log_entries SET leaf = CASE leaf WHEN 6 THEN -1 ELSE 6 END WHERE leaf IN (6, 8); UPDATE log_entries SET leaf = 8 WHERE leaf = -1`, changed, changed, false},
		{"log_entries.seq", `UPDATE log_entries SET seq = -5` + at7, removed, removed, false},
		{"log_entries.at", `UPDATE log_entries SET at = at + interval '1 hour'` + at7, "", "", true},
		{"log_entries.type", `UPDATE log_entries SET type = 'sign_in'` + at7, "", "", true},
		{"log_entries.outcome", `UPDATE log_entries SET outcome = 'DENY'` + at7, "", "", true},
		{"log_entries.agent_id", `UPDATE log_entries SET agent_id = 'bot1'` + at7, "", "", true},
		{"log_entries.tool_name", `UPDATE log_entries SET tool_name = 'other'` + at7, "", "", true},
		{"log_entries.actor_id", `UPDATE log_entries SET actor_id = 'usr_9'` + at7, "", "", true},
		{"log_entries.approval_id", `UPDATE log_entries SET approval_id = 'apr_9'` + at7, "", "", true},
		{"log_entries, the row", `DELETE FROM log_entries` + at7, "event 8 (.*): event 7 is missing before it", "", false},
		{"log_entries, the last row", `DELETE FROM log_entries WHERE leaf = 299`, "the export says that it has 300 events, and it has 299", "", false},
		{"log_spans.latest", `UPDATE log_spans SET latest = earliest`, "", "", false}, // a part has fewer events, and says nothing of others
		{"log_tiles.hashes", `UPDATE log_tiles SET hashes = set_byte(hashes, 6 * 32, 255 - get_byte(hashes, 6 * 32)) WHERE level = 0 AND n = 0`, changed, "event 3 (.*): its proof does not show", false},
		{"log_tiles.hashes, of level 1", `UPDATE log_tiles SET hashes = set_byte(hashes, 6, 255 - get_byte(hashes, 6)) WHERE level = 1`, "", "event 257 (.*): its proof does not show", false},
		{"log_tiles.hashes, shorter", `UPDATE log_tiles SET hashes = substring(hashes FOR 64) WHERE level = 0 AND n = 0`, "event 1 (.*): it is not the event that the log has", "event 3 (.*): it is not the event that the log has", false},
		{"log_tiles.level", `UPDATE log_tiles SET level = 5 WHERE level = 0 AND n = 0`, "event 1 (.*): it is not the event that the log has", "event 3 (.*): it is not the event that the log has", false},
		{"log_tiles.n", `UPDATE log_tiles SET n = 5 WHERE level = 0 AND n = 0`, "event 1 (.*): it is not the event that the log has", "event 3 (.*): it is not the event that the log has", false},
		{"log_tiles, the row", `DELETE FROM log_tiles WHERE level = 0 AND n = 0`, "event 1 (.*): it is not the event that the log has", "event 3 (.*): it is not the event that the log has", false},
		{"log_checkpoints.size", `UPDATE log_checkpoints SET size = 1000 WHERE size = 300`, "refused", "refused", false},
		{"log_checkpoints.root", `UPDATE log_checkpoints SET root = sha256('x') WHERE size = 300`, "", "event 3 (.*): its proof does not show", false},
		{"log_checkpoints.note", `UPDATE log_checkpoints SET note = set_byte(note, 30, 33) WHERE size = 300`, "line 1: the checkpoint is not to be believed", "line 1: the checkpoint is not to be believed", false},
		{"log_checkpoints.note, another's", `UPDATE log_checkpoints SET note = (SELECT note FROM log_checkpoints ORDER BY size LIMIT 1) WHERE size = 300`, "the checkpoint has", "its proof does not show", false},
		{"log_checkpoints, the row", `DELETE FROM log_checkpoints WHERE size = 300`, "refused", "refused", false},
		{"log_checkpoints.at", `UPDATE log_checkpoints SET at = now() - interval '1 year'`, "", "", false}, // nobody believes it
		{"log_head.size", `UPDATE log_head SET size = 5`, "", "", false},                                   // the sequencer finds it
		{"log_head.root", `UPDATE log_head SET root = sha256('x')`, "", "", false},
		{"log_head.moved_at", `UPDATE log_head SET moved_at = now()`, "", "", false},
	} {
		t.Run(c.what, func(t *testing.T) {
			defer restore()
			if l.exec(c.sql) == 0 && !strings.Contains(c.sql, ";") {
				t.Fatal("nothing was changed")
			}
			text, s, err := l.export(auditlog.ExportRequest{})
			found(t, "the whole log", l.verify(text), err, c.whole)
			astray := map[string]int64{"events, a row more": 1, "log_entries.seq": 1, "log_entries, the row": 1, "log_entries, the last row": 1}
			if err == nil && s.Unplaced != astray[c.what] {
				t.Errorf("%d events have no place, want %d", s.Unplaced, astray[c.what])
			}
			if err == nil && (s.Mismatches > 0) != c.misfiled {
				t.Errorf("%d events are filed wrongly: %s", s.Mismatches, s.First)
			}
			text, _, err = l.export(auditlog.ExportRequest{Filter: store.EventFilter{Since: l.records[2].At, Until: l.records[290].At}})
			if c.what == "events.appended_at" || c.what == "log_entries.at" {
				return // event 7 is not among them any more, or among them by another time
			}
			found(t, "a part", l.verify(text), err, c.part)
		})
	}
}

// found compares what was found with what should be.
func found(t *testing.T, where string, r audit.Report, err error, want string) {
	t.Helper()
	if want == "refused" {
		if err == nil {
			t.Errorf("%s: the export is not refused", where)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	got := ""
	if len(r.Problems) > 0 {
		got = r.Problems[0].Error()
	}
	begins, ends, _ := strings.Cut(want, "(.*)")
	if want == "" && got != "" || !strings.Contains(got, begins) || !strings.Contains(got, ends) {
		t.Errorf("%s: found %q, want %q", where, got, want)
	}
}

// TestUnreadable: what a program other than ours has appended is exported as it is,
// and named.
func TestUnreadable(t *testing.T) {
	l := newLogged(t)
	l.add(2)
	for i, body := range []string{`{}`, `nonsense`, ``, `[]`, "\xff\xfe", `{"leaf":"x"}`} {
		id := uuid.NewString()
		if body == `{"leaf":"x"}` {
			body = fmt.Sprintf(`{"event_id":%q,"type":"decision","outcome":"ALLOW","agent_id":"bot1","tool_name":"t","Leaf":"x","actor":5}`, id)
		}
		l.exec(`SELECT append_events(ARRAY[$1::uuid], ARRAY['decision'], ARRAY['ALLOW'], ARRAY['bot1'], ARRAY['t'], ARRAY[$3], ARRAY[$2::bytea])`, id, []byte(body), map[bool]string{true: "apr_1"}[i == 0])
	}
	id := uuid.NewString()
	odd := fmt.Sprintf(`{"event_id":%q,"type":"decision","outcome":"ALLOW","agent_id":"bot1","tool_name":"t","actor":5,"reasons":"none"}`, id)
	l.exec(`SELECT append_events(ARRAY[$1::uuid], ARRAY['decision'], ARRAY['ALLOW'], ARRAY['bot1'], ARRAY['t'], ARRAY[''], ARRAY[$2::bytea])`, id, []byte(odd))
	l.sequence()
	for name, f := range map[string]store.EventFilter{"whole": {}, "part": {AgentID: "bot1"}} {
		text, _, err := l.export(auditlog.ExportRequest{Filter: f})
		if err != nil {
			t.Fatal(err)
		}
		r := l.verify(text)
		if len(r.Problems) != 6 || !strings.Contains(r.Problems[0].Error(), "event 3 (") {
			t.Errorf("%s: %v", name, r.Problems)
		}
		for _, p := range r.Problems {
			if !strings.Contains(p.What, "the record is not one event") {
				t.Errorf("%s: %s", name, p.Error())
			}
		}
	}
	text, _, err := l.export(auditlog.ExportRequest{Format: "lines"})
	if err != nil || bytes.Count(text, []byte("\n")) != 10 || bytes.Count(text, []byte("UNREADABLE")) != 7 {
		t.Errorf("in lines: %v\n%s", err, text)
	}
}

// TestFilterThatNothingFits: nothing is exported, and nothing is said to have been.
func TestFilterThatNothingFits(t *testing.T) {
	l := newLogged(t)
	l.add(1)
	l.sequence()
	for _, f := range []store.EventFilter{{AgentID: "a\x00"}, {Tool: "\xff"}, {Outcome: "\x00"}, {Type: "\xc3("}, {ActorID: "\x00"}, {ApprovalID: "\xff"}, {Outcome: "deny"}, {Type: "votes"}, {Since: time.Unix(2, 0), Until: time.Unix(2, 0)}} {
		text, _, err := l.export(auditlog.ExportRequest{Filter: f})
		if !errors.Is(err, store.ErrFilter) || len(text) > 0 {
			t.Errorf("%+v: %v, after %q", f, err, text)
		}
	}
	l.sequence()
	if n := len(l.records); n != 1 {
		t.Errorf("there are %d events", n)
	}
}
