package setup

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
)

// Current is what is set up at a moment, every default written out.
type Current struct {
	Document

	now       time.Time
	endpoints map[string]string                 // ids by name
	targets   map[string]notify.EndpointSecrets // by id
	known     []string                          // roles that some rule asks for; nil for any
}

// Now reads what is set up. It takes a store that was opened with its data key: whether
// an address has changed is seen by nothing else.
func Now(ctx context.Context, a *admin.Admin) (*Current, error) {
	c := &Current{endpoints: map[string]string{}}
	var err error
	if c.now, err = a.OnCall.Store.Now(ctx); err != nil {
		return nil, err
	}
	known, err := a.Registry.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	c.Settings = settingsOf(known.Settings)
	for _, name := range slices.Sorted(maps.Keys(known.Tools)) {
		c.Tools = append(c.Tools, toolOf(known.Tools[name]))
	}
	if err := c.people(ctx, a); err != nil {
		return nil, err
	}
	if c.targets, err = a.Endpoints.Targets(ctx); err != nil {
		return nil, err
	}
	list, _, err := a.Endpoints.Overview(ctx, 0)
	if err != nil {
		return nil, err
	}
	byID := map[string]admin.Endpoint{}
	for _, e := range list {
		byID[e.ID] = e
	}
	for _, id := range slices.Sorted(maps.Keys(known.Agents)) {
		own := byID[admin.AgentEndpoint(id)]
		c.Agents = append(c.Agents, c.agentOf(known.Agents[id], own))
		delete(byID, own.ID)
	}
	for _, e := range list {
		if _, others := byID[e.ID]; others {
			c.Endpoints, c.endpoints[e.Name] = append(c.Endpoints, c.endpointOf(e)), e.ID
		}
	}
	return c, c.onCall(ctx, a)
}

func (c *Current) people(ctx context.Context, a *admin.Admin) error {
	accounts, err := a.People.Accounts(ctx)
	if err != nil {
		return err
	}
	// Who is erased has no address any more.
	accounts = slices.DeleteFunc(accounts, func(p admin.Account) bool { return !access.ValidEmail(p.Email) })
	first := map[string]string{} // by identity, the address of the account that the others are the same as
	for _, p := range accounts {
		if first[p.Identity] == "" || p.ID == p.Identity {
			first[p.Identity] = p.Email
		}
	}
	for _, p := range accounts {
		one := Person{Email: p.Email, Name: p.Name, Roles: sorted(p.Roles), Disabled: &p.Disabled}
		if same := first[p.Identity]; same != p.Email {
			one.SameAs = same
		}
		c.People = append(c.People, one)
	}
	if a.People.Roles != nil {
		c.known, err = a.People.Roles(ctx)
	}
	return err
}

func (c *Current) onCall(ctx context.Context, a *admin.Admin) error {
	shifts, err := a.OnCall.Shifts(ctx)
	if err != nil {
		return err
	}
	for _, s := range shifts {
		if s.Disabled {
			continue // has no role, and could not be put on call
		}
		if len(c.OnCall) == 0 || c.OnCall[len(c.OnCall)-1].Name != s.Schedule {
			c.OnCall = append(c.OnCall, Schedule{Name: s.Schedule, Shifts: []Shift{}})
		}
		last := &c.OnCall[len(c.OnCall)-1]
		one := c.shift(Shift{People: []string{s.Email}, From: &s.From, Until: s.Until})
		if n := len(last.Shifts); n > 0 && sameTime(last.Shifts[n-1].From, one.From) && last.Shifts[n-1].Until.Equal(one.Until) {
			one.People = append(one.People, last.Shifts[n-1].People...)
			last.Shifts = last.Shifts[:n-1]
		}
		one.People = sorted(one.People)
		last.Shifts = append(last.Shifts, one)
	}
	return nil
}

// shift is a shift as the database keeps times; the beginning of one that goes on is
// left out.
func (c *Current) shift(s Shift) Shift {
	s.Until = s.Until.UTC().Truncate(time.Microsecond)
	if s.From != nil {
		from := s.From.UTC().Truncate(time.Microsecond)
		if s.From = &from; !from.After(c.now) {
			s.From = nil
		}
	}
	return s
}

func sameTime(a, b *time.Time) bool { return (a == nil) == (b == nil) && (a == nil || a.Equal(*b)) }

// sorted has no value twice, and is never nil.
func sorted(values []string) []string {
	return append([]string{}, slices.Compact(slices.Sorted(slices.Values(values)))...)
}

func settingsOf(s registry.Settings) *Settings {
	return &Settings{
		Limits: limitsOf(&s.Limits), MaxDelegation: &s.MaxDelegation, MinTrust: &s.MinTrust,
		OnlyRegisteredTools: s.OnlyRegisteredTools, AllowUnverifiedMCP: s.AllowUnverifiedMCP, Issuers: s.Issuers,
	}
}

// full are the settings with every default.
func (s Settings) full() *Settings { return settingsOf(s.registry()) }

func (s Settings) registry() registry.Settings {
	all := registry.DefaultSettings()
	all.OnlyRegisteredTools, all.AllowUnverifiedMCP = s.OnlyRegisteredTools, s.AllowUnverifiedMCP
	if s.Limits != nil {
		all.Limits = s.Limits.registry()
	}
	if s.MaxDelegation != nil {
		all.MaxDelegation = *s.MaxDelegation
	}
	if s.MinTrust != nil {
		all.MinTrust = *s.MinTrust
	}
	if len(s.Issuers) > 0 {
		all.Issuers = s.Issuers
	}
	return all
}

func limitsOf(l *registry.Limits) *Limits {
	if l == nil {
		return nil
	}
	rate := func(r registry.Rate) *registry.Rate {
		if r == (registry.Rate{}) {
			return nil
		}
		return &r
	}
	return &Limits{Agent: rate(l.Agent), Tool: rate(l.Tool), Session: rate(l.Session)}
}

func (l Limits) registry() registry.Limits {
	var all registry.Limits
	for _, r := range []struct{ to, from *registry.Rate }{{&all.Agent, l.Agent}, {&all.Tool, l.Tool}, {&all.Session, l.Session}} {
		if r.from != nil {
			*r.to = *r.from
		}
	}
	return all
}

func toolOf(t registry.Tool) Tool {
	revoked := t.RevokedAt != nil
	return Tool{
		Name: t.Name, Version: t.Version, Provider: t.Provider, ManifestHash: t.ManifestHash, NeedsManifest: t.NeedsManifest, Verified: t.Verified,
		MinTrust: &t.MinTrust, Category: t.Category, RiskDomain: t.RiskDomain, DataLabels: t.DataLabels, IdentityBound: t.IdentityBound,
		SideEffects: t.SideEffects, InputSchema: canonical(t.InputSchema), Stakes: t.Stakes, Revoked: &revoked,
	}
}

// canonical has one text for what JSON can write in many.
func canonical(text []byte) []byte {
	if v, err := canon.Parse(text); err == nil {
		return v.Canonical()
	}
	return text
}

func (t Tool) registry() registry.Tool {
	all := registry.Tool{
		Name: t.Name, Version: t.Version, Provider: t.Provider, ManifestHash: t.ManifestHash, NeedsManifest: t.NeedsManifest, Verified: t.Verified,
		Category: t.Category, RiskDomain: t.RiskDomain, DataLabels: t.DataLabels, IdentityBound: t.IdentityBound,
		SideEffects: t.SideEffects, InputSchema: t.InputSchema, Stakes: t.Stakes,
	}
	if t.MinTrust != nil {
		all.MinTrust = *t.MinTrust
	}
	return all
}

func (c *Current) agentOf(a registry.Agent, own admin.Endpoint) Agent {
	revoked := a.RevokedAt != nil
	one := Agent{
		ID: a.ID, Name: cmp.Or(a.Name, a.ID), Owner: a.Owner, Type: a.Type, Trust: &a.Trust, Roles: a.Roles, Capabilities: a.Capabilities,
		MaxDelegation: a.MaxDelegation, NeedsAttestation: a.NeedsAttestation, Limits: limitsOf(a.Limits), Revoked: &revoked,
	}
	if !access.ValidEmail(a.Owner) {
		one.Owner = "" // erased
	}
	if own.ID != "" && own.DisabledAt == nil {
		one.Webhook = &Webhook{Host: own.Settings.Host, Plain: c.targets[own.ID].Plain, Format: own.Settings.Format}
	}
	return one
}

func (a Agent) registry() registry.Agent {
	all := registry.Agent{
		ID: a.ID, Name: cmp.Or(a.Name, a.ID), Owner: a.Owner, Type: a.Type, Trust: engine.Basic, Roles: a.Roles, Capabilities: a.Capabilities,
		MaxDelegation: a.MaxDelegation, NeedsAttestation: a.NeedsAttestation,
	}
	if a.Trust != nil {
		all.Trust = *a.Trust
	}
	if a.Limits != nil {
		limits := a.Limits.registry()
		all.Limits = &limits
	}
	return all
}

func (c *Current) endpointOf(e admin.Endpoint) Endpoint {
	off, target, s := e.DisabledAt != nil, c.targets[e.ID], e.Settings
	return Endpoint{
		Name: e.Name, Kind: e.Kind, Tells: s.Kinds, Roles: s.Roles, Tools: s.Tools, Agents: s.Agents, Digest: s.Digest, To: s.To, Own: s.Own,
		Format: s.Format, Decide: s.Decide, Host: s.Host, Plain: target.Plain, Ed25519: target.Pair(), Disabled: &off,
	}
}

func (e Endpoint) settings() notify.Settings {
	s := notify.Settings{
		Kinds: e.Tells, Roles: e.Roles, Tools: e.Tools, Agents: e.Agents, Digest: e.Digest, To: e.To, Own: e.Own, Format: e.Format, Decide: e.Decide, Host: e.Host,
	}
	if e.Kind == notify.Push && len(s.Kinds) == 0 {
		s.Kinds = notify.PushKinds()
	}
	return s
}
