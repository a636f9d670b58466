package safeai

import (
	"strconv"
	"strings"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

// The members of a SafeAI contract file of the version v1alpha1:
//
//	version: v1alpha1
//	contract:                                    # or contracts: [ … ]
//	  tool_name: send_email
//	  accepts: {tags: [internal], fields: [to]}  # allowed_request_tags, allowed_request_fields
//	  emits: {tags: [internal], fields: [id]}    # fields are allowed_response_fields
//	  side_effects: {reversible: false, requires_approval: true}   # the latter is requires_approval
//	  stores: {fields: [to], retention: 30d}     # said, and without effect here
//
// What has no effect here is still held against its type.
const (
	alphaVersion = "v1alpha1"
	alphaOne     = "contract"
	alphaMany    = "contracts"
)

// isAlpha reports whether a document is one of SafeAI's own.
func isAlpha(n source.Node) bool {
	_, native := n.Get(rootKey)
	_, one := n.Get(alphaOne)
	_, many := n.Get(alphaMany)
	return !native && (one || many)
}

// alpha reads a document of the version v1alpha1.
func (c *compiler) alpha(n source.Node) []*contract {
	var out []*contract
	seen := map[string]bool{}
	add := func(n source.Node, path string) {
		one := c.alphaContract(n, path)
		if one.tool != "" && seen[one.tool] {
			c.add(n.Position(), path, DuplicateTool, source.Quote(one.tool)+" has a contract already", "join the two, or rename one")
		}
		seen[one.tool] = true
		out = append(out, one)
	}
	_, both := n.Get(alphaOne)
	for m := range n.Members() {
		switch m.Name {
		case "version":
			if m.Value.Kind() != canon.StringKind || m.Value.Str() != alphaVersion {
				c.add(m.Position(), m.Name, WrongType, "the version has to be "+alphaVersion, "")
			}
		case alphaOne:
			add(m.Node, m.Name)
		case alphaMany:
			if both {
				c.add(m.Key, m.Name, UnknownKey, "a file has either contract or contracts", "")
			}
			for i, e := range c.items(m.Node, m.Name) {
				add(e, m.Name+"["+strconv.Itoa(i)+"]")
			}
		default:
			c.add(m.Key, m.Name, UnknownKey, source.Quote(m.Name)+" is no key of a contract file of "+alphaVersion, "the keys are version, contract and contracts")
		}
	}
	return out
}

func (c *compiler) alphaContract(n source.Node, path string) *contract {
	out := &contract{}
	if !c.mapping(n, path) {
		return out
	}
	for m := range n.Members() {
		at := step(path, m.Name)
		switch m.Name {
		case "tool_name":
			out.tool = c.alphaTool(m.Node, at)
		case "description":
			c.text(m.Node, at)
		case "accepts":
			c.alphaIO(m.Node, at, &out.tags, &out.requestFields, &out.boundsFields)
		case "emits":
			var tags []string
			var bounds bool
			c.alphaIO(m.Node, at, &tags, &out.fields, &bounds)
		case "stores":
			c.alphaStores(m.Node, at)
		case "side_effects":
			out.approval = c.alphaEffects(m.Node, at)
		default:
			c.add(m.Key, at, UnknownKey, source.Quote(m.Name)+" is no key of a contract of "+alphaVersion, "the keys are tool_name, description, accepts, emits, stores and side_effects")
		}
	}
	c.require(n, path, "tool_name", "accepts", "emits", "side_effects")
	return out
}

// require refuses a mapping that lacks a member.
func (c *compiler) require(n source.Node, path string, names ...string) {
	for _, name := range names {
		if _, there := n.Get(name); !there {
			c.add(n.Position(), path, MissingKey, name+" is missing", "")
		}
	}
}

func (c *compiler) alphaTool(n source.Node, path string) string {
	tool := strings.TrimSpace(c.text(n, path))
	if n.Value.Kind() == canon.StringKind && (!usable(tool) || len(tool) > maxName) {
		c.add(n.Position(), path, BadTool, "a tool has to have a name that can be seen, of at most "+strconv.Itoa(maxName)+" bytes", "")
	}
	return tool
}

// alphaIO reads what a tool accepts, or emits.
func (c *compiler) alphaIO(n source.Node, path string, tags, fields *[]string, bounds *bool) {
	if !c.mapping(n, path) {
		return
	}
	for m := range n.Members() {
		at := step(path, m.Name)
		switch m.Name {
		case "tags":
			*tags = c.tags(m.Node, at)
		case "fields":
			*fields, *bounds = c.fields(m.Node, at), true
		default:
			c.add(m.Key, at, UnknownKey, source.Quote(m.Name)+" is no key here", "the keys are tags and fields")
		}
	}
}

func (c *compiler) alphaStores(n source.Node, path string) {
	if !c.mapping(n, path) {
		return
	}
	for m := range n.Members() {
		at := step(path, m.Name)
		switch m.Name {
		case "fields":
			c.fields(m.Node, at)
		case "retention":
			c.text(m.Node, at)
		default:
			c.add(m.Key, at, UnknownKey, source.Quote(m.Name)+" is no key here", "the keys are fields and retention")
		}
	}
}

// alphaEffects returns whether the tool's calls need an approval.
func (c *compiler) alphaEffects(n source.Node, path string) (approval bool) {
	if !c.mapping(n, path) {
		return false
	}
	for m := range n.Members() {
		at := step(path, m.Name)
		switch m.Name {
		case "reversible":
			c.boolean(m.Node, at)
		case approvalKey:
			approval = c.boolean(m.Node, at)
		case "description":
			c.text(m.Node, at)
		default:
			c.add(m.Key, at, UnknownKey, source.Quote(m.Name)+" is no key here", "the keys are reversible, requires_approval and description")
		}
	}
	c.require(n, path, "reversible", approvalKey)
	return approval
}

func (c *compiler) text(n source.Node, path string) string {
	if n.Value.Kind() != canon.StringKind {
		c.wrongType(n, path, "a text")
	}
	return n.Value.Str()
}

func (c *compiler) boolean(n source.Node, path string) bool {
	if n.Value.Kind() != canon.BoolKind {
		c.wrongType(n, path, "true or false")
	}
	return n.Value.Bool()
}
