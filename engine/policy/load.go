package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

// Options say how a bundle is read.
type Options struct {
	// File is the name that problems carry.
	File string
	// Now, unless zero, is the time at which an expired bundle is a problem.
	Now time.Time
	// Secret, unless empty, makes a bundle without a right signature a problem.
	Secret []byte
	// FormerSecret, unless empty, may have signed it as well: while one secret follows
	// another.
	FormerSecret []byte
	// MaxRules is the largest number of rules; 0 is the constant MaxRules.
	MaxRules int
	// Reviewers, unless nil, lists the people who could review for a role, or at
	// all for the role "", each once. An approval that no choice of them could
	// give is a problem: nobody counts for two places.
	Reviewers func(role string) []string
	// Calendars, unless nil, reports whether there is a calendar of this name. A
	// rule that names another is a problem.
	Calendars func(name string) bool
}

// Load reads a bundle from JSON or YAML; it is JSON if the first byte that is
// not white space is a brace. It returns everything that is wrong, in the
// order of the document, each with its line and column, and no bundle unless
// all of it is right: a bundle is never loaded without one of its rules. With a
// bundle the problems are warnings. A document that is not well formed has one
// problem, as what follows the first mistake would be a guess.
func Load(data []byte, o Options) (*Bundle, []Problem) {
	r := &reporter{file: o.File}
	if len(data) > MaxBytes {
		r.add(Problem{Line: 1, Column: 1, Code: "too_large", Message: "the bundle has more than 1 MiB", Hint: "split it by environment"})
		return nil, r.list()
	}
	root, wrong := source.Read(data, source.Options{MaxDepth: MaxDepth})
	for _, p := range wrong {
		r.report(p, false)
	}
	if len(wrong) > 0 {
		return nil, r.list()
	}
	return compile(root, o, r)
}

// Compile is Load for a bundle that has been read already. Its problems have
// no line and column.
func Compile(v canon.Value, o Options) (*Bundle, []Problem) {
	r := &reporter{file: o.File}
	if len(unsigned(v)) > MaxBytes {
		r.add(Problem{Code: "too_large", Message: "the bundle has more than 1 MiB", Hint: "split it by environment"})
		return nil, r.list()
	}
	return compile(source.Of(v), o, r)
}

// without is the bundle's RFC 8785 form without some of its members.
func without(v canon.Value, names ...string) []byte {
	members := make([]canon.Member, 0, v.Len())
	for name, m := range v.All() {
		if !slices.Contains(names, name) {
			members = append(members, canon.Member{Name: name, Value: m})
		}
	}
	if len(members) == v.Len() {
		return v.Canonical()
	}
	return canon.Object(members...).Canonical()
}

// unsigned is what the shared secret signs: all but that signature, those of people too.
func unsigned(v canon.Value) []byte { return without(v, "signature") }

// digestOf names what the bundle says, whoever has signed it.
func digestOf(v canon.Value) string {
	sum := sha256.Sum256(without(v, "signature", "signed_by"))
	return "sha256:" + hex.EncodeToString(sum[:])
}
