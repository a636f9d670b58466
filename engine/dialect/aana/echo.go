package aana

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

// echo is what an answer repeats of its event. It holds only what may be shown
// to anybody and written to any log.
type echo struct {
	toolName      string
	category      Category
	state         State
	riskDomain    RiskDomain
	recommended   string
	evidenceCount int
	argumentKeys  []string
	refs          shownRefs
}

func (e Event) shown(refs shownRefs) echo {
	return echo{
		toolName: e.ToolName, category: e.Category, state: e.State, riskDomain: e.RiskDomain, recommended: e.Recommended.String(),
		evidenceCount: len(e.Evidence), argumentKeys: ArgumentKeys(e.Arguments), refs: refs,
	}
}

// echoOf takes from an event that is wrong somewhere what is right in it.
func echoOf(v canon.Value) echo {
	var out echo
	read := func(name string, into func(c *checker, m canon.Value)) {
		if m, ok := v.Get(name); ok {
			into(&checker{}, m)
		}
	}
	here := &place{}
	read("tool_name", func(c *checker, m canon.Value) {
		if c.visibleText(here, m, &out.toolName); len(c.errors) > 0 {
			out.toolName = ""
		}
	})
	read("tool_category", func(c *checker, m canon.Value) { oneOf(c, here, m, categories, &out.category) })
	read("authorization_state", func(c *checker, m canon.Value) { oneOf(c, here, m, states, &out.state) })
	read("risk_domain", func(c *checker, m canon.Value) { oneOf(c, here, m, riskDomains, &out.riskDomain) })
	read("recommended_route", func(c *checker, m canon.Value) { oneOf(c, here, m, routes, &out.recommended) })
	read("proposed_arguments", func(_ *checker, m canon.Value) { out.argumentKeys = ArgumentKeys(m) })
	read("evidence_refs", func(_ *checker, m canon.Value) {
		if m.Kind() == canon.ArrayKind {
			out.evidenceCount = m.Len()
		}
	})
	return out
}

const (
	// redactedKey stands for an argument key that names a secret, is one, or
	// cannot be shown.
	redactedKey = "[redacted_sensitive_key]"
	// maxShown bounds the names in one list of an answer.
	maxShown = 100
	// maxShownName bounds the length of one such name, in bytes.
	maxShownName = 128
)

// secretKeyParts name a secret wherever they are in a key, once its case and
// separators are gone.
var secretKeyParts = []string{
	"apikey", "accesskey", "privatekey", "signingkey", "encryptionkey", "secret", "token", "password", "passwd", "passphrase",
	"passcode", "credential", "bearer", "authorization", "cookie", "sessionid", "privateaccountid", "cardnumber", "socialsecurity",
}

// secretKeyWords name a secret if they are a whole word of a key.
var secretKeyWords = []string{"auth", "cvc", "cvv", "iban", "jwt", "otp", "pan", "pin", "pwd", "session", "ssn", "totp"}

// ArgumentKeys lists the keys of an object, sorted and without duplicates, as
// they may be shown and logged: keys that name a secret, or hold one, are
// replaced, and of very many only the first are there.
func ArgumentKeys(arguments canon.Value) []string {
	keys := make([]string, 0, arguments.Len())
	for name := range arguments.All() {
		if isSensitiveKey(name) || !isShowable(name) {
			name = redactedKey
		}
		keys = append(keys, name)
	}
	slices.Sort(keys)
	return bounded(slices.Compact(keys))
}

// isSensitiveKey reports whether a key names a secret or holds one.
func isSensitiveKey(key string) bool {
	if isSnakeCase(key) { // as most keys are, and no leak can be
		return containsAny(strings.ReplaceAll(key, "_", ""), secretKeyParts) || hasNameWord(key, secretKeyWords)
	}
	if leaksSecret(key) || leaksPII(key) {
		return true
	}
	joined := strings.Map(func(r rune) rune {
		if r = foldRune(r); !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return r
	}, key)
	return containsAny(joined, secretKeyParts) || hasNameWord(splitCamelCase(key), secretKeyWords)
}

// isSnakeCase reports whether s has only small ASCII letters and underscores.
func isSnakeCase(s string) bool {
	return run(s, 0, func(c byte) bool { return 'a' <= c && c <= 'z' || c == '_' }) == len(s)
}

// splitCamelCase is the text in lower case with a dash before each capital
// that follows a small letter or a digit.
func splitCamelCase(s string) string {
	var b strings.Builder
	before := ' '
	for _, r := range s {
		if unicode.IsUpper(r) && (unicode.IsLower(before) || unicode.IsDigit(before)) {
			b.WriteByte('-')
		}
		b.WriteRune(foldRune(r))
		before = r
	}
	return b.String()
}

// isShowable reports whether a name from outside is short and holds nothing
// that a terminal or page would hide or obey.
func isShowable(name string) bool {
	return len(name) <= maxShownName && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError })
}

// shownRefs are the names of an event's references, in their order.
type shownRefs struct {
	used, contradictory []string
	known               map[string]bool // what is in used, once that is long
}

// fewRefs is the number of names up to which a list is searched faster than a map.
const fewRefs = 16

// add names reference i, counted from 0. Only the first ones are named apart;
// bounded says how many more there are.
func (s *shownRefs) add(i int, ref *Evidence, contradicts bool) {
	name := ref.SourceID
	if !ref.issued && (!isShowable(name) || leaksSecret(name) || leaksPII(name)) {
		name = "evidence_ref:" + strconv.Itoa(i+1)
	}
	if contradicts {
		s.contradictory = append(s.contradictory, name)
	}
	switch {
	case len(s.used) < fewRefs:
		if slices.Contains(s.used, name) {
			return
		}
	case s.known == nil:
		s.known = make(map[string]bool, 4*fewRefs)
		for _, used := range s.used {
			s.known[used] = true
		}
		fallthrough
	default:
		if s.known[name] {
			return
		}
		s.known[name] = true
	}
	s.used = append(s.used, name)
}

// bounded keeps maxShown names and counts the rest; it is never nil. What is appended to
// it is not in names.
func bounded(names []string) []string {
	if len(names) == 0 {
		return []string{}
	}
	n := min(len(names), maxShown)
	out := names[:n:n]
	if more := len(names) - n; more > 0 {
		out = append(out, "[and "+strconv.Itoa(more)+" more]")
	}
	return out
}
