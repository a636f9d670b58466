package source

import (
	"errors"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

// json reads a document with its places.
func (r *reader) json(data []byte) Node {
	s := scanner{text: data, line: 1}
	v, err := canon.Parse(data)
	if err == nil {
		at := s.value()
		return Node{Value: v, at: &at}
	}
	var syntax *canon.SyntaxError
	if !errors.As(err, &syntax) {
		syntax = &canon.SyntaxError{Code: canon.Syntax, Message: err.Error()}
	}
	for s.pos < min(syntax.Offset, len(data)) {
		s.step()
	}
	r.fail(s.position(), syntax.Path, syntax.Code, syntax.Message, hints[syntax.Code])
	return Node{}
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

func (s *scanner) position() Position { return Position{s.line, s.pos - s.begin - s.wide + 1} }

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
func (s *scanner) value() place {
	s.space()
	at := place{Position: s.position()}
	switch s.text[s.pos] {
	case '{':
		for s.step(); ; {
			s.space()
			if s.text[s.pos] == '}' {
				s.step()
				return at
			}
			at.keys = append(at.keys, s.position())
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
		for !isDelimiter(s.text[s.pos]) {
			s.step()
		}
	}
	return at
}

// isDelimiter reports whether a number or word ends before c. One always does:
// the document is an object.
func isDelimiter(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ',', ']', '}':
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
