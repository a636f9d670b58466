package toolcontract

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

const (
	rootKey   = "tool_contracts"
	tagsKey   = "allowed_request_tags"
	fieldsKey = "allowed_response_fields"
	maskKey   = "mask_response"
)

// maxName bounds the names of tools, tags and fields, in bytes.
const maxName = 256

// Compile reads contracts that came with a call: the value of tool_contracts.
// The Set is nil exactly if there are problems. They have no line.
func Compile(v canon.Value) (*Set, []Problem) {
	c := compiler{}
	set := newSet(c.contracts(fromValue(v), rootKey))
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
func (c *compiler) document(n node) *Set {
	var contracts []*contract
	switch {
	case !c.mapping(n, ""):
	default:
		found := false
		for _, m := range c.members(n, "") {
			if m.name != rootKey {
				c.add(m.at, m.name, UnknownKey, quote(m.name)+" is no key of a contract file", "the only one is "+rootKey)
				continue
			}
			found = true
			contracts = c.contracts(m.value, rootKey)
		}
		if !found {
			c.add(n.at, "", MissingKey, rootKey+" is missing", "put the tools under "+rootKey+":")
		}
	}
	if len(c.list) > 0 {
		return nil
	}
	return newSet(contracts)
}

// contracts reads the mapping of tools.
func (c *compiler) contracts(n node, path string) []*contract {
	if !c.mapping(n, path) {
		return nil
	}
	var out []*contract
	seen := map[string]bool{}
	for _, m := range n.members {
		at, tool := step(path, m.name), strings.TrimSpace(m.name)
		switch {
		case !usable(tool):
			c.add(m.at, at, BadTool, "a tool has to have a name that can be seen", "")
		case len(tool) > maxName:
			c.add(m.at, at, BadTool, "a tool's name has at most "+strconv.Itoa(maxName)+" bytes", "")
		case seen[tool]:
			c.add(m.at, at, DuplicateTool, quote(tool)+" has a contract already", "join the two, or rename one")
		}
		seen[tool] = true
		out = append(out, c.contract(m.value, tool, at))
	}
	return out
}

func (c *compiler) contract(n node, tool, path string) *contract {
	out := &contract{tool: tool}
	if !c.mapping(n, path) {
		return out
	}
	for _, m := range c.members(n, path) {
		at := step(path, m.name)
		switch m.name {
		case tagsKey:
			out.tags = c.tags(m.value, at)
		case fieldsKey:
			out.fields = c.fields(m.value, at)
		case maskKey:
			if m.value.kind != canon.BoolKind {
				c.wrongType(m.value, at, "true or false")
			}
			out.maskResponse = m.value.flag
		default:
			c.add(m.at, at, UnknownKey, quote(m.name)+" is no key of a contract", "the keys are "+tagsKey+", "+fieldsKey+" and "+maskKey)
		}
	}
	return out
}

func (c *compiler) tags(n node, path string) []string {
	var out []string
	for i, e := range c.items(n, path) {
		at := path + "[" + strconv.Itoa(i) + "]"
		if e.kind != canon.StringKind {
			c.wrongType(e, at, "a tag as text")
			continue
		}
		tag := normal(e.text)
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
func (c *compiler) checkTag(e node, tag, path string) {
	switch {
	case tag == "":
		c.add(e.at, path, BadTag, "a tag has at least one part", "write personal.pii.email, for example")
	case len(tag) > maxName:
		c.add(e.at, path, BadTag, "a tag has at most "+strconv.Itoa(maxName)+" bytes", "")
	case strings.ContainsAny(tag, "*?"):
		c.add(e.at, path, BadTag, quote(e.text)+" has a wildcard, and there are none", "a tag covers everything below it: write personal for all that is personal")
	case strings.ContainsFunc(tag, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		c.add(e.at, path, BadTag, quote(e.text)+" holds a blank or a character that cannot be seen", "part words with dots")
	}
}

func (c *compiler) fields(n node, path string) []string {
	var out []string
	for i, e := range c.items(n, path) {
		at := path + "[" + strconv.Itoa(i) + "]"
		if e.kind != canon.StringKind {
			c.wrongType(e, at, "a field's name as text")
			continue
		}
		name := strings.TrimSpace(e.text)
		if c.strict && !usable(name) {
			c.add(e.at, at, BadField, "a field has to have a name that can be seen", "")
		}
		if name != "" {
			out = append(out, name)
		}
	}
	return out
}

// items is the elements of a list; null is an empty one.
func (c *compiler) items(n node, path string) []node {
	if n.kind != canon.ArrayKind && n.kind != canon.NullKind {
		c.wrongType(n, path, "a list")
	}
	return n.elems
}

func (c *compiler) mapping(n node, path string) bool {
	if n.kind == canon.ObjectKind {
		return true
	}
	c.wrongType(n, path, "a mapping")
	return false
}

// members is the members of a mapping, without those whose key was there before.
func (c *compiler) members(n node, path string) []member {
	var out []member
	seen := map[string]bool{}
	for _, m := range n.members {
		if seen[m.name] {
			c.add(m.at, step(path, m.name), DuplicateKey, quote(m.name)+" is there twice", "keep one of them")
			continue
		}
		seen[m.name] = true
		out = append(out, m)
	}
	return out
}

func (c *compiler) wrongType(n node, path, want string) {
	hint := ""
	if n.kind == canon.NumberKind || n.kind == canon.BoolKind && strings.Contains(want, "text") {
		hint = "put it in quotes"
	}
	if n.kind == canon.NullKind && want == "a mapping" {
		hint = "write {} for an empty one"
	}
	c.add(n.at, path, WrongType, "this has to be "+want+", not "+n.kind.String(), hint)
}

// usable reports whether a name is valid text with something to see in it.
func usable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl) &&
		strings.ContainsFunc(name, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}

// quote shows a name from a file, cut short.
func quote(name string) string {
	const most = 60
	if len(name) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + "…"
	}
	return strconv.Quote(name)
}
