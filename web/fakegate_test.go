package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/stakes"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
)

// fakeGate is the gate, a SignIn, a Sessions and Names over one map, for tests. It
// uses the real state machine.
type fakeGate struct {
	mu       sync.Mutex
	groups   map[string]gate.GroupStakes // what Groups says
	untold   bool                        // says nothing of what is at stake in lists
	unsaid   error
	told     []string // of which calls lists were told what is at stake, since it was last cleared
	now      func() time.Time
	people   map[string]engine.Person // by email; the password is "right"
	sessions map[string]string        // hash → person id
	cards    map[string]*gate.Card
	supplied canon.Value
	shown    map[string]bool
	watchers map[chan struct{}]bool
	broken   error // what every method answers when set
	votes    []gate.VoteRequest
	seen     []string
	facts    []approval.Fact
	proved   []string
	fulls    int
	registry *fakeRegistry
	views    map[string][]gate.InboxView // by person
	snoozed  map[string]time.Time        // by person and approval
	rules    *gate.RuleTrace             // of every call
}

var epoch = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func newFakeGate() *fakeGate {
	m := &fakeGate{
		now: func() time.Time { return epoch }, people: map[string]engine.Person{}, sessions: map[string]string{},
		cards: map[string]*gate.Card{}, shown: map[string]bool{}, watchers: map[chan struct{}]bool{}, registry: newFakeRegistry(), views: map[string][]gate.InboxView{},
		snoozed: map[string]time.Time{},
	}
	for _, p := range []engine.Person{
		{ID: "usr_ada", Email: "ada@example.com", Name: "Ada Lovelace", Identity: "ada", Roles: []string{"finance-approver"}},
		{ID: "usr_grace", Email: "grace@example.com", Name: "Grace Hopper", Identity: "grace", Roles: []string{"finance-approver"}},
		{ID: "usr_linus", Email: "linus@example.com", Name: "Linus", Identity: "linus", Roles: []string{"ops"}},
		{ID: "usr_olga", Email: "olga@example.com", Name: "Olga Owner", Identity: "olga", Roles: []string{access.AdminRole}},
		{ID: "usr_aude", Email: "aude@example.com", Name: "Aude Auditor", Identity: "aude", Roles: []string{access.AuditorRole}},
	} {
		p.VerifiedBy, p.VerifiedAt, p.Factors = "totp", epoch, []string{"totp"}
		m.people[p.Email] = p
	}
	return m
}

func (m *fakeGate) add(id, tool, arguments string, edit func(*gate.Card)) *gate.Card {
	c := &gate.Card{
		Approval: approval.Approval{
			ID: id, Version: 1, Revision: 1, Status: approval.Pending, Execution: approval.NotRun,
			Call: engine.Call{
				Dialect: "aana", AgentID: "agt_billing", Tool: tool, RiskDomain: "finance", Category: "write",
				Environment: "dev", Digest: "sha256:" + strings.Repeat("ab12", 16), RequestID: "req-" + id,
			},
			Decision: engine.Decision{
				Route: engine.Defer, Outcome: engine.RequireApproval, PolicyDigest: "sha256:" + strings.Repeat("0f", 32),
				Findings: []engine.Finding{
					{Source: "contract", Code: "schema_ok", Message: "The event is well formed.", Route: engine.Accept},
					{Source: "contract", Code: "confirmation_missing", Message: "Nobody has confirmed this write.", Route: engine.Ask},
					{Source: "policy", Code: "large_transfer", Message: "Money leaves the company; two finance reviewers must agree.", Route: engine.Defer},
				},
			},
			Plan: approval.Plan{
				OpenedAt: epoch.Add(-time.Minute), ExpiresAt: epoch.Add(29 * time.Minute),
				Requirements: []engine.Requirement{{Kind: engine.Review, Role: "finance-approver", Needed: 2}},
			},
			RequestedBy: engine.Actor{Kind: engine.ServiceActor, ID: "key_3f9a", Channel: "api"},
		},
		Arguments: []byte(arguments), AgentName: "billing-agent", AgentOwner: "Linus", Eligible: 2, Trackers: []string{"jira"},
	}
	c.Approval.Plan.Excluded = []string{"linus"}
	c.Timeline = []engine.Event{{
		Type: engine.Decided, Timestamp: c.Approval.Plan.OpenedAt, ToolName: tool, Outcome: engine.RequireApproval,
		Actor: engine.Actor{Kind: engine.ServiceActor, ID: "key_3f9a"},
	}}
	if edit != nil {
		edit(c)
	}
	if args, err := canon.Parse(c.Arguments); err == nil {
		c.Stakes.Sentence = stakes.Writer{}.Write(tool, args, "")
	}
	m.cards[id] = c
	m.advance(c)
	return c
}

// advance settles a card at once.
func (m *fakeGate) advance(c *gate.Card) {
	a := &c.Approval
	a.State = approval.Advance(a.Plan, a.Facts, m.now())
	if a.Status == approval.Pending && a.State.Status.Terminal() {
		a.Status, a.EndedAt = a.State.Status, a.State.At
		c.Timeline = append(c.Timeline, engine.Event{Type: engine.Settled, Timestamp: a.EndedAt, Outcome: a.Status.Outcome(), Actor: engine.Actor{Kind: engine.SystemActor}})
	}
}

func (m *fakeGate) voter(p engine.Person) approval.Voter {
	return approval.Voter{Identity: p.Identity, Roles: p.Roles, Active: !p.Disabled}
}

// Inbox finds by tool, word, kind and deadline, and pages by the place in the list.
func (m *fakeGate) Groups(context.Context, []gate.InboxRow) (map[string]gate.GroupStakes, error) {
	return m.groups, nil
}

func (m *fakeGate) Stakes(_ context.Context, listed []approval.Approval) (map[string]gate.Stakes, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unsaid != nil {
		return nil, m.unsaid
	}
	told := map[string]gate.Stakes{}
	for _, a := range listed {
		m.told = append(m.told, a.ID)
		if c := m.cards[a.ID]; c != nil && !m.untold {
			told[a.ID] = c.Stakes
		}
	}
	return told, nil
}

func (m *fakeGate) RuleTrace(_ context.Context, p engine.Person, c gate.Card) (*gate.RuleTrace, error) {
	if !gate.MayReadTrace(p, c) {
		return nil, nil
	}
	return m.rules, nil
}

func (m *fakeGate) Inbox(_ context.Context, p engine.Person, search gate.InboxSearch) (gate.InboxPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	page := gate.InboxPage{Now: m.now(), Counts: map[string][]gate.Count{}}
	var list []gate.InboxRow
	for _, c := range m.cards {
		a := c.Approval
		if a.MayVote(m.voter(p), m.now()) != nil {
			continue
		}
		if until := m.snoozed[p.ID+a.ID]; (until.After(m.now()) && until.Before(a.State.Deadline)) != search.Snoozed {
			if !search.Snoozed {
				page.Snoozed++
			}
			continue
		}
		page.All++
		agents := page.Counts["agent"]
		if i := slices.IndexFunc(agents, func(c gate.Count) bool { return c.Value == a.Call.AgentID }); i >= 0 {
			agents[i].N++
		} else {
			page.Counts["agent"] = append(agents, gate.Count{Value: a.Call.AgentID, N: 1})
		}
		words := a.Call.Tool + " " + a.Call.AgentID
		if search.Tool != "" && search.Tool != a.Call.Tool || search.Waits != "" && search.Waits != string(a.Plan.Requirements[a.State.Stage].Kind) ||
			search.DueWithin > 0 && a.State.Deadline.After(m.now().Add(search.DueWithin)) ||
			slices.ContainsFunc(search.Words, func(word string) bool { return !strings.Contains(words, word) }) {
			continue
		}
		row := gate.InboxRow{Approval: a, Alike: 1}
		if search.Snoozed {
			row.SnoozedUntil = m.snoozed[p.ID+a.ID]
		}
		list = append(list, row)
	}
	slices.SortFunc(list, func(a, b gate.InboxRow) int {
		return cmp.Or(a.State.Deadline.Compare(b.State.Deadline), strings.Compare(a.ID, b.ID))
	})
	page.Found, page.Groups = len(list), len(list)
	const limit = 50
	if search.After != "" || search.Before != "" {
		at, err := strconv.Atoi(search.After + search.Before)
		if err != nil {
			return page, &access.Refusal{Kind: access.Malformed, Code: "bad_cursor", Detail: "That is no place in the inbox."}
		}
		if page.From = min(at, len(list)); search.Before != "" {
			page.From -= limit
		}
	}
	page.Rows = list[page.From:min(page.From+limit, len(list))]
	if page.From > 0 {
		page.Previous = strconv.Itoa(page.From)
	}
	if end := page.From + len(page.Rows); end < len(list) {
		page.Next = strconv.Itoa(end)
	}
	return page, m.broken
}

func (m *fakeGate) Snooze(_ context.Context, p engine.Person, id string, long time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.cards[id].Approval; !a.State.Deadline.After(m.now().Add(long)) {
		return &access.Refusal{Kind: access.Conflict, Code: "due_before", Detail: "Its deadline is before that, so it stays in your inbox."}
	}
	m.snoozed[p.ID+id] = m.now().Add(long)
	return m.broken
}

func (m *fakeGate) Unsnooze(_ context.Context, p engine.Person, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.snoozed, p.ID+id)
	return m.broken
}

func (m *fakeGate) Snoozed(_ context.Context, p engine.Person, id string) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snoozed[p.ID+id], m.broken
}

func (m *fakeGate) InboxViews(_ context.Context, p engine.Person) ([]gate.InboxView, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.views[p.ID]), nil
}

func (m *fakeGate) SaveInboxView(_ context.Context, p engine.Person, name, query string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.views[p.ID] = append(m.views[p.ID], gate.InboxView{ID: "view_" + strconv.Itoa(len(m.views[p.ID])), Name: name, Query: query})
	return nil
}

func (m *fakeGate) DropInboxView(_ context.Context, p engine.Person, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.views[p.ID] = slices.DeleteFunc(m.views[p.ID], func(v gate.InboxView) bool { return v.ID == id })
	return nil
}

func (m *fakeGate) Card(_ context.Context, p engine.Person, id string, look gate.Display) (gate.Card, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return gate.Card{}, m.broken
	}
	c, ok := m.cards[id]
	if !ok {
		return gate.Card{}, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such approval, or it is not yours to see."}
	}
	if look == gate.Full {
		m.fulls++
	}
	out := *c
	if err := out.Conceal(); err != nil {
		return gate.Card{}, err
	}
	if out.Arguments != nil && (look == gate.Revealed || out.Masked == nil && (look == gate.Full || look == gate.Excerpt && !c.Long)) {
		m.shown[p.ID+id] = true
	}
	out.Now = m.now()
	out.Shown = m.shown[p.ID+id]
	out.Names = map[string]string{}
	for _, p := range m.people {
		out.Names[p.ID] = p.Name
	}
	out.CannotVote = c.Approval.MayVote(m.voter(p), m.now())
	return out, nil
}

// Show keeps what was shown, as who was shown it.
func (m *fakeGate) Show(_ context.Context, p engine.Person, _ string, cards ...gate.SeenCard) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range cards {
		m.seen = append(m.seen, p.ID+" "+string(c.Card))
	}
	return m.broken
}

func (m *fakeGate) ForPerson(ctx context.Context, p engine.Person, id string) (gate.View, error) {
	c, err := m.Card(ctx, p, id, gate.Unrecorded)
	return gate.View{Approval: c.Approval, Now: c.Now}, err
}

func (m *fakeGate) SignVote(_ context.Context, v gate.VoteRequest) (identity.Ceremony, error) {
	if _, ok := m.cards[v.ApprovalID]; !ok {
		return identity.Ceremony{}, access.NoSuchApproval
	}
	return identity.Ceremony{ChallengeID: "challenge", PublicKey: json.RawMessage(`{"challenge":"AA"}`)}, nil
}

func (m *fakeGate) SignBreakGlass(context.Context, gate.Contribution, bool, string, int) (identity.Ceremony, error) {
	return identity.Ceremony{}, identity.NoSigningKey
}

func (m *fakeGate) Vote(_ context.Context, v gate.VoteRequest, _ *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return approval.Approval{}, m.broken
	}
	c, ok := m.cards[v.ApprovalID]
	if !ok {
		return approval.Approval{}, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such approval."}
	}
	if _, stopped := m.registry.known.Killed(c.Approval.Call.AgentID); stopped && v.Approve {
		return c.Approval, &access.Refusal{Kind: access.Stopped, Code: "kill_switch", Detail: "A kill switch stops this agent."}
	}
	a := &c.Approval
	if v.Digest != a.Call.Digest || v.Version != a.Version {
		return *a, &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "The card changed after you opened it."}
	}
	secret := *c
	_ = secret.Conceal() // of arguments that can be read
	if v.Approve && (c.Long || secret.Masked != nil) && !m.shown[v.Person.ID+v.ApprovalID] {
		return *a, &access.Refusal{Kind: access.Conflict, Code: "arguments_not_shown", Detail: "Look at the whole of the arguments first."}
	}
	f := approval.Fact{
		Seq: int64(len(a.Facts) + 1), At: m.now(), Kind: approval.Vote, Yes: v.Approve, Denial: v.Denial, Comment: v.Comment, Edition: a.Plan.Edition,
		Actor: engine.Actor{Kind: engine.HumanActor, ID: v.Person.ID, Channel: v.Channel}, Voter: m.voter(v.Person),
		Details: approval.Details{Constraints: v.Constraints, ValidFor: engine.Duration(v.ValidFor)},
	}
	if v.Person.VerifiedBy != "" {
		f.Details.Proof = &approval.Proof{Method: v.Person.VerifiedBy, At: v.Person.VerifiedAt}
	}
	if err := approval.Admit(a.Plan, a.Facts, f, m.now()); err != nil {
		if errors.Is(err, approval.ErrNotFresh) {
			return *a, &access.Refusal{Kind: access.Forbidden, Code: notVerified, Detail: "Prove again who you are."}
		}
		kind := access.Forbidden
		if errors.Is(err, approval.ErrDecided) || errors.Is(err, approval.ErrAlreadyVoted) {
			kind = access.Conflict
		}
		return *a, &access.Refusal{Kind: kind, Code: "refused", Detail: err.Error()}
	}
	m.votes = append(m.votes, v)
	a.Facts = append(a.Facts, f)
	a.Revision++
	c.Timeline = append(c.Timeline, engine.Event{Type: engine.Voted, Timestamp: f.At, Actor: f.Actor})
	m.advance(c)
	m.notify()
	return *a, nil
}

func (m *fakeGate) notify() {
	for ch := range m.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (m *fakeGate) Changes(ctx context.Context, _ string) <-chan struct{} {
	ch := make(chan struct{}, 1)
	m.mu.Lock()
	m.watchers[ch] = true
	m.mu.Unlock()
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, ch)
		close(ch)
	})
	return ch
}

func (m *fakeGate) SignIn(_ context.Context, email, password, _, _, _ string) (engine.Person, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return engine.Person{}, m.broken
	}
	if password == "hammer" {
		return engine.Person{}, &access.Refusal{Kind: access.RateLimited, Code: "too_many_attempts", RetryAfter: time.Minute}
	}
	p, ok := m.people[email]
	if !ok || password != "right" || p.Disabled {
		return engine.Person{}, &access.Refusal{Kind: access.Unauthenticated, Code: "wrong_credentials"}
	}
	p.VerifiedBy = "password"
	return p, nil
}

func (*fakeGate) Known(string, engine.Person) string { return "known" }

func (m *fakeGate) NotStarted(context.Context, engine.Person) error { return m.broken }

func (m *fakeGate) SignedOut(context.Context, engine.Person) error { return m.broken }

func (m *fakeGate) Load(_ context.Context, idHash []byte) (engine.Person, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, ok := m.sessions[string(idHash)]
	if !ok {
		return engine.Person{}, ErrNoSession
	}
	for _, p := range m.people {
		if p.ID == id {
			return p, nil
		}
	}
	return engine.Person{}, ErrNoSession
}

func (m *fakeGate) Verified(_ context.Context, _ []byte, personID, method string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for email, p := range m.people {
		if p.ID == personID {
			p.VerifiedBy, p.VerifiedAt = method, m.now()
			m.people[email] = p
		}
	}
	return m.broken
}

func (m *fakeGate) Save(_ context.Context, idHash []byte, p engine.Person, _ time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[string(idHash)] = p.ID
	return nil
}

func (m *fakeGate) Delete(_ context.Context, idHash []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, string(idHash))
	return nil
}

func (m *fakeGate) Names(_ context.Context, ids []string) (map[string]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := map[string]string{"agt_billing": "billing-agent"}
	for _, p := range m.people {
		if slices.Contains(ids, p.ID) {
			names[p.ID] = p.Name
		}
	}
	return names, nil
}

// document is an Agent Action Contract event that says intent, with one
// evidence reference that says summary.
func document(intent, summary string) []byte {
	d, err := json.Marshal(map[string]any{
		"user_intent": intent, "authorization_state": "authenticated", "recommended_route": "accept",
		"evidence_refs": []any{"draft_id:123", map[string]any{
			"source_id": "auth.session", "kind": "auth_event", "trust_tier": "verified", "redaction_status": "redacted",
			"summary": summary, "freshness": map[string]any{"status": "fresh"}, "provenance": "connector",
		}},
	})
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return d
}
