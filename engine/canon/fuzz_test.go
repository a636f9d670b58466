package canon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"holdpoint/engine/canon"
)

// FuzzParse holds whatever Parse accepts against two independent readers.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		kilobyte, `{"a":1,"\u0061":2}`, `{"Key":1,"\u212aey":2}`, `[1.0,1e2,100e-2,5e-324,1e400,1e-400,9007199254740993,-0]`,
		`"\ud83d\ude00\ud83d"`, "\"\xed\xa0\x80\"", "\xef\xbb\xbf{}", `{"":{"":[]}}`, `[333333333.33333325,-3.3333333333333333e-6]`,
		"{\"\U0001f600\":1,\"\ufb33\":2,\"\u20ac\":3,\"\\r\":4}", `"\u0000"`, `"\u2028\u2029\u007f\\/"`, `01`, `1 2`, "\"\x01\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := canon.Parse(data)
		if err != nil {
			var syntax *canon.SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(data) || syntax.Code == "" || syntax.Message == "" {
				t.Fatalf("Parse(%q): malformed error %#v", data, err)
			}
			return
		}
		var want any
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatalf("Parse accepts %q, encoding/json: %v", data, err)
		}
		if got := plain(v); !reflect.DeepEqual(got, want) {
			t.Fatalf("Parse(%q): got %v, encoding/json %v", data, got, want)
		}
		canonical := v.Canonical()
		// The library takes only arrays and objects.
		wrapped, err := jcs.Transform([]byte("[" + string(data) + "]"))
		if err != nil {
			t.Fatalf("Parse accepts %q, jcs: %v", data, err)
		}
		if got := "[" + string(canonical) + "]"; got != string(wrapped) {
			t.Fatalf("Canonical of %q: got %s, jcs %s", data, got, wrapped)
		}
		again, err := canon.Parse(canonical)
		if err != nil {
			t.Fatalf("Parse refuses the canonical form %q: %v", canonical, err)
		}
		if got := plain(again); !reflect.DeepEqual(got, want) {
			t.Fatalf("the canonical form of %q reads as %v, want %v", data, got, want)
		}
		if got := again.Canonical(); !bytes.Equal(got, canonical) {
			t.Fatalf("Canonical is not stable: %s, then %s", canonical, got)
		}
	})
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// FuzzNumber holds numbers against exact arithmetic.
func FuzzNumber(f *testing.F) {
	for _, seed := range []string{
		"0", "-0", "1e2", "0.1", "9007199254740993", "9007199254740992", "1e23", "9.5e-310", "5e-324", "4.9e-324",
		"2.2250738585072014e-308", "1.7976931348623157e308", "1.7976931348623158e308", "123456789012345e-300", "100000000000000000000000e-23",
		"0.000000000000000000001", "999999999999999.9", "99999999999999.95",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !jsonNumber.MatchString(text) || len(text) > 400 {
			return
		}
		if i := strings.IndexAny(text, "eE"); i >= 0 {
			if exp, err := strconv.Atoi(text[i+1:]); err != nil || exp < -1000 || exp > 1000 {
				return
			}
		}
		exact, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("big.Rat does not read %s", text)
		}
		want := false
		nearest, err := strconv.ParseFloat(text, 64)
		if err == nil && !(exact.Sign() == 0 && text[0] == '-') {
			shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(nearest, 'e', -1, 64))
			want = shortest.Cmp(exact) == 0
		}
		v, err := canon.Parse([]byte(text))
		if got := err == nil; got != want {
			t.Fatalf("Parse(%s): accepted is %v, want %v (%v)", text, got, want, err)
		}
		if want && v.Float() != nearest {
			t.Fatalf("Parse(%s): got %v, want %v", text, v.Float(), nearest)
		}
	})
}

// plain is what encoding/json makes of the same document.
func plain(v canon.Value) any {
	switch v.Kind() {
	case canon.BoolKind:
		return v.Bool()
	case canon.NumberKind:
		return v.Float()
	case canon.StringKind:
		return v.Str()
	case canon.ArrayKind:
		list := []any{}
		for _, e := range v.Elements() {
			list = append(list, plain(e))
		}
		return list
	case canon.ObjectKind:
		object := map[string]any{}
		for name, m := range v.All() {
			object[name] = plain(m)
		}
		return object
	case canon.NullKind:
	}
	return nil
}

// A document's spelling (white space, order of members, escapes) never shows
// in its canonical form and digest, and its content always does.
func TestDigestIgnoresSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := values(3).Draw(t, "value")
		var one, two strings.Builder
		spell(t, &one, v)
		spell(t, &two, v)
		a, b := must(t, one.String()), must(t, two.String())
		if got, want := string(a.Canonical()), string(b.Canonical()); got != want {
			t.Fatalf("%s\nand\n%s\nhave two canonical forms:\n%s\n%s", one.String(), two.String(), got, want)
		}
		if got, want := canon.Digest("tool", a), canon.Digest("tool", v); got != want {
			t.Fatalf("digest of %s: got %s, want %s", one.String(), got, want)
		}
		if canon.Digest("tool", a) == canon.Digest("tool", canon.Array(a)) || canon.Digest("tool", a) == canon.Digest("tool2", a) {
			t.Fatal("two calls have one digest")
		}
	})
}

// values draws values of at most depth containers inside each other.
func values(depth int) *rapid.Generator[canon.Value] {
	text := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune("aZ09 _\"\\/\n\t\x7f\u00e9\u20ac\ufb33\U0001f600")), rapid.Rune())).
		Filter(func(s string) bool { return !strings.ContainsRune(s, 0) })
	kinds := []*rapid.Generator[canon.Value]{
		rapid.Just(canon.Null()),
		rapid.Map(rapid.Bool(), canon.Bool),
		rapid.Map(rapid.Float64(), canon.Number),
		rapid.Map(rapid.Map(rapid.Int32(), func(i int32) float64 { return float64(i) }), canon.Number),
		rapid.Map(text, canon.String),
	}
	if depth > 0 {
		below := rapid.Deferred(func() *rapid.Generator[canon.Value] { return values(depth - 1) })
		kinds = append(kinds,
			rapid.Map(rapid.SliceOfN(below, 0, 4), func(elems []canon.Value) canon.Value { return canon.Array(elems...) }),
			rapid.Custom(func(t *rapid.T) canon.Value {
				names := rapid.SliceOfNDistinct(text, 0, 14, func(s string) string { return strings.ToLower(strings.ToUpper(s)) }).Draw(t, "names")
				var members []canon.Member
				for _, name := range names {
					clash := false
					for _, m := range members {
						clash = clash || strings.EqualFold(m.Name, name)
					}
					if !clash {
						members = append(members, canon.Member{Name: name, Value: below.Draw(t, name)})
					}
				}
				return canon.Object(members...)
			}))
	}
	return rapid.OneOf(kinds...)
}

// spell writes v in one of the many ways in which JSON can say it.
func spell(t *rapid.T, b *strings.Builder, v canon.Value) {
	space := func() { b.WriteString(rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r\n "}).Draw(t, "space")) }
	space()
	defer space()
	switch v.Kind() {
	case canon.StringKind:
		spellString(t, b, v.Str())
	case canon.NumberKind:
		spellNumber(t, b, v.Float())
	case canon.ArrayKind:
		b.WriteByte('[')
		for i, e := range v.Elements() {
			if i > 0 {
				b.WriteByte(',')
			}
			spell(t, b, e)
		}
		b.WriteByte(']')
	case canon.ObjectKind:
		b.WriteByte('{')
		for i, m := range rapid.Permutation(v.Members()).Draw(t, "order") {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			spellString(t, b, m.Name)
			space()
			b.WriteByte(':')
			spell(t, b, m.Value)
		}
		b.WriteByte('}')
	case canon.NullKind, canon.BoolKind:
		b.Write(v.Canonical())
	}
}

func spellString(t *rapid.T, b *strings.Builder, s string) {
	if rapid.Bool().Draw(t, "ascii") {
		quoted := strconv.QuoteToASCII(s) // Go's escapes, of which JSON lacks some
		for _, r := range s {
			if r < 0x20 || r > 0x7e || r == '"' || r == '\\' {
				quoted = ""
			}
		}
		if quoted != "" {
			b.WriteString(quoted)
			return
		}
		b.WriteByte('"')
		for _, unit := range utf16.Encode([]rune(s)) {
			fmt.Fprintf(b, `\u%04x`, unit)
		}
		b.WriteByte('"')
		return
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	b.Write(quoted)
}

func spellNumber(t *rapid.T, b *strings.Builder, f float64) {
	switch rapid.IntRange(0, 2).Draw(t, "number") {
	case 0:
		b.WriteString(strconv.FormatFloat(f, 'e', -1, 64))
	case 1:
		text := strings.Replace(strconv.FormatFloat(f, 'E', -1, 64), "E", "000E", 1)
		if !strings.Contains(text, ".") {
			text = strings.Replace(text, "000E", ".000E", 1)
		}
		b.WriteString(text)
	default:
		b.Write(canon.Number(f).Canonical())
	}
}
