package pattern

// escapedTerm reads what begins with a backslash outside of a class.
func (p *parser) escapedTerm() (*node, bool, *Error) {
	start := p.pos
	p.pos++
	if p.end() {
		return nil, false, p.fail("the pattern ends with a backslash")
	}
	switch c := p.next(); {
	case c == 'b':
		p.pos++
		return &node{op: opBoundary}, false, nil
	case c == 'B':
		p.pos++
		return &node{op: opNoBoundary}, false, nil
	case '1' <= c && c <= '9':
		if number, _ := p.number(); number <= p.groups {
			p.pos = start
			return nil, false, p.unsupported("back-references are not supported")
		}
		p.pos = start + 1
	case c == 'k' && p.named:
		p.pos = start
		return nil, false, p.unsupported("back-references are not supported")
	}
	p.pos = start
	s, _, _ := p.escape(false)
	return &node{op: opSet, set: s.folded()}, true, nil
}

// escape reads an escape, from its backslash on, that stands for a unit or a
// set of units, and says whether it is a single one. There is a unit behind
// the backslash.
func (p *parser) escape(inClass bool) (s set, unit rune, isUnit bool) {
	p.pos++
	c := p.next()
	p.pos++
	switch c {
	case 'd':
		return digits, 0, false
	case 'D':
		return digits.complement(), 0, false
	case 's':
		return spaces, 0, false
	case 'S':
		return spaces.complement(), 0, false
	case 'w':
		return wordUnits, 0, false
	case 'W':
		return wordUnits.complement(), 0, false
	case 'b': // in a class only
		unit = '\b'
	case 'f':
		unit = '\f'
	case 'n':
		unit = '\n'
	case 'r':
		unit = '\r'
	case 't':
		unit = '\t'
	case 'v':
		unit = '\v'
	case 'c':
		unit = p.controlLetter(inClass)
	case 'x':
		unit = p.hex(2, c)
	case 'u':
		unit = p.hex(4, c)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		p.pos--
		unit = p.octal()
	default:
		unit = c
	}
	return single(unit), unit, true
}

// controlLetter reads what is behind \c. Where that is no letter, the
// backslash stands for itself and the c is read again.
func (p *parser) controlLetter(inClass bool) rune {
	if !p.end() {
		c := p.next()
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' && c < 0x80
		if letter || inClass && ('0' <= c && c <= '9' || c == '_') {
			p.pos++
			return c % 32
		}
	}
	p.pos--
	return '\\'
}

// hex reads exactly n hex digits; without them the letter stands for itself.
func (p *parser) hex(n int, letter rune) rune {
	if p.pos+n > len(p.source) {
		return letter
	}
	var unit rune
	for _, c := range p.source[p.pos : p.pos+n] {
		var digit uint16
		switch {
		case '0' <= c && c <= '9':
			digit = c - '0'
		case 'a' <= c && c <= 'f':
			digit = c - 'a' + 10
		case 'A' <= c && c <= 'F':
			digit = c - 'A' + 10
		default:
			return letter
		}
		unit = unit<<4 | rune(digit)
	}
	p.pos += n
	return unit
}

// octal reads up to three octal digits that stand for at most 0o377.
func (p *parser) octal() rune {
	var unit rune
	for range 3 {
		if p.end() || p.next() < '0' || p.next() > '7' || unit*8+p.next()-'0' > 0o377 {
			break
		}
		unit = unit*8 + p.next() - '0'
		p.pos++
	}
	return unit
}

// class reads a class in brackets.
func (p *parser) class() (*node, *Error) {
	start := p.pos
	p.pos++ // [
	negated := p.take("^")
	var all set
	for {
		if p.end() {
			p.pos = start
			return nil, p.fail("a class is not closed")
		}
		if p.take("]") {
			break
		}
		at := p.pos
		first, lo, loUnit, err := p.classAtom(start)
		if err != nil {
			return nil, err
		}
		if !p.hasAt(p.pos, "-") || p.hasAt(p.pos, "-]") {
			all = append(all, first...)
			continue
		}
		p.pos++
		last, hi, hiUnit, err := p.classAtom(start)
		if err != nil {
			return nil, err
		}
		switch {
		case !loUnit || !hiUnit: // the dash stands for itself
			all = append(append(append(all, first...), last...), span{'-', '-'})
		case lo > hi:
			p.pos = at
			return nil, p.fail("a range in a class is out of order")
		default:
			all = append(all, span{lo, hi})
		}
	}
	all = all.folded()
	if negated {
		all = all.complement()
	}
	return &node{op: opSet, set: all}, nil
}

func (p *parser) classAtom(start int) (set, rune, bool, *Error) {
	if p.end() || p.next() == '\\' && p.pos+1 >= len(p.source) {
		p.pos = start
		return nil, 0, false, p.fail("a class is not closed")
	}
	if c := p.next(); c != '\\' {
		p.pos++
		return single(c), c, true, nil
	}
	s, unit, isUnit := p.escape(true)
	return s, unit, isUnit, nil
}
