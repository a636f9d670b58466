package safeai

import (
	"slices"
	"strings"
)

// normal is a tag in its normal form: trimmed, in lower case, without empty
// parts. It is "" for a tag of which nothing is left.
func normal(tag string) string {
	parts := strings.Split(strings.ToLower(strings.TrimSpace(tag)), ".")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ".")
}

// covers reports whether one normal tag is another one or above it, by whole
// parts: personal covers personal.pii, but not personalx. It is a partial
// order. The empty tag covers nothing.
func covers(parent, child string) bool {
	return parent != "" && strings.HasPrefix(child, parent) && (len(child) == len(parent) || child[len(parent)] == '.')
}
