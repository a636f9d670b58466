package canon_test

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"holdpoint/engine/canon"
)

// The numbers of RFC 8785, appendix B, by their IEEE 754 bits.
func TestNumbersOfRFC8785(t *testing.T) {
	tests := []struct {
		bits uint64
		want string
	}{
		{0x0000000000000000, "0"},
		{0x8000000000000000, "0"},
		{0x0000000000000001, "5e-324"},
		{0x8000000000000001, "-5e-324"},
		{0x7fefffffffffffff, "1.7976931348623157e+308"},
		{0xffefffffffffffff, "-1.7976931348623157e+308"},
		{0x4340000000000000, "9007199254740992"},
		{0xc340000000000000, "-9007199254740992"},
		{0x4430000000000000, "295147905179352830000"},
		{0x44b52d02c7e14af5, "9.999999999999997e+22"},
		{0x44b52d02c7e14af6, "1e+23"},
		{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
		{0x444b1ae4d6e2ef4e, "999999999999999700000"},
		{0x444b1ae4d6e2ef4f, "999999999999999900000"},
		{0x444b1ae4d6e2ef50, "1e+21"},
		{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
		{0x3eb0c6f7a0b5ed8d, "0.000001"},
		{0x41b3de4355555553, "333333333.3333332"},
		{0x41b3de4355555554, "333333333.33333325"},
		{0x41b3de4355555555, "333333333.3333333"},
		{0x41b3de4355555556, "333333333.3333334"},
		{0x41b3de4355555557, "333333333.33333343"},
		{0xbecbf647612f3696, "-0.0000033333333333333333"},
		{0x43143ff3c1cb0959, "1424953923781206.2"},
	}
	for _, tt := range tests {
		f := math.Float64frombits(tt.bits)
		if got := string(canon.Number(f).Canonical()); got != tt.want {
			t.Errorf("number %016x: got %s, want %s", tt.bits, got, tt.want)
		}
		if got := must(t, tt.want).Float(); got != f {
			t.Errorf("Parse(%s): got %v, want %v", tt.want, got, f)
		}
	}
}

// The sorting sample of RFC 8785, section 3.2.3, and the strings of its section
// 3.2.2. The sample's own third number is not exact, so another stands for it.
func TestFormsOfRFC8785(t *testing.T) {
	tests := []struct{ doc, want string }{
		{
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",` +
				`"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			`{"\r":"Carriage Return","1":"One",` + "\"\u0080\":\"Control\",\"\u00f6\":\"Latin Small Letter O With Diaeresis\"," +
				"\"\u20ac\":\"Euro Sign\",\"\U0001f600\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		},
		{
			`{"numbers": [333333333.3333333, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],` +
				`"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
				`"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
	}
	for _, tt := range tests {
		if got := string(must(t, tt.doc).Canonical()); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestMembersSortByUTF16(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runes := []rune{'a', 'B', 0x7f, 0xe9, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xee00, 0xfffd, 0xffff, 0x10000, 0x1f600, 0x10ffff}
		names := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.SampledFrom(runes), 0, 4, -1), 0, 40,
			func(s string) string { return strings.ToLower(s) }).Draw(t, "names")
		var members []canon.Member
		for _, name := range names {
			members = append(members, canon.Member{Name: name})
		}
		var got []string
		for name := range must(t, string(canon.Object(members...).Canonical())).All() {
			got = append(got, name)
		}
		want := slices.Clone(names)
		slices.SortFunc(want, func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func TestDigest(t *testing.T) {
	want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(`{"arguments":{"a":1,"b":["é"]},"tool":"pay \"now\""}`)))
	for _, args := range []string{`{"a":1,"b":["é"]}`, ` { "b" : [ "\u00e9" ] , "\u0061" : 10e-1 } `} {
		if got := canon.Digest(`pay "now"`, must(t, args)); got != want {
			t.Errorf("Digest of %s: got %s, want %s", args, got, want)
		}
	}
	if canon.Digest("a", canon.Null()) == canon.Digest("a", canon.Object()) {
		t.Error("no arguments and null arguments have one digest")
	}
}

func TestValueAccess(t *testing.T) {
	v := must(t, `{"s":"x","n":2.5,"t":true,"f":false,"z":null,"a":[1,[]],"o":{}}`)
	get := func(name string) canon.Value {
		m, ok := v.Get(name)
		if !ok {
			t.Fatalf("Get(%q): not there", name)
		}
		return m
	}
	if got, want := v.Len(), 7; got != want {
		t.Errorf("Len: got %d, want %d", got, want)
	}
	if get("s").Str() != "x" || get("n").Float() != 2.5 || !get("t").Bool() || get("f").Bool() || !get("z").IsNull() {
		t.Error("a scalar is not what the document says")
	}
	if a := get("a"); a.Len() != 2 || a.At(0).Float() != 1 || a.At(1).Kind() != canon.ArrayKind || a.At(1).Len() != 0 {
		t.Errorf("the array is %s", a.Canonical())
	}
	if get("t").Float() != 0 || get("n").Bool() || get("n").Str() != "" || get("s").Len() != 0 {
		t.Error("reading a value as another kind gives something")
	}
	if _, ok := v.Get("missing"); ok {
		t.Error("Get finds a member that is not there")
	}
	if _, ok := get("a").Get("0"); ok {
		t.Error("Get finds a member of an array")
	}
	if got, want := fmt.Sprintf("%v %s %#v %v", v, get("s"), get("s"), get("a")), "object(7) string canon.string array(2)"; got != want {
		t.Errorf("formatting: got %q, want %q", got, want)
	}
	var zero canon.Value
	if zero.Kind() != canon.NullKind || string(zero.Canonical()) != "null" {
		t.Error("the zero Value is not null")
	}
}

func TestConstructorsPanic(t *testing.T) {
	tests := map[string]func(){
		"NaN":            func() { canon.Number(math.NaN()) },
		"infinity":       func() { canon.Number(math.Inf(-1)) },
		"not UTF-8":      func() { canon.String("\xff") },
		"NUL":            func() { canon.String("a\x00") },
		"duplicate":      func() { canon.Object(canon.Member{Name: "a"}, canon.Member{Name: "a"}) },
		"case variant":   func() { canon.Object(canon.Member{Name: "a"}, canon.Member{Name: "A"}) },
		"bad name":       func() { canon.Object(canon.Member{Name: "\xff"}) },
		"digest of junk": func() { canon.Digest("\xff", canon.Null()) },
		"no element":     func() { canon.Array().At(0) },
		"not an array":   func() { canon.String("x").At(0) },
	}
	for name, f := range tests {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	if got, want := string(canon.Number(math.Copysign(0, -1)).Canonical()), "0"; got != want {
		t.Errorf("Number(-0): got %s, want %s", got, want)
	}
}

// A digest is that of the whole form, also where the form goes to the hash in parts.
func TestDigestOfLongCalls(t *testing.T) {
	element := canon.Object(canon.Member{Name: "text", Value: canon.String(strings.Repeat("é\"", 700))}, canon.Member{Name: "n", Value: canon.Number(7)}, canon.Member{Name: "a", Value: canon.Array(canon.Null(), canon.Bool(true))})
	for n := range 40 {
		elements := make([]canon.Value, n*n)
		for i := range elements {
			elements[i] = element
		}
		arguments := canon.Object(canon.Member{Name: "z", Value: canon.String(strings.Repeat("x", n*1000))}, canon.Member{Name: "list", Value: canon.Array(elements...)})
		whole := canon.Object(canon.Member{Name: "tool", Value: canon.String("send")}, canon.Member{Name: "arguments", Value: arguments}).Canonical()
		if got, want := canon.Digest("send", arguments), fmt.Sprintf("sha256:%x", sha256.Sum256(whole)); got != want {
			t.Fatalf("of %d bytes: got %s, want %s", len(whole), got, want)
		}
	}
}
