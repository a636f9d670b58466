package safeai

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

const (
	rootKey   = "tool_contracts"
	tagsKey   = "allowed_request_tags"
	fieldsKey = "allowed_response_fields"
	maskKey   = "mask_response"

	requestFieldsKey = "allowed_request_fields"
	approvalKey      = "requires_approval"
)

// maxName bounds the names of tools, tags and fields, in bytes.
const maxName = 256

// Parse reads contracts that came with a call: the value of tool_contracts.
// The Set is nil exactly if there are problems. They have no line.
func Parse(v canon.Value) (*Set, []Problem) {
	c := compiler{}
	set := newSet(c.contracts(source.Of(v), rootKey))
	if len(c.list) > 0 {
		return nil, c.sorted()
	}
	return set, nil
}

// compiler turns a document into contracts and collects what is wrong with it.
type compiler struct {
	problems
	// file: tags have to be such as calls have.
	strict bool
}

// document reads {tool_contracts: …}.
func (c *compiler) document(n source.Node) *Set {
	var contracts []*contract
	switch {
	case !c.mapping(n, ""):
	case isAlpha(n):
		contracts = c.alpha(n)
	default:
		for m := range n.Members() {
			if m.Name != rootKey {
				c.add(m.Key, m.Name, UnknownKey, source.Quote(m.Name)+" is no key of a contract file", "the only one is "+rootKey)
			}
		}
		root, found := n.Get(rootKey)
		if !found {
			c.add(n.Position(), "", MissingKey, rootKey+" is missing", "put the tools under "+rootKey+":")
		} else {
			contracts = c.contracts(root, rootKey)
		}
	}
	if len(c.list) > 0 {
		return nil
	}
	return newSet(contracts)
}

// contracts reads the mapping of tools.
func (c *compiler) contracts(n source.Node, path string) []*contract {
	if !c.mapping(n, path) {
		return nil
	}
	var out []*contract
	seen := map[string]bool{}
	for m := range n.Members() {
		at, tool := step(path, m.Name), strings.TrimSpace(m.Name)
		switch {
		case !usable(tool):
			c.add(m.Key, at, BadTool, "a tool has to have a name that can be seen", "")
		case len(tool) > maxName:
			c.add(m.Key, at, BadTool, "a tool's name has at most "+strconv.Itoa(maxName)+" bytes", "")
		case seen[tool]:
			c.add(m.Key, at, DuplicateTool, source.Quote(tool)+" has a contract already", "join the two, or rename one")
		}
		seen[tool] = true
		out = append(out, c.contract(m.Node, tool, at))
	}
	return out
}

func (c *compiler) contract(n source.Node, tool, path string) *contract {
	out := &contract{tool: tool}
	if !c.mapping(n, path) {
		return out
	}
	for m := range n.Members() {
		at := step(path, m.Name)
		switch m.Name {
		case tagsKey:
			out.tags = c.tags(m.Node, at)
		case fieldsKey:
			out.fields = c.fields(m.Node, at)
		case maskKey:
			out.maskResponse = c.boolean(m.Node, at)
		case requestFieldsKey:
			out.requestFields, out.boundsFields = c.fields(m.Node, at), m.Value.Kind() == canon.ArrayKind
		case approvalKey:
			out.approval = c.boolean(m.Node, at)
		default:
			c.add(m.Key, at, UnknownKey, source.Quote(m.Name)+" is no key of a contract", "the keys are "+tagsKey+", "+requestFieldsKey+", "+fieldsKey+", "+maskKey+" and "+approvalKey)
		}
	}
	return out
}

func (c *compiler) tags(n source.Node, path string) []string {
	var out []string
	for i, e := range c.items(n, path) {
		at := path + "[" + strconv.Itoa(i) + "]"
		if e.Value.Kind() != canon.StringKind {
			c.wrongType(e, at, "a tag as text")
			continue
		}
		tag := normal(e.Value.Str())
		if c.strict {
			c.checkTag(e, tag, at)
		}
		if tag != "" {
			out = append(out, tag)
		}
	}
	return out
}

// checkTag refuses what would silently allow nothing.
func (c *compiler) checkTag(e source.Node, tag, path string) {
	switch {
	case tag == "":
		c.add(e.Position(), path, BadTag, "a tag has at least one part", "write personal.pii.email, for example")
	case len(tag) > maxName:
		c.add(e.Position(), path, BadTag, "a tag has at most "+strconv.Itoa(maxName)+" bytes", "")
	case strings.ContainsAny(tag, "*?"):
		c.add(e.Position(), path, BadTag, source.Quote(e.Value.Str())+" has a wildcard, and there are none", "a tag covers everything below it: write personal for all that is personal")
	case strings.ContainsFunc(tag, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		c.add(e.Position(), path, BadTag, source.Quote(e.Value.Str())+" holds a blank or a character that cannot be seen", "part words with dots")
	}
}

func (c *compiler) fields(n source.Node, path string) []string {
	var out []string
	for i, e := range c.items(n, path) {
		at := path + "[" + strconv.Itoa(i) + "]"
		if e.Value.Kind() != canon.StringKind {
			c.wrongType(e, at, "a field's name as text")
			continue
		}
		name := strings.TrimSpace(e.Value.Str())
		if c.strict && !usable(name) {
			c.add(e.Position(), at, BadField, "a field has to have a name that can be seen", "")
		}
		if name != "" {
			out = append(out, name)
		}
	}
	return out
}

// items is the elements of a list; null is an empty one.
func (c *compiler) items(n source.Node, path string) []source.Node {
	switch n.Value.Kind() {
	case canon.ArrayKind:
	case canon.NullKind:
		return nil
	default:
		c.wrongType(n, path, "a list")
		return nil
	}
	out := make([]source.Node, n.Value.Len())
	for i := range out {
		out[i] = n.Element(i)
	}
	return out
}

func (c *compiler) mapping(n source.Node, path string) bool {
	if n.Value.Kind() == canon.ObjectKind {
		return true
	}
	c.wrongType(n, path, "a mapping")
	return false
}

func (c *compiler) wrongType(n source.Node, path, want string) {
	hint := ""
	if n.Value.Kind() == canon.NumberKind || n.Value.Kind() == canon.BoolKind && strings.Contains(want, "text") {
		hint = "put it in quotes"
	}
	if n.Value.Kind() == canon.NullKind && want == "a mapping" {
		hint = "write {} for an empty one"
	}
	c.add(n.Position(), path, WrongType, "this has to be "+want+", not "+n.Value.Kind().String(), hint)
}

// usable reports whether a name is valid text with something to see in it.
func usable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl) &&
		strings.ContainsFunc(name, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}

// step is the path to a member or element below path: a.b, a["two words"].
func step(path, name string) string {
	plain := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	}) && (name[0] < '0' || name[0] > '9')
	switch {
	case !plain:
		return path + `[` + string(canon.String(name).Canonical()) + `]`
	case path == "":
		return name
	}
	return path + "." + name
}
