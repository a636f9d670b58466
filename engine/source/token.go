package source

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"holdpoint/engine/canon"
)

const oneDocument = "a file holds one document only"

var tooManyMembers = "an object may have at most " + strconv.Itoa(canon.MaxMembers) + " members"

// refused is what this reader does not take of YAML: a code, what is wrong and
// what to do.
var refused = map[token.Type][3]string{
	token.AnchorType:     {YAMLAnchor, "anchors are not allowed", "write out what it stands for"},
	token.AliasType:      {YAMLAlias, "aliases are not allowed", "write out what it stands for; put a text that begins with * in quotes"},
	token.MergeKeyType:   {YAMLMerge, "merge keys are not allowed", "write out what it stands for"},
	token.TagType:        {YAMLTag, "tags are not allowed", "put text in quotes instead"},
	token.DirectiveType:  {YAMLDirective, "directives are not allowed", ""},
	token.MappingKeyType: {YAMLKey, "keys with a question mark are not allowed", "write the key followed by a colon"},
}

// maxOpen bounds the brackets that are open at once, and the dashes that one
// line begins with. The exact depth is counted later.
const maxOpen = canon.MaxDepth

// tokens are looked at before the library's parser, which recurses, and which
// must not meet what is nested without bound.
func (r *reader) tokens(text string) (token.Tokens, bool) {
	if line := dashed(text); line > 0 {
		r.fail(Position{line, 1}, "", canon.TooDeep, "a line opens too many sequences", "")
		return nil, false
	}
	tokens := lexer.Tokenize(text)
	documents, depth, dashes, line := 0, 0, 0, 0
	var blocks blockKeys
	for i, t := range tokens {
		if why, ok := refused[t.Type]; ok {
			r.failAt(t, "", why[0], why[1], why[2])
		}
		if losesTab(tokens[:i+1]) {
			r.failAt(t, "", canon.Syntax, "a tab is inside of a text without quotes", "put the text in quotes, or write blanks")
		}
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.DocumentHeaderType:
			if documents++; documents > 1 || !onlyComments(tokens[:i]) {
				r.failAt(t, "", YAMLDocuments, oneDocument, "")
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
				r.failAt(tokens[i-1], "", canon.TooManyMembers, "the mappings have too many keys", tooManyMembers+"; large files load faster as JSON")
				return nil, false
			}
		case token.InvalidType:
			r.notYAML(t, t.Error)
		default:
		}
		if depth > maxOpen || dashes > maxOpen {
			r.failAt(t, "", canon.TooDeep, r.tooDeep(), "")
			return nil, false
		}
	}
	return tokens, len(r.problems) == 0
}

// losesTab reports whether the last token is a text without quotes of which the
// library leaves out a tab: it reads pay, tab, out as payout.
func losesTab(tokens token.Tokens) bool {
	t := tokens[len(tokens)-1]
	if t.Type == token.CommentType || t.Indicator == token.QuotedScalarIndicator || !strings.Contains(strings.TrimSpace(t.Origin), "\t") {
		return false
	}
	for i := len(tokens) - 2; i >= 0; i-- {
		if before := tokens[i].Type; before != token.CommentType {
			return before != token.LiteralType && before != token.FoldedType
		}
	}
	return true
}

// dashed is the first line that begins with more dashes than could make sense,
// or 0: each would be a list inside of another one.
func dashed(text string) int {
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

// onlyComments reports whether the tokens are no document. A directive, which
// is refused, has tokens of its own behind it.
func onlyComments(tokens token.Tokens) bool {
	for _, t := range tokens {
		if t.Type != token.CommentType {
			return t.Type == token.DirectiveType
		}
	}
	return true
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
