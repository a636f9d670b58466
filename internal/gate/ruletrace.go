package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"holdpoint/engine"
	"holdpoint/engine/policy"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// RuleTrace is how the rules of a policy met a call: of the version by which the approval
// was judged, and of no other.
type RuleTrace struct {
	policy.Trace
	// Version is the policy's own name of its version; Former says that another version, or
	// none, is in force now.
	Version string
	Former  bool
	// None says that the call was judged without a policy, and Gone that its policy is not
	// kept any more, so that there is no trace.
	None, Gone bool
	// Default is what the policy does with what no rule decides.
	Default engine.Outcome
	// Differs says that the rules that hold are others than those on record: the agent or the
	// tool is registered in another way than when the call was judged.
	Differs bool
}

// MayReadTrace reports whether a person may see which rules met a call. The requesting side
// may not: who knows the rules can propose a call just beside them.
func MayReadTrace(p engine.Person, c Card) bool {
	return access.MayReadRules(p) || !p.Disabled && !slices.Contains(c.Approval.Plan.Excluded, p.Identity)
}

// RuleTrace says which rules of the policy met the call of a card that the person has read.
// It is nil where they may not see it, and where nothing is known of the call.
func (g *Queries) RuleTrace(ctx context.Context, p engine.Person, c Card) (*RuleTrace, error) {
	a := c.Approval
	if c.Document == nil || a.Call.Dialect == DialectChange || !MayReadTrace(p, c) {
		return nil, nil
	}
	judge := g.Judge()
	bundle, known := judge.Policy, true
	if a.Decision.PolicyDigest != judge.Digest() {
		var err error
		if bundle, known, err = g.formerPolicy(ctx, a.Decision.PolicyDigest); err != nil {
			return nil, err
		}
	}
	switch {
	case !known:
		return &RuleTrace{Gone: true}, nil
	case bundle == nil:
		return &RuleTrace{None: true}, nil
	}
	proposal, err := proposalOf(a, c.Document, c.Now)
	if err != nil {
		return nil, fmt.Errorf("read the sealed document of %s: %w", a.ID, err)
	}
	then := &Judge{Rules: Rules{Environment: a.Call.Environment, Registry: judge.Registry}}
	t := &RuleTrace{
		Trace: bundle.Trace(then.policyRequest(&proposal), a.Plan.OpenedAt), Version: bundle.Version, Default: bundle.Default,
		Former: judge.Policy == nil || judge.Policy.Digest != bundle.Digest,
	}
	t.Differs = differs(*t, a.Decision.Findings)
	return t, nil
}

// differs reports whether something of the policy holds the call that was not on record
// when it was judged. What is on record may be of more than one policy, and has no part of
// later ones that lets calls run.
func differs(t RuleTrace, recorded []engine.Finding) bool {
	unsaid := func(code string) bool {
		return !slices.ContainsFunc(recorded, func(f engine.Finding) bool { return f.Source == policySource && f.Code == code })
	}
	if t.Expired {
		return unsaid(policy.CodeExpired)
	}
	if t.ByDefault && t.Default.Route() > engine.Accept && unsaid("DEFAULT_"+string(t.Default)) {
		return true
	}
	return slices.ContainsFunc(t.Steps, func(s policy.Step) bool {
		switch s.Held {
		case policy.TooLong:
			return unsaid(policy.CodeTextTooLong)
		case policy.Holds, policy.HoldsClaimed:
			return s.Outcome.Route() > engine.Accept && unsaid(s.ID)
		case policy.HoldsNot:
		}
		return false
	})
}

// formerPolicies are the last policies that were read for cards, by the digest of what
// decisions were judged by, which never changes. They are few: one for each policy under
// which something still waits.
type formerPolicies struct {
	mu   sync.Mutex
	read map[string]*policy.Bundle
}

// maxFormer is how many of them are kept.
const maxFormer = 8

// formerPolicy is the policy that a decision was judged by, nil for none. It is not known
// when it is not kept any more.
func (g *Queries) formerPolicy(ctx context.Context, digest string) (b *policy.Bundle, known bool, err error) {
	g.policies.mu.Lock()
	b, known = g.policies.read[digest]
	g.policies.mu.Unlock()
	if known {
		return b, true, nil
	}
	if b, err = readPolicyOf(ctx, g.Store.Rules, digest); errors.Is(err, store.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the rules of a former decision: %w", err)
	}
	g.policies.mu.Lock()
	defer g.policies.mu.Unlock()
	if len(g.policies.read) >= maxFormer || g.policies.read == nil {
		g.policies.read = map[string]*policy.Bundle{}
	}
	g.policies.read[digest] = b
	return b, true, nil
}

// readPolicyOf reads a former policy. ErrNotFound: it is not kept, or cannot be read by
// this version.
func readPolicyOf(ctx context.Context, rules store.Rules, digest string) (*policy.Bundle, error) {
	body, err := rules.Ruleset(ctx, digest)
	if err != nil {
		return nil, err
	}
	var names struct {
		Policy string `json:"policy"`
	}
	if err := json.Unmarshal(body, &names); err != nil || names.Policy == "" {
		return nil, err
	}
	text, err := rules.DocumentKnownAs(ctx, names.Policy)
	if err != nil {
		return nil, err
	}
	b, _ := policy.Load(text, policy.Options{})
	if b == nil || b.Digest != names.Policy {
		return nil, store.ErrNotFound
	}
	return b, nil
}
