package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"holdpoint/engine"
)

// durations reports every setting of the file that should be a duration and is
// none, with its place, which the reader of YAML does not tell. A file that is
// no YAML is not its business.
func durations(data []byte) error {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil //nolint:nilerr // the reader says it better
	}
	w := &durationWalk{names: map[string]bool{}}
	w.learn(reflect.TypeFor[Config](), map[reflect.Type]bool{})
	for _, doc := range file.Docs {
		if doc.Body != nil {
			ast.Walk(w, doc.Body)
		}
	}
	return errors.Join(w.errs...)
}

type durationWalk struct {
	names map[string]bool // of settings that are durations, or lists of them
	errs  []error
}

// learn collects the names of a type's durations.
func (w *durationWalk) learn(t reflect.Type, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() { //nolint:exhaustive // nothing else holds fields
	case reflect.Slice, reflect.Map, reflect.Pointer:
		w.learn(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			of := f.Type
			if of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			switch {
			case name == "-", !f.IsExported():
				continue
			case name == "":
				name = strings.ToLower(f.Name)
			}
			if of == reflect.TypeFor[engine.Duration]() {
				w.names[name] = true
			}
			w.learn(f.Type, seen)
		}
	}
}

// Visit looks at the values of the durations' names.
func (w *durationWalk) Visit(n ast.Node) ast.Visitor {
	m, ok := n.(*ast.MappingValueNode)
	if !ok || !w.names[m.Key.String()] {
		return w
	}
	values := []ast.Node{m.Value}
	if list, ok := m.Value.(*ast.SequenceNode); ok {
		values = list.Values
	}
	for _, v := range values {
		scalar, ok := v.(ast.ScalarNode)
		if !ok || v.Type() == ast.NullType {
			continue // of another kind, which the reader tells with its place
		}
		var d engine.Duration
		if err := d.UnmarshalText(fmt.Append(nil, scalar.GetValue())); err != nil {
			at := v.GetToken().Position
			w.errs = append(w.errs, fmt.Errorf("[%d:%d] %s: want a duration such as 10m or 24h", at.Line, at.Column, m.Key.String()))
		}
	}
	return w
}
