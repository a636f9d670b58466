package approval

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"holdpoint/engine/canon"
)

// Tighten adds constraints to those that there are. It can only make them
// narrower: a new name adds a constraint, and of what is there already a number
// whose name's first word is max or maximum may become smaller, with min or
// minimum larger; a list with allow, allowed or allowlist may become shorter, with
// deny, denied, denylist, block, blocked or blocklist longer. Anything else is an
// error that names the constraint and quotes no value. Both are JSON objects, or
// nothing. So is the result, in canonical form; where nothing is added it is base.
func Tighten(base, more json.RawMessage) (json.RawMessage, error) {
	have, err := constraints(base)
	if err != nil {
		return nil, fmt.Errorf("read the constraints that there are: %w", err)
	}
	want, err := constraints(more)
	if err != nil {
		return nil, fmt.Errorf("constraints: %w", err)
	}
	if want.Len() == 0 {
		return base, nil
	}
	members := have.Members()
	for _, m := range want.Members() {
		i, err := member(members, m.Name)
		switch {
		case err != nil:
			return nil, err
		case i < 0:
			members = append(members, m)
		case !narrower(m.Name, members[i].Value, m.Value):
			return nil, fmt.Errorf("constraints: %q is set already, and this would not make it narrower", m.Name)
		default:
			members[i].Value = m.Value
		}
	}
	return canon.Object(members...).Canonical(), nil
}

// Bounds checks the constraints that one vote adds to a rule's, for a call with these
// arguments, an object. A number under max, or over min, of which the call has the other
// already is an error, as the call could not run. So is a bound of an argument that is no plain
// number: nobody can tell whether the call is within it. A bound of a list may count its
// elements, and one may bound nothing of the call: whoever runs the call keeps to those. The
// error names the constraint and quotes no value.
func Bounds(base, more json.RawMessage, args canon.Value) error {
	have, err := constraints(base)
	if err != nil {
		return fmt.Errorf("read the constraints that there are: %w", err)
	}
	want, err := constraints(more)
	if err != nil {
		return fmt.Errorf("constraints: %w", err)
	}
	for _, m := range want.Members() {
		if _, err := member(have.Members(), m.Name); err != nil {
			return err
		}
		of, bounded := boundBy(m.Name, args)
		switch {
		case !bounded:
		case of.Kind() != canon.NumberKind:
			return fmt.Errorf("constraints: what %q bounds is no plain number, so that nobody can tell whether the call is within: deny it, or change its arguments", m.Name)
		case !narrower(m.Name, m.Value, of):
			return fmt.Errorf("constraints: the call is outside of %q already, so that it could not run: deny it, or change its arguments", m.Name)
		}
	}
	return nil
}

// boundBy is the argument that a constraint such as max_amount bounds; false for none, and for
// nothing in it. An agent's number may be a text, and have a currency beside it.
func boundBy(name string, args canon.Value) (canon.Value, bool) {
	switch firstWord(name) {
	case "max", "maximum", "min", "minimum":
	default:
		return canon.Value{}, false
	}
	rest := folded(name[len(firstWord(name)):])
	for _, m := range args.Members() {
		v := m.Value
		if folded(m.Name) != rest {
			continue
		}
		switch v.Kind() {
		case canon.StringKind:
			if strings.TrimSpace(v.Str()) == "" {
				return v, false
			}
			bare := strings.TrimFunc(v.Str(), func(r rune) bool { return unicode.IsLetter(r) || unicode.IsSpace(r) || unicode.Is(unicode.Sc, r) })
			if read, err := canon.Parse([]byte(bare)); err == nil && read.Kind() == canon.NumberKind {
				v = read
			}
		case canon.ObjectKind:
			return v, v.Len() > 0
		case canon.ArrayKind, canon.NullKind:
			return v, false
		case canon.BoolKind, canon.NumberKind:
		}
		return v, true
	}
	return canon.Value{}, false
}

// folded is a name without the signs between its words, in lower case.
func folded(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// member is the place of the member with the name, -1 for none. No document has
// two names that differ only by case, so one more of those is an error.
func member(members []canon.Member, name string) (int, error) {
	i := slices.IndexFunc(members, func(m canon.Member) bool { return strings.EqualFold(m.Name, name) })
	if i >= 0 && members[i].Name != name {
		return i, fmt.Errorf("constraints: %q differs only by case from one that there is", name)
	}
	return i, nil
}

func constraints(text json.RawMessage) (canon.Value, error) {
	if len(text) == 0 || string(text) == "null" {
		return canon.Object(), nil
	}
	v, err := canon.Parse(text)
	if err == nil && v.Kind() != canon.ObjectKind {
		err = fmt.Errorf("want a JSON object")
	}
	return v, err
}

// narrower reports whether a constraint of this name permits no more with the
// new value than with the old one.
func narrower(name string, old, value canon.Value) bool {
	if string(old.Canonical()) == string(value.Canonical()) {
		return true
	}
	if old.Kind() != value.Kind() {
		return false
	}
	switch old.Kind() {
	case canon.NumberKind:
		switch firstWord(name) {
		case "max", "maximum":
			return value.Float() <= old.Float()
		case "min", "minimum":
			return value.Float() >= old.Float()
		}
	case canon.ArrayKind:
		switch firstWord(name) {
		case "allow", "allowed", "allowlist":
			return within(value, old)
		case "deny", "denied", "denylist", "block", "blocked", "blocklist":
			return within(old, value)
		}
	case canon.NullKind, canon.BoolKind, canon.StringKind, canon.ObjectKind:
	}
	return false
}

// firstWord is the first word of a name such as max_rows, maxRows or max-rows, in
// lower case. The first word of minutes is not min.
func firstWord(name string) string {
	for i := range len(name) {
		c := name[i]
		lower, upper := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z'
		if !lower && !upper || upper && i > 0 && 'a' <= name[i-1] && name[i-1] <= 'z' {
			return strings.ToLower(name[:i])
		}
	}
	return strings.ToLower(name)
}

// within reports whether every element of a is one of b.
func within(a, b canon.Value) bool {
	known := map[string]bool{}
	for _, e := range b.Elements() {
		known[string(e.Canonical())] = true
	}
	for _, e := range a.Elements() {
		if !known[string(e.Canonical())] {
			return false
		}
	}
	return true
}
