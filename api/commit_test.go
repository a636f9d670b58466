package api_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdpoint/api"
	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

// operation is something that is answered once it is committed.
type operation struct {
	// ask asks for it, always for the same under the same key.
	ask func(key string) reply
	// want is the status of its answer, and effect counts what the database has of it.
	want   int
	effect string
	// once says that asking again under the same key has no further effect.
	once bool
}

// operations prepares one of each, on things of its own.
func (h *harness) operations() map[string]func(n int) operation {
	post := func(key, path, body string, headers ...string) func(string) reply {
		return func(once string) reply {
			all := append([]string{"Content-Type", "application/json"}, headers...)
			if key != "" {
				all = append(all, "Authorization", "Bearer "+key)
			}
			if once != "" {
				all = append(all, "Idempotency-Key", once)
			}
			return h.send(http.MethodPost, path, body, all...)
		}
	}
	harmless := func(tool string) string {
		return fmt.Sprintf(`{"tool_name":%q,"tool_category":"public_read","authorization_state":"none","evidence_refs":[],"risk_domain":"research","proposed_arguments":{},"recommended_route":"accept"}`, tool)
	}
	approved := func(tool string, n int) api.Approval {
		a := h.propose("checking", tool, n)
		h.vote(a, "approve")
		h.settle(a.ID)
		h.patiently(func() reply { return h.as("checking", http.MethodGet, "/v1/approvals/"+a.ID, "") }).want(h.t, 200, "").into(h.t, &a)
		return a
	}
	redeem := func(a api.Approval, tool string, n int) func(string) reply {
		return post("checking", "/v1/tokens/redeem", fmt.Sprintf(`{"token":%q,"tool_name":%q,"arguments":{"amount":%d}}`, a.Token, tool, n))
	}
	// both counts what the database has of a thing that an event tells of: -1 when it has
	// one without the other.
	both := func(rows, events string) string {
		return fmt.Sprintf(`SELECT CASE WHEN r.n = e.n THEN r.n ELSE -1 END FROM (SELECT count(*) AS n FROM %s) r, (SELECT count(*) AS n FROM events WHERE %s) e`, rows, events)
	}
	opened := func(tool string) string {
		return both(fmt.Sprintf(`approvals WHERE tool = '%s'`, tool), fmt.Sprintf(`type = 'decision' AND tool_name = '%s'`, tool))
	}
	return map[string]func(int) operation{
		"accepted": func(n int) operation {
			tool := fmt.Sprintf("read_%d", n)
			return operation{post("checking", "/v1/pre-tool-check", harmless(tool)), 200, fmt.Sprintf(`SELECT count(*) FROM events WHERE type = 'decision' AND tool_name = '%s'`, tool), true}
		},
		"accepted, without a key": func(n int) operation {
			tool := fmt.Sprintf("look_%d", n)
			ask := post("checking", "/v1/pre-tool-check", harmless(tool))
			return operation{func(string) reply { return ask("") }, 200, fmt.Sprintf(`SELECT count(*) FROM events WHERE type = 'decision' AND tool_name = '%s'`, tool), false}
		},
		"accepted, with a token": func(n int) operation {
			tool := fmt.Sprintf("fetch_%d", n)
			return operation{
				post("checking", "/v1/pre-tool-check", harmless(tool), "Prefer", "token"), 200,
				both(fmt.Sprintf(`approvals JOIN tokens ON approval_id = id WHERE tool = '%s' AND status = 'approved'`, tool), fmt.Sprintf(`type = 'settled' AND tool_name = '%s'`, tool)), true,
			}
		},
		"opened": func(n int) operation {
			tool := fmt.Sprintf("order_%d", n)
			return operation{post("checking", "/v1/pre-tool-check", payment(tool, n)), 202, opened(tool), true}
		},
		"opened apart, without a key": func(n int) operation {
			tool := fmt.Sprintf("offer_%d", n)
			ask := post("checking", "/v1/pre-tool-check", payment(tool, n), "Prefer", "separate")
			return operation{func(string) reply { return ask("") }, 202, opened(tool), false}
		},
		"voted": func(n int) operation {
			a := h.propose("checking", fmt.Sprintf("vote_%d", n), n)
			h.vote(h.propose("checking", fmt.Sprintf("first_%d", n), n), "approve") // somebody is signed in now
			return operation{
				post("", "/v1/approvals/"+a.ID+"/votes", fmt.Sprintf(`{"decision":"approve","digest":%q,"version":%d}`, a.Digest, a.Version)), 200,
				both(fmt.Sprintf(`facts WHERE approval_id = '%s'`, a.ID), fmt.Sprintf(`type = 'vote' AND outcome <> 'DENY' AND approval_id = '%s'`, a.ID)), true,
			}
		},
		"cancelled": func(n int) operation {
			a := h.propose("checking", fmt.Sprintf("cancel_%d", n), n)
			return operation{
				post("checking", "/v1/approvals/"+a.ID+"/cancel", `{}`), 200,
				both(fmt.Sprintf(`facts WHERE approval_id = '%s'`, a.ID), fmt.Sprintf(`type = 'cancel' AND outcome <> 'DENY' AND approval_id = '%s'`, a.ID)), true,
			}
		},
		"settled": func(n int) operation {
			a := h.propose("checking", fmt.Sprintf("settle_%d", n), n)
			h.vote(a, "approve")
			return operation{
				func(string) reply {
					_, err := h.settler.Settle(context.Background(), a.ID)
					switch {
					case err == nil:
						return reply{Response: &http.Response{StatusCode: 200}}
					case access.IsUnavailable(err):
						return reply{&http.Response{StatusCode: 503}, []byte(err.Error())}
					}
					return reply{&http.Response{StatusCode: 500}, []byte(err.Error())}
				}, 200,
				both(fmt.Sprintf(`approvals JOIN tokens ON approval_id = id WHERE id = '%s' AND status = 'approved'`, a.ID), fmt.Sprintf(`type = 'settled' AND approval_id = '%s'`, a.ID)), true,
			}
		},
		"redeemed": func(n int) operation {
			tool := fmt.Sprintf("redeem_%d", n)
			a := approved(tool, n)
			return operation{
				redeem(a, tool, n), 200,
				both(fmt.Sprintf(`tokens JOIN approvals ON approval_id = id WHERE id = '%s' AND redeemed_at IS NOT NULL AND execution = 'redeemed'`, a.ID),
					fmt.Sprintf(`type = 'redeem' AND outcome = 'ALLOW' AND approval_id = '%s'`, a.ID)), true,
			}
		},
		"refused": func(n int) operation {
			tool := fmt.Sprintf("refuse_%d", n)
			a := approved(tool, n)
			return operation{redeem(a, tool, n+1), 403, fmt.Sprintf(`SELECT count(*) FROM events WHERE type = 'redeem' AND outcome = 'DENY' AND approval_id = '%s'`, a.ID), true}
		},
		"reported": func(n int) operation {
			tool := fmt.Sprintf("report_%d", n)
			a := approved(tool, n)
			h.patiently(func() reply { return redeem(a, tool, n)("") }).want(h.t, 200, "")
			return operation{
				post("checking", "/v1/executions", fmt.Sprintf(`{"approval_id":%q,"outcome":"succeeded"}`, a.ID)), 200,
				both(fmt.Sprintf(`approvals WHERE id = '%s' AND execution = 'succeeded'`, a.ID), fmt.Sprintf(`type = 'execution' AND approval_id = '%s'`, a.ID)), true,
			}
		},
		"killed": func(n int) operation {
			agent := fmt.Sprintf("bot-%d", n)
			h.db.Agent(agent, agent, engine.Person{})
			return operation{
				post("ruling", "/v1/admin/kill-switches", fmt.Sprintf(`{"agent_id":%q,"on":true,"reason":"a test"}`, agent)), 200,
				both(fmt.Sprintf(`kill_switches WHERE agent_id = '%s'`, agent), fmt.Sprintf(`type = 'admin' AND outcome = 'KILL_SWITCH' AND agent_id = '%s'`, agent)), true,
			}
		},
	}
}

// TestNoAnswerOvertakesItsCommit: wherever the connection to Postgres ends around a
// commit, an answer other than 503 was committed when it came, and asking again under
// the same key gives one answer, with one effect.
func TestNoAnswerOvertakesItsCommit(t *testing.T) {
	db := storetest.New(t)
	wire, through := storetest.NewWire(t, db.RuntimeURL)
	s, err := store.Open(context.Background(), store.Config{URL: through, Sealer: db.Sealer, MaxConns: 8, Timeout: 15 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	h := harnessOn(t, db, s, api.Limits{})
	h.addAgents()
	h.cut = true
	n, slow := 0, time.Now().Add(time.Minute)
	for name, prepare := range h.operations() {
		for _, how := range []storetest.Cut{storetest.BeforeCommit, storetest.BeforeAnswer, storetest.Torn, storetest.Late} {
			for after := 0; ; after++ {
				n++
				what := fmt.Sprintf("%s, cut %s, after %d commits", name, how, after)
				op, key := prepare(n), fmt.Sprint("key-", n)
				wire.Cut(how, after)
				first := op.ask(key)
				// What Postgres is told late is late for this look, too.
				seen := h.count(op.effect)
				cut := wire.Release()
				switch {
				case first.StatusCode == op.want:
					if seen != 1 {
						t.Errorf("%s: answered with %d, and the database has %d of it", what, first.StatusCode, seen)
					}
				case first.StatusCode != 503:
					t.Errorf("%s: %d %s", what, first.StatusCode, first.body)
				}
				if !cut {
					if first.StatusCode == 503 && time.Now().Before(slow) {
						after-- // a connection that was cut before had not been missed yet
						continue
					}
					if after == 0 {
						t.Errorf("%s: there was nothing to cut: %d %s", what, first.StatusCode, first.body)
					}
					break // every commit of the operation has been cut
				}
				if !op.once {
					if got := h.count(op.effect); got != 0 && got != 1 {
						t.Errorf("%s: the database has %d of it", what, got)
					}
					continue
				}
				again := op.ask(key)
				for deadline := time.Now().Add(time.Minute); again.StatusCode == 503 && time.Now().Before(deadline); {
					again = op.ask(key) // a slow machine
				}
				if again.StatusCode != op.want {
					t.Errorf("%s: asked again: %d %s", what, again.StatusCode, again.body)
				} else if got := h.count(op.effect); got != 1 {
					t.Errorf("%s: asked again, the database has %d of it", what, got)
				}
				if first.StatusCode == op.want && !same(first, again) {
					t.Errorf("%s: answered with %s, then with %s", what, first.body, again.body)
				}
			}
		}
	}
}

// same reports whether two answers are the same, but for what a token's and a
// redemption's repetition are allowed to differ in.
func same(a, b reply) bool {
	return bytes.Equal(a.body, b.body) || strings.Contains(string(b.body), `"replayed":true`) || strings.Contains(string(b.body), `"resumption_token"`)
}
