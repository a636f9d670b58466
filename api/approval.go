package api

import (
	"encoding/json"
	"net/url"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

// Approval is an approval on the wire (docs/spec/wire.md).
type Approval struct {
	ID            string              `json:"id"`
	Status        approval.Status     `json:"status" enum:"pending,approved,denied,expired,cancelled"`
	Version       int                 `json:"version" doc:"Changes when what a reviewer looks at does. A vote names it."`
	AgentID       string              `json:"agent_id"`
	ToolName      string              `json:"tool_name"`
	RequestID     string              `json:"request_id,omitempty"`
	OpenedAt      time.Time           `json:"opened_at"`
	ExpiresAt     time.Time           `json:"expires_at"`
	EndedAt       *time.Time          `json:"ended_at,omitempty"`
	ErasedAt      *time.Time          `json:"erased_at,omitempty" doc:"Since when what was asked for, and what people said of it, is gone."`
	Digest        string              `json:"digest" doc:"SHA-256 of the canonical {tool, arguments}; \"\" once erased."`
	PolicyDigest  string              `json:"policy_digest"`
	Requirements  []approval.Progress `json:"requirements"`
	Reasons       []engine.Reason     `json:"reasons" doc:"Why it waits; once it is over, why it ended."`
	NextAction    string              `json:"next_action" enum:"wait,answer,attach_ticket,verify,none" doc:"What the reader can do now."`
	Execution     approval.Execution  `json:"execution" enum:"none,redeemed,succeeded,failed,unknown"`
	Denial        *Denial             `json:"denial,omitempty"`
	Ticket        *Ticket             `json:"ticket,omitempty" doc:"The ticket that was attached last."`
	Edition       int                 `json:"edition" doc:"Counts the calls that it has been about: changed arguments or stricter rules begin a new one."`
	Edited        *Edited             `json:"edited,omitempty" doc:"Set when a reviewer has changed the arguments: what is approved, and has to be run, are these."`
	Question      *Question           `json:"question,omitempty" doc:"What a reviewer wants to know. Answer it with information."`
	Comments      []Remark            `json:"comments,omitempty"`
	PausedUntil   *time.Time          `json:"paused_until,omitempty" doc:"Until when at most the clock stands still for the answer to the question."`
	SessionID     string              `json:"session_id,omitempty"`
	Preconditions map[string]string   `json:"preconditions,omitempty" doc:"What has to be unchanged when the call runs; say what it is then when you redeem."`
	Successor     string              `json:"successor,omitempty" doc:"The approval that was opened in this one's place, because what it depends on had changed."`
	LeaseUntil    *time.Time          `json:"lease_until,omitempty" doc:"By when to say what became of the redeemed call; afterwards its execution is unknown."`
	Links         Links               `json:"links"`
	Token         string              `json:"resumption_token,omitempty" doc:"Only when approved, and only to its agent."`
	Document      string              `json:"document,omitempty" doc:"With the token of a tool request: the promoted document, which the token is bound to. Redeem it as arguments.document."`
}

// Edited is what a reviewer has made of the arguments.
type Edited struct {
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"Only to the call's own agent."`
	Changed   []string        `json:"changed" doc:"The names of the arguments that are different."`
	Comment   string          `json:"comment" doc:"Why."`
	At        time.Time       `json:"at"`
}

// Question is what a reviewer wants to know.
type Question struct {
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// Remark is what somebody said of an approval.
type Remark struct {
	Kind string    `json:"kind" enum:"comment,question,information"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// Denial says what kind of no it was.
type Denial struct {
	Kind       approval.Denial `json:"kind" enum:"wrong_args,not_now,never,needs_info"`
	Retryable  bool            `json:"retryable"`
	RetryAfter int             `json:"retry_after,omitempty" doc:"Seconds to wait before proposing the call again."`
	Comment    string          `json:"comment,omitempty"`
}

// Ticket is a ticket that was attached, and what its tracker says of it.
type Ticket struct {
	System  string `json:"system" doc:"The tracker that it is of."`
	Ref     string `json:"ref"`
	Title   string `json:"title,omitempty" doc:"Not told to a key while the ticket does not cover the call."`
	State   string `json:"state,omitempty" doc:"The tracker's own word. Not told to a key while the ticket does not cover the call."`
	URL     string `json:"url,omitempty" doc:"Where people read it. Not told to a key while the ticket does not cover the call."`
	Code    string `json:"code,omitempty" doc:"Why it does not cover the call: ticket_closed, ticket_other_project, ticket_state, ticket_too_new, ticket_too_old, ticket_not_found or ticket_system."`
	Message string `json:"message,omitempty" doc:"The same for a person."`
	Checked bool   `json:"checked" doc:"The tracker has answered. Without a code, the ticket covers the call."`
}

// wireTicket is the approval's ticket as the principal may see it; nil for none.
// An agent may name any ticket that there is: of one that is none of the call's
// business it learns no more than that.
func wireTicket(p access.Principal, from approval.Approval) *Ticket {
	t, checked, attached := from.Ticket()
	if !attached {
		return nil
	}
	out := &Ticket{System: t.System, Ref: t.Ref, Code: t.Code, Message: t.Message, Checked: checked}
	if person := p.Kind == ""; person || checked && t.Code == "" {
		out.Title, out.State, out.URL = t.Title, t.State, t.URL
	}
	return out
}

// Links are where to go from here.
type Links struct {
	Self   string `json:"self"`
	Review string `json:"review" doc:"The page on which a person decides."`
	Events string `json:"events" doc:"Server-sent events of this approval."`
	Cancel string `json:"cancel"`
}

// wire is an approval as the principal may see it.
func (a *API) wire(p access.Principal, v gate.View) Approval {
	from := v.Approval
	self := a.PublicURL + "/v1/approvals/" + url.PathEscape(from.ID)
	out := Approval{
		ID: from.ID, Status: from.Status, Version: from.Version, AgentID: from.Call.AgentID, ToolName: from.Call.Tool,
		RequestID: from.Call.RequestID, OpenedAt: from.Plan.OpenedAt, ExpiresAt: from.Plan.ExpiresAt,
		Digest: from.Call.Digest, PolicyDigest: from.Decision.PolicyDigest, Requirements: from.State.Requirements,
		Reasons: from.Reasons, NextAction: nextAction(p, from), Execution: from.Execution, Token: v.Token, Document: string(v.Promoted),
		Ticket: wireTicket(p, from),
		Links:  Links{Self: self, Review: a.PublicURL + "/approvals/" + url.PathEscape(from.ID), Events: self + "/events", Cancel: self + "/cancel"},
	}
	out.Edition, out.SessionID, out.Preconditions, out.Successor = from.Plan.Edition, from.Session, from.Preconditions, from.Successor
	out.LeaseUntil = v.LeaseUntil
	a.addContributions(&out, v)
	if !from.State.ExpiresAt.IsZero() {
		out.ExpiresAt = from.State.ExpiresAt
	}
	if from.Status.Terminal() {
		out.EndedAt = &from.EndedAt
		if !from.ErasedAt.IsZero() {
			out.ErasedAt, out.Digest = &from.ErasedAt, ""
		}
	} else {
		out.Reasons = []engine.Reason{}
		for _, f := range from.Decision.Findings {
			if f.Route > engine.Accept {
				out.Reasons = append(out.Reasons, engine.Reason{Code: f.Code, Message: f.Message})
			}
		}
	}
	if f, ok := from.Denial(); ok {
		out.Denial = &Denial{Kind: f.Denial, Retryable: f.Denial.Retryable(), Comment: f.Comment}
		if f.Denial == approval.NotNow {
			out.Denial.RetryAfter = int(gate.NotNowFor.Seconds())
		}
	}
	return out
}

// addContributions adds what people have said and changed.
func (a *API) addContributions(out *Approval, v gate.View) {
	state := v.Approval.State
	if q := state.Question; q != nil {
		out.Question = &Question{Text: q.Comment, At: q.At}
		if !state.PausedUntil.IsZero() {
			out.PausedUntil = &state.PausedUntil
		}
	}
	for _, f := range v.Approval.Facts {
		switch f.Kind {
		case approval.Comment, approval.Question, approval.Information:
			out.Comments = append(out.Comments, Remark{Kind: string(f.Kind), Text: f.Comment, At: f.At})
		case approval.Edit:
			out.Edited = &Edited{Arguments: v.Edited, Changed: f.Details.Changed, Comment: f.Comment, At: f.At}
		case approval.Vote, approval.Reply, approval.Cancel, approval.TicketLink, approval.TicketCheck, approval.Verification, approval.Claim,
			approval.Unclaim, approval.Extend, approval.Escalate, approval.Reopen, approval.BreakGlass:
		}
	}
}

func nextAction(p access.Principal, a approval.Approval) string {
	if a.Status.Terminal() {
		return "none"
	}
	if a.State.Status.Terminal() {
		return "wait" // it is being settled
	}
	if a.State.Question != nil {
		return "answer"
	}
	kind := a.Plan.Requirements[a.State.Stage].Kind.Traits()
	if kind.Discharger == engine.Requester && p.Kind != access.RuntimeKey {
		return "wait" // the user answers by the runtime
	}
	return kind.NextAction
}
