package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdpoint/engine/approval"
	"holdpoint/engine/policy"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// ErrSignatures is the error of a policy that has not the signatures of people that it takes.
var ErrSignatures = errors.New("signatures are missing")

// Signer is a key that has signed a policy for this environment.
type Signer struct {
	// Key is zero but for its fingerprint where nobody has registered it.
	Key store.PolicySigner
	// Why says why the signature does not count now, "" where it does.
	Why string
}

// Name is whose the key is.
func (s Signer) Name() string {
	if s.Key.Person.ID == "" {
		return "somebody unknown"
	}
	return nameOf(s.Key)
}

func nameOf(k store.PolicySigner) string {
	if k.Person.Name == "" {
		return k.Person.Email
	}
	return k.Person.Name
}

// SignersOf are the keys that have signed a policy for an environment, and whether each counts now.
func SignersOf(b *policy.Bundle, environment string, in store.Signing) []Signer {
	var list []Signer
	for _, key := range b.SignedFor(environment) {
		k, known := in.Key(key.Fingerprint)
		s := Signer{Key: k, Why: signerProblem(k, in.Rule)}
		if !known {
			s.Key.Fingerprint, s.Why = key.Fingerprint, "nobody has registered the key"
		}
		list = append(list, s)
	}
	return list
}

// signerProblem says why what a key signs does not count now, "" where it does.
func signerProblem(k store.PolicySigner, rule *store.Guard) string {
	switch {
	case k.RevokedAt != nil:
		return "the key is revoked"
	case k.Person.Disabled:
		return "the account is disabled"
	case rule != nil && !k.Person.Has(rule.Rule.Role):
		return "they have not the role " + rule.Rule.Role
	}
	return ""
}

// Signed is the fingerprints of the keys whose signatures of a policy count now, if they are
// enough. ErrSignatures: they are not, and the error says in one line who is missing.
func Signed(b *policy.Bundle, environment string, in store.Signing) (fingerprints []string, err error) {
	var names, identities, not []string
	for _, s := range SignersOf(b, environment, in) {
		if s.Why != "" {
			not = append(not, fmt.Sprintf("that by %s (%s) does not: %s", s.Key.Fingerprint, s.Name(), s.Why))
			continue
		}
		fingerprints = append(fingerprints, s.Key.Fingerprint)
		if !slices.Contains(identities, s.Key.Person.Identity) {
			identities, names = append(identities, s.Key.Person.Identity), append(names, nameOf(s.Key))
		}
	}
	if in.Rule == nil || len(identities) >= in.Rule.Rule.Needed {
		return fingerprints, nil
	}
	rule := in.Rule.Rule
	var others []string // who could sign, and has not
	for _, k := range in.Keys {
		if signerProblem(k, in.Rule) == "" && !slices.Contains(identities, k.Person.Identity) {
			identities, others = append(identities, k.Person.Identity), append(others, nameOf(k))
		}
	}
	text := fmt.Sprintf("a policy takes the signatures of %d × %s for the environment %q", rule.Needed, rule.Role, environment)
	if len(names) == 0 {
		text += ", and none counts"
	} else {
		text += fmt.Sprintf(", and %d counts: by %s", len(names), strings.Join(names, ", "))
		if len(names) > 1 {
			text = strings.Replace(text, " counts:", " count:", 1)
		}
	}
	for _, one := range not {
		text += "; " + one
	}
	if elsewhere := b.SignedEnvironments(); len(names)+len(not) == 0 && len(elsewhere) > 0 {
		text += "; it is signed for " + strings.Join(elsewhere, ", ")
	}
	missing := rule.Needed - len(names)
	switch {
	case len(others) == 0:
		text += "; nobody else could sign: register keys (“holdpoint policy signer add”)"
	case len(others) < missing:
		text += fmt.Sprintf("; missing are %d, and only %s could sign: register keys (“holdpoint policy signer add”)", missing, strings.Join(others, ", "))
	case len(others) == missing:
		text += "; missing: " + strings.Join(others, ", ") + " (“holdpoint policy sign --key”)"
	default:
		text += fmt.Sprintf("; missing: %d of %s (“holdpoint policy sign --key”)", missing, strings.Join(others, ", "))
	}
	return nil, fmt.Errorf("%w: %s", ErrSignatures, text)
}

// CurrentSigners are the people whose signatures count now, each human being once.
func CurrentSigners(in store.Signing) (names []string) {
	var identities []string
	for _, k := range in.Keys {
		if signerProblem(k, in.Rule) == "" && !slices.Contains(identities, k.Person.Identity) {
			identities, names = append(identities, k.Person.Identity), append(names, nameOf(k))
		}
	}
	return names
}

// StillSigned reports why a policy in force may not be judged by: because it has not the signatures
// with which it came into force, or these are fewer than the rule wants. The database has seen to
// whose keys those were then. Whoever has left since has signed it all the same.
func StillSigned(b *policy.Bundle, environment string, d store.Document, in store.Signing) error {
	var identities []string
	for _, key := range b.SignedFor(environment) {
		k, known := in.Key(key.Fingerprint)
		if known && slices.Contains(d.SignedBy, key.Fingerprint) && !slices.Contains(identities, k.Person.Identity) {
			identities = append(identities, k.Person.Identity)
		}
	}
	if n := in.Rule.Rule.Needed; len(identities) < n {
		return fmt.Errorf("%w: it came into force with %d of the %d that a policy takes for the environment %q: sign it, and put it in force again", ErrSignatures, len(identities), n, environment)
	}
	return nil
}

// signersInForce are the names of those who had signed a document when it came into force.
func signersInForce(d store.Document, in store.Signing) (names []string) {
	for _, f := range d.SignedBy {
		if k, known := in.Key(f); known && !slices.Contains(names, nameOf(k)) {
			names = append(names, nameOf(k))
		}
	}
	return names
}

// signaturesWanted is what a policy takes of people's signatures, nil for none.
func signaturesWanted(in store.Signing) *approval.Rule {
	if in.Rule == nil {
		return nil
	}
	return &in.Rule.Rule
}

// RequireSignatures has every policy take the signatures of people from now on, whichever way it
// comes into force. The policy that is in force has to have them already: so none is without them
// from now on, and nobody is locked out by the rule itself.
func RequireSignatures(ctx context.Context, s *store.Store, by access.Initiator, environment string, rule approval.Rule) error {
	if strings.TrimSpace(rule.Role) == "" || rule.Needed < 1 || rule.Needed > policy.MaxSignatures {
		return fmt.Errorf("want a role, and 1 to %d people who have it", policy.MaxSignatures)
	}
	rule = approval.Rule{Role: rule.Role, Needed: rule.Needed}
	e := by.Event("RULES_GUARDED", "Policies come into force with the signatures of people only.", "", "")
	if err := e.SetPayload(map[string]any{"kind": store.SignaturesRule, "rule": rule}); err != nil {
		return err
	}
	g := store.Guard{Kind: store.SignaturesRule, Rule: rule, SetBy: by.Actor.ID}
	return s.Rules.RequireSignatures(ctx, g, e, func(d *store.Document, in store.Signing) error {
		if d == nil {
			return nil
		}
		b, problems := policy.Load(d.Body, policy.Options{})
		if policy.HasErrors(problems) {
			return fmt.Errorf("the policy in force cannot be read: %s", problems[0])
		}
		if _, err := Signed(b, environment, in); err != nil {
			return fmt.Errorf("the policy in force, version %s, would be without: %w", shown(b.Version), err)
		}
		if err := StillSigned(b, environment, *d, in); err != nil {
			return fmt.Errorf("the policy in force, version %s, was signed with keys that were not registered yet, or not for here: change a comment in it, so that it comes into force again", shown(b.Version))
		}
		return nil
	})
}
