package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/policy"
	"holdpoint/engine/policysim"
	"holdpoint/engine/registry"
	"holdpoint/internal/config"
	"holdpoint/internal/gate"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// recorded judges the approvals of a database again. Both policies judge with
// what is registered now, so that only what the policies do is a difference.
type recorded struct {
	next, against *policy.Bundle
	out           *simulation

	store    *store.Store
	sealer   *seal.Sealer
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

// open reads and judges all approvals of the database that dir or the
// configuration names, oldest first.
func (r *recorded) open(ctx context.Context, c *cli, dir string) ([]policysim.Case, error) {
	cfg, err := recordedConfig(c, dir, ", or a file of calls with --calls")
	if err != nil {
		return nil, unreadable(err)
	}
	s, err := store.Open(ctx, store.Config{URL: cfg.DatabaseURL, Sealer: cfg.Sealer, MaxConns: 4})
	if err != nil {
		return nil, unreadable(err)
	}
	defer s.Close()
	r.store, r.sealer = s, cfg.Sealer
	r.names, r.former, r.judges = map[string]string{}, map[string]*policy.Bundle{}, map[judgeKey]*gate.Judge{}
	cases, err := r.all(ctx)
	if err != nil {
		return nil, unreadable(err)
	}
	return cases, nil
}

// recordedConfig says where the database is and has its data key.
func recordedConfig(c *cli, dir, besides string) (config.Config, error) {
	if dir == "" {
		cfg, err := c.load(config.Database)
		if err == nil {
			// The signing keys, which serve needs besides, are nobody's business here.
			cfg.Sealer, err = sealerOf(cfg.DataKey)
		}
		if err != nil {
			err = fmt.Errorf("%w\n(or name a data directory with --data%s)", err, besides)
		}
		return cfg, err
	}
	var cfg config.Config
	running, err := readDevFile(dir)
	if err != nil {
		return cfg, err
	}
	data, err := os.ReadFile(filepath.Join(dir, "secrets.json")) // #nosec G304 -- the user names the directory
	if err != nil {
		return cfg, err
	}
	var state struct {
		DataKey string `json:"data_key"`
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return cfg, fmt.Errorf("read %s/secrets.json: %w", dir, err)
	}
	cfg.DatabaseURL = running.DatabaseURL
	if cfg.Sealer, err = sealerOf(state.DataKey); err != nil {
		return cfg, fmt.Errorf("read %s/secrets.json: %w", dir, err)
	}
	return cfg, nil
}

func sealerOf(dataKey string) (*seal.Sealer, error) {
	if dataKey == "" {
		return nil, errors.New("data_key: it is missing, and recorded calls cannot be read without it")
	}
	key, err := seal.ParseKey(dataKey)
	if err != nil {
		return nil, fmt.Errorf("data_key: %w", err)
	}
	return seal.New(key)
}

func (r *recorded) all(ctx context.Context) ([]policysim.Case, error) {
	var err error
	if r.registry, err = r.store.Registry.Snapshot(ctx); err != nil {
		return nil, fmt.Errorf("read the registry: %w", err)
	}
	people, err := r.store.People.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the people: %w", err)
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
		page, err := r.store.Approvals.Past(ctx, after, pageSize)
		if err != nil {
			return nil, fmt.Errorf("read the approvals: %w", err)
		}
		for _, record := range page {
			after = record.Approval.ID
			c, ok, err := r.judge(ctx, record)
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, dated{c, record.Approval.Plan.OpenedAt})
			}
		}
		if len(page) < pageSize {
			break
		}
	}
	slices.SortFunc(found, func(a, b dated) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.ID, b.ID)) })
	cases := make([]policysim.Case, len(found))
	for i, f := range found {
		cases[i] = f.Case
	}
	counts, err := r.store.Reports.CountDecidedAtOnce(ctx, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("count what was decided at once: %w", err)
	}
	for _, c := range counts {
		list := r.out.Unreplayable
		if len(list) == 0 || list[len(list)-1].Tool != c.Tool {
			list = append(list, unreplayable{Tool: c.Tool, Outcomes: map[string]int{}})
		}
		list[len(list)-1].Outcomes[string(c.Outcome)] = c.Count
		r.out.Unreplayable = list
	}
	return cases, nil
}

// judge judges one approval by both policies. It is not ok when the approval
// cannot be judged again, which is counted.
func (r *recorded) judge(ctx context.Context, record store.Record) (c policysim.Case, ok bool, err error) {
	a := record.Approval
	document, err := r.sealer.Open(a.ID, record.Sealed)
	if errors.Is(err, seal.ErrErased) {
		r.out.Erased++
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	// At its own time: what has become of a document since is no policy's doing.
	again, verdict, err := r.verdict(r.next, a, document)
	if err != nil {
		r.out.Unreadable++
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
			r.out.Unreadable++
			return c, false, nil
		}
	}
	c.Old = &was
	return c, true, nil
}

// policySource is the source of the findings that are a policy's.
const policySource = "policy"

// verdict is what a bundle makes of the call, as the gate has it judged.
func (r *recorded) verdict(b *policy.Bundle, a approval.Approval, document []byte) (engine.Decision, policysim.Verdict, error) {
	key := judgeKey{b, a.Call.Environment}
	judge := r.judges[key]
	if judge == nil {
		var err error
		if judge, err = gate.NewJudge(gate.Rules{Environment: a.Call.Environment, Policy: b, Registry: r.registry}); err != nil {
			return engine.Decision{}, policysim.Verdict{}, err
		}
		r.judges[key] = judge
	}
	d, err := judge.Again(a, document, a.Plan.OpenedAt)
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
func (r *recorded) policyOf(ctx context.Context, a approval.Approval) (b *policy.Bundle, known bool, err error) {
	if r.against != nil {
		return r.against, true, nil
	}
	digest := a.Decision.PolicyDigest
	if b, known = r.former[digest]; known {
		return b, true, nil
	}
	body, err := r.store.Rules.Ruleset(ctx, digest)
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
		text, err := r.store.Rules.DocumentKnownAs(ctx, names.Policy)
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
