package form_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"holdpoint/engine/canon"
	"holdpoint/engine/form"
)

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

func parse(tb fataler, doc string) canon.Value {
	tb.Helper()
	v, err := canon.Parse([]byte(doc))
	if err != nil {
		tb.Fatalf("Parse(%.200s): %v", doc, err)
	}
	return v
}

func compile(tb fataler, schema string) *form.Form {
	tb.Helper()
	f, err := form.Compile(parse(tb, schema))
	if err != nil {
		tb.Fatalf("Compile(%.300s): %v", schema, err)
	}
	return f
}

// payment is a schema with most of what tools have.
const payment = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://tools.example/payment", "title": "Payment", "type": "object",
  "properties": {
    "to": {"type": "string", "title": "Payee", "description": "Who gets it.", "minLength": 1, "maxLength": 40},
    "amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 5000},
    "parts": {"type": "integer", "minimum": 1, "exclusiveMaximum": 10},
    "currency": {"enum": ["EUR", "USD"]},
    "urgent": {"type": "boolean"},
    "note": {"type": ["string", "null"], "pattern": "^[a-z ]*$"},
    "due": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "title": "Due day"},
    "body": {"type": "string", "maxLength": 4000},
    "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 3},
    "any": true, "never": false,
    "address": {"$ref": "#/$defs/address", "description": "Where to."}
  },
  "required": ["to", "amount"],
  "$defs": {"address": {"type": "object", "properties": {
    "city": {"type": "string"}, "geo": {"type": "object", "properties": {"lat": {"type": "number"}, "deep": {"type": "object", "properties": {"x": {"type": "string"}}}}}
  }, "required": ["city"], "additionalProperties": false}}
}`

func summary(fields []form.Field) []string {
	var lines []string
	for _, f := range fields {
		line := f.Name + " " + string(f.Kind)
		if f.Required {
			line += "!"
		}
		if f.Value != "" {
			line += " =" + f.Value
		}
		lines = append(lines, line)
	}
	return lines
}

func TestFields(t *testing.T) {
	f := compile(t, payment)
	tests := []struct {
		current string
		want    []string
	}{
		{`null`, []string{
			"to text!", "amount number!", "parts integer", "currency choice", "urgent boolean", "note text", "due text", "body long_text",
			"tags json", "any json", "address.city text", "address.geo.lat number", "address.geo.deep json",
		}},
		{`{"to":"Ann","amount":1e21,"parts":3,"currency":"USD","urgent":false,"note":null,"body":"x","tags":["b","a"],"any":null,"address":{"geo":{"lat":0.5,"deep":{"x":"y"}}},"more":1}`, []string{
			"to text! =Ann", "amount number! =1e+21", "parts integer =3", "currency choice =USD", "urgent boolean =false", "note text", "due text",
			"body long_text =x", `tags json =["b","a"]`, "any json =null", "address.city text!", "address.geo.lat number =0.5", `address.geo.deep json ={"x":"y"}`,
		}},
		// What its control could not give back is JSON.
		{`{"to":1,"amount":"1","parts":1.5,"currency":"GBP","urgent":null,"note":"a\r\nb","due":"\nx","body":"a\u0001","tags":"t","address":"here"}`, []string{
			`to json! =1`, `amount json! ="1"`, "parts json =1.5", `currency json ="GBP"`, "urgent json =null", `note json ="a\r\nb"`, `due json ="\nx"`,
			`body json ="a\u0001"`, `tags json ="t"`, "any json", `address json ="here"`,
		}},
		{`{"to":"` + strings.Repeat("x", 121) + `","due":"a\nb"}`, []string{
			"to long_text! =" + strings.Repeat("x", 121), "amount number!", "parts integer", "currency choice", "urgent boolean", "note text", "due long_text =a\nb",
			"body long_text", "tags json", "any json", "address.city text", "address.geo.lat number", "address.geo.deep json",
		}},
	}
	for _, tt := range tests {
		if got := summary(f.Fields(parse(t, tt.current))); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Fields(%.200s):\ngot  %q\nwant %q", tt.current, got, tt.want)
		}
	}
	fields := f.Fields(canon.Null())
	want := form.Field{Name: "to", Label: "Payee", Help: "Who gets it.", Kind: form.Text, Required: true, MaxLength: 40}
	if !reflect.DeepEqual(fields[0], want) {
		t.Errorf("got %+v, want %+v", fields[0], want)
	}
	if got := fields[1].Min + "," + fields[1].Max + "," + fields[2].Min + "," + fields[2].Max; got != ",5000,1,9" {
		t.Errorf("bounds: got %s, want ,5000,1,9", got)
	}
	if got := fields[3].Choices; !reflect.DeepEqual(got, []string{"EUR", "USD"}) {
		t.Errorf("choices: got %q", got)
	}
	if fields[6].Label != "Due day" {
		t.Errorf("label: got %q", fields[6].Label)
	}
}

func TestRead(t *testing.T) {
	f := compile(t, payment)
	post := func(pairs ...string) map[string][]string {
		values := map[string][]string{}
		for i := 0; i < len(pairs); i += 2 {
			values[pairs[i]] = append(values[pairs[i]], pairs[i+1])
		}
		return values
	}
	tests := []struct {
		name    string
		values  map[string][]string
		current string
		want    string // the object, or the problems
	}{
		{"new", post("to", "Ann", "amount", " 12.50 ", "parts", "1e0", "urgent", "true", "csrf", "x"), `null`, `{"to":"Ann","amount":12.5,"parts":1,"urgent":true}`},
		{"order and strangers are kept", post("to", "Ben", "amount", "1"), `{"more":{"z":1},"amount":2,"to":"Ann"}`, `{"more":{"z":1},"amount":1,"to":"Ben"}`},
		{"emptied", post("to", "A", "amount", "1", "note", "", "due", ""), `{"to":"A","amount":1,"note":"n","due":null,"body":""}`, `{"to":"A","amount":1,"due":null,"body":""}`},
		{"a checkbox after a hidden false", post("to", "A", "amount", "1", "urgent", "false", "urgent", "true"), `{}`, `{"to":"A","amount":1,"urgent":true}`},
		{"line ends", post("to", "A", "amount", "1", "body", "a\r\nb\rc\n"), `{}`, `{"to":"A","amount":1,"body":"a\nb\nc\n"}`},
		{"nested", post("to", "A", "amount", "1", "address.city", "Bonn", "address.geo.lat", "1"), `{}`, `{"to":"A","amount":1,"address":{"city":"Bonn","geo":{"lat":1}}}`},
		{"nested and emptied", post("to", "A", "amount", "1", "address.city", "Bonn"), `{"address":{"city":"Ulm","geo":{"lat":1}}}`, `{"address":{"city":"Bonn","geo":{}},"to":"A","amount":1}`},
		{"JSON", post("to", "A", "amount", "1", "tags", ` ["a"] `, "any", `{"b":2,"a":1}`), `{}`, `{"to":"A","amount":1,"tags":["a"],"any":{"b":2,"a":1}}`},
		{"missing", post(), `{}`, "to /to is required; amount /amount is required"},
		{"nested missing", post("to", "A", "amount", "1", "address.geo.lat", "1"), `{}`, "address.city /address/city is required"},
		{"numbers", post("to", "A", "amount", "1,5", "parts", "1.5"), `{}`, "amount /amount is not a number like 12 or 0.5; parts /parts is not a whole number"},
		{"too many digits", post("to", "A", "amount", "1e400", "parts", "9007199254740993"), `{}`, "amount /amount has more digits than can be kept, or is too large or too small; parts /parts has more digits than can be kept, or is too large or too small"},
		{"minus zero and words", post("to", "A", "amount", "-0", "parts", "NaN"), `{}`, "amount /amount has more digits than can be kept, or is too large or too small; parts /parts is not a number like 12 or 0.5"},
		{"no choice", post("to", "A", "amount", "1", "currency", "eur", "urgent", "on"), `{}`, "currency /currency is not one of the choices; urgent /urgent is neither true nor false"},
		{"twice", post("to", "A", "to", "B", "amount", "1"), `{}`, "to /to was sent more than once"},
		{"bad text", post("to", "a\x00", "amount", "1", "body", "\xff"), `{}`, "to /to holds a NUL or is not valid UTF-8; body /body holds a NUL or is not valid UTF-8"},
		{"bad JSON", post("to", "A", "amount", "1", "any", `{"a":1,"A":2}`), `{}`, "any /any is not JSON that can be kept: two members of one object have names that differ only by case, at byte 7"},
		{"deep JSON", post("to", "A", "amount", "1", "any", strings.Repeat("[", 64)+strings.Repeat("]", 64)), `{}`, "  cannot be kept: more than 64 arrays and objects are inside each other"},
		{"another's name", post("to", "A", "amount", "1"), `{"TO":"x","amount":1}`, "to /to has a name that differs only by case from another member's"},
		{"not an object", post("to", "A"), `[1]`, "  is not an object"},
	}
	for _, tt := range tests {
		got, problems := f.Read(tt.values, parse(t, tt.current))
		text := ""
		if len(problems) == 0 {
			var b strings.Builder
			written(&b, got)
			text = b.String()
		}
		for i, p := range problems {
			if i > 0 {
				text += "; "
			}
			text += p.Field + " " + p.Path + " " + p.Message
		}
		if text != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, text, tt.want)
		}
	}
}

// written is a value with its members in their own order.
func written(b *strings.Builder, v canon.Value) {
	if v.Kind() != canon.ObjectKind {
		b.Write(v.Canonical())
		return
	}
	b.WriteByte('{')
	for i, m := range v.Members() {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "%q:", m.Name)
		written(b, m.Value)
	}
	b.WriteByte('}')
}

func TestValidate(t *testing.T) {
	f := compile(t, payment)
	const secret = "hunter2 SECRET"
	tests := []struct{ value, want string }{
		{`{"to":"A","amount":1}`, ""},
		{`{}`, "amount /amount is required; to /to is required"},
		{`{"to":"","amount":0,"parts":10}`, "amount /amount is not more than 0; parts /parts is not less than 10; to /to has fewer than 1 characters"},
		{`{"to":"A","amount":5001,"currency":"` + secret + `","note":"` + secret + `"}`, "amount /amount is more than 5000; currency /currency is not one of the values that the schema allows; note /note does not match the pattern that the schema asks for"},
		{`{"to":"A","amount":1,"due":7777,"never":"` + secret + `"}`, "due /due has to be of type string;  /never is not allowed by the schema"},
		{`{"to":"A","amount":1,"address":{"a~/b":1},"tags":["` + secret + `","` + secret + `"]}`, "address /address/a~0~1b is not a member that the schema allows; address.city /address/city is required; tags /tags has two equal elements"},
		{`{"to":"A","amount":1,"address":{"city":"x","geo":{"lat":"` + secret + `"}}}`, "address.geo.lat /address/geo/lat has to be of type number"},
		{`["` + secret + `"]`, "  has to be of type object"},
	}
	for _, tt := range tests {
		var parts []string
		for _, p := range f.Validate(parse(t, tt.value)) {
			parts = append(parts, p.Field+" "+p.Path+" "+p.Message)
		}
		if got := strings.Join(parts, "; "); got != tt.want {
			t.Errorf("Validate(%s):\ngot  %s\nwant %s", tt.value, got, tt.want)
		} else if strings.Contains(got, secret) {
			t.Errorf("Validate(%s) quotes a value", tt.value)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	doubling := `"a0":{"type":"string"}`
	for i := range 40 {
		doubling += fmt.Sprintf(`,"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i+1, i, i)
	}
	properties := `"p":{}`
	for i := range form.MaxProperties {
		properties += fmt.Sprintf(`,"p%d":{}`, i)
	}
	wide := func(ref string) string {
		var parts []string
		for i := range 10 {
			parts = append(parts, fmt.Sprintf(`"q%d":{"$ref":"%s"}`, i, ref))
		}
		return `{"type":"object","properties":{` + strings.Join(parts, ",") + `}}`
	}
	object := func(property string) string { return `{"type":"object","properties":{"a":` + property + `}}` }
	tests := []struct{ name, schema, want string }{
		{"not an object", `true`, "it is not an object"},
		{"a schema of texts", `{"type":"string"}`, "not the schema of an object"},
		{"no type", `{}`, "not the schema of an object"},
		{"another draft", `{"$schema":"http://json-schema.org/draft-04/schema#","type":"object"}`, "$schema is neither"},
		{"a metaschema elsewhere", `{"$schema":"https://evil.example/","type":"object"}`, "$schema is neither"},
		{"remote", object(`{"$ref":"https://evil.example/x"}`), "a $ref leads out"},
		{"file", object(`{"$ref":"file:///etc/passwd"}`), "a $ref leads out"},
		{"relative", object(`{"$ref":"other.json#/a"}`), "a $ref leads out"},
		{"metaschema", object(`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`), "a $ref leads out"},
		{"remote behind a default", `{"type":"object","default":{"$ref":"https://evil.example/x"},"properties":{"a":{"$ref":"#/default"}}}`, "a $ref leads out"},
		{"anchor", object(`{"$ref":"#there"}`), "a $ref leads out"},
		{"dynamic", object(`{"$dynamicRef":"#there"}`), "$dynamicRef is not allowed"},
		{"an inner base", object(`{"$id":"https://evil.example/","$ref":"#/x"}`), "a $id inside"},
		{"nowhere", object(`{"$ref":"#/$defs/x"}`), "a $ref leads nowhere"},
		{"in a circle", object(`{"$ref":"#/properties/a"}`), "refer to itself too often"},
		{"doubling", `{"type":"object","properties":{"a":{"$ref":"#/$defs/a40"}},"$defs":{` + doubling + `}}`, "refer to itself too often"},
		{"a tree", `{"type":"object","properties":{"l":{"$ref":"#"},"r":{"$ref":"#"}}}`, "refer to itself too often"},
		{"large", object(`{"description":"` + strings.Repeat("x", form.MaxBytes) + `"}`), "and at most 65536 are allowed"},
		{"deep", strings.Repeat(`{"not":`, form.MaxDepth) + `{}` + strings.Repeat("}", form.MaxDepth), "more than 16 arrays and objects"},
		{"properties", `{"type":"object","properties":{` + properties + `}}`, "more than 200 properties"},
		{"fields", `{"type":"object","properties":{"x":{"$ref":"#/$defs/x"},"y":{"$ref":"#/$defs/x"},"z":{"$ref":"#/$defs/x"}},"$defs":{"x":` + wide("#/$defs/y") + `,"y":` + wide("#/$defs/z") + `,"z":{"type":"string"}}}`, "more than 200 fields"},
		{"long pattern", object(`{"pattern":"` + strings.Repeat("x", form.MaxPattern+1) + `"}`), "a pattern is longer"},
		{"long property pattern", object(`{"patternProperties":{"` + strings.Repeat("x", form.MaxPattern+1) + `":{}}}`), "a pattern is longer"},
		{"large pattern", object(`{"pattern":"(\\pL{100}){10}"}`), "instructions"},
		{"bad pattern", object(`{"pattern":"(?=a)"}`), "not one that can be used"},
		{"not a schema", object(`{"type":"secret-word"}`), "it is not a valid schema: /properties/a/type"},
		{"large count", object(`{"minLength":1e300}`), "minLength is too large"},
	}
	for _, tt := range tests {
		f, err := form.Compile(parse(t, tt.schema))
		if err == nil || f != nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// What real generators write is taken.
func TestCompileTakes(t *testing.T) {
	tests := []struct{ name, schema, current, want string }{
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/A","type":"integer"}},"definitions":{"A":{"type":"string"}}}`, `{}`, "a text"},
		{"a root reference", `{"$ref":"#/$defs/R","$defs":{"R":{"type":"object","properties":{"a":{"type":"boolean"}}}}}`, `{}`, "a boolean"},
		{"allOf of one", `{"type":"object","properties":{"a":{"allOf":[{"$ref":"#/$defs/A"}],"default":1}},"$defs":{"A":{"type":"integer"}}}`, `{}`, "a integer"},
		{"more beside a reference", `{"type":"object","properties":{"a":{"$ref":"#/$defs/A","minLength":2}},"$defs":{"A":{"type":"string"}}}`, `{}`, "a json"},
		{"a list of itself", `{"type":"object","properties":{"a":{"type":"string"},"kids":{"type":"array","items":{"$ref":"#"}}}}`, `{}`, "a text|kids json"},
		{"itself, three deep", `{"type":"object","properties":{"v":{"type":"string"},"k":{"$ref":"#"}}}`, `{}`, "v text|k.v text|k.k.v text|k.k.k json"},
		{"unions", `{"type":"object","properties":{"a":{"type":["string","integer"]},"b":{"oneOf":[{"type":"string"},{"type":"integer"}]},"c":{}}}`, `{}`, "a json|b json|c json"},
		{"null in an enum", `{"type":"object","properties":{"a":{"enum":["x",null,2,true]}},"required":["a"]}`, `{"a":null}`, "a choice!"},
		{"an empty choice", `{"type":"object","properties":{"a":{"enum":["x",""]},"b":{"enum":["1",1]},"c":{"const":5}}}`, `{}`, "a json|b json|c choice"},
		{"dots", `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}},"a.b":{"type":"integer"},"c":{"type":"object","properties":{"d.e":{}}}}}`, `{}`, "a json|a.b integer|c json"},
	}
	for _, tt := range tests {
		if got := strings.Join(summary(compile(t, tt.schema).Fields(parse(t, tt.current))), "|"); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestFormWithMistakes(t *testing.T) {
	f := compile(t, payment)
	values := map[string][]string{"to": {"A"}, "amount": {"x"}, "address.geo.lat": {"y"}}
	_, problems := f.Read(values, canon.Null())
	problems = append(problems, form.Problem{Message: "is too odd"}, form.Problem{Field: "address.city.x", Path: "/address/city/x", Message: "second"})
	fields, rest := f.Again(values, canon.Null(), problems)
	got := map[string]string{}
	for _, field := range fields {
		if field.Value != "" || field.Problem != "" {
			got[field.Name] = field.Value + ": " + field.Problem
		}
	}
	want := map[string]string{
		"to": "A: ", "amount": "x: is not a number like 12 or 0.5",
		"address.city": ": is required", "address.geo.lat": "y: is not a number like 12 or 0.5",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(rest) != 1 || rest[0].Message != "is too odd" {
		t.Errorf("rest: got %v", rest)
	}
}

func TestInferredForm(t *testing.T) {
	current := parse(t, `{"s":"x","l":"a\nb","n":1.5,"b":true,"z":null,"a":[1],"o":{"p":{"q":{"r":1}}},"e":{},"":3,"o2":{"":1}}`)
	f := form.Infer(current)
	want := `s text =x|l long_text =a` + "\n" + `b|n number =1.5|b boolean =true|z json =null|a json =[1]|o.p.q json ={"r":1}|e json ={}|o2 json ={"":1}`
	if got := strings.Join(summary(f.Fields(current)), "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got, problems := f.Read(map[string][]string{"s": {"y"}, "n": {"2"}, "new": {"1"}, "o.p.q": {"[]"}}, current)
	if want := `{"":3,"n":2,"o":{"p":{"q":[]}},"s":"y"}`; problems != nil || string(got.Canonical()) != want {
		t.Errorf("got %s, %v, want %s", got.Canonical(), problems, want)
	}
	if got := f.Validate(current); got != nil {
		t.Errorf("Validate: got %v", got)
	}
	if got := form.Infer(parse(t, `[1]`)).Fields(canon.Null()); got != nil {
		t.Errorf("the form of an array has fields %v", got)
	}
	var members []canon.Member
	for i := range 300 {
		members = append(members, canon.Member{Name: fmt.Sprintf("m%d", i), Value: canon.Object(canon.Member{Name: "x", Value: canon.Null()})})
	}
	if got := len(form.Infer(canon.Object(members...)).Fields(canon.Object(members...))); got != form.MaxProperties {
		t.Errorf("got %d fields, want %d", got, form.MaxProperties)
	}
}

// The heaviest schemas that Compile takes do not hold Validate up.
func TestValidateIsBounded(t *testing.T) {
	var members []string
	for i := range 9000 {
		members = append(members, fmt.Sprintf(`"m%d":[1,2,3]`, i))
	}
	large := "{" + strings.Join(members, ",") + "}"
	alternatives := strings.TrimSuffix(strings.Repeat(`{"minProperties":1},`, 2500), ",")
	tests := []struct{ name, schema, value string }{
		{"alternatives", `{"type":"object","properties":{},"additionalProperties":{"items":{"allOf":[` + alternatives + `]}}}`, large},
		{"a pattern", `{"type":"object","properties":{"a":{"type":"string","pattern":"(a?){150}b"}}}`, `{"a":"` + strings.Repeat("a", 1_000_000) + `"}`},
	}
	for _, tt := range tests {
		f := compile(t, tt.schema)
		got := f.Validate(parse(t, tt.value))
		if len(got) != 1 || got[0].Message != "is too large to be checked by this schema" {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}
