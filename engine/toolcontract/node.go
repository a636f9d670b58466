package toolcontract

import (
	"strings"

	"holdpoint/engine/canon"
)

// position is a place in a file, counted from 1; 0 is unknown.
type position struct{ line, column int }

// node is a part of a contract document, be it from YAML or JSON.
type node struct {
	kind    canon.Kind
	text    string // of a string
	flag    bool   // of a boolean
	elems   []node
	members []member
	at      position
}

type member struct {
	name  string
	at    position
	value node
}

// fromValue is the tree of a JSON value, without positions.
func fromValue(v canon.Value) node {
	n := node{kind: v.Kind(), text: v.Str(), flag: v.Bool()}
	for _, e := range v.Elements() {
		n.elems = append(n.elems, fromValue(e))
	}
	for name, m := range v.All() {
		n.members = append(n.members, member{name: name, value: fromValue(m)})
	}
	return n
}

// place takes over the positions of a tree of the same shape.
func (n *node) place(from node) {
	n.at = from.at
	for i := range min(len(n.elems), len(from.elems)) {
		n.elems[i].place(from.elems[i])
	}
	for i := range min(len(n.members), len(from.members)) {
		n.members[i].at = from.members[i].at
		n.members[i].value.place(from.members[i].value)
	}
}

// step is the path to a member or element below path: a.b, a["two words"].
func step(path, name string) string {
	plain := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	}) && (name[0] < '0' || name[0] > '9')
	switch {
	case !plain:
		return path + `[` + string(canon.String(strings.ToValidUTF8(strings.ReplaceAll(name, "\x00", ""), "�")).Canonical()) + `]`
	case path == "":
		return name
	}
	return path + "." + name
}
