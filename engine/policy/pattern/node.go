package pattern

import (
	"strconv"
	"strings"
)

// op is the sort of a node.
type op uint8

const (
	opEmpty op = iota
	opSet
	opConcat
	opAlternate
	opRepeat
	opBegin
	opEnd
	opBoundary
	opNoBoundary
	opLook
)

// unlimited is the max of a repetition that has none.
const unlimited = -1

// node is one part of a pattern.
type node struct {
	op       op
	set      set // normal and folded
	subs     []*node
	min, max int // of a repetition
	look     int // number of a lookaround
}

// size is about the number of instructions that the node becomes. It stops
// counting at twice MaxSize.
func (n *node) size() int {
	total := 1
	for _, s := range n.subs {
		total = min(total+s.size(), 2*MaxSize)
	}
	if n.op == opRepeat {
		times := n.max
		if n.max == unlimited {
			times = n.min + 1
		}
		total = min(total*max(times, 1), 2*MaxSize)
	}
	return total
}

// text writes the node in the syntax of Go's regexp. A backward one matches
// the reverse of what the node matches.
func (n *node) text(backward bool) string {
	var b strings.Builder
	n.write(&b, backward)
	return b.String()
}

func (n *node) write(b *strings.Builder, backward bool) {
	switch n.op {
	case opEmpty:
		b.WriteString("(?:)")
	case opSet:
		n.set.write(b)
	case opConcat:
		for i := range n.subs {
			if backward {
				i = len(n.subs) - 1 - i
			}
			n.subs[i].write(b, backward)
		}
	case opAlternate:
		b.WriteString("(?:")
		for i, s := range n.subs {
			if i > 0 {
				b.WriteByte('|')
			}
			s.write(b, backward)
		}
		b.WriteByte(')')
	case opRepeat:
		b.WriteString("(?:")
		n.subs[0].write(b, backward)
		b.WriteByte(')')
		b.WriteString(n.quantifier())
	case opBegin, opEnd:
		if (n.op == opBegin) != backward {
			b.WriteString(`\A`)
		} else {
			b.WriteString(`\z`)
		}
	case opBoundary:
		b.WriteString(`\b`)
	case opNoBoundary:
		b.WriteString(`\B`)
	case opLook:
		b.WriteString("(?P<" + lookName + strconv.Itoa(n.look) + ">)")
	}
}

func (n *node) quantifier() string {
	switch {
	case n.max == unlimited && n.min == 0:
		return "*"
	case n.max == unlimited && n.min == 1:
		return "+"
	case n.max == unlimited:
		return "{" + strconv.Itoa(n.min) + ",}"
	case n.min == 0 && n.max == 1:
		return "?"
	}
	return "{" + strconv.Itoa(n.min) + "," + strconv.Itoa(n.max) + "}"
}

func (s set) write(b *strings.Builder) {
	if len(s) == 0 {
		b.WriteString(`[^\x00-\x{10FFFF}]`)
		return
	}
	b.WriteByte('[')
	for _, r := range s {
		// The surrogates are elsewhere (see units).
		if r.lo < firstSurrogate {
			writeSpan(b, r.lo, min(r.hi, firstSurrogate-1))
		}
		if lo, hi := max(r.lo, firstSurrogate), min(r.hi, lastSurrogate); lo <= hi {
			writeSpan(b, lo-firstSurrogate+surrogatePlane, hi-firstSurrogate+surrogatePlane)
		}
		if r.hi > lastSurrogate {
			writeSpan(b, max(r.lo, lastSurrogate+1), r.hi)
		}
	}
	b.WriteByte(']')
}

func writeSpan(b *strings.Builder, lo, hi rune) {
	b.WriteString(`\x{` + strconv.FormatInt(int64(lo), 16) + "}")
	if hi > lo {
		b.WriteString(`-\x{` + strconv.FormatInt(int64(hi), 16) + "}")
	}
}
