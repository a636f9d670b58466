package api_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// fixedRules is a judge that is never behind.
type fixedRules struct{ *gate.Judge }

func (fixedRules) Behind(store.RulesInForce) bool { return false }

func (fixedRules) CatchUp(context.Context) error { return nil }

// stream is an open stream of events.
type stream struct {
	t     testing.TB
	lines *bufio.Scanner
}

func (h *harness) follow(id string) *stream {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.server.URL+"/v1/approvals/"+id+"/events", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer checking")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = res.Body.Close() })
	return &stream{h.t, bufio.NewScanner(res.Body)}
}

// next is the next event's data, and how many comments there were before it.
func (s *stream) next() (data string, comments int) {
	s.t.Helper()
	for s.lines.Scan() {
		line := s.lines.Text()
		if strings.HasPrefix(line, ":") {
			comments++
		}
		if rest, ok := strings.CutPrefix(line, "data: "); ok {
			return rest, comments
		}
	}
	s.t.Fatalf("the stream ended: %v", s.lines.Err())
	return "", 0
}

// Whoever waits costs nothing while nothing happens, however the approval stands:
// streams and polls sleep until it changes.
func TestIdleCost(t *testing.T) {
	h := newHarness(t)
	ctx := context.Background()
	owner := h.db.Person(engine.Person{Name: "owner", Roles: []string{"reviewer"}})
	ada := h.db.Person(engine.Person{Name: "ada", Roles: []string{"reviewer"}})
	ada.VerifiedBy, ada.VerifiedAt = "totp", time.Now()
	h.db.Agent("bot", "Bot", owner)
	h.judgeAgain()
	agent := access.Principal{KeyID: "key_c", AgentID: "bot", Kind: access.AgentKey, MaxState: "authenticated"}
	settler := &gate.Settler{Store: h.Store, Sealer: h.db.Sealer, Rules: fixedRules{h.Judge()}, Validity: time.Hour, Logger: h.Logger}
	parse := func(text string) canon.Value {
		v, err := canon.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	approve := func(a approval.Approval) {
		_, err := h.Contributions.Vote(ctx, gate.VoteRequest{Person: ada, ApprovalID: a.ID, Approve: true, Digest: a.Call.Digest, Version: a.Version, Channel: "api"}, nil)
		if err == nil {
			_, err = settler.Settle(ctx, a.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	amounts := map[string]string{}
	redeem := func(a approval.Approval) {
		v, err := h.Queries.ForAgent(ctx, agent, a.ID)
		if err == nil {
			_, err = h.Redeem(ctx, agent, gate.RedeemRequest{Token: v.Token, Tool: "pay", Arguments: parse(amounts[a.ID])}, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	report := func(a approval.Approval) {
		if _, err := h.Executed(ctx, agent, gate.ExecutionRequest{ApprovalID: a.ID, Outcome: approval.Succeeded}, nil); err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		name string
		next func(approval.Approval)
		want string // what the event after it says
	}{
		{"pending", approve, `"status":"approved"`}, {"approved", redeem, `"execution":"redeemed"`}, {"redeemed", report, `"execution":"succeeded"`},
	}
	var opened []approval.Approval
	var streams []*stream
	for i := range steps {
		arguments := fmt.Sprintf(`{"amount":%d}`, i)
		checked, err := h.PreToolCheck(ctx, agent, parse(`{"tool_name":"pay","tool_category":"write","authorization_state":"none","evidence_refs":["x:1"],"risk_domain":"finance","proposed_arguments":`+arguments+`,"recommended_route":"accept"}`), gate.Request{}, nil)
		if err != nil || checked.Approval == nil {
			t.Fatalf("open: %+v, %v", checked, err)
		}
		opened = append(opened, *checked.Approval)
		amounts[opened[i].ID] = arguments
		for _, step := range steps[:i] {
			step.next(opened[i])
		}
		streams = append(streams, h.follow(opened[i].ID))
		if data, _ := streams[i].next(); !strings.Contains(data, opened[i].ID) {
			t.Fatalf("%s: the stream begins with %s", steps[i].name, data)
		}
	}
	// One poll of each kind is held meanwhile: what they wait for is the measure.
	const polls = 2 // seconds
	before := h.transactions()
	tag := h.do("GET", "/v1/approvals/"+opened[1].ID, "Authorization", "Bearer checking").Header.Get("ETag")
	began := time.Now()
	held := h.do("GET", "/v1/approvals/"+opened[1].ID+"?wait=2", "Authorization", "Bearer checking", "If-None-Match", tag)
	if held.StatusCode >= 400 || time.Since(began) < polls*time.Second {
		t.Errorf("a poll of an approved call that has not changed was answered %d after %s", held.StatusCode, time.Since(began))
	}
	h.do("GET", "/v1/approvals/"+opened[0].ID+"?wait=2", "Authorization", "Bearer checking").want(t, 200, "")
	// Four reads, what the process does by itself, and what was counted late.
	if cost := h.transactions() - before; cost > 100 {
		t.Errorf("three streams and two polls took %d transactions in %d seconds", cost, 2*polls)
	}
	// Who has not said what they have seen of a decided call is told at once.
	began = time.Now()
	h.do("GET", "/v1/approvals/"+opened[1].ID+"?wait=50", "Authorization", "Bearer checking").want(t, 200, "")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("a poll of a decided call was held for %s", took)
	}
	for i, step := range steps {
		step.next(opened[i])
		data, comments := streams[i].next()
		for !strings.Contains(data, step.want) {
			var more int
			data, more = streams[i].next()
			comments += more
		}
		// One each 15 s.
		if comments > 10 {
			t.Errorf("%s: %d comments before the next event", step.name, comments)
		}
	}
	if streams[2].lines.Scan(); streams[2].lines.Scan() {
		t.Errorf("after its last event the stream says %q", streams[2].lines.Text())
	}
}

// transactions counts those that the database has ended.
func (h *harness) transactions() int64 {
	h.t.Helper()
	return h.count(`SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`)
}
