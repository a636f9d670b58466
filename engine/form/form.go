package form

import (
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"holdpoint/engine/canon"
)

// Kind is the sort of control that a field has.
type Kind string

// The kinds.
const (
	Text     Kind = "text"
	LongText Kind = "long_text" // a text of several lines
	Integer  Kind = "integer"
	Number   Kind = "number"
	Boolean  Kind = "boolean"
	Choice   Kind = "choice"
	JSON     Kind = "json" // what has no simple control: arrays, free objects, unions
)

// Field is one control of a form.
type Field struct {
	// Name is the property's name, and "a.b" for the property b of the object a.
	// No two fields of a form have one name.
	Name string
	// Label is the schema's title, or else the property's own name; Help is the
	// schema's description. Both are the schema author's words, not ours.
	Label, Help string
	Kind        Kind
	// Required is set if Read refuses an empty text.
	Required bool
	// Choices are the texts of a Choice, in the schema's order.
	Choices []string
	// Value is the current value as text; "" if there is none.
	Value string
	// Min and Max are the inclusive bounds of a number, "" for none.
	Min, Max string
	// MaxLength is the longest text in characters (not UTF-16 units); 0 for no limit.
	MaxLength int
	// Problem is what is wrong with the field. Only Again sets it.
	Problem string
}

// Problem is one thing that is wrong with a posted form or a value.
type Problem struct {
	// Field is the name of the field that it is about, "" if there is none.
	Field string
	// Path is the JSON pointer to the value that it is about. It holds names of
	// members, never values.
	Path string
	// Message is a clause for a person whose subject is the value.
	Message string
}

// Form is a compiled schema. It never changes and may be used by any number of
// callers at once.
type Form struct {
	nodes   []node
	schema  *jsonschema.Schema // nil if there is none
	steps   int                // subschemas that one value may meet
	program int                // instructions of the patterns that one text may meet
}

// node is a property: a control, or an object with properties of its own.
type node struct {
	name, label, help string
	kind              Kind
	required          bool
	nullable          bool
	choices           []choice
	min, max          string
	maxLength         int
	group             bool // an object whose properties are children
	children          []node
}

type choice struct {
	text  string
	value canon.Value
}

// place is a field as it is in one object.
type place struct {
	node     *node
	name     string
	kind     Kind
	required bool
	current  canon.Value
	there    bool // there is a current value
}

// Fields are the form's fields in the schema's order, with the current values.
// The current value is an object, or null for none.
func (f *Form) Fields(current canon.Value) []Field {
	var fields []Field
	walk(f.nodes, current, nil, true, func(p place) {
		field := Field{
			Name: p.name, Label: p.node.label, Help: p.node.help, Kind: p.kind, Required: p.required,
			Min: p.node.min, Max: p.node.max, MaxLength: p.node.maxLength, Value: p.text(),
		}
		if p.kind == Choice {
			for _, c := range p.node.choices {
				field.Choices = append(field.Choices, c.text)
			}
		}
		if p.kind == JSON {
			field.Min, field.Max, field.MaxLength = "", "", 0
		}
		fields = append(fields, field)
	})
	return fields
}

// Again is Fields for a form that came back with problems: each field has the
// text that was posted for it, and its first problem. The problems that are
// about no field are returned beside them.
func (f *Form) Again(values map[string][]string, current canon.Value, problems []Problem) ([]Field, []Problem) {
	fields := f.Fields(current)
	byName := make(map[string]*Field, len(fields))
	for i := range fields {
		field := &fields[i]
		byName[field.Name] = field
		if posted := values[field.Name]; len(posted) > 0 {
			field.Value = strings.ToValidUTF8(posted[len(posted)-1], "\uFFFD")
		}
	}
	var rest []Problem
	for _, p := range problems {
		field, ok := byName[p.Field]
		for name := p.Field; !ok; {
			// The value of an object's property may be shown with its object.
			dot := strings.LastIndexByte(name, '.')
			if dot < 0 {
				break
			}
			name = name[:dot]
			field, ok = byName[name]
		}
		switch {
		case !ok || p.Field == "" && p.Path == "":
			rest = append(rest, p)
		case field.Problem == "":
			field.Problem = p.Message
		}
	}
	return fields, rest
}

// walk calls visit for each field of the nodes in an object, in order. strict is
// set if the object has to have what is required of it.
func walk(nodes []node, object canon.Value, path []string, strict bool, visit func(place)) {
	for i := range nodes {
		n := &nodes[i]
		current, there := object.Get(n.name)
		at := append(path[:len(path):len(path)], n.name)
		if n.group && (!there || current.Kind() == canon.ObjectKind) {
			walk(n.children, current, at, there || strict && n.required, visit)
			continue
		}
		p := place{
			node: n, name: strings.Join(at, "."), required: strict && n.required,
			current: current, there: there,
		}
		p.kind = p.shape()
		visit(p)
	}
}
