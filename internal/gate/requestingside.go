package gate

import (
	"context"
	"fmt"
	"net/mail"
	"slices"
	"strings"

	"holdpoint/internal/access"
)

// requestingSide is the requesting side of a call: identities that may not decide.
type requestingSide struct {
	// owner is who answers for the call: the registered owner of its agent. Whom else
	// the agent names does not answer for it: an agent does not choose who does.
	owner []string
	// registered are excluded for a reason that is on record, and claimed because the
	// call says so. Somebody may be among both.
	registered, claimed []string
}

// excluded are all of them.
func (s requestingSide) excluded() []string { return union(s.registered, s.claimed) }

// byClaim are those whom nothing but the claim excludes.
func (s requestingSide) byClaim() []string {
	return slices.DeleteFunc(union(s.claimed), func(who string) bool { return slices.Contains(s.registered, who) })
}

func union(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

// requestingSide finds who is of the requesting side: the registered owner of the
// agent; and, as the call claims, the owners of every agent in its delegation chain
// and the people on whose behalf it is made, when they are some of ours.
func (g *Gate) requestingSide(ctx context.Context, p access.Principal, proposal *Proposal) (requestingSide, error) {
	var s requestingSide
	agent, err := g.Store.People.Agent(ctx, p.AgentID)
	if err != nil {
		return s, fmt.Errorf("read agent %s: %w", p.AgentID, err)
	}
	if agent.OwnerIdentity != "" {
		s.owner = []string{agent.OwnerIdentity}
	}
	agents := g.Judge().Registry.Agents
	var refs []string
	for _, subject := range proposal.subjects {
		refs = append(refs, references(subject)...)
	}
	for _, id := range append(slices.Clone(proposal.claim.Chain), proposal.claim.Parent, proposal.claim.ClaimedAgent) {
		refs = append(refs, agents[id].Owner, id)
	}
	var emails, ids []string
	for _, ref := range refs {
		if ref = strings.TrimSpace(ref); ref != "" {
			emails, ids = append(emails, addresses(ref)...), append(ids, ref)
		}
	}
	if len(ids) > 0 {
		if s.claimed, err = g.Store.People.Identities(ctx, union(emails), union(ids)); err != nil {
			return s, err
		}
	}
	s.claimed = append(s.claimed, proposal.barredByClaim...)
	s.registered = append(slices.Clone(s.owner), slices.DeleteFunc(slices.Clone(proposal.barred), func(who string) bool {
		return slices.Contains(proposal.barredByClaim, who)
	})...)
	return s, nil
}

// maxSubjects is how many people a call may name on whose behalf it is made.
const maxSubjects = 20

// checkSubjects refuses a call that names more people than are looked up.
func checkSubjects(subjects []string) *access.Refusal {
	for _, subject := range subjects {
		if n := len(references(subject)); n > maxSubjects {
			return &access.Refusal{
				Kind: access.Invalid, Code: "too_many_subjects",
				Detail: fmt.Sprintf("The call names %d people on whose behalf it is made; at most %d are accepted.", n, maxSubjects),
			}
		}
	}
	return nil
}

// references are the people whom a subject names: one, or a list with commas,
// semicolons, blanks or new lines between them, with or without brackets and quotes.
func references(subject string) []string {
	var refs []string
	for ref := range strings.FieldsFuncSeq(subject, func(r rune) bool { return r == ',' || r == ';' || r == '\n' || r == '\r' }) {
		ref = strings.Trim(ref, " \t[]\"'")
		switch {
		case strings.Count(ref, "@") > 1: // with nothing but blanks between them
			refs = append(refs, strings.Fields(ref)...)
		case ref != "":
			refs = append(refs, ref)
		}
	}
	return refs
}

// addresses are the e-mail addresses that a reference to a person may mean,
// however it is spelt: with white space, as a mailto link, with a name.
func addresses(ref string) []string {
	ref = strings.ToLower(strings.TrimSpace(ref))
	ref = strings.TrimPrefix(ref, "mailto:")
	ref, _, _ = strings.Cut(ref, "?")
	found := []string{strings.TrimRight(ref, ".")}
	if parsed, err := mail.ParseAddress(ref); err == nil {
		found = append(found, strings.TrimRight(parsed.Address, "."))
	}
	if i, j := strings.LastIndexByte(ref, '<'), strings.LastIndexByte(ref, '>'); i >= 0 && j > i {
		found = append(found, strings.TrimRight(strings.TrimSpace(ref[i+1:j]), "."))
	}
	return found
}
