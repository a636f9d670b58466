package form_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine/canon"
	"holdpoint/engine/form"
)

// drawn is a schema and a value that it allows.
type drawn struct {
	schema string
	value  canon.Value
}

var anyText = rapid.OneOf(
	rapid.StringOf(rapid.SampledFrom([]rune("ab \n\r\t\"\\<é\U0001f600\x01"))),
	rapid.String().Filter(func(s string) bool { return !strings.ContainsRune(s, 0) }),
	rapid.Just(""),
)

func quote(s string) string { return string(canon.String(s).Canonical()) }

// property draws a schema with a value.
func property(t *rapid.T, depth int) drawn {
	kind := rapid.IntRange(0, 10).Draw(t, "kind")
	if depth == 0 && kind == 10 {
		kind = 0
	}
	text := anyText.Draw(t, "text")
	number := rapid.OneOf(rapid.Float64(), rapid.Map(rapid.IntRange(-9, 9), func(i int) float64 { return float64(i) / 2 })).Draw(t, "number")
	whole := float64(rapid.Int32().Draw(t, "whole"))
	switch kind {
	case 0:
		return drawn{fmt.Sprintf(`{"type":"string","maxLength":%d}`, len([]rune(text))+rapid.IntRange(0, 500).Draw(t, "spare")), canon.String(text)}
	case 1:
		return drawn{`{"type":"integer","maximum":2147483647}`, canon.Number(whole)}
	case 2:
		return drawn{`{"type":"number","title":"N"}`, canon.Number(number)}
	case 3:
		return drawn{`{"type":"boolean"}`, canon.Bool(rapid.Bool().Draw(t, "bool"))}
	case 4:
		return drawn{`{"enum":[` + quote("x"+text) + `,1,false,null,"y"]}`, rapid.SampledFrom([]canon.Value{
			canon.String("x" + text), canon.Number(1), canon.Bool(false), canon.Null(), canon.String("y"),
		}).Draw(t, "choice")}
	case 5:
		return drawn{`{"type":["null","string"]}`, rapid.SampledFrom([]canon.Value{canon.Null(), canon.String(text)}).Draw(t, "or null")}
	case 6:
		return drawn{`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, rapid.SampledFrom([]canon.Value{canon.Null(), canon.Number(whole)}).Draw(t, "or null")}
	case 7:
		return drawn{`{"type":"array"}`, canon.Array(canon.Null(), canon.String(text), canon.Array(canon.Number(number)))}
	case 8:
		return drawn{`{"oneOf":[{"type":"string"},{"type":"array"}]}`, canon.String(text)}
	case 9:
		return drawn{`true`, rapid.SampledFrom([]canon.Value{canon.Null(), canon.String(text), canon.Object(), canon.Bool(true)}).Draw(t, "any")}
	}
	return object(t, depth-1)
}

func object(t *rapid.T, depth int) drawn {
	var properties, required []string
	var members []canon.Member
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c.d", "a.b", "~/", "", "é\"", "e"}), 0, 5, rapid.ID[string]).Draw(t, "names")
	for _, name := range names {
		p := property(t, depth)
		properties = append(properties, quote(name)+":"+p.schema)
		there := rapid.Bool().Draw(t, "there")
		if there {
			members = append(members, canon.Member{Name: name, Value: p.value})
		}
		if there && rapid.Bool().Draw(t, "required") {
			required = append(required, quote(name))
		}
	}
	if rapid.Bool().Draw(t, "stranger") {
		members = append(members, canon.Member{Name: "stranger", Value: canon.Array(canon.String("s"))})
	}
	members = rapid.Permutation(members).Draw(t, "members")
	schema := `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `]}`
	return drawn{schema, canon.Object(members...)}
}

// posted is what a browser sends for fields that nobody touched: line ends as
// CRLF, and no more than HTML's own controls keep.
func posted(t *rapid.T, fields []form.Field) map[string][]string {
	values := url.Values{}
	for _, f := range fields {
		if _, twice := values[f.Name]; twice {
			t.Fatalf("two fields are called %q", f.Name)
		}
		if f.Kind == form.Text && strings.Contains(f.Value, "\n") {
			t.Fatalf("%q is a text of several lines in one", f.Name)
		}
		if f.Value == "" && rapid.Bool().Draw(t, "not sent") {
			continue
		}
		values.Set(f.Name, strings.ReplaceAll(strings.TrimPrefix(f.Value, "\n"), "\n", "\r\n"))
	}
	return values
}

// TestRoundTrip: a form that nobody touched changes nothing, whatever the
// schema, and Validate has nothing to say about it.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := object(t, 4)
		f := compile(t, d.schema)
		if got := f.Validate(d.value); got != nil {
			t.Fatalf("Validate(%s) by %s: %v", d.value.Canonical(), d.schema, got)
		}
		for name, f := range map[string]*form.Form{"schema": f, "inferred": form.Infer(d.value)} {
			got, problems := f.Read(posted(t, f.Fields(d.value)), d.value)
			if problems != nil || string(got.Canonical()) != string(d.value.Canonical()) {
				t.Fatalf("%s %s:\ngot  %s, %v\nwant %s", name, d.schema, got.Canonical(), problems, d.value.Canonical())
			}
			var a, b strings.Builder
			written(&a, got)
			written(&b, d.value)
			if a.String() != b.String() {
				t.Fatalf("the order changed from %s to %s", b.String(), a.String())
			}
		}
	})
}

// TestFilledIn: what people fill in by a field's own rules is read.
func TestFilledIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := object(t, 3)
		f := compile(t, d.schema)
		values := map[string][]string{}
		for _, field := range f.Fields(canon.Null()) {
			text := map[form.Kind]string{form.Text: "t", form.LongText: "l\r\n", form.Integer: "-3", form.Number: "0.5", form.Boolean: "true", form.JSON: `{"j":[]}`}[field.Kind]
			if field.Kind == form.Choice {
				text = rapid.SampledFrom(field.Choices).Draw(t, "choice")
			}
			values[field.Name] = []string{text}
		}
		got, problems := f.Read(values, canon.Null())
		if problems != nil {
			t.Fatalf("%s: %v", d.schema, problems)
		}
		again := f.Fields(got)
		for _, field := range again {
			if want := strings.ReplaceAll(values[field.Name][0], "\r\n", "\n"); field.Value != want {
				t.Fatalf("%s: field %q is %q after %q", d.schema, field.Name, field.Value, want)
			}
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		payment, `{}`, `{"type":"object","properties":{"a":{"$ref":"#/properties/b"},"b":{"$ref":"#/properties/a"}}}`,
		`{"type":"object","properties":{"a":{"enum":[]},"b":{"anyOf":[true,{"type":"null"}]},"c":{"type":["null","null"]}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","dependencies":{"a":["b"],"c":{"not":{}}},"items":[{}]}`,
		`{"type":"object","patternProperties":{"^a":{"format":"date","const":{"a":1}}},"propertyNames":{"pattern":"^a"},"unevaluatedProperties":false}`,
		`{"type":"object","properties":{"a":{"$ref":"#/allOf/0"}},"allOf":[{"if":{},"then":{"minLength":3},"$anchor":"x"}],"$defs":{"a":{"$anchor":"x"}}}`,
	} {
		f.Add([]byte(seed), []byte(`{"a":"x","b":[1,null],"to":{"a":1.5}}`))
	}
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		s, err := canon.Parse(schema)
		if err != nil {
			return
		}
		v, err := canon.Parse(value)
		if err != nil {
			return
		}
		compiled, err := form.Compile(s)
		if err != nil {
			return
		}
		a, b := compiled.Validate(v), compiled.Validate(v)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("Validate says %v, then %v", a, b)
		}
		values := map[string][]string{}
		for _, field := range compiled.Fields(v) {
			values[field.Name] = []string{field.Value}
		}
		if got, problems := compiled.Read(values, v); problems == nil && v.Kind() == canon.ObjectKind {
			for name, m := range v.All() {
				if kept, there := got.Get(name); !there || string(kept.Canonical()) != string(m.Canonical()) {
					t.Fatalf("Read loses %q", name)
				}
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"to":["A","B"],"amount":["1e400"],"tags":["[1"],"address.city":["\u0001"]}`), []byte(`{"to":1,"TO":[]}`))
	f.Add([]byte(`{"to":["A"],"amount":["1"],"urgent":["false","true"],"any":["{\"a\":1}"]}`), []byte(`null`))
	compiled, err := form.Compile(parse(f, payment))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, post, current []byte) {
		var values map[string][]string
		v, err := canon.Parse(current)
		if err != nil || json.Unmarshal(post, &values) != nil {
			return
		}
		for _, one := range []*form.Form{compiled, form.Infer(v)} {
			got, problems := one.Read(values, v)
			if problems == nil {
				if _, err := canon.Parse(got.Canonical()); err != nil {
					t.Fatalf("Read gives what canon refuses: %v", err)
				}
			}
			one.Again(values, v, append(problems, one.Validate(got)...))
		}
	})
}
