package source

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"holdpoint/engine/canon"
)

// Read reads a file. file is only for the problems. With any problem the Node
// is the zero one. Text that is not YAML at all has one problem, as what
// follows the first mistake would be a guess.
func Read(data []byte, file string) (Node, []Problem) {
	r := &reader{}
	n := r.read(data)
	if len(r.problems) > 0 {
		return Node{}, Sort(r.problems, file)
	}
	return n, nil
}

type reader struct {
	problems []Problem
	values   int
}

// maxProblems bounds the list of problems.
const maxProblems = 200

func (r *reader) fail(at *place, path, message, hint string) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, at.problem(path, message, hint))
	}
}

var top = &place{line: 1, column: 1}

func (r *reader) read(data []byte) Node {
	switch {
	case len(data) > MaxBytes:
		r.fail(top, "", "the file has more than 1 MiB", "")
	case !utf8.Valid(data):
		r.fail(top, "", "the file is not valid UTF-8", "save it as UTF-8")
	case strings.HasPrefix(string(data), "\uFEFF"):
		r.fail(top, "", "the file begins with a byte order mark", "save it without one")
	default:
		// The library counts a CR LF behind a comment as two lines; to YAML any
		// line break is LF.
		if root, ok := r.parse(strings.ReplaceAll(string(data), "\r\n", "\n")); ok {
			v, at := r.value(root, "", 1)
			return Node{Value: v, at: at}
		}
	}
	return Node{}
}

// parse makes one tree of the text. Nesting is bounded before the library's
// parser, which recurses, sees it.
func (r *reader) parse(text string) (root ast.Node, ok bool) {
	defer func() {
		if recover() != nil { // the library has met something that it did not expect
			r.fail(top, "", "the file cannot be read as YAML", "")
			root, ok = nil, false
		}
	}()
	if line := crowded(text); line > 0 {
		r.fail(&place{line: line, column: 1}, "", "the line opens too many lists", "")
		return nil, false
	}
	tokens := lexer.Tokenize(text)
	if !r.plain(tokens) {
		return nil, false
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := top, ""
		var syntax interface {
			GetToken() *token.Token
			GetMessage() string
		}
		if errors.As(err, &syntax) {
			at = placeOf(syntax.GetToken())
			message, _, _ = strings.Cut(": "+syntax.GetMessage(), "\n")
		}
		r.fail(at, "", "the file is not YAML"+message, "")
		return nil, false
	}
	for _, d := range file.Docs {
		if d.Body == nil {
			continue
		}
		if root != nil {
			r.fail(placeOf(d.Body.GetToken()), "", "a file holds one document only", "")
			return nil, false
		}
		root = d.Body
	}
	if root == nil {
		r.fail(top, "", "the file is empty", "")
	}
	return root, root != nil
}

// maxOpen bounds the brackets that are open at once, and the dashes that one
// line begins with. The exact depth is counted later.
const maxOpen = 2 * MaxDepth

// crowded is the first line that begins with more dashes than could make sense,
// or 0: each would be a list inside of another one.
func crowded(text string) int {
	number := 0
	for line := range strings.Lines(text) {
		number++
		indicators := line[:len(line)-len(strings.TrimLeft(line, "-? \t"))]
		if strings.Count(indicators, "-")+strings.Count(indicators, "?") > maxOpen {
			return number
		}
	}
	return 0
}

// refused is what this reader does not take of YAML.
var refused = map[token.Type][2]string{
	token.AnchorType:     {"anchors are not allowed", "write out what it stands for"},
	token.AliasType:      {"aliases are not allowed", "write out what it stands for"},
	token.MergeKeyType:   {"merge keys are not allowed", "write out what it stands for"},
	token.TagType:        {"tags are not allowed", "put text in quotes instead"},
	token.DirectiveType:  {"directives are not allowed", "remove it"},
	token.MappingKeyType: {"keys with a question mark are not allowed", "write the key followed by a colon"},
}

func (r *reader) plain(tokens token.Tokens) bool {
	open := 0
	for _, t := range tokens {
		if why, ok := refused[t.Type]; ok {
			r.fail(placeOf(t), "", why[0], why[1])
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			open++
		case token.SequenceEndType, token.MappingEndType:
			open--
		case token.InvalidType:
			r.fail(placeOf(t), "", "the file is not YAML: "+t.Error, "")
		default:
		}
		if open > maxOpen {
			r.fail(placeOf(t), "", "too many lists and mappings are inside each other", "")
			return false
		}
	}
	return len(r.problems) == 0
}

func placeOf(t *token.Token) *place {
	if t == nil || t.Position == nil {
		return &place{line: 1, column: 1}
	}
	return &place{line: max(t.Position.Line, 1), column: max(t.Position.Column, 1)}
}

// value makes a value of a node that is inside of depth-1 others. Null stands
// for what cannot be one.
func (r *reader) value(n ast.Node, path string, depth int) (canon.Value, *place) {
	if n == nil {
		return canon.Null(), top
	}
	at := placeOf(n.GetToken())
	if r.values++; r.values > canon.MaxValues {
		if r.values == canon.MaxValues+1 {
			r.fail(at, path, tooMany(), "")
		}
		return canon.Null(), at
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			at = placeOf(n.Values[0].Key.GetToken())
		}
		return r.mapping(n.Values, at, path, depth), at
	case *ast.MappingValueNode:
		at = placeOf(n.Key.GetToken())
		return r.mapping([]*ast.MappingValueNode{n}, at, path, depth), at
	case *ast.SequenceNode:
		return r.list(n, at, path, depth), at
	case *ast.StringNode:
		return r.scalar(n, at, path), at
	case *ast.LiteralNode:
		return r.text(n.Value.Value, at, path), at
	case *ast.BoolNode:
		return canon.Bool(n.Value), at
	case *ast.NullNode:
		return canon.Null(), at
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return r.number(n.GetToken().Value, at, path), at
	default:
		r.fail(at, path, "JSON has nothing like this", "")
		return canon.Null(), at
	}
}

func (r *reader) tooDeep(at *place, path string, depth int) bool {
	if depth > MaxDepth {
		r.fail(at, path, fmt.Sprintf("more than %d lists and mappings are inside each other", MaxDepth), "")
	}
	return depth > MaxDepth
}

func (r *reader) list(n *ast.SequenceNode, at *place, path string, depth int) canon.Value {
	if r.tooDeep(at, path, depth) {
		return canon.Null()
	}
	elements := make([]canon.Value, len(n.Values))
	at.kids = make([]*place, len(n.Values))
	for i, e := range n.Values {
		elements[i], at.kids[i] = r.value(e, fmt.Sprintf("%s/%d", path, i), depth+1)
	}
	return canon.Array(elements...)
}

func (r *reader) mapping(pairs []*ast.MappingValueNode, at *place, path string, depth int) canon.Value {
	if r.tooDeep(at, path, depth) {
		return canon.Null()
	}
	if len(pairs) > canon.MaxMembers {
		r.fail(at, path, fmt.Sprintf("a mapping may have at most %d members", canon.MaxMembers), "")
		return canon.Null()
	}
	var members []canon.Member
	seen := make(map[string]*place, len(pairs))
	for _, pair := range pairs {
		key := placeOf(pair.Key.GetToken())
		name, ok := r.key(pair.Key, key, path)
		if !ok {
			continue
		}
		inside := path + "/" + pointer(name)
		folded := strings.Map(fold, name)
		if first, twice := seen[folded]; twice {
			r.fail(key, inside, "the key "+Quote(name)+" is there twice", fmt.Sprintf("the first is in line %d; upper and lower case are no difference", first.line))
			continue
		}
		seen[folded] = key
		v, kid := r.value(pair.Value, inside, depth+1)
		members = append(members, canon.Member{Name: name, Value: v})
		at.keys, at.kids = append(at.keys, key), append(at.kids, kid)
	}
	return canon.Object(members...)
}

// fold maps letters that differ only by case to one of them.
func fold(c rune) rune {
	least := c
	for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return least
}

func (r *reader) key(n ast.MapKeyNode, at *place, path string) (string, bool) {
	s, ok := n.(*ast.StringNode)
	if !ok || s.Token.Type == token.StringType && number.MatchString(s.Value) {
		r.fail(at, path, "a key has to be text", "put it in quotes")
		return "", false
	}
	before := len(r.problems)
	v := r.word(s, at, path)
	return v.Str(), len(r.problems) == before
}

// number is what YAML takes for one.
var number = regexp.MustCompile(`^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+)$`)

func (r *reader) scalar(n *ast.StringNode, at *place, path string) canon.Value {
	if n.Token.Type == token.StringType && number.MatchString(n.Value) {
		return r.number(n.Value, at, path) // 1e3, which the library takes for text
	}
	return r.word(n, at, path)
}

func (r *reader) word(n *ast.StringNode, at *place, path string) canon.Value {
	if n.Token.Type == token.StringType {
		switch strings.ToLower(n.Value) {
		case "yes", "no", "on", "off":
			r.fail(at, path, "some readers of YAML take "+n.Value+" for a boolean", "put it in quotes, or write true or false")
			return canon.Null()
		}
	}
	return r.text(n.Value, at, path)
}

func (r *reader) text(s string, at *place, path string) canon.Value {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		r.fail(at, path, "the text holds what no text may: NUL, or half of a character", "")
		return canon.Null()
	}
	return canon.String(s)
}

func (r *reader) number(text string, at *place, path string) canon.Value {
	v, err := canon.Parse([]byte(text))
	if err == nil && v.Kind() == canon.NumberKind {
		return v
	}
	var syntax *canon.SyntaxError
	if errors.As(err, &syntax) && syntax.Code == canon.NotExact {
		r.fail(at, path, syntax.Message, "write it with fewer digits, or in quotes")
	} else {
		r.fail(at, path, Quote(text)+" is not a number as JSON writes it", "write digits only, or put it in quotes")
	}
	return canon.Null()
}
