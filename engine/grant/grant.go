// Package grant says which calls are like one that somebody has seen: a Pattern
// is made from a call's arguments, loosened by hand where the grantor means to,
// and matched against those of later calls. It never guesses: what a pattern
// does not name does not match.
//
// A pattern is a list of matchers. Each names one leaf of the arguments by its
// JSON Pointer (RFC 6901) and says what may be there. A leaf is whatever holds
// nothing: a text, a number, true, false, null, an empty object or array.
//
//	equals     exactly Value, by the canonical form (RFC 8785)
//	one_of     one of the leaves in the array Value
//	at_most    a number up to Value; not below zero, unless Value is
//	at_least   a number from Value on; not above zero where Value is not
//	prefix     a text that begins with Value, see below
//	any        whatever it is, as long as it is a leaf
//
// Arguments match when their leaves are exactly those that matchers name, no
// more and no fewer, and every matcher holds. So a second matcher for a leaf
// only tightens, and one for another leaf is about other calls altogether.
// Pointers do not tell "/0" of an array from the member "0" of an object, so a
// pattern lists what is an array.
//
// A prefix compares the exact text, byte for byte, and knows nothing of paths or
// addresses: "https://example.com" also begins "https://example.community". End
// it where the part ends, such as at "/". What leads out of a prefix is refused:
// a rest with "..", "//", a segment ".", "\", "%", "@", a sign by which shells go on
// to something else, a blank that is no space, a character that nobody sees, or one
// that is drawn like another, also where prefix and rest make one together.
package grant

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine/canon"
	"holdpoint/engine/confusable"
)

// Op is what a matcher asks of a leaf.
type Op string

// The operations.
const (
	Equals  Op = "equals"
	OneOf   Op = "one_of"
	AtMost  Op = "at_most"
	AtLeast Op = "at_least"
	Prefix  Op = "prefix"
	Any     Op = "any"
)

// What bounds a pattern.
const (
	MaxMatchers = 500
	MaxChoices  = 100 // of one_of
	MinPrefix   = 3   // characters
)

// Matcher is a condition on one leaf.
type Matcher struct {
	Path  string // JSON Pointer into the arguments
	Op    Op
	Value canon.Value // null for any
}

// Pattern is a set of conditions, all of which hold for calls that are alike.
// The zero Pattern matches nothing.
type Pattern struct {
	Matchers []Matcher
	// Arrays lists the pointers of what is an array; everything else that holds
	// something is an object.
	Arrays []string
}

// Leaf is a value that holds nothing, and where it is.
type Leaf struct {
	Path  string
	Value canon.Value
}

// Leaves lists the leaves of arguments in document order, and the pointers of
// the arrays that hold something.
func Leaves(arguments canon.Value) (leaves []Leaf, arrays []string) {
	var walk func(path string, v canon.Value)
	walk = func(path string, v canon.Value) {
		switch {
		case v.Len() == 0:
			leaves = append(leaves, Leaf{path, v})
		case v.Kind() == canon.ArrayKind:
			arrays = append(arrays, path)
			for i, e := range v.Elements() {
				walk(path+"/"+strconv.Itoa(i), e)
			}
		default:
			for name, m := range v.All() {
				walk(path+"/"+escape.Replace(name), m)
			}
		}
	}
	walk("", arguments)
	return leaves, arrays
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// Match reports whether the arguments are what the pattern is about. A pattern
// that Check refuses matches nothing.
func (p Pattern) Match(arguments canon.Value) bool {
	if p.Check() != nil {
		return false
	}
	named := map[string][]Matcher{}
	for _, m := range p.Matchers {
		named[m.Path] = append(named[m.Path], m)
	}
	leaves, arrays := Leaves(arguments)
	if len(leaves) != len(named) || !sameSet(arrays, p.Arrays) {
		return false
	}
	for _, l := range leaves {
		matchers := named[l.Path]
		if len(matchers) == 0 {
			return false
		}
		for _, m := range matchers {
			if !m.holds(l.Value) {
				return false
			}
		}
	}
	return true
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func (m Matcher) holds(v canon.Value) bool {
	switch m.Op {
	case Equals:
		return equal(v, m.Value)
	case OneOf:
		for _, choice := range m.Value.Elements() {
			if equal(v, choice) {
				return true
			}
		}
		return false
	case AtMost:
		bound := m.Value.Float()
		return v.Kind() == canon.NumberKind && v.Float() <= bound && (v.Float() >= 0 || bound < 0)
	case AtLeast:
		bound := m.Value.Float()
		return v.Kind() == canon.NumberKind && v.Float() >= bound && (v.Float() <= 0 || bound > 0)
	case Prefix:
		return v.Kind() == canon.StringKind && begins(v.Str(), m.Value.Str())
	case Any:
		return v.Len() == 0
	}
	return false
}

func equal(a, b canon.Value) bool {
	return a.Kind() == b.Kind() && bytes.Equal(a.Canonical(), b.Canonical())
}

// begins reports whether text is prefix and a rest that does not lead out of it.
func begins(text, prefix string) bool {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok || strings.ContainsAny(rest, "\\%@;|&<>`$") || strings.ContainsFunc(rest, unseen) {
		return false
	}
	for _, drawn := range confusable.Lookalikes(text) {
		if drawn.To > len(prefix) {
			return false
		}
	}
	if first, _ := utf8.DecodeRuneInString(rest); unicode.Is(unicode.M, first) {
		return false // it would change the prefix's last letter
	}
	// With the last byte of the prefix: two dots may lie across the border.
	across := text[len(prefix)-1:]
	return !strings.Contains(across, "..") && !strings.Contains(across, "//") && !strings.Contains(across+"/", "/./")
}

func unseen(c rune) bool {
	return c != ' ' && unicode.IsSpace(c) || unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Other_Default_Ignorable_Code_Point)
}

// Check says what is wrong with a pattern, each mistake with its place in the
// pattern's document and without any value; nil for nothing.
func (p Pattern) Check() error {
	var wrong []error
	if n := len(p.Matchers); n == 0 || n > MaxMatchers {
		wrong = append(wrong, fmt.Errorf("/matchers: there have to be 1 to %d matchers", MaxMatchers))
	}
	free := true
	for i, m := range p.Matchers {
		at := "/matchers/" + strconv.Itoa(i)
		if !pointer(m.Path) {
			wrong = append(wrong, fmt.Errorf("%s/path: it is not a JSON Pointer", at))
		}
		if why := m.check(); why != "" {
			wrong = append(wrong, fmt.Errorf("%s/%s", at, why))
		}
		free = free && m.Op == Any
	}
	if len(p.Matchers) > 0 && free {
		wrong = append(wrong, errors.New("/matchers: one of them at least has to be other than any"))
	}
	for i, path := range p.Arrays {
		if at := "/arrays/" + strconv.Itoa(i); !pointer(path) {
			wrong = append(wrong, fmt.Errorf("%s: it is not a JSON Pointer", at))
		} else if slices.Index(p.Arrays, path) < i {
			wrong = append(wrong, fmt.Errorf("%s: it is there twice", at))
		}
	}
	return errors.Join(wrong...)
}

// check names what is wrong with the operation or its value; "" for nothing.
func (m Matcher) check() string {
	switch m.Op {
	case Equals:
		if m.Value.Len() > 0 {
			return "value: equals takes one value that holds nothing"
		}
	case OneOf:
		if n := m.Value.Len(); m.Value.Kind() != canon.ArrayKind || n == 0 || n > MaxChoices {
			return fmt.Sprintf("value: one_of takes an array of 1 to %d values", MaxChoices)
		}
		for i, choice := range m.Value.Elements() {
			if choice.Len() > 0 {
				return fmt.Sprintf("value/%d: one_of takes values that hold nothing", i)
			}
		}
	case AtMost, AtLeast:
		if m.Value.Kind() != canon.NumberKind {
			return fmt.Sprintf("value: %s takes a number", m.Op)
		}
	case Prefix:
		if m.Value.Kind() != canon.StringKind || utf8.RuneCountInString(m.Value.Str()) < MinPrefix {
			return fmt.Sprintf("value: prefix takes a text of %d characters or more", MinPrefix)
		}
	case Any:
		if !m.Value.IsNull() {
			return "value: any takes none"
		}
	default:
		return "op: it has to be equals, one_of, at_most, at_least, prefix or any"
	}
	return ""
}

// pointer reports whether path is a JSON Pointer.
func pointer(path string) bool {
	if path != "" && path[0] != '/' {
		return false
	}
	for rest := path; ; {
		i := strings.IndexByte(rest, '~')
		if i < 0 {
			return utf8.ValidString(path) && !strings.ContainsRune(path, 0)
		}
		if i+1 == len(rest) || rest[i+1] != '0' && rest[i+1] != '1' {
			return false
		}
		rest = rest[i+2:]
	}
}
