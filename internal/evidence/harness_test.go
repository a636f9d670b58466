package evidence_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/engine/token"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/evidence"
	"holdpoint/internal/gate"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/rules"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
	"holdpoint/web"
	"holdpoint/web/views"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const bundle = `version: "7"
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2099-01-01T00:00:00Z"
defaults: {outcome: ALLOW}
rules:
  - id: money # </script> & <b>
    description: Money </script> leaves the company.
    match: {tool_name: "*", environment: "*"}
    outcome: ALLOW
`

// harness is a gate with people, a worker that settles, and a log that is signed.
type harness struct {
	*gate.Gate
	*admin.Admin
	t        testing.TB
	db       *storetest.Database
	settler  *gate.Settler
	people   map[string]engine.Person
	agent    access.Principal
	verifier note.Verifier
	key      string
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	ctx := context.Background()
	h := &harness{t: t, db: storetest.New(t), people: map[string]engine.Person{}}
	s, sealer := h.db.Runtime(), h.db.Sealer
	h.populate()
	b, problems := policy.Load([]byte(bundle), policy.Options{})
	if b == nil {
		t.Fatal(problems)
		return nil
	}
	must(t, second(s.Rules.Activate(ctx, store.Document{Kind: store.PolicyDocument, KnownAs: b.Digest, Body: []byte(bundle)}, "test", storetest.Event(), func(store.Replacing) ([]string, error) { return nil, nil })))
	keeper, err := rules.Open(ctx, rules.Config{
		Store: s, Environment: "test", Routing: approval.Routing{Default: approval.Rule{Role: "reviewer", Needed: 2, ExpiresIn: engine.Duration(time.Hour)}},
	})
	must(t, err)
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	ring, err := token.Ring{}.Add(seed)
	must(t, err)
	h.Gate, err = gate.New(gate.Config{Store: s, Sealer: sealer, Judge: keeper.Judge, Ring: ring, Issuer: "urn:test", MaxPending: 5000})
	must(t, err)
	h.Admin = admin.New(admin.Config{Store: s})
	h.settler = &gate.Settler{Store: s, Sealer: sealer, Rules: keeper, Validity: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	h.sequence(s)
	return h
}

// sequence has the log written and signed for as long as the test runs.
func (h *harness) sequence(s *store.Store) {
	private, public, err := audit.NewKey(rand.Reader, "evidence.example.com/log")
	must(h.t, err)
	keys, err := audit.ParseKeys(private)
	must(h.t, err)
	h.key = public
	h.verifier, err = note.NewVerifier(strings.TrimSpace(public))
	must(h.t, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		(&auditlog.Sequencer{Store: s, Keys: keys, Logger: slog.New(slog.DiscardHandler), Every: 20 * time.Millisecond}).Run(ctx)
	})
	h.t.Cleanup(func() { stop(); running.Wait() })
}

func (h *harness) populate() {
	for _, name := range []string{"ada", "ben", "cleo", "owner"} {
		h.people[name] = h.db.Person(engine.Person{Email: name + "@example.com", Name: strings.ToUpper(name[:1]) + name[1:] + " <i>", Roles: []string{"reviewer"}})
	}
	h.db.Agent("bot", "Bot \u202e</script>", h.people["owner"])
	h.agent = access.Principal{KeyID: "key_agent", AgentID: "bot", Kind: access.AgentKey, MaxState: "authenticated"}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }

// open proposes a call of a tool that somebody has to look at.
func (h *harness) open(tool, arguments string) approval.Approval {
	h.t.Helper()
	name, err := json.Marshal(tool)
	must(h.t, err)
	doc, err := canon.Parse([]byte(`{"tool_name":` + string(name) + `,"tool_category":"write","authorization_state":"none","evidence_refs":["x:1"],"risk_domain":"finance",` +
		`"proposed_arguments":` + arguments + `,"recommended_route":"accept"}`))
	must(h.t, err)
	checked, err := h.PreToolCheck(context.Background(), h.agent, doc, gate.Request{Separate: true}, nil)
	if err != nil || checked.Approval == nil {
		h.t.Fatalf("open: %s %v, %v", checked.Route, checked.Envelope.Reasons, err)
	}
	return *checked.Approval
}

// look puts the approval's card before somebody, as the console does, and returns
// its digest.
func (h *harness) look(who, id string) string {
	h.t.Helper()
	ctx := context.Background()
	card, err := h.Queries.Card(ctx, h.people[who], id, gate.Full)
	must(h.t, err)
	open := audit.Card{ApprovalID: id, Edition: card.Approval.Plan.Edition, CallDigest: card.Approval.Call.Digest, Salt: card.Salt}.Open()
	seen, err := views.RenderCard(ctx, open, web.EvidenceCard(card), audit.CardEnd)
	must(h.t, err)
	must(h.t, h.Queries.Show(ctx, h.people[who], "console", gate.SeenCard{Approval: card.Approval, Card: []byte(seen)}))
	return audit.Digest([]byte(seen))
}

func (h *harness) vote(who string, a approval.Approval, yes bool, comment string) {
	h.t.Helper()
	p := h.people[who]
	p.VerifiedBy, p.VerifiedAt = "totp", time.Now()
	v := gate.VoteRequest{Person: p, ApprovalID: a.ID, Approve: yes, Comment: comment, Digest: a.Call.Digest, Version: a.Version, Channel: "console"}
	if !yes {
		v.Denial = approval.WrongArgs
	}
	must(h.t, second(h.Contributions.Vote(context.Background(), v, nil)))
}

func (h *harness) settle(id string) {
	h.t.Helper()
	r, err := h.settler.Settle(context.Background(), id)
	if err != nil || !r.Over {
		h.t.Fatalf("settle: %+v, %v", r, err)
	}
}

func (h *harness) packer() *evidence.Packer {
	return &evidence.Packer{Store: h.Store, Sealer: h.Sealer, Exporter: &auditlog.Exporter{Store: h.Store, Keys: []string{h.key}}, Present: web.EvidenceCard}
}

func (h *harness) pack(r evidence.Request) string {
	h.t.Helper()
	r.Actor = engine.Actor{Kind: engine.HumanActor, ID: "usr_auditor", Channel: "api"}
	var out bytes.Buffer
	_, err := h.packer().Write(context.Background(), &out, r)
	must(h.t, err)
	return out.String()
}

// verify checks a pack with the log's key, and returns what is wrong with it.
func (h *harness) verify(pack string) (wrong []string, d audit.Disclosure) {
	h.t.Helper()
	report, d, err := evidence.Verify(strings.NewReader(pack), &audit.Verifier{Verifiers: []note.Verifier{h.verifier}})
	if err != nil {
		return []string{"not checked: " + err.Error()}, d
	}
	for _, p := range report.Problems {
		wrong = append(wrong, p.Error())
	}
	return wrong, d
}
