package form

import (
	"math"
	"strings"

	"holdpoint/engine/canon"
)

// document is a schema in which references can be followed.
type document struct {
	root canon.Value
	old  bool // draft 7, where what stands beside a $ref does not count
}

var unescapes = strings.NewReplacer("~1", "/", "~0", "~")

// follow is what a reference within the document refers to. One that is
// percent-encoded leads nowhere.
func (d *document) follow(ref string) (canon.Value, bool) {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok || rest != "" && rest[0] != '/' || strings.ContainsRune(rest, '%') {
		return canon.Value{}, false
	}
	v := d.root
	if rest == "" {
		return v, true
	}
	for _, token := range strings.Split(rest[1:], "/") {
		token = unescapes.Replace(token)
		if v.Kind() == canon.ArrayKind {
			at, ok := index(token, v.Len())
			if !ok {
				return canon.Value{}, false
			}
			v = v.At(at)
			continue
		}
		if v, ok = v.Get(token); !ok {
			return canon.Value{}, false
		}
	}
	return v, true
}

func index(token string, length int) (int, bool) {
	n := 0
	for _, c := range token {
		if c < '0' || c > '9' || n >= length {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, token != "" && n < length && (token[0] != '0' || token == "0")
}

// annotations are the keywords that check nothing.
var annotations = map[string]bool{
	"title": true, "description": true, "default": true, "examples": true, "deprecated": true, "readOnly": true,
	"writeOnly": true, "$comment": true, "$schema": true, "$id": true, "$defs": true, "definitions": true,
}

// resolve follows references, and allOf of one schema, to the schema that says
// what a value is. names are the schemas on the way, the nearest first. It is
// false if something beside a reference counts too.
func (d *document) resolve(schema canon.Value) (target canon.Value, names []canon.Value, ok bool) {
	for range MaxDepth {
		names = append(names, schema)
		ref, isRef := schema.Get("$ref")
		all, isAll := schema.Get("allOf")
		if !isRef && (!isAll || all.Len() != 1 || !onlyKeyword(schema, "allOf")) {
			return schema, names, true
		}
		if !isRef {
			schema = all.At(0)
			continue
		}
		if !d.old && !onlyKeyword(schema, "$ref") {
			return schema, names, false
		}
		if schema, ok = d.follow(ref.Str()); !ok {
			return schema, names, false
		}
	}
	return schema, names, false
}

// onlyKeyword reports whether only the keyword and annotations are in a schema.
func onlyKeyword(schema canon.Value, keyword string) bool {
	for name := range schema.All() {
		if name != keyword && !annotations[name] {
			return false
		}
	}
	return true
}

// properties are the nodes of an object's schema. left is the number of fields
// that may be made; it is negative once there are too many.
func (d *document) properties(schema canon.Value, depth int, left *int) []node {
	properties, _ := schema.Get("properties")
	required, _ := schema.Get("required")
	demanded := make(map[string]bool, required.Len())
	for _, name := range required.Elements() {
		demanded[name.Str()] = true
	}
	var nodes []node
	for name, sub := range properties.All() {
		if *left < 0 {
			break
		}
		if sub.Kind() == canon.BoolKind && !sub.Bool() {
			continue // no value fits
		}
		if name == "" {
			continue // no control can have this name
		}
		n := d.describe(name, sub)
		n.required = demanded[name]
		if target, _, ok := d.resolve(sub); n.kind == JSON && ok && depth < maxNesting && splits(properties, name) && divisible(target) {
			n.group, n.children = true, d.properties(target, depth+1, left)
		} else {
			*left--
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// divisible reports whether an object's properties can be fields of their own.
func divisible(schema canon.Value) bool {
	kind, _ := schema.Get("type")
	properties, _ := schema.Get("properties")
	for _, keyword := range [...]string{"allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "enum", "const", "$ref"} {
		if _, there := schema.Get(keyword); there {
			return false
		}
	}
	return kind.Str() == "object" && properties.Len() > 0 && noDots(properties)
}

// noDots reports whether no name has a dot, which joins names of fields.
func noDots(object canon.Value) bool {
	for name := range object.All() {
		if strings.Contains(name, ".") {
			return false
		}
	}
	return true
}

// splits reports whether fields may be named after the member and a dot.
func splits(object canon.Value, member string) bool {
	for name := range object.All() {
		if strings.HasPrefix(name, member+".") {
			return false
		}
	}
	return !strings.Contains(member, ".")
}

// describe makes a node without children of a property.
func (d *document) describe(name string, schema canon.Value) node {
	n := node{name: name, label: name, kind: JSON}
	target, names, ok := d.resolve(schema)
	if inner, isNull := withoutNull(target); ok && isNull {
		var more []canon.Value
		target, more, ok = d.resolve(inner)
		names, n.nullable = append(names, more...), true
	}
	for i := len(names) - 1; i >= 0; i-- {
		if title, _ := names[i].Get("title"); strings.TrimSpace(title.Str()) != "" {
			n.label = title.Str()
		}
		if help, _ := names[i].Get("description"); help.Str() != "" {
			n.help = help.Str()
		}
	}
	if !ok {
		n.nullable = false
		return n
	}
	d.control(&n, target)
	if n.kind == JSON {
		n.nullable = false
	}
	return n
}

// withoutNull is the other one of two alternatives, one of which is null.
func withoutNull(schema canon.Value) (canon.Value, bool) {
	for _, keyword := range [...]string{"anyOf", "oneOf"} {
		list, there := schema.Get(keyword)
		if !there || list.Len() != 2 || !onlyKeyword(schema, keyword) {
			continue
		}
		for i := range 2 {
			if kind, _ := list.At(i).Get("type"); kind.Str() == "null" {
				return list.At(1 - i), true
			}
		}
	}
	return canon.Value{}, false
}

// control finds the simple control of a schema, if it has one.
func (d *document) control(n *node, schema canon.Value) {
	kind, typed := schema.Get("type")
	word := kind.Str()
	if kind.Len() == 2 && (kind.At(0).Str() == "null" || kind.At(1).Str() == "null") {
		n.nullable = true
		word = kind.At(0).Str()
		if word == "null" {
			word = kind.At(1).Str()
		}
	}
	enum, isEnum := schema.Get("enum")
	if one, there := schema.Get("const"); there && !isEnum {
		enum, isEnum = canon.Array(one), true
	}
	switch {
	case isEnum:
		n.choose(enum, !typed || n.nullable)
	case word == "string":
		n.kind = Text
		if limit, there := schema.Get("maxLength"); there && limit.Float() >= 1 && limit.Float() < 1<<31 {
			n.maxLength = int(limit.Float())
		}
		if n.maxLength > 2*longText {
			n.kind = LongText
		}
	case word == "integer", word == "number":
		n.kind = Number
		if word == "integer" {
			n.kind = Integer
		}
		n.min, n.max = n.bound(schema, "minimum", 1), n.bound(schema, "maximum", -1)
	case word == "boolean":
		n.kind = Boolean
	}
}

// choose makes a Choice of the values if each has a text of its own that cannot
// be taken for none. null may be among them if it is no mistake.
func (n *node) choose(enum canon.Value, nullable bool) {
	seen := map[string]bool{"": true}
	var choices []choice
	null := false
	for _, v := range enum.Elements() {
		text := v.Str()
		switch v.Kind() {
		case canon.NullKind:
			null = true
			continue
		case canon.ArrayKind, canon.ObjectKind:
			return
		case canon.NumberKind, canon.BoolKind:
			text = string(v.Canonical())
		case canon.StringKind:
		}
		if seen[text] || !plain(text) || strings.Contains(text, "\n") {
			return
		}
		seen[text] = true
		choices = append(choices, choice{text, v})
	}
	if len(choices) > 0 {
		n.kind, n.choices, n.nullable = Choice, choices, nullable && (null || n.nullable)
	}
}

// bound is an inclusive bound of a number. The exclusive bound of an integer is
// the next one; that of other numbers is left to Validate.
func (n *node) bound(schema canon.Value, keyword string, inward float64) string {
	limit, there := schema.Get(keyword)
	if n.kind == Integer {
		name := map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}[keyword]
		if edge, exclusive := schema.Get(name); exclusive && edge.Kind() == canon.NumberKind {
			f := edge.Float()
			if f == math.Trunc(f) && math.Abs(f) < 1<<52 && (!there || (f+inward-limit.Float())*inward > 0) {
				return string(canon.Number(f + inward).Canonical())
			}
		}
	}
	if !there || limit.Kind() != canon.NumberKind {
		return ""
	}
	return string(limit.Canonical())
}
