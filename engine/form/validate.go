package form

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"holdpoint/engine/canon"
)

// maxProblems is the largest number of problems that Validate tells.
const maxProblems = 100

// Validate is what is wrong with a value by the schema, sorted by place; nil if
// nothing is. A value that would take too much work to check has one problem,
// which says so.
func (f *Form) Validate(v canon.Value) []Problem {
	if f.schema == nil {
		return nil
	}
	values, text := size(v)
	if values*f.steps > maxWork || text*f.program > maxMatching {
		return []Problem{{Message: "is too large to be checked by this schema"}}
	}
	err := f.schema.Validate(native(v))
	if err == nil {
		return nil
	}
	var found []Problem
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		collect(invalid, &found)
	}
	if len(found) == 0 {
		found = []Problem{{Message: "does not fit the schema"}} // in doubt, refuse
	}
	slices.SortFunc(found, func(a, b Problem) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Message, b.Message)
	})
	found = slices.Compact(found)
	if len(found) > maxProblems {
		found = found[:maxProblems]
	}
	for i := range found {
		found[i].Field = f.fieldAt(found[i].Path)
	}
	return found
}

// fieldAt is the name of the field that shows the value at a path, or of the
// object that holds it.
func (f *Form) fieldAt(path string) string {
	var name []string
	nodes := f.nodes
	for _, token := range strings.Split(path, "/")[1:] {
		at := slices.IndexFunc(nodes, func(n node) bool { return pointer([]string{n.name}) == "/"+token })
		if at < 0 {
			break
		}
		name, nodes = append(name, nodes[at].name), nodes[at].children
	}
	return strings.Join(name, ".")
}

// collect adds the problems of an error. The library's own words quote values,
// so none of them is used.
func collect(e *jsonschema.ValidationError, found *[]Problem) {
	add := func(path []string, message string) {
		*found = append(*found, Problem{Path: pointer(path), Message: message})
	}
	at := e.InstanceLocation
	beside := func(names []string, message string) {
		for _, name := range names {
			add(append(at[:len(at):len(at)], name), message)
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			collect(cause, found)
		}
		if len(e.Causes) == 0 {
			add(at, "does not fit the schema")
		}
	case *kind.AnyOf:
		if other := notNull(e.Causes); other != nil {
			collect(other, found)
			return
		}
		add(at, "fits none of the forms that the schema allows")
	case *kind.OneOf:
		if other := notNull(e.Causes); other != nil && len(k.Subschemas) == 0 {
			collect(other, found)
			return
		}
		if len(k.Subschemas) > 0 {
			add(at, "fits more than one of the forms of which the schema allows one")
			return
		}
		add(at, "fits none of the forms that the schema allows")
	case *kind.Required:
		beside(k.Missing, "is required")
	case *kind.Dependency:
		beside(k.Missing, "is required beside another member")
	case *kind.DependentRequired:
		beside(k.Missing, "is required beside another member")
	case *kind.AdditionalProperties:
		beside(k.Properties, "is not a member that the schema allows")
	case *kind.PropertyNames:
		// The library does not keep this error's place.
		add(nil, "has a member, or a member below it has one, of a name that the schema does not allow")
	default:
		add(at, clause(e.ErrorKind))
	}
}

// notNull is the other one of two causes, one of which is not being null.
func notNull(causes []*jsonschema.ValidationError) *jsonschema.ValidationError {
	if len(causes) != 2 {
		return nil
	}
	for i, cause := range causes {
		if k, ok := cause.ErrorKind.(*kind.Type); ok && len(k.Want) == 1 && k.Want[0] == "null" {
			return causes[1-i]
		}
	}
	return nil
}

// clause says what a value is or is not. It may hold what the schema wants, and
// never what the value is.
func clause(e jsonschema.ErrorKind) string {
	switch k := e.(type) {
	case *kind.Type:
		return "has to be of type " + strings.Join(k.Want, " or ")
	case *kind.Enum, *kind.Const:
		return "is not one of the values that the schema allows"
	case *kind.Format:
		return "does not have the format that the schema asks for"
	case *kind.Pattern:
		return "does not match the pattern that the schema asks for"
	case *kind.MinLength:
		return fmt.Sprintf("has fewer than %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has more than %d characters", k.Want)
	case *kind.Minimum:
		return "is less than " + number(k.Want)
	case *kind.Maximum:
		return "is more than " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "is not more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "is not less than " + number(k.Want)
	case *kind.MultipleOf:
		return "is not a multiple of " + number(k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has fewer than %d elements", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has more than %d elements", k.Want)
	case *kind.UniqueItems:
		return "has two equal elements"
	case *kind.Contains, *kind.MinContains:
		return "has too few elements of the form that the schema asks for"
	case *kind.MaxContains:
		return "has too many elements of the form that the schema limits"
	case *kind.AdditionalItems:
		return "has more elements than the schema allows"
	case *kind.MinProperties:
		return fmt.Sprintf("has fewer than %d members", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has more than %d members", k.Want)
	case *kind.FalseSchema:
		return "is not allowed by the schema"
	case *kind.Not:
		return "is what the schema rules out"
	}
	return "does not fit the schema"
}

func number(r *big.Rat) string {
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
