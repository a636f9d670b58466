package redact

import "unicode/utf8"

// The bounds of an address's parts (RFC 5321, section 4.5.3.1).
const (
	maxLocal  = 64
	maxDomain = 255
)

// email judges the @ at: an address has a name with a letter or digit before
// it, and behind it a domain whose last label is two letters or more.
func (s *scanner) email(at int) {
	if at == s.notMail {
		return
	}
	t := s.t
	start, named := at, false
	for start > 0 && at-start < maxLocal && isLocal(t[start-1]) {
		start--
		named = named || isWordByte(t[start]) || t[start] >= utf8.RuneSelf
	}
	for start < at && (t[start] == '.' || t[start] == '-' || t[start] == '\'' || t[start] >= 0x80 && t[start] < 0xC0) {
		start++ // no name begins with these, nor in the middle of a character
	}
	if !named || start == at {
		return
	}
	end := run(t, at+1, at+1+maxDomain, func(c byte) bool { return isAlnum(c) || c == '.' || c == '-' || c >= utf8.RuneSelf })
	best, label := 0, at+1
	for i := at + 1; i <= end; i++ {
		if i < end && t[i] != '.' {
			continue
		}
		if i == label {
			break // an empty label ends the domain
		}
		if label > at+1 && isTop(t[label:i]) && !wordAt(t, i) {
			best = i
		}
		label = i + 1
	}
	switch {
	case best == 0:
	case t[start:at] == "git" && best < len(t) && t[best] == ':':
		// git@host:owner/repo names a repository, not a person.
	case at+3 < len(t) && isDigit(t[at+1]) && t[at+2] == 'x' && t[at+3] == '.':
		// icon@2x.png is a picture for a fine screen.
	default:
		s.add(start, best, Email)
	}
}

func isLocal(c byte) bool {
	return isWordByte(c) || c == '.' || c == '%' || c == '+' || c == '-' || c == '\'' || c >= utf8.RuneSelf
}

// isTop reports whether a label may be a top-level domain: two letters or more,
// or the ASCII form of those.
func isTop(label string) bool {
	if len(label) < 2 {
		return false
	}
	return hasFolded(label, "xn--") || run(label, 0, len(label), func(c byte) bool { return isLetter(c) || c >= utf8.RuneSelf }) == len(label)
}
