package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
)

// Claim is what a call says of itself, beside what it wants to do. AgentID is
// the credential's agent and no claim.
type Claim struct {
	AgentID string
	Tool    string
	// ClaimedAgent, Type, Trust and Roles are what the request says of its agent; ""
	// and nil when it says nothing.
	ClaimedAgent, Type, Trust string
	Roles                     []string
	// MaxDelegation is the request's own limit of its chain; nil for none.
	MaxDelegation *int
	// Chain lists the agents that handed the task on, the caller last; Parent is
	// the one before it.
	Chain  []string
	Parent string
	// Provider and ManifestHash are what the host says of the tool.
	Provider, ManifestHash string
	Attestation            *Attestation
}

// Identity is who calls, as registered: what policy looks at.
type Identity struct {
	Type  string
	Trust engine.Trust
	Roles []string
}

// Identify replaces a claim's values by the registered ones.
func (s *Snapshot) Identify(c Claim) Identity {
	a := s.Agents[c.AgentID]
	return Identity{Type: a.Type, Trust: a.Trust, Roles: a.Roles}
}

// Check judges a claim: who calls, on whose behalf, and with which tool. It
// returns every finding there is; claims that were replaced by the registered
// values are findings of route accept.
func (s *Snapshot) Check(c Claim, now time.Time) []engine.Finding {
	return slices.Concat(s.agent(c, now), s.chain(c), s.tool(c))
}

func (s *Snapshot) agent(c Claim, now time.Time) []engine.Finding {
	a, ok := s.Agents[c.AgentID]
	if !ok {
		return []engine.Finding{finding(Unregistered, "The agent is not registered.")}
	}
	var found []engine.Finding
	if a.RevokedAt != nil {
		found = append(found, finding(AgentRevoked, "The agent's registration has been revoked."))
	}
	if a.Trust < s.Settings.MinTrust {
		found = append(found, finding(TrustTooLow, fmt.Sprintf("The agent is registered as %s; calls need at least %s.", a.Trust, s.Settings.MinTrust)))
	}
	if t, ok := s.Tools[c.Tool]; ok && a.Trust < t.MinTrust {
		found = append(found, finding(TrustTooLow, fmt.Sprintf("The agent is registered as %s; this tool needs at least %s.", a.Trust, t.MinTrust)))
	}
	switch {
	case c.Attestation != nil:
		if err := c.Attestation.verify(c.AgentID, s.Settings, now); err != nil {
			found = append(found, finding(BadAttestation, "The attestation is not believed: "+err.Error()+"."))
		}
	case a.NeedsAttestation:
		found = append(found, finding(BadAttestation, "The agent must attest its identity with every call, and this call carries no attestation."))
	}
	return append(found, overridden(c, a)...)
}

// overridden says which claims the registry's values have replaced.
func overridden(c Claim, a Agent) []engine.Finding {
	var found []engine.Finding
	if c.ClaimedAgent != "" && c.ClaimedAgent != c.AgentID {
		found = append(found, note("The request names another agent than the one that its key belongs to; the key's counts."))
	}
	if c.Trust != "" && c.Trust != a.Trust.String() {
		found = append(found, note(fmt.Sprintf("The claimed trust level was replaced by the registered one, %s.", a.Trust)))
	}
	if c.Type != "" && c.Type != a.Type {
		found = append(found, note("The claimed agent type was replaced by the registered one."))
	}
	if slices.ContainsFunc(c.Roles, func(role string) bool { return !slices.Contains(a.Roles, role) }) {
		found = append(found, note("The claimed roles were replaced by the registered ones."))
	}
	return found
}

// chain judges a delegation chain: registered agents, none twice, the caller
// last, and no longer than both limits allow.
func (s *Snapshot) chain(c Claim) []engine.Finding {
	var found []engine.Finding
	known := func(id, what string) {
		a, ok := s.Agents[id]
		switch {
		case !ok:
			found = append(found, finding(Unregistered, what+" is not a registered agent."))
		case a.RevokedAt != nil:
			found = append(found, finding(AgentRevoked, what+" is an agent whose registration has been revoked."))
		}
	}
	if len(c.Chain) == 0 {
		if c.Parent != "" {
			known(c.Parent, "The parent agent")
		}
		return found
	}
	limit := s.Settings.MaxDelegation
	if own := s.Agents[c.AgentID].MaxDelegation; own != nil {
		limit = min(limit, *own)
	}
	if c.MaxDelegation != nil {
		limit = min(limit, max(*c.MaxDelegation, 0))
	}
	if len(c.Chain) > limit {
		// A chain may be as long as a body: what is too long is not walked.
		return append(found, finding(ChainTooDeep, fmt.Sprintf("The delegation chain has %d links; at most %d are allowed.", len(c.Chain), limit)))
	}
	last := c.Chain[len(c.Chain)-1]
	if last != c.AgentID && last != c.ClaimedAgent {
		found = append(found, finding(ChainBroken, "The last link of the delegation chain is not the agent that calls."))
	}
	if c.Parent != "" && (len(c.Chain) < 2 || c.Chain[len(c.Chain)-2] != c.Parent) {
		found = append(found, finding(ChainBroken, "The parent agent is not the link before the caller in the delegation chain."))
	}
	for i, id := range c.Chain {
		if slices.Contains(c.Chain[:i], id) {
			found = append(found, finding(ChainBroken, "The delegation chain is a loop: an agent is in it twice."))
			break
		}
	}
	for i, id := range c.Chain[:len(c.Chain)-1] {
		known(id, fmt.Sprintf("Link %d of the delegation chain", i+1))
	}
	return found
}

func (s *Snapshot) tool(c Claim) []engine.Finding {
	t, ok := s.Tools[c.Tool]
	var found []engine.Finding
	switch {
	case !ok:
		if s.Settings.OnlyRegisteredTools {
			found = append(found, finding(ToolUnknown, "The tool is not registered."))
		}
		if known, alike := s.names.Lookalike(c.Tool); alike {
			found = append(found, finding(ToolLookalike, fmt.Sprintf("The tool is not registered, and its name looks like that of the registered tool %q.", known)))
		}
	case t.RevokedAt != nil:
		found = append(found, finding(ToolRevoked, "The tool's registration has been revoked."))
	}
	switch {
	case c.ManifestHash != "" && t.ManifestHash != "" && !sameHash(c.ManifestHash, t.ManifestHash):
		found = append(found, finding(BadProvenance, "The tool's manifest is not the one that is registered: it may have been changed or replaced."))
	case c.ManifestHash == "" && t.NeedsManifest:
		found = append(found, finding(BadProvenance, "The call does not say which manifest of the tool it uses, and the tool's registration asks for it."))
	}
	if strings.EqualFold(strings.TrimSpace(s.Provider(c.Tool, c.Provider)), "mcp") && !t.Verified && !s.Settings.AllowUnverifiedMCP {
		found = append(found, finding(UnverifiedMCP, "The tool comes from an MCP server, and nobody has verified it."))
	}
	return found
}
