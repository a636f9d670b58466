package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/outbound"
)

// catcher is a receiver of webhooks that checks every signature and remembers.
type catcher struct {
	t      *testing.T
	server *httptest.Server
	secret string
	// limit is how many bytes it takes at once; answer decides about what fits.
	limit  int
	answer func(w http.ResponseWriter, r *http.Request) (taken bool)

	mu     sync.Mutex
	posts  [][]int64 // seqs of the posts that were taken
	bodies map[int64]string
	ids    map[string]string // body by id
	kinds  map[string]int
}

func newCatcher(t *testing.T, limit int, answer func(http.ResponseWriter, *http.Request) bool) *catcher {
	t.Helper()
	c := &catcher{t: t, secret: channel.NewSecret(), limit: limit, answer: answer, bodies: map[int64]string{}, ids: map[string]string{}, kinds: map[string]int{}}
	c.server = httptest.NewTLSServer(c)
	t.Cleanup(c.server.Close)
	return c
}

func (c *catcher) config() Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
	return Config{Name: "hook", Kind: WebhookKind, URL: c.server.URL + "/events?key=hidden", CA: ca, Secret: c.secret, Token: "let-me-in", From: FromBeginning, Batch: testBatch}
}

func (c *catcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if err := channel.Verify([]string{c.secret}, r.Header, body, time.Now()); err != nil {
		c.t.Error(err)
	}
	if got := r.Header.Get("Authorization"); got != "Bearer let-me-in" {
		c.t.Errorf("Authorization %q", got)
	}
	if c.limit > 0 && len(body) > c.limit {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	if !c.answer(w, r) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var events []json.RawMessage
	switch kind := r.Header.Get("Content-Type"); kind {
	case "application/json":
		if err := json.Unmarshal(body, &events); err != nil {
			c.t.Error(err)
		}
	case "application/x-ndjson":
		for line := range bytes.Lines(body) {
			events = append(events, bytes.TrimSuffix(line, []byte("\n")))
		}
	default:
		c.t.Errorf("Content-Type %q", kind)
	}
	var seqs []int64
	for _, raw := range events {
		var e engine.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			c.t.Errorf("%v: %s", err, raw)
		}
		seqs = append(seqs, e.Seq)
		c.bodies[e.Seq] = string(raw)
	}
	if len(seqs) == 0 {
		c.t.Errorf("a post without events: %s", body)
		return
	}
	id := r.Header.Get(channel.HeaderID)
	if want := fmt.Sprintf("hook_%d_%d", seqs[0], seqs[len(seqs)-1]); strings.TrimSuffix(id, "_reduced") != want {
		c.t.Errorf("id %q, want %q", id, want)
	}
	if former, again := c.ids[id]; again && former != string(body) {
		c.t.Errorf("another body under the id %s", id)
	}
	c.ids[id] = string(body)
	c.posts = append(c.posts, seqs)
}

func always(w http.ResponseWriter, _ *http.Request) bool { return true }

// However a receiver answers, every event arrives, in order but for windows that
// are sent again.
func TestEveryEventArrivesByWebhook(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const n = 400
	seed := uint64(time.Now().UnixNano()) // #nosec G115 -- any will do
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	luck := mathrand.New(mathrand.NewPCG(seed, 2))
	slow := 2
	c := newCatcher(t, 9000, nil)
	c.answer = func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		way := luck.IntN(9)
		if way == 3 && slow == 0 {
			way = 0
		}
		if way == 3 {
			slow--
		}
		mu.Unlock()
		c.mu.Lock()
		c.kinds[fmt.Sprint(way)]++
		c.mu.Unlock()
		switch way {
		case 0: // it fails
			w.WriteHeader(http.StatusInternalServerError)
			return false
		case 1: // it fails after it has taken
			w.WriteHeader(http.StatusBadGateway)
			return true
		case 2:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return false
		case 3: // it takes for ever
			<-r.Context().Done()
			return false
		case 4:
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return false
		}
		w.WriteHeader(http.StatusAccepted)
		return true
	}
	config := c.config()
	config.Timeout = engine.Duration(2 * time.Second)
	h.background(h.stream(h.store, config).Run)
	h.events(n/2, engine.Decided, engine.Allow, `{}`)
	h.events(1, engine.Decided, engine.Deny, `{"a":"`+strings.Repeat("x", 20_000)+`"}`)
	h.events(n/2-1, engine.Decided, engine.Allow, `{}`)
	h.sequenced(n)
	h.taken("hook", n)
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Logf("%d posts; answers %v", len(c.posts), c.kinds)
	highest := int64(0)
	for _, seqs := range c.posts {
		if seqs[0] > highest+1 || highest-seqs[0] >= testBatch {
			t.Errorf("a post begins at %d, and %d has arrived", seqs[0], highest)
		}
		for i, s := range seqs {
			if s != seqs[0]+int64(i) {
				t.Errorf("a post: %v", seqs)
			}
		}
		highest = max(highest, seqs[len(seqs)-1])
	}
	records, err := h.store.Log.Leaves(t.Context(), 0, n)
	if err != nil {
		t.Fatal(err)
	}
	reduced := 0
	for _, r := range records {
		got, want := c.bodies[r.Seq()], string(r.Document())
		if len(want) > 9000 {
			reduced++
			if !strings.Contains(got, `"reduced"`) || len(got) > 9000 {
				t.Errorf("event %d: %s", r.Seq(), got)
			}
		} else if got != want {
			t.Errorf("event %d: got %s, want %s", r.Seq(), got, want)
		}
	}
	if reduced != 1 {
		t.Errorf("%d events were too large", reduced)
	}
}

func TestWebhook(t *testing.T) {
	c := newCatcher(t, 1000, always)
	config := c.config()
	config.Body = "array"
	w, err := NewWebhook(config, loopback)
	if err != nil {
		t.Fatal(err)
	}
	list := window(t, 20, 100)
	list[7] = message(t, record(7, engine.Decided, engine.Deny, `{"a":"`+strings.Repeat("x", 2000)+`"}`), nil, 0)
	for range 2 {
		c.posts = nil
		if taken, err := w.Send(t.Context(), list); taken != 20 || err != nil {
			t.Fatalf("%d, %v", taken, err)
		}
		if got := slices.Concat(c.posts...); len(got) != 20 || !slices.IsSorted(got) {
			t.Errorf("%v", c.posts)
		}
	}
	// What fails in the middle has taken what came before it.
	posts := 0
	c.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		if posts++; posts == 3 {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
			return false
		}
		return true
	}
	c.posts = nil
	taken, err := w.Send(t.Context(), list)
	var later *Later
	if got := len(slices.Concat(c.posts...)); err == nil || taken != got || taken == 0 || !errors.As(err, &later) || later.After != maxLater {
		t.Errorf("%d taken, %d arrived, %v", taken, got, err)
	}
	if text := err.Error(); strings.Contains(text, "hidden") || strings.Contains(text, "let-me-in") || !strings.Contains(text, "429") {
		t.Error(text)
	}
	// One that takes nothing, however small.
	c.limit = 10
	if taken, err := w.Send(t.Context(), list); taken != 0 || !errors.Is(err, errTooLarge) {
		t.Errorf("%d, %v", taken, err)
	}
	// Nobody inside the house is asked who is not meant to be.
	config.URL = strings.Replace(config.URL, "127.0.0.1", "localhost", 1)
	if w, err = NewWebhook(config, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Send(context.Background(), list); !errors.Is(err, outbound.ErrForbiddenAddress) {
		t.Error(err)
	}
	config.Token = "Splunk abc"
	if w, err = NewWebhook(config, nil); err != nil || w.token != "Splunk abc" {
		t.Errorf("%v, %v", w, err)
	}
}
