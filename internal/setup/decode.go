package setup

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

// The codes of this package's problems.
const (
	unknownField = "unknown_field"
	wrongType    = "wrong_type"
	missingField = "missing_field"
	unfit        = "unfit"
	twice        = "twice"
)

// decode fills v, whose fields encoding/json would fill, from a node. What is there and
// known to no field, of another type, or missing although its field cannot be left out
// is a problem each.
func decode(n source.Node, v reflect.Value, problem func(source.Problem)) {
	wrong := func(want string) {
		problem(n.Problem(wrongType, fmt.Sprintf("%s: want %s, got %s", n.Path, want, kindOf(n.Value)), ""))
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes(n.Value.Canonical())
		return
	}
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok && v.Kind() != reflect.Pointer {
		if n.Value.Kind() != canon.StringKind {
			wrong("a text")
		} else if err := text.UnmarshalText([]byte(n.Value.Str())); err != nil && v.Type() == reflect.TypeFor[time.Time]() {
			problem(n.Problem(wrongType, fmt.Sprintf("%s: want a time such as 2026-12-24T06:00:00Z, got %q", n.Path, n.Value.Str()), ""))
		} else if err != nil {
			problem(n.Problem(wrongType, fmt.Sprintf("%s: %v", n.Path, err), ""))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		decode(n, v.Elem(), problem)
	case reflect.Struct:
		if n.Value.Kind() != canon.ObjectKind {
			wrong("an object")
			return
		}
		decodeStruct(n, v, problem)
	case reflect.Map:
		if n.Value.Kind() != canon.ObjectKind {
			wrong("an object")
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for m := range n.Members() {
			e := reflect.New(v.Type().Elem()).Elem()
			decode(m.Node, e, problem)
			v.SetMapIndex(reflect.ValueOf(m.Name), e)
		}
	case reflect.Slice:
		if n.Value.Kind() != canon.ArrayKind {
			wrong("a list")
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n.Value.Len(), n.Value.Len()))
		for i := range n.Value.Len() {
			decode(n.Element(i), v.Index(i), problem)
		}
	case reflect.String:
		if n.Value.Kind() != canon.StringKind {
			wrong("a text")
			return
		}
		v.SetString(n.Value.Str())
	case reflect.Bool:
		if n.Value.Kind() != canon.BoolKind {
			wrong("true or false")
			return
		}
		v.SetBool(n.Value.Bool())
	case reflect.Int:
		i, whole := n.Value.Int()
		if !whole {
			wrong("a whole number")
			return
		}
		v.SetInt(i)
	default:
		panic("setup: no field is a " + v.Type().String())
	}
}

func decodeStruct(n source.Node, v reflect.Value, problem func(source.Problem)) {
	known := map[string]int{}
	var names, missing []string
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		known[name], names = i, append(names, name)
		if _, there := n.Get(name); !there && !strings.Contains(options, "omitempty") {
			missing = append(missing, name)
		}
	}
	for m := range n.Members() {
		i, ok := known[m.Name]
		if !ok {
			hint := "known are " + strings.Join(names, ", ")
			if near := source.Nearest(m.Name, names); near != "" {
				hint = "did you mean " + near + "?"
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == near }) // one mistake
			}
			problem(m.KeyProblem(unknownField, m.Path+": there is no such field", hint))
			continue
		}
		decode(m.Node, v.Field(i), problem)
	}
	for _, name := range missing {
		problem(n.Problem(missingField, fmt.Sprintf("%s: %s is missing", n.Path, name), ""))
	}
}

// kindOf names a value's kind as YAML's readers know it.
func kindOf(v canon.Value) string {
	switch v.Kind() {
	case canon.NullKind:
		return "nothing"
	case canon.StringKind:
		return "a text"
	case canon.ArrayKind:
		return "a list"
	default:
		return "a " + v.Kind().String()
	}
}
