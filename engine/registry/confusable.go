package registry

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// ConfusableName reports whether a tool's name could be taken for another's: by what
// cannot be seen in it, or by letters of several scripts.
func ConfusableName(name string) bool {
	if strings.TrimSpace(name) != name || name == "*" || !norm.NFKC.IsNormalString(name) {
		return true // wide letters and the like stand for others
	}
	script := ""
	for _, r := range name {
		switch {
		case unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r):
			return true // a mark upon a letter is easily overlooked
		case r < utf8.RuneSelf && unicode.IsPrint(r) && !unicode.IsLetter(r):
			continue
		case !unicode.IsPrint(r) || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			return true // beyond ASCII, only letters, digits and their marks
		}
		for _, s := range []string{"Latin", "Cyrillic", "Greek", "Armenian", "Cherokee"} {
			if unicode.Is(unicode.Scripts[s], r) {
				if script != "" && script != s {
					return true
				}
				script = s
			}
		}
	}
	return false
}
