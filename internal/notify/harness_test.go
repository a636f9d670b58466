package notify_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/jackc/pgx/v5"

	"holdpoint/activities"
	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/token"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/notify"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/notify/webpush"
	"holdpoint/internal/outbound"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/pushtest"
	"holdpoint/internal/rules"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
	"holdpoint/workflows"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	canary   = "canary-7d1f-argument"
	document = `{"tool_name":"pay","tool_category":"write","authorization_state":"none","evidence_refs":["x:1"],"risk_domain":"finance","proposed_arguments":{"to":"` + canary + `"},"recommended_route":"accept"}`
)

// harness is a gate with people, a mail server and whatever receivers a test adds,
// on a database of its own. Settling and delivering are called by the test, as
// the workflows would.
type harness struct {
	*gate.Gate
	*admin.Admin
	t         *testing.T
	owner     *pgx.Conn
	settler   *gate.Settler
	deliverer activities.Deliver
	service   *pushtest.Service
	key       webpush.Key
	people    map[string]engine.Person
	mailbox   *mailbox
	by        access.Initiator
}

// guarded is what the program puts between a sender and the network.
type guarded struct{ client *outbound.Client }

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) { return g.client.Do(r) }

func newHarness(t *testing.T, rule approval.Rule) *harness {
	t.Helper()
	ctx := context.Background()
	db := storetest.New(t)
	s, sealer := db.Runtime(), db.Sealer
	h := &harness{t: t, owner: db.Connect(db.URL), people: map[string]engine.Person{}, mailbox: newMailbox(t), by: access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "test"}}}
	for name, roles := range map[string][]string{
		"ada": {"reviewer"}, "ben": {"reviewer"}, "cleo": {"reviewer"}, "owner": {"reviewer"}, "boss": {"boss"}, "root": {"admin"}, "stranger": {"other"},
	} {
		h.people[name] = db.Person(engine.Person{Name: name, Roles: roles})
	}
	db.Agent("bot", "Bot", h.people["owner"])
	db.Agent("other-bot", "Other", h.people["owner"])
	keeper, err := rules.Open(ctx, rules.Config{Store: s, Environment: "test", Routing: approval.Routing{Default: rule}})
	if err != nil {
		t.Fatal(err)
	}
	ring, err := token.Ring{}.Add(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	if h.Gate, err = gate.New(gate.Config{Store: s, Sealer: sealer, Judge: keeper.Judge, Ring: ring, Issuer: "urn:test"}); err != nil {
		t.Fatal(err)
	}
	here := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	h.service = pushtest.New(t, false)
	text, err := webpush.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if h.key, err = webpush.ParseKey(text); err != nil {
		t.Fatal(err)
	}
	h.Admin = admin.New(admin.Config{Store: s, AllowPrivate: here, PushPrivate: here, PushKey: h.key})
	log := slog.New(slog.DiscardHandler)
	notifier := &notify.Notifier{PublicURL: "https://console.example.com/", Logger: log}
	h.settler = &gate.Settler{Store: s, Sealer: sealer, Rules: keeper, Notifier: notifier, Validity: time.Hour, Logger: log}
	over := channel.HTTPConfig{Client: &http.Client{Transport: guarded{outbound.New(outbound.Config{AllowPrivate: here, AllowHTTP: true})}}}
	deliverer := &notify.Deliverer{Store: s, PublicURL: notifier.PublicURL, Logger: log, Calls: gate.Messages{Store: s, Sealer: sealer, Logger: log}}
	h.deliverer = activities.Deliver{Deliverer: deliverer}
	var err1, err2, err3 error
	deliverer.Webhook, err1 = channel.NewWebhook(over)
	deliverer.Slack, err2 = channel.NewSlack(over)
	deliverer.Mail, err3 = channel.NewMail(channel.MailConfig{Addr: h.mailbox.addr, From: "Holdpoint <gate@example.com>", TLS: channel.PlainTCP})
	var err4 error
	deliverer.Push, err4 = channel.NewPush(over, h.key, notifier.PublicURL)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *harness) add(e admin.NewEndpoint) (id, secret string) {
	h.t.Helper()
	id, secret, err := h.Endpoints.Add(context.Background(), h.by, e)
	if err != nil {
		h.t.Fatal(err)
	}
	return id, secret
}

// open opens an approval and settles it for the first time.
func (h *harness) open() approval.Approval {
	h.t.Helper()
	v, err := canon.Parse([]byte(document))
	if err != nil {
		h.t.Fatal(err)
	}
	checked, err := h.PreToolCheck(context.Background(), access.Principal{KeyID: "key", AgentID: "bot", Kind: access.AgentKey, MaxState: "authenticated"}, v, gate.Request{Separate: true}, nil)
	if err != nil || checked.Approval == nil {
		h.t.Fatalf("open: %+v, %v", checked, err)
	}
	h.settle(checked.Approval.ID)
	return *checked.Approval
}

func (h *harness) settle(id string) gate.Settlement {
	h.t.Helper()
	r, err := h.settler.Settle(context.Background(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// pass moves the opening of the approval into the past, as though so much time had
// passed since.
func (h *harness) pass(a approval.Approval, d time.Duration) {
	h.t.Helper()
	if _, err := h.owner.Exec(context.Background(), fmt.Sprintf(`SET LOCAL session_replication_role = replica;
		UPDATE approvals SET opened_at = opened_at - interval '%d microseconds' WHERE id = '%s'`, d.Microseconds(), a.ID)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) vote(who string, a approval.Approval, yes bool) {
	h.t.Helper()
	v := gate.VoteRequest{Person: h.people[who], ApprovalID: a.ID, Approve: yes, Digest: a.Call.Digest, Version: a.Version, Channel: "api"}
	if !yes {
		v.Denial = approval.Never
	}
	if _, err := h.Contributions.Vote(context.Background(), v, nil); err != nil {
		h.t.Fatal(err)
	}
	h.settle(a.ID)
}

func (h *harness) due() []string {
	h.t.Helper()
	due, err := h.Store.Notifications.Due(context.Background(), 100)
	if err != nil {
		h.t.Fatal(err)
	}
	ids := make([]string, len(due))
	for i, n := range due {
		ids[i] = n.ID
	}
	return ids
}

func (h *harness) deliver(id string) workflows.DeliverResult {
	h.t.Helper()
	r, err := h.deliverer.Deliver(context.Background(), workflows.DeliverInput{NotificationID: id})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// deliverAll delivers everything that is due.
func (h *harness) deliverAll() {
	h.t.Helper()
	for _, id := range h.due() {
		if !h.deliver(id).Done {
			h.t.Errorf("%s was not sent", id)
		}
	}
}

func (h *harness) notification(id string) store.Notification {
	h.t.Helper()
	n, err := h.Store.Notifications.Get(context.Background(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// recorded counts events with the reason code.
func (h *harness) recorded(code string) (n int) {
	h.t.Helper()
	events, err := h.Store.Events.List(context.Background(), store.EventFilter{Limit: 1000})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range events {
		if slices.ContainsFunc(e.Reasons, func(r engine.Reason) bool { return r.Code == code }) {
			n++
		}
	}
	return n
}

// everything is all rows of the tables of this package as text.
func (h *harness) everything() string {
	h.t.Helper()
	var text string
	if err := h.owner.QueryRow(context.Background(), `SELECT coalesce((SELECT string_agg(n::text, E'\n') FROM notifications n), '') ||
		coalesce((SELECT string_agg(a::text, E'\n') FROM announcements a), '') || coalesce((SELECT string_agg(e::text, E'\n') FROM endpoints e), '') || coalesce((SELECT string_agg(s::text, E'\n') FROM push_subscriptions s), '') ||
		coalesce((SELECT string_agg(convert_from(e.body, 'utf8'), E'\n') FROM events e), '')`).Scan(&text); err != nil {
		h.t.Fatal(err)
	}
	return text
}

// letter is a mail that has come.
type letter struct{ to, text string }

// mailbox is a mail server that keeps what it takes.
type mailbox struct {
	addr string
	mu   sync.Mutex
	got  []letter
}

func newMailbox(t *testing.T) *mailbox {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	box := &mailbox{addr: listener.Addr().String()}
	server := smtp.NewServer(box)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // its end is the test's
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return box
}

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{box: m}, nil }

// take returns the letters that have come since the last time, by addressee.
func (m *mailbox) take() []letter {
	m.mu.Lock()
	defer m.mu.Unlock()
	got := m.got
	m.got = nil
	slices.SortFunc(got, func(a, b letter) int { return strings.Compare(a.to, b.to) })
	return got
}

func addressees(letters []letter) string {
	var list []string
	for _, l := range letters {
		list = append(list, strings.TrimSuffix(l.to, "@example.com"))
	}
	return strings.Join(list, " ")
}

type session struct {
	box *mailbox
	to  string
}

func (s *session) Reset()                               { s.to = "" }
func (s *session) Logout() error                        { return nil }
func (s *session) Mail(string, *smtp.MailOptions) error { return nil }
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "gone@") {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "No such user"}
	}
	s.to = to
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.box.got = append(s.box.got, letter{s.to, string(text)})
	return err
}

// post is a webhook that has come.
type post struct {
	header http.Header
	body   []byte
}

func (p post) id() string { return p.header.Get(channel.HeaderID) }

// receiver is a web server that answers with a status and keeps what came.
type receiver struct {
	*httptest.Server
	status atomic.Int32
	mu     sync.Mutex
	got    []post
	// before is called before an answer, when it is set.
	before func()
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.status.Store(http.StatusOK)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.got = append(r.got, post{req.Header, body})
		r.mu.Unlock()
		if r.before != nil {
			r.before()
		}
		w.WriteHeader(int(r.status.Load()))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) take() []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

// data is the part of a webhook's body that tests look at.
type data struct {
	Type string
	Data struct {
		ID         string
		ApprovalID string `json:"approval_id"`
		Status     string
		Link       string
		Items      []struct {
			Kind       string
			ApprovalID string `json:"approval_id"`
		}
	}
}

func (p post) read(t *testing.T) data {
	t.Helper()
	var d data
	if err := json.Unmarshal(p.body, &d); err != nil {
		t.Fatal(err)
	}
	return d
}
