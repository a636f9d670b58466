package canon

import (
	"math"
	"strconv"
)

// maxDigits is the largest number of significant digits that the shortest text
// of a float64 has.
const maxDigits = 17

// safeDigits is the number of significant digits up to which every decimal in
// the normal range is the shortest text of its nearest float64, so that
// nothing needs to be compared.
const safeDigits = 15

// decimal is the exact value of a JSON number: 0.d1d2d3… × 10^exp, without
// leading or trailing zero digits. It stays small whatever the text is.
type decimal struct {
	digits   [maxDigits]byte
	n        int  // significant digits kept in digits
	zeros    int  // zeros read behind them, which count only if more follows
	lost     bool // there are more significant digits than fit
	exp      int
	negative bool
}

// addInteger takes the next digit before the decimal point.
func (d *decimal) addInteger(c byte) {
	if d.n > 0 || c != '0' {
		d.exp++
		d.push(c)
	}
}

// addFraction takes the next digit behind the decimal point.
func (d *decimal) addFraction(c byte) {
	if d.n == 0 && c == '0' {
		d.exp--
		return
	}
	d.push(c)
}

func (d *decimal) push(c byte) {
	if c == '0' {
		d.zeros++
		return
	}
	if d.n+d.zeros >= maxDigits {
		d.lost = true
		return
	}
	for ; d.zeros > 0; d.zeros-- {
		d.digits[d.n] = '0'
		d.n++
	}
	d.digits[d.n] = c
	d.n++
}

// exponentLimit bounds the exponents that are distinguished. It is far above what
// a document of MaxBytes digits can bring back into the range of float64.
const exponentLimit = 1 << 30

// float is the number, and false if its text says something that no float64
// says in its shortest text, or a negative zero.
func (d *decimal) float() (float64, bool) {
	switch {
	case d.n == 0:
		return 0, !d.negative
	case d.lost, d.exp > 309, d.exp < -323:
		return 0, false
	}
	// Built anew so that the time does not depend on how the sender spelled it.
	buf := make([]byte, 0, maxDigits+8)
	if d.negative {
		buf = append(buf, '-')
	}
	buf = append(buf, d.digits[:d.n]...)
	buf = append(buf, 'e')
	buf = strconv.AppendInt(buf, int64(d.exp-d.n), 10)
	f, err := strconv.ParseFloat(string(buf), 64)
	if err != nil || f == 0 {
		return 0, false
	}
	if d.n <= safeDigits && d.exp > -300 && d.exp < 300 {
		return f, true
	}
	return f, d.isShortestOf(f)
}

// isShortestOf reports whether d is the exact value of the shortest text of f.
func (d *decimal) isShortestOf(f float64) bool {
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], math.Abs(f), 'e', -1, 64) // d.ddde±xx
	var shortest decimal
	i := 0
	for ; text[i] != 'e'; i++ {
		if text[i] != '.' {
			shortest.digits[shortest.n] = text[i]
			shortest.n++
		}
	}
	exp, err := strconv.Atoi(string(text[i+1:]))
	return err == nil && d.n == shortest.n && d.digits == shortest.digits && d.exp == exp+1
}

// appendNumber writes a finite number as ECMAScript's Number::toString does
// (RFC 8785, section 3.2.2.3).
func appendNumber(dst []byte, f float64) []byte {
	abs := math.Abs(f)
	if abs < 1<<53 && f == math.Trunc(f) {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	if 1e-6 <= abs && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes exponents with two digits at least, ECMAScript with one.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}
