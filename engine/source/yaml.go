package source

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

const oneDocument = "a file holds one document only"

// refused is what this reader does not take of YAML: what is wrong and what to do.
var refused = map[string][2]string{
	YAMLAnchor:         {"anchors are not allowed", "write out what it stands for"},
	YAMLAlias:          {"aliases are not allowed", "write out what it stands for; put a text that begins with * in quotes"},
	YAMLMerge:          {"merge keys are not allowed", "write out what it stands for"},
	YAMLKey:            {"keys with a question mark are not allowed", "write the key followed by a colon"},
	YAMLTag:            {"tags are not allowed", "put text in quotes instead"},
	canon.DuplicateKey: {"two members of one object have the same name", hints[canon.DuplicateKey]},
}

// yaml reads a document with its places. The tree is the one that the same
// document in JSON gives, and is bounded alike.
func (r *reader) yaml(data []byte) Node {
	text := strings.ReplaceAll(string(data), "\r\n", "\n") // to YAML any line break is LF
	first := Position{1, 1}
	switch {
	case !utf8.ValidString(text):
		r.fail(first, "", canon.InvalidUTF8, "the file is not valid UTF-8", hints[canon.InvalidUTF8])
	case strings.HasPrefix(text, "\uFEFF"):
		r.fail(first, "", canon.ByteOrderMark, "the file begins with a byte order mark", hints[canon.ByteOrderMark])
	case strings.Contains(text, "\r"):
		before, _, _ := strings.Cut(text, "\r")
		r.fail(Position{strings.Count(before, "\n") + 1, 1}, "", canon.Syntax, "a line ends in a carriage return alone", "")
	default:
		l := splitLines(text)
		from, to := r.document(&l)
		if len(r.problems) > 0 {
			return Node{}
		}
		tree, _, problems := ReadTree(text, TreeOptions{From: from, To: to, MaxDepth: r.maxDepth - 1, MaxKeys: canon.MaxMembers})
		if last := len(problems) - 1; last > 0 && problems[last].Code == canon.TooManyMembers {
			problems = problems[last:]
		}
		for _, p := range problems {
			hint := ""
			switch why, known := refused[p.Code]; {
			case known:
				p.Message, hint = why[0], why[1]
			case p.Code == canon.TooDeep:
				p.Message = r.tooDeep()
			case p.Code == canon.TooManyMembers:
				p.Message = "an object may have at most " + strconv.Itoa(canon.MaxMembers) + " members"
			case p.Code == canon.Syntax:
				p.Message = "the file is not YAML: " + p.Message
			}
			r.fail(Position{p.Line, p.Column}, p.Path, p.Code, p.Message, hint)
		}
		if len(problems) > 0 {
			return Node{}
		}
		if tree == nil {
			r.fail(first, "", canon.Syntax, "the file has to hold one document", "")
			return Node{}
		}
		at := &place{}
		return Node{Value: r.value(tree, "", at), at: at}
	}
	return Node{}
}

// document finds the lines of the one document, from 0, between the marks that
// may stand around it.
func (r *reader) document(l *lines) (from, to int) {
	const outside, inside, behind = 0, 1, 2
	where, to := outside, len(l.starts)
	for i := range l.starts {
		line := l.at(i)
		rest := strings.TrimLeft(line, " \t")
		begins, ends := isMark(line, "---"), isMark(line, "...")
		switch here := (Position{i + 1, 1}); {
		case rest == "" || rest[0] == '#':
		case line[0] == '%':
			r.fail(here, "", YAMLDirective, "directives are not allowed", "")
			return from, to
		case where == behind, begins && where == inside:
			r.fail(here, "", YAMLDocuments, oneDocument, "")
			return from, to
		case begins:
			where, from = inside, i+1
			if after := strings.TrimLeft(line[len("---"):], " \t"); after != "" && after[0] != '#' {
				r.fail(here, "", canon.Syntax, "the document begins on the line behind its mark", "")
			}
		case ends:
			where, to = behind, i
		default:
			where = inside
		}
	}
	return from, to
}

// isMark reports whether a line begins or ends a document.
func isMark(line, mark string) bool {
	rest, found := strings.CutPrefix(line, mark)
	return found && (rest == "" || isSpace(rest[0]))
}

// value turns a tree into a value, and notes its place. What cannot be a value
// is reported, and null instead.
func (r *reader) value(t *Tree, path string, at *place) canon.Value {
	at.Position = t.Position
	if r.values++; r.values > canon.MaxValues {
		if !r.crowded {
			r.fail(at.Position, path, canon.TooManyValues, "a document may hold at most "+strconv.Itoa(canon.MaxValues)+" values", "")
		}
		r.crowded = true
		return canon.Null()
	}
	switch {
	case t.Kind == Mapping:
		return r.mapping(t, at, path)
	case t.Kind == List:
		return r.list(t, at, path)
	case t.Style == Bare, t.Style == Plain && isNull(t.Text):
		return canon.Null()
	case t.Style != Plain:
		return r.text(t.Text, at.Position, path)
	case isBool(t.Text):
		return canon.Bool(t.Text[0]|0x20 == 't')
	case number.MatchString(t.Text):
		return r.number(t.Text, at.Position, path)
	}
	r.checkPlain(t, path, "put it in quotes, or write true or false")
	return r.text(t.Text, at.Position, path)
}

func (r *reader) list(t *Tree, at *place, path string) canon.Value {
	elements := make([]canon.Value, len(t.Items))
	at.kids = make([]place, len(t.Items))
	for i, e := range t.Items {
		if r.crowded {
			break
		}
		elements[i] = r.value(e, path+"/"+strconv.Itoa(i), &at.kids[i])
	}
	return canon.Array(elements...)
}

func (r *reader) mapping(t *Tree, at *place, path string) canon.Value {
	members := make([]canon.Member, 0, len(t.Keys))
	at.keys, at.kids = make([]Position, 0, len(t.Keys)), make([]place, 0, len(t.Keys))
	seen := make(map[string]bool, len(t.Keys))
	for i, key := range t.Keys {
		if r.crowded {
			break
		}
		if !r.isName(key, path) {
			continue
		}
		inside, folded := Pointer(path, key.Text), strings.Map(fold, key.Text)
		if seen[folded] {
			r.fail(key.Position, inside, canon.CaseVariantKey, "two members of one object have names that differ only by case", hints[canon.CaseVariantKey])
			continue
		}
		seen[folded] = true
		at.keys, at.kids = append(at.keys, key.Position), append(at.kids, place{})
		v := r.value(t.Items[i], inside, &at.kids[len(members)])
		members = append(members, canon.Member{Name: key.Text, Value: v})
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

// isName reports whether a key is the name of a member, which has to be text.
func (r *reader) isName(key *Tree, path string) bool {
	if key.Style == Plain && (isNull(key.Text) || isBool(key.Text) || number.MatchString(key.Text)) {
		r.fail(key.Position, path, YAMLKey, "a key is not text", "put it in quotes")
		return false
	}
	return r.checkPlain(key, path, "put it in quotes") && r.text(key.Text, key.Position, path).Kind() == canon.StringKind
}

// checkPlain refuses a plain word that YAML 1.1 takes for a boolean and YAML 1.2
// for text, and a tab, which readers of YAML take for different things.
func (r *reader) checkPlain(t *Tree, path, hint string) bool {
	switch strings.ToLower(t.Text) {
	case "yes", "no", "on", "off":
		if t.Style == Plain {
			r.fail(t.Position, path, YAMLWord, "some readers of YAML take "+t.Text+" for a boolean", hint)
			return false
		}
	}
	if t.Style == Plain && strings.Contains(t.Text, "\t") {
		r.fail(t.Position, "", canon.Syntax, "a tab is inside of a text without quotes", "put the text in quotes, or write blanks")
		return false
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

// The words of YAML 1.2's core schema.
func isNull(s string) bool { return s == "~" || s == "null" || s == "Null" || s == "NULL" }

func isBool(s string) bool {
	switch s {
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return true
	}
	return false
}

// number is what YAML 1.2's core schema, or another reader of YAML, takes for one.
var number = regexp.MustCompile(`^(?:[-+]?(?:0[bB][01_]+|0[oO][0-7_]+|0[xX][0-9a-fA-F_]+|(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN))$`)

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
