package pattern

import (
	"unicode/utf16"
)

// parser reads a pattern's code units by ECMAScript's grammar without the flag
// u, Annex B included.
type parser struct {
	source []uint16
	pos    int
	depth  int
	groups int             // capturing groups in the whole pattern
	named  bool            // some of them have names
	names  map[string]bool // those met so far
	looks  []lookBody
}

// lookBody is what a lookaround looks for.
type lookBody struct {
	body           *node
	ahead, negated bool
}

// maxNesting bounds the groups inside each other, and so the stack.
const maxNesting = 200

func newParser(source string) *parser {
	p := &parser{source: utf16.Encode([]rune(source)), names: map[string]bool{}}
	p.countGroups()
	return p
}

// countGroups looks ahead: whether \2 is a back-reference depends on groups
// that may come later.
func (p *parser) countGroups() {
	inClass := false
	for i := 0; i < len(p.source); i++ {
		switch p.source[i] {
		case '\\':
			i++
		case '[':
			inClass = true
		case ']':
			inClass = false
		case '(':
			if inClass {
				continue
			}
			if !p.hasAt(i+1, "?") {
				p.groups++
			} else if p.hasAt(i+1, "?<") && !p.hasAt(i+1, "?<=") && !p.hasAt(i+1, "?<!") {
				p.groups++
				p.named = true
			}
		}
	}
}

func (p *parser) hasAt(at int, text string) bool {
	if at+len(text) > len(p.source) {
		return false
	}
	for i := range len(text) {
		if p.source[at+i] != uint16(text[i]) {
			return false
		}
	}
	return true
}

// take moves behind text if it is next.
func (p *parser) take(text string) bool {
	if !p.hasAt(p.pos, text) {
		return false
	}
	p.pos += len(text)
	return true
}

func (p *parser) end() bool { return p.pos >= len(p.source) }

func (p *parser) next() rune { return rune(p.source[p.pos]) }

func (p *parser) fail(message string) *Error { return &Error{Offset: p.pos, Message: message} }

func (p *parser) unsupported(message string) *Error {
	return &Error{Offset: p.pos, Unsupported: true, Message: message}
}

func (p *parser) parse() (*node, error) {
	n, err := p.disjunction()
	if err != nil {
		return nil, err
	}
	if !p.end() {
		return nil, p.fail("a closing parenthesis has no opening one") // nothing else ends a disjunction
	}
	return n, nil
}

func (p *parser) disjunction() (*node, *Error) {
	if p.depth++; p.depth > maxNesting {
		return nil, p.fail("too many groups are inside each other")
	}
	defer func() { p.depth-- }()
	var branches []*node
	for {
		n, err := p.alternative()
		if err != nil {
			return nil, err
		}
		branches = append(branches, n)
		if !p.take("|") {
			break
		}
	}
	if len(branches) == 1 {
		return branches[0], nil
	}
	return &node{op: opAlternate, subs: branches}, nil
}

func (p *parser) alternative() (*node, *Error) {
	var terms []*node
	for !p.end() && p.next() != '|' && p.next() != ')' {
		start := p.pos
		n, repeatable, err := p.term()
		if err != nil {
			return nil, err
		}
		least, most, quantified, err := p.quantifier()
		if err != nil {
			return nil, err
		}
		if quantified {
			if !repeatable {
				p.pos = start
				return nil, p.fail("there is nothing to repeat")
			}
			n = &node{op: opRepeat, subs: []*node{n}, min: least, max: most}
		}
		terms = append(terms, n)
	}
	switch len(terms) {
	case 0:
		return &node{op: opEmpty}, nil
	case 1:
		return terms[0], nil
	}
	return &node{op: opConcat, subs: terms}, nil
}

// term reads an assertion or an atom, and says whether it may be repeated.
func (p *parser) term() (*node, bool, *Error) {
	switch c := p.next(); c {
	case '^':
		p.pos++
		return &node{op: opBegin}, false, nil
	case '$':
		p.pos++
		return &node{op: opEnd}, false, nil
	case '(':
		return p.group()
	case '.':
		p.pos++
		return &node{op: opSet, set: lineEnds.complement()}, true, nil
	case '[':
		n, err := p.class()
		return n, true, err
	case '\\':
		return p.escapedTerm()
	case '*', '+', '?':
		return nil, false, p.fail("there is nothing to repeat")
	case '{':
		start := p.pos
		if _, _, quantified, _ := p.quantifier(); quantified {
			p.pos = start
			return nil, false, p.fail("there is nothing to repeat")
		}
		p.pos = start + 1
		return literal(c), true, nil
	default:
		p.pos++
		return literal(c), true, nil
	}
}

func literal(u rune) *node { return &node{op: opSet, set: single(u).folded()} }

// maxRepeat bounds the numbers in braces; it is more than any program may hold.
const maxRepeat = 1 << 20

// quantifier reads a quantifier if one is next. Whether it is lazy makes no
// difference to what is found.
func (p *parser) quantifier() (least, most int, found bool, err *Error) {
	start := p.pos
	switch {
	case p.take("*"):
		least, most = 0, unlimited
	case p.take("+"):
		least, most = 1, unlimited
	case p.take("?"):
		least, most = 0, 1
	case p.take("{"):
		var ok bool
		if least, ok = p.number(); !ok {
			p.pos = start
			return 0, 0, false, nil
		}
		most = least
		if p.take(",") {
			if most, ok = p.number(); !ok {
				most = unlimited
			}
		}
		if !p.take("}") {
			p.pos = start
			return 0, 0, false, nil
		}
		if most != unlimited && most < least {
			p.pos = start
			return 0, 0, true, p.fail("the numbers in braces are out of order")
		}
	default:
		return 0, 0, false, nil
	}
	p.take("?")
	return least, most, true, nil
}

func (p *parser) number() (int, bool) {
	start, n := p.pos, 0
	for ; !p.end() && '0' <= p.next() && p.next() <= '9'; p.pos++ {
		n = min(n*10+int(p.next()-'0'), maxRepeat)
	}
	return n, p.pos > start
}

func (p *parser) group() (*node, bool, *Error) {
	start := p.pos
	p.pos++ // (
	for _, l := range [...]struct {
		mark           string
		ahead, negated bool
	}{{"?=", true, false}, {"?!", true, true}, {"?<=", false, false}, {"?<!", false, true}} {
		if !p.take(l.mark) {
			continue
		}
		body, err := p.groupBody(start)
		if err != nil {
			return nil, false, err
		}
		p.looks = append(p.looks, lookBody{body: body, ahead: l.ahead, negated: l.negated})
		return &node{op: opLook, look: len(p.looks) - 1}, l.ahead, nil
	}
	switch {
	case p.take("?:"):
	case p.take("?<"):
		if err := p.groupName(); err != nil {
			return nil, false, err
		}
	case p.hasAt(p.pos, "?"):
		return nil, false, p.fail("a group begins with a question mark that means nothing")
	}
	n, err := p.groupBody(start)
	return n, true, err
}

func (p *parser) groupBody(start int) (*node, *Error) {
	n, err := p.disjunction()
	if err != nil {
		return nil, err
	}
	if !p.take(")") {
		p.pos = start
		return nil, p.fail("a group is not closed")
	}
	return n, nil
}

// groupName reads the name of a group up to its closing angle bracket.
func (p *parser) groupName() *Error {
	start := p.pos
	for ; !p.end() && p.next() != '>'; p.pos++ {
		c := p.next()
		digit := '0' <= c && c <= '9'
		if !digit && c != '$' && c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && c < 0x80 || digit && p.pos == start {
			return p.fail("a group has a name that is none")
		}
	}
	name := string(utf16.Decode(p.source[start:p.pos]))
	if !p.take(">") || name == "" {
		return p.fail("a group has a name that is none")
	}
	if p.names[name] {
		p.pos = start
		return p.fail("two groups have the same name")
	}
	p.names[name] = true
	return nil
}
