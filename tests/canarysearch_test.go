package tests

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/md5" // #nosec G501 -- to find such hashes, not to make any
	"crypto/rand"
	"crypto/sha1" // #nosec G505 -- likewise
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	endian "encoding/binary"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
)

// hunt finds a text wherever it lies about, in whichever encoding, whole or cut
// off at its ends, and hashes of it that nobody needs a key for.
type hunt struct {
	exact  map[string][]byte // as they are
	folded map[string][]byte // in lower case, looked for in lower-cased data
	plain  []byte            // in lower case, looked for in what data decodes to
}

// huntFor makes a hunt for a canary: core is the part of it that is its own.
func huntFor(canary, core string) hunt {
	h := hunt{exact: map[string][]byte{}, folded: map[string][]byte{}, plain: []byte(strings.ToLower(core))}
	fold := func(name, form string) { h.folded[name] = []byte(strings.ToLower(form)) }
	fold("as it is", core)
	backwards := []byte(core)
	slices.Reverse(backwards)
	fold("reversed", string(backwards))
	fold("in rot13", strings.Map(rot13, core))
	fold("in hex", hex.EncodeToString([]byte(core)))
	for name, pattern := range map[string]string{"percent-encoded": "%%%02x", "as JSON escapes": `\u%04x`, "as HTML entities": "&#%d;", "as hex entities": "&#x%x;", "as hex escapes": `\x%02x`, "quoted-printable": "=%02x"} {
		var b strings.Builder
		for _, c := range []byte(core) {
			fmt.Fprintf(&b, pattern, c)
		}
		fold(name, b.String())
	}
	little, big := []byte{}, []byte{}
	for _, u := range utf16.Encode([]rune(core)) {
		little, big = endian.LittleEndian.AppendUint16(little, u), endian.BigEndian.AppendUint16(big, u)
	}
	h.folded["in UTF-16 LE"], h.folded["in UTF-16 BE"] = lowered(little), lowered(big)
	for _, text := range []string{core, strings.ToLower(core), strings.ToUpper(core), string(backwards)} {
		for shift := range 3 {
			for name, encoding := range map[string]*base64.Encoding{"in base64": base64.RawStdEncoding, "in base64url": base64.RawURLEncoding} {
				encoded := encoding.EncodeToString(append(make([]byte, shift), text...))
				h.exact[fmt.Sprintf("%s of %s at %d", name, text, shift)] = []byte(encoded[(shift*8+5)/6 : len(encoded)-1])
			}
		}
	}
	for _, text := range []string{canary, core, strings.ToLower(canary), strings.ToUpper(canary), strconv.Quote(canary)} {
		h.hashes(text, []byte(text))
	}
	return h
}

// hashes adds the unkeyed hashes of a text, in every form in which they are written.
func (h hunt) hashes(name string, text []byte) {
	m, s1, s2, s5 := md5.Sum(text), sha1.Sum(text), sha256.Sum256(text), sha512.Sum512(text) // #nosec G401 -- as above
	for hash, sum := range map[string][]byte{"md5": m[:], "sha1": s1[:], "sha256": s2[:], "sha512": s5[:]} {
		h.sum(hash+" of "+name, sum)
	}
}

func (h hunt) sum(name string, sum []byte) {
	h.exact[name] = sum
	h.folded[name+" in hex"] = []byte(hex.EncodeToString(sum))
	h.exact[name+" in base64"] = []byte(base64.RawStdEncoding.EncodeToString(sum))
	h.exact[name+" in base64url"] = []byte(base64.RawURLEncoding.EncodeToString(sum))
}

func rot13(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z':
		return 'a' + (r-'a'+13)%26
	case r >= 'A' && r <= 'Z':
		return 'A' + (r-'A'+13)%26
	}
	return r
}

// lowered is data with its ASCII letters in lower case, of the same length.
func lowered(data []byte) []byte {
	out := bytes.Clone(data)
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}

// in says in which forms the text is in data.
func (h hunt) in(data []byte) []string { return h.within(data, 2) }

func (h hunt) within(data []byte, depth int) []string {
	found := map[string]bool{}
	for name, form := range h.exact {
		found[name] = bytes.Contains(data, form)
	}
	low := lowered(data)
	for name, form := range h.folded {
		found[name] = found[name] || bytes.Contains(low, form)
	}
	for name, decode := range decoders {
		decoded := decode(data)
		found["once decoded from "+name] = bytes.Contains(lowered(decoded), h.plain) && !bytes.Contains(low, h.plain)
		again := lowered(decoders["JSON escapes"](decoded))
		found["twice decoded from "+name] = bytes.Contains(again, h.plain) && !bytes.Contains(low, h.plain)
	}
	if depth > 0 {
		for _, plain := range inflated(data) {
			for _, name := range h.within(plain, depth-1) {
				found["compressed, "+name] = true
			}
		}
	}
	maps.DeleteFunc(found, func(_ string, there bool) bool { return !there })
	return slices.Sorted(maps.Keys(found))
}

var (
	escaped = regexp.MustCompile(`\\u[0-9a-fA-F]{4}|\\[\\/"]`)
	percent = regexp.MustCompile(`%[0-9a-fA-F]{2}`)
	quoted  = regexp.MustCompile(`=\r?\n|=[0-9a-fA-F]{2}`)
)

// decoders undo encodings of which only some characters may be encoded.
var decoders = map[string]func([]byte) []byte{
	"JSON escapes": func(data []byte) []byte {
		return escaped.ReplaceAllFunc(data, func(e []byte) []byte {
			if e[1] != 'u' {
				return e[1:]
			}
			n, _ := strconv.ParseUint(string(e[2:]), 16, 16)
			return []byte(string(rune(n)))
		})
	},
	"percent": func(data []byte) []byte { return percent.ReplaceAllFunc(data, unhex) },
	"quoted-printable": func(data []byte) []byte {
		return quoted.ReplaceAllFunc(data, func(e []byte) []byte {
			if e[len(e)-1] == '\n' {
				return nil
			}
			return unhex(e)
		})
	},
	"HTML entities": func(data []byte) []byte { return []byte(html.UnescapeString(string(data))) },
	"line breaks": func(data []byte) []byte {
		return bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r"), nil), []byte("\n"), nil)
	},
}

func unhex(e []byte) []byte {
	n, _ := strconv.ParseUint(string(e[1:]), 16, 8)
	return []byte{byte(n)}
}

// inflated is everything in data that looks compressed, as it was before.
func inflated(data []byte) (plain [][]byte) {
	const most = 8 << 20
	for i := 0; i+2 < len(data); i++ {
		var r io.Reader
		var err error
		switch {
		case data[i] == 0x1f && data[i+1] == 0x8b && data[i+2] == 8:
			r, err = gzip.NewReader(bytes.NewReader(data[i:]))
		case data[i] == 0x78 && (uint(data[i])<<8|uint(data[i+1]))%31 == 0:
			r, err = zlib.NewReader(bytes.NewReader(data[i:]))
		default:
			continue
		}
		if err != nil {
			continue
		}
		// What follows it is none of it: an error after some bytes is normal.
		out, _ := io.ReadAll(io.LimitReader(r, most))
		if len(out) > 8 {
			plain = append(plain, out)
		}
	}
	return plain
}

// TestCanarySearch: each encoding would be found, and nothing is where it is not.
func TestCanarySearch(t *testing.T) {
	canary, core := newCanary()
	h := huntFor(canary, core)
	pack := func(w func(io.Writer) io.WriteCloser) string {
		var b bytes.Buffer
		z := w(&b)
		_, _ = io.WriteString(z, "words around "+canary+" it")
		_ = z.Close()
		return "xx" + b.String() + "trailing"
	}
	utf := func(order endian.AppendByteOrder) string {
		var b []byte
		for _, u := range utf16.Encode([]rune("ä " + canary)) {
			b = order.AppendUint16(b, u)
		}
		return string(b)
	}
	each := func(pattern string) string {
		var b strings.Builder
		for _, c := range []byte(canary) {
			fmt.Fprintf(&b, pattern, c)
		}
		return b.String()
	}
	backwards := []byte(canary)
	slices.Reverse(backwards)
	sum := sha256.Sum256([]byte(canary))
	weak := md5.Sum([]byte(canary)) // #nosec G401 -- as above
	old := sha1.Sum([]byte(canary)) // #nosec G401 -- as above
	for name, text := range map[string]string{
		"plain": canary, "upper case": strings.ToUpper(canary), "cut off": core, "reversed": string(backwards), "rot13": strings.Map(rot13, canary),
		"hex": hex.EncodeToString([]byte(canary)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(canary))), "every percent": each("%%%02X"), "every JSON escape": each(`\u%04x`), "entities": each("&#%d;"), "hex entities": each("&#x%X;"),
		"some percent": "%" + fmt.Sprintf("%02x", core[0]) + core[1:], "some JSON": fmt.Sprintf(`\u%04x`, core[0]) + core[1:], "JSON in JSON": fmt.Sprintf(`\\u%04x`, core[0]) + core[1:],
		"some entities": core[:3] + fmt.Sprintf("&#x%x;", core[3]) + core[4:], "quoted-printable": core[:5] + "=\r\n" + core[5:], "folded line": core[:5] + "\n" + core[5:],
		"UTF-16 LE": utf(endian.LittleEndian), "UTF-16 BE": utf(endian.BigEndian),
		"base64 at 0": base64.StdEncoding.EncodeToString([]byte(canary)), "base64 at 1": base64.StdEncoding.EncodeToString([]byte("a" + canary + "bc")), "base64url at 2": base64.URLEncoding.EncodeToString([]byte("{}" + canary + "}")),
		"gzip":   pack(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		"zlib":   pack(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		"sha256": "sha256:" + hex.EncodeToString(sum[:]), "sha256 raw": string(sum[:]), "sha256 base64": base64.StdEncoding.EncodeToString(sum[:]), "md5": hex.EncodeToString(weak[:]), "sha1 base64url": base64.URLEncoding.EncodeToString(old[:]),
	} {
		if h.in([]byte("before "+text+" after")) == nil {
			t.Errorf("%s is not found in %q", name, text)
		}
	}
	other, _ := newCanary()
	if found := h.in([]byte("before " + other + " after")); found != nil {
		t.Errorf("%q found where it is not", found)
	}
}

// newCanary is a text that stands nowhere else, and the part of it that is its
// own: what cuts it off, or leaves out what is not plain, does not hide it.
func newCanary() (canary, core string) {
	core = "Q" + strings.ToLower(rand.Text())[:15]
	return "canary/ü+\"" + core + "' <b>", core
}
