package pattern_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine/policy/pattern"
)

// What ECMAScript says of a pattern with the flag i, and nothing else.
func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		source, text string
		want         bool
	}{
		{"", "", true},
		{"^select", "SELECT", true},
		{"^a", "b\na", false},
		{"a$", "a\n", false},
		{"a.b", "a\nb", false},
		{"a.b", "a\u2028b", false},
		{"a.b", "a\u0085b", true},
		{"^.$", "😀", false},
		{"^..$", "😀", true},
		{"^[😀]{2}$", "😀", true},
		{`\ud83d`, "😀", true},
		{`\ud83d\ude01`, "😀", false},
		{`\d`, "٣", false},
		{`\s`, "\u00a0\ufeff", true},
		{`\s`, "\u0085", false},
		{`^\W$`, "é", true},
		{`\bé`, "é", false},
		{`[]`, "a", false},
		{`^[^]$`, "\n", true},
		{`]}{`, "]}{", true},
		{`a{,2}`, "a{,2}", true},
		{`a{1`, "a{1", true},
		{`^[\d-x]+$`, "1-X", true},
		{`[\b]`, "\b", true},
		{`\x41\u0042\103\cJ`, "abc\n", true},
		{`\x4z\u00`, "x4zu00", true},
		{`\z\e\p{2}`, "zepp", true},
		{`\1(?:a)\8`, "\x01a8", true},
		{`\0`, "\x00", true},
		{`\c1`, `\c1`, true},
		{`[\c1]`, "\x11", true},
		{`\k`, "k", true},
		{`k`, "\u212a", false}, // the Kelvin sign
		{`s`, "ſ", false},
		{`ß`, "ẞ", false},
		{`σ`, "ς", true},
		{`µ`, "Μ", true},
		{`ᾳ`, "ᾼ", false},
		{`[^k]`, "K", false},
		{`[α-ω]`, "Ω", true},
		{`(?<year>\d{4})`, "in 2026", true},
		{`a*?b+?c??`, "b", true},
		{`foo(?=bar)`, "foobar", true},
		{`foo(?=bar)`, "foobaz", false},
		{`foo(?!bar)`, "foobar foobaz", true},
		{`(?<=\$)\d`, "$4", true},
		{`(?<!\$)\b\d+`, "$42", false},
		{`^(?=.*\d)(?=.*[a-z]).{4,}$`, "abc1", true},
		{`^(?=.*\d)(?=.*[a-z]).{4,}$`, "abcd", false},
		{`(?<=(?<!a)b)c`, "abc bc", true},
		{`(?<=(?<!a)b)c`, "abc", false},
		{`(?<=^ab)c$`, "abc", true},
		{`(?=ab$)a`, "ab", true},
		{`(?:(?=a)a){2}`, "aa", true},
		{`(?=a)*b`, "b", true},
		{`(?=\Bb)`, "ab", true},
	} {
		p, err := pattern.Compile(tt.source)
		if err != nil {
			t.Errorf("%q: %v", tt.source, err)
			continue
		}
		if got := p.Match(tt.text); got != tt.want {
			t.Errorf("%q in %q: got %v, want %v", tt.source, tt.text, got, tt.want)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	for source, want := range map[string]string{
		"(":                        "a group is not closed (at character 1)",
		"a)":                       "a closing parenthesis has no opening one (at character 2)",
		"[a":                       "a class is not closed (at character 1)",
		`[a\`:                      "a class is not closed (at character 1)",
		`a\`:                       "the pattern ends with a backslash (at character 3)",
		"a**":                      "there is nothing to repeat (at character 3)",
		"a++":                      "there is nothing to repeat (at character 3)",
		"+a":                       "there is nothing to repeat (at character 1)",
		"^*":                       "there is nothing to repeat (at character 1)",
		"(?<=a)+":                  "there is nothing to repeat (at character 1)",
		"{2}":                      "there is nothing to repeat (at character 1)",
		"a{2,1}":                   "the numbers in braces are out of order (at character 2)",
		"[z-a]":                    "a range in a class is out of order (at character 2)",
		"(?i:a)":                   "a group begins with a question mark that means nothing (at character 2)",
		"(?<1>a)":                  "a group has a name that is none (at character 4)",
		"(?<a>)(?<a>)":             "two groups have the same name (at character 10)",
		`(a)\1`:                    "back-references are not supported (at character 4)",
		`\1(a)`:                    "back-references are not supported (at character 1)",
		`(?<n>a)\k<n>`:             "back-references are not supported (at character 8)",
		"[a-z]{1,1000}x":           "the pattern needs more than 1000 instructions (at character 1)",
		"(?:(?:a{99}){99}){99}":    "the pattern needs more than 1000 instructions (at character 1)",
		"(?=a{600})(?<=b{600})":    "the pattern needs more than 1000 instructions (at character 1)",
		strings.Repeat("(", 300):   "too many groups are inside each other (at character 201)",
		"a{99999999999999999999}":  "the pattern needs more than 1000 instructions (at character 1)",
		"x{0,99999999999999999999": "",
	} {
		_, err := pattern.Compile(source)
		var reason *pattern.Error
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: got %v", source, err)
		case want != "" && (!errors.As(err, &reason) || err.Error() != want):
			t.Errorf("%q: got %v, want %s", source, err, want)
		case want != "" && (reason.Unsupported != strings.Contains(want, "supported") || reason.TooLarge != strings.Contains(want, "needs")):
			t.Errorf("%q: got %+v", source, reason)
		}
	}
	if p, err := pattern.Compile(strings.Repeat("a", 512)); err != nil || p.Size() < 512 {
		t.Errorf("512 characters: got %v %v", p, err)
	}
}

// On the patterns that both read alike, Go's own engine is the oracle; and a
// pattern with an idle lookahead, which takes the other engine, finds the same.
func TestMatchAgainstRegexp(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "[ab]", "[^a]", "1", `\d`, `\w`, `\b`, "^", "$", "(?:a|1b)", "(b)", " "})
	quantifier := rapid.SampledFrom([]string{"", "", "*", "+", "?", "{2}", "{1,2}", "*?"})
	rapid.Check(t, func(t *rapid.T) {
		source := ""
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			p := part.Draw(t, "part")
			source += p
			if p != "^" && p != "$" && p != `\b` {
				source += quantifier.Draw(t, "quantifier")
			}
		}
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abAB1 ")), 0, 8, -1).Draw(t, "text")
		p, err := pattern.Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		other, err := pattern.Compile("(?=)" + source + "(?!x{3})")
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile("(?i)" + source).MatchString(text)
		if p.Match(text) != want || other.Match(text) != want {
			t.Fatalf("%q in %q: want %v", source, text, want)
		}
	})
}

// No pattern and no text makes the engine slow or panic.
func FuzzCompile(f *testing.F) {
	for _, source := range []string{"(?=a)[^b-d]{2,3}", `\ud83d😀[😀-😁]`, `(?<a>x)\k<a>`, `(?<!a(?=b))`, "[", "a{2", `\c`, "(?<"} {
		f.Add(source, "some text 😀 ab")
	}
	f.Fuzz(func(t *testing.T, source, text string) {
		if len(source) > 1024 {
			return
		}
		p, err := pattern.Compile(source)
		if err != nil {
			var reason *pattern.Error
			if !errors.As(err, &reason) || reason.Message == "" {
				t.Fatalf("got %v", err)
			}
			return
		}
		if p.Size() < 1 || p.Size() > pattern.MaxSize {
			t.Fatalf("got size %d", p.Size())
		}
		p.Match(strings.ToValidUTF8(text, ""))
	})
}

// The cost is at most in the order of size × length; the figures are for
// people, the bound only catches what is no longer linear.
func TestMatchIsLinear(t *testing.T) {
	const steps = 4 << 20
	for _, source := range []string{
		strings.Repeat("a*", 200) + "b", "[a-z]{1,400}x", "(?=[a-z]{1,200}x)(?<=y[a-z]{1,200})", "(?:a|aa|aaa){1,60}b", `^(\w+\s?)*$`, "(?=a*b)(?=a*c)(?=a*d)",
	} {
		p, err := pattern.Compile(source)
		if err != nil {
			t.Errorf("%q: %v", source, err)
			continue
		}
		text := strings.Repeat("a", steps/p.Size())
		start := time.Now()
		p.Match(text)
		took := time.Since(start)
		t.Logf("%4d instructions, %6d bytes: %v", p.Size(), len(text), took)
		if took > 20*time.Second {
			t.Errorf("%q: took %v", source, took)
		}
	}
}
