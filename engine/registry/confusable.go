package registry

import "holdpoint/engine/confusable"

// ConfusableName reports whether a tool's name could be taken for another's: by what
// cannot be seen in it, or by how it is drawn. "*" means every tool elsewhere.
func ConfusableName(name string) bool { return name == "*" || !confusable.ClearName(name) }

// lookalike is a registered tool, the first by name, that looks like the one
// called name; false for none.
func (s *Snapshot) lookalike(name string) (string, bool) {
	s.looksOnce.Do(func() {
		s.looks = make(map[string]string, len(s.Tools))
		for known := range s.Tools {
			skeleton := confusable.Skeleton(known)
			if other, taken := s.looks[skeleton]; !taken || known < other {
				s.looks[skeleton] = known
			}
		}
	})
	known, ok := s.looks[confusable.Skeleton(name)]
	return known, ok
}
