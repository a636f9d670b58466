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
}

type requirement struct {
	Kind   string `json:"kind"`
	Role   string `json:"role"`
	Needed int    `json:"needed"`
	Within string `json:"within"`
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

// violations says which of the design's invariants the history breaks.
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
		if h.now.Sub(a.expires) > overdueGrace {
			say("I6: %s is pending, and its deadline passed %s ago", a.id, h.now.Sub(a.expires))
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
	met, deadline := a.replay(facts)
	switch a.status {
	case "approved":
		if !met {
			say("I5: %s is approved without enough distinct eligible people: %+v", a.id, facts)
		}
	case "expired":
		if met {
			say("I2: %s has expired although everything was given in time", a.id)
		}
		if a.ended.Before(deadline) {
			say("I6: %s expired at %s, before its deadline %s", a.id, a.ended, deadline)
		}
	case "denied":
		if !slices.ContainsFunc(facts, func(f factRow) bool {
			return !f.yes && !slices.Contains([]string{"cancel", "ticket", "ticket_check"}, f.kind)
		}) && !met {
			say("I2: %s is denied and nobody denied it", a.id)
		}
	case "cancelled":
		if !slices.ContainsFunc(facts, func(f factRow) bool { return f.kind == "cancel" }) {
			say("I2: %s is cancelled and nobody cancelled it", a.id)
		}
	}
}

// replay walks the facts by the rules that the design gives, written down a
// second time: whether all requirements were met in time, and if not, the
// deadline that the walk came to.
func (a approvalRow) replay(facts []factRow) (met bool, deadline time.Time) {
	facts = slices.Clone(facts)
	slices.SortFunc(facts, func(x, y factRow) int { return int(x.seq - y.seq) })
	limit := func(r requirement, from time.Time) time.Time {
		if within, err := time.ParseDuration(r.Within); err == nil && within > 0 && from.Add(within).Before(a.expires) {
			return from.Add(within)
		}
		return a.expires
	}
	since, voices, stage, given, attached := a.opened, map[string]bool{}, 0, 0, false
	for _, f := range facts {
		if stage == len(a.requirements) {
			break
		}
		r := a.requirements[stage]
		if !f.at.Before(limit(r, since)) {
			break
		}
		switch {
		case f.kind == "cancel":
			return false, limit(r, since)
		case f.kind == "answer" && f.yes && f.actorKind == "service" && r.Kind == "answer":
			given = r.Needed
		case f.kind == "ticket" && r.Kind == "ticket":
			attached = true
			continue
		case f.kind == "ticket_check" && f.actorKind == "system" && r.Kind == "ticket" && attached:
			// A bad ticket leaves it waiting for another one.
			if attached = false; !f.yes {
				continue
			}
			given = r.Needed
		case f.kind == "vote" && f.yes && f.actorKind == "human":
			gone := !f.disabled.IsZero() && (a.ended.IsZero() || f.disabled.Before(a.ended))
			if gone || f.identity == "" || slices.Contains(a.excluded, f.identity) || !slices.Contains(f.roles, r.Role) || voices[f.identity] {
				continue
			}
			voices[f.identity] = true
			given++
		case !f.yes:
			return false, limit(r, since)
		default:
			continue
		}
		if given >= r.Needed {
			stage, given, since = stage+1, 0, f.at
		}
	}
	if stage == len(a.requirements) {
		return len(a.requirements) > 0, time.Time{}
	}
	return false, limit(a.requirements[stage], since)
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
	place := map[string]int{"decision": 0, "vote": 1, "answer": 1, "cancel": 1, "settled": 2, "redeem": 3, "execution": 4}
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
	events := map[key]string{}
	for _, e := range h.events {
		var body struct {
			RequestID string `json:"request_id"`
		}
		_ = json.Unmarshal(e.body, &body) // checkEvents says so
		// A request may have failed first: the success is what counts.
		if k := (key{body.RequestID, e.kind}); events[k] == "" || e.outcome != "DENY" {
			events[k] = e.outcome + " " + e.approval
		}
	}
	for _, a := range h.answers {
		got, ok := events[key{a.RequestID, a.Type}]
		outcome, approval, _ := strings.Cut(got, " ")
		if !ok || a.ApprovalID != "" && (approval != a.ApprovalID || outcome == "DENY") {
			say("I1: a 2xx answer (%+v) has no event of its own (%q)", a, got)
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
	var ended *time.Time
	each(`SELECT id, status, execution, agent_id, tool, opened_at, expires_at, ended_at, requirements, excluded FROM approvals ORDER BY opened_at`,
		[]any{&a.id, &a.status, &a.execution, &a.agent, &a.tool, &a.opened, &a.expires, &ended, &a.requirements, &a.excluded}, func() {
			row := a
			row.requirements, row.excluded, row.ended = slices.Clone(a.requirements), slices.Clone(a.excluded), time.Time{}
			if ended != nil {
				row.ended = *ended
			}
			h.approvals = append(h.approvals, row)
		})
	var f factRow
	var disabled *time.Time
	each(`SELECT f.seq, f.at, f.approval_id, f.kind, f.actor_kind, f.actor_id, f.yes, coalesce(p.identity, ''), coalesce(p.roles, '{}'), p.disabled_at
		FROM facts f LEFT JOIN people p ON p.id = f.actor_id ORDER BY f.seq`,
		[]any{&f.seq, &f.at, &f.approval, &f.kind, &f.actorKind, &f.actor, &f.yes, &f.identity, &f.roles, &disabled}, func() {
			row := f
			row.roles, row.disabled = slices.Clone(f.roles), time.Time{}
			if disabled != nil {
				row.disabled = *disabled
			}
			h.facts = append(h.facts, row)
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

// check holds the installation's database against the invariants and against
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
		"terminal without event":       {"I2: apr_d", func(h *history) { without(h, "settled", "apr_d") }},
		"two terminal events":          {"I2: apr_a", func(h *history) { again(h, "settled", "apr_a") }},
		"terminal event of a pending":  {"I2: apr_d", func(h *history) { h.approvals[1].status = "pending" }},
		"event of another state":       {"I2: apr_d", func(h *history) { h.approvals[1].status = "cancelled" }},
		"end of an unknown approval":   {"I2: apr_x", func(h *history) { again(h, "settled", "apr_a"); h.events[len(h.events)-1].approval = "apr_x" }},
		"state that there is not":      {"I2: apr_d", func(h *history) { h.approvals[1].status = "done" }},
		"redeemed twice":               {"I3: apr_a", func(h *history) { again(h, "redeem", "apr_a") }},
		"two tokens":                   {"I3: apr_a", func(h *history) { h.tokens = append(h.tokens, tokenRow{"tok_b", "apr_a", false}) }},
		"token of a denied call":       {"I3: apr_d", func(h *history) { h.tokens = append(h.tokens, tokenRow{"tok_b", "apr_d", false}) }},
		"approved without token":       {"I3: apr_a", func(h *history) { h.tokens = nil }},
		"redeemed without spending":    {"I3: apr_a", func(h *history) { h.tokens[0].redeemed = false }},
		"spent without event":          {"I3: apr_a", func(h *history) { without(h, "redeem", "apr_a") }},
		"ran without redeeming":        {"I3: apr_d", func(h *history) { h.approvals[1].execution = "succeeded" }},
		"one vote short":               {"I5: apr_a", func(h *history) { h.facts = slices.Delete(h.facts, 2, 3) }},
		"one person with two accounts": {"I5: apr_a", func(h *history) { h.facts[2].identity = "ada" }},
		"vote of the owner":            {"I5: apr_a", func(h *history) { h.facts[2].identity = "olga" }},
		"vote without the role":        {"I5: apr_a", func(h *history) { h.facts[2].roles = []string{"auditor"} }},
		"vote of a machine":            {"I5: apr_a", func(h *history) { h.facts[2].actorKind = "service" }},
		"vote of somebody disabled":    {"I5: apr_a", func(h *history) { h.facts[1].disabled = h.approvals[0].opened.Add(3 * time.Second) }},
		"vote after the deadline":      {"I5: apr_a", func(h *history) { h.facts[2].at = h.approvals[0].opened.Add(31*time.Second + time.Millisecond) }},
		"answer of the agent itself":   {"I5: apr_a", func(h *history) { h.facts[0].actorKind = "agent" }},
		"ticket that nobody attached": {"I5: apr_a", func(h *history) {
			h.approvals[0].requirements[0].Kind, h.facts[0].kind, h.facts[0].actorKind = "ticket", "ticket_check", "system"
		}},
		"ticket that nobody looked at": {"I5: apr_a", func(h *history) {
			h.approvals[0].requirements[0].Kind, h.facts[0].kind = "ticket", "ticket"
		}},
		"approved after a cancellation":  {"I5: apr_a", func(h *history) { h.facts[0].kind = "cancel" }},
		"approved after a denial":        {"I5: apr_a", func(h *history) { h.facts[1].yes = false }},
		"nothing required":               {"I5: apr_a", func(h *history) { h.approvals[0].requirements = nil }},
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
