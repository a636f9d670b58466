package threegate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"

	"holdpoint/engine/source"
)

// readAll reads a text as front matter.
func readAll(text string) (*source.Tree, bool) {
	ok := true
	l := cut(strings.TrimSuffix(text, "\n") + "\n")
	root, complete := read(&l, 0, l.count()-1, func(string, int, string, ...any) { ok = false })
	return root, ok && complete
}

// differs compares a value with what a YAML library reads. Scalars that are no
// strings are compared by kind only.
func differs(n *source.Tree, other any) string {
	switch n.Kind {
	case source.Mapping:
		m, ok := other.(map[string]any)
		if !ok || len(m) != len(n.Keys) {
			return fmt.Sprintf("line %d: a mapping of %d keys, not %#v", n.Line, len(n.Keys), other)
		}
		for i, k := range n.Keys {
			value, found := m[k.Text]
			if !found {
				return fmt.Sprintf("line %d: no key %q in %#v", k.Line, k.Text, other)
			}
			if d := differs(n.Items[i], value); d != "" {
				return d
			}
		}
	case source.List:
		list, ok := other.([]any)
		if !ok || len(list) != len(n.Items) {
			return fmt.Sprintf("line %d: a list of %d, not %#v", n.Line, len(n.Items), other)
		}
		for i, item := range n.Items {
			if d := differs(item, list[i]); d != "" {
				return d
			}
		}
	case source.Scalar, source.Alias:
		text, ok := stringOf(n)
		got, isString := other.(string)
		if ok != isString || ok && squeeze(text) != squeeze(got) {
			return fmt.Sprintf("line %d: %q (a string: %v), not %#v", n.Line, n.Text, ok, other)
		}
	}
	return ""
}

// squeeze leaves the white space of a scalar out of the comparison: the library
// keeps spaces at the ends of folded lines, which YAML drops.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// TestReader: texts of the forms that YAML 1.2 has, with what they mean.
func TestReader(t *testing.T) {
	for text, want := range map[string]any{
		"a: b":                                    map[string]any{"a": "b"},
		"a:\n  b\n  c\n\n  d\n":                   map[string]any{"a": "b c\nd"},
		"a: b\n\n\n  c # d\n":                     map[string]any{"a": "b\n\nc"},
		"a: b#c":                                  map[string]any{"a": "b#c"},
		"a: b:c":                                  map[string]any{"a": "b:c"},
		"a: -b\nc: ?d\ne: :f":                     map[string]any{"a": "-b", "c": "?d", "e": ":f"},
		"a: 'b''c'":                               map[string]any{"a": "b'c"},
		"'a b': \"c\\\"\\u00e9\\x41\"":            map[string]any{"a b": "c\"éA"},
		"a: \"b  \n   c\\\n   d\\n\n e\"":         map[string]any{"a": "b cd\n e"},
		"a: 'b\n\n  c'":                           map[string]any{"a": "b\nc"},
		"a: |\n  b\n   c\n\nd: e":                 map[string]any{"a": "b\n c\n", "d": "e"},
		"a: >\n  b\n  c\n\n  d\n   e\n  f\n":      map[string]any{"a": "b c\nd\n e\nf\n"},
		"a: >-\n  b\n\nc: |+\n  d\n\n":            map[string]any{"a": "b", "c": "d\n\n"},
		"a: |2\n    b\n   c\n":                    map[string]any{"a": "  b\n c\n"},
		"a: |- # comment\n  # text\n":             map[string]any{"a": "# text"},
		"a:\n- b\n-  c: d\n   e: f\n- - g\n  - h": map[string]any{"a": []any{"b", map[string]any{"c": "d", "e": "f"}, []any{"g", "h"}}},
		"a: [b, 'c', \"d\", [e], {f: g}, h i]":    map[string]any{"a": []any{"b", "c", "d", []any{"e"}, map[string]any{"f": "g"}, "h i"}},
		"a: [b c\n d, # e\n f\n]":                 map[string]any{"a": []any{"b c d", "f"}},
		"a: {b: c, 'd':e, \"f\": [g]}":            map[string]any{"a": map[string]any{"b": "c", "d": "e", "f": []any{"g"}}},
		"a: [b:c, http://d]":                      map[string]any{"a": []any{"b:c", "http://d"}},
		"{a: b,\nc: d}":                           map[string]any{"a": "b", "c": "d"},
		"# x\n\na: b # y\n # z\n":                 map[string]any{"a": "b"},
		"a:\n  b:\n    c: d\n  e: f\ng: h":        map[string]any{"a": map[string]any{"b": map[string]any{"c": "d"}, "e": "f"}, "g": "h"},
		"a: yes\nb: 2026-01-01\nc: 1_0\nd: 0b1":   map[string]any{"a": "yes", "b": "2026-01-01", "c": "1_0", "d": "0b1"},
	} {
		root, ok := readAll(text)
		if !ok {
			t.Errorf("%q cannot be read", text)
			continue
		}
		if d := differs(root, want); d != "" {
			t.Errorf("%q: %s", text, d)
		}
		if a, is := want.(map[string]any)["a"].(string); is && root.Get("a").Text != a {
			t.Errorf("%q: got %q, want %q", text, root.Get("a").Text, a)
		}
	}
	for text, tag := range map[string]string{
		"null": "", "~": "", "True": "", "12": "", "-1": "", "0o7": "", "0xF": "", "1.": "", ".5": "", "1e3": "", "-.inf": "", ".NaN": "",
		"nULL": "s", "yes": "s", "1_0": "s", "0b1": "s", "1:2": "s", "1.2.3": "s", "+": "s", "e3": "s", "0xG": "s",
	} {
		root, _ := readAll("a: " + text)
		if _, ok := stringOf(root.Get("a")); ok != (tag == "s") {
			t.Errorf("%s is a string: %v", text, ok)
		}
	}
}

// writer spells a drawn tree as YAML in one of many ways.
type writer struct {
	*rapid.T
	strings.Builder
}

func (w *writer) pick(of ...string) string { return rapid.SampledFrom(of).Draw(w.T, "form") }

func (w *writer) scalar() string {
	text := rapid.StringMatching(`[a-z]([a-z0-9'"#:,é \-]{0,8}[a-z0-9])?`).Draw(w.T, "text")
	switch w.pick("plain", "single", "double") {
	case "plain":
		if !strings.ContainsAny(text, "'\"#:,") {
			w.WriteString(text)
			return text
		}
	case "single":
		w.WriteString("'" + strings.ReplaceAll(text, "'", "''") + "'")
		return text
	}
	w.WriteString(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "é", `\u00e9`).Replace(text) + `"`)
	return text
}

// value writes a value behind a key or dash that stands indented by so much.
func (w *writer) value(indent, depth int) any {
	deeper := strings.Repeat(" ", indent+2)
	form := w.pick("scalar", "block", "map", "list", "flow", "empty")
	if depth > 2 {
		form = w.pick("scalar", "block")
	}
	switch form {
	case "block":
		w.WriteString(" " + w.pick("|-", ">-", "|", ">"))
		clip := !strings.HasSuffix(w.String(), "-")
		w.WriteString("\n" + deeper + "text: a # b\n")
		if clip {
			return "text: a # b\n"
		}
		return "text: a # b"
	case "map":
		w.WriteString(w.pick("\n", " # comment\n", "\n\n"))
		return w.mapping(indent+2, depth+1)
	case "list":
		w.WriteString("\n")
		list := []any{}
		for range rapid.IntRange(1, 3).Draw(w.T, "items") {
			w.WriteString(deeper + "-")
			list = append(list, w.value(indent+2, depth+1))
		}
		return list
	case "flow":
		w.WriteString(" [")
		a := w.scalar()
		w.WriteString(w.pick(", ", ",\n  "+deeper) + "{k: ")
		b := w.scalar()
		w.WriteString("}" + w.pick("]", ", ]") + w.pick("\n", "  # comment\n"))
		return []any{a, map[string]any{"k": b}}
	case "empty":
		w.WriteString(" []\n")
		return []any{}
	}
	w.WriteString(" ")
	text := w.scalar()
	w.WriteString(w.pick("\n", " # comment\n", "\n\n"))
	return text
}

func (w *writer) mapping(indent, depth int) map[string]any {
	m := map[string]any{}
	for i := range rapid.IntRange(1, 3).Draw(w.T, "keys") {
		key := fmt.Sprintf("k%d", i)
		w.WriteString(strings.Repeat(" ", indent) + w.pick(key, "'"+key+"'", `"`+key+`"`) + ":")
		m[key] = w.value(indent, depth)
	}
	return m
}

// TestReaderAgreesWithLibrary: whatever way a tree is written, our reader and a
// YAML library find the same tree.
func TestReaderAgreesWithLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{T: t}
		want := w.mapping(0, 0)
		root, ok := readAll(w.String())
		if !ok {
			t.Fatalf("%q cannot be read", w.String())
		}
		if d := differs(root, want); d != "" {
			t.Fatalf("%q: %s", w.String(), d)
		}
		var other map[string]any
		if err := yaml.Unmarshal([]byte(w.String()), &other); err != nil {
			t.Fatalf("%q: the library says %v", w.String(), err)
		}
		if d := differs(root, other); d != "" {
			t.Fatalf("%q: the library differs: %s", w.String(), d)
		}
	})
}
