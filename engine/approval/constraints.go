package approval

import (
	"encoding/json"
	"fmt"
	"slices"

	"holdpoint/engine/canon"
)

// Constraints is what a decision's constraints have become by those votes that
// tightened them: of each constraint the narrowest that anybody said. An error
// names a constraint of which two said what cannot both be kept to, and quotes no
// value. Both base and the result are JSON objects, or nothing. The result is base
// where no vote says anything.
func Constraints(base json.RawMessage, votes []Fact) (json.RawMessage, error) {
	have, err := constraints(base)
	if err != nil {
		return nil, fmt.Errorf("read the constraints that there are: %w", err)
	}
	members, added := slices.Clone(have.Members()), false
	for _, f := range votes {
		more, err := constraints(f.Details.Constraints)
		if err != nil {
			return nil, fmt.Errorf("constraints: %w", err)
		}
		for _, m := range more.Members() {
			added = true
			i, err := member(members, m.Name)
			if err != nil {
				return nil, err
			}
			if i < 0 {
				members = append(members, m)
				continue
			}
			both, ok := narrowest(m.Name, members[i].Value, m.Value)
			if !ok {
				return nil, fmt.Errorf("constraints: of %q two different things are said, and nothing is both", m.Name)
			}
			members[i].Value = both
		}
	}
	if !added {
		return base, nil
	}
	return canon.Object(members...).Canonical(), nil
}

// narrowest permits no more than a and no more than b, if there is such a value.
func narrowest(name string, a, b canon.Value) (canon.Value, bool) {
	switch {
	case narrower(name, a, b):
		return b, true
	case narrower(name, b, a):
		return a, true
	case a.Kind() != canon.ArrayKind || b.Kind() != canon.ArrayKind:
		return a, false
	}
	known := map[string]bool{}
	for _, e := range b.Elements() {
		known[string(e.Canonical())] = true
	}
	var common, either []canon.Value
	for _, e := range a.Elements() {
		if either = append(either, e); known[string(e.Canonical())] {
			common = append(common, e)
		}
	}
	for _, e := range b.Elements() {
		either = append(either, e)
	}
	// Of what is allowed what both allow, if that is anything; of what is not, all.
	for _, list := range [][]canon.Value{common, either} {
		if v := canon.Array(list...); len(list) > 0 && narrower(name, a, v) && narrower(name, b, v) {
			return v, true
		}
	}
	return a, false
}
