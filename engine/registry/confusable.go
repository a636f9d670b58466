package registry

import (
	"strings"

	"holdpoint/engine/confusable"
)

// ConfusableName reports whether a tool's name could be taken for another's: by what
// cannot be seen in it, or by how it is drawn. "*" means every tool elsewhere.
func ConfusableName(name string) bool { return name == "*" || !confusable.ClearName(name) }

// AddTool registers a tool in the snapshot, and under what its name is drawn like.
func (s *Snapshot) AddTool(t Tool) {
	if s.Tools == nil {
		s.Tools = map[string]Tool{}
	}
	if s.looks == nil {
		s.looks = map[string]string{}
	}
	s.Tools[t.Name] = t
	for _, look := range looksOf(t.Name) {
		if other, taken := s.looks[look]; !taken || t.Name < other {
			s.looks[look] = t.Name
		}
	}
}

// lookalike is the registered tool, the first by name, that looks like the one
// called name, or differs from it by case only; false for none.
func (s *Snapshot) lookalike(name string) (known string, ok bool) {
	for _, look := range looksOf(name) {
		if other, alike := s.looks[look]; alike && (!ok || other < known) {
			known, ok = other, true
		}
	}
	return known, ok
}

// looksOf is what a name is drawn like, as it is and in lower case: many hosts of tools take a
// name in any case. A capital I is drawn like l, and is an i.
func looksOf(name string) [2]string {
	return [2]string{confusable.Skeleton(name), confusable.Skeleton(strings.ToLower(name))}
}
