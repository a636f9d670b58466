package redact

import "strings"

// This file finds values by the name in front of them: password=…,
// "client_secret": "…", export DB_PASSWORD='…', token := "…", and pairs such as
// {"name": "API_KEY", "value": "…"}.

// named is a kind of name that says what its value is.
type named struct {
	suffix string // lower case, without separators
	tag    string
	human  bool // chosen by people: short, and words are possible
	whole  bool // must be a word of its own: pass, but not compass
}

const (
	passwordTag = "secret.credential.password"
	keyTag      = "secret.credential.key"
	tokenTag    = "secret.token.assigned"
)

var names = []named{
	{"password", passwordTag, true, false},
	{"passwd", passwordTag, true, false},
	{"passphrase", passwordTag, true, false},
	{"passcode", passwordTag, true, false},
	{"passwort", passwordTag, true, false},
	{"kennwort", passwordTag, true, false},
	{"pwd", passwordTag, true, false},
	{"pass", passwordTag, true, true},
	{"token", tokenTag, false, false},
	{"jwt", tokenTag, false, false},
	{"sessionid", tokenTag, false, false},
	{"apikey", keyTag, false, false},
	{"accesskey", keyTag, false, false},
	{"secretkey", keyTag, false, false},
	{"privatekey", keyTag, false, false},
	{"encryptionkey", keyTag, false, false},
	{"signingkey", keyTag, false, false},
	{"masterkey", keyTag, false, false},
	{"accountkey", keyTag, false, false},
	{"authkey", keyTag, false, false},
	{"sharedkey", keyTag, false, false},
	{"secret", keyTag, false, false},
	{"credential", keyTag, false, false},
	{"credentials", keyTag, false, false},
	{"creds", keyTag, false, false},
}

// cursors are names that end with token and point into a list of results.
var cursors = []string{"pagetoken", "nexttoken", "continuationtoken", "cursortoken", "synctoken", "resumetoken"}

const (
	maxName  = 64
	maxValue = 512
	maxGap   = 4 // blanks on one side of a sign
)

// assignment judges the sign at i, a colon or an equals sign.
func (s *scanner) assignment(i int) {
	t := s.t
	next := byte(0)
	if i+1 < len(t) {
		next = t[i+1]
	}
	end, start := i, i+1
	switch {
	case t[i] == ':' && (next == '=' || next == ':' || next == '/'), t[i] == '=' && (next == '=' || next == '~'):
		return // := is judged at its second sign; the others are no assignments
	case t[i] == '=' && i > 0 && strings.IndexByte("=!<>~", t[i-1]) >= 0:
		return
	case t[i] == '=' && i > 0 && strings.IndexByte(":?+", t[i-1]) >= 0:
		end--
	case t[i] == '=' && next == '>':
		start++
	}
	name, begin := nameBefore(t, end)
	if name == "" {
		return
	}
	kind, ok := kindOf(name)
	if ok && kind.whole && t[i] == ':' && strings.ToUpper(name) == name {
		return // "--- PASS: Test/1" is a test's result
	}
	if !ok && (strings.EqualFold(name, "value") || strings.EqualFold(name, "val")) {
		kind, ok = kindOf(quotedBefore(t[:begin]))
	}
	if !ok {
		return
	}
	v := valueAt(t, start)
	s.budget -= v.end - v.start
	if v.plausible(kind, name) {
		s.add(v.start, v.end, kind.tag)
	}
}

// nameBefore is the name that ends before end, but for blanks and a quote.
func nameBefore(t string, end int) (name string, begin int) {
	stop := end
	for stop > 0 && end-stop < maxGap && t[stop-1] == ' ' {
		stop--
	}
	for n := 0; stop > 0 && n < 3 && strings.IndexByte("\"'`]\\", t[stop-1]) >= 0; n++ {
		stop--
	}
	begin = stop
	for begin > 0 && stop-begin < maxName && (isWordByte(t[begin-1]) || t[begin-1] == '-' || t[begin-1] == '.') {
		begin--
	}
	// "API key: …" has a blank in its name.
	if begin > 1 && t[begin-1] == ' ' && stop-begin <= 6 {
		word := begin - 1
		for word > 0 && begin-word < 12 && isLetter(t[word-1]) {
			word--
		}
		if word < begin-1 {
			begin = word
		}
	}
	return t[begin:stop], begin
}

// quotedBefore is the last quoted text of t: the name in <add key="…" value="…">
// and {"name": "…", "value": "…"}. It has to be within maxName bytes of the end.
func quotedBefore(t string) string {
	t = strings.TrimRight(t[max(len(t)-maxName-16, 0):], "\"'\\ \n\r\t,")
	// The closing quote was cut off with what follows it.
	first := strings.LastIndexAny(t, `"'`)
	if first < 0 {
		return ""
	}
	return t[first+1:]
}

// kindOf says what a name promises by its end.
func kindOf(name string) (named, bool) {
	if name == "" {
		return named{}, false
	}
	switch lower(name[len(name)-1]) {
	case 'd', 'e', 't', 's', 'n', 'y': // the last letters of all names
	default:
		return named{}, false
	}
	var buf [32]byte
	n := len(buf)
	letters := 0 // of name that are in buf
	for i := len(name) - 1; i >= 0 && n > 0; i-- {
		letters++
		if c := name[i]; c != '_' && c != '-' && c != '.' && c != ' ' {
			n--
			buf[n] = lower(c)
		}
	}
	plain := string(buf[n:])
	for _, k := range names {
		if !strings.HasSuffix(plain, k.suffix) {
			continue
		}
		if k.whole {
			before := len(name) - len(k.suffix) - 1
			if before >= 0 && isLetter(name[before]) && (!isUpper(name[before+1]) || isUpper(name[before])) {
				continue
			}
		}
		for _, c := range cursors {
			if strings.HasSuffix(plain, c) {
				return named{}, false
			}
		}
		return k, true
	}
	return named{}, false
}

// assigned is a value and how it was written.
type assigned struct {
	start, end int
	text       string
	quoted     bool
	tight      bool // nothing between the sign and the value
	call       bool // a bracket follows at once
}

// valueAt reads the value behind a sign.
func valueAt(t string, start int) assigned {
	begin := start
	for begin < len(t) && begin-start < maxGap && (t[begin] == ' ' || t[begin] == '\t') {
		begin++
	}
	v := assigned{tight: begin == start}
	open := begin
	for open < len(t) && open-begin < 3 && t[open] == '\\' {
		open++
	}
	limit := min(open+maxValue, len(t))
	if open < len(t) && strings.IndexByte("\"'`", t[open]) >= 0 {
		q := t[open]
		end := run(t, open+1, limit+1, func(c byte) bool { return c != q && c != '\n' })
		if end > open+1 && end < len(t) && t[end] == q && t[end-1] == '\\' && open > begin {
			end-- // an escaped quote, as the opening one was
		}
		v.start, v.end, v.quoted = open+1, end, true
	} else {
		end := run(t, begin, begin+maxValue, func(c byte) bool { return !isSpace(c) && strings.IndexByte("\"'`,;&|()[]{}\\", c) < 0 })
		v.call = end < len(t) && (t[end] == '(' || t[end] == '[')
		for end > begin && strings.IndexByte(".:?!>", t[end-1]) >= 0 {
			end--
		}
		if end == begin && begin < len(t) {
			// A template's hole, our own mask, a nested object: none is a value.
			return assigned{}
		}
		v.start, v.end = begin, end
	}
	v.text = t[min(v.start, v.end):v.end]
	return v
}

// plausible reports whether a value is what its name promises.
func (v assigned) plausible(kind named, name string) bool {
	if v.text == "" || v.call || isPlaceholder(v.text) || mostlyOneByte(v.text) || strings.EqualFold(v.text, name) {
		return false
	}
	if strings.IndexByte(v.text, ' ') >= 0 || !v.quoted && isPath(v.text) || strings.Contains(v.text, maskOpen) {
		return false
	}
	digit, letter, other := characterKinds(v.text)
	if kind.human {
		switch {
		case len(v.text) < 6:
			return v.tight && digit && len(v.text) >= 4 && kind.suffix != "pass"
		case digit || other:
			return true
		case strings.Contains(strings.ToLower(v.text), kind.suffix):
			return false // password=user_password passes a variable on
		}
		// A word: in quotes or behind a tight = it is meant.
		return v.quoted || v.tight && !strings.Contains(name, ".")
	}
	switch {
	case len(v.text) < 8 || !letter:
		return false
	case !digit || len(v.text) < 32:
		if k, ok := kindOf(v.text); ok && k.suffix == kind.suffix {
			return false // token = "x-session-token" names a token
		}
	}
	switch {
	case !digit:
		return len(v.text) >= 16 && oneCase(v.text) || len(v.text) >= 24 && run(v.text, 0, len(v.text), isAlnum) == len(v.text)
	}
	// my-secret-v2 names a thing; a key has a long part without a break.
	for part := range strings.FieldsFuncSeq(v.text, func(r rune) bool { return r == '-' || r == '.' || r == '_' }) {
		if len(part) >= 8 && hasDigit(part) || len(part) >= 16 {
			return true
		}
	}
	return false
}

// oneCase reports whether s is made of letters of one case.
func oneCase(s string) bool {
	return run(s, 0, len(s), isUpper) == len(s) || run(s, 0, len(s), func(c byte) bool { return isLetter(c) && !isUpper(c) }) == len(s)
}

// characterKinds says whether s holds a digit, a letter, and anything that is neither
// nor usual in names.
func characterKinds(s string) (digit, letter, other bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case isDigit(c):
			digit = true
		case isLetter(c):
			letter = true
		case c != '_' && c != '-' && c != '.':
			other = true
		}
	}
	return digit, letter, other
}
