package registry

import "holdpoint/engine/confusable"

// ConfusableName reports whether a tool's name could be taken for another's: by what
// cannot be seen in it, or by how it is drawn. "*" means every tool elsewhere.
func ConfusableName(name string) bool { return name == "*" || !confusable.ClearName(name) }

// AddTool adds a tool to the snapshot, and its name to those by which lookalikes are found.
func (s *Snapshot) AddTool(t Tool) {
	if s.Tools == nil {
		s.Tools = map[string]Tool{}
	}
	s.Tools[t.Name] = t
	s.names.Add(t.Name)
}
