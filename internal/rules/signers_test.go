package rules_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/engine/sshsig"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/rules"
	"holdpoint/internal/store"
)

// guild are people who sign policies, beside the committee that approves them.
type guild struct {
	*place
	people map[string]engine.Person
	owner  *store.Store
	admin  *admin.Admin
	op     access.Initiator
}

// newGuild has ada, ben, ben2 (who is ben) and cleo with the role, and dan without. Nobody has a
// key yet.
func newGuild(t *testing.T) *guild {
	t.Helper()
	g := &guild{place: newPlace(t), people: map[string]engine.Person{}, op: access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "op", Channel: "cli"}}}
	for _, name := range []string{"ada", "ben", "cleo", "dan"} {
		role := "policy-owner"
		if name == "dan" {
			role = "reviewer"
		}
		g.people[name] = g.db.Person(engine.Person{Name: name, Roles: []string{role}})
	}
	g.people["ben2"] = g.db.Person(engine.Person{Name: "ben2", Identity: g.people["ben"].Identity, Roles: []string{"policy-owner"}})
	g.owner = g.db.Owner()
	g.admin = admin.New(admin.Config{Store: g.owner, Owner: true})
	return g
}

// key is the key of a name, which is the same every time.
func (g *guild) key(name string) ssh.Signer {
	g.t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, name)
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

// register makes keys of names people's.
func (g *guild) register(whose string, names ...string) {
	g.t.Helper()
	for _, name := range names {
		if _, err := g.admin.Changes.AddSigner(g.t.Context(), g.op, g.people[whose].Email, ssh.MarshalAuthorizedKey(g.key(name).PublicKey())); err != nil {
			g.t.Fatal(err)
		}
	}
}

// signedFor is a version of the policy with signatures by the keys of names for an environment.
func (g *guild) signedFor(environment, version string, names ...string) string {
	g.t.Helper()
	return g.sign(environment, doc(version, "2026-02-01T00:00:00Z", "ALLOW"), names...)
}

func (g *guild) sign(environment, text string, names ...string) string {
	g.t.Helper()
	v, err := canon.Parse([]byte(text))
	if err != nil {
		g.t.Fatal(err)
	}
	for _, name := range names {
		b, problems := policy.Compile(v, policy.Options{})
		if b == nil {
			g.t.Fatal(problems)
		}
		statement := policy.Statement(b.Digest, environment)
		blob, err := sshsig.Sign(nil, g.key(name), policy.SignatureNamespace, statement)
		if err != nil {
			g.t.Fatal(err)
		}
		key, err := sshsig.Verify(blob, policy.SignatureNamespace, statement)
		if err != nil {
			g.t.Fatal(err)
		}
		members := slices.DeleteFunc(slices.Clone(v.Members()), func(m canon.Member) bool { return m.Name == "signed_by" })
		v = canon.Object(append(members, canon.Member{Name: "signed_by", Value: policy.SignedBy(v, environment, blob, key)})...)
	}
	return string(v.Canonical())
}

func (g *guild) require(needed int) error {
	return rules.RequireSignatures(g.t.Context(), g.owner, g.op, "test", approval.Rule{Role: "policy-owner", Needed: needed})
}

func (g *guild) require2() {
	g.t.Helper()
	if err := g.require(2); err != nil {
		g.t.Fatal(err)
	}
}

// TestPolicyTakesSignatures: where it is required, no policy comes into force without the
// signatures of enough people, whichever way, and the refusal says who is missing.
func TestPolicyTakesSignatures(t *testing.T) {
	t.Parallel()
	g := newGuild(t)
	ctx := t.Context()
	c := g.config()
	c.Sealer, c.PolicyFile = g.db.Sealer, g.file("policy.json", doc("1", "2026-01-01T00:00:00Z", "DENY"))
	k, _ := g.keep(c)
	imports := func(text string) error {
		_, err := k.Import(ctx, store.PolicyDocument, []byte(text), "p.json")
		return err
	}
	// It is not required of a policy that has not the signatures: the gate would be locked out.
	if err := g.require(2); !errors.Is(err, rules.ErrSignatures) || !strings.Contains(err.Error(), "nobody else could sign") {
		t.Fatalf("required of a policy without: %v", err)
	}
	g.register("ada", "ada", "ada's other")
	g.register("ben", "ben")
	g.register("ben2", "ben2")
	g.register("cleo", "cleo")
	g.register("dan", "dan")
	if err := g.require(2); !errors.Is(err, rules.ErrSignatures) || !strings.Contains(err.Error(), "missing: 2 of ada, ben, cleo") {
		t.Fatalf("required of a policy without: %v", err)
	}
	// An unsigned one comes into force until then, and a signed one is on record as that.
	if err := imports(g.sign("test", doc("1", "2026-01-02T00:00:00Z", "DENY"), "ada", "ben")); err != nil {
		t.Fatal(err)
	}
	g.require2()
	if err := g.require(3); !errors.Is(err, rules.ErrSignatures) {
		t.Fatalf("more were required than the policy in force has: %v", err)
	}

	one := g.signedFor("test", "2", "ada")
	entry, _ := value(t, one).Get("signed_by")
	for name, tt := range map[string]struct{ text, says string }{
		"none":                       {g.signedFor("test", "2"), "none counts; missing: 2 of ada, ben, cleo"},
		"of one":                     {one, "1 counts: by ada; missing: 1 of ben, cleo"},
		"two keys of a person":       {g.signedFor("test", "2", "ada", "ada's other"), "1 counts: by ada;"},
		"two accounts of a person":   {g.signedFor("test", "2", "ben", "ben2"), "1 counts: by ben;"},
		"of somebody without role":   {g.signedFor("test", "2", "ada", "dan"), "(dan) does not: they have not the role policy-owner"},
		"of nobody known":            {g.signedFor("test", "2", "ada", "mallory"), "(somebody unknown) does not: nobody has registered the key"},
		"for another environment":    {g.signedFor("staging", "2", "ada", "ben"), "it is signed for staging"},
		"of another version":         {strings.Replace(g.signedFor("test", "2", "ada", "ben"), `"version":"2"`, `"version":"3"`, 1), "none counts"},
		"of other rules":             {strings.Replace(g.signedFor("test", "2", "ada", "ben"), "ALLOW", "DENY", 1), "none counts"},
		"one of them twice":          {twice(t, one, entry), "1 counts: by ada"},
		"taken off one that has two": {g.sign("test", `{"signed_by":[],`+doc("2", "2026-02-01T00:00:00Z", "ALLOW")[1:], "ada"), "1 counts: by ada"},
	} {
		if err := imports(tt.text); !errors.Is(err, rules.ErrSignatures) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("signatures %s: %v, want one line that says %q", name, err, tt.says)
		}
		if _, err := k.ActivateAround(ctx, g.op, store.PolicyDocument, []byte(tt.text), "p.json", "an emergency"); !errors.Is(err, rules.ErrSignatures) {
			t.Errorf("signatures %s, by command: %v", name, err)
		}
	}
	if version(k) != "1" || k.Usable(ctx) != nil {
		t.Fatalf("in force: %s, %v", version(k), k.Usable(ctx))
	}
	// A file waits for them, and is looked at again when somebody's key is registered.
	c.Logger = nil
	g.file("policy.json", g.signedFor("test", "2", "ada", "cleo's new one"))
	eventually(t, "the file waits", func() bool { return strings.Contains(k.Status().Problem, "nobody has registered") })
	g.register("cleo", "cleo's new one")
	eventually(t, "version 2", func() bool { return version(k) == "2" && k.Status().Problem == "" })

	// Who leaves signs nothing more, and what they have signed goes on: also for a process that
	// starts then, with the very file or an unsigned one.
	if err := g.admin.Changes.RevokeSigner(ctx, g.op, fingerprintOf(g.key("cleo's new one"))); err != nil {
		t.Fatal(err)
	}
	if _, err := g.admin.People.Disable(ctx, g.op, g.people["ada"].Email, nil); err != nil {
		t.Fatal(err)
	}
	if err := imports(g.signedFor("test", "3", "ada", "ben", "cleo's new one")); err == nil || !strings.Contains(err.Error(), "(ada) does not: the account is disabled") ||
		!strings.Contains(err.Error(), "(cleo) does not: the key is revoked") || !strings.Contains(err.Error(), "1 counts: by ben; ") || !strings.Contains(err.Error(), "missing: cleo") {
		t.Errorf("signed by who has left: %v", err)
	}
	for name, text := range map[string]string{"the very file": g.signedFor("test", "2", "ada", "cleo's new one"), "unsigned": doc("4", "2026-03-01T00:00:00Z", "ALLOW")} {
		other := c
		other.Store, other.PolicyFile = g.db.Runtime(), g.file("other.json", text)
		second, err := rules.Open(ctx, other)
		if err != nil || version(second) != "2" || second.Usable(ctx) != nil || (second.Status().Problem == "") != (name == "the very file") {
			t.Errorf("a process starts with %s: %v", name, err)
		}
	}
	// A process for another environment judges by nothing that was signed for this one.
	other := c
	other.Store, other.Environment, other.PolicyFile = g.db.Runtime(), "production", ""
	second, err := rules.Open(ctx, other)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Usable(ctx); err == nil || !strings.Contains(err.Error(), "signatures are missing") {
		t.Errorf("a process for another environment judges by it: %v", err)
	}

	events, err := g.store.Events.List(ctx, store.EventFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range events {
		var payload struct {
			SignedBy []struct{ Person, Key string } `json:"signed_by"`
		}
		if len(e.Reasons) == 0 || e.Reasons[0].Code != "POLICY_ACTIVATED" {
			continue
		}
		if err := json.Unmarshal(e.SafePayload, &payload); err != nil {
			t.Fatal(err)
		}
		for _, s := range payload.SignedBy {
			told = append(told, s.Person+" "+s.Key)
		}
	}
	want := []string{
		g.people["ada"].ID + " " + fingerprintOf(g.key("ada")), g.people["ben"].ID + " " + fingerprintOf(g.key("ben")),
		g.people["ada"].ID + " " + fingerprintOf(g.key("ada")), g.people["cleo"].ID + " " + fingerprintOf(g.key("cleo's new one")),
	}
	if !slices.Equal(told, want) {
		t.Errorf("the log says that it was signed by %q, want %q", told, want)
	}
	list, err := k.Editions(ctx, store.PolicyDocument)
	if err != nil || list[0].SignedBy != "ada, cleo" || list[1].SignedBy != "ada, ben" || list[len(list)-1].SignedBy != "" {
		t.Errorf("the history: %+v, %v", list, err)
	}
}

// TestForgedSignatures: whoever has the login of serve makes no policy one that people have signed.
func TestForgedSignatures(t *testing.T) {
	t.Parallel()
	g := newGuild(t)
	ctx := t.Context()
	g.register("ada", "ada")
	g.register("ben", "ben")
	g.register("cleo", "cleo")
	c := g.config()
	c.Sealer, c.PolicyFile = g.db.Sealer, g.file("policy.json", g.signedFor("test", "1", "ada", "ben", "cleo"))
	k, _ := g.keep(c)
	g.require2()
	if err := g.admin.Changes.RevokeSigner(ctx, g.op, fingerprintOf(g.key("cleo"))); err != nil {
		t.Fatal(err)
	}
	conn := g.db.Connect(g.db.RuntimeURL)
	put := func(text string, keys ...string) error {
		b, problems := policy.Load([]byte(text), policy.Options{})
		if b == nil {
			t.Fatal(problems)
		}
		d := store.Document{Kind: store.PolicyDocument, KnownAs: b.Digest, Body: []byte(text)}
		if _, err := conn.Exec(ctx, `INSERT INTO documents (digest, kind, known_as, body) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, d.Digest(), d.Kind, d.KnownAs, d.Body); err != nil {
			t.Fatal(err)
		}
		for i, name := range keys {
			keys[i] = fingerprintOf(g.key(name))
		}
		_, err := conn.Exec(ctx, `INSERT INTO active_documents (kind, digest, activated_by, signed_by) VALUES ('policy', $1, 'x', $2)
			ON CONFLICT (kind) DO UPDATE SET digest = excluded.digest, signed_by = excluded.signed_by`, d.Digest(), append([]string{}, keys...))
		return err
	}
	unsigned := doc("2", "2026-03-01T00:00:00Z", "ALLOW")
	for _, sql := range []string{
		`INSERT INTO policy_signers (fingerprint, person_id, public_key) SELECT 'SHA256:' || repeat('a', 43), id, 'x' FROM people LIMIT 1`,
		`UPDATE policy_signers SET revoked_at = NULL`, `DELETE FROM policy_signers`, `DELETE FROM guarded_documents`,
		`UPDATE active_documents SET signed_by = '{}'`,
	} {
		if _, err := conn.Exec(ctx, sql); err == nil {
			t.Errorf("the runtime role may: %s", sql)
		}
	}
	if _, err := conn.Exec(ctx, `CREATE TEMPORARY TABLE policy_signers (fingerprint text, person_id text, revoked_at timestamptz)`); err == nil {
		t.Error("a table stands in front of ours")
	}
	for name, keys := range map[string][]string{
		"nobody": nil, "one": {"ada"}, "one twice": {"ada", "ada"}, "a revoked key": {"ada", "cleo"}, "an unknown key": {"ada", "mallory"},
		"enough, and a revoked key": {"ada", "ben", "cleo"}, "enough, and an unknown key": {"ada", "ben", "mallory"},
	} {
		if err := put(unsigned, keys...); err == nil {
			t.Errorf("the runtime role put a policy in force that is said to be signed by %s", name)
		}
	}
	// As older programs do, which know of no signatures.
	if _, err := conn.Exec(ctx, `INSERT INTO active_documents (kind, digest, activated_by) SELECT 'policy', digest, 'x' FROM documents WHERE body = $1 ON CONFLICT (kind) DO UPDATE SET digest = excluded.digest`, []byte(unsigned)); err == nil {
		t.Error("an older program put an unsigned policy in force")
	}
	if k.Refresh(ctx); version(k) != "1" || k.Usable(ctx) != nil {
		t.Fatalf("in force: %s, %v", version(k), k.Usable(ctx))
	}
	// Said to be signed by people who could, it is in force and judges nothing.
	for i, text := range []string{unsigned, g.signedFor("staging", "3", "ada", "ben"), g.signedFor("test", "4", "ada"), g.signedFor("test", "5", "ada", "cleo")} {
		if err := put(text, "ada", "ben"); err != nil {
			t.Fatal(err)
		}
		k.Refresh(ctx)
		if err := k.Usable(ctx); err == nil || !strings.Contains(err.Error(), "signatures are missing") {
			t.Errorf("forgery %d is judged by: %v", i, err)
		}
	}
	if err := put(g.signedFor("test", "6", "ada", "ben"), "ada", "ben"); err != nil {
		t.Fatal(err)
	}
	if k.Refresh(ctx); version(k) != "6" || k.Usable(ctx) != nil {
		t.Errorf("what people have signed: %s, %v", version(k), k.Usable(ctx))
	}
	// What was replaced does not come back, however well it is signed, and nothing is said to be in force that was not.
	if err := put(g.signedFor("test", "1", "ada", "ben", "cleo"), "ada", "ben"); err == nil {
		t.Error("the runtime role put a policy in force that was replaced")
	}
	if _, err := conn.Exec(ctx, `UPDATE active_documents SET former = '{}'`); err == nil {
		t.Error("the runtime role forgets what was in force")
	}
	again := g.signedFor("test", "6", "ada", "ben") // of the same version, so that none is older
	if err := put(g.sign("test", doc("6", "2026-02-01T00:00:00Z", "DENY"), "ada", "ben"), "ada", "ben"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Import(ctx, store.PolicyDocument, []byte(again), "policy.json"); !errors.Is(err, rules.ErrOlder) || !strings.Contains(err.Error(), "a newer version only") {
		t.Errorf("a policy that was replaced: %v", err)
	}
	// It ends by the owner's word, on record.
	if err := g.admin.Changes.NoApproval(ctx, g.op, store.SignaturesRule, "incident 4711"); err != nil {
		t.Fatal(err)
	}
	if err := put(unsigned); err != nil {
		t.Errorf("when nobody has to sign: %v", err)
	}
}

// TestSignaturesOfAProposal: what people approve has to be signed when it is proposed, and when it
// comes into force.
func TestSignaturesOfAProposal(t *testing.T) {
	t.Parallel()
	c := newCommittee(t, owners(1, time.Hour))
	g := &guild{place: c.place, people: c.people, owner: c.db.Owner(), op: access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "op", Channel: "cli"}}}
	g.admin = admin.New(admin.Config{Store: g.owner, Owner: true})
	g.register("ada", "ada")
	g.register("ben", "ben")
	cfg := c.config()
	cfg.Store, cfg.Sealer = g.owner, c.db.Sealer
	byOwner, err := rules.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := byOwner.ActivateAround(t.Context(), g.op, store.PolicyDocument, []byte(g.sign("test", doc("1", "2026-01-02T00:00:00Z", "DENY"), "ada", "ben")), "p.json", "signed"); err != nil {
		t.Fatal(err)
	}
	g.require2()
	who := c.people["ben"]
	propose := func(text string) (string, error) {
		opened, err := rules.RefusingKeeper{Keeper: c.k}.Propose(t.Context(), rules.Proposal{
			Kind: store.PolicyDocument, Data: []byte(text), Name: "new.json", Reason: "because", Author: &who,
			By: access.Initiator{Actor: engine.Actor{Kind: engine.HumanActor, ID: who.ID, Channel: "console"}},
		})
		return opened.ApprovalID, err
	}
	_, err = propose(g.signedFor("test", "2", "ben"))
	var refused *access.Refusal
	if !errors.As(err, &refused) || refused.Code != "signatures_missing" || refused.Kind != access.Conflict || !strings.Contains(refused.Detail, "missing: ada") {
		t.Fatalf("proposed without: %v", err)
	}
	approve := func(version string) string {
		id, err := propose(g.signedFor("test", version, "ada", "ben"))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.vote("ada", id, true); got != "" {
			t.Fatal(got)
		}
		return id
	}
	id := approve("2")
	if c.settle(id); c.state(id) != "approved, succeeded" {
		t.Fatal(c.state(id))
	}
	eventually(t, "version 2", func() bool { return version(c.k) == "2" && c.k.Usable(t.Context()) == nil })
	// A key that is revoked while people decide does not count when they have.
	id = approve("3")
	if err := g.admin.Changes.RevokeSigner(t.Context(), g.op, fingerprintOf(g.key("ben"))); err != nil {
		t.Fatal(err)
	}
	c.settle(id)
	if got := c.get(id).Approval; got.Status != approval.Denied || !strings.Contains(got.Reasons[0].Message, "the key is revoked") {
		t.Errorf("signed by a key that was revoked meanwhile: %s, %v", got.Status, got.Reasons)
	}
	if version(c.k) != "2" {
		t.Errorf("in force: %s", version(c.k))
	}
	c.codes()
}

func fingerprintOf(s ssh.Signer) string { return ssh.FingerprintSHA256(s.PublicKey()) }

func value(t *testing.T, text string) canon.Value {
	t.Helper()
	v, err := canon.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// twice is a policy whose one signature stands there twice.
func twice(t *testing.T, text string, signatures canon.Value) string {
	t.Helper()
	members := slices.DeleteFunc(slices.Clone(value(t, text).Members()), func(m canon.Member) bool { return m.Name == "signed_by" })
	list := canon.Array(signatures.At(0), signatures.At(0))
	return string(canon.Object(append(members, canon.Member{Name: "signed_by", Value: list})...).Canonical())
}
