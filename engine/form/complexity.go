package form

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"holdpoint/engine/canon"
)

// The bounds of the work that a schema makes. A subschema that several others
// refer to is checked once for each, and they may be referred to themselves, so
// a few lines can mean more steps than there are atoms.
const (
	// maxSteps is the largest number of subschemas of a schema in which each
	// reference is replaced by what it refers to.
	maxSteps = 1 << 13
	// maxProgram is the largest number of instructions of one pattern.
	maxProgram = 1000
	// maxWork is the largest number of values times subschemas, and maxMatching
	// of bytes of text times instructions, that Validate takes on.
	maxWork     = 1 << 20
	maxMatching = 1 << 26
)

// complexity counts what one value may have to be checked against.
type complexity struct {
	document       *document
	steps, program int
}

// Where subschemas are: alone, in a list, or as an object's members.
const (
	alone = 1 << iota
	listed
	named
	below // for a part of the value, not the value itself
)

var subschemas = map[string]int{
	"not": alone, "if": alone, "then": alone, "else": alone,
	"allOf": listed, "anyOf": listed, "oneOf": listed,
	"dependentSchemas": named, "dependencies": named,
	"items": alone | listed | below, "prefixItems": listed | below, "additionalItems": alone | below,
	"contains": alone | below, "unevaluatedItems": alone | below,
	"additionalProperties": alone | below, "unevaluatedProperties": alone | below, "propertyNames": alone | below,
	"properties": named | below, "patternProperties": named | below,
}

func (w *complexity) add(schema canon.Value, depth int) error {
	// What is deeper than any document meets no value.
	if depth > canon.MaxDepth+1 {
		return nil
	}
	if w.steps++; w.steps > maxSteps {
		return fmt.Errorf("with all references followed it has more than %d subschemas; it may refer to itself too often", maxSteps)
	}
	for name, m := range schema.All() {
		switch name {
		case "$ref":
			target, ok := w.document.follow(m.Str())
			if !ok {
				return errors.New("a $ref leads nowhere")
			}
			if err := w.add(target, depth); err != nil {
				return err
			}
			continue
		case "enum", "required", "const", "dependentRequired":
			w.steps += m.Len() / 4
			continue
		case "pattern":
			if err := w.pattern(m.Str()); err != nil {
				return err
			}
			continue
		case "patternProperties":
			for pattern := range m.All() {
				if err := w.pattern(pattern); err != nil {
					return err
				}
			}
		}
		where := subschemas[name]
		next := depth
		if where&below != 0 {
			next++
		}
		if where&alone != 0 && m.Kind() != canon.ArrayKind {
			if err := w.add(m, next); err != nil {
				return err
			}
		}
		if where&listed != 0 {
			for _, e := range m.Elements() {
				if err := w.add(e, next); err != nil {
					return err
				}
			}
		}
		if where&named != 0 {
			for _, e := range m.All() {
				if err := w.add(e, next); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *complexity) pattern(text string) error {
	size, err := patternSize(text)
	w.program += size
	return err
}

// patternSize is the number of a pattern's instructions.
func patternSize(text string) (int, error) {
	unusable := errors.New("a regular expression of it is not one that can be used")
	if len(text) > MaxPattern {
		return 0, unusable
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, unusable
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, unusable
	}
	if len(program.Inst) > maxProgram {
		return 0, fmt.Errorf("a regular expression needs more than %d instructions", maxProgram)
	}
	return len(program.Inst), nil
}

// compilePattern is the validator's way to a pattern.
func compilePattern(text string) (jsonschema.Regexp, error) {
	if _, err := patternSize(text); err != nil {
		return nil, err
	}
	return regexp.Compile(text)
}

// size is the number of values in v and the bytes of its texts and names.
func size(v canon.Value) (values, text int) {
	values, text = 1, len(v.Str())
	for _, e := range v.Elements() {
		n, size := size(e)
		values, text = values+n, text+size
	}
	for name, m := range v.All() {
		n, size := size(m)
		values, text = values+n, text+size+len(name)
	}
	return values, text
}
