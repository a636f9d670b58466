package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/grant"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// terms are what is sealed of a grant.
type terms struct {
	pattern grant.Pattern
	// reasons are why the call that it was made from was held. A call that is held
	// for another reason is not like that one.
	reasons []string
	// environments are those that the call named beside the one it was judged for. A call
	// that says that it runs elsewhere is not like that one.
	environments []string
}

// termsOf are those of a grant by pattern, made from the call of p.
func termsOf(pattern grant.Pattern, a approval.Approval, p Proposal) terms {
	return terms{pattern, reasonsOf(a.Decision), elsewhere(pattern, a, p)}
}

// elsewhere lists the environments that a call names beside the one it was judged for,
// in order, but for those that the pattern itself spells out.
func elsewhere(pattern grant.Pattern, a approval.Approval, p Proposal) []string {
	var spelled []string
	for _, m := range pattern.Matchers {
		if m.Op == grant.Equals || m.Op == grant.OneOf {
			spelled = append(spelled, strings.TrimPrefix(m.Path, "/"))
		}
	}
	names := slices.DeleteFunc(environmentsOf(p, spelled), func(name string) bool { return name == a.Call.Environment })
	slices.Sort(names)
	return names
}

// document is the terms as they are sealed.
func (t terms) document() []byte {
	texts := func(list []string) canon.Value {
		values := make([]canon.Value, len(list))
		for i, text := range list {
			values[i] = canon.String(text)
		}
		return canon.Array(values...)
	}
	return canon.Object(
		canon.Member{Name: "environments", Value: texts(t.environments)},
		canon.Member{Name: "pattern", Value: t.pattern.Document()},
		canon.Member{Name: "reasons", Value: texts(t.reasons)},
	).Canonical()
}

func openTerms(s *seal.Sealer, g store.Grant) (terms, error) {
	var t terms
	text, err := s.Open(g.ID, g.Sealed)
	if err != nil {
		return t, err
	}
	doc, err := canon.Parse(text)
	if err != nil {
		return t, fmt.Errorf("read the grant %s: %w", g.ID, err)
	}
	pattern, _ := doc.Get("pattern")
	if t.pattern, err = grant.Parse(pattern); err != nil {
		return t, fmt.Errorf("read the grant %s: %w", g.ID, err)
	}
	reasons, there := doc.Get("reasons")
	if !there || reasons.Kind() != canon.ArrayKind {
		return t, fmt.Errorf("read the grant %s: it does not say why the call was held", g.ID)
	}
	for _, r := range reasons.Elements() {
		t.reasons = append(t.reasons, r.Str())
	}
	// A grant of before they were kept is for calls that name none.
	environments, _ := doc.Get("environments")
	for _, name := range environments.Elements() {
		t.environments = append(t.environments, name.Str())
	}
	return t, nil
}

// reasonsOf are the findings for which a call is held, as "source/code".
func reasonsOf(d engine.Decision) []string {
	var reasons []string
	for _, f := range d.Findings {
		if f.Route != engine.Accept {
			reasons = append(reasons, f.Source+"/"+f.Code)
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// grantedVotes casts the votes of standing grants for an approval that is being
// settled. A grant votes once for an approval, if the call was proposed after the
// grant was made, is like the one that its maker saw, and is held for no other
// reason; if the vote would count; and if the maker has not voted themselves. It is
// used up by that in the same transaction. What cannot be read casts no vote.
func grantedVotes(ctx context.Context, s *seal.Sealer, log *slog.Logger, c *store.Change) ([]approval.Fact, error) {
	if c.Kill != nil || c.Approval.Status != approval.Pending || c.Approval.Call.Dialect == DialectThreeGate || c.Approval.Call.Dialect == DialectChange {
		return nil, nil
	}
	if stage := c.Approval.State.Stage; stage < len(c.Approval.Plan.Requirements) && len(c.Approval.Plan.Requirements[stage].Form) > 0 {
		return nil, nil // a yes is not enough
	}
	live, err := c.Grants()
	if err != nil || len(live) == 0 {
		return nil, err
	}
	b := ballots{c: c, sealer: s, log: log}
	for _, one := range live {
		if err := b.addVote(ctx, one); err != nil {
			return nil, err
		}
	}
	return b.votes, nil
}

// ballots are the votes of an approval's grants, as they are being cast.
type ballots struct {
	c      *store.Change
	sealer *seal.Sealer
	log    *slog.Logger

	call  *Proposal // once it has been read
	votes []approval.Fact
}

// addVote adds the grant's vote, if it has one.
func (b *ballots) addVote(ctx context.Context, g store.Grant) error {
	a := b.c.Approval
	f := approval.Fact{
		Kind: approval.Vote, Yes: true, Actor: engine.Actor{Kind: engine.HumanActor, ID: g.PersonID, Channel: "grant"},
		Voter: g.Voter, Details: approval.Details{Grant: g.ID},
	}
	facts := append(slices.Clone(a.Facts), b.votes...)
	if hasVotedFor(a.Plan.Edition, facts, g) || approval.Admit(a.Plan, facts, f, b.c.Now) != nil {
		return nil
	}
	t, err := openTerms(b.sealer, g)
	if err == nil && b.call == nil {
		err = b.read()
	}
	if errors.Is(err, seal.ErrErased) {
		return nil
	}
	if err != nil {
		b.log.ErrorContext(ctx, "a standing grant casts no vote", "grant", g.ID, "approval", a.ID, "error", err)
		return nil
	}
	for _, why := range reasonsOf(a.Decision) {
		if !slices.Contains(t.reasons, why) {
			return nil
		}
	}
	if !t.pattern.Match(b.call.Arguments) || !slices.Equal(elsewhere(t.pattern, a, *b.call), t.environments) {
		return nil
	}
	used, err := b.c.UseGrant(g.ID)
	if err != nil || !used {
		return err
	}
	f.Edition, f.At = a.Plan.Edition, b.c.Now
	if n := len(facts); n > 0 {
		f.Seq = facts[n-1].Seq
	}
	f.Seq++
	b.votes = append(b.votes, f)
	return nil
}

// hasVotedFor reports whether the grant has voted for this approval before, in any
// edition, or its maker has voted on the present one: a no of theirs, or a yes
// that they took back, is not to be overruled by what they said before they saw
// the call.
func hasVotedFor(edition int, facts []approval.Fact, g store.Grant) bool {
	return slices.ContainsFunc(facts, func(f approval.Fact) bool {
		if f.Kind != approval.Vote {
			return false
		}
		same := f.Actor.ID == g.PersonID || f.Voter.Identity == g.Voter.Identity ||
			slices.ContainsFunc(f.Voter.Via, func(v approval.Voter) bool { return v.Identity == g.Voter.Identity })
		return f.Details.Grant == g.ID || same && f.Edition == edition
	})
}

// read opens the approval's call, once for all grants.
func (b *ballots) read() error {
	a := b.c.Approval
	document, err := b.sealer.Open(a.ID, b.c.Sealed)
	if err != nil {
		return fmt.Errorf("open the arguments of %s: %w", a.ID, err)
	}
	call, err := proposalOf(a, document, b.c.Now)
	if err != nil {
		return fmt.Errorf("read the arguments of %s: %w", a.ID, err)
	}
	b.call = &call
	return nil
}
