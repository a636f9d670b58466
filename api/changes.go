package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/internal/rules"
)

// RuleChanges proposes changes of the policy and the tool contracts, and tells of those that
// there were; rules.Doors is one.
type RuleChanges interface {
	Propose(ctx context.Context, p rules.Proposal) (gate.OpenedRuleChange, error)
	Preview(ctx context.Context, p rules.Proposal) (gate.RuleChange, error)
	Editions(ctx context.Context, kind string) ([]rules.Edition, error)
	Difference(ctx context.Context, from, to string) (string, error)
}

// ChangeBody proposes a change of the policy, or of the tool contracts.
type ChangeBody struct {
	Kind          string `json:"kind" enum:"policy,contracts"`
	Text          string `json:"text" minLength:"1" doc:"The whole file, as it is to be in force: YAML or JSON."`
	Reason        string `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for those who decide."`
	EffectiveFrom string `json:"effective_from,omitempty" doc:"When it comes into force at the earliest, as RFC 3339; as soon as it is approved when left out. Until when is in the policy: expires_at."`
}

// ProposedChange is what a change waits for.
type ProposedChange struct {
	ApprovalID string    `json:"approval_id"`
	Needed     int       `json:"needed" doc:"How many people have to approve it. A key is nobody's author, so it is one more than the rule says."`
	Role       string    `json:"role"`
	ExpiresAt  time.Time `json:"expires_at"`
	Review     string    `json:"review" doc:"Where people decide."`
}

// ChangePreview is what people would be asked to approve.
type ChangePreview struct {
	Version        string     `json:"version,omitempty"`
	FormerVersion  string     `json:"former_version,omitempty"`
	EffectiveFrom  *time.Time `json:"effective_from,omitempty"`
	EffectiveUntil *time.Time `json:"effective_until,omitempty"`
	Difference     string     `json:"difference" doc:"Unified, to what is in force."`
	SignedBy       []string   `json:"signed_by,omitempty" doc:"The people whose keys have signed a policy, with which."`
	Simulation     string     `json:"simulation,omitempty" doc:"What it would have made of recorded approvals."`
}

// WithdrawnChange is a change that was taken back.
type WithdrawnChange struct {
	ApprovalID string `json:"approval_id"`
	Status     string `json:"status"`
}

// Edition is a policy, or a set of tool contracts, that is or was in force.
type Edition struct {
	Version    string     `json:"version,omitempty"`
	Digest     string     `json:"digest" doc:"Of the file, by which differences name it."`
	From       time.Time  `json:"in_force_from"`
	Until      *time.Time `json:"in_force_until,omitempty" doc:"Left out while it is in force."`
	Approved   string     `json:"approved" enum:"people,nobody_asked,no_need"`
	ApprovalID string     `json:"approval_id,omitempty"`
	Author     string     `json:"author,omitempty"`
	ApprovedBy string     `json:"approved_by,omitempty"`
	SignedBy   string     `json:"signed_by,omitempty" doc:"The people whose keys had signed it when it came into force."`
	Reason     string     `json:"reason,omitempty"`
}

// Editions lists them.
type Editions struct {
	Editions []Edition `json:"editions" doc:"The newest first, at most 200."`
}

// EditionsDifference is the difference between two of them.
type EditionsDifference struct {
	From       string `json:"from"`
	To         string `json:"to"`
	Difference string `json:"difference" doc:"Unified; empty where both are the same."`
}

// changes are the operations of changes of the rules.
func (a changeDoor) changes() []operation {
	const path = "/v1/admin/changes"
	problems := []int{400, 401, 403, 404, 409, 413, 415, 422, 423, 503}
	return []operation{
		{
			method: "POST", path: path, summary: "Propose a change of the policy or the tool contracts", scope: identity.ScopeAdmin, in: ChangeBody{}, out: ProposedChange{}, statuses: []int{200}, problems: problems, repeats: true, handle: a.proposeChange,
			detail: "Where changes take an approval (holdpoint changes require). Exactly this text comes into force when people approve it.",
		},
		{
			method: "POST", path: path + "/preview", summary: "See what a change would be, without proposing it", scope: identity.ScopeAdmin, in: ChangeBody{}, out: ChangePreview{}, statuses: []int{200}, problems: problems, handle: a.previewChange,
			detail: "The mistakes of the text, the difference to what is in force, and what it would have made of recorded approvals.",
		},
		{method: "POST", path: path + "/{id}/withdraw", summary: "Take back a change that waits", scope: identity.ScopeAdmin, in: CancelBody{}, out: WithdrawnChange{}, statuses: []int{200}, problems: append(problems, 410), repeats: true, handle: a.withdrawChange, detail: "By the key that proposed it. Its author does it in the console."},
		{
			method: "GET", path: path + "/editions", summary: "List what was in force", scope: identity.ScopeAdmin, out: Editions{}, statuses: []int{200}, problems: []int{400, 401, 403, 422, 503}, handle: a.listEditions,
			query: []parameter{{"kind", "policy or contracts; policy when left out."}},
		},
		{
			method: "GET", path: path + "/difference", summary: "Read the difference between two editions", scope: identity.ScopeAdmin, out: EditionsDifference{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 422, 503}, handle: a.editionsDifference,
			query: []parameter{{"from", "Digest of one."}, {"to", "Digest of the other."}},
		},
	}
}

// proposal reads the change that a request proposes: written by whose own key it is, or else by
// nobody who is known.
func (a changeDoor) proposal(c *call, in ChangeBody) (rules.Proposal, error) {
	if a.Changes == nil {
		return rules.Proposal{}, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "No change can be proposed here."}
	}
	p := rules.Proposal{Kind: in.Kind, Data: []byte(in.Text), Name: in.Kind, Reason: in.Reason, By: c.principal.Initiator(RequestID(c.r.Context()))}
	if in.EffectiveFrom != "" {
		var err error
		if p.From, err = time.Parse(time.RFC3339, in.EffectiveFrom); err != nil {
			return p, &failure{
				Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "effective_from has to be a time such as 2027-01-31T18:00:00Z.",
				Fields: []FieldError{{Path: "/effective_from", Message: "must be an RFC 3339 time"}},
			}
		}
	}
	return p, nil
}

func (a changeDoor) proposeChange(c *call) error {
	var in ChangeBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	p, err := a.proposal(c, in)
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[gate.OpenedRuleChange]) (gate.OpenedRuleChange, error) {
		p.Idempotency = once
		return a.Changes.Propose(c.r.Context(), p)
	}, func(o gate.OpenedRuleChange) (access.Reply, error) {
		return jsonReply(http.StatusOK, ProposedChange{ApprovalID: o.ApprovalID, Needed: o.Needed, Role: o.Role, ExpiresAt: o.ExpiresAt, Review: a.PublicURL + "/approvals/" + o.ApprovalID}, nil)
	})
}

func (a changeDoor) previewChange(c *call) error {
	var in ChangeBody
	if _, err := readInto(c, &in); err != nil {
		return err
	}
	p, err := a.proposal(c, in)
	if err != nil {
		return err
	}
	r, err := a.Changes.Preview(c.r.Context(), p)
	if err != nil {
		return err
	}
	out := ChangePreview{Version: r.Version, FormerVersion: r.Former, Difference: r.Difference, Simulation: r.Simulation, SignedBy: r.SignedBy}
	if !r.From.IsZero() {
		out.EffectiveFrom = &r.From
	}
	if !r.Until.IsZero() {
		out.EffectiveUntil = &r.Until
	}
	return ok(c, out)
}

func (a changeDoor) withdrawChange(c *call) error {
	body, err := readInto(c, &CancelBody{})
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.Withdraw(c.r.Context(), c.principal.Initiator(RequestID(c.r.Context())), engine.Person{}, c.r.PathValue("id"), once)
	}, func(x approval.Approval) (access.Reply, error) {
		return jsonReply(http.StatusOK, WithdrawnChange{ApprovalID: x.ID, Status: string(x.State.Status)}, nil)
	})
}

func (a changeDoor) listEditions(c *call) error {
	kind := cmp.Or(c.r.URL.Query().Get("kind"), "policy")
	if a.Changes == nil {
		return ok(c, Editions{[]Edition{}})
	}
	list, err := a.Changes.Editions(c.r.Context(), kind)
	if err != nil {
		return err
	}
	out := Editions{Editions: []Edition{}}
	for _, e := range list {
		out.Editions = append(out.Editions, Edition{
			Version: e.Version, Digest: e.Digest, From: e.From.UTC(), Until: e.Until, Approved: e.Approved, ApprovalID: e.ApprovalID, Author: e.Author, ApprovedBy: e.ApprovedBy, SignedBy: e.SignedBy, Reason: e.Reason,
		})
	}
	return ok(c, out)
}

func (a changeDoor) editionsDifference(c *call) error {
	q := c.r.URL.Query()
	out := EditionsDifference{From: q.Get("from"), To: q.Get("to")}
	if a.Changes == nil {
		return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such edition."}
	}
	var err error
	if out.Difference, err = a.Changes.Difference(c.r.Context(), out.From, out.To); err != nil {
		return err
	}
	return ok(c, out)
}
