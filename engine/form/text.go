package form

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

// longText is the length from which a text gets several lines, in bytes.
const longText = 120

// shape is the control that can show the current value and give it back.
func (p *place) shape() Kind {
	n := p.node
	if !p.there || n.nullable && p.current.IsNull() {
		return n.kind
	}
	fits := false
	switch n.kind {
	case Text, LongText:
		s := p.current.Str()
		if p.current.Kind() == canon.StringKind && plain(s) {
			if len(s) > longText || strings.Contains(s, "\n") {
				return LongText
			}
			return n.kind
		}
	case Integer:
		fits = p.current.Kind() == canon.NumberKind && p.current.Float() == math.Trunc(p.current.Float())
	case Number:
		fits = p.current.Kind() == canon.NumberKind
	case Boolean:
		fits = p.current.Kind() == canon.BoolKind
	case Choice:
		fits = n.chosen(p.current) >= 0
	case JSON:
	}
	if fits {
		return n.kind
	}
	return JSON
}

// text is the current value in the field's control.
func (p *place) text() string {
	switch {
	case !p.there, p.kind != JSON && p.current.IsNull():
		return ""
	case p.kind == Text, p.kind == LongText:
		return p.current.Str()
	case p.kind == Choice:
		return p.node.choices[p.node.chosen(p.current)].text
	}
	return string(p.current.Canonical())
}

func (n *node) chosen(v canon.Value) int {
	return slices.IndexFunc(n.choices, func(c choice) bool { return same(c.value, v) })
}

func same(a, b canon.Value) bool {
	return a.Kind() == b.Kind() && string(a.Canonical()) == string(b.Canonical())
}

// plain reports whether a text comes back from a browser's form as it was: it
// has no control characters but tab and LF, and does not begin with a LF, which
// HTML drops.
func plain(s string) bool {
	for _, r := range s {
		if r < ' ' && r != '\n' && r != '\t' {
			return false
		}
	}
	return !strings.HasPrefix(s, "\n")
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// errMissing is what is wrong with an empty text that stands for nothing.
var errMissing = errors.New("is required")

// read is the value that a posted text stands for; false for none. An error's
// text is a clause, and holds nothing of the text.
func (p *place) read(posted []string) (canon.Value, bool, error) {
	if len(posted) > 1 && p.kind != Boolean {
		return canon.Value{}, false, errors.New("was sent more than once")
	}
	text := ""
	if len(posted) > 0 {
		text = posted[len(posted)-1]
	}
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return canon.Value{}, false, errors.New("holds a NUL or is not valid UTF-8")
	}
	switch p.kind {
	case Text, LongText:
		text = lineEnds.Replace(text)
	case Integer, Number, Boolean, JSON:
		text = strings.TrimSpace(text)
	case Choice:
	}
	if text == p.text() && p.there {
		return p.current, true, nil
	}
	if text == "" {
		switch {
		case !p.required:
			return canon.Value{}, false, nil
		case p.node.nullable:
			return canon.Null(), true, nil
		}
		return canon.Value{}, false, errMissing
	}
	v, err := p.parse(text)
	return v, err == nil, err
}

func (p *place) parse(text string) (canon.Value, error) {
	switch p.kind {
	case Text, LongText:
		return canon.String(text), nil
	case Boolean:
		if text == "true" || text == "false" {
			return canon.Bool(text == "true"), nil
		}
		return canon.Value{}, errors.New("is neither true nor false")
	case Choice:
		for _, c := range p.node.choices {
			if c.text == text {
				return c.value, nil
			}
		}
		return canon.Value{}, errors.New("is not one of the choices")
	case Integer, Number:
		return p.number(text)
	case JSON:
	}
	v, err := canon.Parse([]byte(text))
	var syntax *canon.SyntaxError
	if errors.As(err, &syntax) {
		return canon.Value{}, errors.New("is not JSON that can be kept: " + syntax.Message + ", at byte " + strconv.Itoa(syntax.Offset))
	}
	return v, err
}

func (p *place) number(text string) (canon.Value, error) {
	v, err := canon.Parse([]byte(text))
	var syntax *canon.SyntaxError
	if errors.As(err, &syntax) && syntax.Code == canon.NotExact {
		return canon.Value{}, errors.New("has more digits than can be kept, or is too large or too small")
	}
	if err != nil || v.Kind() != canon.NumberKind {
		return canon.Value{}, errors.New("is not a number like 12 or 0.5")
	}
	if p.kind == Integer && v.Float() != math.Trunc(v.Float()) {
		return canon.Value{}, errors.New("is not a whole number")
	}
	return v, nil
}
