package source_test

import (
	"strings"
	"testing"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

func TestRead(t *testing.T) {
	n, problems := source.Read([]byte("# a file\na: 1e3\nb:\n  - x\n  - {c: ~, \"yes\": true}\nd: |\n  two\n  lines\n"), "f.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if got, want := string(n.Value.Canonical()), `{"a":1000,"b":["x",{"c":null,"yes":true}],"d":"two\nlines\n"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b, _ := n.Get("b")
	if p := b.Element(1).Problem("here", ""); p.Line != 5 || p.Column != 5 || p.Path != "/b/1" {
		t.Errorf("element 1 of b is at %d:%d, %s", p.Line, p.Column, p.Path)
	}
	for m := range b.Element(1).Members() {
		if p := m.KeyProblem("here", ""); m.Name == "yes" && (p.Line != 5 || p.Column != 12 || p.Path != "/b/1/yes") {
			t.Errorf("the key is at %d:%d, %s", p.Line, p.Column, p.Path)
		}
	}
	n, _ = source.Read([]byte("a: 1\r\n# c\r\nb: |\r\n  x\r\n  y\r\n"), "")
	if b, _ := n.Get("b"); b.Problem("", "").Line != 3 || b.Value.Str() != "x\ny\n" {
		t.Errorf("b is %q in line %d", b.Value.Str(), b.Problem("", "").Line)
	}
	if _, ok := n.Get("e"); ok {
		t.Error("e is there")
	}
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"twice":           {"a: 1\nb: 2\na: 3\n", `f.yaml:3:1: the key "a" is there twice (the first is in line 1`},
		"twice but case":  {"a:\n  Tool: 1\n  tool: 3\n", `f.yaml:3:3: the key "tool" is there twice`},
		"anchor":          {"a: &x 1\n", "f.yaml:1:4: anchors are not allowed"},
		"alias":           {"a: *x\n", "f.yaml:1:4: aliases are not allowed"},
		"tag":             {"a: !!str 1\n", "f.yaml:1:4: tags are not allowed"},
		"merge":           {"a:\n  <<: {b: 1}\n", "f.yaml:2:3: merge keys are not allowed"},
		"documents":       {"a: 1\n---\nb: 1\n", "one document only"},
		"nothing":         {"# nothing\n", "f.yaml:1:1: the file is empty"},
		"boolean":         {"a: [yes]\n", "f.yaml:1:5: some readers of YAML take yes for a boolean"},
		"hexadecimal":     {"a: 0x10\n", `f.yaml:1:4: "0x10" is not a number`},
		"infinity":        {"a: .inf\n", "is not a number"},
		"inexact":         {"a: 9007199254740993\n", "f.yaml:1:4:"},
		"a number as key": {"1: a\n", "f.yaml:1:1: a key has to be text"},
		"not YAML":        {"a: [1\n", "f.yaml:"},
		"not UTF-8":       {"a: \xff\n", "not valid UTF-8"},
		"a mark":          {"\uFEFFa: 1\n", "byte order mark"},
		"large":           {strings.Repeat(" ", source.MaxBytes+1), "more than 1 MiB"},
		"deep":            {strings.Repeat("[", 33) + strings.Repeat("]", 33), "inside each other"},
		"very deep":       {strings.Repeat("[", 100_000), "inside each other"},
		"dashes":          {strings.Repeat("- ", 100_000) + "a", "too many lists"},
	} {
		n, problems := source.Read([]byte(c.text), "f.yaml")
		if len(problems) == 0 || !strings.Contains(problems[0].String(), c.want) || n.Value.Kind() != canon.NullKind {
			t.Errorf("%s: got %v, want %q", name, problems, c.want)
		}
	}
}

// FuzzRead: whatever is read without a problem is a value that JSON can say.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"a: 1\nb: [x, {c: d}]\n", "a: |\n  x\n", "- 1\n- -2.5e3\n", `{"a": [null, true]}`, "a: 'x''y'\n", "? a\n: b\n", "a:\n- b\n-\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, problems := source.Read([]byte(text), "")
		if len(problems) > 0 {
			for _, p := range problems {
				if p.Message == "" || p.Line < 1 || p.Column < 1 {
					t.Errorf("%+v", p)
				}
			}
			return
		}
		if _, err := canon.Parse(n.Value.Canonical()); err != nil {
			t.Errorf("%s: %v", n.Value.Canonical(), err)
		}
	})
}
