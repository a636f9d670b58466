package aana

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file searches evidence for what must not be in it (section 5). The
// specification gives the secrets as regular expressions; they are matched by
// hand here, because Go's engine would take a second for a megabyte of hostile
// text, and this takes a few milliseconds. Where regular expression engines
// differ about characters outside ASCII, the reading that finds more is taken:
// such a character is never part of a word, other scripts' digits are digits
// too, and letters that fold to ASCII letters are those letters.

// leaksSecret reports whether text holds a credential, a US social security
// number, or a card number.
func leaksSecret(text string) bool {
	return hasPrefixedKey(text) || hasAWSKey(text) || hasAssignedSecret(text) ||
		inDigits(text, func(s string) bool { return hasSocialSecurityNumber(s) || hasCardNumber(s) })
}

// leaksPII reports whether text holds an e-mail address or a telephone number.
func leaksPII(text string) bool {
	return hasEmail(text) || inDigits(text, func(s string) bool { return hasPhone(s) || hasInternationalPhone(s) })
}

// inDigits reports whether found is true of text, with other scripts' digits
// either not being digits or being those of ASCII.
func inDigits(text string, found func(string) bool) bool {
	if found(text) {
		return true
	}
	ascii := asciiDigits(text)
	return ascii != text && found(ascii)
}

func isDigit(c byte) bool    { return '0' <= c && c <= '9' }
func isUpper(c byte) bool    { return 'A' <= c && c <= 'Z' }
func isLetter(c byte) bool   { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isWordByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' }

// wordAt reports whether the byte at i is part of a word; nothing is at the ends.
func wordAt(s string, i int) bool { return i >= 0 && i < len(s) && isWordByte(s[i]) }

// run is the offset behind the longest run from i on of bytes that is holds for.
func run(s string, i int, is func(byte) bool) int {
	for i < len(s) && is(s[i]) {
		i++
	}
	return i
}

// eachIndex calls found with the offset of every occurrence of sub, until it
// returns true, and reports whether it did.
func eachIndex(s, sub string, found func(at int) bool) bool {
	for from := 0; ; {
		i := strings.Index(s[from:], sub)
		if i < 0 {
			return false
		}
		if found(from + i) {
			return true
		}
		from += i + 1
	}
}

// hasPrefixedKey finds \bsk-[A-Za-z0-9_-]{12,}\b, of which
// \bsk-or-v1-[A-Za-z0-9]{20,}\b is a part.
func hasPrefixedKey(s string) bool {
	return eachIndex(s, "sk-", func(at int) bool {
		if wordAt(s, at-1) {
			return false
		}
		start := at + len("sk-")
		end := run(s, start, func(c byte) bool { return isWordByte(c) || c == '-' })
		// The key has to end with the end of a word. Another script's letter
		// behind it may count as one, which makes a dash before it such an end.
		if end == len(s) || s[end] < utf8.RuneSelf {
			for end > start && s[end-1] == '-' {
				end--
			}
		}
		return end-start >= 12
	})
}

// hasAWSKey finds \bAKIA[0-9A-Z]{16}\b.
func hasAWSKey(s string) bool {
	return eachIndex(s, "AKIA", func(at int) bool {
		if wordAt(s, at-1) {
			return false // and nothing is read twice, however often AKIA is repeated
		}
		start := at + len("AKIA")
		end := run(s, start, func(c byte) bool { return isDigit(c) || isUpper(c) })
		return end-start == 16 && !wordAt(s, end)
	})
}

// secretNames are the words that hasAssignedSecret looks for. "key" stands for
// api[_-]?key.
var secretNames = []string{"key", "secret", "token", "password"}

// hasAssignedSecret finds
// (?i)\b(api[_-]?key|secret|token|password)\s*[:=]\s*['"]?[A-Za-z0-9_.\-]{8,}
// from its sign on, first backwards, then forwards.
func hasAssignedSecret(s string) bool {
	for at := 0; at < len(s); at++ {
		if s[at] != ':' && s[at] != '=' {
			continue
		}
		name := strings.TrimRightFunc(s[:at], unicode.IsSpace)
		if !mayEndSecretName(name) || !endsWithSecretName(name) {
			continue
		}
		value := strings.TrimLeftFunc(s[at+1:], unicode.IsSpace)
		if value != "" && (value[0] == '\'' || value[0] == '"') {
			value = value[1:]
		}
		if valueLen(value) >= 8 {
			return true
		}
	}
	return false
}

// valueLen counts the characters [A-Za-z0-9_.\-] that s begins with, up to 8,
// among them the two that fold to ASCII letters.
func valueLen(s string) int {
	n := 0
	for _, r := range s {
		if r = foldRune(r); n == 8 || r >= utf8.RuneSelf || !isWordByte(byte(r)) && r != '.' && r != '-' {
			break
		}
		n++
	}
	return n
}

// mayEndSecretName is a quick look at the last byte, which suffices for most texts.
func mayEndSecretName(s string) bool {
	if s == "" {
		return false
	}
	switch last := s[len(s)-1]; last | 0x20 {
	case 'y', 't', 'n', 'd':
		return true
	default:
		return last >= utf8.RuneSelf
	}
}

func endsWithSecretName(s string) bool {
	for _, name := range secretNames {
		before, ok := cutFoldedSuffix(s, name)
		if ok && name == "key" {
			if n := len(before); n > 0 && (before[n-1] == '_' || before[n-1] == '-') {
				before = before[:n-1]
			}
			before, ok = cutFoldedSuffix(before, "api")
		}
		if ok && !wordAt(before, len(before)-1) {
			return true
		}
	}
	return false
}

// cutFoldedSuffix takes the lower-case ASCII word off the end of s, in
// whatever case it is written there.
func cutFoldedSuffix(s, word string) (before string, ok bool) {
	for i := len(word); i > 0; i-- {
		r, size := utf8.DecodeLastRuneInString(s)
		if foldRune(r) != rune(word[i-1]) {
			return "", false
		}
		s = s[:len(s)-size]
	}
	return s, true
}

// asciiDigits writes other scripts' digits, dashes and spaces as ASCII's, so
// that numbers are found however they are written.
func asciiDigits(s string) string {
	ascii := true
	for i := 0; i < len(s) && ascii; i++ {
		ascii = s[i] < utf8.RuneSelf
	}
	if ascii {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf:
		case unicode.Is(unicode.Nd, r):
			return '0' // which one it is hardly matters below
		case unicode.Is(unicode.Pd, r), r == '\u2212':
			return '-'
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}, s)
}

// hasSocialSecurityNumber finds \b\d{3}-\d{2}-\d{4}\b.
func hasSocialSecurityNumber(s string) bool {
	return eachIndex(s, "-", func(at int) bool {
		// at is the first of the two dashes.
		start, end := at-3, at+8
		return start >= 0 && end <= len(s) && s[at+3] == '-' && !wordAt(s, start-1) && !wordAt(s, end) &&
			allDigits(s[start:at]) && allDigits(s[at+1:at+3]) && allDigits(s[at+4:end])
	})
}

func allDigits(s string) bool { return run(s, 0, isDigit) == len(s) }

// hasCardNumber finds \b(?:\d[ -]*?){13,16}\b: 13 to 16 digits, with any number
// of spaces and dashes between them, that begin and end where a word does.
func hasCardNumber(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isDigit(s[i]) {
			continue
		}
		// A chain of groups of digits with only spaces and dashes between them.
		var groups [17]int // the lengths of the last groups, the newest at the end
		clean, count := !wordAt(s, i-1), 0
		for i < len(s) && isDigit(s[i]) {
			end := run(s, i, isDigit)
			copy(groups[:], groups[1:])
			groups[len(groups)-1] = end - i
			count++
			if !wordAt(s, end) && isCard(groups[:], count, clean) {
				return true
			}
			i = run(s, end, func(c byte) bool { return c == ' ' || c == '-' })
			if i == end {
				break
			}
		}
		i-- // what ended the chain may begin another one
	}
	return false
}

// isCard reports whether the newest of count groups are together as long as a
// card number. The very first group of a chain may be among them only if it is
// clean: that is, if no letter stands right before it.
func isCard(groups []int, count int, clean bool) bool {
	digits := 0
	for back := 1; back <= min(count, len(groups)); back++ {
		digits += groups[len(groups)-back]
		if digits > 16 {
			return false
		}
		if digits >= 13 && (back < count || clean) {
			return true
		}
	}
	return false
}

// hasEmail finds an address: a local part with a letter, digit or underscore
// in it, an @, and a domain that ends with a dot and at least two letters.
func hasEmail(s string) bool {
	local := func(c byte) bool { return isWordByte(c) || strings.IndexByte(".%+-", c) >= 0 || c >= utf8.RuneSelf }
	domain := func(c byte) bool { return isLetter(c) || isDigit(c) || c == '.' || c == '-' || c >= utf8.RuneSelf }
	letter := func(c byte) bool { return isLetter(c) || c >= utf8.RuneSelf }
	return eachIndex(s, "@", func(at int) bool {
		named := false
		for i := at - 1; i >= 0 && local(s[i]) && !named; i-- {
			named = isWordByte(s[i]) || s[i] >= utf8.RuneSelf
		}
		if !named {
			return false
		}
		end := run(s, at+1, domain)
		for dot := at + 2; dot < end; dot++ {
			if s[dot] == '.' {
				if top := run(s, dot+1, letter); top-dot-1 >= 2 && !wordAt(s, top) {
					return true
				}
			}
		}
		return false
	})
}

// hasPhone finds a number of the North American plan: ten digits in groups of
// three, three and four, each set off by at most one space, dot or dash, the
// first perhaps in brackets or behind a 1.
func hasPhone(s string) bool {
	for i := 0; i < len(s); i = run(s, i, isDigit) + 1 {
		if !isDigit(s[i]) || wordAt(s, i-1) {
			continue
		}
		if isPhoneAt(s, i) || s[i] == '1' && isPhoneAt(s, i+1) {
			return true
		}
	}
	return false
}

func isPhoneAt(s string, i int) bool {
	digits := func(n int) bool {
		if i+n > len(s) || !allDigits(s[i:i+n]) {
			return false
		}
		i += n
		return true
	}
	skip := func(set string) {
		if i < len(s) && strings.IndexByte(set, s[i]) >= 0 {
			i++
		}
	}
	const separators = "-. \t\n\r\f\v"
	if !digits(3) {
		return false
	}
	skip(")")
	skip(separators)
	if !digits(3) {
		return false
	}
	skip(separators)
	return digits(4) && !wordAt(s, i)
}

// hasInternationalPhone finds a plus sign and 8 to 15 digits (ITU-T E.164)
// with at most two signs between one digit and the next.
func hasInternationalPhone(s string) bool {
	return eachIndex(s, "+", func(at int) bool {
		if at+1 >= len(s) || !isDigit(s[at+1]) {
			return false
		}
		count, gap := 0, 0
		for i := at + 1; i < len(s) && gap <= 2 && count <= 15; i++ {
			switch {
			case isDigit(s[i]):
				count, gap = count+1, 0
			case strings.IndexByte(" .-()/", s[i]) >= 0:
				gap++
			default:
				return 8 <= count && count <= 15 && (gap > 0 || !isWordByte(s[i]))
			}
		}
		return 8 <= count && count <= 15
	})
}
