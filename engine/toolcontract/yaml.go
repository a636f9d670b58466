package toolcontract

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"holdpoint/engine/canon"
)

// readYAML reads what YAML has in common with JSON: one document of mappings,
// lists and scalars. Anchors, aliases, tags and merge keys are mistakes: what
// they stand for is not what the reader of the file sees.
func (c *compiler) readYAML(text string) (root node, ok bool) {
	defer func() {
		if recover() != nil { // the library has met something that it did not expect
			c.add(position{1, 1}, "", Syntax, "the file cannot be read as YAML", "")
			root, ok = node{}, false
		}
	}()
	// The parser recurses, so nesting is bounded before it begins.
	if line := tooNested(text); line > 0 {
		c.add(position{line, 1}, "", Syntax, "too many lists and mappings are inside each other", "")
		return node{}, false
	}
	tokens := lexer.Tokenize(text)
	if !c.plainTokens(tokens) {
		return node{}, false
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := position{1, 1}, ""
		var syntax interface {
			GetToken() *token.Token
			GetMessage() string
		}
		if errors.As(err, &syntax) {
			at = positionOf(syntax.GetToken())
			message, _, _ = strings.Cut(": "+syntax.GetMessage(), "\n")
		}
		c.add(at, "", Syntax, "the file is not YAML"+message, "")
		return node{}, false
	}
	var bodies []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil {
			bodies = append(bodies, d.Body)
		}
	}
	if len(bodies) != 1 {
		c.add(position{1, 1}, "", Syntax, "the file has to hold one document", "begin it with "+rootKey+":")
		return node{}, false
	}
	before := len(c.list)
	root = c.fromYAML(bodies[0])
	return root, len(c.list) == before
}

// maxNesting is far more than contracts need, which is four.
const maxNesting = 64

// tooNested is the first line that may nest deeper than maxNesting, or 0. It
// counts brackets in texts too, which no contract has so many of.
func tooNested(text string) int {
	depth, number := 0, 0
	for line := range strings.Lines(text) {
		number++
		dashes, indent, inIndent := 0, 0, true
		for _, r := range line {
			switch r {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(depth-1, 0)
			case '-', '?', ':':
				if inIndent {
					dashes++
				}
			}
			if inIndent = inIndent && strings.ContainsRune("-?: \t", r); inIndent {
				indent++
			}
		}
		if depth > maxNesting || dashes > maxNesting || indent > 4*maxNesting {
			return number
		}
	}
	return 0
}

func (c *compiler) plainTokens(tokens token.Tokens) bool {
	before := len(c.list)
	for _, t := range tokens {
		var what string
		switch t.Type {
		case token.AnchorType, token.AliasType:
			what = "anchors and aliases are not allowed"
		case token.MergeKeyType:
			what = "merge keys are not allowed"
		case token.TagType, token.DirectiveType:
			what = "tags and directives are not allowed"
		case token.MappingKeyType:
			what = "keys with a question mark are not allowed"
		case token.InvalidType:
			what = "the file is not YAML"
		default:
			continue
		}
		hint := "write out what it stands for"
		if t.Type == token.AliasType {
			hint = `put a text that begins with * in quotes`
		}
		c.add(positionOf(t), "", Syntax, what, hint)
	}
	return len(c.list) == before
}

func positionOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// fromYAML is the tree below a node.
func (c *compiler) fromYAML(n ast.Node) node {
	out := node{at: positionOf(n.GetToken())}
	switch n := n.(type) {
	case *ast.MappingNode:
		out.kind = canon.ObjectKind
		for i, m := range n.Values {
			out.members = append(out.members, c.memberOf(m))
			if i == 0 && !n.IsFlowStyle {
				out.at = out.members[0].at
			}
		}
	case *ast.MappingValueNode:
		out.kind = canon.ObjectKind
		out.members = append(out.members, c.memberOf(n))
		out.at = out.members[0].at
	case *ast.SequenceNode:
		out.kind = canon.ArrayKind
		for _, e := range n.Values {
			out.elems = append(out.elems, c.fromYAML(e))
		}
	case *ast.StringNode:
		out.kind, out.text = canon.StringKind, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = canon.StringKind, n.Value.Value
	case *ast.BoolNode:
		out.kind, out.flag = canon.BoolKind, n.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind = canon.NumberKind
	case *ast.NullNode:
		out.kind = canon.NullKind
	default:
		c.add(out.at, "", Syntax, "contracts have nothing like this", "")
	}
	return out
}

func (c *compiler) memberOf(m *ast.MappingValueNode) member {
	out := member{at: positionOf(m.Key.GetToken()), value: c.fromYAML(m.Value)}
	switch key := m.Key.(type) {
	case *ast.StringNode:
		out.name = key.Value
	default:
		c.add(out.at, "", WrongType, "a key has to be text", "put it in quotes")
	}
	if out.value.at == (position{1, 1}) {
		out.value.at = out.at
	}
	return out
}
