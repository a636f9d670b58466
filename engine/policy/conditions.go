package policy

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine/canon"
	"holdpoint/engine/policy/pattern"
	"holdpoint/engine/source"
)

// conditions is a rule's when. Empty lists and a nil pattern are no condition.
type conditions struct {
	containsAny []string // lower-cased
	notContains []string // lower-cased
	source      string   // of pattern
	pattern     *pattern.Pattern
	labels      []string
	args        []argument
}

// argument is one key of tool_args_match.
type argument struct {
	key   string
	tests []comparison // operators; if there are none:
	value canon.Value  // what the argument has to equal deeply
}

// comparison is one operator and its operand.
type comparison struct {
	op      string
	operand canon.Value
}

// operators is Agent-SPM's, with whether they compare numbers only.
var operators = map[string]bool{"gt": true, "gte": true, "lt": true, "lte": true, "eq": false, "neq": false}

var operatorNames = []string{"gt", "gte", "lt", "lte", "eq", "neq"}

var whenFields = []string{"contains_any", "not_contains", "matches_regex", "data_labels_any", "tool_args_match"}

func (c *compiler) when(n source.Node, w *conditions) {
	if n.Value.Kind() != canon.ObjectKind {
		c.wrongKind(n, "when", "an object")
		return
	}
	if m, ok := n.Get("contains_any"); ok {
		w.containsAny = c.texts(m, "when.contains_any")
		lowerAll(w.containsAny)
	}
	if m, ok := n.Get("not_contains"); ok {
		w.notContains = c.texts(m, "when.not_contains")
		lowerAll(w.notContains)
	}
	if m, ok := n.Get("matches_regex"); ok {
		if text, ok := c.text(m, "when.matches_regex"); ok && text != "" {
			w.source, w.pattern = text, c.regex(m, text)
		}
	}
	if m, ok := n.Get("data_labels_any"); ok {
		w.labels = c.texts(m, "when.data_labels_any")
	}
	if m, ok := n.Get("tool_args_match"); ok {
		w.args = c.arguments(m)
	}
	c.unknown(n, "when", whenFields)
}

func lowerAll(list []string) {
	for i, s := range list {
		list[i] = lower(s)
	}
}

// unsafe is the shapes that the reference refuses, because they make a
// backtracking engine slow. Ours would not mind; a bundle that one accepts the
// other has to accept, too. A dot is any character that ends no line.
var unsafe = func() []*regexp.Regexp {
	var shapes []*regexp.Regexp
	for _, shape := range []string{
		`\(.*[+*].*\)[+*]`, `\(.*\|.*\)[+*]`, `\(.*[+*].*\)\{`, `\([^)]*\*[^)]*\)\*`, `\([^)]*\+[^)]*\)\+`, `(\.\*){2,}`,
	} {
		const escaped = `\.`
		dots := strings.ReplaceAll(strings.ReplaceAll(shape, escaped, "\x00"), ".", `[^\n\r\x{2028}\x{2029}]`)
		shapes = append(shapes, regexp.MustCompile(strings.ReplaceAll(dots, "\x00", escaped)))
	}
	return shapes
}()

func (c *compiler) regex(n source.Node, text string) *pattern.Pattern {
	const what = "when.matches_regex"
	if length := pattern.Length(text); length > MaxRegex {
		c.fail(n, "regex_too_long", what+" has "+strconv.Itoa(length)+" characters, at most "+strconv.Itoa(MaxRegex)+" are allowed", "use several rules")
		return nil
	}
	compiled, err := pattern.Compile(text)
	var reason *pattern.Error
	switch {
	case err == nil:
	case errors.As(err, &reason) && reason.Unsupported:
		c.fail(n, "regex_unsupported", what+": "+reason.Error(), "no engine can search for them in linear time")
		return nil
	case errors.As(err, &reason) && reason.TooLarge:
		c.fail(n, "regex_too_large", what+": "+reason.Message, "repeat less often: [a-z]{1,1000} is a thousand instructions")
		return nil
	default:
		c.fail(n, "regex_syntax", what+" is not a regular expression: "+err.Error(), "")
		return nil
	}
	if slices.ContainsFunc(unsafe, func(shape *regexp.Regexp) bool { return shape.MatchString(text) }) {
		c.fail(n, "regex_unsafe", what+" has a shape that is unsafe on other engines", "do not repeat a group that holds *, + or |, and no .* after .*")
		return nil
	}
	return compiled
}

func (c *compiler) arguments(n source.Node) []argument {
	if n.Value.Kind() != canon.ObjectKind {
		c.wrongKind(n, "when.tool_args_match", "an object")
		return nil
	}
	args := make([]argument, 0, n.Value.Len())
	for m := range n.Members() {
		args = append(args, argument{key: m.Name, tests: c.comparisons(m.Name, m.Node), value: m.Value})
	}
	return args
}

// comparisons reads an object that holds an operator; for anything else there
// are none.
func (c *compiler) comparisons(key string, n source.Node) []comparison {
	var tests []comparison
	var others []source.Member
	what := "when.tool_args_match[" + quote(key) + "]"
	for m := range n.Members() {
		numeric, known := operators[m.Name]
		if !known {
			others = append(others, m)
			continue
		}
		if numeric && m.Value.Kind() != canon.NumberKind {
			c.fail(m.Node, "operand_not_a_number", what+"."+m.Name+" has to be a number, it is "+article(m.Value.Kind()), "gt, gte, lt and lte compare numbers only")
		}
		tests = append(tests, comparison{op: m.Name, operand: m.Value})
	}
	if len(tests) == 0 {
		return nil
	}
	for _, m := range others {
		c.report(m.KeyProblem("unknown_operator", what+" has the operator "+quote(m.Name)+", which there is not", "use "+strings.Join(operatorNames, ", ")), false)
	}
	return tests
}
