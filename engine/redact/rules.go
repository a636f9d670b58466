package redact

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// gitleaksText is the rule set of the gitleaks library, as internal/generate
// takes it from there. The library's own detector is no part of this program:
// it brings archives, terminals and loggers along (10 MB), starts goroutines,
// and takes 0.4 ms for the kilobyte that is to take 0.05.
//
//go:embed gitleaks.json
var gitleaksText string

// rule is a regular expression for one kind of secret.
type rule struct {
	re  *regexp.Regexp
	tag string
	// group holds the secret; 0 means the first one that matched anything, else
	// all that matched.
	group int
	// entropy is what the secret must have at least, in bits for each byte.
	entropy float64
	// begins are the lower-case texts one of which the match begins with; at
	// least two bytes each. A rule without any is searched for around keywords.
	begins, keywords []string
	// word: nothing that continues a word may stand before the match.
	word bool
	// reach is how much of the text behind the beginning can matter.
	reach int
	// check, when set, has to hold for the secret.
	check func(secret string) bool
}

// What gitleaks writes around most of its rules. The identifier in front only
// serves its reports. The end asks for quotes or space behind a secret, as
// source code has them; in prose a comma or bracket follows just as well.
var adapted = strings.NewReplacer(
	`(?i)[\w.-]{0,50}?(?:`, `(?i)(?:`,
	`[\w.-]{0,50}?(?i:[\w.-]{0,50}?(?:`, `(?i:(?:`,
	`(?:[\x60'"\s;]|\\[nr]|$)`, `(?:[^\w/+=-]|$)`,
	`(?:[\x60'"\s;]|\\[nr]|$|\b)`, `(?:[^\w/+=-]|$)`,
)

const assignedRule = `(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)`

// left says which rules are left out. Identifiers and public keys are no
// secrets, and what has a detector of its own here needs no second one.
func left(id string) bool {
	switch id {
	case "generic-api-key", "private-key", "curl-auth-header": // assign.go, secretscan.go
		return true
	case "sourcegraph-access-token", "vault-service-token": // take commit hashes and s.someMethod for them
		return true
	case "aws-access-token", "stripe-access-token", "gitlab-pat", "gitlab-ptt": // ownRules, as all below
		return true
	case "new-relic-user-api-id", "sumologic-access-id", "sendbird-access-id", "alibaba-access-key-id":
		return true
	case "mapbox-api-token", "mailgun-pub-key", "lob-pub-api-key", "flutterwave-public-key", "new-relic-browser-api-token":
		return true
	}
	return strings.HasSuffix(id, "-client-id") || strings.HasPrefix(id, "github-") ||
		strings.HasPrefix(id, "slack-") && id != "slack-webhook-url"
}

// gitleaksRules compiles the rules. The file is part of the program, so that a
// mistake in it is a mistake in the program.
func gitleaksRules() []rule {
	var file struct {
		Rules []struct {
			ID       string
			Regex    string
			Group    int
			Entropy  float64
			Keywords []string
			Path     string
		}
	}
	if err := json.Unmarshal([]byte(gitleaksText), &file); err != nil {
		panic("redact: gitleaks.json: " + err.Error())
	}
	var out []rule
	for _, r := range file.Rules {
		// A rule with a path is about files of some name, of which a call has none.
		if r.Regex == "" || r.Path != "" || left(r.ID) {
			continue
		}
		base := rule{tag: secretTag(r.ID), group: r.Group, entropy: r.Entropy, keywords: r.Keywords}
		assigned := strings.Contains(r.Regex, assignedRule)
		for _, part := range compile(adapted.Replace(r.Regex), base) {
			// A long prefix says enough by itself, and made-up keys, which are
			// to be found too, have little entropy.
			if !assigned && len(part.begins) > 0 && len(slices.MinFunc(part.begins, byLength)) > 3 {
				part.entropy = 0
			}
			out = append(out, part)
		}
	}
	return out
}

func byLength(a, b string) int { return len(a) - len(b) }

// secretTag is the tag of a gitleaks rule: what is issued to be shown again is
// a token, everything else a credential.
func secretTag(id string) string {
	for _, part := range strings.Split(id, "-") {
		switch part {
		case "token", "pat", "jwt", "cookie", "ptt", "rrt":
			return "secret.token." + id
		}
	}
	return "secret.credential." + id
}

// ownRules are looser forms of the best known keys: their lengths and alphabets
// have changed before, and people write examples that only begin like them.
func ownRules() []rule {
	var out []rule
	for _, r := range []struct {
		tag, regex string
		check      func(string) bool
	}{
		{"secret.credential.sk-key", `\bsk-[A-Za-z0-9_-]{16,200}`, keyLike},
		{"secret.credential.stripe-key", `\b(?:sk|rk)_(?:live|test|prod)_\w{10,200}`, nil},
		{"secret.credential.aws-key", `\b(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}\b`, nil},
		{"secret.token.github", `\bgh[oprsu]_[A-Za-z0-9]{20,255}`, nil},
		{"secret.token.github", `\bgithub_pat_\w{22,255}`, nil},
		{"secret.token.gitlab", `\bgl(?:pat|ptt|rt|dt|cbt|soat)-[\w-]{16,255}`, nil},
		{"secret.token.slack", `\bxox[abceoprs]-[A-Za-z0-9-]{10,255}`, hasDigit},
		{"secret.token.sourcegraph", `\bsgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}`, nil},
		{"secret.token.jwt", `\beyJ[A-Za-z0-9_-]{6,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{2,}`, nil},
		{"secret.token.vault", `\bhvs\.[\w-]{24,255}`, nil},
		{"secret.token.bearer", `(?i)\bbearer\s{1,4}([\w.~+/=-]{16,})`, hasDigit},
		{"secret.credential.basic", `(?i)\bauthorization['"]?\s{0,4}[:=]\s{0,4}['"]?basic\s{1,4}([A-Za-z0-9+/=]{8,})`, nil},
		{"secret.credential.password", `(?i)\bpass(?:word|wd|phrase|code)\s{1,4}is:?\s{1,4}['"]?([^\s'"]{6,128})`, hasDigit},
		{"secret.credential.password", `(?i)\bpass(?:word|wd|phrase|code)\s{1,4}['"]([^\s'"]{6,128})['"]`, hasDigit},
	} {
		out = append(out, compile(r.regex, rule{tag: r.tag, check: r.check})...)
	}
	return out
}
