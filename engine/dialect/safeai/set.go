package safeai

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"holdpoint/engine/canon"
)

// contract is what one tool may be given and may answer.
type contract struct {
	tool         string
	tags         []string // normal, sorted, each once
	fields       []string // trimmed, sorted, each once
	maskResponse bool
	// requestFields are the arguments that the tool may be given, where boundsFields
	// says that it may not be given others: sorted, each once.
	requestFields []string
	boundsFields  bool
	// approval says that each call needs a person.
	approval bool
}

// foreign is the first argument by name that the tool may not be given, "" for none.
func (c *contract) foreign(args canon.Value) (name string, found bool) {
	if !c.boundsFields {
		return "", false
	}
	for name := range args.All() {
		if !slices.Contains(c.requestFields, name) {
			return name, true
		}
	}
	return "", false
}

// Terms are what a contract says, tags in their normal form and lists sorted.
type Terms struct {
	Tags, Fields []string
	// RequestFields are the arguments that the tool may be given; nil for any.
	RequestFields     []string
	Masks, NeedsHuman bool
}

// Terms returns the terms of a tool's contract; ok is false for a tool without one.
func (s *Set) Terms(tool string) (terms Terms, ok bool) {
	c := s.find(tool)
	if c == nil {
		return Terms{}, false
	}
	terms = Terms{Tags: c.tags, Fields: c.fields, Masks: c.maskResponse, NeedsHuman: c.approval}
	if c.boundsFields {
		terms.RequestFields = append([]string{}, c.requestFields...)
	}
	return terms, true
}

func (c *contract) accepts(tag string) bool {
	return slices.ContainsFunc(c.tags, func(allowed string) bool { return covers(allowed, tag) })
}

// Set is all contracts that are in force. It never changes, and may be used by
// any number of goroutines at once. The zero Set declares no tool.
type Set struct {
	contracts map[string]*contract
	digest    string
}

// Declared reports whether a tool has a contract. Tool names are compared after
// trimming; case matters.
func (s *Set) Declared(tool string) bool { return s.find(tool) != nil }

// Tools lists the declared tools in alphabetical order.
func (s *Set) Tools() []string {
	out := slices.Sorted(maps.Keys(s.contracts))
	return out
}

// Digest names the contracts: "sha256:" and, in hex, the SHA-256 of their
// canonical form (RFC 8785), in which tags are normal and lists sorted. Two
// sets have one digest exactly if they decide alike.
func (s *Set) Digest() string { return s.digest }

func (s *Set) find(tool string) *contract { return s.contracts[strings.TrimSpace(tool)] }

func newSet(contracts []*contract) *Set {
	s := &Set{contracts: make(map[string]*contract, len(contracts))}
	slices.SortFunc(contracts, func(a, b *contract) int { return strings.Compare(a.tool, b.tool) })
	// An array, because an object's names must differ by more than case, and
	// tools need not.
	var all []canon.Value
	for _, c := range contracts {
		slices.Sort(c.tags)
		c.tags = slices.Compact(c.tags)
		slices.Sort(c.fields)
		c.fields = slices.Compact(c.fields)
		slices.Sort(c.requestFields)
		c.requestFields = slices.Compact(c.requestFields)
		s.contracts[c.tool] = c
		members := []canon.Member{
			{Name: "tool", Value: canon.String(c.tool)},
			{Name: "allowed_request_tags", Value: stringsValue(c.tags)},
			{Name: "allowed_response_fields", Value: stringsValue(c.fields)},
			{Name: "mask_response", Value: canon.Bool(c.maskResponse)},
		}
		if c.boundsFields { // contracts without these have the digest that they always had
			members = append(members, canon.Member{Name: requestFieldsKey, Value: stringsValue(c.requestFields)})
		}
		if c.approval {
			members = append(members, canon.Member{Name: approvalKey, Value: canon.Bool(true)})
		}
		all = append(all, canon.Object(members...))
	}
	sum := sha256.Sum256(canon.Array(all...).Canonical())
	s.digest = "sha256:" + hex.EncodeToString(sum[:])
	return s
}

func stringsValue(list []string) canon.Value {
	out := make([]canon.Value, len(list))
	for i, s := range list {
		out[i] = canon.String(s)
	}
	return canon.Array(out...)
}
