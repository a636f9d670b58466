package redact

func isDigit(c byte) bool    { return '0' <= c && c <= '9' }
func isUpper(c byte) bool    { return 'A' <= c && c <= 'Z' }
func isLetter(c byte) bool   { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isAlnum(c byte) bool    { return isLetter(c) || isDigit(c) }
func isWordByte(c byte) bool { return isAlnum(c) || c == '_' }
func isSpace(c byte) bool    { return c == ' ' || '\t' <= c && c <= '\r' }

// wordAt reports whether the byte at i is part of a word; nothing is at the ends.
func wordAt(s string, i int) bool { return i >= 0 && i < len(s) && isWordByte(s[i]) }

// run is the offset behind the longest run from i on, but not beyond limit, of
// bytes that is holds for.
func run(s string, i, limit int, is func(byte) bool) int {
	limit = min(limit, len(s))
	for i < limit && is(s[i]) {
		i++
	}
	return i
}

// lower is an ASCII letter in lower case, and any other byte itself.
func lower(c byte) byte {
	if isUpper(c) {
		return c | 0x20
	}
	return c
}

// hasFolded reports whether s begins with the lower-case ASCII text prefix,
// in whatever case.
func hasFolded(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lower(s[i]) != prefix[i] {
			return false
		}
	}
	return true
}

// classes gives a byte six bits, the same for both cases of a letter, and 0 to
// those that begin nothing.
var classes = func() (out [256]uint8) {
	for c := byte('a'); c <= 'z'; c++ {
		out[c], out[c&^0x20] = c-'a'+1, c-'a'+1
	}
	for c := byte('0'); c <= '9'; c++ {
		out[c] = c - '0' + 27
	}
	for i, c := range []byte("-_.~:/=@<") {
		out[c] = uint8(37 + i) //nolint:gosec // nine characters
	}
	return out
}()

const sixBits = 63
