package form

import (
	"errors"
	"slices"
	"strings"

	"holdpoint/engine/canon"
)

// Read makes an object of the posted values, by the names of the fields; other
// names are not looked at. It starts from the current object, or from null for
// none: members that are not part of the form are kept, and members keep their
// order. A field that was not posted is an empty text.
//
// Read checks only what its controls promise; Validate checks the result by the
// schema. If there are problems the object is not to be used.
func (f *Form) Read(values map[string][]string, current canon.Value) (canon.Value, []Problem) {
	if current.Kind() != canon.ObjectKind && !current.IsNull() {
		return current, []Problem{{Message: "is not an object"}}
	}
	r := reader{values: values}
	object := r.object(f.nodes, current, nil)
	if len(r.problems) > 0 {
		return object, r.problems
	}
	// Its parts are fine, but together they may be more than a document may be.
	var syntax *canon.SyntaxError
	if _, err := canon.Parse(object.Canonical()); errors.As(err, &syntax) {
		return object, []Problem{{Message: "cannot be kept: " + syntax.Message}}
	}
	return object, nil
}

type reader struct {
	values   map[string][]string
	problems []Problem
}

func (r *reader) wrong(path []string, message string) {
	r.problems = append(r.problems, Problem{Field: strings.Join(path, "."), Path: pointer(path), Message: message})
}

// object is the current object with what was posted for its nodes.
func (r *reader) object(nodes []node, current canon.Value, path []string) canon.Value {
	members := current.Members()
	for i := range nodes {
		n := &nodes[i]
		at := append(path[:len(path):len(path)], n.name)
		old, there := current.Get(n.name)
		v, keep := old, there
		switch {
		case !n.group || there && old.Kind() != canon.ObjectKind:
			p := place{node: n, name: strings.Join(at, "."), required: n.required, current: old, there: there}
			p.kind = p.shape()
			var err error
			if v, keep, err = p.read(r.values[p.name]); err != nil {
				r.wrong(at, err.Error())
				v, keep = old, there
			}
		case there && old.Kind() != canon.ObjectKind:
			r.wrong(at, "is not an object")
		case there:
			v = r.object(n.children, old, at)
		case n.required || r.posted(n.children, at):
			v, keep = r.object(n.children, canon.Object(), at), true
		}
		members = r.set(members, n.name, v, keep, at)
	}
	return canon.Object(members...)
}

// posted reports whether there is a text for any field below path.
func (r *reader) posted(nodes []node, path []string) bool {
	found := false
	walk(nodes, canon.Null(), path, false, func(p place) {
		for _, text := range r.values[p.name] {
			found = found || text != ""
		}
	})
	return found
}

// set replaces, appends or leaves out a member.
func (r *reader) set(members []canon.Member, name string, v canon.Value, keep bool, path []string) []canon.Member {
	at := slices.IndexFunc(members, func(m canon.Member) bool { return strings.EqualFold(m.Name, name) })
	switch {
	case at >= 0 && members[at].Name != name:
		if keep {
			r.wrong(path, "has a name that differs only by case from another member's")
		}
	case at >= 0 && keep:
		members[at].Value = v
	case at >= 0:
		return slices.Delete(members, at, at+1)
	case keep:
		return append(members, canon.Member{Name: name, Value: v})
	}
	return members
}

// maxToken bounds what one member's name adds to a path, in bytes.
const maxToken = 64

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer is the JSON pointer (RFC 6901) of a path; long names are cut.
func pointer(path []string) string {
	var b strings.Builder
	for _, token := range path {
		b.WriteByte('/')
		if len(token) > maxToken {
			token = strings.ToValidUTF8(token[:maxToken], "") + "…"
		}
		b.WriteString(pointerEscapes.Replace(token))
	}
	return b.String()
}
