package scim

import (
	"maps"
	"slices"
	"strings"
)

// Patch applies the operations of a PATCH body to a resource (RFC 7644, section 3.5.2),
// and returns what it is to be. It takes what providers send beside the letter of it: any
// capitals in op, a removal with a value, names with dots in a value without a path.
// What the kind does not have is left out, as it is when a resource is replaced. What a
// path names and the server alone says (id, meta, groups) is an Error, mutability.
func (k *Kind) Patch(r Resource, body map[string]any) (Resource, error) {
	patch := Resource{}
	for name, value := range body {
		patch[strings.ToLower(name)] = value
	}
	if !slices.Contains(elements(patch["schemas"]), any(PatchSchema)) {
		return nil, wrong("invalidSyntax", "schemas has to have %s.", PatchSchema)
	}
	ops, ok := patch["operations"].([]any)
	if !ok || len(ops) == 0 || len(ops) > maxOps {
		return nil, wrong("invalidSyntax", "Operations has to be a list of 1 to %d operations.", maxOps)
	}
	out := Resource{}
	for name, value := range r {
		out[name] = copied(value)
	}
	for _, one := range ops {
		object, ok := one.(map[string]any)
		if !ok {
			return nil, wrong("invalidSyntax", "An operation has to be an object.")
		}
		op := Resource{}
		for name, value := range object {
			op[strings.ToLower(name)] = value
		}
		if err := k.apply(out, op); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// copied is a value that can be changed without changing the one given.
func copied(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, inner := range v {
			out[name] = copied(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = copied(one)
		}
		return out
	}
	return value
}

// apply applies one operation.
func (k *Kind) apply(r, op Resource) error {
	verb, _ := op["op"].(string)
	path, isText := op["path"].(string)
	if op["path"] != nil && !isText {
		return wrong("invalidPath", "path has to be a text.")
	}
	value, hasValue := op["value"]
	verb = strings.ToLower(verb)
	switch {
	case verb != "add" && verb != "replace" && verb != "remove":
		return wrong("invalidSyntax", "op has to be add, replace or remove.")
	case verb != "remove" && !hasValue:
		return wrong("invalidValue", "%s takes a value.", verb)
	case verb == "remove" && path == "":
		return wrong("noTarget", "remove takes a path.")
	case path != "":
		return k.applyAt(r, verb, path, value)
	}
	// Without a path a provider may send a resource as it was answered, with what is the server's.
	parts, ok := value.(map[string]any)
	if !ok {
		return wrong("invalidValue", "An operation without a path takes an object as its value.")
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		a, _ := k.find(name)
		if top, _, _ := strings.Cut(a.name, "."); top == "meta" || top == "groups" {
			continue
		}
		if err := k.applyAt(r, verb, name, parts[name]); err != nil {
			return err
		}
	}
	return nil
}

// target is where an operation applies: an attribute, those of its elements that a
// filter matches, and a part of it or of them.
type target struct {
	name    string
	matches node // nil for all
	sub     string
}

// target reads a path. It is nil for what the kind does not have.
func (k *Kind) target(path string) (*target, error) {
	p, err := newParser(k, path)
	if err != nil || len(p.tokens) == 0 {
		return nil, wrong("invalidPath", "%.100q is no path.", path)
	}
	whole, known := k.find(p.tokens[0])
	name, sub, _ := strings.Cut(whole.name, ".")
	if !known {
		// The part of an attribute that is known may be one that is not.
		name, _, _ = strings.Cut(k.withoutSchema(p.tokens[0]), ".")
		a, ok := k.find(name)
		if !ok || len(p.tokens) > 1 {
			return nil, nil
		}
		return &target{name: a.name, sub: strings.TrimPrefix(k.withoutSchema(p.tokens[0])[len(name):], ".")}, nil
	}
	p.at++
	t := &target{name: name, sub: sub}
	if whole.multi && p.take("[") {
		if t.matches, err = p.or(name); err != nil || !p.take("]") {
			return nil, wrong("invalidPath", "%.100q has a filter that cannot be read.", path)
		}
		if rest := p.next(); strings.HasPrefix(rest, ".") && len(rest) > 1 {
			p.at++
			t.sub = rest[1:]
			if a, ok := k.find(name + rest); ok {
				t.sub = strings.TrimPrefix(a.name, name+".")
			}
		}
	}
	if p.at < len(p.tokens) {
		return nil, wrong("invalidPath", "%.100q is no path.", path)
	}
	return t, nil
}

func (k *Kind) applyAt(r Resource, verb, path string, value any) error {
	t, err := k.target(path)
	if err != nil || t == nil {
		return err
	}
	switch t.name {
	case "id":
		if verb != "remove" && value == r["id"] {
			return nil
		}
		return wrong("mutability", "id is the server's, and is never changed.")
	case "meta", "groups":
		return wrong("mutability", "%s is the server's: it is read only.", t.name)
	case "schemas", "emails":
		return nil // a value that is sent for them is ignored
	}
	value = k.spelled(t.name, value)
	if k.attributes[strings.ToLower(t.name)].multi {
		return t.several(r, verb, value)
	}
	return t.single(r, verb, value)
}

// single changes an attribute that has one value.
func (t *target) single(r Resource, verb string, value any) error {
	switch {
	case t.sub == "" && (verb == "remove" || value == nil):
		delete(r, t.name)
	case t.sub == "":
		parts, isObject := value.(map[string]any)
		former, was := r[t.name].(map[string]any)
		if !isObject || !was {
			r[t.name] = value
			return nil
		}
		maps.Copy(former, parts)
	default:
		parts, ok := r[t.name].(map[string]any)
		if !ok {
			parts = map[string]any{}
		}
		set(parts, t.sub, verb, value)
		r[t.name] = parts
	}
	return nil
}

// set sets, or removes, a part of a value.
func set(parts map[string]any, sub, verb string, value any) {
	if verb == "remove" || value == nil {
		delete(parts, sub)
	} else {
		parts[sub] = value
	}
}

// several changes an attribute that has several values.
func (t *target) several(r Resource, verb string, value any) error {
	list := slices.Clone(elements(r[t.name]))
	chosen := func(one any) bool {
		object, ok := one.(map[string]any)
		return ok && t.matches(object)
	}
	switch {
	case t.sub != "":
		return nil // what an element says beside its value is the server's
	case t.matches != nil && verb != "remove":
		return wrong("noTarget", "Elements of %s are added and removed, and never changed.", t.name)
	case t.matches != nil:
		list = slices.DeleteFunc(list, chosen)
	case verb == "remove" && value != nil:
		// Some name in a value what is to go; without one, all of it goes.
		gone := keys(elements(value))
		list = slices.DeleteFunc(list, func(one any) bool { return gone[key(one)] })
	case verb == "remove":
		list = nil
	case verb == "replace":
		list = elements(value)
	default:
		there := keys(list)
		for _, one := range elements(value) {
			if id := key(one); !there[id] {
				there[id] = true
				list = append(list, one)
			}
		}
	}
	if r[t.name] = list; len(list) == 0 {
		delete(r, t.name)
	}
	return nil
}

// key is what tells an element of a list from others.
func key(one any) string {
	if object, ok := one.(map[string]any); ok {
		one = object["value"]
	}
	text, _ := one.(string)
	return text
}

func keys(list []any) map[string]bool {
	all := map[string]bool{}
	for _, one := range list {
		all[key(one)] = true
	}
	return all
}
