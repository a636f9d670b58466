package source_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

func read(t *testing.T, text string) source.Node {
	t.Helper()
	n, problems := source.Read([]byte(text), source.Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return n
}

func TestRead(t *testing.T) {
	n := read(t, "# a file\na: 1e3\nb:\n  - x\n  - {c: ~, \"yes\": true}\nd: |\n  two\n  lines\n")
	if got, want := string(n.Value.Canonical()), `{"a":1000,"b":["x",{"c":null,"yes":true}],"d":"two\nlines\n"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b, _ := n.Get("b")
	if e := b.Element(1); e.Position() != (source.Position{Line: 5, Column: 5}) || e.Path != "/b/1" {
		t.Errorf("element 1 of b is at %v, %s", e.Position(), e.Path)
	}
	for m := range b.Element(1).Members() {
		if p := m.KeyProblem("c", "here", ""); m.Name == "yes" && (p.Line != 5 || p.Column != 12 || p.Path != "/b/1/yes") {
			t.Errorf("the key is at %d:%d, %s", p.Line, p.Column, p.Path)
		}
	}
	n = read(t, "a:\tb\t# c\td\ne: \"f\tg\"\t\nh: ['i\tj'\t,\tk ]\nl: | # m\tn\n  o\tp\n")
	if got, want := string(n.Value.Canonical()), `{"a":"b","e":"f\tg","h":["i\tj","k"],"l":"o\tp\n"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, ok := n.Get("b"); ok {
		t.Error("b is there")
	}
	if p := source.Of(n.Value).Problem("c", "m", ""); p.Line != 0 || p.String() != "m" {
		t.Errorf("got %+v, want a problem without a place", p)
	}
}

// A CR LF is one line break, also behind a comment.
func TestReadLines(t *testing.T) {
	n := read(t, "a: 1 # x\r\n# c\r\nb: |\r\n  x\r\n  y\r\n")
	if b, _ := n.Get("b"); b.Position().Line != 3 || b.Value.Str() != "x\ny\n" {
		t.Errorf("b is %q in line %d", b.Value.Str(), b.Position().Line)
	}
	n = read(t, "\r\n {\"ä\\\"\": 1,\r\n\"b\": [true , -2.5e3,{}, \"x\"]}")
	b, _ := n.Get("b")
	var got []string
	for m := range n.Members() {
		got = append(got, fmt.Sprint(m.Key, m.Position()))
	}
	for i := range b.Value.Len() {
		got = append(got, fmt.Sprint(b.Element(i).Position()))
	}
	if got, want := strings.Join(got, " "), "{2 3} {2 10} {3 1} {3 6} {3 7} {3 14} {3 21} {3 25}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"twice":           {"a: 1\nb: 2\na: 3\n", "f:3:1: duplicate_key /a"},
		"twice but case":  {"a:\n  Tool: 1\n  tool: 3\n", "f:3:3: case_variant_key /a/tool"},
		"anchor":          {"a: &x 1\n", "f:1:4: yaml_anchor"},
		"alias":           {"a: *x\n", "f:1:4: yaml_alias"},
		"tag":             {"a: !!str 1\n", "f:1:4: yaml_tag"},
		"merge":           {"a:\n  <<: {b: 1}\n", "f:2:3: yaml_merge"},
		"question mark":   {"? a\n", "f:1:1: yaml_key"},
		"directive":       {"%YAML 1.2\n---\na: 1\n", "f:1:1: yaml_directive"},
		"documents":       {"a: 1\n---\nb: 1\n", "f:2:1: yaml_documents"},
		"behind an end":   {"a: 1\n...\nb: 1\n", "f:3:1: yaml_documents"},
		"nothing":         {"# nothing\n", "f:1:1: syntax"},
		"boolean":         {"a: [yes]\n", "f:1:5: yaml_word /a/0"},
		"boolean as key":  {"a: {on: 1}\n", "f:1:5: yaml_word /a"},
		"hexadecimal":     {"a: 0x10\n", "f:1:4: yaml_number /a"},
		"infinity":        {"a: .inf\n", "f:1:4: yaml_number /a"},
		"inexact":         {"a: 9007199254740993\n", "f:1:4: number_not_exact /a"},
		"a number as key": {"1: a\n", "f:1:1: yaml_key"},
		"1e3 as key":      {"1e3: a\n", "f:1:1: yaml_key"},
		"NUL":             {"a: \"\\0\"\n", "f:1:4: nul_character /a"},
		"tab":             {"a: b\nc: pay\tout # c\n", "f:2:4: syntax"},
		"tab in a number": {"a: [1\t2]\n", "f:1:5: syntax"},
		"tab in a key":    {"a\tb: 1\n", "f:1:1: syntax"},
		"not YAML":        {"a: [1\n", "f:1:4: syntax"},
		"not UTF-8":       {"a: \xff\n", "f:1:1: invalid_utf8"},
		"a mark":          {"\uFEFFa: 1\n", "f:1:1: byte_order_mark"},
		"large":           {strings.Repeat(" ", source.MaxBytes+1), "f:1:1: too_large"},
		"deep":            {strings.Repeat("[", 4) + strings.Repeat("]", 4), "f:1:4: too_deep /0/0/0"},
		"deep blocks":     {"a:\n  b:\n    - c:\n        d: 1\n", "f:3:7: too_deep /a/b/0"},
		"very deep":       {strings.Repeat("[", 100_000), "f:1:4: too_deep /0/0/0"},
		"dashes":          {strings.Repeat("- ", 100_000) + "a", "f:1:7: too_deep /0/0/0"},
		"values":          {"a: [" + strings.Repeat("1,", canon.MaxValues) + "]", "f:1:200001: too_many_values /a/99998"},
		"members":         {"a: {" + manyKeys(canon.MaxMembers+1, ",") + "}", "f:1:88895: too_many_members /a"},
		"keys of blocks":  {manyKeys(2*canon.MaxMembers, "\n"), "f:10001:1: too_many_members"},
		"problems":        {"a: [" + strings.Repeat("no,", 2000) + "]", "f:1:5: yaml_word /a/0 and 1000 more"},
		"JSON":            {"{\n\"a\": é}", "f:2:6: syntax /a"},
		"JSON twice":      {"{\"a\": 1,\n \"é\": 2, \"a\": 3}", "f:2:10: duplicate_key /a"},
		"flow is JSON":    {"{a: 1}", "f:1:2: syntax"},
		"JSON deep":       {`{"a": {"b": [1, {}]}}`, "f:1:17: too_deep /a/b/1"},
		"JSON very deep":  {`{"a": ` + strings.Repeat("[", 100_000), "f:1:70: too_deep /a" + strings.Repeat("/0", 63)},
		"JSON not UTF-8":  {"{\"a\": \"x\xff\"}", "f:1:9: invalid_utf8 /a"},
		"JSON NUL":        {`{"a": "\u0000"}`, "f:1:8: nul_character /a"},
	} {
		n, problems := source.Read([]byte(c.text), source.Options{File: "f", MaxDepth: 3})
		got := ""
		if len(problems) > 0 {
			p := problems[0]
			got = strings.TrimSuffix(fmt.Sprintf("%s:%d:%d: %s %s", p.File, p.Line, p.Column, p.Code, p.Path), " ")
			if len(problems) > 1 {
				got += fmt.Sprintf(" and %d more", len(problems)-1)
			}
		}
		if got != c.want || n.Value.Kind() != canon.NullKind {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// A problem is never longer than a person would want to read.
func TestReadMessages(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	for _, text := range []string{"a: | " + long, "a: *" + long, long + ": [no]", "a: 1" + long + "\nb: 0x" + strings.Repeat("1", 1000), "{\"" + long + "\": [}", "a: @" + long, "a: \"\\" + long} {
		_, problems := source.Read([]byte(text), source.Options{})
		if len(problems) == 0 || len(problems[0].String()+problems[0].Path) > 400 {
			t.Errorf("%.20s: got %.500v", text, problems)
		}
	}
}

func manyKeys(n int, between string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1%s", i, between)
	}
	return b.String()
}

// What is not deeper than the limit is read, in both.
func TestReadDepth(t *testing.T) {
	for _, text := range []string{"[[[1]]]", `{"a": [{"b": 1}]}`} {
		if _, problems := source.Read([]byte(text), source.Options{MaxDepth: 3}); len(problems) > 0 {
			t.Errorf("%s: %v", text, problems)
		}
	}
	deepest := strings.Repeat("[", canon.MaxDepth-1) + strings.Repeat("]", canon.MaxDepth-1)
	read(t, "a: "+deepest)
	read(t, `{"a": `+deepest+"}")
}

// JSON behind a comment is YAML, with the same values in the same places.
func TestJSONIsYAML(t *testing.T) {
	values := rapid.SampledFrom([]string{"null", "true", "-2.5e3", `"é"`, `"a\tb\"\\"`, `""`, "{}", "[]", `{"a":1, "b" : [null]}`, "[[1],\n {\"x\": \"yes\"}]"})
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for i, v := range rapid.SliceOfN(values, 1, 6).Draw(t, "values") {
			fmt.Fprintf(&b, ", \"k%d\":%s%s", i, rapid.SampledFrom([]string{" ", "  ", "\n "}).Draw(t, "space"), v)
		}
		text := "{" + b.String()[1:] + "}"
		j, problems := source.Read([]byte(text), source.Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		y, problems := source.Read([]byte("#\n"+text), source.Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got, want := places(y, 1), places(j, 0); got != want || string(y.Value.Canonical()) != string(j.Value.Canonical()) {
			t.Fatalf("%s: got %s, want %s", text, got, want)
		}
	})
}

// places is where everything is, so many lines further up.
func places(n source.Node, up int) string {
	var b strings.Builder
	everyPlace(n, func(at source.Position, path string) { fmt.Fprintf(&b, "%d:%d%s ", at.Line-up, at.Column, path) })
	return b.String()
}

// everyPlace calls f with where each value and each name is.
func everyPlace(n source.Node, f func(at source.Position, path string)) {
	f(n.Position(), n.Path)
	for i := range n.Value.Elements() {
		everyPlace(n.Element(i), f)
	}
	for m := range n.Members() {
		f(m.Key, m.Path)
		everyPlace(m.Node, f)
	}
}

// FuzzRead: whatever is read without a problem is a value that JSON can say,
// and every part of it has a place.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"a: 1\nb: [x, {c: d}]\n", "a: |\n  x\n", "- 1\n- -2.5e3\n", `["a", {"b": [null, true]}]`, "a: 'x''y'\n", "? a\n: b\n", "a:\n- b\n-\n",
		"{\"a\": [\"\\\"é\", {}],\r\n\"b\":-1.5e3}", `{"a":1,"A":2}`, "---\r\n# c\r\na: 1\r\n...\r\n", "a: {b, c: , \"d\"}\n", "%YAML 1.2\n--- |\n x\n",
		"0 0:: 1\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, problems := source.Read([]byte(text), source.Options{MaxDepth: 20})
		if len(problems) > 0 {
			for _, p := range problems {
				if p.Message == "" || p.Code == "" || p.Line < 1 || p.Column < 1 {
					t.Errorf("%+v", p)
				}
			}
			return
		}
		if _, err := canon.Parse(n.Value.Canonical()); err != nil {
			t.Errorf("%s: %v", n.Value.Canonical(), err)
		}
		everyPlace(n, func(at source.Position, path string) {
			if at.Line < 1 || at.Column < 1 {
				t.Errorf("%q has no place: %v", path, at)
			}
		})
	})
}
