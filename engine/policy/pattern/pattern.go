// Package pattern is JavaScript's regular expressions, with the flag i and no
// other, on an engine whose time is linear in the text. A pattern is read by
// ECMAScript's grammar (the forgiving one of Annex B, which browsers and Node
// use) and becomes a program for Go's regexp; lookahead and lookbehind, which
// that does not have, are tables of the positions at which they hold, filled
// by one pass over the text each. The package answers whether a pattern is
// found, never where; it has no back-references, which no linear engine can
// have; it keeps no state and does no I/O.
//
// It works on UTF-16 code units, as JavaScript does: "." is half of a character
// beyond U+FFFF. Two letters are the same if JavaScript's toUpperCase makes
// them so, one unit by one, never across the border of ASCII: K and the Kelvin
// sign are two letters, sigma and final sigma are one.
package pattern

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxSize is the largest number of instructions of a pattern's programs. It is
// inclusive. 512 plain characters fit.
const MaxSize = 1000

// Error says why a pattern was refused.
type Error struct {
	// Offset is the place in the pattern, in UTF-16 code units from 0.
	Offset int
	// Unsupported is set for what JavaScript has and this package has not.
	Unsupported bool
	// TooLarge is set for a program of more than MaxSize instructions.
	TooLarge bool
	// Message is one clause for a person.
	Message string
}

// Error is the message with its place.
func (e *Error) Error() string { return fmt.Sprintf("%s (at character %d)", e.Message, e.Offset+1) }

// Pattern is a compiled pattern. It never changes and may be used by any
// number of callers at once.
type Pattern struct {
	size  int
	fast  *regexp.Regexp // set if there is no lookaround
	main  *prog          // set otherwise
	looks []look         // inner ones before outer ones
}

// look is one lookahead or lookbehind.
type look struct {
	prog    *prog
	ahead   bool // prog runs from the end of the text to its beginning
	negated bool
}

// Compile reads a pattern. Errors are *Error.
func Compile(source string) (*Pattern, error) {
	p := newParser(source)
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	size := root.size()
	for _, l := range p.looks {
		size = min(size+l.body.size(), 2*MaxSize)
	}
	tooLarge := &Error{TooLarge: true, Message: fmt.Sprintf("the pattern needs more than %d instructions", MaxSize)}
	if size > MaxSize {
		return nil, tooLarge
	}
	compiled := &Pattern{}
	if len(p.looks) == 0 {
		text := root.text(false)
		p, err := program(text)
		if err != nil {
			return nil, err
		}
		compiled.size = len(p.Inst)
		if compiled.fast, err = regexp.Compile(text); err != nil {
			return nil, &Error{Message: err.Error()} // unreachable: program has compiled it
		}
	} else {
		if compiled.main, err = program(root.text(false)); err != nil {
			return nil, err
		}
		compiled.size = len(compiled.main.Inst)
		for _, l := range p.looks {
			p, err := program(l.body.text(l.ahead))
			if err != nil {
				return nil, err
			}
			compiled.size += len(p.Inst)
			compiled.looks = append(compiled.looks, look{prog: p, ahead: l.ahead, negated: l.negated})
		}
	}
	if compiled.size > MaxSize {
		return nil, tooLarge
	}
	return compiled, nil
}

// Size is the number of instructions. Match takes time in the order of
// Size() × len(text) at most.
func (p *Pattern) Size() int { return p.size }

// Match reports whether the pattern is found anywhere in text, which has to be
// valid UTF-8.
func (p *Pattern) Match(text string) bool {
	text = units(text)
	if p.fast != nil {
		return p.fast.MatchString(text)
	}
	return p.search([]rune(text))
}

// The characters beyond U+FFFF are two units each in JavaScript. A unit of such
// a pair is written as a character of plane 16, which cannot be in the way: as
// a character beyond U+FFFF it would itself be a pair.
const (
	firstSurrogate = 0xD800
	lastSurrogate  = 0xDFFF
	surrogatePlane = 0x100000
)

// units spells the characters beyond U+FFFF as pairs.
func units(text string) string {
	first := -1
	for i := 0; i < len(text); i++ {
		if text[i] >= 0xF0 {
			first = i
			break
		}
	}
	if first < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + len(text)/4)
	b.WriteString(text[:first])
	for _, r := range text[first:] {
		if r <= 0xFFFF {
			b.WriteRune(r)
			continue
		}
		r -= 0x10000
		b.WriteRune(surrogatePlane + r>>10)
		b.WriteRune(surrogatePlane + 0x400 + r&0x3FF)
	}
	return b.String()
}

// Length is the number of a text's UTF-16 code units.
func Length(text string) int {
	n := utf8.RuneCountInString(text)
	for i := 0; i < len(text); i++ {
		if text[i] >= 0xF0 {
			n++
		}
	}
	return n
}
