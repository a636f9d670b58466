package redact_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"holdpoint/engine/redact"
)

// check holds a result against everything that Find and Mask promise.
func check(t interface{ Errorf(string, ...any) }, d *redact.Detector, text string) {
	spans := d.Find(text)
	lastEnd := map[string]int{}
	for i, s := range spans {
		if s.Start < 0 || s.Start >= s.End || s.End > len(text) {
			t.Errorf("span %v is outside of %q", s, text)
			return
		}
		if i > 0 && (spans[i-1].Start > s.Start || spans[i-1].Start == s.Start && spans[i-1].End > s.End) {
			t.Errorf("spans %v are not sorted", spans)
		}
		if s.Start < lastEnd[s.Tag] {
			t.Errorf("spans of one tag overlap: %v", spans)
		}
		lastEnd[s.Tag] = s.End
	}
	masked := redact.Mask(text, spans)
	if again := d.Find(masked); len(again) > 0 {
		t.Errorf("%q is masked as %q, where %v is found", text, masked, again)
	}
	if utf8.ValidString(text) && !utf8.ValidString(masked) {
		t.Errorf("%q is masked as %q, which is not UTF-8", text, masked)
	}
	if again := d.Find(text); !slices.Equal(again, spans) {
		t.Errorf("%q: found %v, then %v", text, spans, again)
	}
}

func FuzzFind(f *testing.F) {
	d := redact.New()
	r := rand.New(rand.NewPCG(3, 3))
	for _, s := range slices.Concat(tunedShapes, heldShapes) {
		f.Add(strings.ReplaceAll(fill(r, s.text), "¦", ""))
	}
	f.Fuzz(func(t *testing.T, text string) { check(t, d, text) })
}

// Texts made of what detectors look for, thrown together.
func TestFindKeepsItsPromises(t *testing.T) {
	d := redact.New()
	var pieces []string
	r := rand.New(rand.NewPCG(4, 4))
	for _, s := range slices.Concat(tunedShapes, heldShapes) {
		pieces = append(pieces, strings.ReplaceAll(fill(r, s.text), "¦", ""))
	}
	pieces = append(pieces, strings.Split(" |-|.|=|:|@|/|(|)|\"|'|\\|,|\n|4|11|[REDACTED:|]|password=|sk-|１|\u200b|é|\xff|://|a|Z|+|--", "|")...)
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 6).Draw(t, "pieces") {
			from := rapid.IntRange(0, len(p)).Draw(t, "from")
			if rapid.Bool().Draw(t, "whole") {
				from = 0
			}
			text.WriteString(p[from:])
		}
		check(t, d, text.String())
	})
}

// The worst texts that we know of take bounded time, and none passes unsearched.
func TestHostileTextIsBounded(t *testing.T) {
	d := redact.New()
	pieces := []string{
		"curl ", "ghp_", "sk-", "q~", "facebook", "atlasv1", "_mmk", "password=", "token:", "@", "a@b.", "://", "x://y:z@", "-----BEGIN PRIVATE KEY-----",
		"1 ", "1-1", "555-123-", "4111 ", "DE89 ", "ey", "ey.ey", "bearer ", "\"", "a", "0", "hooks.slack.com", "lob", "snyk_key=", "＠", "\u200b", " ",
		"authorization=basic ", "password is ", "okta heroku twitter discord ", "=", ":=", "value=", "'name' value=", "phone 1", "[REDACTED:",
		"ops_eyJ", "glc_", "EAAA", "pypi-AgEIcHlwaS5vcmc", "s.", "xoxb-1", "eyJrIjoi", "sentry=",
	}
	for _, p := range pieces {
		text := strings.Repeat(p, redact.MaxText/len(p))
		started := time.Now()
		d.Find(text)
		// Many times what it takes, for slow machines under load.
		if took := time.Since(started); took > 20*time.Second {
			t.Errorf("%d times %q took %s", len(text)/len(p), p, took)
		} else if took > 500*time.Millisecond {
			t.Logf("%q: %s", p, took)
		}
	}
	long := strings.Repeat("a", redact.MaxText+1)
	if got := d.Find(long); len(got) != 1 || got[0] != (redact.Span{Start: 0, End: len(long), Tag: redact.Unscanned}) || !redact.Secret(got[0].Tag) {
		t.Errorf("a text that is too long: got %v", got)
	}
}
