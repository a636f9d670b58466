// Package simulation judges the approvals that a database has recorded again, by
// another policy. It writes nothing, and shows no argument.
package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/policy"
	"holdpoint/engine/policysim"
	"holdpoint/engine/registry"
	"holdpoint/internal/gate"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Config says what is judged, and by which policies.
type Config struct {
	Store  *store.Store
	Sealer *seal.Sealer
	// Next is the new policy. Against is the one that it is compared with; nil is
	// the policy of each approval's own time.
	Next, Against *policy.Bundle
	// Max bounds how many approvals are judged; 0 is all. Their ids are drawn, so that any part
	// of them is a fair one.
	Max int
}

// Result is what a simulation has found.
type Result struct {
	// Cases are the approvals that could be judged again, the oldest first.
	Cases []policysim.Case `json:"-"`
	// Unreplayable counts the calls that were decided at once, by tool.
	Unreplayable []Unreplayable `json:"unreplayable,omitempty"`
	// Erased and Unreadable count approvals whose arguments are gone, or are no
	// call any more.
	Erased     int `json:"erased,omitempty"`
	Unreadable int `json:"unreadable,omitempty"`
}

// Unreplayable counts a tool's calls that were decided at once, by outcome: their
// arguments were not kept.
type Unreplayable struct {
	Tool     string         `json:"tool"`
	Outcomes map[string]int `json:"outcomes"`
}

// run is a simulation under way. Both policies judge with what is registered now,
// so that only what the policies do is a difference.
type run struct {
	Config
	Result
	registry *registry.Snapshot
	names    map[string]string         // of people, by id
	former   map[string]*policy.Bundle // by the digest of what decided; nil for no policy
	judges   map[judgeKey]*gate.Judge
}

type judgeKey struct {
	bundle      *policy.Bundle
	environment string
}

// pageSize is how many approvals, of up to 1 MiB each, are read at a time.
const pageSize = 50

// Run judges all approvals of the database, the oldest first.
func Run(ctx context.Context, c Config) (Result, error) {
	r := &run{Config: c, names: map[string]string{}, former: map[string]*policy.Bundle{}, judges: map[judgeKey]*gate.Judge{}}
	if err := r.all(ctx); err != nil {
		return Result{}, err
	}
	return r.Result, nil
}

func (r *run) all(ctx context.Context) (err error) {
	if r.registry, err = r.Store.Registry.Snapshot(ctx); err != nil {
		return fmt.Errorf("read the registry: %w", err)
	}
	people, err := r.Store.People.List(ctx)
	if err != nil {
		return fmt.Errorf("read the people: %w", err)
	}
	for _, p := range people {
		r.names[p.ID] = p.Name
	}
	type dated struct {
		policysim.Case
		at time.Time
	}
	var found []dated
	for after := ""; ; {
		page, err := r.Store.Approvals.Past(ctx, after, pageSize)
		if err != nil {
			return fmt.Errorf("read the approvals: %w", err)
		}
		for _, record := range page {
			after = record.Approval.ID
			c, ok, err := r.judge(ctx, record)
			if err != nil {
				return err
			}
			if ok {
				found = append(found, dated{c, record.Approval.Plan.OpenedAt})
			}
		}
		if len(page) < pageSize || r.Max > 0 && len(found)+r.Erased+r.Unreadable >= r.Max {
			break
		}
	}
	slices.SortFunc(found, func(a, b dated) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.ID, b.ID)) })
	for _, f := range found {
		r.Cases = append(r.Cases, f.Case)
	}
	counts, err := r.Store.Reports.CountDecidedAtOnce(ctx, time.Time{})
	if err != nil {
		return fmt.Errorf("count what was decided at once: %w", err)
	}
	for _, c := range counts {
		if n := len(r.Unreplayable); n == 0 || r.Unreplayable[n-1].Tool != c.Tool {
			r.Unreplayable = append(r.Unreplayable, Unreplayable{Tool: c.Tool, Outcomes: map[string]int{}})
		}
		r.Unreplayable[len(r.Unreplayable)-1].Outcomes[string(c.Outcome)] = c.Count
	}
	return nil
}

// judge judges one approval by both policies. It is not ok when the approval
// cannot be judged again, which is counted.
func (r *run) judge(ctx context.Context, record store.Record) (c policysim.Case, ok bool, err error) {
	a := record.Approval
	if a.Call.Dialect == gate.DialectChange {
		return c, false, nil // no policy judges changes of policies
	}
	document, err := r.Sealer.Open(a.ID, record.Sealed)
	if errors.Is(err, seal.ErrErased) {
		r.Erased++
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	// At its own time: what has become of a document since is no policy's doing.
	again, verdict, err := r.verdict(r.Next, a, document)
	if err != nil {
		r.Unreadable++
		return c, false, nil
	}
	c = policysim.Case{ID: a.ID, Tool: a.Call.Tool, New: verdict, Then: a.Decision.Route}
	// Everything but the policy is as it was.
	for _, f := range a.Decision.Findings {
		if f.Source != policySource {
			c.Now = c.Now.Stricter(f.Route)
		}
	}
	c.Now = c.Now.Stricter(verdict.Outcome.Route())
	c.Reviewed = c.Now.Waits() && slices.ContainsFunc(again.Requirements, func(q engine.Requirement) bool { return q.Kind.PeopleDecide() })
	if fact, denied := a.Denial(); denied {
		c.Denial = &policysim.Denial{By: fact.Actor.ID, Name: r.names[fact.Actor.ID], At: fact.At.UTC(), Kind: string(fact.Denial)}
	}
	old, known, err := r.policyOf(ctx, a)
	if err != nil || !known {
		return c, err == nil, err
	}
	was := policysim.Verdict{}
	if old != nil {
		if _, was, err = r.verdict(old, a, document); err != nil {
			r.Unreadable++
			return c, false, nil
		}
	}
	c.Old = &was
	return c, true, nil
}

// policySource is the source of the findings that are a policy's.
const policySource = "policy"

// verdict is what a bundle makes of the call, as the gate has it judged.
func (r *run) verdict(b *policy.Bundle, a approval.Approval, document []byte) (engine.Decision, policysim.Verdict, error) {
	key := judgeKey{b, a.Call.Environment}
	judge := r.judges[key]
	if judge == nil {
		var err error
		if judge, err = gate.NewJudge(gate.Rules{Environment: a.Call.Environment, Policy: b, Registry: r.registry}); err != nil {
			return engine.Decision{}, policysim.Verdict{}, err
		}
		r.judges[key] = judge
	}
	d, err := judge.Recheck(a, document, a.Plan.OpenedAt)
	if err != nil {
		return d, policysim.Verdict{}, err
	}
	return d, verdictOf(d, b), nil
}

// verdictOf is the policy's part of a decision. A finding's code is the rule's
// id, or says what else decided; that there is none is the default's ALLOW.
func verdictOf(d engine.Decision, b *policy.Bundle) policysim.Verdict {
	outcomes := map[string]engine.Outcome{}
	for _, rule := range b.Rules() {
		outcomes[rule.ID] = rule.Outcome
	}
	v := policysim.Verdict{Outcome: engine.Allow}
	var rules []string
	for _, f := range d.Findings {
		if f.Source != policySource {
			continue
		}
		outcome, isRule := outcomes[f.Code]
		if !isRule {
			if outcome = b.Default; f.Code != "DEFAULT_"+string(b.Default) {
				outcome = engine.Deny
				rules = append(rules, f.Code)
			}
		} else {
			rules = append(rules, f.Code)
		}
		if outcome.Route() >= v.Outcome.Route() {
			v.Outcome = outcome
		}
	}
	v.Rule = strings.Join(rules, ", ")
	v.Terms = policysim.Terms(d.Requirements, d.ExpiresIn, d.Constraints)
	return v
}

// policyOf is the policy that the approval was decided by: the one to compare
// with, or the one of its time, nil for none. It is not known when the database
// does not have it any more.
func (r *run) policyOf(ctx context.Context, a approval.Approval) (b *policy.Bundle, known bool, err error) {
	if r.Against != nil {
		return r.Against, true, nil
	}
	digest := a.Decision.PolicyDigest
	if b, known = r.former[digest]; known {
		return b, true, nil
	}
	body, err := r.Store.Rules.Ruleset(ctx, digest)
	if errors.Is(err, store.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the rules of the time of %s: %w", a.ID, err)
	}
	var names struct {
		Policy string `json:"policy"`
	}
	if err := json.Unmarshal(body, &names); err != nil {
		return nil, false, fmt.Errorf("read the rules of the time of %s: %w", a.ID, err)
	}
	if names.Policy != "" {
		text, err := r.Store.Rules.DocumentKnownAs(ctx, names.Policy)
		if errors.Is(err, store.ErrNotFound) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("read the policy of the time of %s: %w", a.ID, err)
		}
		if b, _ = policy.Load(text, policy.Options{}); b == nil {
			return nil, false, nil
		}
	}
	r.former[digest] = b
	return b, true, nil
}
