package pattern

import (
	"cmp"
	"slices"
	"unicode"
)

// lastUnit is the largest UTF-16 code unit.
const lastUnit = 0xFFFF

// span is the units from lo to hi, both included.
type span struct{ lo, hi rune }

// set is a set of units. A normal one is sorted and has no two spans that touch.
type set []span

func single(u rune) set { return set{{u, u}} }

func (s set) normal() set {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	out := s[:0]
	for _, r := range s {
		if n := len(out); n > 0 && r.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, r.hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

// complement is all the units that are not in s, which has to be normal.
func (s set) complement() set {
	var out set
	next := rune(0)
	for _, r := range s {
		if r.lo > next {
			out = append(out, span{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= lastUnit {
		out = append(out, span{next, lastUnit})
	}
	return out
}

// folded adds all units that are the same letter as one in s.
func (s set) folded() set {
	out := slices.Clone(s)
	for _, r := range s {
		i, _ := slices.BinarySearchFunc(letters, r.lo, func(l letter, u rune) int { return cmp.Compare(l.unit, u) })
		for ; i < len(letters) && letters[i].unit <= r.hi; i++ {
			for _, u := range variants[letters[i].upper] {
				out = append(out, span{u, u})
			}
		}
	}
	return out.normal()
}

// The sets that have a name in patterns.
var (
	digits    = set{{'0', '9'}}
	wordUnits = set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
	lineEnds  = set{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}
	spaces    = set{
		{'\t', '\r'},
		{' ', ' '},
		{0xA0, 0xA0},
		{0x1680, 0x1680},
		{0x2000, 0x200A},
		{0x2028, 0x2029},
		{0x202F, 0x202F},
		{0x205F, 0x205F},
		{0x3000, 0x3000},
		{0xFEFF, 0xFEFF},
	}
)

// letter is a unit that is the same letter as another one.
type letter struct{ unit, upper rune }

// letters is all of them in order, and variants the units of each by its upper
// case.
var letters, variants = foldingTables()

func foldingTables() ([]letter, map[rune][]rune) {
	variants := map[rune][]rune{}
	for _, c := range unicode.CaseRanges {
		for u := rune(c.Lo); u <= rune(c.Hi) && u <= lastUnit; u++ { //nolint:gosec // characters
			variants[upper(u)] = append(variants[upper(u)], u)
		}
	}
	var letters []letter
	for up, units := range variants {
		if len(units) == 1 {
			delete(variants, up)
			continue
		}
		for _, u := range units {
			letters = append(letters, letter{u, up})
		}
	}
	slices.SortFunc(letters, func(a, b letter) int { return cmp.Compare(a.unit, b.unit) })
	return letters, variants
}

// upper is ECMAScript's Canonicalize for the flag i without u: the upper case
// of a unit, unless that is several units, or in ASCII when the unit is not.
func upper(u rune) rune {
	up := unicode.ToUpper(u)
	switch {
	case up == u, up > lastUnit, up < 0x80 && u >= 0x80, hasLongUpper(u):
		return u
	}
	return up
}

// hasLongUpper reports whether the full upper case of u is several letters
// though its simple one is another letter: the Greek ones with iota subscript.
func hasLongUpper(u rune) bool {
	return 0x1F80 <= u && u <= 0x1FAF || u == 0x1FB3 || u == 0x1FC3 || u == 0x1FF3
}
