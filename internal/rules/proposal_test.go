package rules_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/token"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/rules"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// committee are people who approve changes of the policy.
type committee struct {
	*place
	k       *rules.Keeper
	gate    *gate.Gate
	settler *gate.Settler
	people  map[string]engine.Person
}

// newCommittee has version 1 in force, and changes of it wait for as many policy owners. ben
// and ben2 are one human being.
func newCommittee(t *testing.T, rule approval.Rule) *committee {
	t.Helper()
	c := &committee{place: newPlace(t), people: map[string]engine.Person{}}
	cfg := c.config()
	cfg.Sealer, cfg.PolicyFile = c.db.Sealer, c.file("policy.json", doc("1", "2026-01-01T00:00:00Z", "DENY"))
	c.k, _ = c.keep(cfg)
	for _, name := range []string{"ada", "ben", "cleo", "stranger"} {
		role := "policy-owner"
		if name == "stranger" {
			role = "reviewer"
		}
		c.people[name] = c.db.Person(engine.Person{Name: name, Roles: []string{role}})
	}
	c.people["ben2"] = c.db.Person(engine.Person{Name: "ben2", Identity: c.people["ben"].Identity, Roles: []string{"policy-owner"}})
	ring, err := token.Ring{}.Add(make([]byte, ed25519.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	if c.gate, err = gate.New(gate.Config{Store: c.store, Sealer: c.db.Sealer, Judge: c.k.Judge, Ring: ring, Issuer: "urn:test"}); err != nil {
		t.Fatal(err)
	}
	c.settler = &gate.Settler{Store: c.store, Sealer: c.db.Sealer, Rules: c.k, Documents: c.k, Validity: time.Hour, Logger: c.k.Logger}
	c.guard(rule)
	return c
}

func (c *committee) guard(rule approval.Rule) {
	c.t.Helper()
	changes := admin.New(admin.Config{Store: c.db.Owner(), Owner: true}).Changes
	if err := changes.RequireApproval(c.t.Context(), access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "op", Channel: "cli"}}, store.PolicyDocument, rule); err != nil {
		c.t.Fatal(err)
	}
}

// owners is a rule for so many policy owners.
func owners(n int, expires time.Duration) approval.Rule {
	return approval.Rule{Role: "policy-owner", Needed: n, ExpiresIn: engine.Duration(expires)}
}

// propose proposes a version, written by somebody, and returns its approval.
func (c *committee) propose(author, version string, from time.Time) string {
	c.t.Helper()
	who := c.people[author]
	opened, err := c.k.Propose(c.t.Context(), rules.Proposal{
		Kind: store.PolicyDocument, Data: []byte(doc(version, "2026-02-01T00:00:00Z", "ALLOW")), Name: "new.json", Reason: "because", From: from, Author: &who,
		By: access.Initiator{Actor: engine.Actor{Kind: engine.HumanActor, ID: who.ID, Channel: "console"}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return opened.ApprovalID
}

func (c *committee) get(id string) store.Record {
	c.t.Helper()
	r, err := c.store.Approvals.Get(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// vote votes with a fresh proof, and returns the code of the refusal.
func (c *committee) vote(who, id string, yes bool) string {
	c.t.Helper()
	person, a := c.people[who], c.get(id).Approval
	person.VerifiedBy, person.VerifiedAt = "totp", c.store.Clock()
	v := gate.VoteRequest{Person: person, ApprovalID: id, Approve: yes, Digest: a.Call.Digest, Version: a.Version, Channel: "api"}
	if !yes {
		v.Denial = approval.NotNow
	}
	_, err := c.gate.Contributions.Vote(c.t.Context(), v, nil)
	var refused *access.Refusal
	if errors.As(err, &refused) {
		return refused.Code
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return ""
}

func (c *committee) settle(id string) gate.Settlement {
	c.t.Helper()
	s, err := c.settler.Settle(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// state is how an approval stands, and what became of the change.
func (c *committee) state(id string) string {
	c.t.Helper()
	a := c.get(id).Approval
	return fmt.Sprintf("%s, %s", a.Status, a.Execution)
}

// codes are the reasons of all events, and what is wrong with them as a log.
func (c *committee) codes() string {
	c.t.Helper()
	events, err := c.store.Events.List(c.t.Context(), store.EventFilter{Limit: 1000})
	if err != nil {
		c.t.Fatal(err)
	}
	var codes []string
	log := audit.Replay{Whole: true}
	for _, e := range events {
		if err := log.Event(e); err != nil {
			c.t.Errorf("the log: %s: %v", e.Type, err)
		}
		for _, r := range e.Reasons {
			codes = append(codes, r.Code)
		}
	}
	return strings.Join(codes, " ")
}

// A change of the policy comes into force when somebody else than its author has approved it,
// and not before; what was meant as a change of the former policy ends with it.
func TestChangeTakesAnApproval(t *testing.T) {
	t.Parallel()
	c := newCommittee(t, owners(1, time.Hour))
	// What a file has is proposed, once, and takes one person more: nobody knows whose it is.
	c.file("policy.json", doc("2", "2026-01-02T00:00:00Z", "ALLOW"))
	eventually(t, "the file is proposed", func() bool { return strings.Contains(c.k.Status().Problem, "waits for 2 × policy-owner") })
	if _, err := c.k.Import(t.Context(), store.PolicyDocument, []byte(doc("2", "2026-01-02T00:00:00Z", "ALLOW")), "policy.json"); !errors.Is(err, rules.ErrProposed) || !strings.Contains(err.Error(), "waits") {
		t.Errorf("imported again: %v", err)
	}
	var byFile string
	if err := c.db.Connect(c.db.URL).QueryRow(t.Context(), `SELECT id FROM approvals WHERE proposes IS NOT NULL`).Scan(&byFile); err != nil {
		t.Fatal(err) // one row
	}
	id := c.propose("ben", "3", time.Time{})
	if version(c.k) != "1" {
		t.Fatalf("in force: %s", version(c.k))
	}
	for _, step := range []struct{ who, want string }{{"ben", "self_review"}, {"ben2", "self_review"}, {"stranger", "not_found"}, {"ada", ""}, {"cleo", "already_decided"}} {
		if got := c.vote(step.who, id, true); got != step.want {
			t.Errorf("%s votes: %q, want %q", step.who, got, step.want)
		}
	}
	if s := c.settle(id); !s.Over || c.state(id) != "approved, succeeded" {
		t.Fatalf("%+v, %s", s, c.state(id))
	}
	eventually(t, "version 3", func() bool { return version(c.k) == "3" })
	other := c.config()
	other.Store, other.Sealer = c.db.Runtime(), c.db.Sealer
	if second, err := rules.Open(t.Context(), other); err != nil || version(second) != "3" || second.Usable(t.Context()) != nil {
		t.Errorf("another process: %v", err)
	}
	// Approved once is in force once.
	if s := c.settle(id); !s.Over || c.state(id) != "approved, succeeded" {
		t.Errorf("settled again: %+v, %s", s, c.state(id))
	}
	for _, who := range []string{"ada", "ben"} {
		if got := c.vote(who, byFile, true); got != "" {
			t.Fatal(got)
		}
	}
	c.settle(byFile)
	if got := c.get(byFile).Approval; got.Status != approval.Denied || got.Reasons[0].Code != "policy_changed" {
		t.Errorf("what was proposed in place of version 1: %s, %v", got.Status, got.Reasons)
	}
	if got := c.codes(); version(c.k) != "3" || strings.Count(got, "POLICY_ACTIVATED") != 2 || !strings.Contains(got, "RULES_GUARDED") {
		t.Errorf("in force: %s; %s", version(c.k), got)
	}
}

// What is denied or not decided in time leaves the present policy in force, also when a file
// goes on holding it.
func TestChangeDeniedAndExpired(t *testing.T) {
	t.Parallel()
	c := newCommittee(t, owners(1, time.Hour))
	id := c.propose("ben", "2", time.Time{})
	if got := c.vote("ada", id, false); got != "" {
		t.Fatal(got)
	}
	c.settle(id)
	// The file has just what was denied.
	c.file("policy.json", doc("2", "2026-02-01T00:00:00Z", "ALLOW"))
	eventually(t, "the denial is told", func() bool { return strings.Contains(c.k.Status().Problem, id+" ended as denied") })
	c.guard(owners(1, time.Second))
	late := c.propose("ben", "4", time.Time{})
	eventually(t, "it expires", func() bool { return c.settle(late).Over })
	if c.state(id) != "denied, none" || c.state(late) != "expired, none" || version(c.k) != "1" {
		t.Errorf("%s; %s; in force: %s", c.state(id), c.state(late), version(c.k))
	}
	c.codes()
}

// A change comes into force at its time, if what it replaces is in force then, and if people
// were asked for all that the rule asks for then.
func TestChangeInTime(t *testing.T) {
	t.Parallel()
	c := newCommittee(t, owners(1, time.Hour))
	from := c.store.Clock().Add(8 * time.Second).Truncate(time.Second)
	soon, later := c.propose("ben", "2", from), c.propose("ben", "3", from.Add(time.Hour))
	// A slow machine may get to the end of this after its time: then it says nothing.
	early := func(wrong bool) bool { return wrong && c.store.Clock().Before(from) }
	for _, id := range []string{later, soon} { // once version 2 is in force, 3 would follow another than it was made for
		if got := c.vote("ada", id, true); got != "" {
			t.Fatal(got)
		}
		if s := c.settle(id); (id == later || early(s.Over)) && (s.Over || s.WakeIn <= 0 || c.state(id) != "approved, redeemed") {
			t.Fatalf("%+v, %s", s, c.state(id))
		}
	}
	if early(version(c.k) != "1") {
		t.Fatalf("in force before its time: %s", version(c.k))
	}
	eventually(t, "its time comes", func() bool { return c.settle(soon).Over })
	eventually(t, "version 2", func() bool { return version(c.k) == "2" })
	if c.state(soon) != "approved, succeeded" || c.state(later) != "approved, redeemed" {
		t.Errorf("%s; %s", c.state(soon), c.state(later))
	}
	// A stricter rule counts for what waits.
	id := c.propose("ben", "4", time.Time{})
	if got := c.vote("ada", id, true); got != "" {
		t.Fatal(got)
	}
	c.guard(owners(2, time.Hour))
	c.settle(id)
	if c.state(id) != "denied, none" || version(c.k) != "2" {
		t.Errorf("%s, in force: %s", c.state(id), version(c.k))
	}
	c.codes()
}

// The runtime role puts in force nothing that people have not approved, however many rows it
// writes: the database refuses what it can see, and every process refuses to judge by the rest.
func TestForgedChanges(t *testing.T) {
	t.Parallel()
	c := newCommittee(t, owners(1, time.Hour))
	ctx, conn := t.Context(), c.db.Connect(c.db.RuntimeURL)
	exec := func(sql string, args ...any) error { _, err := conn.Exec(ctx, sql, args...); return err }
	d := store.Document{Kind: store.PolicyDocument, KnownAs: "sha256:" + strings.Repeat("0", 64), Body: []byte(doc("9", "2026-03-01T00:00:00Z", "ALLOW"))}
	if err := exec(`INSERT INTO documents (digest, kind, known_as, body) VALUES ($1, $2, $3, $4)`, d.Digest(), d.Kind, d.KnownAs, d.Body); err != nil {
		t.Fatal(err)
	}
	waiting := c.propose("ben", "2", time.Time{})
	for _, sql := range []string{
		`UPDATE active_documents SET digest = $1, approval_id = NULL`,
		`UPDATE active_documents SET digest = $1`,
		`INSERT INTO active_documents (kind, digest, activated_by) VALUES ('policy', $1, 'x') ON CONFLICT (kind) DO UPDATE SET digest = excluded.digest`,
		`UPDATE active_documents SET digest = (SELECT proposes FROM approvals WHERE id = '` + waiting + `'), approval_id = '` + waiting + `' WHERE $1 <> ''`,
		`DELETE FROM guarded_documents WHERE $1 <> ''`,
		`UPDATE guarded_documents SET rule = '{}' WHERE $1 <> ''`,
		`UPDATE approvals SET proposes = $1`,
		`DELETE FROM active_documents WHERE $1 <> ''`,
	} {
		if err := exec(sql, d.Digest()); err == nil {
			t.Errorf("the runtime role may: %s", sql)
		}
	}
	if _, err := c.k.ActivateAround(ctx, access.Initiator{}, store.PolicyDocument, d.Body, "", "because"); err == nil {
		t.Error("the runtime role goes round the approval")
	}
	// All rows of an approval, as the role can write them, for a policy that nobody has seen.
	forged := store.NewID("apr")
	box, err := otherSealer(t).Seal(forged, []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO approvals (id, agent_id, request_id, session, dialect, tool, category, risk_domain, environment, digest, requested_by, max_state, decision, requirements, terms,
			excluded, preconditions, expires_in, sealed, sealed_key, sealed_size, proposes, replaces)
			SELECT $1, agent_id, request_id, session, dialect, tool, category, risk_domain, environment, digest, requested_by, max_state, decision, requirements, terms,
			excluded, preconditions, expires_in, $2, $3, sealed_size, $4, replaces FROM approvals WHERE id = $5`, []any{forged, box.Data, box.Key, d.Digest(), waiting}},
		{`INSERT INTO facts (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment) VALUES ($1, 'vote', 'human', $2, 'api', true, '', '')`, []any{forged, c.people["ada"].ID}},
		{`UPDATE approvals SET status = 'approved', reasons = '[]', version = version + 1 WHERE id = $1`, []any{forged}},
		{`INSERT INTO tokens (jti, approval_id, valid_until) VALUES ('tok_forged', $1, now() + interval '1 hour')`, []any{forged}},
		{`UPDATE tokens SET redeemed_by = 'settle' WHERE approval_id = $1`, []any{forged}},
		{`UPDATE approvals SET execution = 'redeemed' WHERE id = $1`, []any{forged}},
		{`UPDATE active_documents SET digest = $2, approval_id = $1`, []any{forged, d.Digest()}},
	} {
		if err := exec(step.sql, step.args...); err != nil {
			t.Fatalf("%s: %v", step.sql, err)
		}
	}
	eventually(t, "nobody judges by it", func() bool { return c.k.Usable(ctx) != nil })
	if got := c.k.Status().Problem; !strings.Contains(got, forged) {
		t.Errorf("the problem: %s", got)
	}
}

func otherSealer(t *testing.T) *seal.Sealer {
	t.Helper()
	key, err := seal.ParseKey(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	s, err := seal.New(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Whoever owns the database can do without an approval, and it is on record.
func TestChangeInAnEmergency(t *testing.T) {
	t.Parallel()
	c := newCommittee(t, owners(1, time.Hour))
	id := c.propose("ben", "2", time.Time{})
	cfg := c.config()
	cfg.Store, cfg.Sealer = c.db.Owner(), c.db.Sealer
	k, err := rules.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	by := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "op", Channel: "cli"}}
	if _, err := k.ActivateAround(t.Context(), by, store.PolicyDocument, []byte(doc("5", "2026-04-01T00:00:00Z", "DENY")), "p.json", " "); err == nil {
		t.Error("without a reason")
	}
	changed, err := k.ActivateAround(t.Context(), by, store.PolicyDocument, []byte(doc("5", "2026-04-01T00:00:00Z", "DENY")), "p.json", "incident 4711")
	if err != nil || !changed {
		t.Fatalf("%t, %v", changed, err)
	}
	eventually(t, "version 5", func() bool { return version(c.k) == "5" })
	if c.k.Usable(t.Context()) != nil || !strings.Contains(c.codes(), "POLICY_ACTIVATED NOBODY_ASKED") {
		t.Errorf("%v; %s", c.k.Usable(t.Context()), c.codes())
	}
	if got := c.vote("ada", id, true); got != "" {
		t.Fatal(got)
	}
	c.settle(id)
	if c.state(id) != "denied, none" {
		t.Errorf("what was to replace the former policy: %s", c.state(id))
	}
}

// What cannot be proposed is refused, with why.
func TestProposalsRefused(t *testing.T) {
	t.Parallel()
	c := newCommittee(t, owners(1, time.Hour))
	now := c.store.Clock()
	doors := rules.RefusingKeeper{Keeper: c.k}
	// Ada and Cleo: whoever wrote it is no other under a second account.
	if able, needed, err := doors.Approvers(t.Context(), store.PolicyDocument, c.people["ben2"]); able != 2 || needed != 1 || err != nil {
		t.Errorf("%d could approve what ben2 writes, %d are needed, %v", able, needed, err)
	}
	if able, needed, err := doors.Approvers(t.Context(), store.ContractsDocument, c.people["ben"]); able != 0 || needed != 0 || err != nil {
		t.Errorf("%d could approve what nobody has to, %d are needed, %v", able, needed, err)
	}
	ok := func() rules.Proposal {
		return rules.Proposal{Kind: store.PolicyDocument, Data: []byte(doc("2", "2026-02-01T00:00:00Z", "ALLOW")), Name: "new.json", Reason: "because"}
	}
	for _, test := range []struct {
		edit func(*rules.Proposal)
		want string
	}{
		{func(p *rules.Proposal) { p.Kind = store.ContractsDocument }, "nobody has to approve"},
		{func(p *rules.Proposal) { p.Reason = " " }, "say why"},
		{func(p *rules.Proposal) { p.Reason = strings.Repeat("x", access.MaxReason+1) }, "at most 1000"},
		{func(p *rules.Proposal) { p.From = now.Add(91 * 24 * time.Hour) }, "within 90 days"},
		{func(p *rules.Proposal) { p.Data = []byte(`{"version":"2","rules":[{}]}`) }, "new.json:1:"},
		{func(p *rules.Proposal) { p.Data = []byte(doc("1", "2026-01-01T00:00:00Z", "DENY")) }, "in force already"},
		{func(p *rules.Proposal) { p.Data = []byte(doc("0.9", "2026-02-01T00:00:00Z", "ALLOW")) }, "older"},
		{func(p *rules.Proposal) {
			p.Data = []byte(strings.Replace(doc("2", "2026-02-01T00:00:00Z", "ALLOW"), "2099-01-01T00:00:00Z", now.Add(time.Hour).UTC().Format(time.RFC3339), 1))
			p.From = now.Add(2 * time.Hour)
		}, "expires before"},
		{func(p *rules.Proposal) {
			p.Data = []byte(strings.Replace(doc("2", "2026-02-01T00:00:00Z", "ALLOW"), "{", "{"+strings.Repeat("\n", 300<<10), 1))
		}, "nobody reads more"},
	} {
		p := ok()
		test.edit(&p)
		_, err := c.k.Propose(context.Background(), p)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
	if _, err := c.k.Propose(t.Context(), ok()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.k.Propose(t.Context(), ok()); !errors.Is(err, gate.AlreadyProposed) {
		t.Errorf("proposed twice: %v", err)
	}
}

// What is in force and what was is told with who wrote and approved it, why, and what it changed;
// its author takes back what still waits.
func TestEditionsAndWithdrawal(t *testing.T) {
	t.Parallel()
	c := newCommittee(t, owners(1, time.Hour))
	ctx := t.Context()
	c.settle(c.approved("ada", c.propose("ben", "2", time.Time{})))
	eventually(t, "version 2", func() bool { return version(c.k) == "2" })
	list, err := c.k.Editions(ctx, store.PolicyDocument)
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %+v", err, list)
	}
	if e := list[0]; e.Version != "2" || e.Approved != "people" || e.Reason != "because" || e.ApprovedBy != "ada" || !strings.Contains(e.Author, "ben") || e.Until != nil {
		t.Errorf("%+v", e)
	}
	if e := list[1]; e.Version != "1" || e.Approved != "no_need" || e.Until == nil || !e.Until.Equal(list[0].From) {
		t.Errorf("%+v", e)
	}
	text, err := c.k.Difference(ctx, list[1].Digest, list[0].Digest)
	if err != nil || !strings.Contains(text, `-{"version":"1"`) || !strings.Contains(text, `+{"version":"2"`) {
		t.Errorf("%v, %s", err, text)
	}
	for _, digest := range []string{"", "sha256:x", "\x00"} {
		var refused *access.Refusal
		if _, err := c.k.Difference(ctx, digest, list[0].Digest); !errors.As(err, &refused) || refused.Code != "not_found" {
			t.Errorf("%q: %v", digest, err)
		}
	}
	doors := rules.RefusingKeeper{Keeper: c.k}
	ben := c.people["ben"]
	p := rules.Proposal{Kind: store.PolicyDocument, Data: []byte(doc("3", "2026-03-01T00:00:00Z", "DENY")), Name: "p", Reason: "stricter", Author: &ben, By: access.PersonInitiator(ben, "console", "")}
	seen, err := doors.Preview(ctx, p)
	if err != nil || seen.Former != "2" || !strings.Contains(seen.Difference, `+{"version":"3"`) || !strings.Contains(seen.Simulation, "recorded approvals") {
		t.Fatalf("%v, %+v", err, seen)
	}
	opened, err := doors.Propose(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	withdraw := func(who string) string {
		_, err := c.gate.Contributions.Withdraw(ctx, access.PersonInitiator(c.people[who], "console", ""), c.people[who], opened.ApprovalID, nil)
		var refused *access.Refusal
		if errors.As(err, &refused) {
			return refused.Code
		}
		if err != nil {
			t.Fatal(err)
		}
		return ""
	}
	for _, step := range []struct{ who, want string }{{"ada", "not_found"}, {"stranger", "not_found"}, {"ben2", ""}, {"ben", "already_decided"}} {
		if got := withdraw(step.who); got != step.want {
			t.Errorf("%s withdraws: %q, want %q", step.who, got, step.want)
		}
	}
	c.settle(opened.ApprovalID)
	if got := c.state(opened.ApprovalID); got != "cancelled, none" || version(c.k) != "2" {
		t.Errorf("%s, %s", got, version(c.k))
	}
	for _, test := range []struct {
		edit func(*rules.Proposal)
		want string
	}{
		{func(p *rules.Proposal) { p.Kind = store.ContractsDocument }, "not_guarded"},
		{func(p *rules.Proposal) { p.Kind = store.RolesChange }, "kind"},
		{func(p *rules.Proposal) { p.Data = []byte(doc("2", "2026-02-01T00:00:00Z", "ALLOW")) }, "in_force"},
		{func(p *rules.Proposal) { p.Data = []byte(doc("1", "2026-02-01T00:00:00Z", "ALLOW")) }, "older"},
		{func(p *rules.Proposal) { p.Data = []byte("{") }, "invalid_change"},
	} {
		p := p
		test.edit(&p)
		var refused *access.Refusal
		if _, err := doors.Propose(ctx, p); !errors.As(err, &refused) || refused.Code != test.want {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
	c.codes()
}

// approved has somebody approve, and returns the approval.
func (c *committee) approved(who, id string) string {
	c.t.Helper()
	if got := c.vote(who, id, true); got != "" {
		c.t.Fatalf("%s may not approve: %s", who, got)
	}
	return id
}

// Whoever proposes a change by a key of their own has written it, or is of the requesting side beside
// whoever has.
func TestProposalByAPersonsKey(t *testing.T) {
	c := newCommittee(t, owners(1, time.Hour))
	ben, ada := c.people["ben"], c.people["ada"]
	by := access.Principal{KeyID: "key_x", PersonID: ben.ID, Kind: access.AdminKey}.Initiator("req")
	propose := func(version string, author *engine.Person) string {
		opened, err := c.k.Propose(t.Context(), rules.Proposal{Kind: store.PolicyDocument, Data: []byte(doc(version, "2026-02-01T00:00:00Z", "ALLOW")), Name: "p", Reason: "because", Author: author, By: by})
		if err != nil {
			t.Fatal(err)
		}
		if opened.Needed != 1 {
			t.Errorf("%d people decide, although somebody is known to have written it", opened.Needed)
		}
		return opened.ApprovalID
	}
	alone, together := propose("3", nil), propose("4", &ada)
	for who, votes := range map[string][]string{"ben": {alone, together}, "ada": {together}} {
		for _, id := range votes {
			if got := c.vote(who, id, true); got != "self_review" {
				t.Errorf("%s’s vote: %q", who, got)
			}
		}
	}
	if got := c.vote("ada", alone, true); got != "" {
		t.Errorf("another one’s vote: %q", got)
	}
}
