package views

import (
	"slices"
	"strconv"
	"strings"
)

// Form is an argument as people read it, beside the exact bytes. It is made from these and
// hides nothing that is in them without saying so.
type Form struct {
	// Place is where the argument is; "" for the whole.
	Place string
	// Kind is what it is shown as, and Is what is in it, such as "2 statements", or "".
	Kind, Is string
	// Registered says that the tool's registration says so; else it is a guess.
	Registered bool
	// Head are lines above the text, such as the header of a mail.
	Head []FormField
	// Code is the text, and Table the rows of an array; one of them is nil.
	Code  *Code
	Table *Table
	// Notes say what to know of it.
	Notes []string
}

// FormField is a line of a form's head.
type FormField struct {
	Name   string
	Values [][]Span
}

// Table is an array of alike objects.
type Table struct {
	Columns []string
	Rows    [][]Cell
	// More is how many rows are only in the exact arguments.
	More int
}

// Cell is a value in a table.
type Cell struct {
	Class string // as a Part has it; "" for nothing there
	Spans []Span
}

// Node is a value in the tree of the arguments.
type Node struct {
	// Name is its member's name or its number, and Path where it is.
	Name, Path string
	Cell       Cell
	// Is says what a container has, such as "object, 3 members".
	Is    string
	Nodes []Node
}

// leaves are the values below the nodes, in order.
func leaves(nodes []Node) []Node {
	var list []Node
	for _, n := range nodes {
		if n.Nodes == nil {
			list = append(list, n)
		} else {
			list = append(list, leaves(n.Nodes)...)
		}
	}
	return list
}

// Nested reports whether a value of the tree has values.
func (a Arguments) Nested() bool {
	return slices.ContainsFunc(a.Tree, func(n Node) bool { return n.Nodes != nil })
}

// Spans marks a text of a form.
func (b *Budget) Spans(text string) []Span { return b.spans(text) }

// Member is the path of a member of what is at path, and Element that of an element.
func Member(path, name string) string { return join(path, name) }

// Element is the path of an element of what is at path.
func Element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// formWords say what a form is.
func formWords(f Form) string {
	if f.Is == "" {
		return f.Kind
	}
	return f.Kind + ", " + f.Is
}

// originOfForm says why a form is what it is.
func originOfForm(f Form) string {
	if f.Registered {
		return "as the tool is registered"
	}
	return "a guess, by what it looks like"
}

// cellClass is the class of a cell's content.
func cellClass(c Cell) string { return strings.TrimSpace("v " + c.Class) }
