package canon_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdpoint/engine/canon"
)

func TestParseRefuses(t *testing.T) {
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"k%d":0`, i)
		}
		return "{" + strings.TrimPrefix(b.String(), ",") + "}"
	}
	tests := []struct {
		name, doc, code, path string
		offset                int
	}{
		{"empty", ``, canon.Syntax, "", 0},
		{"only space", " \t\r\n", canon.Syntax, "", 4},
		{"duplicate", `{"a":1,"a":1}`, canon.DuplicateKey, "/a", 7},
		{"duplicate by escape", `{"a":1,"\u0061":2}`, canon.DuplicateKey, "/a", 7},
		{"duplicate below", `{"x":[0,{"a~/b":1,"a~/b":2}]}`, canon.DuplicateKey, "/x/1/a~0~1b", 18},
		{"duplicate empty name", `{"":1,"":2}`, canon.DuplicateKey, "/", 6},
		{"duplicate among many", `{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"c":0}`, canon.DuplicateKey, "/c", 73},
		{"case", `{"Tool":1,"tool":2}`, canon.CaseVariantKey, "/tool", 10},
		{"case among many", `{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"C":0}`, canon.CaseVariantKey, "/C", 73},
		{"case outside ASCII", `{"É":1,"é":2}`, canon.CaseVariantKey, "/é", 8},
		{"Kelvin sign", `{"key":1,"` + "\u212a" + `ey":2}`, canon.CaseVariantKey, "/\u212aey", 9},
		{"long s first", `{"pa` + "\u017f\u017f" + `":1,"pass":2}`, canon.CaseVariantKey, "/pass", 12},
		{"long s among many", `{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"` + "\u017f" + `":0,"S":0}`, canon.CaseVariantKey, "/S", 68},
		{"three sigmas", `{"σ":1,"ς":2}`, canon.CaseVariantKey, "/ς", 8},
		{"not UTF-8", "[\"a\xff\"]", canon.InvalidUTF8, "/0", 3},
		{"overlong slash", "\"\xc0\xaf\"", canon.InvalidUTF8, "", 1},
		{"cut character", "\"\xe2\x82\"", canon.InvalidUTF8, "", 1},
		{"not UTF-8 behind an escape", "\"\\n\xff\"", canon.InvalidUTF8, "", 3},
		{"not UTF-8 in a name", "{\"\xff\":1}", canon.InvalidUTF8, "", 2},
		{"surrogate bytes", "\"\xed\xa0\x80\"", canon.LoneSurrogate, "", 1},
		{"high surrogate", `"\ud83d"`, canon.LoneSurrogate, "", 1},
		{"low surrogate", `"\ude00"`, canon.LoneSurrogate, "", 1},
		{"high surrogate twice", `"\ud83d\ud83d\ude00"`, canon.LoneSurrogate, "", 1},
		{"high surrogate and a letter", `"\ud83dx"`, canon.LoneSurrogate, "", 1},
		{"swapped pair", `"\ude00\ud83d"`, canon.LoneSurrogate, "", 1},
		{"escaped NUL", `{"a":"b\u0000"}`, canon.NULCharacter, "/a", 7},
		{"raw NUL", "{\"a\":\"\x00\"}", canon.NULCharacter, "/a", 6},
		{"NUL between", "[1,\x00]", canon.NULCharacter, "/1", 3},
		{"NUL as name", `{"\u0000":1}`, canon.NULCharacter, "", 2},
		{"raw newline", "\"a\nb\"", canon.Syntax, "", 2},
		{"raw tab behind an escape", "\"\\n\t\"", canon.Syntax, "", 3},
		{"2^53+1", `{"n":9007199254740993}`, canon.NotExact, "/n", 5},
		{"1e400", `1e400`, canon.NotExact, "", 0},
		{"-1e400", `-1e400`, canon.NotExact, "", 0},
		{"1e-400", `1e-400`, canon.NotExact, "", 0},
		{"1e309", `1e309`, canon.NotExact, "", 0},
		{"below the smallest", `2e-324`, canon.NotExact, "", 0},
		{"huge exponent", `1e99999999999999999999999`, canon.NotExact, "", 0},
		{"huge negative exponent", `1e-99999999999999999999999`, canon.NotExact, "", 0},
		{"tenth in full", `0.1000000000000000055511151231257827021181583404541015625`, canon.NotExact, "", 0},
		{"RFC 8785's third", `333333333.33333329`, canon.NotExact, "", 0},
		{"2^68 in full", `295147905179352825856`, canon.NotExact, "", 0},
		{"pi with 20 digits", `3.1415926535897932384`, canon.NotExact, "", 0},
		{"-0", `-0`, canon.NotExact, "", 0},
		{"-0.0", `[-0.0]`, canon.NotExact, "/0", 1},
		{"-0e5", `-0e5`, canon.NotExact, "", 0},
		{"-0.000E-7", `-0.000E-7`, canon.NotExact, "", 0},
		{"NaN", `NaN`, canon.Syntax, "", 0},
		{"Infinity", `Infinity`, canon.Syntax, "", 0},
		{"-Infinity", `-Infinity`, canon.Syntax, "", 1},
		{"leading zero", `01`, canon.Syntax, "", 0},
		{"negative leading zero", `-01`, canon.Syntax, "", 1},
		{"two zeros", `00`, canon.Syntax, "", 0},
		{"plus", `+1`, canon.Syntax, "", 0},
		{"no integer", `.5`, canon.Syntax, "", 0},
		{"no fraction", `1.`, canon.Syntax, "", 2},
		{"no exponent", `1e`, canon.Syntax, "", 2},
		{"no exponent digits", `1e+`, canon.Syntax, "", 3},
		{"hexadecimal", `0x10`, canon.TrailingData, "", 1},
		{"underscore", `1_000`, canon.TrailingData, "", 1},
		{"byte order mark", "\xef\xbb\xbf{}", canon.ByteOrderMark, "", 0},
		{"UTF-16", "\xff\xfe{\x00}\x00", canon.ByteOrderMark, "", 0},
		{"two documents", `{}{}`, canon.TrailingData, "", 2},
		{"trailing comma outside", `{},`, canon.TrailingData, "", 2},
		{"65 arrays", deep("[", "]", 65), canon.TooDeep, strings.Repeat("/0", 64), 64},
		{"65 objects", deep(`{"a":`, "}", 65), canon.TooDeep, strings.Repeat("/a", 64), 64 * 5},
		{"too large", strings.Repeat(" ", canon.MaxBytes) + "1", canon.TooLarge, "", canon.MaxBytes},
		{"too many members", members(canon.MaxMembers + 1), canon.TooManyMembers, "", len(members(canon.MaxMembers))},
		{"100,000 members", members(79_000), canon.TooManyMembers, "", len(members(canon.MaxMembers))},
		{"too many values", "[" + strings.Repeat("0,", canon.MaxValues) + "0]", canon.TooManyValues, "/99999", 2*canon.MaxValues - 1},
		{"single quotes", `{'a':1}`, canon.Syntax, "", 1},
		{"trailing comma", `[1,]`, canon.Syntax, "/1", 3},
		{"trailing comma in object", `{"a":1,}`, canon.Syntax, "", 7},
		{"no colon", `{"a" 1}`, canon.Syntax, "/a", 5},
		{"no comma", `[1 2]`, canon.Syntax, "", 3},
		{"comment", `[1/**/]`, canon.Syntax, "", 2},
		{"cut literal", `tru`, canon.Syntax, "", 0},
		{"cut string", `"abc`, canon.Syntax, "", 4},
		{"cut escape", `"abc\`, canon.Syntax, "", 5},
		{"cut unicode escape", `"\u00`, canon.Syntax, "", 1},
		{"bad unicode escape", `"\u00g0"`, canon.Syntax, "", 1},
		{"bad escape", `"\x41"`, canon.Syntax, "", 1},
		{"cut object", `{"a":1`, canon.Syntax, "", 6},
		{"cut array", `[1`, canon.Syntax, "", 2},
		{"vertical tab", "\v1", canon.Syntax, "", 0},
		{"no-break space", "\u00a01", canon.Syntax, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := canon.Parse([]byte(tt.doc))
			var got *canon.SyntaxError
			if !errors.As(err, &got) {
				t.Fatalf("Parse: got %v, %v, want a SyntaxError", v, err)
			}
			if got.Code != tt.code || got.Path != tt.path || got.Offset != tt.offset {
				t.Errorf("Parse: got code %s path %q offset %d, want %s %q %d", got.Code, got.Path, got.Offset, tt.code, tt.path, tt.offset)
			}
			if !v.IsNull() {
				t.Errorf("Parse: got a value beside the error: %v", v)
			}
		})
	}
}

func TestParseAccepts(t *testing.T) {
	tests := []struct{ doc, want string }{
		{`null`, `null`},
		{` [ ] `, `[]`},
		{"\t{\r\n}", `{}`},
		{`[true,false,null]`, `[true,false,null]`},
		{`1.0`, `1`},
		{`1e2`, `100`},
		{`100e-2`, `1`},
		{`-1E+2`, `-100`},
		{`0`, `0`},
		{`0.0`, `0`},
		{`0e999999999`, `0`},
		{`0.` + strings.Repeat("0", 1000) + `1e1000`, `0.1`},
		{`1` + strings.Repeat("0", 300), `1e+300`},
		{`9007199254740992`, `9007199254740992`},
		{`9007199254740991`, `9007199254740991`},
		{`9007199254740994`, `9007199254740994`},
		{`0.30000000000000004`, `0.30000000000000004`},
		{`5e-324`, `5e-324`},
		{`17976931348623157e292`, `1.7976931348623157e+308`},
		{`0.1`, `0.1`},
		{`123456789012345`, `123456789012345`},
		{`-123456789012345678e-3`, ``}, // 18 digits: refused
		{`"\u0041\/\b\f\n\r\t\"\\"`, `"A/\b\f\n\r\t\"\\"`},
		{`"\ud83d\uDE00"`, `"😀"`},
		{`"\u007f\u0080\uffff"`, "\"\u007f\u0080\uffff\""},
		{`"\u001f\u0001"`, `"\u001f\u0001"`},
		{`{"a":1,"b":{"A":2}}`, `{"a":1,"b":{"A":2}}`},
		{`{"K":1,"kk":2,"k_":3}`, `{"K":1,"k_":3,"kk":2}`},
		{strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 64) + strings.Repeat("]", 64)},
	}
	for _, tt := range tests {
		v, err := canon.Parse([]byte(tt.doc))
		if tt.want == "" {
			if err == nil {
				t.Errorf("Parse(%.60s): got %s, want an error", tt.doc, v.Canonical())
			}
			continue
		}
		if err != nil {
			t.Errorf("Parse(%.60s): %v", tt.doc, err)
			continue
		}
		if got := string(v.Canonical()); got != tt.want {
			t.Errorf("Canonical of %.60s: got %s, want %s", tt.doc, got, tt.want)
		}
	}
}

// A document that names nothing but a secret must not leak it by its error.
func TestErrorsQuoteNoValue(t *testing.T) {
	const secret = "hunter2-correct-horse"
	for _, doc := range []string{
		`{"password":"` + secret + `\u0000"}`,
		`{"password":"` + secret,
		`{"password":"` + secret + "\xff\"}",
		`{"password":["` + secret + `",01]}`,
		`{"password":"` + secret + `","password":1}`,
		`"` + secret + `" x`,
	} {
		_, err := canon.Parse([]byte(doc))
		if err == nil {
			t.Fatalf("Parse(%q): no error", doc)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("Parse(%q): the error quotes the value: %v", doc, err)
		}
	}
	_, err := canon.Parse([]byte(`{"` + strings.Repeat("ß", 5000) + `":01}`))
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("a long name: got an error of %d bytes, want a short one", len(fmt.Sprint(err)))
	}
}

func TestValueSharesNothingWithItsSource(t *testing.T) {
	data := []byte(`{"name":"value"}`)
	v, err := canon.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = 'x'
	}
	members := v.Members()
	members[0] = canon.Member{Name: "other"}
	if got, want := string(v.Canonical()), `{"name":"value"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The documents that hurt careless readers are read, or refused, quickly. The
// bound is generous; quadratic work would take minutes.
func TestParseIsLinear(t *testing.T) {
	var collide, folded strings.Builder
	for i := range canon.MaxMembers {
		fmt.Fprintf(&collide, `,"%s%d":0`, strings.Repeat("a", 60), i)
		fmt.Fprintf(&folded, `,"%s%d":0`, strings.Repeat("é", 25), i)
	}
	docs := map[string]string{
		"long names":      "{" + collide.String()[1:] + "}",
		"foldable names":  "{" + folded.String()[1:] + "}",
		"huge exponents":  "[" + strings.TrimSuffix(strings.Repeat("1e131071,", 1000), ",") + "]",
		"zero mantissas":  "[" + strings.TrimSuffix(strings.Repeat("0e131071,", 1000), ",") + "]",
		"long number":     strings.Repeat("1", canon.MaxBytes),
		"long fraction":   "0." + strings.Repeat("0", canon.MaxBytes-3) + "1",
		"open arrays":     strings.Repeat("[", canon.MaxBytes),
		"open objects":    strings.Repeat(`{"":`, canon.MaxBytes/4),
		"escapes":         `"` + strings.Repeat(`\u0041`, canon.MaxBytes/6-1) + `"`,
		"many containers": "[" + strings.Repeat("{},", 90_000) + "[]]",
	}
	start := time.Now()
	for name, doc := range docs {
		began := time.Now()
		v, err := canon.Parse([]byte(doc))
		if err == nil {
			v.Canonical()
		}
		t.Logf("%s: %v", name, time.Since(began))
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("all documents together took %v", took)
	}
}

// TestParseExact: names that differ by case are two names, and one that is there twice is none.
func TestParseExact(t *testing.T) {
	many := `"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0`
	for text, want := range map[string]string{
		`{"Tool":1,"tool":2}`:              "",
		`{"` + "\u212a" + `ey":1,"key":2}`: "",
		`{` + many + `,"C":0,"\u017f":0}`:  "",
		`{"tool":1,"Tool":2,"tool":3}`:     canon.DuplicateKey,
		`{"a":{"x":1,"\u0078":2}}`:         canon.DuplicateKey,
		`{` + many + `,"C":0,"D":0,"c":0}`: canon.DuplicateKey,
		`{` + many + `,"C":0,"D":0,"C":0}`: canon.DuplicateKey,
		`{"a":1}x`:                         canon.TrailingData,
	} {
		got := ""
		var wrong *canon.SyntaxError
		if _, err := canon.ParseExact([]byte(text)); errors.As(err, &wrong) {
			got = wrong.Code
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
