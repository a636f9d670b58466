package api

import (
	"net/http"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

// Grant is a standing grant on the wire. What calls have to be like is arguments,
// and is shown by the console alone.
type Grant struct {
	ID           string     `json:"id"`
	PersonID     string     `json:"person_id" doc:"Whose vote it casts."`
	AgentID      string     `json:"agent_id"`
	ToolName     string     `json:"tool_name"`
	Environment  string     `json:"environment"`
	Live         bool       `json:"live" doc:"Whether it can still vote."`
	Uses         int        `json:"uses"`
	MaxUses      int        `json:"max_uses"`
	Reason       string     `json:"reason"`
	CreatedAt    time.Time  `json:"created_at"`
	ExpiresAt    time.Time  `json:"expires_at"`
	RevokedAt    *time.Time `json:"revoked_at,omitempty"`
	RevokedBy    string     `json:"revoked_by,omitempty"`
	FromApproval string     `json:"from_approval" doc:"The approval from whose card it was made."`
	UsedBy       []string   `json:"used_by" doc:"The approvals for which it has voted, the last one first."`
	Acknowledged []string   `json:"acknowledged" doc:"The past denials that its maker has looked at."`
}

// GrantList lists standing grants.
type GrantList struct {
	Grants []Grant `json:"grants"`
}

// RevokedGrant answers a revocation.
type RevokedGrant struct {
	ID      string `json:"id"`
	Revoked bool   `json:"revoked"`
}

// standingGrants are the operations on standing grants. They are made in the console.
func (a grantDoor) standingGrants() []operation {
	return []operation{
		{
			method: "GET", path: "/v1/grants", summary: "List standing grants", scope: adminOrHuman, out: GrantList{}, statuses: []int{200}, problems: []int{401, 403, 503},
			detail: "Those that are live come first, then the newest; 200 at most. A person gets those made from approvals that they may see.", handle: a.listGrants,
		},
		{
			method: "POST", path: "/v1/grants/{id}/revoke", summary: "Revoke a standing grant", scope: adminOrHuman, in: CancelBody{}, out: RevokedGrant{}, statuses: []int{200},
			problems: []int{400, 401, 403, 404, 409, 413, 415, 422, 503}, repeats: true,
			detail: "For whoever made it, administrators, and people with a role that its approval asked for. The body may be left out.", handle: a.revokeGrant,
		},
	}
}

func (a grantDoor) listGrants(c *call) error {
	var list []gate.Grant
	var now time.Time
	var err error
	if c.isPerson {
		list, now, err = a.Gate.Grants.ForPerson(c.r.Context(), c.person)
	} else {
		list, now, err = a.Gate.Grants.All(c.r.Context())
	}
	if err != nil {
		return err
	}
	out := GrantList{Grants: []Grant{}}
	for _, g := range list {
		out.Grants = append(out.Grants, Grant{
			ID: g.ID, PersonID: g.PersonID, AgentID: g.AgentID, ToolName: g.Tool, Environment: g.Environment, Live: g.Live(now),
			Uses: g.Uses, MaxUses: g.MaxUses, Reason: g.Reason, CreatedAt: g.CreatedAt, ExpiresAt: g.ExpiresAt, RevokedAt: g.RevokedAt,
			RevokedBy: g.RevokedBy, FromApproval: g.FromApproval, UsedBy: g.UsedBy, Acknowledged: g.Acknowledged,
		})
	}
	return ok(c, out)
}

func (a grantDoor) revokeGrant(c *call) error {
	body, err := readOptional(c, &CancelBody{})
	if err != nil {
		return err
	}
	id := c.r.PathValue("id")
	return answer(a.API, c, body, func(once *access.Idempotency[access.Done]) (done access.Done, err error) {
		if c.isPerson {
			return done, a.Gate.Grants.Revoke(c.r.Context(), c.person, id, access.PersonInitiator(c.person, "api", RequestID(c.r.Context())), once)
		}
		return done, a.Gate.Grants.RevokeByKey(c.r.Context(), id, c.principal.Initiator(RequestID(c.r.Context())), once)
	}, func(access.Done) (access.Reply, error) {
		return jsonReply(http.StatusOK, RevokedGrant{ID: id, Revoked: true}, nil)
	})
}
