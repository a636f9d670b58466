package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// history is what a database and its clients know of what has happened. The
// checker reads it, and nothing of the program's own words.
type history struct {
	now       time.Time
	approvals []approvalRow
	facts     []factRow
	events    []eventRow
	tokens    []tokenRow
	answers   []answered
}

type approvalRow struct {
	id, status, execution  string
	agent, tool            string
	opened, expires, ended time.Time // ended is zero while pending
	requirements           []requirement
	excluded               []string
	edition                int
	began                  time.Time // zero means opened
	terms                  terms
	reconciled, owed       bool
	leaseUntil             time.Time
}

type requirement struct {
	Kind       string       `json:"kind"`
	Role       string       `json:"role"`
	Needed     int          `json:"needed"`
	Within     string       `json:"within"`
	AnyOf      []group      `json:"any_of"`
	Deny       int          `json:"deny"`
	Escalation []escalation `json:"escalation"`
	Calendar   string       `json:"calendar"`
	Form       any          `json:"form"`
}

type group struct {
	Role   string `json:"role"`
	Needed int    `json:"needed"`
}

type escalation struct {
	After string `json:"after"`
	Role  string `json:"role"`
}

type terms struct {
	AcceptedAs  string   `json:"accepted_as"`
	Accountable []string `json:"accountable"`
	PauseFor    string   `json:"pause_for"`
	Extenders   []string `json:"extenders"`
	ByClaim     []string `json:"excluded_by_claim"`
	IfTooFew    string   `json:"if_too_few"`
}

// factRow is a fact with what is known of the person behind it. disabled is
// zero for somebody who is active.
type factRow struct {
	seq              int64
	at               time.Time
	approval, kind   string
	actorKind, actor string
	yes              bool
	identity         string
	roles            []string
	disabled         time.Time
	edition          int
	comment          string
	details          details
	// via are the identities of those in whose place the person speaks, the next
	// one first; speaker is the roles of the last of them. unfounded says that no
	// delegation or grant of theirs stood behind it.
	via       []string
	speaker   []string
	unfounded bool
}

type details struct {
	Proof *struct {
		Method string    `json:"method"`
		At     time.Time `json:"at"`
	} `json:"proof"`
	Grant   string `json:"grant"`
	By      string `json:"by"`
	Alone   bool   `json:"alone"`
	Widened []int  `json:"widened"`
}

type eventRow struct {
	seq                                      int64
	at                                       time.Time
	id, kind, outcome, agent, tool, approval string
	body                                     []byte
}

type tokenRow struct {
	jti, approval string
	redeemed      bool
}

// overdueGrace is how late a deadline may be settled before it counts as
// missed, on a machine that others use as well.
const overdueGrace = 15 * time.Second

// violations says which of ARCHITECTURE's promises I1 to I11 the history breaks.
func (h history) violations() []string {
	var found []string
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	h.checkEvents(say)
	settled, redeemed, tokens := map[string][]eventRow{}, map[string]int{}, map[string][]tokenRow{}
	order := map[string][]string{}
	for _, e := range h.events {
		switch {
		case e.kind == "settled":
			settled[e.approval] = append(settled[e.approval], e)
		case e.kind == "redeem" && e.outcome == "ALLOW":
			redeemed[e.approval]++
		}
		if e.approval != "" && e.outcome != "DENY" {
			order[e.approval] = append(order[e.approval], e.kind)
		}
	}
	for _, t := range h.tokens {
		tokens[t.approval] = append(tokens[t.approval], t)
	}
	facts := map[string][]factRow{}
	for _, f := range h.facts {
		facts[f.approval] = append(facts[f.approval], f)
	}
	known := map[string]bool{}
	for _, a := range h.approvals {
		known[a.id] = true
		h.checkApproval(a, facts[a.id], settled[a.id], say)
		checkToken(a, tokens[a.id], redeemed[a.id], say)
		checkOrder(a.id, order[a.id], say)
	}
	for id := range settled {
		if !known[id] {
			say("I2: %s has a settled event and is no approval", id)
		}
	}
	h.checkAnswers(say)
	return found
}

// checkEvents: every event can be read and says what its columns say; order is
// that of time within what one clock can tell.
func (h history) checkEvents(say func(string, ...any)) {
	ids := map[string]bool{}
	for _, e := range h.events {
		var body struct {
			ID       string          `json:"event_id"`
			Type     string          `json:"type"`
			Outcome  string          `json:"outcome"`
			Agent    string          `json:"agent_id"`
			Tool     string          `json:"tool_name"`
			Approval string          `json:"approval_id"`
			Reasons  []reason        `json:"reasons"`
			Safe     json.RawMessage `json:"safe_payload"`
			Actor    struct {
				Kind string `json:"kind"`
			} `json:"actor"`
			Seq       *int64  `json:"seq"`
			Timestamp *string `json:"timestamp"`
		}
		if err := json.Unmarshal(e.body, &body); err != nil {
			say("I8: the body of event %d cannot be read: %v", e.seq, err)
			continue
		}
		if body.ID != e.id || body.Type != e.kind || body.Outcome != e.outcome || body.Agent != e.agent || body.Tool != e.tool || body.Approval != e.approval {
			say("I8: event %d says other than its columns: %s", e.seq, e.body)
		}
		if body.Reasons == nil || len(body.Safe) == 0 || !slices.Contains([]string{"human", "agent", "service", "system"}, body.Actor.Kind) {
			say("I8: event %d lacks reasons, safe_payload or an actor: %s", e.seq, e.body)
		}
		if body.Seq != nil || body.Timestamp != nil {
			say("I8: the body of event %d has an order or a time of its own", e.seq)
		}
		if ids[e.id] {
			say("I8: event id %s is there twice", e.id)
		}
		ids[e.id] = true
	}
}

func (h history) checkApproval(a approvalRow, facts []factRow, settled []eventRow, say func(string, ...any)) {
	if a.status == "pending" {
		if len(settled) != 0 {
			say("I2: %s is pending and has %d settled events", a.id, len(settled))
		}
		end := a.replay(facts)
		if end.deadline.IsZero() {
			end.deadline = a.expires // decided, and about to be settled
		}
		if late := h.now.Sub(end.deadline); late > overdueGrace {
			say("I6: %s is pending, and its deadline passed %s ago", a.id, late)
		}
		return
	}
	if len(settled) != 1 {
		say("I2: %s is %s and has %d settled events", a.id, a.status, len(settled))
	}
	want, ok := map[string]string{"approved": "APPROVED", "expired": "TIMEOUT", "denied": "REJECTED", "cancelled": "REJECTED"}[a.status]
	if !ok || a.ended.IsZero() {
		say("I2: %s has ended as %q at %s", a.id, a.status, a.ended)
	}
	for _, e := range settled {
		if e.outcome != want {
			say("I2: %s is %s and its settled event says %s", a.id, a.status, e.outcome)
		}
	}
	changes := 0
	for _, f := range facts {
		if f.kind == "edit" || f.kind == "reopen" {
			changes++
		}
	}
	if a.edition != changes+1 {
		say("I4: %s is in edition %d and was changed %d times", a.id, a.edition, changes)
	}
	end := a.replay(facts)
	if len(a.requirements) == 0 && a.terms.AcceptedAs != "" && slices.ContainsFunc(h.events, func(e eventRow) bool {
		return e.approval == a.id && e.kind == "decision" && e.outcome == "ALLOW"
	}) {
		end.status = "approved" // accepted when it was proposed: it asks for nobody
	}
	switch a.status {
	case "approved":
		if end.status != "approved" {
			say("I5: %s is approved without enough distinct eligible people (%s): %+v", a.id, end.why, facts)
		}
		if end.alone && !a.owed {
			say("I5: %s was let through by one person alone, and nobody has to look at it", a.id)
		}
	case "expired":
		if end.status == "approved" {
			say("I2: %s has expired although everything was given in time", a.id)
		}
		if a.ended.Before(end.deadline) {
			say("I6: %s expired at %s, before its deadline %s", a.id, a.ended, end.deadline)
		}
	case "denied":
		// What people approved may be refused when it is judged again.
		if end.status != "denied" && end.status != "approved" {
			say("I2: %s is denied and nobody denied it", a.id)
		}
	case "cancelled":
		if end.status != "cancelled" {
			say("I2: %s is cancelled and nobody cancelled it", a.id)
		}
	}
	if a.execution == "unknown" && a.reconciled || a.reconciled && a.execution == "redeemed" {
		say("I3: %s is %s though somebody has settled what became of it", a.id, a.execution)
	}
	if a.execution == "redeemed" && !a.leaseUntil.IsZero() && h.now.Sub(a.leaseUntil) > overdueGrace {
		say("I6: %s runs, and its lease was over %s ago", a.id, h.now.Sub(a.leaseUntil))
	}
}

// checkToken: at most one token, only for what was approved, spent at most once.
func checkToken(a approvalRow, tokens []tokenRow, redeemed int, say func(string, ...any)) {
	if redeemed > 1 {
		say("I3: %s was redeemed %d times", a.id, redeemed)
	}
	if len(tokens) > 1 || len(tokens) == 1 != (a.status == "approved") {
		say("I3: %s is %s and has %d tokens", a.id, a.status, len(tokens))
	}
	spent := len(tokens) > 0 && tokens[0].redeemed
	if spent != (redeemed > 0) || spent != (a.execution != "none") {
		say("I3: %s: token spent is %v, redeem events %d, execution %s", a.id, spent, redeemed, a.execution)
	}
}

// checkOrder: an approval's life goes one way.
func checkOrder(id string, kinds []string, say func(string, ...any)) {
	place := map[string]int{
		"decision": 0, "vote": 1, "answer": 1, "cancel": 1, "verify": 1, "ticket": 1, "question": 1, "comment": 1, "claim": 1,
		"extend": 1, "escalate": 1, "edit": 1, "reopen": 1, "break_glass": 1, "settled": 2, "redeem": 3, "execution": 4,
	}
	at := 0
	for i, kind := range kinds {
		p, ok := place[kind]
		if !ok {
			continue
		}
		if p < at || i == 0 && p != 0 {
			say("I8: the events of %s are out of order: %s", id, strings.Join(kinds, " "))
			return
		}
		at = p
	}
	if len(kinds) == 0 {
		say("I1: %s has no event", id)
	}
}

// checkAnswers: every 2xx answer has its committed event.
func (h history) checkAnswers(say func(string, ...any)) {
	type key struct{ request, kind string }
	events := map[key][]eventRow{}
	for _, e := range h.events {
		var body struct {
			RequestID string `json:"request_id"`
		}
		_ = json.Unmarshal(e.body, &body) // checkEvents says so
		k := key{body.RequestID, e.kind}
		events[k] = append(events[k], e)
	}
	for _, a := range h.answers {
		got := events[key{a.RequestID, a.Type}]
		if !slices.ContainsFunc(got, func(e eventRow) bool { return a.ApprovalID == "" || e.approval == a.ApprovalID && e.outcome != "DENY" }) {
			say("I1: a 2xx answer (%+v) has no event of its own among %d", a, len(got))
		}
	}
}

// read reads a database's history as its owner.
func read(ctx context.Context, url string) (h history, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return h, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	// One snapshot, or a settled event could come between two reads.
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return h, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&h.now); err != nil {
		return h, err
	}
	each := func(sql string, into []any, row func()) {
		if err != nil {
			return
		}
		rows, e := tx.Query(ctx, sql)
		if e != nil {
			err = e
			return
		}
		_, err = pgx.ForEachRow(rows, into, func() error { row(); return nil })
	}
	var a approvalRow
	var ended, began, lease *time.Time
	each(`SELECT a.id, a.status, a.execution, a.agent_id, a.tool, a.opened_at, a.expires_at, a.ended_at, a.requirements, a.excluded, a.edition, a.began_at, a.terms,
			EXISTS (SELECT FROM reconciliations r WHERE r.approval_id = a.id), EXISTS (SELECT FROM afterwards w WHERE w.approval_id = a.id),
			(SELECT lease_until FROM tokens t WHERE t.approval_id = a.id)
		FROM approvals a ORDER BY a.opened_at`,
		[]any{
			&a.id, &a.status, &a.execution, &a.agent, &a.tool, &a.opened, &a.expires, &ended, &a.requirements, &a.excluded, &a.edition, &began, &a.terms,
			&a.reconciled, &a.owed, &lease,
		}, func() {
			row := a
			row.requirements, row.excluded, row.ended, row.began, row.leaseUntil = slices.Clone(a.requirements), slices.Clone(a.excluded), moment(ended), moment(began), moment(lease)
			h.approvals = append(h.approvals, row)
			a.requirements, a.terms = nil, terms{} // JSON leaves what it does not name
		})
	var f factRow
	var disabled *time.Time
	// A role that comes with being on call counts when the fact came. Whoever
	// speaks for others needs their delegations then, and who said so beforehand a
	// grant of theirs, for this agent and tool.
	each(`SELECT f.seq, f.at, f.approval_id, f.kind, f.actor_kind, f.actor_id, f.yes, coalesce(p.identity, ''), coalesce(p.roles, '{}') || `+onCall("f.actor_id")+`, p.disabled_at,
			f.edition, f.comment, f.details, coalesce((SELECT array_agg(q.identity ORDER BY v.n) FROM unnest(f.via) WITH ORDINALITY v (id, n) JOIN people q ON q.id = v.id), '{}'),
			coalesce((SELECT q.roles || `+onCall("q.id")+` FROM people q WHERE q.id = f.via[cardinality(f.via)]), '{}'),
			EXISTS (SELECT FROM generate_subscripts(f.via, 1) i WHERE NOT EXISTS (SELECT FROM delegations d
				WHERE d.deputy_id = CASE WHEN i = 1 THEN f.actor_id ELSE f.via[i - 1] END AND d.person_id = f.via[i]
				  AND d.from_at <= f.at AND d.until_at > f.at AND (d.revoked_at IS NULL OR d.revoked_at > f.at)))
			OR f.details ? 'grant' AND NOT EXISTS (SELECT FROM standing_grants g JOIN approvals a ON a.id = f.approval_id
				WHERE g.id = f.details ->> 'grant' AND g.person_id = f.actor_id AND g.agent_id = a.agent_id AND g.tool = a.tool
				  AND f.at < g.expires_at AND g.created_at <= f.at AND (g.revoked_at IS NULL OR g.revoked_at > f.at)
				  AND (SELECT count(*) FROM facts x WHERE x.details ->> 'grant' = g.id) <= g.uses)
		FROM facts f LEFT JOIN people p ON p.id = f.actor_id ORDER BY f.seq`,
		[]any{&f.seq, &f.at, &f.approval, &f.kind, &f.actorKind, &f.actor, &f.yes, &f.identity, &f.roles, &disabled, &f.edition, &f.comment, &f.details, &f.via, &f.speaker, &f.unfounded}, func() {
			row := f
			row.roles, row.via, row.speaker, row.disabled = slices.Clone(f.roles), slices.Clone(f.via), slices.Clone(f.speaker), moment(disabled)
			h.facts = append(h.facts, row)
			f.details = details{}
		})
	var e eventRow
	each(`SELECT seq, appended_at, event_id::text, type, outcome, agent_id, tool_name, coalesce(approval_id, ''), body FROM events ORDER BY seq`,
		[]any{&e.seq, &e.at, &e.id, &e.kind, &e.outcome, &e.agent, &e.tool, &e.approval, &e.body}, func() {
			row := e
			row.body = slices.Clone(e.body)
			h.events = append(h.events, row)
		})
	var tk tokenRow
	each(`SELECT jti, approval_id, redeemed_at IS NOT NULL FROM tokens`, []any{&tk.jti, &tk.approval, &tk.redeemed}, func() { h.tokens = append(h.tokens, tk) })
	return h, err
}

// onCall is the roles that a person has by being on call when the fact f came.
func onCall(person string) string {
	return `(SELECT coalesce(array_agg('on-call/' || o.schedule), '{}') FROM on_call o WHERE o.person_id = ` + person + ` AND o.from_at <= f.at AND o.until_at > f.at)`
}

// moment is a time that may not be there.
func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// check holds the installation's database against the promises and against
// what its clients were told.
func (in *installation) check(t testing.TB) history {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answers := in.journal.all() // first: what is answered later may not be in the snapshot
	h, err := read(ctx, in.OwnerURL)
	if err != nil {
		t.Errorf("read the history: %v", err)
		return h
	}
	h.answers = answers
	for _, v := range h.violations() {
		t.Error(v)
	}
	return h
}

// sound is a history in which everything is as it should be: one approval of
// two stages that was approved, redeemed and reported, one denied, one
// cancelled, one expired, one pending.
func sound() history {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	two := []requirement{{Kind: "answer", Role: "reviewer", Needed: 1}, {Kind: "review", Role: "reviewer", Needed: 2, Within: "30s"}}
	one := []requirement{{Kind: "review", Role: "reviewer", Needed: 1}}
	h := history{now: at(100)}
	h.approvals = []approvalRow{
		{id: "apr_a", status: "approved", execution: "succeeded", opened: start, expires: at(60), ended: at(5), requirements: two, excluded: []string{"olga"}},
		{id: "apr_d", status: "denied", execution: "none", opened: start, expires: at(60), ended: at(5), requirements: one},
		{id: "apr_c", status: "cancelled", execution: "none", opened: start, expires: at(60), ended: at(5), requirements: one},
		{id: "apr_e", status: "expired", execution: "none", opened: start, expires: at(60), ended: at(31.1), requirements: two},
		{id: "apr_p", status: "pending", execution: "none", opened: start, expires: at(600), requirements: one},
	}
	for i := range h.approvals {
		h.approvals[i].edition = 1
	}
	vote := func(seq int64, s float64, id, who string, yes bool) factRow {
		return factRow{seq: seq, at: at(s), approval: id, kind: "vote", actorKind: "human", actor: "usr_" + who, yes: yes, identity: who, roles: []string{"reviewer"}}
	}
	runtime := func(seq int64, id string) factRow {
		return factRow{seq: seq, at: at(1), approval: id, kind: "answer", actorKind: "service", actor: "key_r", yes: true}
	}
	h.facts = []factRow{
		runtime(1, "apr_a"), vote(2, 2, "apr_a", "ada", true), vote(3, 4, "apr_a", "ben", true), vote(4, 3, "apr_d", "ada", false),
		{seq: 5, at: at(3), approval: "apr_c", kind: "cancel", actorKind: "agent", actor: "bot", yes: false},
		runtime(6, "apr_e"), vote(7, 3, "apr_e", "ada", true),
	}
	event := func(kind, outcome, id string) {
		seq := int64(len(h.events) + 1)
		e := eventRow{seq: seq, at: at(float64(seq)), id: fmt.Sprintf("e%d", seq), kind: kind, outcome: outcome, agent: "bot", tool: "tool", approval: id}
		e.body, _ = json.Marshal(map[string]any{
			"event_id": e.id, "type": kind, "outcome": outcome, "agent_id": "bot", "tool_name": "tool", "approval_id": id,
			"reasons": []any{}, "safe_payload": map[string]any{}, "actor": map[string]any{"kind": "agent"}, "request_id": "r_" + kind + id,
		})
		h.events = append(h.events, e)
	}
	for _, a := range h.approvals {
		event("decision", "REQUIRE_APPROVAL", a.id)
	}
	for _, e := range [][3]string{
		{"answer", "REQUIRE_APPROVAL", "apr_a"},
		{"vote", "REQUIRE_APPROVAL", "apr_a"},
		{"vote", "REQUIRE_APPROVAL", "apr_a"},
		{"vote", "REQUIRE_APPROVAL", "apr_d"},
		{"cancel", "REQUIRE_APPROVAL", "apr_c"},
		{"settled", "APPROVED", "apr_a"},
		{"settled", "REJECTED", "apr_d"},
		{"settled", "REJECTED", "apr_c"},
		{"settled", "TIMEOUT", "apr_e"},
		{"redeem", "DENY", "apr_a"},
		{"redeem", "ALLOW", "apr_a"},
		{"execution", "ALLOW", "apr_a"},
	} {
		event(e[0], e[1], e[2])
	}
	h.tokens = []tokenRow{{jti: "tok_a", approval: "apr_a", redeemed: true}}
	h.answers = []answered{{"r_decisionapr_a", "decision", "apr_a"}, {"r_voteapr_a", "vote", "apr_a"}, {"r_redeemapr_a", "redeem", "apr_a"}}
	return h
}

// TestCheckerFindsBrokenHistories breaks one promise after the other: a checker
// that cannot find them would be worth nothing.
func TestCheckerFindsBrokenHistories(t *testing.T) {
	if got := sound().violations(); len(got) > 0 {
		t.Fatalf("a sound history is said to break: %q", got)
	}
	without := func(h *history, kind, id string) {
		h.events = slices.DeleteFunc(h.events, func(e eventRow) bool { return e.kind == kind && e.approval == id && e.outcome != "DENY" })
	}
	again := func(h *history, kind, id string) {
		for _, e := range h.events {
			if e.kind == kind && e.approval == id && e.outcome != "DENY" {
				e.seq, e.id = int64(len(h.events)+1), "again"
				e.body = []byte(strings.Replace(string(e.body), `"event_id":"e`, `"event_id":"again","x":"e`, 1))
				h.events = append(h.events, e)
				return
			}
		}
	}
	for name, c := range map[string]struct {
		want   string
		damage func(*history)
	}{
		"terminal without event":         {"I2: apr_d", func(h *history) { without(h, "settled", "apr_d") }},
		"two terminal events":            {"I2: apr_a", func(h *history) { again(h, "settled", "apr_a") }},
		"terminal event of a pending":    {"I2: apr_d", func(h *history) { h.approvals[1].status = "pending" }},
		"event of another state":         {"I2: apr_d", func(h *history) { h.approvals[1].status = "cancelled" }},
		"end of an unknown approval":     {"I2: apr_x", func(h *history) { again(h, "settled", "apr_a"); h.events[len(h.events)-1].approval = "apr_x" }},
		"state that there is not":        {"I2: apr_d", func(h *history) { h.approvals[1].status = "done" }},
		"redeemed twice":                 {"I3: apr_a", func(h *history) { again(h, "redeem", "apr_a") }},
		"two tokens":                     {"I3: apr_a", func(h *history) { h.tokens = append(h.tokens, tokenRow{"tok_b", "apr_a", false}) }},
		"token of a denied call":         {"I3: apr_d", func(h *history) { h.tokens = append(h.tokens, tokenRow{"tok_b", "apr_d", false}) }},
		"approved without token":         {"I3: apr_a", func(h *history) { h.tokens = nil }},
		"redeemed without spending":      {"I3: apr_a", func(h *history) { h.tokens[0].redeemed = false }},
		"spent without event":            {"I3: apr_a", func(h *history) { without(h, "redeem", "apr_a") }},
		"ran without redeeming":          {"I3: apr_d", func(h *history) { h.approvals[1].execution = "succeeded" }},
		"one vote short":                 {"I5: apr_a", func(h *history) { h.facts = slices.Delete(h.facts, 2, 3) }},
		"one person with two accounts":   {"I5: apr_a", func(h *history) { h.facts[2].identity = "ada" }},
		"vote of the owner":              {"I5: apr_a", func(h *history) { h.facts[2].identity = "olga" }},
		"vote without the role":          {"I5: apr_a", func(h *history) { h.facts[2].roles = []string{"auditor"} }},
		"vote of a machine":              {"I5: apr_a", func(h *history) { h.facts[2].actorKind = "service" }},
		"vote of somebody disabled":      {"I5: apr_a", func(h *history) { h.facts[1].disabled = h.approvals[0].opened.Add(3 * time.Second) }},
		"vote after the deadline":        {"I5: apr_a", func(h *history) { h.facts[2].at = h.approvals[0].opened.Add(31*time.Second + time.Millisecond) }},
		"answer of the agent itself":     {"I5: apr_a", func(h *history) { h.facts[0].actorKind = "agent" }},
		"approved after a cancellation":  {"I5: apr_a", func(h *history) { h.facts[0].kind = "cancel" }},
		"vote on another edition":        {"I5: apr_a", func(h *history) { h.facts[2].edition = 2 }},
		"an edition out of nothing":      {"I4: apr_a", func(h *history) { h.approvals[0].edition = 2 }},
		"deputy without a delegation":    {"I5: apr_a", func(h *history) { h.facts[2].unfounded = true }},
		"deputy of who has voted":        {"I5: apr_a", func(h *history) { h.facts[2].via, h.facts[2].speaker = []string{"ada"}, []string{"reviewer"} }},
		"deputy of the owner":            {"I5: apr_a", func(h *history) { h.facts[2].via, h.facts[2].speaker = []string{"olga"}, []string{"reviewer"} }},
		"deputy of who has not the role": {"I5: apr_a", func(h *history) { h.facts[2].via, h.facts[2].speaker = []string{"cleo"}, []string{"auditor"} }},
		"a decision without a proof":     {"I5: apr_a", func(h *history) { h.approvals[0].requirements[1].Kind = "human" }},
		"one person for two groups": {"I5: apr_a", func(h *history) {
			h.approvals[0].requirements[1].AnyOf = []group{{"reviewer", 3}, {"auditor", 1}}
		}},
		"one no of two": {"I2: apr_d", func(h *history) { h.approvals[1].requirements[0].Deny = 2 }},
		"a glass that nobody may break": {"I5: apr_a", func(h *history) {
			h.facts[2].kind, h.facts[2].details.Alone, h.facts[2].comment = "break_glass", true, "It burns."
		}},
		"a glass that nobody looks at": {"I5: apr_a was let through", func(h *history) {
			f := &h.facts[2]
			f.kind, f.details.Alone, f.comment, f.roles = "break_glass", true, "It burns.", []string{"break-glass"}
			_ = json.Unmarshal([]byte(`{"method":"totp","at":"2026-01-02T03:04:08Z"}`), &f.details.Proof) // as it is in the database
		}},
		"escalated too early": {"I5: apr_a", func(h *history) {
			h.facts[2].roles, h.approvals[0].requirements[1].Escalation = []string{"chief"}, []escalation{{"10s", "chief"}}
		}},
		"widened without a claim": {"I5: apr_a", func(h *history) {
			h.facts[2].roles, h.approvals[0].terms.IfTooFew = []string{"chief"}, "chief"
			h.facts = append(h.facts, factRow{seq: 2, at: h.facts[1].at, approval: "apr_a", kind: "escalate", actorKind: "system", edition: 1, details: details{Widened: []int{1}}})
		}},
		"widened beside what was": {"I5: apr_a", func(h *history) {
			h.facts[2].roles, h.approvals[0].terms.IfTooFew, h.approvals[0].terms.ByClaim = []string{"chief"}, "chief", []string{"olga"}
			h.facts = append(h.facts, factRow{seq: 2, at: h.facts[1].at, approval: "apr_a", kind: "escalate", actorKind: "system", edition: 1, details: details{Widened: []int{0}}})
		}},
		"time that the clock stood still": {"I6: apr_e", func(h *history) {
			h.approvals[3].terms.PauseFor = "5s"
			h.facts = append(h.facts, factRow{seq: 8, at: h.facts[6].at.Add(time.Second), approval: "apr_e", kind: "question", actorKind: "human", edition: 1})
		}},
		"a lease that is over": {"I6: apr_a", func(h *history) {
			h.approvals[0].execution, h.approvals[0].leaseUntil = "redeemed", h.now.Add(-time.Minute)
		}},
		"approved after a denial":        {"I5: apr_a", func(h *history) { h.facts[1].yes = false }},
		"nothing required":               {"I5: apr_a", func(h *history) { h.approvals[0].requirements = nil }},
		"accepted, and no event says so": {"I5: apr_a", func(h *history) { h.approvals[0].requirements, h.approvals[0].terms.AcceptedAs = nil, "confirmed" }},
		"expired early":                  {"I6: apr_e", func(h *history) { h.approvals[3].ended = h.approvals[3].opened.Add(31*time.Second - time.Millisecond) }},
		"expired though approved":        {"I2: apr_e", func(h *history) { f := h.facts[6]; f.seq, f.identity = 8, "ben"; h.facts = append(h.facts, f) }},
		"deadline missed":                {"I6: apr_p", func(h *history) { h.now = h.approvals[4].expires.Add(time.Minute) }},
		"denied by nobody":               {"I2: apr_d", func(h *history) { h.facts = slices.Delete(h.facts, 3, 4) }},
		"cancelled by nobody":            {"I2: apr_c", func(h *history) { h.facts = slices.Delete(h.facts, 4, 5) }},
		"event that is no JSON":          {"I8: the body", func(h *history) { h.events[3].body = []byte(`{"event_id":`) }},
		"event that says something else": {"I8: event 1", func(h *history) { h.events[0].outcome = "ALLOW" }},
		"event without an actor": {"I8: event 1", func(h *history) {
			h.events[0].body = []byte(strings.Replace(string(h.events[0].body), `"agent"}`, `""}`, 1))
		}},
		"event with a time of its own": {"I8: the body", func(h *history) {
			h.events[0].body = []byte(strings.Replace(string(h.events[0].body), `{`, `{"seq":1,`, 1))
		}},
		"event twice": {"I8: event id", func(h *history) { h.events = append(h.events, h.events[0]) }},
		"end before the votes": {"I8: the events of apr_d", func(h *history) {
			i := slices.IndexFunc(h.events, func(e eventRow) bool { return e.kind == "vote" && e.approval == "apr_d" })
			h.events = append(h.events, h.events[i])
			h.events = slices.Delete(h.events, i, i+1)
		}},
		"approval out of nothing":     {"I1: apr_p", func(h *history) { without(h, "decision", "apr_p") }},
		"answer without event":        {"I1: a 2xx", func(h *history) { h.answers = append(h.answers, answered{"r_none", "vote", "apr_a"}) }},
		"answer whose event is lost":  {"I1: a 2xx", func(h *history) { without(h, "vote", "apr_a") }},
		"answer to a refused request": {"I1: a 2xx", func(h *history) { without(h, "redeem", "apr_a") }},
	} {
		h := sound()
		c.damage(&h)
		if got := h.violations(); !slices.ContainsFunc(got, func(v string) bool { return strings.HasPrefix(v, c.want) }) {
			t.Errorf("%s: got %q, want one that begins with %q", name, got, c.want)
		}
	}
}
