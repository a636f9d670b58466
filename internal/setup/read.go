package setup

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

// Input is a file that somebody wrote.
type Input struct {
	Name string
	Data []byte
}

// Desired is what files say, and where they say it.
type Desired struct {
	Document
	Addresses Addresses

	has map[string]bool // the sections that are spoken of
	at  map[string]place
}

// Addresses are the secret addresses of endpoints by name, and of agents' webhooks by
// agent.
type Addresses struct {
	Endpoints map[string]string `json:"endpoints,omitempty"`
	Agents    map[string]string `json:"agents,omitempty"`
}

type place struct {
	source.Node
	file string
}

// Read reads files as one document: each may have any of the sections, and what one of
// them names no other does. addresses may have no data. With any problem nothing but
// the problems is of use.
func Read(files []Input, addresses Input) (*Desired, []source.Problem) {
	w := &Desired{has: map[string]bool{}, at: map[string]place{}}
	var problems []source.Problem
	for _, f := range files {
		root, wrong := source.Read(f.Data, source.Options{File: f.Name})
		if len(wrong) == 0 {
			wrong = source.Sort(w.document(root, f.Name), f.Name)
		}
		problems = append(problems, wrong...)
	}
	if len(addresses.Data) > 0 {
		var wrong []source.Problem
		root, unread := source.Read(addresses.Data, source.Options{File: addresses.Name})
		if len(unread) == 0 {
			decode(root, reflect.ValueOf(&w.Addresses).Elem(), func(p source.Problem) { wrong = append(wrong, p) })
		}
		problems = append(problems, append(unread, source.Sort(wrong, addresses.Name)...)...)
	}
	return w, problems
}

func (w *Desired) document(root source.Node, file string) []source.Problem {
	var problems []source.Problem
	fail := func(p source.Problem) { problems = append(problems, p) }
	if root.Value.Kind() != canon.ObjectKind {
		return []source.Problem{root.Problem(wrongType, "the file has to be an object: "+strings.Join(sections(), ", "), "")}
	}
	var d Document
	decode(root, reflect.ValueOf(&d).Elem(), fail)
	whole := len(problems) == 0
	for name := range words {
		if _, there := root.Get(name); there {
			w.has[name] = true
		}
	}
	if d.Settings != nil {
		w.put(root, file, settingsSection, -1, "", fail)
		w.Settings = d.Settings
	}
	for i := range d.People {
		d.People[i].Email, d.People[i].SameAs = address(d.People[i].Email), address(d.People[i].SameAs)
		w.put(root, file, peopleSection, i, d.People[i].Email, fail)
	}
	for i := range d.Tools {
		w.put(root, file, toolsSection, i, d.Tools[i].Name, fail)
	}
	for i := range d.Agents {
		d.Agents[i].Owner = address(d.Agents[i].Owner)
		w.put(root, file, agentsSection, i, d.Agents[i].ID, fail)
	}
	for i := range d.Endpoints {
		d.Endpoints[i].Name = strings.TrimSpace(d.Endpoints[i].Name)
		w.put(root, file, endpointsSection, i, d.Endpoints[i].Name, fail)
	}
	for i := range d.OnCall {
		w.put(root, file, onCallSection, i, d.OnCall[i].Name, fail)
	}
	if whole {
		w.People, w.Tools, w.Agents = append(w.People, d.People...), append(w.Tools, d.Tools...), append(w.Agents, d.Agents...)
		w.Endpoints, w.OnCall = append(w.Endpoints, d.Endpoints...), append(w.OnCall, d.OnCall...)
	}
	return problems
}

func address(text string) string { return strings.ToLower(strings.TrimSpace(text)) }

func sections() []string { return slices.Sorted(maps.Keys(words)) }

// put remembers where an entry is. Two of one name are a problem.
func (w *Desired) put(root source.Node, file, section string, i int, name string, fail func(source.Problem)) {
	n, _ := root.Get(section)
	if i >= 0 {
		n = n.Element(i)
	}
	key := section + "/" + name
	if first, there := w.at[key]; there && (name != "" || i < 0) {
		at := first.Position()
		fail(n.Problem(twice, fmt.Sprintf("%s: it is in %s already", entryName(section, name), strings.TrimSuffix(source.Place(first.file, at.Line, at.Column), ": ")), "remove one of them"))
		return
	}
	w.at[key] = place{n, file}
}

// entryName is how people call an entry.
func entryName(section, name string) string {
	if section == settingsSection {
		return "settings"
	}
	return words[section] + " " + strconv.Quote(name)
}

var fieldName = regexp.MustCompile(`^[a-z0-9_]+(\[[0-9]+\])?(\.[a-z0-9_]+(\[[0-9]+\])?)*$`)

// problem is a mistake in an entry. Where the text begins with the name of a field, as
// in "limits.agent.per: …", it is that field's.
func (w *Desired) problem(section, name, text string) source.Problem {
	at := w.at[section+"/"+name]
	if field, _, ok := strings.Cut(text, ": "); ok && fieldName.MatchString(field) {
		for part := range strings.SplitSeq(strings.NewReplacer("[", ".", "]", "").Replace(field), ".") {
			below, there := childOf(at.Node, part)
			if !there {
				break
			}
			at.Node = below
		}
	}
	p := at.Problem(unfit, entryName(section, name)+": "+text, "")
	p.File = at.file
	return p
}

func childOf(n source.Node, part string) (source.Node, bool) {
	if i, err := strconv.Atoi(part); err == nil && n.Value.Kind() == canon.ArrayKind && i < n.Value.Len() {
		return n.Element(i), true
	}
	return n.Get(part)
}
