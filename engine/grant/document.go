package grant

import (
	"errors"
	"fmt"
	"strconv"

	"holdpoint/engine/canon"
)

// Document is the pattern as JSON:
//
//	{"arrays": ["/items"], "matchers": [{"op": "at_most", "path": "/amount", "value": 100}]}
//
// any has no value, and arrays is left out when there are none. The pattern has
// to be one that Check accepts.
func (p Pattern) Document() canon.Value {
	matchers := make([]canon.Value, len(p.Matchers))
	for i, m := range p.Matchers {
		members := []canon.Member{{Name: "op", Value: canon.String(string(m.Op))}, {Name: "path", Value: canon.String(m.Path)}}
		if m.Op != Any {
			members = append(members, canon.Member{Name: "value", Value: m.Value})
		}
		matchers[i] = canon.Object(members...)
	}
	members := []canon.Member{{Name: "matchers", Value: canon.Array(matchers...)}}
	if len(p.Arrays) > 0 {
		arrays := make([]canon.Value, len(p.Arrays))
		for i, path := range p.Arrays {
			arrays[i] = canon.String(path)
		}
		members = append(members, canon.Member{Name: "arrays", Value: canon.Array(arrays...)})
	}
	return canon.Object(members...)
}

// Parse reads what Document writes, and nothing else. Its errors name the place
// of each mistake by JSON Pointer and quote no value.
func Parse(document canon.Value) (Pattern, error) {
	var p Pattern
	if document.Kind() != canon.ObjectKind {
		return p, errors.New("\"\": a pattern is an object")
	}
	var wrong []error
	say := func(at, what string) { wrong = append(wrong, fmt.Errorf("%s: %s", at, what)) }
	for name, v := range document.All() {
		switch name {
		case "matchers":
			if v.Kind() != canon.ArrayKind {
				say("/matchers", "it has to be an array")
			}
			for i, e := range v.Elements() {
				p.Matchers = append(p.Matchers, readMatcher("/matchers/"+strconv.Itoa(i), e, say))
			}
		case "arrays":
			if v.Kind() != canon.ArrayKind {
				say("/arrays", "it has to be an array")
			}
			for i, e := range v.Elements() {
				if e.Kind() != canon.StringKind {
					say("/arrays/"+strconv.Itoa(i), "it has to be a text")
				}
				p.Arrays = append(p.Arrays, e.Str())
			}
		default:
			say("/"+escape.Replace(name), "there is no such member")
		}
	}
	if len(wrong) > 0 {
		return Pattern{}, errors.Join(wrong...)
	}
	if err := p.Check(); err != nil {
		return Pattern{}, err
	}
	return p, nil
}

func readMatcher(at string, v canon.Value, say func(at, what string)) Matcher {
	var m Matcher
	if v.Kind() != canon.ObjectKind {
		say(at, "a matcher is an object")
		return m
	}
	for name := range v.All() {
		if name != "path" && name != "op" && name != "value" {
			say(at+"/"+escape.Replace(name), "there is no such member")
		}
	}
	text := func(name string) string {
		t, ok := v.Get(name)
		if !ok {
			say(at+"/"+name, "it is missing")
		} else if t.Kind() != canon.StringKind {
			say(at+"/"+name, "it has to be a text")
		}
		return t.Str()
	}
	m.Path, m.Op = text("path"), Op(text("op"))
	value, there := v.Get("value")
	if there == (m.Op == Any) {
		if there {
			say(at+"/value", "any takes none")
		} else {
			say(at+"/value", "it is missing")
		}
	}
	m.Value = value
	return m
}
