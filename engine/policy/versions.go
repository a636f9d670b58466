package policy

import (
	"cmp"
	"strings"
)

// Compare orders bundles by version, and those of one version by generated_at.
// It is negative if a comes before b. Two bundles may be equal and yet differ:
// what distinguishes them is their Digest.
func Compare(a, b *Bundle) int {
	return cmp.Or(CompareVersions(a.Version, b.Version), a.GeneratedAt.Compare(b.GeneratedAt))
}

// CompareVersions orders versions. Where both are semantic versions (a leading
// v is allowed, and minor and patch may be missing) it is by their precedence:
// numbers by value, a pre-release before its release, build metadata not at
// all. Otherwise it is the natural order: runs of digits by value, everything
// else by its bytes, so that "2026-9" comes before "2026-10". The two orders
// are not mixed: compare only versions of one style.
func CompareVersions(a, b string) int {
	x, okX := parseSemver(a)
	y, okY := parseSemver(b)
	if !okX || !okY {
		return natural(a, b)
	}
	for i := range x.core {
		if c := compareDigits(x.core[i], y.core[i]); c != 0 {
			return c
		}
	}
	switch {
	case x.pre == y.pre:
		return 0
	case x.pre == "":
		return 1
	case y.pre == "":
		return -1
	}
	return comparePre(strings.Split(x.pre, "."), strings.Split(y.pre, "."))
}

type semver struct {
	core [3]string
	pre  string
}

func parseSemver(s string) (semver, bool) {
	v := semver{core: [3]string{"0", "0", "0"}}
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "v"), "+")
	core, pre, hasPre := strings.Cut(s, "-")
	parts := strings.Split(core, ".")
	if len(parts) > 3 || hasPre && pre == "" {
		return v, false
	}
	for i, part := range parts {
		if !isDigits(part) || len(part) > 1 && part[0] == '0' {
			return v, false
		}
		v.core[i] = part
	}
	if hasPre {
		// 2026-04-02 is a date, not a pre-release of version 2026.
		if len(parts) < 3 {
			return v, false
		}
		for part := range strings.SplitSeq(pre, ".") {
			if part == "" || strings.Trim(part, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
				return v, false
			}
		}
	}
	v.pre = pre
	return v, true
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// compareDigits compares two numbers of any length.
func compareDigits(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

func comparePre(a, b []string) int {
	for i := range min(len(a), len(b)) {
		x, y := isDigits(a[i]), isDigits(b[i])
		var c int
		switch {
		case x && y:
			c = compareDigits(a[i], b[i])
		case x:
			c = -1
		case y:
			c = 1
		default:
			c = strings.Compare(a[i], b[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// natural compares runs of digits by value, and everything else by bytes. Two
// texts that differ are never equal.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		p, q := run(x), run(y)
		var c int
		if isDigits(p) && isDigits(q) {
			c = compareDigits(p, q)
		} else {
			c = strings.Compare(p, q)
		}
		if c != 0 {
			return c
		}
		x, y = x[len(p):], y[len(q):]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// run is the digits at the beginning of s, or one byte that is none.
func run(s string) string {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return s[:max(n, 1)]
}
