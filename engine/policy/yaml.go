package policy

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"holdpoint/engine/canon"
)

// readYAML reads a bundle from YAML with its places. Of YAML it takes what JSON
// can say, in one way only: one document, no duplicate keys, anchors, aliases,
// merge keys, tags or directives, keys that are text, numbers as JSON writes
// them, and no word that older YAML takes for a boolean. The tree is the one
// that the same bundle in JSON gives, and is bounded alike.
func readYAML(data []byte, r *reporter) (canon.Value, *place, bool) {
	y := &yamlReader{reporter: r}
	if !utf8.Valid(data) {
		r.add(Problem{Line: 1, Column: 1, Code: canon.InvalidUTF8, Message: "the file is not valid UTF-8", Hint: syntaxHints[canon.InvalidUTF8]})
		return canon.Value{}, nil, false
	}
	if strings.HasPrefix(string(data), "\uFEFF") {
		r.add(Problem{Line: 1, Column: 1, Code: canon.ByteOrderMark, Message: "the file begins with a byte order mark", Hint: syntaxHints[canon.ByteOrderMark]})
		return canon.Value{}, nil, false
	}
	root, ok := y.parse(string(data))
	if !ok {
		return canon.Value{}, nil, false
	}
	v, at := y.value(root, "", 1)
	return v, at, r.errors == 0
}

// yamlReader turns YAML's nodes into values.
type yamlReader struct {
	*reporter
	values  int
	refused bool // there are too many values; the rest is not looked at
}

func (y *yamlReader) fail(t *token.Token, path, code, message, hint string) {
	p := Problem{Path: path, Code: code, Message: message, Hint: hint}
	if t != nil && t.Position != nil {
		p.Line, p.Column = max(t.Position.Line, 1), max(t.Position.Column, 1)
	}
	y.add(p)
}

// parse reads one document. Tokens are looked at first: the library's parser
// recurses, and must not meet what is nested without bound.
func (y *yamlReader) parse(text string) (root ast.Node, ok bool) {
	defer func() {
		if recover() != nil {
			// The library has met something that it did not expect.
			y.fail(nil, "", "syntax", "the file cannot be read as YAML", "")
			root, ok = nil, false
		}
	}()
	if y.lineTooDeep(text) {
		return nil, false
	}
	tokens := lexer.Tokenize(text)
	if !y.allowed(tokens) {
		return nil, false
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		y.syntax(err)
		return nil, false
	}
	var bodies []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil {
			bodies = append(bodies, d.Body)
		}
	}
	if len(bodies) != 1 {
		y.fail(token.New("", "", &token.Position{Line: 1, Column: 1}), "", "syntax", "the file has to hold one document", "")
		return nil, false
	}
	return bodies[0], true
}

func (y *yamlReader) syntax(err error) {
	var at interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &at) {
		message, _, _ := strings.Cut(at.GetMessage(), "\n")
		y.fail(at.GetToken(), "", "syntax", "the file is not YAML: "+message, "")
		return
	}
	y.fail(nil, "", "syntax", "the file is not YAML", "")
}

// maxBrackets bounds the brackets and dashes that a file may open before the
// exact depth is counted.
const maxBrackets = 64

// lineTooDeep refuses lines that begin with more dashes than can make sense:
// each would be a sequence inside of another one.
func (y *yamlReader) lineTooDeep(text string) bool {
	number := 0
	for line := range strings.Lines(text) {
		number++
		dashes := 0
		for i := 0; i < len(line) && strings.IndexByte("-? \t", line[i]) >= 0; i++ {
			if line[i] == '-' || line[i] == '?' {
				dashes++
			}
		}
		if dashes > maxBrackets {
			y.add(Problem{Line: number, Column: 1, Code: "too_deep", Message: "a line opens too many sequences"})
			return true
		}
	}
	return false
}

// allowed refuses what this reader does not take of YAML.
func (y *yamlReader) allowed(tokens token.Tokens) bool {
	const plain = "write out what it stands for"
	before := y.errors
	documents, depth, dashes, line := 0, 0, 0, 0
	var blocks blockKeys
	for i, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType:
			y.fail(t, "", "yaml_anchor", "anchors are not allowed", plain)
		case token.AliasType:
			y.fail(t, "", "yaml_alias", "aliases are not allowed", plain)
		case token.MergeKeyType:
			y.fail(t, "", "yaml_merge", "merge keys are not allowed", plain)
		case token.TagType:
			y.fail(t, "", "yaml_tag", "tags are not allowed", "put text in quotes instead")
		case token.DirectiveType:
			y.fail(t, "", "yaml_directive", "directives are not allowed", "")
		case token.MappingKeyType:
			y.fail(t, "", "yaml_key", "keys with a question mark are not allowed", "write the key followed by a colon")
		case token.DocumentHeaderType:
			if documents++; documents > 1 || i > 0 && !onlyComments(tokens[:i]) {
				y.fail(t, "", "yaml_documents", "a file holds one document only", "")
			}
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			dashes++
			if depth == 0 {
				blocks.leave(t.Position.Column)
			}
		case token.MappingValueType:
			if depth == 0 && i > 0 && !blocks.key(tokens[i-1].Position.Column) {
				y.fail(tokens[i-1], "", canon.TooManyMembers, "the mappings have too many keys", "an object may have at most "+strconv.Itoa(canon.MaxMembers)+" members; large bundles load faster as JSON")
				return false
			}
		case token.InvalidType:
			y.fail(t, "", "syntax", "the file is not YAML: "+t.Error, "")
		default:
		}
		if depth > maxBrackets || dashes > maxBrackets {
			y.fail(t, "", "too_deep", "more than "+strconv.Itoa(MaxDepth)+" arrays and objects are inside each other", "")
			return false
		}
	}
	return y.errors == before
}

// blockKeys counts the keys of block mappings by their columns. The library's
// parser takes time quadratic in the keys of one mapping: two of the largest
// that canon allows are let through, and not many more.
type blockKeys struct {
	open []blockMapping
	cost int
}

type blockMapping struct{ column, keys int }

// leave closes the mappings to the right of column.
func (b *blockKeys) leave(column int) {
	for len(b.open) > 0 && b.open[len(b.open)-1].column > column {
		b.open = b.open[:len(b.open)-1]
	}
}

// key counts a key, and reports whether there may be one more.
func (b *blockKeys) key(column int) bool {
	b.leave(column)
	if n := len(b.open); n == 0 || b.open[n-1].column != column {
		b.open = append(b.open, blockMapping{column: column})
	}
	top := &b.open[len(b.open)-1]
	top.keys++
	b.cost += top.keys
	return b.cost <= canon.MaxMembers*canon.MaxMembers
}

func onlyComments(tokens token.Tokens) bool {
	for _, t := range tokens {
		if t.Type != token.CommentType && t.Type != token.DirectiveType {
			return false
		}
	}
	return true
}

// value turns a node, inside of depth-1 containers, into a value. What cannot
// be one is reported, and null in its place.
func (y *yamlReader) value(n ast.Node, path string, depth int) (canon.Value, *place) {
	if y.values++; y.values > canon.MaxValues {
		if !y.refused {
			y.fail(n.GetToken(), path, canon.TooManyValues, "a document may hold at most "+strconv.Itoa(canon.MaxValues)+" values", "")
		}
		y.refused = true
		return canon.Null(), nil
	}
	at := placeOf(n)
	switch n := n.(type) {
	case *ast.MappingNode:
		return y.mapping(n.Values, at, path, depth), at
	case *ast.MappingValueNode:
		return y.mapping([]*ast.MappingValueNode{n}, at, path, depth), at
	case *ast.SequenceNode:
		return y.sequence(n, at, path, depth), at
	case *ast.StringNode:
		if n.Token.Type == token.StringType {
			switch {
			case isOldBoolean(n.Value):
				y.fail(n.Token, path, "yaml_word", "some readers of YAML take "+n.Value+" for a boolean", "put it in quotes, or write true or false")
			case yamlNumber.MatchString(n.Value): // 1e3, which the library takes for text
				return y.number(n.Token, path), at
			}
		}
		return y.text(n.Token, n.Value, path), at
	case *ast.LiteralNode:
		return y.text(n.Start, n.Value.Value, path), at
	case *ast.BoolNode:
		return canon.Bool(n.Value), at
	case *ast.NullNode:
		return canon.Null(), at
	case *ast.IntegerNode:
		return y.number(n.Token, path), at
	case *ast.FloatNode:
		return y.number(n.Token, path), at
	case *ast.InfinityNode:
		return y.number(n.Token, path), at
	case *ast.NanNode:
		return y.number(n.Token, path), at
	default:
		y.fail(n.GetToken(), path, "syntax", "JSON has nothing like this", "")
		return canon.Null(), at
	}
}

func placeOf(n ast.Node) *place {
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
	if t == nil || t.Position == nil {
		return &place{}
	}
	return &place{line: max(t.Position.Line, 1), column: max(t.Position.Column, 1)}
}

func (y *yamlReader) tooDeep(at *place, path string, depth int) bool {
	if depth <= MaxDepth {
		return false
	}
	y.add(Problem{
		Line: at.line, Column: at.column, Path: path, Code: "too_deep",
		Message: "more than " + strconv.Itoa(MaxDepth) + " arrays and objects are inside each other",
	})
	return true
}

func (y *yamlReader) sequence(n *ast.SequenceNode, at *place, path string, depth int) canon.Value {
	if y.tooDeep(at, path, depth) {
		return canon.Null()
	}
	var elements []canon.Value
	for i, e := range n.Values {
		if y.refused {
			break
		}
		v, kid := y.value(e, path+"/"+strconv.Itoa(i), depth+1)
		elements, at.kids = append(elements, v), append(at.kids, kid)
	}
	return canon.Array(elements...)
}

func (y *yamlReader) mapping(pairs []*ast.MappingValueNode, at *place, path string, depth int) canon.Value {
	if y.tooDeep(at, path, depth) {
		return canon.Null()
	}
	if len(pairs) > canon.MaxMembers {
		y.fail(pairs[canon.MaxMembers].Key.GetToken(), path, canon.TooManyMembers, "an object may have at most "+strconv.Itoa(canon.MaxMembers)+" members", "")
		return canon.Null()
	}
	var members []canon.Member
	seen := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		if y.refused {
			break
		}
		name, ok := y.key(pair.Key, path)
		if !ok {
			continue
		}
		folded := foldName(name)
		if before, twice := seen[folded]; twice {
			code, message := canon.DuplicateKey, "two members of one object have the same name"
			if before != name {
				code, message = canon.CaseVariantKey, "two members of one object have names that differ only by case"
			}
			y.fail(pair.Key.GetToken(), pointer(path, name), code, message, syntaxHints[code])
			continue
		}
		seen[folded] = name
		v, kid := y.value(pair.Value, pointer(path, name), depth+1)
		key := placeOf(pair.Key)
		members = append(members, canon.Member{Name: name, Value: v})
		at.keys, at.kids = append(at.keys, position{key.line, key.column}), append(at.kids, kid)
	}
	return canon.Object(members...)
}

// key is the name of a member, which has to be text.
func (y *yamlReader) key(n ast.MapKeyNode, path string) (string, bool) {
	s, ok := n.(*ast.StringNode)
	if !ok {
		y.fail(n.GetToken(), path, "yaml_key", "a key is not text", "put it in quotes")
		return "", false
	}
	if s.Token.Type == token.StringType && yamlNumber.MatchString(s.Value) {
		y.fail(s.Token, path, "yaml_key", "a key is not text", "put it in quotes")
		return "", false
	}
	if s.Token.Type == token.StringType && isOldBoolean(s.Value) {
		y.fail(s.Token, path, "yaml_word", "some readers of YAML take "+s.Value+" for a boolean", "put it in quotes")
		return "", false
	}
	if v := y.text(s.Token, s.Value, path); v.Kind() != canon.StringKind {
		return "", false
	}
	return s.Value, true
}

// yamlNumber is what YAML 1.2's core schema takes for a number.
var yamlNumber = regexp.MustCompile(`^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+)$`)

// isOldBoolean reports whether YAML 1.1 takes the plain word for a boolean and
// YAML 1.2 for text.
func isOldBoolean(word string) bool {
	switch strings.ToLower(word) {
	case "yes", "no", "on", "off":
		return true
	}
	return false
}

func (y *yamlReader) text(t *token.Token, s, path string) canon.Value {
	switch {
	case strings.IndexByte(s, 0) >= 0:
		y.fail(t, path, canon.NULCharacter, "a text holds a NUL", "")
	case !utf8.ValidString(s):
		y.fail(t, path, canon.LoneSurrogate, "a text holds what is no character", "")
	default:
		return canon.String(s)
	}
	return canon.Null()
}

// number reads a number by JSON's grammar and canon's rules.
func (y *yamlReader) number(t *token.Token, path string) canon.Value {
	v, err := canon.Parse([]byte(t.Value))
	if err == nil && v.Kind() == canon.NumberKind {
		return v
	}
	var syntax *canon.SyntaxError
	if errors.As(err, &syntax) && syntax.Code == canon.NotExact {
		y.fail(t, path, syntax.Code, syntax.Message, syntaxHints[canon.NotExact])
	} else {
		y.fail(t, path, "yaml_number", quote(t.Value)+" is not a number as JSON writes it", "write digits only, or put it in quotes")
	}
	return canon.Null()
}

// foldName maps names that differ only by case to one text, as canon does: each
// character to the least of those that simple case folding makes equal.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}
