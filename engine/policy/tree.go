package policy

import (
	"errors"
	"strconv"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

// place is where a value of a document begins, and where what it holds does:
// kids in the order of the value's elements or members, keys beside them for
// an object. A nil place is unknown.
type place struct {
	line, column int
	keys         []position
	kids         []*place
}

// position is a line and a column, in characters, from 1.
type position struct{ line, column int }

// node is a value with its path and place.
type node struct {
	value canon.Value
	path  string
	at    *place
}

// members walks through an object with the place of each key.
func (n node) members(visit func(name string, key position, m node)) {
	i := 0
	for name, v := range n.value.All() {
		m := node{value: v, path: pointer(n.path, name)}
		var key position
		if n.at != nil && i < len(n.at.kids) {
			m.at, key = n.at.kids[i], n.at.keys[i]
		}
		visit(name, key, m)
		i++
	}
}

// get is the object's member of this name.
func (n node) get(name string) (node, bool) {
	i := 0
	for other, v := range n.value.All() {
		if other == name {
			m := node{value: v, path: pointer(n.path, name)}
			if n.at != nil && i < len(n.at.kids) {
				m.at = n.at.kids[i]
			}
			return m, true
		}
		i++
	}
	return node{path: n.path, at: n.at}, false
}

// element is the array's element i.
func (n node) element(i int) node {
	e := node{value: n.value.At(i), path: n.path + "/" + strconv.Itoa(i)}
	if n.at != nil && i < len(n.at.kids) {
		e.at = n.at.kids[i]
	}
	return e
}

func (n node) position() position {
	if n.at == nil {
		return position{}
	}
	return position{n.at.line, n.at.column}
}

// readJSON reads a bundle from JSON with its places.
func readJSON(data []byte, r *reporter) (canon.Value, *place, bool) {
	v, err := canon.Parse(data)
	if err == nil {
		s := scanner{text: data, line: 1}
		return v, s.value(), true
	}
	p := Problem{Code: "syntax", Message: err.Error(), Line: 1, Column: 1}
	var syntax *canon.SyntaxError
	if errors.As(err, &syntax) {
		s := scanner{text: data, line: 1}
		for s.pos < min(syntax.Offset, len(data)) {
			s.step()
		}
		p.Path, p.Code, p.Message = syntax.Path, syntax.Code, syntax.Message
		p.Line, p.Column = s.line, s.column()
		p.Hint = syntaxHints[syntax.Code]
	}
	r.add(p)
	return canon.Value{}, nil, false
}

// syntaxHints says what to do about canon's errors.
var syntaxHints = map[string]string{
	canon.DuplicateKey:   "remove one of them",
	canon.CaseVariantKey: "names that differ only by case are taken for mistakes",
	canon.NotExact:       "write it with fewer digits, or as a string",
	canon.ByteOrderMark:  "save the file as UTF-8 without a mark",
	canon.InvalidUTF8:    "save the file as UTF-8",
}

// scanner finds the places in a JSON document that canon.Parse has accepted.
type scanner struct {
	text []byte
	pos  int
	line int
	// begin is where the line begins; wide is the number of bytes since then
	// that only continue a character.
	begin, wide int
}

func (s *scanner) column() int { return s.pos - s.begin - s.wide + 1 }

func (s *scanner) step() {
	switch c := s.text[s.pos]; {
	case c == '\n':
		s.line++
		s.begin, s.wide = s.pos+1, 0
	case !utf8.RuneStart(c):
		s.wide++
	}
	s.pos++
}

// space moves to the next byte that means something.
func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.step()
		default:
			return
		}
	}
}

// value moves behind the next value and returns its places.
func (s *scanner) value() *place {
	s.space()
	at := &place{line: s.line, column: s.column()}
	switch s.text[s.pos] {
	case '{':
		for s.step(); ; {
			s.space()
			if s.text[s.pos] == '}' {
				s.step()
				return at
			}
			at.keys = append(at.keys, position{s.line, s.column()})
			s.str()
			at.kids = append(at.kids, s.value())
		}
	case '[':
		for s.step(); ; {
			s.space()
			if s.text[s.pos] == ']' {
				s.step()
				return at
			}
			at.kids = append(at.kids, s.value())
		}
	case '"':
		s.str()
	default:
		for s.pos < len(s.text) && !isDelimiter(s.text[s.pos]) {
			s.step()
		}
	}
	return at
}

func isDelimiter(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ',', ':', ']', '}':
		return true
	}
	return false
}

// str moves behind a string.
func (s *scanner) str() {
	for s.step(); s.text[s.pos] != '"'; s.step() {
		if s.text[s.pos] == '\\' {
			s.step()
		}
	}
	s.step()
}
