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
