package aana

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The expressions of the specification, section 5; those for personal data are
// the usual ones for addresses and North American numbers. Go's \s lacks the
// vertical tab that other engines' has.
var (
	secretPatterns = compile(
		`\bsk-[A-Za-z0-9_-]{12,}\b`,
		`\bsk-or-v1-[A-Za-z0-9]{20,}\b`,
		`\bAKIA[0-9A-Z]{16}\b`,
		`(?i)\b(api[_-]?key|secret|token|password)[\s\v]*[:=][\s\v]*['"]?[A-Za-z0-9_.\-]{8,}`,
		`\b\d{3}-\d{2}-\d{4}\b`,
		`\b(?:\d[ -]*?){13,16}\b`,
	)
	piiPatterns = compile(
		`(?i)\b[A-Z0-9._%+-]+@[A-Z0-9.-]+\.[A-Z]{2,}\b`,
		`\b(?:\+?1[-.\s\v]?)?\(?\d{3}\)?[-.\s\v]?\d{3}[-.\s\v]?\d{4}\b`,
	)
)

func compile(patterns ...string) (out []*regexp.Regexp) {
	for _, p := range patterns {
		out = append(out, regexp.MustCompile(p))
	}
	return out
}

func matchAny(patterns []*regexp.Regexp, s string) bool {
	return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(s) })
}

// FuzzLeaks holds the searches against the expressions: in ASCII they agree,
// elsewhere the searches find at least as much.
func FuzzLeaks(f *testing.F) {
	for _, seed := range []string{
		"sk-abcdefghijkl", "sk-abcdefghijk-", "sk-abcdefghijk-é", "xsk-abcdefghijkl", "-sk-sk-sk-sk-sk-", "sk-or-v1-" + strings.Repeat("0", 20),
		"AKIA0123456789ABCDEF", "AKIAAKIA0123456789ABCDEF", "AKIA0123456789ABCDEFG", "api_key=12345678", "Api-Key : \"a.b-c_d1", "apikey:''12345678",
		"pa\u017f\u017fword=12345678", "to\u212aen=12345678", "token=0\u212a00000\u017f", "my_token=12345678", "token==12345678", "secret:\n\t12345678", "token:password:12345678",
		"123-45-6789", "1123-45-6789", "123-45-67890", "123-45-6789-", "4000 0000 0000 0000", "4000-0000-0000-000", "a4000000000000", "4000000000000a 1",
		"1 2 3 4 5 6 7 8 9 0 1 2 3", "123456789012 34567", "12345678901234567 1", "x123 4567890123456", "a@b.co", "a@b.c", "@b.co", "%@b.co", "a@.co", "a@b.co1",
		"a@b.co_", "a@b.co.uk", "a@b-c.de-", "a@@b.co", "a@b.1.co", "(202) 555-0143", "202.555.0143", "2025550143", "12025550143", "+1 202 555 0143", "22025550143",
		"202-555-01434", "1-202-555-0143x", "202)555 0143", "202\v5550143", "+44 20 7946 0958", "+1234567", "+123456789012345 6", "٤٠٠٠ ٠٠٠٠ ٠٠٠٠ ٠٠٠٠", "４０００‐００００‐００００‐００００",
		"４0000000000",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return
		}
		ascii := asciiOnly(text)
		got, want := leaksSecret(text), matchAny(secretPatterns, text)
		if got != want && (ascii || want) {
			t.Errorf("leaksSecret(%q): got %v, want %v", text, got, want)
		}
		got, want = leaksPII(text), matchAny(piiPatterns, text)
		// Numbers of other countries are found beyond the expressions.
		if got != want && (want || ascii && !hasInternationalPhone(text)) {
			t.Errorf("leaksPII(%q): got %v, want %v", text, got, want)
		}
	})
}

func asciiOnly(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

func TestInternationalPhone(t *testing.T) {
	tests := map[string]bool{
		"+44 20 7946 0958":       true,
		"tel:+4930901820":        true,
		"(+86) 10-6552-9988":     true,
		"+49 (0) 30 901820":      true,
		"+1234567":               false, // seven digits
		"+1234567890123456":      false, // sixteen
		"1+234567890":            true,
		"a+12345678b":            false,
		"+12 345  678 9":         true,
		"+12 345   678 9":        false, // too far apart
		"2026-01-01T00:00+05:30": false,
		"":                       false,
		"+":                      false,
	}
	for text, want := range tests {
		if got := hasInternationalPhone(text); got != want {
			t.Errorf("hasInternationalPhone(%q): got %v, want %v", text, got, want)
		}
	}
}

func TestOtherScriptsDigits(t *testing.T) {
	for _, text := range []string{"٤٠٠٠ ٠٠٠٠ ٠٠٠٠ ٠٠٠٠", "４０００‐００００‐００００‐００００", "１２３−４５−６７８９", "4000\u00a00000\u20090000 0000"} {
		if !leaksSecret(text) {
			t.Errorf("leaksSecret(%q): got false", text)
		}
	}
}
