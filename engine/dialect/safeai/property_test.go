package safeai

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var tagGen = rapid.Custom(func(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "A", " a ", "", "pii", "ü", "*"}), 0, 4).Draw(t, "parts")
	return strings.Join(parts, ".")
})

// Coverage is a partial order in which a parent is above its children.
func TestCoverage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := normal(tagGen.Draw(t, "a")), normal(tagGen.Draw(t, "b")), normal(tagGen.Draw(t, "c"))
		switch {
		case a != "" && !covers(a, a):
			t.Fatalf("%q does not cover itself", a)
		case covers(a, b) && covers(b, a) && a != b:
			t.Fatalf("%q and %q cover each other", a, b)
		case covers(a, b) && covers(b, c) && !covers(a, c):
			t.Fatalf("%q covers %q, and that %q, but not the first the last", a, b, c)
		case a != "" && b != "" && !covers(a, a+"."+b):
			t.Fatalf("%q does not cover what is below it", a)
		case a != "" && (covers(a+"."+a, a) || covers(a, a+"x") || covers("", a)):
			t.Fatalf("%q is covered by what is below it, or beside it, or by nothing", a)
		case !strings.Contains(a, " ") && normal(a) != a: // only a whole tag is trimmed, and " a" may be what is left of ". a"
			t.Fatalf("%q has another normal form", a)
		}
	})
}

// Whatever a set allows of a list of tags, it allows of each part of the list.
func TestValidateIsPerTag(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &contract{tool: "t"}
		for _, tag := range rapid.SliceOfN(tagGen, 0, 3).Draw(t, "allowed") {
			if n := normal(tag); n != "" {
				c.tags = append(c.tags, n)
			}
		}
		s := newSet([]*contract{c})
		tags := rapid.SliceOfN(tagGen, 0, 4).Draw(t, "tags")
		all := true
		for _, tag := range tags {
			one := s.ValidateRequest("t", []string{tag})
			all = all && one.Allowed
			if one.Allowed != (*one.Reason == "") {
				t.Fatalf("%q: got %v with reason %q", tag, one.Allowed, *one.Reason)
			}
		}
		if got := s.ValidateRequest("t", tags); got.Allowed != all {
			t.Fatalf("%q: got %v, each alone %v", tags, got.Allowed, all)
		}
	})
}

// A tag is trimmed and its parts are not; and its lower case is Unicode's.
func TestTagsAsTheyAre(t *testing.T) {
	s := newSet([]*contract{{tool: "t", tags: []string{"personal", "ix"}}})
	for tag, want := range map[string]bool{
		" Personal.PII ": true, "personal..pii": true, "PERSONAL": true, "personal. pii": true, "IX": true,
		"personal .pii": false, "personal.\u3000.x": true, "personal\u3000.x": false, "İx": false, "": true,
	} {
		if got := s.ValidateRequest("t", []string{tag}).Allowed; got != want {
			t.Errorf("%q: allowed %v, want %v", tag, got, want)
		}
	}
}
