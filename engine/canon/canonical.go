package canon

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
)

// Canonical is the value's RFC 8785 form: members sorted by the UTF-16 code
// units of their names, numbers as ECMAScript writes them, strings with the
// fewest escapes, no white space. Parse reads it back to a value that says the
// same, with its members in canonical order.
func (v Value) Canonical() []byte { return v.AppendCanonical(nil) }

// AppendCanonical appends what Canonical returns to dst.
func (v Value) AppendCanonical(dst []byte) []byte { return v.appendTo(dst, nil) }

// AppendCanonicalWith appends what v.With(more...).Canonical() returns to dst, and panics
// where With does.
func (v Value) AppendCanonicalWith(dst []byte, more ...Member) []byte {
	var few [fewNames]Member
	return append(appendMembers(append(dst, '{'), v.with(few[:0], more), nil), '}')
}

// flushAt is how much of a form is kept before it goes to a hash.
const flushAt = 16 << 10

// appendTo appends the form to dst. With a hash, it may give that what dst has so far
// and begin dst anew: the form is then what the hash was given, and dst.
func (v Value) appendTo(dst []byte, to hash.Hash) []byte {
	if to != nil && len(dst) >= flushAt {
		_, _ = to.Write(dst) // a hash has no errors
		dst = dst[:0]
	}
	switch v.kind {
	case BoolKind:
		if v.num != 0 {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case NumberKind:
		return appendNumber(dst, v.num)
	case StringKind:
		return appendString(dst, v.str)
	case ArrayKind:
		dst = append(dst, '[')
		for i, e := range v.Elements() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.appendTo(dst, to)
		}
		return append(dst, ']')
	case ObjectKind:
		dst = append(dst, '{')
		if v.box != nil {
			dst = appendMembers(dst, v.box.members, to)
		}
		return append(dst, '}')
	case NullKind:
	}
	return append(dst, "null"...)
}

func appendMembers(dst []byte, members []Member, to hash.Hash) []byte {
	var few [32]uint32
	order := few[:0]
	sorted := true
	for i := range members {
		order = append(order, uint32(i)) //nolint:gosec // bounded by memory, far below 2^32
		sorted = sorted && (i == 0 || compareUTF16(members[i-1].Name, members[i].Name) < 0)
	}
	if !sorted {
		slices.SortFunc(order, func(a, b uint32) int { return compareUTF16(members[a].Name, members[b].Name) })
	}
	for i, at := range order {
		if i > 0 {
			dst = append(dst, ',')
		}
		m := &members[at]
		dst = appendString(dst, m.Name)
		dst = append(dst, ':')
		dst = m.Value.appendTo(dst, to)
	}
	return dst
}

// compareUTF16 orders two UTF-8 texts by their UTF-16 code units. That is the
// order of their bytes, but for one thing: the characters above U+FFFF, whose
// UTF-8 begins with 0xF0 or more, are written with surrogates (0xD800…), and
// so come before U+E000…U+FFFF, whose UTF-8 begins with 0xEE or 0xEF. The
// first bytes that differ are both first bytes or both continuation bytes
// (below 0xC0), as all bytes before them are equal.
func compareUTF16(a, b string) int {
	n := min(len(a), len(b))
	for i := 0; i < n; i++ {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
			x, y = y, x
		}
		if x < y {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}

const hexDigits = "0123456789abcdef"

// escapes holds the letter of the two-character escapes that RFC 8785 demands.
var escapes = [256]byte{'"': '"', '\\': '\\', '\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r'}

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := plainRun(s, 0); i < len(s); i++ {
		c := s[i]
		if charClasses[c] == plain || c >= 0x80 {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		if e := escapes[c]; e != 0 {
			dst = append(dst, '\\', e)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// digestPrefix says which hash a digest is, so that it can change one day.
const digestPrefix = "sha256:"

// Digest names a tool call: "sha256:" and, in lower-case hex, the SHA-256 of
// the canonical form of {"arguments": arguments, "tool": tool}. Two calls have
// one digest exactly if they say the same. It panics where String(tool) does.
func Digest(tool string, arguments Value) string {
	mustText("canon.Digest", tool)
	sum := sha256.New()
	buf := make([]byte, 0, 1024)
	buf = append(buf, `{"arguments":`...)
	buf = arguments.appendTo(buf, sum)
	buf = append(buf, `,"tool":`...)
	buf = appendString(buf, tool)
	buf = append(buf, '}')
	_, _ = sum.Write(buf)
	var out [len(digestPrefix) + 2*sha256.Size]byte
	return string(hex.AppendEncode(append(out[:0], digestPrefix...), sum.Sum(buf[:0])))
}
