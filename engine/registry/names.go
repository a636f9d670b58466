package registry

import (
	"strings"

	"holdpoint/engine/confusable"
)

// Names are the names of tools that somebody has written down. The zero value is empty.
type Names struct {
	known    map[string]bool
	looks    map[string]string // the first name that looks so
	prefixes map[string]string // the beginnings of names, by how they look
}

// Add adds a name.
func (n *Names) Add(name string) {
	if n.known == nil {
		n.known, n.looks = map[string]bool{}, map[string]string{}
	}
	n.known[name] = true
	for _, look := range looksOf(name) {
		if other, taken := n.looks[look]; !taken || name < other {
			n.looks[look] = name
		}
	}
}

// AddPrefix adds all names that begin so.
func (n *Names) AddPrefix(prefix string) {
	if n.prefixes == nil {
		n.prefixes = map[string]string{}
	}
	for _, look := range looksOf(prefix) {
		n.prefixes[look] = prefix
	}
}

// Lookalike is the name, the first of several, that a name which is none of them looks like, or
// differs from by case only; a beginning ends with "*". false for none, and for one of them.
func (n *Names) Lookalike(name string) (known string, ok bool) {
	if n.known[name] {
		return "", false
	}
	looks := looksOf(name)
	for _, look := range looks {
		if other, alike := n.looks[look]; alike && (!ok || other < known) {
			known, ok = other, true
		}
	}
	if ok {
		return known, true
	}
	for look, prefix := range n.prefixes {
		switch {
		case strings.HasPrefix(name, prefix):
			return "", false
		case strings.HasPrefix(looks[0], look) || strings.HasPrefix(looks[1], look):
			if other := prefix + "*"; !ok || other < known {
				known, ok = other, true
			}
		}
	}
	return known, ok
}

// looksOf is what a name is drawn like, as it is and in lower case: many hosts of tools take a
// name in any case. A capital I is drawn like l, and is an i.
func looksOf(name string) [2]string {
	return [2]string{confusable.Skeleton(name), confusable.Skeleton(strings.ToLower(name))}
}
