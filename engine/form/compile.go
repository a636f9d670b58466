package form

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"holdpoint/engine/canon"
)

// The bounds of a schema. They are inclusive.
const (
	// MaxBytes is the size of the largest schema in its canonical form: 64 KiB.
	MaxBytes = 64 << 10
	// MaxDepth is the largest number of arrays and objects inside each other.
	MaxDepth = 16
	// MaxProperties is the largest number of properties, those of nested objects
	// and definitions included, and of fields.
	MaxProperties = 200
	// MaxPattern is the length of the longest regular expression, in bytes.
	MaxPattern = 1000
	// maxNesting is how deep properties of properties are fields of their own.
	maxNesting = 3
)

const (
	draft2020 = "https://json-schema.org/draft/2020-12/schema"
	draft7    = "http://json-schema.org/draft-07/schema"
	// location is where the compiler believes the schema to be.
	location = "https://schema.invalid/"
)

// Compile reads the schema of an object: draft 2020-12, or draft 7 if $schema
// says so, as many tools still do. It refuses what is not the schema of an
// object, what refers to anything but itself ($ref may only be # or #/…), and
// what is beyond the bounds or would take unbounded work. Formats are
// annotations, as draft 2020-12 has it; draft 7 asserts them.
func Compile(schema canon.Value) (*Form, error) {
	f, err := compile(schema)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	return f, nil
}

func compile(schema canon.Value) (*Form, error) {
	if schema.Kind() != canon.ObjectKind {
		return nil, errors.New("it is not an object")
	}
	if size := len(schema.Canonical()); size > MaxBytes {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are allowed", size, MaxBytes)
	}
	d := document{root: schema}
	switch id, there := schema.Get("$schema"); {
	case !there, strings.TrimSuffix(id.Str(), "#") == draft2020:
	case strings.TrimSuffix(id.Str(), "#") == draft7:
		d.old = true
	default:
		return nil, errors.New("$schema is neither draft 2020-12 nor draft 7")
	}
	properties := 0
	if err := inspect(schema, 1, &properties); err != nil {
		return nil, err
	}
	w := complexity{document: &d}
	if err := w.add(schema, 1); err != nil {
		return nil, err
	}

	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(compilePattern)
	// The root's own name would only change what # means.
	doc, _ := native(schema).(map[string]any)
	delete(doc, "$id")
	if err := compiler.AddResource(location, doc); err != nil {
		return nil, errors.New("it cannot be read as a schema")
	}
	compiled, err := compiler.Compile(location)
	if err != nil {
		return nil, schemaError(err)
	}

	top, _, ok := d.resolve(schema)
	if !ok || !isObject(top) {
		return nil, errors.New("it is not the schema of an object")
	}
	f := &Form{schema: compiled, steps: w.steps, program: w.program}
	left := MaxProperties
	if f.nodes = d.properties(top, 1, &left); left < 0 {
		return nil, fmt.Errorf("it has more than %d fields", MaxProperties)
	}
	return f, nil
}

// schemaError says why the compiler refused, without its words: they quote the schema.
func schemaError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var pattern *jsonschema.InvalidRegexError
	var validation *jsonschema.ValidationError
	switch {
	case errors.As(err, &pattern):
		return errors.New("a regular expression of it is not one that can be used")
	case errors.As(err, &invalid) && errors.As(invalid.Err, &validation):
		var found []Problem
		collect(validation, &found)
		if len(found) > 0 {
			return fmt.Errorf("it is not a valid schema: %s %s", found[0].Path, found[0].Message)
		}
	}
	return errors.New("it is not a valid schema")
}

// noLoader refuses every document but the schema itself.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("nothing is loaded") }

// isObject reports whether a schema is for objects.
func isObject(schema canon.Value) bool {
	if kind, there := schema.Get("type"); there {
		return kind.Str() == "object"
	}
	properties, _ := schema.Get("properties")
	return properties.Kind() == canon.ObjectKind
}

// counts are the keywords that the validator keeps as machine integers.
var counts = map[string]bool{
	"minLength": true, "maxLength": true, "minItems": true, "maxItems": true, "minProperties": true, "maxProperties": true,
	"minContains": true, "maxContains": true,
}

// inspect looks at everything in the document, examples and defaults too: it
// does not matter which of them a reference makes a schema of.
func inspect(v canon.Value, depth int, properties *int) error {
	if depth > MaxDepth && (v.Kind() == canon.ObjectKind || v.Kind() == canon.ArrayKind) {
		return fmt.Errorf("more than %d arrays and objects are inside each other", MaxDepth)
	}
	for _, e := range v.Elements() {
		if err := inspect(e, depth+1, properties); err != nil {
			return err
		}
	}
	for name, m := range v.All() {
		text := m.Kind() == canon.StringKind
		switch {
		case name == "$ref" && text && m.Str() != "#" && !strings.HasPrefix(m.Str(), "#/"):
			return errors.New("a $ref leads out of the schema; only # and #/… are allowed")
		case (name == "$dynamicRef" || name == "$recursiveRef") && text:
			return fmt.Errorf("%s is not allowed", name)
		case name == "$id" && text && depth > 1:
			return errors.New("a $id inside the schema is not allowed")
		case name == "pattern" && text && len(m.Str()) > MaxPattern:
			return fmt.Errorf("a pattern is longer than %d bytes", MaxPattern)
		case name == "properties" && m.Kind() == canon.ObjectKind:
			if *properties += m.Len(); *properties > MaxProperties {
				return fmt.Errorf("it has more than %d properties", MaxProperties)
			}
		case name == "patternProperties" && m.Kind() == canon.ObjectKind:
			for pattern := range m.All() {
				if len(pattern) > MaxPattern {
					return fmt.Errorf("a pattern is longer than %d bytes", MaxPattern)
				}
			}
		case counts[name] && m.Kind() == canon.NumberKind && m.Float() > 1<<53:
			return fmt.Errorf("%s is too large", name)
		}
		if err := inspect(m, depth+1, properties); err != nil {
			return err
		}
	}
	return nil
}

// native is a value as the validator takes it.
func native(v canon.Value) any {
	switch v.Kind() {
	case canon.BoolKind:
		return v.Bool()
	case canon.NumberKind:
		return v.Float()
	case canon.StringKind:
		return v.Str()
	case canon.ArrayKind:
		list := make([]any, 0, v.Len())
		for _, e := range v.Elements() {
			list = append(list, native(e))
		}
		return list
	case canon.ObjectKind:
		object := make(map[string]any, v.Len())
		for name, m := range v.All() {
			object[name] = native(m)
		}
		return object
	case canon.NullKind:
	}
	return nil
}
