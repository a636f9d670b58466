package api

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
)

// Agents lists what is registered of agents.
type Agents struct {
	Agents []registry.Agent `json:"agents"`
}

// Tools lists what is registered of tools.
type Tools struct {
	Tools []registry.Tool `json:"tools"`
}

// KillSwitches lists the switches that are on.
type KillSwitches struct {
	KillSwitches []registry.Kill `json:"kill_switches"`
}

// KillBody activates or releases a switch.
type KillBody struct {
	AgentID string `json:"agent_id,omitempty" doc:"The agent; or all is true."`
	All     bool   `json:"all,omitempty" doc:"The switch that stops every agent."`
	On      bool   `json:"on"`
	Reason  string `json:"reason,omitempty" maxLength:"1000"`
}

// AgentWebhookBody says where an agent is told how its approvals end.
type AgentWebhookBody struct {
	AgentID string `json:"agent_id"`
	URL     string `json:"url" doc:"Its address: https, and public or of a network that outbound_allow_private names. Empty ends it. An address in place of another comes with another secret."`
	Format  string `json:"format,omitempty" enum:"cloudevents" doc:"How the body is written: CloudEvents 1.0 instead of Holdpoint's own form."`
	Plain   bool   `json:"plain,omitempty" doc:"Allow http, to networks that outbound_allow_private names."`
}

// AgentWebhookAnswer has what the agent verifies by.
type AgentWebhookAnswer struct {
	AgentID    string `json:"agent_id"`
	EndpointID string `json:"endpoint_id"`
	Secret     string `json:"secret,omitempty" doc:"whsec_…: what the agent verifies by. It is not shown again."`
	ApprovalID string `json:"approval_id,omitempty" doc:"The approval without which the endpoint stays off, or as it is, where endpoints take one."`
}

// RevokeAgentBody revokes or restores an agent's registration.
type RevokeAgentBody struct {
	AgentID string `json:"agent_id"`
	Revoked bool   `json:"revoked"`
}

// RevokeToolBody revokes or restores a tool's registration.
type RevokeToolBody struct {
	ToolName string `json:"tool_name"`
	Revoked  bool   `json:"revoked"`
}

// RulesInForce says what calls are judged by.
type RulesInForce struct {
	Digest          string     `json:"digest" doc:"What events name as policy_digest."`
	PolicyVersion   string     `json:"policy_version,omitempty"`
	PolicyDigest    string     `json:"policy_digest,omitempty" doc:"The bundle's own digest."`
	PolicySigned    bool       `json:"policy_signed"`
	PolicyExpiresAt *time.Time `json:"policy_expires_at,omitempty"`
	ContractsDigest string     `json:"tool_contracts_digest,omitempty"`
	Problem         string     `json:"problem,omitempty" doc:"Why the last document that was to be put in force was not."`
}

// administration are the operations of administrators.
func (a adminDoor) administration() []operation {
	read := func(path, summary string, out any, handle func(*call) error) operation {
		return operation{
			method: "GET", path: "/v1/admin/" + path, summary: summary, scope: identity.ScopeAdmin, out: out,
			statuses: []int{200}, problems: []int{401, 403, 503}, handle: handle,
		}
	}
	change := func(path, summary, detail string, in, out any, handle func(*call) error) operation {
		return operation{
			method: "POST", path: "/v1/admin/" + path, summary: summary, detail: detail, scope: identity.ScopeAdmin, in: in, out: out,
			statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 413, 415, 422, 503}, repeats: true, handle: handle,
		}
	}
	return []operation{
		read("agents", "List agents", Agents{}, a.listAgents),
		change("agents", "Register an agent, or replace what is registered of it", "What policy sees of the agent is this, not what its requests say.", registry.Agent{}, registry.Agent{}, a.putAgent),
		change("agents/revoke", "Revoke or restore an agent", "", RevokeAgentBody{}, RevokeAgentBody{}, a.revokeAgent),
		change("agents/webhook", "Tell an agent at its own address how its approvals end", "A webhook by the Standard Webhooks specification for each approval of the agent that is over, as docs/notifications.md describes them. The secret is in this answer only.", AgentWebhookBody{}, AgentWebhookAnswer{}, a.agentWebhook),
		read("tools", "List tools", Tools{}, a.listTools),
		change("tools", "Register a tool, or replace what is registered of it", "", registry.Tool{}, registry.Tool{}, a.putTool),
		change("tools/revoke", "Revoke or restore a tool", "", RevokeToolBody{}, RevokeToolBody{}, a.revokeTool),
		read("settings", "Read the settings for all agents", registry.Settings{}, a.getSettings),
		change("settings", "Replace the settings for all agents", "Limits, delegation, trust, tools and attestation issuers.", registry.Settings{}, registry.Settings{}, a.putSettings),
		read("kill-switches", "List the kill switches that are on", KillSwitches{}, a.listKills),
		change("kill-switches", "Activate or release a kill switch", "Once it answers, nothing is granted any more by any gate: no call, no approval, no redemption.", KillBody{}, KillBody{}, a.kill),
		read("rules", "What calls are judged by", RulesInForce{}, a.rules),
	}
}

func ok(c *call, body any) error {
	reply, err := jsonReply(http.StatusOK, body, nil)
	if err != nil {
		return err
	}
	writeReply(c.w, reply)
	return nil
}

func sorted[T any](m map[string]T) []T {
	list := make([]T, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[name])
	}
	return list
}

func (a adminDoor) listAgents(c *call) error {
	known, err := a.Admin.Registry.Snapshot(c.r.Context())
	if err != nil {
		return err
	}
	return ok(c, Agents{sorted(known.Agents)})
}

func (a adminDoor) listTools(c *call) error {
	known, err := a.Admin.Registry.Snapshot(c.r.Context())
	if err != nil {
		return err
	}
	return ok(c, Tools{sorted(known.Tools)})
}

func (a adminDoor) listKills(c *call) error {
	known, err := a.Admin.Registry.Snapshot(c.r.Context())
	if err != nil {
		return err
	}
	return ok(c, KillSwitches{sorted(known.Kills)})
}

func (a adminDoor) getSettings(c *call) error {
	known, err := a.Admin.Registry.Snapshot(c.r.Context())
	if err != nil {
		return err
	}
	return ok(c, known.Settings)
}

func (a adminDoor) rules(c *call) error { return ok(c, a.Rules()) }

// administer answers a change with what was sent, as it was understood.
func administer[T any](a *API, c *call, do func(by access.Initiator, in T, once *access.Idempotency[access.Done]) error) error {
	var in T
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	return answer(a, c, body, func(once *access.Idempotency[T]) (T, error) {
		done := access.Adapt(once, func(access.Done) T { return in })
		return in, do(c.principal.Initiator(RequestID(c.r.Context())), in, done)
	}, func(in T) (access.Reply, error) { return jsonReply(http.StatusOK, in, nil) })
}

func (a adminDoor) putAgent(c *call) error {
	return administer(a.API, c, func(by access.Initiator, in registry.Agent, once *access.Idempotency[access.Done]) error {
		return a.Admin.Registry.RegisterAgent(c.r.Context(), by, in, once)
	})
}

func (a adminDoor) agentWebhook(c *call) error {
	var in AgentWebhookBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[admin.AgentSecret]) (admin.AgentSecret, error) {
		by := c.principal.Initiator(RequestID(c.r.Context()))
		return a.Admin.Endpoints.SetAgentWebhook(c.r.Context(), by, admin.AgentWebhook{AgentID: in.AgentID, URL: in.URL, Plain: in.Plain, Format: in.Format}, once)
	}, func(s admin.AgentSecret) (access.Reply, error) {
		return jsonReply(http.StatusOK, AgentWebhookAnswer{AgentID: in.AgentID, EndpointID: s.EndpointID, Secret: s.Secret, ApprovalID: s.ApprovalID}, nil)
	})
}

func (a adminDoor) revokeAgent(c *call) error {
	return administer(a.API, c, func(by access.Initiator, in RevokeAgentBody, once *access.Idempotency[access.Done]) error {
		return a.Admin.Registry.RevokeAgent(c.r.Context(), by, in.AgentID, in.Revoked, once)
	})
}

func (a adminDoor) putTool(c *call) error {
	return administer(a.API, c, func(by access.Initiator, in registry.Tool, once *access.Idempotency[access.Done]) error {
		return a.Admin.Registry.RegisterTool(c.r.Context(), by, in, once)
	})
}

func (a adminDoor) revokeTool(c *call) error {
	return administer(a.API, c, func(by access.Initiator, in RevokeToolBody, once *access.Idempotency[access.Done]) error {
		return a.Admin.Registry.RevokeTool(c.r.Context(), by, in.ToolName, in.Revoked, once)
	})
}

func (a adminDoor) putSettings(c *call) error {
	return administer(a.API, c, func(by access.Initiator, in registry.Settings, once *access.Idempotency[access.Done]) error {
		return a.Admin.Registry.PutSettings(c.r.Context(), by, in, once)
	})
}

func (a adminDoor) kill(c *call) error {
	return administer(a.API, c, func(by access.Initiator, in KillBody, once *access.Idempotency[access.Done]) error {
		if (in.AgentID != "") == in.All {
			return &failure{Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "Name one agent_id, or say \"all\": true."}
		}
		if in.On {
			return a.Admin.Registry.ThrowKillSwitch(c.r.Context(), by, in.AgentID, in.Reason, once)
		}
		return a.Admin.Registry.ReleaseKillSwitch(c.r.Context(), by, in.AgentID, once)
	})
}
