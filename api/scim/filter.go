package scim

import (
	"encoding/json"
	"slices"
	"strings"
)

// Filter is a filter of RFC 7644, section 3.4.2.2. The nil Filter matches everything.
type Filter struct {
	kind *Kind
	root node
}

// node matches a resource, or an element of one of its attributes.
type node func(r map[string]any) bool

// Filter reads a filter; "" is nil. Attributes that the kind does not have are refused.
func (k *Kind) Filter(text string) (*Filter, error) {
	if text == "" {
		return nil, nil
	}
	p, err := newParser(k, text)
	if err != nil {
		return nil, err
	}
	root, err := p.or("")
	if err == nil && p.at < len(p.tokens) {
		err = invalidFilter("there is more than a filter, from %.100q on", p.next())
	}
	if err != nil {
		return nil, err
	}
	return &Filter{k, root}, nil
}

// Match reports whether a resource is one that the filter asks for.
func (f *Filter) Match(r Resource) bool { return f == nil || f.root(r) }

func invalidFilter(format string, args ...any) error { return wrong("invalidFilter", format, args...) }

// parser reads filters by recursive descent.
//
//	either := both { "or" both }        both := one { "and" one }
//	one    := [ "not" ] "(" either ")" | path "pr" | path op value | path "[" either "]"
type parser struct {
	kind   *Kind
	tokens []string
	at     int
	terms  int
}

func newParser(k *Kind, text string) (*parser, error) {
	if len(text) > maxFilter {
		return nil, invalidFilter("it has more than %d bytes", maxFilter)
	}
	tokens, err := split(text)
	return &parser{kind: k, tokens: tokens}, err
}

// split returns the words, texts and signs of a filter.
func split(text string) (tokens []string, err error) {
	for text = strings.TrimLeft(text, " "); text != ""; text = strings.TrimLeft(text, " ") {
		n := 1
		switch {
		case strings.ContainsRune("()[]", rune(text[0])):
		case text[0] == '"':
			for n < len(text) && text[n] != '"' {
				if text[n] == '\\' {
					n++
				}
				n++
			}
			if n++; n > len(text) {
				return nil, invalidFilter("a text has no end")
			}
		default:
			if n = strings.IndexAny(text, ` ()[]"`); n < 0 {
				n = len(text)
			}
		}
		tokens, text = append(tokens, text[:n]), text[n:]
	}
	return tokens, nil
}

// next is the token that comes; "" at the end.
func (p *parser) next() string {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	return ""
}

// take passes the token that comes, if it is the one given, in capitals or not.
func (p *parser) take(token string) bool {
	if strings.EqualFold(p.next(), token) {
		p.at++
		return true
	}
	return false
}

func (p *parser) or(parent string) (node, error) { return p.joined(parent, "or", p.and) }

func (p *parser) and(parent string) (node, error) { return p.joined(parent, "and", p.one) }

// joined reads what a word joins.
func (p *parser) joined(parent, word string, read func(string) (node, error)) (node, error) {
	first, err := read(parent)
	if err != nil {
		return nil, err
	}
	list := []node{first}
	for p.take(word) {
		another, err := read(parent)
		if err != nil {
			return nil, err
		}
		list = append(list, another)
	}
	if len(list) == 1 {
		return first, nil
	}
	return func(r map[string]any) bool {
		matches := func(n node) bool { return n(r) == (word == "or") }
		return slices.ContainsFunc(list, matches) == (word == "or")
	}, nil
}

func (p *parser) one(parent string) (node, error) {
	if p.terms++; p.terms > maxTerms {
		return nil, invalidFilter("it has more than %d parts", maxTerms)
	}
	not := p.take("not")
	if p.take("(") {
		inner, err := p.or(parent)
		if err == nil && !p.take(")") {
			err = invalidFilter("a bracket is not closed")
		}
		return func(r map[string]any) bool { return inner(r) != not }, err
	}
	if not {
		return nil, invalidFilter("“not” goes before a bracket")
	}
	path := p.kind.withoutSchema(p.next())
	if parent != "" {
		path = parent + "." + path
	}
	a, known := p.kind.find(path)
	if !known {
		return nil, invalidFilter("%.100q is no attribute that is filtered by", p.next())
	}
	p.at++
	if parent == "" && a.multi && p.take("[") {
		inner, err := p.or(a.name)
		if err == nil && !p.take("]") {
			err = invalidFilter("a bracket is not closed")
		}
		return func(r map[string]any) bool { return slices.ContainsFunc(objects(r[a.name]), inner) }, err
	}
	return p.comparison(parent, a)
}

// comparison reads an operator and its value.
func (p *parser) comparison(parent string, a attribute) (node, error) {
	op := strings.ToLower(p.next())
	p.at++
	get := func(r map[string]any) []any { return valuesAt(r, strings.TrimPrefix(a.name, parent+".")) }
	if op == "pr" {
		return func(r map[string]any) bool { return slices.ContainsFunc(get(r), present) }, nil
	}
	var want any
	token := p.next()
	p.at++
	if token == "" || json.Unmarshal([]byte(strings.TrimSpace(token)), &want) != nil {
		return nil, invalidFilter("%s is not followed by a value", a.name)
	}
	compare, ok := operators[op]
	_, text := want.(string)
	if !ok || !text && op != "eq" && op != "ne" {
		return nil, invalidFilter("%.20q is no operator for it", op)
	}
	if op == "ne" {
		return func(r map[string]any) bool {
			return !slices.ContainsFunc(get(r), func(v any) bool { return same(v, want, a.caseExact) })
		}, nil
	}
	return func(r map[string]any) bool {
		return slices.ContainsFunc(get(r), func(v any) bool {
			if op == "eq" {
				return same(v, want, a.caseExact)
			}
			has, ok := v.(string)
			return ok && compare(folded(has, a.caseExact), folded(want.(string), a.caseExact))
		})
	}, nil
}

// operators compare texts.
var operators = map[string]func(has, want string) bool{
	"eq": func(has, want string) bool { return has == want },
	"ne": func(has, want string) bool { return has != want },
	"co": strings.Contains, "sw": strings.HasPrefix, "ew": strings.HasSuffix,
	"gt": func(has, want string) bool { return has > want },
	"ge": func(has, want string) bool { return has >= want },
	"lt": func(has, want string) bool { return has < want },
	"le": func(has, want string) bool { return has <= want },
}

func folded(text string, caseExact bool) string {
	if caseExact {
		return text
	}
	return strings.ToLower(text)
}

func same(has, want any, caseExact bool) bool {
	if text, ok := want.(string); ok {
		has, ok := has.(string)
		return ok && folded(has, caseExact) == folded(text, caseExact)
	}
	return simple(has) && has == want
}

// simple reports whether a value has no parts.
func simple(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func present(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	}
	return true
}

// valuesAt are the values at a path; those of an attribute that has several are its values.
func valuesAt(r map[string]any, path string) []any {
	name, sub, deeper := strings.Cut(path, ".")
	var found []any
	for _, one := range elements(r[name]) {
		inner, isObject := one.(map[string]any)
		switch {
		case deeper && isObject:
			found = append(found, inner[sub])
		case !deeper && isObject && inner["value"] != nil:
			found = append(found, inner["value"]) // RFC 7644: emails co "x" is emails.value co "x"
		case !deeper:
			found = append(found, one)
		}
	}
	return found
}

// objects are the elements of an attribute that are objects.
func objects(v any) (list []map[string]any) {
	for _, one := range elements(v) {
		if o, ok := one.(map[string]any); ok {
			list = append(list, o)
		}
	}
	return list
}

// Exact returns the text that an attribute must equal for the filter to match, where its
// text says so in the simplest way: ATTRIBUTE eq "TEXT", alone.
func (k *Kind) Exact(filter string) (attribute, text string) {
	p, err := newParser(k, filter)
	if err != nil || len(p.tokens) != 3 || !strings.EqualFold(p.tokens[1], "eq") {
		return "", ""
	}
	a, ok := k.find(p.tokens[0])
	if !ok || json.Unmarshal([]byte(p.tokens[2]), &text) != nil {
		return "", ""
	}
	return a.name, text
}
