package slack_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/engine/token"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/notify"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/outbound"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/slack"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	secret  = "0123456789abcdef0123456789abcdef"
	team    = "T01"
	bundle  = `{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2036-01-01T00:00:00Z","defaults":{"outcome":"REQUIRE_APPROVAL"},"rules":[`
	ruleFor = `{"id":"NAME","description":"Asks.","match":{"tool_name":"NAME","environment":"*"},"outcome":"OUTCOME","approver_role":"reviewer","stakes":"[DANGER] Pay {amount} to {*to}"}`
)

// harness is a gate with a channel in Slack, on a database of its own.
type harness struct {
	*admin.Admin
	t       *testing.T
	db      *storetest.Database
	store   *store.Store
	gate    *gate.Gate
	settler *gate.Settler
	deliver *notify.Deliverer
	people  map[string]engine.Person
	space   *workspace
	// door and second are the doors of two gates.
	door, second *slack.Door
	endpoint     string
	poster       *channel.Slack
	newGate      func(*store.Store) *gate.Gate
}

// doorOn is a door over a store.
func (h *harness) doorOn(s *store.Store) *slack.Door {
	return &slack.Door{Store: s, Votes: h.newGate(s).Contributions, Linker: admin.New(admin.Config{Store: s}).Slack, Answers: h.poster, Logger: slog.New(slog.DiscardHandler)}
}

// ahead is a door of a gate whose database's clock has gone on.
func (h *harness) ahead(by time.Duration) *slack.Door {
	h.db.Ahead(by)
	return h.doorOn(h.db.Runtime())
}

type fixed struct{ *gate.Judge }

func (fixed) Behind(store.RulesInForce) bool { return false }

func (fixed) CatchUp(context.Context) error { return nil }

type guarded struct{ client *outbound.Client }

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) { return g.client.Do(r) }

// workspace stands in for Slack: it keeps what is posted to a channel, and what one
// person alone is shown.
type workspace struct {
	*httptest.Server
	mu       sync.Mutex
	messages []string
	answers  []string
}

func newWorkspace(t *testing.T) *workspace {
	w := &workspace{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/services/") {
			w.messages = append(w.messages, string(body))
		} else {
			w.answers = append(w.answers, string(body))
		}
		_, _ = io.WriteString(rw, "ok")
	}))
	t.Cleanup(w.Close)
	return w
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	db := storetest.New(t)
	h := &harness{t: t, db: db, store: db.Runtime(), people: map[string]engine.Person{}, space: newWorkspace(t)}
	for name, role := range map[string]string{"ada": "reviewer", "ben": "reviewer", "owner": "reviewer", "stranger": "other"} {
		h.people[name] = db.Person(engine.Person{Name: name, Roles: []string{role}})
	}
	db.Agent("bot", "Bot", h.people["owner"])
	var rules []string
	for _, r := range [][3]string{{"small", "REQUIRE_APPROVAL", "low"}, {"middling", "REQUIRE_APPROVAL", "medium"}, {"person", "REQUIRE_HUMAN", "low"}, {"step", "STEP_UP", "low"}, {"pair", "REQUIRE_APPROVAL", "low"}} {
		rules = append(rules, strings.NewReplacer("NAME", r[0], "OUTCOME", r[1], "DANGER", r[2]).Replace(ruleFor))
	}
	b, problems := policy.Load([]byte(bundle+strings.Join(rules, ",")+"]}"), policy.Options{})
	if b == nil {
		t.Fatal(problems)
	}
	known, err := h.store.Registry.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	judge, err := gate.NewJudge(gate.Rules{
		Environment: "test", Policy: b, Registry: known,
		Routing: approval.Routing{Rules: []approval.Rule{
			{Tool: "pair", Role: "reviewer", Needed: 2, ExpiresIn: engine.Duration(time.Hour)},
		}, Default: approval.Rule{Role: "reviewer", Needed: 1, ExpiresIn: engine.Duration(time.Hour)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ring, err := token.Ring{}.Add(make([]byte, ed25519.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	h.settler = &gate.Settler{Store: h.store, Sealer: db.Sealer, Rules: fixed{judge}, Notifier: &notify.Notifier{Logger: slog.New(slog.DiscardHandler)}, Validity: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	h.newGate = func(s *store.Store) *gate.Gate {
		g, err := gate.New(gate.Config{Store: s, Sealer: db.Sealer, Judge: func() *gate.Judge { return judge }, Ring: ring, Issuer: "urn:test", MaxPending: 100, Settler: h.settler})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	h.gate = h.newGate(h.store)
	here := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	h.Admin = admin.New(admin.Config{Store: h.store, AllowPrivate: here})
	poster, err := channel.NewSlack(channel.HTTPConfig{Client: &http.Client{Transport: guarded{outbound.New(outbound.Config{AllowPrivate: here, AllowHTTP: true})}}})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	h.deliver = &notify.Deliverer{Store: h.store, Slack: poster, Logger: log, Calls: gate.Messages{Store: h.store, Sealer: db.Sealer, Logger: log}}
	h.poster = poster
	h.door, h.second = h.doorOn(h.store), h.doorOn(db.Runtime())
	h.endpoint = h.add("#small", "low", secret)
	for _, name := range []string{"ada", "ben", "owner", "stranger"} {
		h.link(name)
	}
	return h
}

var by = access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "test"}}

func (h *harness) add(name, decide, signing string) string {
	h.t.Helper()
	id, _, err := h.Endpoints.Add(h.t.Context(), by, admin.NewEndpoint{
		Kind: notify.Slack, Name: name, URL: h.space.URL + "/services/" + strconv.Itoa(len(name)), Signing: signing,
		Settings: notify.Settings{Decide: decide, Kinds: []engine.NotificationKind{engine.NotifyOpened, engine.NotifyReminder, engine.NotifyEdited}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

func (h *harness) set(change func(*notify.Settings), signing string) {
	h.t.Helper()
	if change == nil {
		change = func(*notify.Settings) {}
	}
	if err := h.Endpoints.Change(h.t.Context(), by, h.endpoint, admin.EndpointChange{Settings: change, Signing: signing}); err != nil {
		h.t.Fatal(err)
	}
}

// user is somebody's account in Slack.
func user(name string) string { return "U" + strings.ToUpper(name) }

func (h *harness) link(name string) {
	h.t.Helper()
	code, err := h.Slack.NewCode(h.t.Context(), access.PersonInitiator(h.people[name], "console", ""))
	if err != nil {
		h.t.Fatal(err)
	}
	if says := h.command(user(name), "link "+code); !strings.Contains(says, "is linked") {
		h.t.Fatalf("link %s: %s", name, says)
	}
}

// signed is a request of Slack's, signed at a time.
func (h *harness) signed(form url.Values, at time.Time, with string) slack.Request {
	body, stamp := []byte(form.Encode()), strconv.FormatInt(at.Unix(), 10)
	return slack.Request{Endpoint: h.endpoint, Timestamp: stamp, Signature: slack.Sign(with, stamp, body), Body: body, ID: "req_test"}
}

func (h *harness) command(from, text string) string {
	h.t.Helper()
	answer, err := h.door.Command(h.t.Context(), h.signed(url.Values{"command": {"/holdpoint"}, "text": {text}, "team_id": {team}, "user_id": {from}}, time.Now(), secret))
	if err != nil {
		h.t.Fatal(err)
	}
	return answer.Text
}

// call is a document of a call of the tool with the arguments.
func call(tool, arguments string) string {
	return `{"tool_name":"` + tool + `","tool_category":"write","authorization_state":"none","evidence_refs":["x:1"],"risk_domain":"finance","proposed_arguments":` + arguments + `,"recommended_route":"accept"}`
}

var agent = access.Principal{KeyID: "key", AgentID: "bot", Kind: access.AgentKey, MaxState: "authenticated"}

// open opens an approval, has it told, and returns it with what Slack was posted of it.
func (h *harness) open(tool, arguments string) (approval.Approval, message) {
	h.t.Helper()
	v, err := canon.Parse([]byte(call(tool, arguments)))
	if err != nil {
		h.t.Fatal(err)
	}
	checked, err := h.gate.PreToolCheck(h.t.Context(), agent, v, gate.Request{Separate: true}, nil)
	if err != nil || checked.Approval == nil {
		h.t.Fatalf("open: %+v, %v", checked, err)
	}
	h.settle(checked.Approval.ID)
	list := h.told()
	if len(list) != 1 {
		h.t.Fatalf("%d messages of a call", len(list))
	}
	return h.read(checked.Approval.ID), list[0]
}

func (h *harness) settle(id string) {
	h.t.Helper()
	if _, err := h.settler.Settle(h.t.Context(), id); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) read(id string) approval.Approval {
	h.t.Helper()
	r, err := h.store.Approvals.Get(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return r.Approval
}

// told delivers what is due, and returns what Slack was posted by that.
func (h *harness) told() []message {
	h.t.Helper()
	due, err := h.store.Notifications.Due(h.t.Context(), 100)
	if err != nil {
		h.t.Fatal(err)
	}
	before := len(h.space.messages)
	for _, n := range due {
		if r, err := h.deliver.Deliver(h.t.Context(), n.ID); err != nil || !r.Done {
			h.t.Fatalf("deliver %s: %+v, %v", n.ID, r, err)
		}
	}
	var list []message
	for _, body := range h.space.messages[before:] {
		m := message{text: body}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			h.t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// message is one in the channel.
type message struct {
	text   string
	Blocks []struct {
		Type     string `json:"type"`
		Elements []struct {
			ActionID string `json:"action_id"`
			Value    string `json:"value"`
		} `json:"elements"`
	} `json:"blocks"`
}

// button is what the button with an id sends back; "" where there is none.
func (m message) button(id string) string {
	for _, b := range m.Blocks {
		for _, e := range b.Elements {
			if b.Type == "actions" && e.ActionID == id {
				return e.Value
			}
		}
	}
	return ""
}

// pressed is the form that Slack sends when a user presses a button.
func (h *harness) pressed(from, action, value string) url.Values {
	payload, err := json.Marshal(map[string]any{
		"type": "block_actions", "user": map[string]any{"id": from, "team_id": team}, "team": map[string]any{"id": team},
		"response_url": h.space.URL + "/actions/1", "actions": []any{map[string]any{"action_id": action, "value": value, "type": "button"}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return url.Values{"payload": {string(payload)}}
}

// interaction has a door take a press and answer it.
func interaction(t *testing.T, door *slack.Door, r slack.Request) error {
	tell, err := door.Interaction(t.Context(), r)
	if err == nil {
		tell(t.Context())
	}
	return err
}

// press has somebody press a button, and returns what they alone are shown.
func (h *harness) press(name, action, value string) string {
	h.t.Helper()
	return h.send(h.pressed(user(name), action, value))
}

// send sends a form, which is another one each time: no two requests have one signature.
func (h *harness) send(form url.Values) string {
	h.t.Helper()
	form.Set("turn", store.NewID("x"))
	before := len(h.space.answers)
	if err := interaction(h.t, h.door, h.signed(form, time.Now(), secret)); err != nil {
		h.t.Fatal(err)
	}
	if len(h.space.answers) != before+1 {
		h.t.Fatalf("%d answers", len(h.space.answers)-before)
	}
	var answer channel.SlackReply
	if err := json.Unmarshal([]byte(h.space.answers[before]), &answer); err != nil || answer.Type != "ephemeral" || answer.Replace {
		h.t.Fatalf("the answer is %s, %v", h.space.answers[before], err)
	}
	return answer.Text
}

// voted counts the events of votes that were cast in Slack, and were not refused.
func (h *harness) voted(id string) (n int) {
	h.t.Helper()
	events, err := h.store.Events.List(h.t.Context(), store.EventFilter{Limit: 1000, ApprovalID: id})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == engine.Voted && e.Outcome != engine.Deny && e.Actor.Channel == slack.Channel && e.Actor.Kind == engine.HumanActor {
			n++
		}
	}
	return n
}

func code(err error) string {
	var r *access.Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}
