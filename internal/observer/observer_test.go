package observer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine/audit"
)

// served is a log in memory, with every resource that it serves. What is put into
// answers is served instead.
type served struct {
	key       audit.Key
	verifiers []note.Verifier
	tree      audit.Tree
	entries   [][]byte
	points    []audit.Checkpoint // by size
	resources map[string][]byte
	answers   map[string]http.HandlerFunc
	asked     map[string]int
}

func newServed(t *testing.T, origin string, n int) *served {
	t.Helper()
	private, public, err := audit.NewKey(rand.NewChaCha8([32]byte{7}), origin)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := audit.ParseKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	s := &served{key: keys[0], resources: map[string][]byte{}, answers: map[string]http.HandlerFunc{}, asked: map[string]int{}}
	if s.verifiers, err = audit.ParseVerifiers(public); err != nil {
		t.Fatal(err)
	}
	s.points = append(s.points, audit.Checkpoint{Origin: origin, Root: new(audit.Tree).Root()})
	for i := range n {
		at := time.Date(2026, 5, 1, 12, 0, i, 0, time.UTC)
		s.add(audit.NewEntry(int64(i+1), at, audit.Digest(fmt.Appendf(nil, "event %d", i))))
	}
	s.publish(t)
	return s
}

func (s *served) add(entry []byte) {
	s.entries = append(s.entries, entry)
	s.tree.Append(audit.LeafHash(entry), nil)
	s.points = append(s.points, audit.Checkpoint{Origin: s.key.Name(), Size: s.tree.Size(), Root: s.tree.Root()})
}

// publish writes all resources anew, as a log does that is in order.
func (s *served) publish(t *testing.T) {
	t.Helper()
	s.sign(t, s.points[len(s.points)-1])
	for from := 0; from < len(s.entries); from += audit.TileWidth {
		n, to := int64(from/audit.TileWidth), min(from+audit.TileWidth, len(s.entries))
		var tile audit.Tile
		var bundle []byte
		for _, e := range s.entries[from:to] {
			tile.Hashes = append(tile.Hashes, audit.LeafHash(e))
			bundle = append(append(bundle, byte(len(e)>>8), byte(len(e))), e...)
		}
		s.resources[audit.Resource{N: n, Width: to - from}.Path()] = tile.Data()
		s.resources[audit.Resource{Entries: true, N: n, Width: to - from}.Path()] = bundle
	}
}

func (s *served) sign(t *testing.T, c audit.Checkpoint) {
	t.Helper()
	signed, err := audit.Sign(c, s.key)
	if err != nil {
		t.Fatal(err)
	}
	s.resources["checkpoint"] = signed
}

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/log/")
	s.asked[path]++
	if answer := s.answers[path]; answer != nil {
		answer(w, r)
		return
	}
	data, there := s.resources[path]
	if !there {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(data)
}

func (s *served) verify(t *testing.T, former ...audit.Checkpoint) (ObservedLog, error) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	log := &Log{URL: server.URL + "/log", Verifiers: s.verifiers, Former: former, Client: server.Client()}
	return log.Verify(context.Background())
}

func TestLogInOrder(t *testing.T) {
	for _, n := range []int{0, 1, 2, 255, 256, 257, 600} {
		s := newServed(t, "log.example.com", n)
		var former []audit.Checkpoint
		for size := 0; size <= n; size += max(n/3, 1) {
			former = append(former, s.points[size])
		}
		seen, err := s.verify(t, former...)
		if err != nil {
			t.Fatalf("%d entries: %v", n, err)
		}
		if seen.Checkpoint.Size != int64(n) || seen.Checkpoint.Root != s.tree.Root() || !bytes.Equal(seen.Signed, s.resources["checkpoint"]) {
			t.Errorf("%d entries: seen %+v", n, seen.Checkpoint)
		}
	}
}

// TestBrokenLogsAreNamed: a log that is not in order is named, and where it is not.
func TestBrokenLogsAreNamed(t *testing.T) {
	const n = 300
	tile0, tile1 := audit.Resource{N: 0, Width: 256}.Path(), audit.Resource{N: 1, Width: 44}.Path()
	bundle0, bundle1 := audit.Resource{Entries: true, N: 0, Width: 256}.Path(), audit.Resource{Entries: true, N: 1, Width: 44}.Path()
	flip := func(s *served, path string, at int) {
		s.resources[path] = bytes.Clone(s.resources[path])
		s.resources[path][at] ^= 4
	}
	forked := func(t *testing.T) *served {
		s := newServed(t, "log.example.com", 9)
		s.add(audit.NewEntry(10, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), audit.Digest([]byte("another"))))
		for i := 10; i < n; i++ {
			s.add(audit.NewEntry(int64(i+1), time.Date(2026, 5, 1, 12, 0, i, 0, time.UTC), audit.Digest(fmt.Appendf(nil, "event %d", i))))
		}
		s.publish(t)
		return s
	}
	sound := newServed(t, "log.example.com", n)
	for name, lie := range map[string]struct {
		tell   func(t *testing.T, s *served)
		former []audit.Checkpoint
		want   string
	}{
		"a checkpoint that is none":    {func(_ *testing.T, s *served) { s.resources["checkpoint"] = []byte("<html>welcome</html>") }, nil, "the checkpoint is not to be believed"},
		"a checkpoint that is changed": {func(_ *testing.T, s *served) { flip(s, "checkpoint", 20) }, nil, "the checkpoint is not to be believed"},
		"a checkpoint of another log": {func(t *testing.T, s *served) {
			s.resources["checkpoint"] = newServed(t, "other.example.com", n).resources["checkpoint"]
		}, nil, "the checkpoint is not to be believed"},
		"a root of other events": {func(t *testing.T, s *served) { s.resources["checkpoint"] = forked(t).resources["checkpoint"] }, nil, "the log was rewritten"},
		"an entry":               {func(_ *testing.T, s *served) { flip(s, bundle1, 30) }, nil, "event 257: it is not the event that the log has in this place"},
		"a hash":                 {func(_ *testing.T, s *served) { flip(s, tile0, 32*3) }, nil, "event 4: it is not the event that the log has in this place"},
		"an entry and its hash": {func(_ *testing.T, s *served) {
			other := forked(t)
			s.resources[bundle0], s.resources[tile0] = other.resources[bundle0], other.resources[tile0]
		}, nil, "the entries are not those that the checkpoint was signed for"},
		"an entry left out": {func(_ *testing.T, s *served) {
			l := 2 + len(s.entries[0])
			s.resources[bundle0] = s.resources[bundle0][l:]
		}, nil, "event 1: the bundle from this event on has 255 entries and not 256"},
		"an entry too many": {func(_ *testing.T, s *served) {
			s.resources[bundle1] = append(bytes.Clone(s.resources[bundle1]), 0, 1, 'x')
		}, nil, "has 45 entries and not 44"},
		"a bundle cut off": {func(_ *testing.T, s *served) {
			s.resources[bundle1] = s.resources[bundle1][:len(s.resources[bundle1])-1]
		}, nil, "event 257: the bundle"},
		"another bundle":   {func(_ *testing.T, s *served) { s.resources[bundle1] = s.resources[bundle0] }, nil, "has 256 entries and not 44"},
		"an empty bundle":  {func(_ *testing.T, s *served) { s.resources[bundle1] = nil }, nil, "has 0 entries"},
		"a tile cut off":   {func(_ *testing.T, s *served) { s.resources[tile1] = s.resources[tile1][:50] }, nil, "tile 1 has 50 bytes and not 1408"},
		"a tile too short": {func(_ *testing.T, s *served) { s.resources[tile1] = s.resources[tile1][:64] }, nil, "tile 1 has 64 bytes and not 1408"},
		"no tile":          {func(_ *testing.T, s *served) { delete(s.resources, tile1) }, nil, "does not serve " + tile1},
		"no bundle":        {func(_ *testing.T, s *served) { delete(s.resources, bundle0) }, nil, "does not serve " + bundle0},
		"a size that is not": {func(t *testing.T, s *served) {
			s.sign(t, audit.Checkpoint{Origin: "log.example.com", Size: 301, Root: s.tree.Root()})
		}, nil, "does not serve"},
		"a smaller size":      {func(t *testing.T, s *served) { s.sign(t, s.points[200]) }, sound.points[300:301], "its tail was cut"},
		"another log of size": {func(t *testing.T, s *served) { *s = *forked(t) }, sound.points[300:301], "is not the one of the former checkpoint of 300 events"},
		"a rewritten log":     {func(t *testing.T, s *served) { *s = *forked(t) }, sound.points[20:21], "event 20: the log up to here is not the one of the former checkpoint of 20 events"},
		"another origin's":    {func(*testing.T, *served) {}, newServed(t, "other.example.com", 3).points[3:], "other.example.com"},
		"an entry signed for in another's place": {func(t *testing.T, s *served) {
			s.add(s.entries[3])
			s.publish(t)
		}, nil, "event 301: the log has event 4 in this place"},
		"an entry signed for of long before": {func(t *testing.T, s *served) {
			s.add(audit.NewEntry(301, time.Date(2026, 5, 1, 12, 3, 58, 0, time.UTC), audit.Digest(nil)))
			s.publish(t)
		}, nil, "event 301: it is of 2026-05-01T12:03:58Z, and an event before it is of 2026-05-01T12:04:59Z"},
		"an entry signed for that is none": {func(t *testing.T, s *served) {
			s.add([]byte(`{"what":"ever"}`))
			s.publish(t)
		}, nil, "event 301: read a log entry"},
		"an entry signed for in another spelling": {func(t *testing.T, s *served) {
			s.add(append([]byte(" "), audit.NewEntry(301, time.Now(), audit.Digest(nil))...))
			s.publish(t)
		}, nil, "event 301: read a log entry"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed(t, "log.example.com", n)
			lie.tell(t, s)
			_, err := s.verify(t, lie.former...)
			var bad *Problem
			if !errors.As(err, &bad) || !errors.Is(err, errBad) || !strings.Contains(err.Error(), lie.want) {
				t.Errorf("got %v, want %q", err, lie.want)
			}
		})
	}
}

// TestUnchecked: a log that cannot be read is no bad one.
func TestUnchecked(t *testing.T) {
	bundle := audit.Resource{Entries: true, N: 0, Width: 5}.Path()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, c := range map[string]struct {
		path   string
		answer http.HandlerFunc
		asked  int
		want   string
	}{
		"no log":               {"checkpoint", status(http.StatusNotFound), 1, "it answers 404"},
		"not for everybody":    {"checkpoint", status(http.StatusForbidden), 1, "it answers 403"},
		"an outage":            {bundle, status(http.StatusServiceUnavailable), attempts, "it answers 503"},
		"a checkpoint's flood": {"checkpoint", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxCheckpoint+1)) }, 1, "more than"},
		"a connection cut": {bundle, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("half"))
		}, attempts, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed(t, "log.example.com", 5)
			s.answers[c.path] = c.answer
			_, err := s.verify(t)
			if err == nil || errors.Is(err, errBad) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if s.asked[c.path] != c.asked {
				t.Errorf("it was asked for %d times, want %d", s.asked[c.path], c.asked)
			}
		})
	}
	// It comes back after one bad answer.
	s := newServed(t, "log.example.com", 5)
	s.answers[bundle] = func(w http.ResponseWriter, _ *http.Request) {
		delete(s.answers, bundle)
		w.WriteHeader(http.StatusBadGateway)
	}
	if _, err := s.verify(t); err != nil || s.asked[bundle] != 2 {
		t.Errorf("after one bad answer: %v", err)
	}
	// Whoever has enough stops it.
	ctx, cancel := context.WithCancel(context.Background())
	s.answers["checkpoint"] = func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}
	server := httptest.NewServer(s)
	defer server.Close()
	if _, err := (&Log{URL: server.URL + "/log/", Verifiers: s.verifiers}).Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("when it is stopped: %v", err)
	}
}
