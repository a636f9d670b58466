// Package source reads the YAML files that people write into the values that
// the rest of the engine works with, and remembers where each of them stands.
// It takes of YAML what JSON can say, in one way only, and returns every
// mistake that it finds with its line and column. It knows nothing of what a
// file is for, and never reads one itself.
//
//	text ─ Read ─→ Node ─ Get, Element, Members → Node …
//	           └─→ Problems: file:line:column
//
// Refused are duplicate keys and such that differ only by case, anchors,
// aliases, merge keys, tags, directives, a second document, keys that are not
// text, words that older YAML takes for booleans, and numbers that JSON writes
// otherwise or that a float64 would change. JSON is YAML, too.
package source

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine/canon"
)

const (
	// MaxBytes is the size of the largest file.
	MaxBytes = canon.MaxBytes
	// MaxDepth is how many lists and mappings may be inside each other.
	MaxDepth = 32
)

// Problem is one mistake in a file.
type Problem struct {
	File string `json:"file,omitempty"`
	// Line and Column are counted from 1, in characters; 0 is unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path is the JSON pointer (RFC 6901) to the value.
	Path string `json:"path,omitempty"`
	// Message says what is wrong, Hint what to do about it; Hint may be "".
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// String is the problem as compilers write it: file:line:column: message (hint).
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
	}
	if p.Line > 0 {
		b.WriteString(strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column) + ":")
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// place is where a value begins: kids in the order of its elements or members,
// keys beside them for an object.
type place struct {
	line, column int
	keys         []*place
	kids         []*place
}

// Node is a value with its place in the file. The zero Node is null, nowhere.
type Node struct {
	Value canon.Value
	// Path is the JSON pointer to the value; "" is the whole file.
	Path string
	at   *place
}

// Of is a Node for a value that came from no file: it has no place.
func Of(v canon.Value) Node { return Node{Value: v} }

// Get is the object's member of this name.
func (n Node) Get(name string) (Node, bool) {
	for m := range n.Members() {
		if m.Name == name {
			return m.Node, true
		}
	}
	return Node{}, false
}

// Element is the array's element i, from 0. It panics if there is none.
func (n Node) Element(i int) Node {
	e := Node{Value: n.Value.At(i), Path: n.Path + "/" + strconv.Itoa(i)}
	if n.at != nil {
		e.at = n.at.kids[i]
	}
	return e
}

// Member is one member of an object.
type Member struct {
	Node
	Name string
	key  *place
}

// Members walks through the object in the order of the file.
func (n Node) Members() func(yield func(Member) bool) {
	return func(yield func(Member) bool) {
		i := 0
		for name, v := range n.Value.All() {
			m := Member{Name: name, Node: Node{Value: v, Path: n.Path + "/" + pointer(name)}}
			if n.at != nil {
				m.at, m.key = n.at.kids[i], n.at.keys[i]
			}
			if !yield(m) {
				return
			}
			i++
		}
	}
}

// Problem is a mistake at the node.
func (n Node) Problem(message, hint string) Problem { return n.at.problem(n.Path, message, hint) }

// KeyProblem is a mistake in the member's name.
func (m Member) KeyProblem(message, hint string) Problem { return m.key.problem(m.Path, message, hint) }

func (p *place) problem(path, message, hint string) Problem {
	out := Problem{Path: path, Message: message, Hint: hint}
	if p != nil {
		out.Line, out.Column = p.line, p.column
	}
	return out
}

// Sort puts problems into the order of the file, and names it in each.
func Sort(problems []Problem, file string) []Problem {
	for i := range problems {
		problems[i].File = file
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return problems
}

// maxQuote bounds what a message quotes.
const maxQuote = 60

// Quote shows a text of a file in a message; a long one is cut.
func Quote(s string) string {
	if len(s) > maxQuote {
		s = strings.ToValidUTF8(s[:maxQuote], "") + "…"
	}
	return strconv.Quote(s)
}

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(name string) string {
	if len(name) > maxQuote {
		name = strings.ToValidUTF8(name[:maxQuote], "") + "…"
	}
	return escapes.Replace(name)
}

// tooMany is the problem of a file with more values than one may hold.
func tooMany() string { return fmt.Sprintf("a file may hold at most %d values", canon.MaxValues) }
