package holdpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Digest names a call as Approval.Digest does: "sha256:" and the SHA-256 of the RFC 8785
// form of {"arguments", "tool"}. Two calls have one digest exactly if they say the same.
// Arguments are whatever encoding/json writes. The error is about what the server does
// not read either: numbers that no float64 says exactly, and NUL.
func Digest(tool string, arguments any) (string, error) {
	form, err := canonical(map[string]any{"arguments": arguments, "tool": tool})
	if err != nil {
		return "", fmt.Errorf("digest the call of %s: %w", tool, err)
	}
	sum := sha256.Sum256(form)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

func canonical(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var read any
	if err := dec.Decode(&read); err != nil {
		return nil, err
	}
	return appendCanonical(nil, read)
}

func appendCanonical(dst []byte, value any) (_ []byte, err error) {
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendText(dst, v)
	case json.Number:
		return appendNumber(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, each := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendCanonical(dst, each); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))) })
		dst = append(dst, '{')
		for i, name := range names {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendText(dst, name); err != nil {
				return nil, err
			}
			if dst, err = appendCanonical(append(dst, ':'), v[name]); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	return nil, fmt.Errorf("%T is not JSON", value)
}

// appendText writes a text with the fewest escapes.
func appendText(dst []byte, text string) ([]byte, error) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, errors.New("a text holds NUL, or is not UTF-8")
	}
	dst = append(dst, '"')
	for _, r := range text {
		if short := strings.IndexRune("\b\t\n\f\r\"\\", r); short >= 0 {
			dst = append(dst, '\\', "btnfr\"\\"[short])
		} else if r < ' ' {
			dst = fmt.Appendf(dst, `\u%04x`, r)
		} else {
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"'), nil
}

// appendNumber writes a number as ECMAScript's Number::toString does.
func appendNumber(dst []byte, number json.Number) ([]byte, error) {
	f, err := number.Float64()
	if err != nil || f == 0 && (math.Signbit(f) || strings.ContainsAny(mantissa(number), "123456789")) {
		return nil, errors.New("a number that no float64 says")
	}
	if !strings.ContainsAny(string(number), ".eE") {
		// A whole number has to be the one that its shortest text says.
		if whole := strconv.FormatFloat(f, 'f', -1, 64); whole != string(number) {
			return nil, errors.New("a whole number that no float64 says exactly")
		}
	}
	if abs := math.Abs(f); f == 0 || 1e-6 <= abs && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64), nil
	}
	// Go writes exponents with two digits at least, ECMAScript with one.
	text := strconv.FormatFloat(f, 'e', -1, 64)
	digits, exponent, _ := strings.Cut(text, "e")
	return append(dst, digits+"e"+exponent[:1]+strings.TrimLeft(exponent[1:], "0")...), nil
}

func mantissa(number json.Number) string {
	text, _, _ := strings.Cut(strings.ToLower(string(number)), "e")
	return text
}
