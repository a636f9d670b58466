package canon

import (
	"unicode/utf16"
	"unicode/utf8"
)

// Classes of the bytes of a string token.
const (
	plain     = iota
	quote     // ends the string
	backslash // begins an escape
	control   // must be escaped
	multibyte // begins or continues a character of several bytes
)

var charClasses = func() (classes [256]uint8) {
	for c := range classes {
		switch {
		case c < 0x20:
			classes[c] = control
		case c >= utf8.RuneSelf:
			classes[c] = multibyte
		}
	}
	classes['"'], classes['\\'] = quote, backslash
	return classes
}()

// Each is a byte eight times.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// plainRun is where the run of plain bytes ends that begins in s at from: eight at a time,
// because most of a document is plain.
func plainRun(s string, from int) int {
	i := from
	for ; i+8 <= len(s); i += 8 {
		// The compiler makes one load of it.
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quotes, backslashes := w^'"'*ones, w^'\\'*ones
		// The highest bit of a byte is set where it is no plain one, or a byte before is none.
		if (w|(w-0x20*ones)|(quotes-ones)|(backslashes-ones))&highs != 0 {
			break
		}
	}
	for i < len(s) && charClasses[s[i]] == plain {
		i++
	}
	return i
}

// stringToken reads a string, from its opening quote to behind its closing
// quote, and returns it unescaped.
func (p *parser) stringToken() (string, *SyntaxError) {
	p.pos++
	start := p.pos
	for p.pos = plainRun(p.text, start); p.pos < len(p.text); {
		switch charClasses[p.text[p.pos]] {
		case plain:
			p.pos = plainRun(p.text, p.pos)
		case multibyte:
			if err := p.character(); err != nil {
				return "", err
			}
		case quote:
			s := p.text[start:p.pos]
			p.pos++
			return s, nil
		case backslash:
			return p.escapedString(start)
		default:
			return "", p.rawControl()
		}
	}
	return "", p.unexpected("the end of a string")
}

// escapedString goes on with a string that began at start when its first
// escape has been met.
func (p *parser) escapedString(start int) (string, *SyntaxError) {
	out := append([]byte(nil), p.text[start:p.pos]...)
	for p.pos < len(p.text) {
		from := p.pos
		switch charClasses[p.text[p.pos]] {
		case plain:
			p.pos = plainRun(p.text, p.pos)
			out = append(out, p.text[from:p.pos]...)
		case multibyte:
			if err := p.character(); err != nil {
				return "", err
			}
			out = append(out, p.text[from:p.pos]...)
		case quote:
			p.pos++
			return string(out), nil
		case backslash:
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		default:
			return "", p.rawControl()
		}
	}
	return "", p.unexpected("the end of a string")
}

// character moves behind one character of several bytes.
func (p *parser) character() *SyntaxError {
	rest := p.text[p.pos:]
	if r, size := utf8.DecodeRuneInString(rest); r != utf8.RuneError || size > 1 {
		p.pos += size
		return nil
	}
	// ED A0…BF is how a surrogate would be written, were it a character.
	if len(rest) > 1 && rest[0] == 0xED && rest[1] >= 0xA0 && rest[1] <= 0xBF {
		return p.fail(LoneSurrogate, "a string holds a surrogate written as bytes")
	}
	return p.fail(InvalidUTF8, "a string is not valid UTF-8")
}

func (p *parser) rawControl() *SyntaxError {
	if p.text[p.pos] == 0 {
		return p.fail(NULCharacter, "a string holds a NUL byte")
	}
	return p.fail(Syntax, "a string holds a control character that is not escaped")
}

// escape reads one escape, or the two of a surrogate pair, from the backslash on.
func (p *parser) escape() (rune, *SyntaxError) {
	if p.pos+1 >= len(p.text) {
		p.pos = len(p.text)
		return 0, p.unexpected("the end of a string")
	}
	var r rune
	switch p.text[p.pos+1] {
	case '"', '\\', '/':
		r = rune(p.text[p.pos+1])
	case 'b':
		r = '\b'
	case 'f':
		r = '\f'
	case 'n':
		r = '\n'
	case 'r':
		r = '\r'
	case 't':
		r = '\t'
	case 'u':
		return p.unicodeEscape()
	default:
		return 0, p.fail(Syntax, "a string holds an escape that JSON does not have")
	}
	p.pos += 2
	return r, nil
}

func (p *parser) unicodeEscape() (rune, *SyntaxError) {
	r := p.hexUnit(p.pos)
	switch {
	case r < 0:
		return 0, p.fail(Syntax, "a string holds an escape that JSON does not have")
	case r == 0:
		return 0, p.fail(NULCharacter, "a string holds an escaped NUL")
	case !utf16.IsSurrogate(r):
		p.pos += 6
		return r, nil
	}
	pair := utf16.DecodeRune(r, p.hexUnit(p.pos+6))
	if pair == utf8.RuneError {
		return 0, p.fail(LoneSurrogate, "a string holds half of a surrogate pair")
	}
	p.pos += 12
	return pair, nil
}

// hexUnit is the UTF-16 code unit that \uXXXX at offset at stands for, or -1
// if there is no such escape.
func (p *parser) hexUnit(at int) rune {
	if at+6 > len(p.text) || p.text[at] != '\\' || p.text[at+1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range []byte(p.text[at+2 : at+6]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// numberToken reads a number and makes sure that nothing of it is lost.
func (p *parser) numberToken() (float64, *SyntaxError) {
	start := p.pos
	if f, ok := p.smallInteger(); ok {
		return f, nil
	}
	p.pos = start
	d, err := p.decimal()
	if err != nil {
		return 0, err
	}
	f, ok := d.float()
	if !ok {
		p.pos = start
		return 0, p.fail(NotExact, "a number is not one that a 64-bit float keeps as it is written")
	}
	return f, nil
}

// smallInteger reads what nearly all numbers are: at most safeDigits digits
// and nothing else.
func (p *parser) smallInteger() (float64, bool) {
	negative := p.text[p.pos] == '-'
	if negative {
		p.pos++
	}
	first := p.pos
	n := int64(0)
	for ; p.pos < len(p.text) && isDigit(p.text[p.pos]); p.pos++ {
		if p.pos-first == safeDigits {
			return 0, false
		}
		n = n*10 + int64(p.text[p.pos]-'0')
	}
	if p.pos == first || p.text[first] == '0' && (negative || p.pos-first > 1) {
		return 0, false
	}
	if p.pos < len(p.text) {
		if c := p.text[p.pos]; c == '.' || c == 'e' || c == 'E' {
			return 0, false
		}
	}
	if negative {
		n = -n
	}
	return float64(n), true
}

// decimal reads any number by JSON's grammar.
func (p *parser) decimal() (decimal, *SyntaxError) {
	var d decimal
	if p.text[p.pos] == '-' {
		d.negative = true
		p.pos++
	}
	first := p.pos
	if p.digits(d.addInteger) == 0 {
		return d, p.unexpected("a digit")
	}
	if p.pos-first > 1 && p.text[first] == '0' {
		p.pos = first
		return d, p.fail(Syntax, "a number begins with a needless zero")
	}
	if p.pos < len(p.text) && p.text[p.pos] == '.' {
		p.pos++
		if p.digits(d.addFraction) == 0 {
			return d, p.unexpected("a digit")
		}
	}
	if p.pos < len(p.text) && (p.text[p.pos] == 'e' || p.text[p.pos] == 'E') {
		p.pos++
		sign := 1
		if p.pos < len(p.text) && (p.text[p.pos] == '+' || p.text[p.pos] == '-') {
			if p.text[p.pos] == '-' {
				sign = -1
			}
			p.pos++
		}
		exponent := 0
		if p.digits(func(c byte) { exponent = min(exponent*10+int(c-'0'), exponentLimit) }) == 0 {
			return d, p.unexpected("a digit")
		}
		d.exp += sign * exponent
	}
	return d, nil
}

// digits hands each digit from pos on to add and returns how many there were.
func (p *parser) digits(add func(c byte)) int {
	start := p.pos
	for ; p.pos < len(p.text) && isDigit(p.text[p.pos]); p.pos++ {
		add(p.text[p.pos])
	}
	return p.pos - start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
