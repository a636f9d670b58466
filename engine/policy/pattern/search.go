package pattern

import (
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// lookName begins the name of the empty group that stands for a lookaround in
// a program; its number follows.
const lookName = "L"

// prog is a program whose groups stand for lookarounds.
type prog struct {
	*syntax.Prog
	looks []int // by number of the group
}

// program compiles what node.text wrote.
func program(text string) (*prog, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, &Error{TooLarge: true, Message: "the pattern repeats too much for the engine"}
	}
	p := &prog{}
	for _, name := range parsed.CapNames() {
		number, err := strconv.Atoi(strings.TrimPrefix(name, lookName))
		if err != nil {
			number = -1 // the whole match, which is no group of ours
		}
		p.looks = append(p.looks, number)
	}
	if p.Prog, err = syntax.Compile(parsed.Simplify()); err != nil {
		return nil, &Error{TooLarge: true, Message: "the pattern is too large for the engine"}
	}
	return p, nil
}

// search runs a pattern with lookarounds over the units of a text.
func (p *Pattern) search(text []rune) bool {
	backward := slices.Clone(text)
	slices.Reverse(backward)
	m := machine{holds: make([][]bool, len(p.looks))}
	for i, l := range p.looks {
		direction := text
		if l.ahead {
			direction = backward
		}
		holds := m.run(l.prog, direction, l.ahead, false)
		if l.ahead {
			slices.Reverse(holds)
		}
		if l.negated {
			for at := range holds {
				holds[at] = !holds[at]
			}
		}
		m.holds[i] = holds
	}
	ends := m.run(p.main, text, false, true)
	return ends[len(ends)-1]
}

// machine simulates programs on all their states at once.
type machine struct {
	holds [][]bool // for each lookaround before the current one, whether it holds at each position
	now   threads
	next  threads
	stack []uint32
}

// threads is a set of instructions, to be emptied in no time.
type threads struct {
	dense  []uint32
	sparse []uint32
}

func (t *threads) reset(n int) {
	if len(t.sparse) < n {
		t.sparse = make([]uint32, n)
	}
	t.dense = t.dense[:0]
}

func (t *threads) add(pc uint32) bool {
	if i := t.sparse[pc]; int(i) < len(t.dense) && t.dense[i] == pc {
		return false
	}
	t.sparse[pc] = uint32(len(t.dense)) //nolint:gosec // at most MaxSize
	t.dense = append(t.dense, pc)
	return true
}

// run returns for each position, from 0 to len(text), whether a match ends
// there, wherever it began; with once it stops at the first and returns the
// last element true. A backward text is the reverse of the real one, and its
// positions are counted from the real end.
func (m *machine) run(prog *prog, text []rune, backward, once bool) []bool {
	n := len(text)
	ends := make([]bool, n+1)
	m.now.reset(len(prog.Inst))
	for at := 0; ; at++ {
		before, after := rune(-1), rune(-1)
		if at > 0 {
			before = text[at-1]
		}
		if at < n {
			after = text[at]
		}
		m.next.reset(len(prog.Inst))
		place := at
		if backward {
			place = n - at
		}
		flags := syntax.EmptyOpContext(before, after)
		// The threads that wait at this position, and a new one that begins here.
		m.follow(prog, uint32(prog.Start), flags, place) //nolint:gosec // at most MaxSize
		for _, pc := range m.now.dense {
			m.follow(prog, pc, flags, place)
		}
		m.now.reset(len(prog.Inst))
		for _, pc := range m.next.dense {
			inst := &prog.Inst[pc]
			switch inst.Op {
			case syntax.InstMatch:
				ends[at] = true
			case syntax.InstRune, syntax.InstRune1:
				if at < n && inst.MatchRune(after) {
					m.now.add(inst.Out)
				}
			case syntax.InstRuneAny:
				if at < n {
					m.now.add(inst.Out)
				}
			case syntax.InstRuneAnyNotNL:
				if at < n && after != '\n' {
					m.now.add(inst.Out)
				}
			default: // the others were followed
			}
		}
		if once && ends[at] {
			ends[n] = true
			return ends
		}
		if at == n {
			return ends
		}
	}
}

// follow adds to next what can be reached from pc without reading anything.
func (m *machine) follow(prog *prog, pc uint32, flags syntax.EmptyOp, place int) {
	m.stack = append(m.stack[:0], pc)
	for len(m.stack) > 0 {
		pc := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		if !m.next.add(pc) {
			continue
		}
		inst := &prog.Inst[pc]
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			m.stack = append(m.stack, inst.Out, inst.Arg)
		case syntax.InstNop:
			m.stack = append(m.stack, inst.Out)
		case syntax.InstCapture:
			if inst.Arg%2 == 1 || m.holds[prog.looks[inst.Arg/2]][place] {
				m.stack = append(m.stack, inst.Out)
			}
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^flags == 0 { //nolint:gosec // the flags fit
				m.stack = append(m.stack, inst.Out)
			}
		default: // it reads, matches or fails
		}
	}
}
