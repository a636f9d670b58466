package redact

import "strings"

// isPlaceholder reports whether a value stands for a secret instead of being
// one: a hole, or one of the words that documentation puts there.
func isPlaceholder(v string) bool {
	if isHole(v) {
		return true
	}
	folded := strings.ToLower(v[:min(len(v), 64)])
	return strings.HasPrefix(folded, "your") && (len(folded) < 8 || !hasDigit(folded)) || strings.Contains(folded, "placeholder") || strings.Contains(stockWords, " "+folded+" ")
}

// isHole reports whether a value is a template's hole, a variable, or a mask, ours
// among them.
func isHole(v string) bool {
	for _, prefix := range [...]string{"<", "${", "$(", "{{", "%(", "%{", "#{", "[", "***", "...", "…", "xxxx", "XXXX"} {
		if strings.HasPrefix(v, prefix) {
			return true
		}
	}
	return len(v) > 1 && (v[0] == '$' && isName(v[1:]) || v[0] == '%' && v[len(v)-1] == '%' && isName(v[1:len(v)-1])) ||
		strings.EqualFold(v, "redacted") || strings.EqualFold(v, "masked")
}

// stockWords are values that say what belongs here, or that nothing does.
const stockWords = " password passwd passphrase secret token string str text none null nil true false undefined required optional bearer basic " +
	"redacted hidden masked unknown default value empty n/a missing invalid expired incorrect example changed reset number integer object boolean "

// isName reports whether s is a variable's name.
func isName(s string) bool {
	return s != "" && !isDigit(s[0]) && run(s, 0, len(s), isWordByte) == len(s)
}

// isPath reports whether s looks like an expression of a program: names with
// dots or double colons between them, and no more than one digit for each.
func isPath(s string) bool {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == '.' || r == ':' })
	if len(parts) < 2 {
		return false
	}
	for _, p := range parts {
		digits := 0
		for i := range len(p) {
			if isDigit(p[i]) {
				digits++
			}
		}
		if !isName(p) || digits > 1 {
			return false
		}
	}
	return true
}
