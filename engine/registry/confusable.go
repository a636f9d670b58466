package registry

import "holdpoint/engine/confusable"

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
	skeleton := confusable.Skeleton(t.Name)
	if other, taken := s.looks[skeleton]; !taken || t.Name < other {
		s.looks[skeleton] = t.Name
	}
}

// lookalike is the registered tool, the first by name, that looks like the one
// called name; false for none.
func (s *Snapshot) lookalike(name string) (string, bool) {
	known, ok := s.looks[confusable.Skeleton(name)]
	return known, ok
}
