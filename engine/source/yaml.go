package source

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"holdpoint/engine/canon"
)

// yaml reads a document with its places. The tree is the one that the same
// document in JSON gives, and is bounded alike.
func (r *reader) yaml(data []byte) Node {
	switch text := string(data); {
	case !utf8.ValidString(text):
		r.fail(Position{1, 1}, "", canon.InvalidUTF8, "the file is not valid UTF-8", hints[canon.InvalidUTF8])
	case strings.HasPrefix(text, "\uFEFF"):
		r.fail(Position{1, 1}, "", canon.ByteOrderMark, "the file begins with a byte order mark", hints[canon.ByteOrderMark])
	default:
		// The library counts a CR LF behind a comment as two lines; to YAML any
		// line break is LF.
		if root, ok := r.parse(strings.ReplaceAll(text, "\r\n", "\n")); ok {
			at := &place{}
			return Node{Value: r.value(root, "", Position{1, 1}, at), at: at}
		}
	}
	return Node{}
}

// failAt reports a mistake at a token.
func (r *reader) failAt(t *token.Token, path, code, message, hint string) {
	r.fail(positionOf(t, Position{1, 1}), path, code, message, hint)
}

// maxReason bounds what the library says, which may quote a whole line.
const maxReason = 200

func (r *reader) notYAML(t *token.Token, reason string) {
	reason, _, _ = strings.Cut(reason, "\n")
	r.failAt(t, "", canon.Syntax, "the file is not YAML: "+cut(reason, maxReason), "")
}

// positionOf is where the token begins. For one that is not in the text it is
// where what it belongs to does.
func positionOf(t *token.Token, owner Position) Position {
	if t == nil || t.Position == nil {
		return owner
	}
	return Position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// beginOf is where a node begins. A mapping in block style begins with its first
// key; the token that the library names is the colon.
func beginOf(n ast.Node, owner Position) Position {
	t := n.GetToken()
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			t = n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		t = n.Key.GetToken()
	default:
	}
	return positionOf(t, owner)
}

// parse makes one tree of the text.
func (r *reader) parse(text string) (root ast.Node, ok bool) {
	defer func() {
		if recover() != nil { // the library has met something that it did not expect
			r.fail(Position{1, 1}, "", canon.Syntax, "the file cannot be read as YAML", "")
			root, ok = nil, false
		}
	}()
	tokens, ok := r.tokens(text)
	if !ok {
		return nil, false
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax interface {
			GetToken() *token.Token
			GetMessage() string
		}
		if errors.As(err, &syntax) {
			r.notYAML(syntax.GetToken(), syntax.GetMessage())
		} else {
			r.notYAML(nil, "it cannot be read")
		}
		return nil, false
	}
	for _, d := range file.Docs {
		switch {
		case d.Body == nil:
		case root != nil:
			r.fail(beginOf(d.Body, Position{1, 1}), "", YAMLDocuments, oneDocument, "")
			return nil, false
		default:
			root = d.Body
		}
	}
	if root == nil {
		r.failAt(nil, "", canon.Syntax, "the file has to hold one document", "")
	}
	return root, root != nil
}

// value turns a node into a value, and notes its place. What cannot be a value
// is reported, and null instead. owner is where the list or the key begins that
// the node belongs to.
func (r *reader) value(n ast.Node, path string, owner Position, at *place) canon.Value {
	if at.Position = owner; n == nil {
		return canon.Null()
	}
	at.Position = beginOf(n, owner)
	if r.values++; r.values > canon.MaxValues {
		if !r.crowded {
			r.fail(at.Position, path, canon.TooManyValues, "a document may hold at most "+strconv.Itoa(canon.MaxValues)+" values", "")
		}
		r.crowded = true
		return canon.Null()
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return r.mapping(n.Values, at, path)
	case *ast.MappingValueNode:
		return r.mapping([]*ast.MappingValueNode{n}, at, path)
	case *ast.SequenceNode:
		return r.list(n, at, path)
	case *ast.StringNode:
		if n.Token.Type == token.StringType && number.MatchString(n.Value) {
			return r.number(n.Value, at.Position, path) // 1e3, which the library takes for text
		}
		r.checkWord(n, at.Position, path, "put it in quotes, or write true or false")
		return r.text(n.Value, at.Position, path)
	case *ast.LiteralNode:
		return r.text(n.Value.Value, at.Position, path)
	case *ast.BoolNode:
		return canon.Bool(n.Value)
	case *ast.NullNode:
		return canon.Null()
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return r.number(n.GetToken().Value, at.Position, path)
	default:
		r.fail(at.Position, path, canon.Syntax, "JSON has nothing like this", "")
		return canon.Null()
	}
}

func (r *reader) list(n *ast.SequenceNode, at *place, path string) canon.Value {
	elements := make([]canon.Value, len(n.Values))
	at.kids = make([]place, len(n.Values))
	for i, e := range n.Values {
		if r.crowded {
			break
		}
		elements[i] = r.value(e, path+"/"+strconv.Itoa(i), at.Position, &at.kids[i])
	}
	return canon.Array(elements...)
}

func (r *reader) mapping(pairs []*ast.MappingValueNode, at *place, path string) canon.Value {
	if len(pairs) > canon.MaxMembers {
		r.failAt(pairs[canon.MaxMembers].Key.GetToken(), path, canon.TooManyMembers, tooManyMembers, "")
		return canon.Null()
	}
	members := make([]canon.Member, 0, len(pairs))
	at.keys, at.kids = make([]Position, 0, len(pairs)), make([]place, 0, len(pairs))
	seen := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		if r.crowded {
			break
		}
		key := positionOf(pair.Key.GetToken(), at.Position)
		name, ok := r.key(pair.Key, key, path)
		if !ok {
			continue
		}
		inside, folded := Pointer(path, name), strings.Map(fold, name)
		if before, twice := seen[folded]; twice {
			code, message := canon.DuplicateKey, "two members of one object have the same name"
			if before != name {
				code, message = canon.CaseVariantKey, "two members of one object have names that differ only by case"
			}
			r.fail(key, inside, code, message, hints[code])
			continue
		}
		seen[folded] = name
		at.keys, at.kids = append(at.keys, key), append(at.kids, place{})
		v := r.value(pair.Value, inside, key, &at.kids[len(members)])
		members = append(members, canon.Member{Name: name, Value: v})
	}
	return canon.Object(members...)
}

// fold maps letters that differ only by case to one of them, as canon does.
func fold(c rune) rune {
	least := c
	for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return least
}

// key is the name of a member, which has to be text.
func (r *reader) key(n ast.MapKeyNode, at Position, path string) (string, bool) {
	s, ok := n.(*ast.StringNode)
	if !ok || s.Token.Type == token.StringType && number.MatchString(s.Value) {
		r.fail(at, path, YAMLKey, "a key is not text", "put it in quotes")
		return "", false
	}
	ok = r.checkWord(s, at, path, "put it in quotes")
	return s.Value, ok && r.text(s.Value, at, path).Kind() == canon.StringKind
}

// checkWord refuses a plain word that YAML 1.1 takes for a boolean and YAML 1.2
// for text.
func (r *reader) checkWord(n *ast.StringNode, at Position, path, hint string) bool {
	if n.Token.Type == token.StringType {
		switch strings.ToLower(n.Value) {
		case "yes", "no", "on", "off":
			r.fail(at, path, YAMLWord, "some readers of YAML take "+n.Value+" for a boolean", hint)
			return false
		}
	}
	return true
}

func (r *reader) text(s string, at Position, path string) canon.Value {
	switch {
	case strings.IndexByte(s, 0) >= 0:
		r.fail(at, path, canon.NULCharacter, "a text holds a NUL", "")
	case !utf8.ValidString(s):
		r.fail(at, path, canon.LoneSurrogate, "a text holds what is no character", "")
	default:
		return canon.String(s)
	}
	return canon.Null()
}

// number is what YAML 1.2's core schema takes for one.
var number = regexp.MustCompile(`^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+)$`)

// number reads a number by JSON's grammar and canon's rules.
func (r *reader) number(text string, at Position, path string) canon.Value {
	v, err := canon.Parse([]byte(text))
	if err == nil && v.Kind() == canon.NumberKind {
		return v
	}
	var syntax *canon.SyntaxError
	if errors.As(err, &syntax) && syntax.Code == canon.NotExact {
		r.fail(at, path, syntax.Code, syntax.Message, hints[syntax.Code])
	} else {
		r.fail(at, path, YAMLNumber, Quote(text)+" is not a number as JSON writes it", "write digits only, or put it in quotes")
	}
	return canon.Null()
}
