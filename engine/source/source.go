// Package source is the one reader of the YAML and JSON files that people
// write. It turns them into the values that the rest of the engine works with,
// remembers where each of them stands, and returns every mistake that it finds
// with its line and column. It knows nothing of what a file is for, and never
// opens one itself.
//
//	text ─ Read ─→ Node ─ Get, Element, Members → Node …
//	           └─→ Problems: file:line:column
//	YAML ─ ReadTree ─→ Tree: the same, before scalars have types, with its bytes
//
// A file whose first byte that is not white space is a brace is JSON, as
// canon.Parse reads it. Anything else is YAML, of which it takes what JSON can
// say, in one way only. Refused are duplicate keys and such that differ only by
// case, anchors, aliases, merge keys, tags, directives, a second document, keys
// that are not text, words that older YAML takes for booleans, tabs inside of
// texts without quotes, and numbers that JSON writes otherwise or that a float64
// would change. The bounds are canon's for both.
//
// The reader of YAML is our own, because libraries repair what YAML forbids, each
// in its own way, and two readings of one rule are one too many. Tests hold it
// against a library.
package source

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine/canon"
)

// MaxBytes is the size of the largest file.
const MaxBytes = canon.MaxBytes

// Options say how a file is read.
type Options struct {
	// File is the name that problems carry.
	File string
	// MaxDepth is how many arrays and objects may be inside each other, the file
	// itself being the first; 0 is canon.MaxDepth, which is also the most.
	MaxDepth int
}

// Read reads a file. With any problem the Node is the zero one. Text that is
// not YAML or JSON has no problem behind the one that ends the reading, as it
// would be a guess.
func Read(data []byte, o Options) (Node, []Problem) {
	r := &reader{maxDepth: min(cmp.Or(o.MaxDepth, canon.MaxDepth), canon.MaxDepth)}
	var root Node
	switch start := bytes.TrimLeft(data, " \t\r\n"); {
	case len(data) > MaxBytes:
		r.fail(Position{1, 1}, "", canon.TooLarge, "the file has more than 1 MiB", "")
	case len(start) > 0 && start[0] == '{':
		root = r.json(data)
	default:
		root = r.yaml(data)
	}
	if deep, ok := root.Deeper(r.maxDepth); ok {
		r.fail(deep.Position(), deep.Path, canon.TooDeep, r.tooDeep(), "")
	}
	if len(r.problems) > 0 {
		return Node{}, Sort(r.problems, o.File)
	}
	return root, nil
}

// reader collects what is wrong with a file.
type reader struct {
	maxDepth int
	problems []Problem
	// values counts YAML's; crowded says that there are too many of them.
	values  int
	crowded bool
}

// maxProblems bounds the list of problems. One more says that there are more.
const maxProblems = 1000

func (r *reader) fail(at Position, path, code, message, hint string) {
	if len(r.problems) == maxProblems {
		path, code, message, hint = "", TooManyProblems, "there are more problems than these", ""
	}
	if len(r.problems) <= maxProblems {
		r.problems = append(r.problems, Problem{Line: at.Line, Column: at.Column, Path: path, Code: code, Message: message, Hint: hint})
	}
}

func (r *reader) tooDeep() string {
	return "more than " + strconv.Itoa(r.maxDepth) + " arrays and objects are inside each other"
}

// Position is a line and a column, counted from 1 in characters. The zero
// Position is unknown.
type Position struct{ Line, Column int }

// place is where a value begins, and where what it holds does: kids in the
// order of its elements or members, keys beside them for an object.
type place struct {
	Position
	keys []Position
	kids []place
}

// Node is a value with its place in the file. The zero Node is null, nowhere.
type Node struct {
	Value canon.Value
	// Path is the JSON pointer (RFC 6901) to the value, as Pointer writes it; ""
	// is the whole file.
	Path string
	at   *place
}

// Of is a Node for a value that came from no file: it has no place.
func Of(v canon.Value) Node { return Node{Value: v} }

// Position is where the value begins.
func (n Node) Position() Position {
	if n.at == nil {
		return Position{}
	}
	return n.at.Position
}

// Get is the object's member of this name.
func (n Node) Get(name string) (Node, bool) {
	i := 0
	for other, v := range n.Value.All() {
		if other == name {
			return n.below(i, v, Pointer(n.Path, name)), true
		}
		i++
	}
	return Node{}, false
}

// Element is the array's element i, from 0. It panics if there is none.
func (n Node) Element(i int) Node {
	return n.below(i, n.Value.At(i), n.Path+"/"+strconv.Itoa(i))
}

func (n Node) below(i int, v canon.Value, path string) Node {
	kid := Node{Value: v, Path: path}
	if n.at != nil {
		kid.at = &n.at.kids[i]
	}
	return kid
}

// Member is one member of an object.
type Member struct {
	Node
	Name string
	// Key is where the name begins.
	Key Position
}

// Members walks through the object in the order of the file.
func (n Node) Members() func(yield func(Member) bool) {
	return func(yield func(Member) bool) {
		i := 0
		for name, v := range n.Value.All() {
			m := Member{Node: n.below(i, v, Pointer(n.Path, name)), Name: name}
			if n.at != nil {
				m.Key = n.at.keys[i]
			}
			if !yield(m) {
				return
			}
			i++
		}
	}
}

// Deeper is the first array or object that is inside of so many others, of
// which n itself is the first.
func (n Node) Deeper(depth int) (Node, bool) {
	switch {
	case !deeper(n.Value, depth):
		return Node{}, false
	case depth == 0:
		return n, true
	}
	for i := range n.Value.Elements() {
		if deep, ok := n.Element(i).Deeper(depth - 1); ok {
			return deep, true
		}
	}
	for m := range n.Members() {
		if deep, ok := m.Deeper(depth - 1); ok {
			return deep, true
		}
	}
	return Node{}, false
}

func deeper(v canon.Value, depth int) bool {
	if k := v.Kind(); k != canon.ArrayKind && k != canon.ObjectKind || depth == 0 {
		return k == canon.ArrayKind || k == canon.ObjectKind
	}
	for _, e := range v.Elements() {
		if deeper(e, depth-1) {
			return true
		}
	}
	for _, m := range v.All() {
		if deeper(m, depth-1) {
			return true
		}
	}
	return false
}

// Problem is a mistake at the node.
func (n Node) Problem(code, message, hint string) Problem {
	at := n.Position()
	return Problem{Line: at.Line, Column: at.Column, Path: n.Path, Code: code, Message: message, Hint: hint}
}

// KeyProblem is a mistake in the member's name.
func (m Member) KeyProblem(code, message, hint string) Problem {
	return Problem{Line: m.Key.Line, Column: m.Key.Column, Path: m.Path, Code: code, Message: message, Hint: hint}
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

func cut(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// Quote shows a text of a file in a message; a long one is cut.
func Quote(s string) string { return strconv.Quote(cut(s, maxQuote)) }

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

// Pointer extends a JSON pointer by the name of a member; a long one is cut.
func Pointer(path, name string) string { return path + "/" + escapes.Replace(cut(name, maxQuote)) }
