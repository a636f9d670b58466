package stream

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// harness is a database whose log a sequencer keeps.
type harness struct {
	t     testing.TB
	url   string // of the runtime
	key   string // the data key
	owner *pgx.Conn
	store *store.Store
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	ctx := t.Context()
	url := pgtest.Migrated(t, store.Migrate)
	owner, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Close(context.Background()) })
	if _, err := owner.Exec(ctx, `DO $$ BEGIN CREATE ROLE stream_app LOGIN PASSWORD '`+pgtest.Verifier("app")+`' IN ROLE holdpoint_runtime;
		EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`); err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, seal.KeySize)
	rand.Read(raw)
	h := &harness{t: t, url: pgtest.Server(t).URL("stream_app", "app", owner.Config().Database), key: base64.StdEncoding.EncodeToString(raw), owner: owner}
	h.store = h.open()
	private, _, err := audit.NewKey(rand.Reader, "test")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := audit.ParseKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	sequencer := &auditlog.Sequencer{Store: h.store, Keys: keys, Logger: slog.New(slog.DiscardHandler), Every: 20 * time.Millisecond}
	h.background(sequencer.Run)
	return h
}

// open opens the store once more, as another process does.
func (h *harness) open() *store.Store {
	h.t.Helper()
	key, err := seal.ParseKey(h.key)
	if err != nil {
		h.t.Fatal(err)
	}
	sealer, err := seal.New(key)
	if err != nil {
		h.t.Fatal(err)
	}
	s, err := store.Open(h.t.Context(), store.Config{URL: h.url, Sealer: sealer, MaxConns: 4, Timeout: time.Minute})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(s.Close)
	return s
}

// background runs until the test, or what it returns, ends it.
func (h *harness) background(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); run(ctx) }()
	stop = func() { cancel(); <-done }
	h.t.Cleanup(stop)
	return stop
}

// events appends n of them.
func (h *harness) events(n int, kind engine.EventType, outcome engine.Outcome, payload string) {
	h.t.Helper()
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			e := engine.Event{
				ID: uuid.NewString(), Type: kind, Outcome: outcome, AgentID: "bot", ToolName: `t"]\`, Reasons: []engine.Reason{}, SafePayload: json.RawMessage(payload),
			}
			if _, err := h.store.Submit(context.Background(), store.Submission{Event: e}); err != nil {
				h.t.Error(err)
			}
		})
	}
	group.Wait()
}

// until waits until something holds that the database knows.
func (h *harness) until(what string, holds func() bool) {
	h.t.Helper()
	deadline := time.After(3 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			h.t.Fatalf("waited in vain: %s; positions %+v", what, h.positions())
		case <-tick.C:
		}
	}
}

func (h *harness) positions() []store.StreamPosition {
	h.t.Helper()
	list, err := h.store.Streams.Positions(context.Background())
	if err != nil {
		h.t.Error(err)
	}
	return list
}

// position is how far the stream is; the zero one when it has not begun.
func (h *harness) position(name string) store.StreamPosition {
	for _, p := range h.positions() {
		if p.Name == name {
			return p
		}
	}
	return store.StreamPosition{}
}

// sequenced waits until so many events have their places.
func (h *harness) sequenced(n int64) {
	h.t.Helper()
	h.until(fmt.Sprintf("%d events in the log", n), func() bool {
		head, err := h.store.Log.Head(context.Background())
		return err == nil && head.Size == n
	})
}

// taken waits until the receiver has taken so many places of the log.
func (h *harness) taken(name string, n int64) {
	h.t.Helper()
	h.until(fmt.Sprintf("%d events taken", n), func() bool { return h.position(name).Leaf == n })
}

// stream makes one to a receiver, which settles soon.
func (h *harness) stream(s *store.Store, c Config) *Stream {
	h.t.Helper()
	r, err := c.Receiver(loopback, "h")
	if err != nil {
		h.t.Fatal(err)
	}
	c.Every = engine.Duration(time.Millisecond)
	return &Stream{Config: c, Store: s, Receiver: r, Logger: slog.New(slog.DiscardHandler), Pause: time.Millisecond}
}

func syslogTo(c *collector, a *authority) Config {
	return Config{Name: "siem", Kind: SyslogKind, Address: c.addr, CA: a.pem, From: FromBeginning, Batch: testBatch}
}

// Whatever becomes of connections and of the receiver, every event arrives, in
// order but for windows that are sent again.
func TestEveryEventArrives(t *testing.T) {
	t.Parallel()
	h, a := newHarness(t), newAuthority(t)
	const n = 600
	c := newCollector(t, a, 50)
	h.background(h.stream(h.store, syslogTo(c, a)).Run)
	for range n / 100 { // while it streams
		h.events(100, engine.Decided, engine.Allow, `{"text":"`+strings.Repeat("é", 50)+`"}`)
	}
	h.sequenced(n)
	h.taken("siem", n)
	c.inOrder(testBatch)
	got := c.union()
	for seq := int64(1); seq <= n; seq++ {
		if !got[seq] {
			t.Errorf("event %d was taken and never arrived", seq)
		}
	}
	t.Logf("%d messages for %d events; ends: %v", c.count(), n, c.kinds)
	records, err := h.store.Log.Leaves(t.Context(), 0, n)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		p := c.parsed[r.Seq()]
		if string(p.msg) != string(r.Document()) || p.data["holdpoint@32473"]["event_id"] != r.ID || p.data["holdpoint@32473"]["digest"] != audit.Digest(r.Document()) ||
			!p.at.Equal(r.At.Truncate(time.Microsecond)) {
			t.Errorf("event %d: %s, want %s", r.Seq(), p.msg, r.Document())
		}
	}
}

// streamLocks are those of whoever leads a stream: the sequencer's are other ones.
const streamLocks = `pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
	AND (classid::bigint << 32) + objid::bigint NOT IN (4703514210561396083, 4703514210561396082) AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// A worker that is killed, in whatever it does, is followed by one that goes on
// from what was taken.
func TestKillAndResume(t *testing.T) {
	t.Parallel()
	h, a := newHarness(t), newAuthority(t)
	const n, kills = 600, 6
	h.events(n, engine.Decided, engine.Allow, `{}`)
	h.sequenced(n)
	c := newCollector(t, a, 0)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, a.pem, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), childVariable+"="+strings.Join([]string{h.url, h.key, c.addr, file}, " ")), os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	for i := range kills {
		at := h.position("siem").Leaf
		c.mu.Lock()
		before := len(c.heard)
		c.mu.Unlock()
		cmd := run()
		// After some messages of this process: in the middle of a window, mostly.
		want := c.count() + 1 + i*17
		for c.count() < want {
			select {
			case <-c.arrived:
			case <-time.After(time.Minute):
				t.Fatal("nothing arrives")
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		// What it sent before its end, to the receiver and to Postgres, may have yet to be seen to.
		h.until("a process that was killed is gone", func() bool {
			var leads bool
			if err := h.owner.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM `+streamLocks+`)`).Scan(&leads); err != nil {
				t.Fatal(err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			return !leads && len(c.conns) == 0
		})
		c.mu.Lock()
		var first []int64
		if said := slices.IndexFunc(c.heard[before:], func(seqs []int64) bool { return len(seqs) > 0 }); said >= 0 {
			first = c.heard[before+said]
		}
		if len(first) == 0 || first[0] != at+1 {
			t.Errorf("process %d went on at %v, and %d had been taken", i, first, at)
		}
		c.mu.Unlock()
	}
	cmd := run()
	h.taken("siem", n)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c.inOrder(testBatch)
	if got := len(c.union()); got != n {
		t.Errorf("%d of %d events arrived", got, n)
	}
	if again := c.count() - n; again > kills*testBatch {
		t.Errorf("%d came again, for %d kills", again, kills)
	}
}

// Of two workers one streams. When it loses its lead, the other goes on, and no
// more than a window comes twice.
func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	h, a := newHarness(t), newAuthority(t)
	c := newCollector(t, a, 0)
	h.background(h.stream(h.open(), syslogTo(c, a)).Run)
	h.background(h.stream(h.open(), syslogTo(c, a)).Run)
	n := int64(0)
	more := func() {
		h.events(150, engine.Decided, engine.Allow, `{}`)
		n += 150
		h.sequenced(n)
		h.taken("siem", n)
	}
	more()
	more()
	if got := c.count(); int64(got) != n {
		t.Errorf("%d messages for %d events", got, n)
	}
	const losses = 3
	for range losses {
		h.events(150, engine.Decided, engine.Allow, `{}`)
		n += 150
		tag, err := h.owner.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM `+streamLocks)
		if err != nil || tag.RowsAffected() > 1 {
			t.Fatalf("%d leaders, %v", tag.RowsAffected(), err)
		}
		h.sequenced(n)
		h.taken("siem", n)
	}
	if got := len(c.union()); int64(got) != n {
		t.Errorf("%d of %d events arrived", got, n)
	}
	if again := int64(c.count()) - n; again > losses*testBatch {
		t.Errorf("%d came again", again)
	}
	c.inOrder(testBatch)
}

func TestFiltersAndBeginning(t *testing.T) {
	t.Parallel()
	h, a := newHarness(t), newAuthority(t)
	h.events(50, engine.Decided, engine.Allow, `{}`)
	h.events(3, engine.SignIn, engine.Deny, `{}`)
	h.events(4, engine.SignIn, engine.Allow, `{}`)
	h.sequenced(57)
	c := newCollector(t, a, 0)
	narrow := syslogTo(c, a)
	narrow.Types, narrow.Outcomes = []string{"sign_in", "vote"}, []string{"DENY"}
	h.background(h.stream(h.store, narrow).Run)
	h.taken("siem", 57)
	late := newCollector(t, a, 0)
	now := syslogTo(late, a)
	now.Name, now.From = "late", ""
	h.background(h.stream(h.store, now).Run)
	h.until("the second stream has begun", func() bool { return h.position("late").Name != "" })
	if at := h.position("late").Leaf; at != 57 {
		t.Errorf("now is %d", at)
	}
	h.events(2, engine.SignIn, engine.Deny, `{}`)
	h.sequenced(59)
	h.taken("siem", 59)
	h.taken("late", 59)
	for _, got := range []struct {
		c    *collector
		want int
	}{{c, 5}, {late, 2}} {
		if n := got.c.count(); n != got.want || len(got.c.union()) != n {
			t.Errorf("%d messages, want %d", n, got.want)
		}
		for seq, p := range got.c.parsed {
			if p.kind != "sign_in" || !strings.Contains(string(p.msg), `"outcome":"DENY"`) {
				t.Errorf("event %d: %s", seq, p.msg)
			}
		}
	}
	// Set back by the owner, a stream sends again, while it runs.
	if _, err := h.owner.Exec(t.Context(), `UPDATE log_positions SET leaf = 0 WHERE name = 'siem'`); err != nil {
		t.Fatal(err)
	}
	h.taken("siem", 59)
	if n := c.count(); n != 10 {
		t.Errorf("%d messages after all of them again", n)
	}
}

// deaf is a receiver that takes so many more messages and then fails.
type deaf struct {
	mu    sync.Mutex
	takes int
	err   error
	got   []int64
}

func (d *deaf) Send(_ context.Context, messages []Message) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, m := range messages {
		if d.takes == 0 {
			return i, d.err
		}
		d.takes--
		d.got = append(d.got, m.Seq)
	}
	return len(messages), nil
}

// What a receiver has taken of a window is not sent again, and what keeps it is
// there for people to read, until it goes on. A failing stream holds no
// connection.
func TestFailuresAreKept(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.events(10, engine.Decided, engine.Allow, `{}`)
	h.sequenced(10)
	d := &deaf{takes: 4, err: errors.New("no more \x00" + strings.Repeat("é", 400))}
	s := &Stream{Config: Config{Name: "x", Kind: WebhookKind, From: FromBeginning}, Store: h.store, Receiver: d, Logger: slog.New(slog.DiscardHandler), Pause: time.Millisecond}
	h.background(s.Run)
	h.until("four are taken", func() bool { return h.position("x").Leaf == 4 && h.position("x").Error != "" })
	p := h.position("x")
	if !strings.HasPrefix(p.Error, "no more \uFFFDé") || len(p.Error) > 500 || p.FailingAt.IsZero() || p.Behind() != 10-p.Leaf || p.Oldest <= 0 {
		t.Errorf("%+v", p)
	}
	d.mu.Lock()
	d.takes = 100
	d.mu.Unlock()
	h.taken("x", 10)
	if p := h.position("x"); p.Error != "" || p.FailingAt.Unix() > 0 || p.Oldest != 0 {
		t.Errorf("after it went on: %+v", p)
	}
	if want := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(d.got, want) {
		t.Errorf("got %v", d.got)
	}
	// Nobody goes on from behind the end of the log: what comes would never be sent.
	if _, err := h.owner.Exec(t.Context(), `UPDATE log_positions SET leaf = 100`); err != nil {
		t.Fatal(err)
	}
	h.events(1, engine.Decided, engine.Allow, `{}`)
	h.sequenced(11)
	h.until("it says so", func() bool { return strings.Contains(h.position("x").Error, "behind the end of the log") })
	if p := h.position("x"); p.Leaf != 100 || p.Behind() != -89 || len(d.got) != 10 {
		t.Errorf("%+v, %v", p, d.got)
	}
}

// One window holds so many bytes and one event more, and a filter that nothing
// passes goes through the log in steps.
func TestWindowsAreBounded(t *testing.T) {
	h := newHarness(t)
	h.events(12, engine.Decided, engine.Allow, `{"a":"`+strings.Repeat("x", 100_000)+`"}`)
	h.sequenced(12)
	led, err := h.store.Streams.Lead(t.Context(), "w", func(ctx context.Context, l *store.StreamLeader) error {
		for _, test := range []struct {
			from         int64
			wanted       store.StreamWanted
			limit, bytes int
			n            int
			upTo         int64
		}{
			{0, store.StreamWanted{}, 100, 250_000, 3, 3},
			{3, store.StreamWanted{}, 100, 1, 1, 4},
			{3, store.StreamWanted{}, 5, 1 << 30, 5, 8},
			{8, store.StreamWanted{}, 4, 1 << 30, 4, 12},
			{8, store.StreamWanted{}, 100, 1 << 30, 4, 12},
			{12, store.StreamWanted{}, 100, 1 << 30, 0, 12},
			{0, store.StreamWanted{Types: []string{"vote"}}, 100, 1 << 30, 0, 12},
			{0, store.StreamWanted{Outcomes: []string{"ALLOW"}}, 2, 1 << 30, 2, 2},
		} {
			records, upTo, err := l.Next(ctx, test.from, test.wanted, test.limit, test.bytes)
			if err != nil || len(records) != test.n || upTo != test.upTo {
				t.Errorf("%+v: %d records, up to %d, %v", test, len(records), upTo, err)
			}
			for i, r := range records {
				if r.Leaf != test.from+int64(i) || r.ID == "" || len(r.Body) < 100_000 {
					t.Errorf("%+v: record %d is %d %s", test, i, r.Leaf, r.ID)
				}
			}
		}
		// Another one of that name has to wait; one of another name has not.
		for name, want := range map[string]bool{"w": false, "v": true} {
			if led, err := h.store.Streams.Lead(ctx, name, func(context.Context, *store.StreamLeader) error { return nil }); led != want || err != nil {
				t.Errorf("%s: led %t, %v", name, led, err)
			}
		}
		return l.Taken(ctx, 5, 6)
	})
	if !led || !errors.Is(err, store.ErrMoved) {
		t.Errorf("led %t, %v", led, err)
	}
}
