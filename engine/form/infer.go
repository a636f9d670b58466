package form

import "holdpoint/engine/canon"

// Infer makes a form without a schema: one field for each member of the
// current object, by the kind of its value. None is required, so an emptied
// field takes its member away; members cannot be added, but for what a field of
// JSON holds. Members beyond the first 200 have no field and are kept. The form
// of anything but an object has no fields, and Validate finds no problems.
func Infer(current canon.Value) *Form {
	left := MaxProperties
	return &Form{nodes: infer(current, 1, &left)}
}

func infer(object canon.Value, depth int, left *int) []node {
	var nodes []node
	for name, v := range object.All() {
		if *left == 0 {
			break
		}
		if name == "" {
			continue // no control can have this name
		}
		n := node{name: name, label: name, kind: JSON}
		switch v.Kind() {
		case canon.StringKind:
			n.kind = Text
		case canon.NumberKind:
			n.kind = Number
		case canon.BoolKind:
			n.kind = Boolean
		case canon.ObjectKind:
			// All of its members get a field, or it gets one.
			if depth < maxNesting && v.Len() > 0 && v.Len() <= *left && splits(object, name) && noDots(v) {
				before := *left
				if children := infer(v, depth+1, left); len(children) == v.Len() {
					n.group, n.children = true, children
				} else {
					*left = before
				}
			}
		case canon.NullKind, canon.ArrayKind:
		}
		if !n.group {
			*left--
		}
		nodes = append(nodes, n)
	}
	return nodes
}
