package policy

import (
	"math"
	"slices"
)

// index finds the rules whose tool_name fits a tool, so that the others cost a
// decision nothing. Lists hold numbers of rules in their order.
type index struct {
	every    []int32
	exact    map[string][]int32
	prefixes map[string][]int32
	lengths  []int // of the prefixes, each once, ascending
}

func newIndex(rules []rule) index {
	x := index{exact: map[string][]int32{}, prefixes: map[string][]int32{}}
	for i := range rules {
		number, t := int32(i), rules[i].tools //nolint:gosec // bounded by the number of values of a document
		switch {
		case t.every:
			x.every = append(x.every, number)
		case t.prefix:
			prefix := t.names[0]
			x.prefixes[prefix] = append(x.prefixes[prefix], number)
			if at, found := slices.BinarySearch(x.lengths, len(prefix)); !found {
				x.lengths = slices.Insert(x.lengths, at, len(prefix))
			}
		default:
			for _, name := range t.names {
				list := x.exact[name]
				if n := len(list); n == 0 || list[n-1] != number { // a name may be in an array twice
					x.exact[name] = append(list, number)
				}
			}
		}
	}
	return x
}

// fewLists is the number of lists that a tool is in at most, nearly always.
const fewLists = 8

// candidates walks through the rules for a tool in their order.
type candidates struct {
	lists [fewLists][]int32
	n     int
	more  [][]int32
}

// find starts a walk. It allocates only for a tool that has more than fewLists
// prefixes in the policy.
func (x *index) find(tool string, c *candidates) {
	c.add(x.every)
	c.add(x.exact[tool])
	for _, length := range x.lengths {
		if length > len(tool) {
			return
		}
		c.add(x.prefixes[tool[:length]])
	}
}

func (c *candidates) add(list []int32) {
	switch {
	case len(list) == 0:
	case c.n < fewLists:
		c.lists[c.n] = list
		c.n++
	default:
		c.more = append(c.more, list)
	}
}

// next is the number of the next rule, or -1.
func (c *candidates) next() int {
	least, from := int32(math.MaxInt32), (*[]int32)(nil)
	for i := range c.n {
		if list := &c.lists[i]; len(*list) > 0 && (*list)[0] < least {
			least, from = (*list)[0], list
		}
	}
	for i := range c.more {
		if list := &c.more[i]; len(*list) > 0 && (*list)[0] < least {
			least, from = (*list)[0], list
		}
	}
	if from == nil {
		return -1
	}
	*from = (*from)[1:]
	return int(least)
}
