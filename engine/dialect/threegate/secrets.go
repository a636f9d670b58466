package threegate

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// secretShape is one shape of a secret (X4).
type secretShape struct {
	words []string // in lower case; one of them is in every match
	shape *regexp.Regexp
	// accept judges the match's first group, where the shape alone says too little.
	accept func(value string) bool
}

func secret(words, expression string, accept func(string) bool) secretShape {
	return secretShape{words: strings.Fields(words), shape: regexp.MustCompile(expression), accept: accept}
}

const secretNames = `(?:password|passwd|passphrase|passcode|pwd|api[-_ ]?keys?|secret[-_ ]?(?:access[-_ ]?)?keys?|access[-_ ]?keys?|private[-_ ]?keys?|account[-_ ]?key|auth[-_ ]?token|access[-_ ]?token|refresh[-_ ]?token|bearer[-_ ]?token|session[-_ ]?token|client[-_ ]?secret|token|secret|credentials?)`

// secretShapes are looser than package redact's rules for the same keys: in doubt a
// document is refused (docs/decisions/036-three-tables-of-secrets.md).
var secretShapes = []secretShape{
	secret("akia asia aida aroa aipa anpa anva abia acca", `(?:^|[^A-Za-z0-9])(?:AKIA|ASIA|AIDA|AROA|AIPA|ANPA|ANVA|ABIA|ACCA)[A-Z0-9]{12,}\b`, nil),
	secret("gh", `(?:^|[^A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})`, nil),
	secret("glpat- gldt- glrt-", `(?:^|[^A-Za-z0-9])(?:glpat|gldt|glrt)-[A-Za-z0-9_-]{12,}`, nil),
	secret("sk-", `(?:^|[^A-Za-z0-9])sk-([A-Za-z0-9_-]{12,})`, mixed),
	secret("sk_live sk_test rk_live rk_test pk_live pk_test", `(?:^|[^A-Za-z0-9])[srp]k_(?:live|test)_[A-Za-z0-9]{8,}`, nil),
	secret("authorization", `(?i)\bauthorization["']?[ ]*[:=][ ]*["']?(?:basic|bearer|token|apikey)[ ]+([^ \n"']{6,})`, given),
	secret("xox xapp-", `(?:^|[^A-Za-z0-9])(?:xox[a-z]|xapp)-[A-Za-z0-9-]{8,}`, nil),
	secret("aiza", `(?:^|[^A-Za-z0-9])AIza[A-Za-z0-9_-]{20,}`, nil),
	secret("ya29.", `(?:^|[^A-Za-z0-9])ya29\.[A-Za-z0-9_-]{10,}`, nil),
	secret("npm_ pypi- hf_ dop_v1_ shpat_ shpss_ lin_api_ figd_ dapi sq0 nfp_ vault hvs. sg.", `(?:^|[^A-Za-z0-9])(?:npm_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|dop_v1_[a-f0-9]{16,}|shp(?:at|ss)_[A-Fa-f0-9]{16,}|lin_api_[A-Za-z0-9]{16,}|figd_[A-Za-z0-9_-]{16,}|dapi[a-f0-9]{32}|sq0[a-z]{3}-[A-Za-z0-9_-]{16,}|nfp_[A-Za-z0-9]{16,}|hvs\.[A-Za-z0-9_-]{16,}|SG\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})`, nil),
	secret("eyj", `(?:^|[^A-Za-z0-9])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}`, nil),
	secret("-----begin age-secret-key putty-user-key", `-----BEGIN[A-Z0-9 ]*(?:PRIVATE KEY|KEY BLOCK|CERTIFICATE)|AGE-SECRET-KEY-1|PuTTY-User-Key-File`, nil),
	secret("://", `[A-Za-z][A-Za-z0-9+.-]*://[^ \n/@]*:[^ \n/@]+@`, nil),
	secret("bearer basic", `(?i)\b(?:bearer|basic)[ ]+([A-Za-z0-9._~+/=-]{8,})`, mixed),
	secret("hooks.slack.com discord", `(?i)hooks\.slack\.com/services/[A-Z0-9]|discord(?:app)?\.com/api/webhooks/[0-9]`, nil),
	secret(":aa", `\b[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}`, nil),
	secret("pass pwd key token secret auth credential",
		`(?i)(?:^|[ \n"'(=])--?(?:[A-Za-z0-9]+[-_])*(?:pass|auth|`+secretNames+`)(?:=|[ ]+)["']?([^ \n"']+)`, given),
	secret("pass pwd key token secret credential", `(?i)(?:\b|_)`+secretNames+`["']?[ ]*=[ ]*["']?([^ \n"']+)`, given),
	secret("pass pwd key", `(?i)(?:\b|_)(?:password|passwd|passphrase|passcode|pwd|api[-_ ]?key|(?:secret|access|private)[-_ ]?key)["']?(?:[ ]*:|[ ]+is)[ ]*["']?([^ \n"']{4,})`, given),
	secret("token secret credential", `(?i)(?:\b|_)(?:[a-z]+[-_ ])?(?:token|secret|credentials?)["']?(?:[ ]*:|[ ]+is)[ ]*["']?([^ \n"']{6,})`, mixed),
	secret("pass token key secret", `(?i)\b(?:password|passphrase|passcode|token|api[-_ ]?key|secret)[ ]+["']?([^ \n"']{6,})`, mixed),
}

// harmlessValues stand where a secret would, and are none.
var harmlessValues = []string{
	"none", "null", "no", "not", "n/a", "never", "required", "needed", "unused", "is", "are", "and", "or", "the", "a", "an", "in", "for", "of",
	"true", "false", "redacted", "[redacted]", "empty", "unset", "unknown", "absent", "nothing", "without", "must", "may", "will", "from", "to",
	"used", "handled", "provided", "supplied", "kept", "stored", "optional",
}

func harmless(value string) bool {
	value = strings.ToLower(strings.Trim(value, ".,;:!?\"'`)*"))
	return value == "" || slices.Contains(harmlessValues, value)
}

// given judges the value of an option or assignment: any value counts but a path
// to a declared place and words that say that there is none.
func given(value string) bool {
	return !harmless(value) && !strings.HasPrefix(value, inRoot) && !strings.HasPrefix(value, outRoot) && !strings.HasPrefix(value, "-")
}

// mixed judges a word after a name that also stands in sentences: secrets have
// digits and letters, or are long.
func mixed(value string) bool {
	if !given(value) {
		return false
	}
	value = strings.Trim(value, ".,;:!?\"'`()")
	digits := strings.ContainsFunc(value, unicode.IsDigit)
	return digits && strings.ContainsFunc(value, unicode.IsLetter) && len(value) >= 6 || digits && len(value) >= 8 || len(value) >= 24
}

// secretsIn finds where secrets begin in a text.
func secretsIn(text string, lower *haystack) []int {
	var found []int
	if at := randomWord(text); at >= 0 {
		found = append(found, at)
	}
	for _, s := range secretShapes {
		if !lower.holdsAny(s.words) {
			continue
		}
		for _, at := range s.shape.FindAllStringSubmatchIndex(text, -1) {
			if s.accept == nil || s.accept(text[at[2]:at[3]]) {
				start := at[0]
				for start < at[1] && strings.IndexByte(" \n\"'(=:,", text[start]) >= 0 {
					start++
				}
				found = append(found, start)
			}
		}
	}
	return found
}

// A word of letters and digits that is this long and mixes capitals, small
// letters and digits is no word of a language. With slashes and plus signs, 40
// characters are the form of a cloud provider's secret keys.
const (
	randomLength = 32
	cloudKey     = 40
)

// randomWord is where a word begins that only a generator of secrets writes, or -1.
func randomWord(text string) int {
	start, joined := 0, false
	for i := 0; i <= len(text); i++ {
		if i < len(text) {
			ch := text[i]
			if ch >= '0' && ch <= '9' || ch|0x20 >= 'a' && ch|0x20 <= 'z' {
				continue
			}
			if ch == '/' || ch == '+' {
				joined = true
				continue
			}
		}
		if word := text[start:i]; len(word) >= randomLength && word[0] != '/' && isRandom(word) && (!joined || len(word) == cloudKey) {
			return start
		}
		start, joined = i+1, false
	}
	return -1
}

func isRandom(word string) bool {
	digits, capitals, small := 0, 0, 0
	for i := range len(word) {
		switch ch := word[i]; {
		case ch >= '0' && ch <= '9':
			digits++
		case ch >= 'A' && ch <= 'Z':
			capitals++
		case ch >= 'a' && ch <= 'z':
			small++
		}
	}
	return digits > 0 && capitals > 3 && small > 3
}

// holdsSecret reports whether a text looks as if a secret were in it.
func holdsSecret(s string) bool {
	plain := foldLetters(s)
	return len(secretsIn(plain, newHaystack(plain))) > 0
}
