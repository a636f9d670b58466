package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// world makes the events of a log: people, agents and approvals, which it drives
// through engine/approval as the gate and the settler do.
type world struct {
	testing.TB
	random *rand.Rand
	now    time.Time
	facts  int64 // the last fact's number
	ids    int
	people map[string]approval.Voter
	events []engine.Event
}

// waiting is an approval in a world.
type waiting struct {
	approval.Approval
	until    time.Time // of its token
	outcome  engine.Outcome
	redeemed bool
}

func newWorld(t testing.TB, seed uint64) *world {
	return &world{
		TB: t, random: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC),
		people: map[string]approval.Voter{
			"usr_ada":   {Identity: "ada@example.com", Roles: []string{"reviewer", "security"}, Active: true},
			"usr_ada_2": {Identity: "ada@example.com", Roles: []string{"reviewer"}, Active: true},
			"usr_ben":   {Identity: "ben@example.com", Roles: []string{"reviewer", "finance"}, Active: true},
			"usr_cleo":  {Identity: "cleo@example.com", Roles: []string{"reviewer", "finance"}, Active: true},
			"usr_dina":  {Identity: "dina@example.com", Roles: []string{"security", approval.BreakGlassRole}, Active: true},
			"usr_emil":  {Identity: "emil@example.com", Roles: []string{approval.BreakGlassRole}, Active: true},
			"usr_owner": {Identity: "owner@example.com", Roles: []string{"reviewer"}, Active: true},
			"usr_gone":  {Identity: "gone@example.com", Roles: []string{"reviewer"}},
		},
	}
}

func (w *world) id(prefix string) string {
	w.ids++
	return fmt.Sprintf("%s_%08d", prefix, w.ids)
}

// uuid is one of version 4, and the same in every run.
func (w *world) uuid() string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", w.random.Uint32(), w.random.Uint64()&0xffffffffffff)
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

// tick is about how long things take.
func (w *world) tick() time.Time {
	w.pass(time.Duration(1+w.random.IntN(3000)) * time.Microsecond)
	return w.now
}

func (w *world) add(e engine.Event) {
	e.ID, e.Timestamp = w.uuid(), w.tick()
	if e.Reasons == nil {
		e.Reasons = []engine.Reason{}
	}
	if e.SafePayload == nil {
		e.SafePayload = json.RawMessage(`{}`)
	}
	w.events = append(w.events, e)
}

func hmacOf(digest string) string {
	sum := sha256.Sum256([]byte(digest))
	return "hmac-sha256:" + hex.EncodeToString(sum[:])
}

func (w *world) about(a *waiting, kind engine.EventType, outcome engine.Outcome, by engine.Actor) engine.Event {
	return engine.Event{
		Type: kind, Outcome: outcome, RequestID: a.Call.RequestID, AgentID: a.Call.AgentID, ToolName: a.Call.Tool, ApprovalID: a.ID, Actor: by,
		DigestHMAC: hmacOf(a.Call.Digest), PolicyDigest: "sha256:policy", PrevOutcome: a.Decision.Outcome,
	}
}

func (w *world) json(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		w.Fatal(err)
	}
	return data
}

var (
	agent  = engine.Actor{Kind: engine.AgentActor, ID: "bot", Channel: "api"}
	system = engine.Actor{Kind: engine.SystemActor, ID: "settle", Channel: "engine"}
)

func human(id string) engine.Actor {
	return engine.Actor{Kind: engine.HumanActor, ID: id, Channel: "console"}
}

// added tells whose account it is.
func (w *world) added(id string) {
	w.add(engine.Event{
		Type: engine.Admin, Outcome: engine.Allow, Actor: human("usr_ada"), Reasons: []engine.Reason{{Code: "USER_ADDED", Message: "A person was added."}},
		SafePayload: w.json(map[string]any{"subject": id, "person": id, "identity": w.people[id].Identity}),
	})
}

// ask opens an approval.
func (w *world) ask(tool string, expires time.Duration, terms approval.Terms, requirements ...engine.Requirement) *waiting {
	a := &waiting{outcome: engine.RequireApproval}
	a.ID, a.Status = w.id("apr"), approval.Pending
	a.Call = engine.Call{AgentID: "bot", Tool: tool, Digest: w.id("sha256:call"), RequestID: w.id("req")}
	a.Decision.Outcome = a.outcome
	terms.Accountable = []string{"owner@example.com"}
	at := w.tick()
	a.Plan = approval.Plan{OpenedAt: at, ExpiresAt: at.Add(expires), Requirements: requirements, Excluded: append(slices.Clone(terms.ByClaim), "owner@example.com"), Edition: 1, Terms: terms}
	e := w.about(a, engine.Decided, a.outcome, agent)
	e.Requirements = approval.PayloadRequirements(requirements)
	e.SafePayload = w.json(map[string]any{"dialect": "aana", "route": "defer", "argument_count": 2, "argument_keys": []string{"amount", "to"}, "asked": a.Plan.EditionPayload()})
	e.Reasons = []engine.Reason{{Code: "REVIEW", Message: "It takes somebody's approval."}}
	w.add(e)
	return a
}

// standing reads the standing of everybody behind the facts anew.
func (w *world) standing(a *waiting) {
	for i := range a.Facts {
		f := &a.Facts[i]
		f.Voter = w.voter(f.Actor, f.Via)
	}
	a.ComputeState(w.now)
}

func (w *world) voter(by engine.Actor, via []string) approval.Voter {
	v := w.people[by.ID]
	if by.Kind != engine.HumanActor {
		return approval.Voter{}
	}
	v.Roles, v.Via = slices.Clone(v.Roles), nil
	for _, id := range via {
		v.Via = append(v.Via, w.people[id])
	}
	return v
}

var typeOf = map[approval.FactKind]engine.EventType{
	approval.Vote: engine.Voted, approval.Reply: engine.Answered, approval.Cancel: engine.Cancelled, approval.TicketLink: engine.Ticketed,
	approval.TicketCheck: engine.Ticketed, approval.Verification: engine.Proved, approval.Question: engine.Asked, approval.Information: engine.Asked,
	approval.Comment: engine.Commented, approval.Claim: engine.Claimed, approval.Unclaim: engine.Claimed, approval.Extend: engine.Extended,
	approval.Escalate: engine.Escalated, approval.BreakGlass: engine.Broken, approval.Edit: engine.Edited, approval.Reopen: engine.Reopened,
}

// say adds a fact as the gate does: or its refusal, and reports which.
func (w *world) say(a *waiting, f approval.Fact) bool {
	w.tick()
	w.standing(a)
	f.Voter = w.voter(f.Actor, f.Via)
	if f.Details.Proof != nil && f.Details.Proof.At.IsZero() {
		f.Details.Proof = &approval.Proof{Method: f.Details.Proof.Method, At: w.now}
	}
	if a.Status.Terminal() || approval.Admit(a.Plan, a.Facts, f, w.now) != nil {
		e := w.about(a, typeOf[f.Kind], engine.Deny, f.Actor)
		e.Reasons = []engine.Reason{{Code: "not_eligible", Message: "You do not have the role that this asks for at this stage."}}
		w.add(e)
		return false
	}
	w.append(a, f)
	e := w.about(a, typeOf[f.Kind], a.outcome, f.Actor)
	e.SafePayload, e.Reasons = w.json(a.Facts[len(a.Facts)-1].Payload()), []engine.Reason{{Code: strings.ToUpper(string(f.Kind)), Message: "Somebody said it."}}
	w.add(e)
	return true
}

func (w *world) append(a *waiting, f approval.Fact) {
	w.facts++
	f.Seq, f.At, f.Edition = w.facts, w.tick(), a.Plan.Edition
	if f.Comment != "" && f.Details.Salt == "" {
		f.Details.Salt = w.uuid()
	}
	a.Facts = append(a.Facts, f)
	a.ComputeState(f.At)
}

// amend begins a new edition.
func (w *world) amend(a *waiting, f approval.Fact, requirements []engine.Requirement) {
	w.standing(a)
	f.Voter = w.voter(f.Actor, nil)
	w.append(a, f)
	fact := a.Facts[len(a.Facts)-1]
	expires, left := approval.CarryOver(a.Plan, a.Facts, fact.At)
	a.Plan.Edition++
	a.Plan.BeganAt, a.Plan.ExpiresAt, a.Plan.PauseFor = w.tick(), expires, min(a.Plan.PauseFor, left)
	a.Plan.Requirements = requirements
	if f.Kind == approval.Edit {
		a.Call.Digest = w.id("sha256:call")
		a.Plan.Excluded = append(slices.Clone(a.Plan.Excluded), f.Voter.Identity)
		slices.Sort(a.Plan.Excluded)
		a.Plan.Excluded = slices.Compact(a.Plan.Excluded)
	}
	e := w.about(a, typeOf[f.Kind], a.outcome, f.Actor)
	e.Requirements, e.SafePayload = approval.PayloadRequirements(requirements), w.json(fact.EditionPayload(a.Plan))
	w.add(e)
}

// settle ends an approval whose facts, or the time, have decided it. again is why
// what was approved is refused all the same.
func (w *world) settle(a *waiting, again string) bool {
	w.tick()
	w.standing(a)
	if a.Status.Terminal() || a.State.Status == approval.Pending {
		return false
	}
	ended := a.SettledPayload(a.State, w.now)
	a.Status = a.State.Status
	e := w.about(a, engine.Settled, a.Status.Outcome(), system)
	e.Reasons = []engine.Reason{{Code: "SETTLED", Message: "It is over."}}
	switch {
	case a.Status == approval.Approved && again == "kill_switch":
		a.Status, e.Outcome = approval.Denied, engine.KillSwitch
	case a.Status == approval.Approved && again != "":
		a.Status, e.Outcome, e.Reasons[0].Code = approval.Denied, engine.Rejected, again
	case a.Status == approval.Approved:
		valid := 15 * time.Minute
		for _, f := range a.State.Counted {
			if d := time.Duration(f.Details.ValidFor); d > 0 {
				valid = min(valid, d)
			}
		}
		a.until = w.tick().Add(valid)
		ended.ValidUntil = a.until
	}
	e.Requirements, e.SafePayload = approval.PayloadRequirements(a.Plan.Requirements), w.json(map[string]any{"ended": ended})
	w.add(e)
	return a.Status == approval.Approved
}

func (w *world) redeem(a *waiting) {
	if w.tick(); a.redeemed || a.Status != approval.Approved || !w.now.Before(a.until) {
		e := w.about(a, engine.Redeemed, engine.Deny, agent)
		e.Reasons = []engine.Reason{{Code: "token_used", Message: "This token has been redeemed already."}}
		w.add(e)
		return
	}
	a.redeemed = true
	e := w.about(a, engine.Redeemed, engine.Allow, agent)
	e.Reasons = []engine.Reason{{Code: "REDEEMED", Message: "The token was redeemed; the call may run once."}}
	w.add(e)
}

func (w *world) executed(a *waiting, code string, by engine.Actor) {
	e := w.about(a, engine.Executed, engine.Allow, by)
	e.Reasons, e.SafePayload = []engine.Reason{{Code: code, Message: "What became of it."}}, w.json(map[string]any{"execution": "succeeded", "duration_ms": 12})
	w.add(e)
}

// plain adds what has to do with no approval.
func (w *world) plain() {
	switch w.random.IntN(4) {
	case 0:
		w.add(engine.Event{Type: engine.Decided, Outcome: engine.Allow, RequestID: w.id("req"), AgentID: "bot", ToolName: "read_file", Actor: agent, SafePayload: w.json(map[string]any{"dialect": "aana", "route": "accept"})})
	case 1:
		w.add(engine.Event{Type: engine.SignIn, Outcome: engine.Allow, Actor: human("usr_ada"), Reasons: []engine.Reason{{Code: "SIGNED_IN", Message: "Somebody signed in."}}})
	case 2:
		w.add(engine.Event{Type: engine.Refusal, Outcome: engine.Deny, Actor: agent, AgentID: "bot", Reasons: []engine.Reason{{Code: "bad_query", Message: "No such thing."}}})
	case 3:
		w.add(engine.Event{Type: engine.Admin, Outcome: engine.Allow, Actor: human("usr_ben"), Reasons: []engine.Reason{{Code: "KEY_MADE", Message: "A key was made."}}, SafePayload: w.json(map[string]any{"key": "key_1", "scopes": []string{"check"}})})
	}
}

func review(role string, n int) engine.Requirement {
	return engine.Requirement{Kind: engine.Review, Role: role, Needed: n}
}

func yes(id string) approval.Fact {
	return approval.Fact{Kind: approval.Vote, Yes: true, Actor: human(id), Comment: "looks right", Details: approval.Details{Proof: &approval.Proof{Method: "passkey"}}}
}

func no(id string) approval.Fact {
	return approval.Fact{Kind: approval.Vote, Actor: human(id), Denial: approval.NotNow, Comment: "not today"}
}

// live goes through everything that can become of an approval.
func (w *world) live(n int) {
	lives := []func(){
		w.approved, w.denied, w.expired, w.cancelled, w.judgedAgain, w.edited, w.reopened, w.broken, w.deputy, w.ticket, w.proved, w.supplied, w.granted, w.unknown, w.stillOpen, w.revised, w.widened,
	}
	for i := range n {
		lives[i%len(lives)]()
		w.plain()
		w.pass(time.Duration(w.random.IntN(600)) * time.Second)
	}
}

func (w *world) approved() {
	a := w.ask("pay", time.Hour, approval.Terms{}, review("finance", 2))
	w.say(a, yes("usr_owner")) // refused
	w.say(a, yes("usr_ben"))
	w.plain()
	vote := yes("usr_cleo")
	vote.Details.ValidFor, vote.Details.Constraints = engine.Duration(5*time.Minute), json.RawMessage(`{"max_amount":100}`)
	w.say(a, vote)
	w.settle(a, "")
	w.redeem(a)
	w.redeem(a) // refused
	w.executed(a, "EXECUTION_SUCCEEDED", agent)
}

func (w *world) denied() {
	a := w.ask("pay", time.Hour, approval.Terms{}, engine.Requirement{Kind: engine.Human, Role: "reviewer", Needed: 1, Deny: 2})
	w.say(a, no("usr_ben"))
	w.say(a, no("usr_cleo"))
	w.settle(a, "")
	w.say(a, yes("usr_ada")) // too late
}

func (w *world) expired() {
	a := w.ask("pay", 30*time.Minute, approval.Terms{PauseFor: engine.Duration(time.Hour), Extenders: []string{"security"}}, review("reviewer", 1))
	w.say(a, approval.Fact{Kind: approval.Claim, Actor: human("usr_ben")})
	w.say(a, approval.Fact{Kind: approval.Question, Actor: human("usr_ben"), Comment: "what for?"})
	w.pass(10 * time.Minute)
	w.say(a, approval.Fact{Kind: approval.Information, Actor: agent, Comment: "rent"})
	w.say(a, approval.Fact{Kind: approval.Extend, Actor: human("usr_ada"), Details: approval.Details{By: engine.Duration(10 * time.Minute)}})
	w.say(a, approval.Fact{Kind: approval.Unclaim, Actor: human("usr_ben")})
	w.pass(50 * time.Minute)
	w.say(a, yes("usr_ada")) // too late
	w.pass(3 * time.Hour)    // an outage
	w.settle(a, "")
}

func (w *world) cancelled() {
	a := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 2))
	w.say(a, yes("usr_ben"))
	w.say(a, approval.Fact{Kind: approval.Comment, Actor: human("usr_owner"), Comment: "I think we need it"})
	w.say(a, approval.Fact{Kind: approval.Cancel, Actor: agent})
	w.settle(a, "")
}

func (w *world) judgedAgain() {
	for _, again := range []string{"policy_changed", "recheck_failed", "kill_switch"} {
		a := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 1))
		w.say(a, yes("usr_ben"))
		w.settle(a, again)
	}
}

func (w *world) edited() {
	a := w.ask("pay", time.Hour, approval.Terms{PauseFor: engine.Duration(time.Hour)}, review("reviewer", 1))
	w.say(a, approval.Fact{Kind: approval.Question, Actor: human("usr_cleo"), Comment: "how much?"})
	w.pass(time.Minute)
	w.amend(a, approval.Fact{Kind: approval.Edit, Actor: human("usr_cleo"), Comment: "less", Details: approval.Details{Changed: []string{"amount"}}}, []engine.Requirement{review("reviewer", 2)})
	w.say(a, yes("usr_cleo")) // refused
	w.say(a, yes("usr_ben"))
	w.say(a, yes("usr_ada_2"))
	w.settle(a, "")
	w.redeem(a)
	w.executed(a, "EXECUTION_FAILED", agent)
}

func (w *world) reopened() {
	a := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 1))
	w.say(a, yes("usr_ben"))
	w.amend(a, approval.Fact{Kind: approval.Reopen, Actor: system}, []engine.Requirement{review("reviewer", 1), review("security", 1)})
	w.say(a, yes("usr_cleo"))
	w.say(a, no("usr_ada"))
	w.settle(a, "")
}

// widened is one in which claims have left too few.
func (w *world) widened() {
	a := w.ask("pay", time.Hour, approval.Terms{ByClaim: []string{"ben@example.com"}, IfTooFew: "security"}, review("finance", 2))
	w.say(a, approval.Fact{Kind: approval.Escalate, Actor: system, Details: approval.Details{Widened: []int{0}}})
	w.say(a, yes("usr_cleo"))
	w.say(a, yes("usr_ben"))
	w.say(a, yes("usr_dina"))
	w.settle(a, "")
	w.redeem(a)
}

func (w *world) broken() {
	glass := approval.Fact{Kind: approval.BreakGlass, Yes: true, Actor: human("usr_dina"), Comment: "it burns", Details: approval.Details{Proof: &approval.Proof{Method: "passkey"}}}
	a := w.ask("stop", time.Hour, approval.Terms{}, review("surgeon", 1))
	w.say(a, glass)
	glass.Actor = human("usr_emil")
	w.say(a, glass)
	w.settle(a, "")
	b := w.ask("stop", time.Hour, approval.Terms{}, review("surgeon", 1))
	glass.Details.Alone = true
	w.say(b, glass)
	w.settle(b, "")
	w.add(w.about(b, engine.Afterward, engine.Allow, human("usr_ada")))
}

func (w *world) deputy() {
	a := w.ask("pay", time.Hour, approval.Terms{}, review("finance", 2))
	vote := yes("usr_emil")
	vote.Via = []string{"usr_ben"}
	w.say(a, vote)
	w.say(a, yes("usr_cleo"))
	w.settle(a, "")
	w.redeem(a)
	w.pass(16 * time.Minute)
	w.executed(a, "EXECUTION_UNKNOWN", system)
	w.executed(a, "EXECUTION_RECONCILED", human("usr_owner"))
}

func (w *world) ticket() {
	a := w.ask("deploy", time.Hour, approval.Terms{}, engine.Requirement{Kind: engine.Ticket, Needed: 1, Ticket: &engine.TicketTerms{System: "jira"}})
	t := approval.Ticket{System: "jira", Ref: "OPS-1", Title: "secret", Project: "OPS", State: "open"}
	w.say(a, approval.Fact{Kind: approval.TicketLink, Actor: agent, Details: approval.Details{Ticket: &t}})
	bad := t
	bad.Code, bad.Message = "ticket_state", "It is closed."
	w.say(a, approval.Fact{Kind: approval.TicketCheck, Actor: system, Details: approval.Details{Ticket: &bad}})
	w.say(a, approval.Fact{Kind: approval.TicketLink, Actor: agent, Details: approval.Details{Ticket: &t}})
	w.say(a, approval.Fact{Kind: approval.TicketCheck, Yes: true, Actor: system, Details: approval.Details{Ticket: &t}})
	w.settle(a, "")
	w.pass(20 * time.Minute)
	w.redeem(a) // too late
}

func (w *world) proved() {
	a := w.ask("unlock", time.Hour, approval.Terms{}, engine.Requirement{Kind: engine.StepUp, Needed: 1}, review("reviewer", 1))
	w.say(a, approval.Fact{Kind: approval.Verification, Yes: true, Actor: human("usr_ben"), Details: approval.Details{Proof: &approval.Proof{Method: "totp"}}}) // refused
	w.say(a, approval.Fact{Kind: approval.Verification, Yes: true, Actor: human("usr_owner"), Details: approval.Details{Proof: &approval.Proof{Method: "totp"}}})
	w.say(a, yes("usr_ben"))
	w.settle(a, "")
}

func (w *world) supplied() {
	a := w.ask("order", time.Hour, approval.Terms{}, engine.Requirement{Kind: engine.Answer, Role: "reviewer", Needed: 1, Form: json.RawMessage(`{"type":"object","properties":{"n":{"minimum":1}}}`)})
	runtime := engine.Actor{Kind: engine.ServiceActor, ID: "key_1", Channel: "api"}
	w.say(a, approval.Fact{Kind: approval.Reply, Yes: true, Actor: runtime, Details: approval.Details{Supplied: []string{"n"}}})
	w.settle(a, "")
	b := w.ask("order", time.Hour, approval.Terms{}, engine.Requirement{Kind: engine.Answer, Role: "reviewer", Needed: 1})
	w.say(b, approval.Fact{Kind: approval.Reply, Denial: approval.Never, Actor: runtime})
	w.settle(b, "")
}

func (w *world) granted() {
	a := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 1))
	vote := yes("usr_ben")
	vote.Details.Grant = "gra_1"
	w.say(a, vote)
	w.settle(a, "")
	w.add(w.about(a, engine.Granted, engine.RequireApproval, human("usr_ben")))
}

func (w *world) unknown() {
	a := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 1))
	w.say(a, yes("usr_ben"))
	w.settle(a, "")
	w.redeem(a)
	w.executed(a, "EXECUTION_UNKNOWN", agent)
}

func (w *world) stillOpen() {
	a := w.ask("pay", 1000*time.Hour, approval.Terms{}, engine.Requirement{
		Kind: engine.Review, AnyOf: []engine.Group{{Role: "security", Needed: 2}, {Role: "finance", Needed: 2}}, Needed: 1,
		Escalation: []engine.Escalation{{After: engine.Duration(time.Hour), Role: "reviewer"}}, Reminders: []engine.Duration{engine.Duration(time.Minute)}, Suggested: []string{"x@example.com"},
	})
	w.say(a, yes("usr_ada"))
	w.say(a, approval.Fact{Kind: approval.Escalate, Actor: system})
}

// revised is approved by people of whom one is disabled before it ends, and then
// by others.
func (w *world) revised() {
	a := w.ask("pay", time.Hour, approval.Terms{}, review("reviewer", 2))
	w.say(a, yes("usr_ben"))
	former := w.people["usr_ben"]
	w.people["usr_ben"] = approval.Voter{Identity: former.Identity, Roles: former.Roles}
	w.say(a, yes("usr_cleo"))
	w.settle(a, "") // it is not over
	w.say(a, yes("usr_ada"))
	w.settle(a, "")
	w.people["usr_ben"] = former
}
