package safeai

import (
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// normal is a tag in its normal form: trimmed, in lower case, without empty
// parts. It is "" for a tag of which nothing is left. A part is as it is: one
// with a blank in it is another one than without.
func normal(tag string) string {
	// Unicode's full mapping, in which İ is another letter than i.
	lower := cases.Lower(language.Und).String(strings.TrimSpace(tag))
	return strings.Join(slices.DeleteFunc(strings.Split(lower, "."), func(p string) bool { return p == "" }), ".")
}

// covers reports whether one normal tag is another one or above it, by whole
// parts: personal covers personal.pii, but not personalx. It is a partial
// order. The empty tag covers nothing.
func covers(parent, child string) bool {
	return parent != "" && strings.HasPrefix(child, parent) && (len(child) == len(parent) || child[len(parent)] == '.')
}
