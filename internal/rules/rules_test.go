package rules_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/calendar"
	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/rules"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// place is a database, used as the runtime role would, and a directory of files.
type place struct {
	t     *testing.T
	db    *storetest.Database
	dir   string
	store *store.Store
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, db: storetest.New(t), dir: t.TempDir()}
	p.store = p.db.Runtime()
	return p
}

func (p *place) file(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p *place) config() rules.Config {
	return rules.Config{
		Store: p.store, Environment: "test", By: "test",
		Routing: approval.Routing{Default: approval.Rule{Role: "reviewer", Needed: 1, ExpiresIn: engine.Duration(time.Hour)}},
	}
}

// keep opens a keeper and follows changes.
func (p *place) keep(c rules.Config) (*rules.Keeper, chan<- os.Signal) {
	p.t.Helper()
	k, err := rules.Open(context.Background(), c)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	reload, done := make(chan os.Signal, 1), make(chan struct{})
	go func() { k.Run(ctx, reload); close(done) }()
	p.t.Cleanup(func() { cancel(); <-done })
	return k, reload
}

func doc(version, generated, outcome string) string {
	return fmt.Sprintf(`{"version":%q,"generated_at":%q,"expires_at":"2099-01-01T00:00:00Z","rules":[],"defaults":{"outcome":%q}}`, version, generated, outcome)
}

// eventually waits until what a keeper has in force is as wanted, and reports
// whether that was soon: before it looks at it whether or not anybody told it.
func eventually(t *testing.T, what string, is func() bool) (soon bool) {
	t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(began) < 5*time.Second
}

func version(k *rules.Keeper) string {
	if b := k.Judge().Policy; b != nil {
		return b.Version
	}
	return ""
}

// A file comes into force when it changes, on every process that shares the
// database; a bad one changes nothing and is told of.
func TestHotReload(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	path := p.file("policy.json", doc("1", "2026-01-01T00:00:00Z", "DENY"))
	c := p.config()
	c.PolicyFile = path
	first, reload := p.keep(c)
	other := p.config()
	other.Store = p.db.Runtime()
	second, _ := p.keep(other)
	if version(first) != "1" || version(second) != "1" || first.Judge().Digest() != second.Judge().Digest() {
		t.Fatalf("in force: %q and %q", version(first), version(second))
	}
	if body, err := p.store.Rules.Ruleset(context.Background(), first.Judge().Digest()); err != nil || string(body) != string(first.Judge().Body()) {
		t.Errorf("what decisions are judged by: %s, %v", body, err)
	}
	p.file("policy.json", doc("2", "2026-01-02T00:00:00Z", "ALLOW"))
	eventually(t, "version 2 on both", func() bool { return version(first) == "2" && version(second) == "2" })
	former := first.Judge().Digest()

	p.file("policy.json", `{"version":"3","rules":[{}]}`)
	eventually(t, "the problem is told", func() bool { return strings.Contains(first.Status().Problem, "policy.json:1:") })
	if version(first) != "2" || first.Judge().Digest() != former {
		t.Errorf("a bad file came into force: %q", version(first))
	}
	// An older one, too, and by SIGHUP as well.
	p.file("policy.json", doc("1", "2026-01-01T00:00:00Z", "DENY"))
	reload <- os.Interrupt
	eventually(t, "that it is older is told", func() bool { return strings.Contains(first.Status().Problem, "older") })
	if version(first) != "2" {
		t.Errorf("an older policy came into force: %q", version(first))
	}
	p.file("policy.json", doc("10", "2026-01-03T00:00:00Z", "DENY"))
	reload <- os.Interrupt
	eventually(t, "version 10 is newer than 2", func() bool { return version(first) == "10" && version(second) == "10" })
	eventually(t, "nothing is wrong any more", func() bool { return first.Status().Problem == "" })
	events, err := p.store.Events.List(context.Background(), store.EventFilter{Limit: 10})
	if err != nil || len(events) != 3 || events[2].Reasons[0].Code != "POLICY_ACTIVATED" || events[2].PolicyDigest != first.Judge().Policy.Digest {
		t.Errorf("%d events, %v", len(events), err)
	}
	if body, err := p.store.Rules.DocumentKnownAs(context.Background(), first.Judge().Policy.Digest); err != nil || string(body) != doc("10", "2026-01-03T00:00:00Z", "DENY") {
		t.Errorf("the document: %s, %v", body, err)
	}
}

// What changes while a process starts is known to it as soon as it follows
// changes, though nobody tells it any more.
func TestChangedWhileStarting(t *testing.T) {
	p, ctx := newPlace(t), t.Context()
	other := p.config()
	other.Store = p.db.Runtime()
	first, err := rules.Open(ctx, other)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"1", "2", "3"} {
		starting, err := rules.Open(ctx, p.config())
		if err != nil {
			t.Fatal(err)
		}
		told := p.store.Rules.Changes(ctx)
		if _, err := first.Import(ctx, store.PolicyDocument, []byte(doc(v, "2026-01-01T00:00:00Z", "DENY")), "policy.json"); err != nil {
			t.Fatal(err)
		}
		<-told
		running, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { starting.Run(running, nil); close(done) }()
		defer func() { stop(); <-done }()
		if eventually(t, "the policy is known", func() bool { return version(starting) == v }) {
			return
		}
	}
	t.Error("it is known late")
}

// A process that has yet to hear of an approval's rules, or of its agent, knows that
// it has.
func TestKeeperKnowsItIsBehind(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	p.db.Exec(`INSERT INTO agents (id, name) VALUES ('bot', 'Bot')`)
	behind, err := rules.Open(ctx, p.config())
	if err != nil {
		t.Fatal(err)
	}
	ahead, err := rules.Open(ctx, p.config())
	if err != nil {
		t.Fatal(err)
	}
	a := p.waiting("bot", "pay")
	isBehind := func() (is bool) {
		t.Helper()
		if err := p.store.Approvals.Change(ctx, a, nil, func(c *store.Change) error {
			now, err := c.Rules()
			is = behind.Behind(now)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return is
	}
	if isBehind() {
		t.Error("behind from the start")
	}
	check := func(what string) {
		t.Helper()
		if !isBehind() {
			t.Errorf("%s: it does not know that it is behind", what)
		}
		for _, k := range []*rules.Keeper{behind, ahead} {
			if err := k.CatchUp(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if isBehind() || behind.Judge().Digest() != ahead.Judge().Digest() {
			t.Errorf("%s: it is behind and has looked", what)
		}
	}
	for _, v := range []string{"1", "2"} {
		if _, err := ahead.Import(ctx, store.PolicyDocument, []byte(doc(v, "2026-01-01T00:00:00Z", "DENY")), "policy.json"); err != nil {
			t.Fatal(err)
		}
		check("policy " + v)
	}
	if _, err := ahead.Import(ctx, store.ContractsDocument, []byte("tool_contracts: {}\n"), "contracts.yaml"); err != nil {
		t.Fatal(err)
	}
	check("contracts")
	for _, change := range []string{
		`UPDATE agents SET profile = '{"trust_level":"untrusted"}' WHERE id = 'bot'`,
		`UPDATE agents SET revoked_at = now() WHERE id = 'bot'`,
		`INSERT INTO tools (name, profile) VALUES ('pay', '{"provider":"mcp"}')`,
		`UPDATE tools SET revoked_at = now() WHERE name = 'pay'`,
		`DELETE FROM tools WHERE name = 'pay'`,
		`INSERT INTO settings (body) VALUES ('{"max_delegation_depth":1}')`,
		`DELETE FROM active_documents WHERE kind = 'contracts'`,
		`INSERT INTO agents (id, name) VALUES ('boss', 'who delegates')`,
	} {
		p.db.Exec(change)
		check(change)
	}
	p.db.Exec(`INSERT INTO kill_switches (agent_id, reason, thrown_by) VALUES ('bot', 'a test', 'test')`)
	if isBehind() {
		t.Error("switches are read at every decision")
	}
}

// waiting opens an approval.
func (p *place) waiting(agentID, tool string) string {
	p.t.Helper()
	id := store.NewID("apr")
	_, err := p.store.Submit(p.t.Context(), store.Submission{
		Event: engine.Event{
			ID: uuid.NewString(), Type: engine.Decided, Outcome: engine.Allow, ApprovalID: id, AgentID: agentID, SafePayload: []byte(`{}`),
			Actor: engine.Actor{Kind: engine.AgentActor, ID: agentID},
		},
		Opening: &store.Opening{
			ID: id, Call: engine.Call{Dialect: "aana", AgentID: agentID, Tool: tool, Digest: "sha256:" + strings.Repeat("0", 64)}, MaxState: "none",
			Requirements: []engine.Requirement{{Kind: engine.Review, Role: "r", Needed: 1}}, ExpiresIn: time.Hour,
			Sealed: seal.Box{Data: []byte("x"), Key: []byte("y")}, ArgumentsSize: 2,
		},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// A process does not start with a file that is wrong; it does with one that is
// older, because somebody else has brought a newer one.
func TestStart(t *testing.T) {
	p := newPlace(t)
	for name, text := range map[string]string{
		"broken.json":  `{`,
		"arabic.json":  strings.Replace(doc("1", "2026-01-01T00:00:00Z", "DENY"), `"1"`, `"٣"`, 1),
		"nobody.json":  `{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2099-01-01T00:00:00Z","rules":[{"id":"r","description":"","match":{"tool_name":"*","environment":"*"},"outcome":"REQUIRE_HUMAN","approver_role":"finance"}],"defaults":{"outcome":"DENY"}}`,
		"expired.json": `{"version":"1","generated_at":"2020-01-01T00:00:00Z","expires_at":"2021-01-01T00:00:00Z","rules":[],"defaults":{"outcome":"ALLOW"}}`,
	} {
		c := p.config()
		c.PolicyFile = p.file(name, text)
		if _, err := rules.Open(context.Background(), c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := p.config()
	c.ContractsFile = p.file("contracts.yaml", "tool_contracts:\n  a: {allowed_request_tag: [x]}\n")
	if _, err := rules.Open(context.Background(), c); err == nil || !strings.Contains(err.Error(), "contracts.yaml:2:") {
		t.Errorf("contracts: %v", err)
	}
	c.ContractsFile = filepath.Join(p.dir, "missing.yaml")
	if _, err := rules.Open(context.Background(), c); err == nil {
		t.Error("a file that is not there")
	}
	c = p.config()
	c.PolicyFile = p.file("new.json", doc("1.10.0", "2026-01-01T00:00:00Z", "DENY"))
	p.keep(c)
	c.PolicyFile = p.file("old.json", doc("1.9.0", "2026-02-01T00:00:00Z", "ALLOW"))
	if k, _ := p.keep(c); version(k) != "1.10.0" {
		t.Errorf("in force: %q", version(k))
	}
}

// A policy may name the calendars of the settings, and no others.
func TestCalendarsOfTheSettings(t *testing.T) {
	p := newPlace(t)
	c := p.config()
	c.PolicyFile = p.file("policy.json", strings.Replace(doc("1", "2026-01-01T00:00:00Z", "DENY"), `"rules":[]`,
		`"rules":[{"id":"r","description":"","match":{"tool_name":"*","environment":"*"},"outcome":"STEP_UP","approval":{"within":"4h","calendar":"office"}}]`, 1))
	if _, err := rules.Open(context.Background(), c); err == nil || !strings.Contains(err.Error(), `there is no calendar "office"`) {
		t.Errorf("got %v", err)
	}
	c.Routing.Calendars = map[string]calendar.Calendar{"office": {TimeZone: "UTC", Hours: map[string][]string{"mon": {"09:00-17:00"}}}}
	if k, _ := p.keep(c); version(k) != "1" {
		t.Errorf("in force: %q", version(k))
	}
}

// What is no file is said so, and nobody waits for it.
func TestNoFile(t *testing.T) {
	p := newPlace(t)
	fifo := filepath.Join(p.dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, p.dir, "/dev/zero", filepath.Join(p.dir, "none")} {
		c := p.config()
		c.PolicyFile = path
		if _, err := rules.Open(context.Background(), c); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}

// A file that is still being written is left alone.
func TestHalfWrittenFile(t *testing.T) {
	p := newPlace(t)
	c := p.config()
	whole := doc("1", "2026-01-01T00:00:00Z", "DENY")
	c.PolicyFile = p.file("policy.json", whole)
	k, _ := p.keep(c)
	for tries, last := 1, 1; ; tries++ {
		former := version(k)
		began := time.Now()
		written, longest := began, time.Duration(0)
		for time.Since(began) < 2*time.Second {
			// Each state by itself would be in force.
			last++
			p.file("policy.json", doc(fmt.Sprint(last), "2026-01-02T00:00:00Z", "ALLOW"))
			longest, written = max(longest, time.Since(written)), time.Now()
			time.Sleep(10 * time.Millisecond)
		}
		got := version(k)
		longest = max(longest, time.Since(written))
		eventually(t, "the last state", func() bool { return version(k) == fmt.Sprint(last) })
		// What stands there for longer may be seen twice, and is no half of a file then.
		if longest < 400*time.Millisecond {
			if got != former {
				t.Errorf("version %s came into force while the file was being written", got)
			}
			return
		}
		if tries == 10 {
			t.Fatalf("the file cannot be written steadily: once it stood for %s", longest)
		}
	}
}

// Where there has to be a policy, there is none only by mistake.
func TestMissingPolicyRefuses(t *testing.T) {
	p := newPlace(t)
	c := p.config()
	c.PolicyFile = p.file("policy.json", doc("1", "2026-01-01T00:00:00Z", "DENY"))
	k, _ := p.keep(c)
	p.db.Exec(`DELETE FROM active_documents`)
	k.Refresh(context.Background())
	if !k.Judge().Unusable {
		t.Error("without a policy, calls are judged")
	}
}

// With a secret, only what is signed with it comes into force, from the file or
// from the database.
func TestSigned(t *testing.T) {
	p := newPlace(t)
	secret := []byte("a secret of some length")
	text := doc("1", "2026-01-01T00:00:00Z", "ALLOW")
	c := p.config()
	c.Secret, c.PolicyFile = secret, p.file("policy.json", text)
	if _, err := rules.Open(context.Background(), c); err == nil {
		t.Fatal("an unsigned policy came into force")
	}
	v, err := canon.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	signed := canon.Object(append(v.Members(), canon.Member{Name: "signature", Value: canon.String(policy.Sign(v, secret))})...)
	p.file("policy.json", string(signed.Canonical()))
	k, _ := p.keep(c)
	if version(k) != "1" || k.Judge().Unusable {
		t.Fatalf("signed: %q", version(k))
	}
	// Somebody with another secret, or the database's own hand, does not pass.
	c.PolicyFile, c.Secret = "", []byte("quite another secret")
	k, _ = p.keep(c)
	if !k.Judge().Unusable || !strings.Contains(k.Status().Problem, "every call is refused") {
		t.Errorf("another secret: %+v", k.Status())
	}
}

// While one secret follows another, what either has signed is in force and comes into
// force; a policy can be signed anew without a change of its version.
func TestSecretsOverlap(t *testing.T) {
	p := newPlace(t)
	former, secret := []byte("a secret of some length"), []byte("the secret that follows it")
	v, err := canon.Parse([]byte(doc("1", "2026-01-01T00:00:00Z", "ALLOW")))
	if err != nil {
		t.Fatal(err)
	}
	signed := func(by []byte) string {
		return p.file("policy.json", string(canon.Object(append(v.Members(), canon.Member{Name: "signature", Value: canon.String(policy.Sign(v, by))})...).Canonical()))
	}
	c := p.config()
	for _, step := range []struct {
		name, file           string
		secret, formerSecret []byte
		usable               bool
	}{
		{"before", signed(former), former, nil, true},
		{"both, signed by the former", "", secret, former, true},
		{"the former is gone too early", "", secret, nil, false},
		{"both, signed by the new one", "anew", secret, former, true},
		{"the former is gone", "", secret, nil, true},
		{"put back", "", former, nil, false},
	} {
		if step.file == "anew" {
			step.file = signed(secret)
		}
		c.PolicyFile, c.Secret, c.FormerSecret = step.file, step.secret, step.formerSecret
		k, _ := p.keep(c)
		if got := !k.Judge().Unusable; got != step.usable {
			t.Errorf("%s: usable %v, want %v: %s", step.name, got, step.usable, k.Status().Problem)
		}
	}
}

// A document that was changed behind our back is not used.
func TestTamperedDocument(t *testing.T) {
	p := newPlace(t)
	c := p.config()
	c.PolicyFile = p.file("policy.json", doc("1", "2026-01-01T00:00:00Z", "DENY"))
	k, _ := p.keep(c)
	p.db.Exec(`ALTER TABLE documents DISABLE TRIGGER documents_append_only`)
	p.db.Exec(`ALTER TABLE documents DROP CONSTRAINT documents_check`)
	p.db.Exec(`UPDATE documents SET body = $1`, []byte(doc("1", "2026-01-01T00:00:00Z", "ALLOW")))
	k.Refresh(context.Background())
	c.PolicyFile = ""
	again, _ := p.keep(c)
	for _, k := range []*rules.Keeper{k, again} {
		if !k.Judge().Unusable || !strings.Contains(k.Status().Problem, "changed") || k.Usable(context.Background()) == nil {
			t.Errorf("got %+v", k.Status())
		}
	}
}

// What is registered, or put in force, on one gate is soon known on the other.
func TestRegistryIsShared(t *testing.T) {
	p, ctx := newPlace(t), t.Context()
	first, _ := p.keep(p.config())
	other := p.config()
	other.Store = p.db.Runtime()
	second, _ := p.keep(other)
	r := admin.New(admin.Config{Store: p.store, Owner: true})
	by := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "test"}}
	stops := second.Stops(ctx)
	for i, bot := range []string{"bot", "cat", "dog"} {
		p.db.Exec(`INSERT INTO agents (id, name) VALUES ($1, $1)`, bot)
		agent := eventually(t, "the agent is known to both", func() bool {
			_, a := first.Judge().Registry.Agents[bot]
			_, b := second.Judge().Registry.Agents[bot]
			return a && b
		})
		if err := r.Registry.ThrowKillSwitch(ctx, by, bot, "", nil); err != nil {
			t.Fatal(err)
		}
		kill := eventually(t, "the switch is known to both", func() bool {
			_, here := first.Judge().Registry.Killed(bot)
			_, there := second.Judge().Registry.Killed(bot)
			return here && there
		})
		<-stops // whoever shows switches is told, once they are known
		v := fmt.Sprint(i + 1)
		if _, err := first.Import(ctx, store.PolicyDocument, []byte(doc(v, "2026-01-01T00:00:00Z", "DENY")), "policy.json"); err != nil {
			t.Fatal(err)
		}
		document := eventually(t, "the policy is known to both", func() bool { return version(first) == v && version(second) == v })
		if agent && kill && document {
			return
		}
	}
	t.Error("not all of it is known soon")
}

// What is wrong with a file is told for as long as it is wrong, whatever else
// changes meanwhile; and no longer, also when the file was only away.
func TestProblemStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	good := doc("1", "2026-01-01T00:00:00Z", "DENY")
	path := p.file("policy.json", good)
	c := p.config()
	c.PolicyFile = path
	c.ContractsFile = p.file("contracts.yaml", "tool_contracts: {}\n")
	k, _ := p.keep(c)
	p.file("policy.json", `{"version":"2","rules":[{}]}`)
	eventually(t, "the problem is told", func() bool { return strings.Contains(k.Status().Problem, "policy.json:1:") })
	former := k.Status().Digest
	p.file("contracts.yaml", "tool_contracts:\n  lookup: {allowed_request_tags: [public]}\n")
	eventually(t, "other contracts are in force", func() bool { return k.Status().Digest != former })
	if s := k.Status(); !strings.Contains(s.Problem, "policy.json:1:") {
		t.Errorf("not told any more: %q", s.Problem)
	}
	p.file("policy.json", good)
	eventually(t, "nothing is wrong any more", func() bool { return k.Status().Problem == "" })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "that it is gone is told", func() bool { return strings.Contains(k.Status().Problem, "no such file") })
	p.file("policy.json", good)
	eventually(t, "that it is there again is seen", func() bool { return k.Status().Problem == "" })
}
