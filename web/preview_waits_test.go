package web

import (
	"fmt"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/calendar"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// previewWaits adds cards in all the states that a wait can have.
func previewWaits(m *fakeGate, start time.Time, at func(*gate.Card, time.Duration)) {
	ada := m.people["ada@example.com"]
	ada.Roles = append(ada.Roles, approval.BreakGlassRole, "manager")
	m.people[ada.Email] = ada
	for email, p := range m.people {
		p.VerifiedAt = start
		m.people[email] = p
	}
	by := func(who, role string) (engine.Actor, approval.Voter) {
		return engine.Actor{Kind: engine.HumanActor, ID: "usr_" + who}, approval.Voter{Identity: who, Roles: []string{role}, Active: true}
	}
	tell := func(c *gate.Card, kind engine.EventType, f approval.Fact) {
		f.Seq, f.At = int64(len(c.Approval.Facts)+1), start.Add(-time.Duration(20-len(c.Approval.Facts))*time.Second)
		c.Approval.Facts = append(c.Approval.Facts, f)
		c.Timeline = append(c.Timeline, engine.Event{Type: kind, Timestamp: f.At, Actor: f.Actor})
	}
	m.add("apr_group", "payments.transfer", `{"amount":{"currency":"EUR","value":98000},"memo":"Office move","to":{"iban":"GB33 BUKB 2020 1555 5555 55","name":"Acme Tooling Ltd"}}`, func(c *gate.Card) {
		at(c, 29*time.Hour)
		a := &c.Approval
		a.Version, a.Session, c.Session = 2, "quarter-end/17", 3
		a.Plan.Edition, a.Plan.BeganAt = 2, start.Add(-30*time.Minute)
		a.Plan.PauseFor, a.Plan.Extenders = engine.Duration(4*time.Hour), []string{"manager"}
		a.Plan.Calendars = map[string]calendar.Calendar{"business hours": {TimeZone: "UTC", Hours: map[string][]string{"mon": {"00:00-24:00"}, "tue": {"00:00-24:00"}, "wed": {"00:00-24:00"}, "thu": {"00:00-24:00"}, "fri": {"00:00-24:00"}, "sat": {"00:00-24:00"}, "sun": {"00:00-24:00"}}}}
		a.Plan.Requirements = []engine.Requirement{
			{Kind: engine.Review, Role: "finance-approver", Needed: 2, Deny: 2, Within: engine.Duration(8 * time.Hour), Calendar: "business hours", Suggested: []string{"ada@example.com"}},
			{Kind: engine.Review, Needed: 1, AnyOf: []engine.Group{{Role: "legal", Needed: 2}, {Role: "security-approver", Needed: 1}}, Escalation: []engine.Escalation{{After: engine.Duration(10 * time.Minute), Role: "manager"}, {After: engine.Duration(3 * time.Hour), Role: "director"}}},
			{Kind: engine.Human, Role: "director", Needed: 1},
		}
		a.Decision.Constraints = []byte(`{"call_back_known_number":true,"max_amount":100000}`)
		c.Permits = []byte(`{"call_back_known_number":true,"max_amount":98000}`)
		grace, graces := by("grace", "finance-approver")
		linus, linuses := by("linus", "finance-approver")
		tell(c, engine.Voted, approval.Fact{Kind: approval.Vote, Yes: true, Actor: linus, Voter: linuses, Edition: 1})
		tell(c, engine.Edited, approval.Fact{Kind: approval.Edit, Actor: linus, Voter: linuses, Edition: 1, Comment: "The invoice is over 98,000, not 89,000.", Details: approval.Details{Changed: []string{"amount", "memo"}}})
		tell(c, engine.Claimed, approval.Fact{Kind: approval.Claim, Actor: grace, Voter: graces, Edition: 2})
		graces.Via = []approval.Voter{{Identity: "olga", Roles: []string{"finance-approver"}, Active: true}}
		tell(c, engine.Voted, approval.Fact{Kind: approval.Vote, Yes: true, Actor: grace, Voter: graces, Via: []string{"usr_olga"}, Edition: 2, Comment: "Matches the contract.", Details: approval.Details{Constraints: []byte(`{"max_amount":98000}`)}})
		tell(c, engine.Asked, approval.Fact{Kind: approval.Question, Actor: grace, Voter: approval.Voter{Identity: "grace", Roles: []string{"finance-approver"}, Active: true}, Edition: 2, Comment: "Which of the two bank accounts did Acme confirm by telephone?"})
	})
	for i, tool := range []string{"vendor.update", "vendor.notify"} {
		m.add(fmt.Sprintf("apr_session%d", i), tool, `{"id":"acme","active":true}`, func(c *gate.Card) {
			at(c, 3*time.Hour)
			c.Approval.Session, c.Session = "quarter-end/17", 3
		})
	}
	m.add("apr_human", "update_payee", `{"payee":"acme","iban":"GB33"}`, func(c *gate.Card) {
		at(c, 2*time.Hour)
		c.Approval.Plan.Requirements[0].Kind = engine.Human
	})
	m.add("apr_step", "secrets.rotate", `{"vault":"billing"}`, func(c *gate.Card) {
		at(c, 20*time.Minute)
		c.Approval.Plan.Accountable = []string{"linus"}
		c.Approval.Plan.Requirements = []engine.Requirement{{Kind: engine.StepUp, Needed: 1}, {Kind: engine.Review, Role: "finance-approver", Needed: 1}}
	})
	m.add("apr_ticket", "db.migrate", `{"table":"accounts"}`, func(c *gate.Card) {
		at(c, 20*time.Hour)
		c.Approval.Plan.Requirements = []engine.Requirement{{Kind: engine.Ticket, Needed: 1, Ticket: &engine.TicketTerms{System: "jira", Projects: []string{"OPS"}, States: []string{"Approved"}}}, {Kind: engine.Review, Role: "finance-approver", Needed: 1}}
		linus, linuses := by("linus", "ops")
		tell(c, engine.Ticketed, approval.Fact{Kind: approval.TicketLink, Actor: linus, Voter: linuses, Details: approval.Details{Ticket: &approval.Ticket{System: "jira", Ref: "OPS-1187"}}})
		tell(c, engine.Ticketed, approval.Fact{Kind: approval.TicketCheck, Actor: engine.Actor{Kind: engine.SystemActor}, Details: approval.Details{Ticket: &approval.Ticket{
			System: "jira", Ref: "OPS-1187", Title: "Migrate the accounts table", Project: "OPS", State: "Draft", URL: "https://jira.example.com/browse/OPS-1187", Code: "ticket_state", Message: "it is in state Draft, and not Approved",
		}}})
	})
	for id, e := range map[string]approval.Execution{"apr_unknown": approval.Unknown, "apr_broken": approval.Redeemed, "apr_stale": approval.NotRun} {
		m.add(id, "accounts.close", `{"id":1}`, func(c *gate.Card) {
			at(c, time.Hour)
			c.Approval.Execution = e
			grace, graces := by("grace", approval.BreakGlassRole)
			tell(c, engine.Broken, approval.Fact{Kind: approval.BreakGlass, Yes: true, Actor: grace, Voter: graces, Comment: "The ledger is on fire, and nobody of finance answers.", Details: approval.Details{Alone: true, Proof: &approval.Proof{Method: "passkey", At: start.Add(-time.Minute)}}})
			if id == "apr_broken" {
				c.BreakGlassReview = &store.BreakGlassReview{DueSince: start}
			}
			if id == "apr_stale" {
				c.Approval.Successor = "apr_transfer"
			}
			c.LeaseUntil = start.Add(12 * time.Minute)
		})
	}
	m.add("apr_quiet", "reports."+strings.Repeat("very_long_name_", 6), `{"day":"today"}`, func(c *gate.Card) { at(c, 5*time.Hour) })
}
