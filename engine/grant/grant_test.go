package grant_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine/canon"
	"holdpoint/engine/grant"
)

func value(t testing.TB, text string) canon.Value {
	t.Helper()
	v, err := canon.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func TestMatch(t *testing.T) {
	pay := `{"matchers":[{"path":"/to","op":"equals","value":"acme"},{"path":"/amount","op":"at_most","value":100}]}`
	between := `{"matchers":[{"path":"/n","op":"at_least","value":1},{"path":"/n","op":"at_most","value":3}]}`
	refund := `{"matchers":[{"path":"/n","op":"at_most","value":-5}]}`
	loss := `{"matchers":[{"path":"/n","op":"at_least","value":-5}]}`
	list := `{"arrays":["/to"],"matchers":[{"path":"/to/0","op":"one_of","value":["a",1,null]},{"path":"/to/1","op":"any"}]}`
	nothing := `{"matchers":[{"path":"","op":"equals","value":{}}]}`
	odd := `{"matchers":[{"path":"/a~1b/~0","op":"equals","value":true}]}`
	file := `{"matchers":[{"path":"/path","op":"prefix","value":"/srv/a/"}]}`
	site := `{"matchers":[{"path":"/path","op":"prefix","value":"https://example.com"}]}`
	command := `{"matchers":[{"path":"/run","op":"prefix","value":"git log"}]}`
	dots := `{"matchers":[{"path":"/path","op":"prefix","value":"/srv."}]}`
	for _, test := range []struct {
		pattern, arguments string
		want               bool
	}{
		{pay, `{"to":"acme","amount":100}`, true},
		{pay, `{"amount":1e2,"to":"acme"}`, true},
		{pay, `{"amount":0,"to":"acme"}`, true},
		{pay, `{"amount":100.01,"to":"acme"}`, false},
		{pay, `{"amount":-1,"to":"acme"}`, false},
		{pay, `{"amount":"100","to":"acme"}`, false},
		{pay, `{"amount":null,"to":"acme"}`, false},
		{pay, `{"amount":[5],"to":"acme"}`, false},
		{pay, `{"amount":5,"to":"Acme"}`, false},
		{pay, `{"amount":5}`, false},
		{pay, `{"amount":5,"to":"acme","cc":null}`, false},
		{pay, `{"amount":5,"to":"acme","cc":{}}`, false},
		{pay, `{"x":{"amount":5,"to":"acme"}}`, false},
		{pay, `[5,"acme"]`, false},
		{pay, `{}`, false},
		{between, `{"n":1}`, true},
		{between, `{"n":3}`, true},
		{between, `{"n":0}`, false},
		{between, `{"n":4}`, false},
		{refund, `{"n":-5}`, true},
		{refund, `{"n":-500}`, true},
		{refund, `{"n":-4}`, false},
		{refund, `{"n":0}`, false},
		{loss, `{"n":-5}`, true},
		{loss, `{"n":0}`, true},
		{loss, `{"n":1}`, false},
		{list, `{"to":["a","b"]}`, true},
		{list, `{"to":[1,{}]}`, true},
		{list, `{"to":[null,null]}`, true},
		{list, `{"to":["b","b"]}`, false},
		{list, `{"to":["1","b"]}`, false},
		{list, `{"to":["a"]}`, false},
		{list, `{"to":["a","b","c"]}`, false},
		{list, `{"to":["a",{"b":1}]}`, false},
		{list, `{"to":{"0":"a","1":"b"}}`, false},
		{nothing, `{}`, true},
		{nothing, `[]`, false},
		{nothing, `{"a":{}}`, false},
		{odd, `{"a/b":{"~":true}}`, true},
		{odd, `{"a":{"b":{"~":true}}}`, false},
		{file, `{"path":"/srv/a/x"}`, true},
		{file, `{"path":"/srv/a/"}`, true},
		{file, `{"path":"/srv/a"}`, false},
		{file, `{"path":"/srv/a/../b"}`, false},
		{file, `{"path":"/srv/a/x/.."}`, false},
		{file, `{"path":"/srv/a//etc"}`, false},
		{file, `{"path":"/srv/a/x//y"}`, false},
		{file, `{"path":"/srv/a/%2e%2e/b"}`, false},
		{file, `{"path":"/srv/a/x\\y"}`, false},
		{file, `{"path":"/srv/a/x\u200by"}`, false},
		{file, `{"path":"/srv/a/x\ny"}`, false},
		{file, `{"path":"/srv/a/\u0301"}`, false},
		{file, `{"path":["/srv/a/x"]}`, false},
		{site, `{"path":"https://example.com/x"}`, true},
		{site, `{"path":"https://example.com@evil.test"}`, false},
		{site, `{"path":"https://example.com//evil.test"}`, false},
		{file, `{"path":"/srv/a/./b"}`, false},
		{file, `{"path":"/srv/a/x/."}`, false},
		{file, `{"path":"/srv/a/."}`, false},
		{file, `{"path":"/srv/a/.env"}`, true},
		{file, `{"path":"/srv/a/x\u00a0y"}`, false},
		{file, `{"path":"/srv/a/x y"}`, true},
		{file, `{"path":"/srv/a/straße"}`, true},
		{file, `{"path":"/srv/a/p\u0430ypal"}`, false},
		{file, `{"path":"/srv/a\u043b/x"}`, false},
		{file, `{"path":"/srv/a/\u2044etc"}`, false},
		{site, `{"path":"https://example.com/x?y=1#z"}`, true},
		{site, `{"path":"https://example.c\u043em/x"}`, false},
		{command, `{"run":"git log --oneline -3"}`, true},
		{command, `{"run":"git log; rm -rf /srv"}`, false},
		{command, `{"run":"git log | sh"}`, false},
		{command, `{"run":"git log & sh"}`, false},
		{command, `{"run":"git log > x"}`, false},
		{command, `{"run":"git log < x"}`, false},
		{command, "{\"run\":\"git log `sh`\"}", false},
		{command, `{"run":"git log $(sh)"}`, false},
		{dots, `{"path":"/srv./x"}`, true},
		{dots, `{"path":"/srv../x"}`, false},
	} {
		p, err := grant.Parse(value(t, test.pattern))
		if err != nil {
			t.Fatalf("%s: %v", test.pattern, err)
		}
		if got := p.Match(value(t, test.arguments)); got != test.want {
			t.Errorf("%s on %s: %v, want %v", test.pattern, test.arguments, got, test.want)
		}
	}
	if (grant.Pattern{}).Match(value(t, `{}`)) {
		t.Error("the zero pattern matches")
	}
}

func TestParseNamesThePlace(t *testing.T) {
	for document, want := range map[string]string{
		`[]`:                             `a pattern is an object`,
		`{}`:                             `/matchers: there have to be`,
		`{"matchers":[]}`:                `/matchers: there have to be`,
		`{"matchers":{"a":1}}`:           `/matchers: it has to be an array`,
		`{"matchers":[1]}`:               `/matchers/0: a matcher is an object`,
		`{"matchers":[],"rest":"any"}`:   `/rest: there is no such member`,
		`{"matchers":[{"path":"/a"}]}`:   `/matchers/0/op: it is missing`,
		`{"matchers":[{"op":"any"}]}`:    `/matchers/0/path: it is missing`,
		`{"matchers":[],"arrays":["x"]}`: `/arrays/0: it is not a JSON Pointer`,
		`{"matchers":[],"arrays":[7]}`:   `/arrays/0: it has to be a text`,
		`{"arrays":["/a","/a"],"matchers":[{"path":"/a/0","op":"equals","value":1}]}`: `/arrays/1: it is there twice`,
		`{"matchers":[{"path":"a","op":"equals","value":1}]}`:                         `/matchers/0/path: it is not a JSON Pointer`,
		`{"matchers":[{"path":"/~2","op":"equals","value":1}]}`:                       `/matchers/0/path: it is not a JSON Pointer`,
		`{"matchers":[{"path":"/~","op":"equals","value":1}]}`:                        `/matchers/0/path: it is not a JSON Pointer`,
		`{"matchers":[{"path":"/a","op":"like","value":1}]}`:                          `/matchers/0/op: it has to be`,
		`{"matchers":[{"path":"/a","op":"equals"}]}`:                                  `/matchers/0/value: it is missing`,
		`{"matchers":[{"path":"/a","op":"equals","value":[1]}]}`:                      `/matchers/0/value: equals takes`,
		`{"matchers":[{"path":"/a","op":"one_of","value":[]}]}`:                       `/matchers/0/value: one_of takes`,
		`{"matchers":[{"path":"/a","op":"one_of","value":[1,{"b":2}]}]}`:              `/matchers/0/value/1: one_of takes`,
		`{"matchers":[{"path":"/a","op":"at_most","value":"1"}]}`:                     `/matchers/0/value: at_most takes a number`,
		`{"matchers":[{"path":"/a","op":"prefix","value":"äö"}]}`:                     `/matchers/0/value: prefix takes`,
		`{"matchers":[{"path":"/a","op":"any","value":1}]}`:                           `/matchers/0/value: any takes none`,
		`{"matchers":[{"path":"/a","op":"any"}]}`:                                     `other than any`,
		`{"matchers":[{"path":"/a","op":"equals","value":1,"not":true}]}`:             `/matchers/0/not: there is no such member`,
	} {
		_, err := grant.Parse(value(t, document))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", document, err, want)
		}
	}
}

var names = []string{"a", "b", "0", "1", "", "a/b", "~", "~1"}

func drawLeaf(t *rapid.T) canon.Value {
	return rapid.SampledFrom([]canon.Value{
		canon.Null(), canon.Bool(true), canon.Bool(false), canon.Number(0), canon.Number(-1), canon.Number(2.5),
		canon.String(""), canon.String("abcd"), canon.String("abc/../d"), canon.Array(), canon.Object(),
	}).Draw(t, "leaf")
}

func draw(t *rapid.T, depth int) canon.Value {
	switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
	case kind == 0 && depth > 0:
		var elems []canon.Value
		for range rapid.IntRange(0, 2).Draw(t, "elements") {
			elems = append(elems, draw(t, depth-1))
		}
		return canon.Array(elems...)
	case kind < 3 && depth > 0:
		var members []canon.Member
		for _, name := range names {
			if rapid.IntRange(0, 3).Draw(t, "has "+name) == 0 {
				members = append(members, canon.Member{Name: name, Value: draw(t, depth-1)})
			}
		}
		return canon.Object(members...)
	}
	return drawLeaf(t)
}

// changeOne changes one leaf, or takes one away, or adds one.
func changeOne(t *rapid.T, v canon.Value) canon.Value {
	how := rapid.IntRange(0, 3).Draw(t, "how")
	switch {
	case v.Len() == 0 || how == 0:
		return drawLeaf(t)
	case v.Kind() == canon.ArrayKind:
		var elems []canon.Value
		for _, e := range v.Elements() {
			elems = append(elems, e)
		}
		i := rapid.IntRange(0, len(elems)-1).Draw(t, "which")
		if how == 1 {
			return canon.Array(elems[:len(elems)-1]...)
		}
		elems[i] = changeOne(t, elems[i])
		return canon.Array(elems...)
	default:
		members := v.Members()
		i := rapid.IntRange(0, len(members)-1).Draw(t, "which")
		if how == 1 {
			return canon.Object(members[:len(members)-1]...)
		}
		if _, there := v.Get("more"); how == 2 && !there {
			return canon.Object(append(members, canon.Member{Name: "more", Value: drawLeaf(t)})...)
		}
		members[i].Value = changeOne(t, members[i].Value)
		return canon.Object(members...)
	}
}

// like is the pattern of exactly these arguments.
func like(arguments canon.Value) grant.Pattern {
	leaves, arrays := grant.Leaves(arguments)
	p := grant.Pattern{Arrays: arrays}
	for _, l := range leaves {
		p.Matchers = append(p.Matchers, grant.Matcher{Path: l.Path, Op: grant.Equals, Value: l.Value})
	}
	return p
}

// The pattern of a call's arguments matches those, however they are written, and
// nothing else at all.
func TestLikeMatchesExactlyItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := draw(t, 3)
		b := changeOne(t, a)
		if rapid.Bool().Draw(t, "another altogether") {
			b = draw(t, 3)
		}
		p := like(a)
		if !p.Match(a) {
			t.Fatalf("%s does not match itself", a.Canonical())
		}
		if want := bytes.Equal(a.Canonical(), b.Canonical()); p.Match(b) != want {
			t.Fatalf("the pattern of %s on %s: %v", a.Canonical(), b.Canonical(), !want)
		}
		again, err := grant.Parse(p.Document())
		if err != nil || !again.Match(a) {
			t.Fatalf("read again: %v", err)
		}
	})
}

// loosen makes a pattern of arguments with matchers of every kind.
func loosen(t *rapid.T, a canon.Value) grant.Pattern {
	p := like(a)
	for i := range p.Matchers {
		p.Matchers[i] = drawMatcher(t, p.Matchers[i].Path, p.Matchers[i].Value)
	}
	return p
}

func drawMatcher(t *rapid.T, path string, near canon.Value) grant.Matcher {
	switch op := rapid.SampledFrom([]grant.Op{grant.Equals, grant.OneOf, grant.AtMost, grant.AtLeast, grant.Prefix, grant.Any}).Draw(t, "op"); op {
	case grant.OneOf:
		return grant.Matcher{Path: path, Op: op, Value: canon.Array(drawLeaf(t), near)}
	case grant.AtMost, grant.AtLeast:
		return grant.Matcher{Path: path, Op: op, Value: canon.Number(float64(rapid.IntRange(-2, 3).Draw(t, "bound")))}
	case grant.Prefix:
		return grant.Matcher{Path: path, Op: op, Value: canon.String("abc")}
	case grant.Any:
		return grant.Matcher{Path: path, Op: op}
	default:
		return grant.Matcher{Path: path, Op: grant.Equals, Value: near}
	}
}

// One more matcher never lets a call through that would have been refused: for a
// leaf that is named it tightens, for another one it is about other calls.
func TestAnotherMatcherNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := draw(t, 2)
		p := loosen(t, a)
		named := map[string]bool{}
		for _, m := range p.Matchers {
			named[m.Path] = true
		}
		paths := []string{"", "/a", "/b", "/more", "/0"}
		for _, m := range p.Matchers {
			paths = append(paths, m.Path)
		}
		m := drawMatcher(t, rapid.SampledFrom(paths).Draw(t, "path"), drawLeaf(t))
		more := grant.Pattern{Arrays: p.Arrays, Matchers: append(append([]grant.Matcher{}, p.Matchers...), m)}
		for _, b := range []canon.Value{a, changeOne(t, a), draw(t, 2)} {
			before, after := p.Match(b), more.Match(b)
			if named[m.Path] && after && !before && p.Check() == nil {
				t.Fatalf("with another %s for %q it matches %s", m.Op, m.Path, b.Canonical())
			}
			if !named[m.Path] && after && before {
				t.Fatalf("a matcher for the new leaf %q goes for nothing on %s", m.Path, b.Canonical())
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"arrays":["/a"],"matchers":[{"path":"/a/0","op":"prefix","value":"abc"},{"path":"/b","op":"any"}]}`), []byte(`{"a":["abcd"],"b":1}`))
	f.Add([]byte(`{"matchers":[{"path":"/~0~1","op":"one_of","value":[1,"x"]}]}`), []byte(`{"~/":1}`))
	f.Fuzz(func(t *testing.T, document, arguments []byte) {
		d, err := canon.Parse(document)
		if err != nil {
			return
		}
		p, err := grant.Parse(d)
		if err != nil {
			return
		}
		again, err := grant.Parse(p.Document())
		if err != nil || !bytes.Equal(again.Document().Canonical(), p.Document().Canonical()) {
			t.Fatalf("read again as another: %v", err)
		}
		a, err := canon.Parse(arguments)
		if err != nil {
			return
		}
		if p.Match(a) != again.Match(a) {
			t.Fatal("it matters how often it was written")
		}
		if leaves, _ := grant.Leaves(a); len(leaves) <= grant.MaxMatchers && !like(a).Match(a) {
			t.Fatal("the arguments are not like themselves")
		}
	})
}
