package api_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/api"
	"holdpoint/engine"
	"holdpoint/engine/canon"
)

// slowBody is a body of which nothing comes until it is released. reading is closed
// once somebody wants to read it.
type slowBody struct {
	reading, released chan struct{}
	once              sync.Once
	rest              io.Reader
}

func newSlowBody(text string) *slowBody {
	return &slowBody{reading: make(chan struct{}), released: make(chan struct{}), rest: strings.NewReader(text)}
}

func (b *slowBody) Read(p []byte) (int, error) {
	b.once.Do(func() { close(b.reading) })
	<-b.released
	return b.rest.Read(p)
}

// post proposes a call. The body is sent once the server asks for it: length is what
// is said of it before, -1 for nothing.
func (h *harness) post(key string, body io.Reader, length int64) reply {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.server.URL+"/v1/pre-tool-check", io.NopCloser(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.ContentLength = length
	for name, value := range map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json", "Expect": "100-continue"} {
		req.Header.Set(name, value)
	}
	client := http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		h.t.Error(err)
		return reply{&http.Response{Request: req, Header: http.Header{}}, nil}
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Error(err)
	}
	return reply{res, answer}
}

const proposal = `{"tool_name":"drop","tool_category":"unknown","authorization_state":"none","evidence_refs":[],"risk_domain":"unknown","proposed_arguments":{},"recommended_route":"refuse"}`

// One key has so much under way at once, and what is above is refused before its
// body is read. Another key notices nothing.
func TestInFlight(t *testing.T) {
	owner := engine.Person{Name: "owner", Roles: []string{"reviewer"}}
	for name, tc := range map[string]struct {
		limits api.Limits
		held   []int64 // lengths of what is under way
		next   int64   // length of what is too much
	}{
		"calls":             {api.Limits{Calls: 3}, []int64{int64(len(proposal)), int64(len(proposal)), int64(len(proposal))}, int64(len(proposal))},
		"bytes":             {api.Limits{Bytes: canon.MaxBytes}, []int64{canon.MaxBytes - 100}, int64(len(proposal))},
		"an unknown length": {api.Limits{Bytes: canon.MaxBytes}, []int64{-1}, int64(len(proposal))},
		"the next one's":    {api.Limits{Bytes: canon.MaxBytes}, []int64{int64(len(proposal))}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarnessOf(t, tc.limits)
			owner := h.db.Person(owner)
			h.db.Agent("bot", "Bot", owner)
			h.db.Agent("quiet-bot", "Quiet", owner)
			h.judgeAgain()
			var group sync.WaitGroup
			var held []*slowBody
			for _, length := range tc.held {
				body := newSlowBody(proposal + strings.Repeat(" ", max(0, int(length)-len(proposal))))
				held = append(held, body)
				group.Go(func() { h.post("checking", body, length).want(t, 200, "") })
				<-body.reading
			}
			before := h.count(`SELECT count(*) FROM events`)
			for range 20 {
				refused := newSlowBody(proposal)
				got := h.post("checking", refused, tc.next).want(t, 429, "too_many_in_flight")
				if got.Header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
				select {
				case <-refused.reading:
					t.Error("the body of what was refused is read")
				default:
				}
			}
			if got := h.count(`SELECT count(*) FROM events`) - before; got > 1 {
				t.Errorf("20 refusals are %d events", got)
			}
			for range 20 {
				h.post("quiet", strings.NewReader(proposal), int64(len(proposal))).want(t, 200, "")
			}
			for _, body := range held {
				close(body.released)
			}
			group.Wait()
			h.post("checking", strings.NewReader(proposal), tc.next).want(t, 200, "")
		})
	}
}

// What is above the room for all bodies waits for its turn: the flood's second waits
// behind the quiet one's first.
func TestBodiesWaitInTurns(t *testing.T) {
	h := newHarnessOf(t, api.Limits{Bytes: 3 * canon.MaxBytes, TotalBytes: 2 * canon.MaxBytes})
	owner := h.db.Person(engine.Person{Name: "owner", Roles: []string{"reviewer"}})
	h.db.Agent("bot", "Bot", owner)
	h.db.Agent("quiet-bot", "Quiet", owner)
	h.judgeAgain()
	var group sync.WaitGroup
	bodies := map[string]*slowBody{}
	send := func(name, key string) {
		body := newSlowBody(proposal)
		bodies[name] = body
		group.Go(func() { h.post(key, body, -1).want(t, 200, "") })
	}
	for _, name := range []string{"first", "second"} {
		send(name, "checking")
		<-bodies[name].reading
	}
	send("third", "checking")
	h.waitFor("holdpoint_in_flight_waiting 1")
	send("quiet", "quiet")
	h.waitFor("holdpoint_in_flight_waiting 2")
	close(bodies["first"].released)
	<-bodies["third"].reading // it was first in the queue
	close(bodies["second"].released)
	<-bodies["quiet"].reading
	close(bodies["third"].released)
	close(bodies["quiet"].released)
	group.Wait()
	h.waitFor("holdpoint_in_flight_calls 0", "holdpoint_in_flight_bytes 0", "holdpoint_in_flight_waiting 0")
}

// waitFor waits until the metrics have these lines.
func (h *harness) waitFor(lines ...string) {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		text, missing := h.metricsText(), ""
		for _, line := range lines {
			if !strings.Contains(text, line+"\n") {
				missing = line
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("the metrics do not have %q", missing)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (h *harness) metricsText() string {
	h.t.Helper()
	return string(h.do("GET", "/metrics", "Authorization", "Bearer ruling").body)
}

// Strangers grow the log by an event for each kind of refusal, and by a number.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	h := newHarness(t)
	before := h.count(`SELECT count(*) FROM events`)
	const each = 300
	for i := range each {
		h.get("/v1/audit/events?limit="+strconv.Itoa(i)).want(t, 401, "unauthenticated")
		h.get("/v1/nothing/"+strconv.Itoa(i)).want(t, 404, "no_such_route")
		h.do("GET", "/v1/approvals/x", "Authorization", "Bearer guess-"+strconv.Itoa(i)).want(t, 401, "unauthenticated")
	}
	if got := h.count(`SELECT count(*) FROM events`) - before; got != 3 {
		t.Errorf("%d refusals are %d events, want 3", 3*each, got)
	}
	h.door.Flush()
	if got := h.count(`SELECT count(*) FROM events`) - before; got != 6 {
		t.Errorf("with their number, %d refusals are %d events, want 6", 3*each, got)
	}
	if got := h.count(`SELECT sum((convert_from(body, 'UTF8')::jsonb->'safe_payload'->>'count')::int)::bigint FROM events`); got != 3*(each-1) {
		t.Errorf("%d are counted, want %d", got, 3*(each-1))
	}
	// Whoever has a key is named for each.
	for range 5 {
		h.do("GET", "/v1/audit/events", "Authorization", "Bearer checking").want(t, 403, "scope_missing")
	}
	if got := h.count(`SELECT count(*) FROM events`) - before; got != 11 {
		t.Errorf("five refusals of a key are %d events", got-6)
	}
}
