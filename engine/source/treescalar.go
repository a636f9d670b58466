package source

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

// plainStart reports whether s can begin a plain scalar.
func plainStart(s string, inFlow bool) bool {
	if s == "" || strings.IndexByte(" \t,[]{}#&*!|>'\"%@`", s[0]) >= 0 {
		return false
	}
	if s[0] == '-' || s[0] == '?' || s[0] == ':' {
		// In a flow collection readers differ about a colon or question mark here.
		return len(s) > 1 && !isSpace(s[1]) && (!inFlow || s[0] == '-' && strings.IndexByte(",[]{}:?", s[1]) < 0)
	}
	return true
}

// plainLength is how much of the line s belongs to a plain scalar.
func plainLength(s string, inFlow bool) int {
	i := 0
	for ; i < len(s); i++ {
		if inFlow && strings.IndexByte(",[]{}", s[i]) >= 0 {
			break
		}
		if s[i] == ':' && (i+1 == len(s) || isSpace(s[i+1]) || inFlow && strings.IndexByte(",[]{}", s[i+1]) >= 0) {
			break
		}
		if s[i] == '#' && i > 0 && isSpace(s[i-1]) {
			break
		}
	}
	return len(strings.TrimRight(s[:i], " \t"))
}

// plain reads a plain scalar. One that is no key may go on over lines that are
// indented further than parent.
func (r *treeReader) plain(parent int, inFlow, key bool) *Tree {
	n := r.begin(Scalar, Plain)
	s := r.rest()
	if !plainStart(s, inFlow) {
		r.fail(r.here(), canon.Syntax, "a value cannot begin with %s; quote it", strconv.QuoteRune(firstRune(s)))
		return n
	}
	var b strings.Builder
	for {
		length := plainLength(s, inFlow)
		b.WriteString(s[:length])
		r.col += length
		n.End = r.offset()
		if key || !isBlank(s[length:]) {
			break
		}
		next, blank := r.ln+1, 0
		for ; next < r.o.To && isBlank(r.at(next)); next++ {
			blank++
		}
		if next >= r.o.To {
			break
		}
		line := r.at(next)
		col := indentOf(line)
		if !inFlow && col <= parent || line[col] == '#' || inFlow && plainLength(line[col:], true) == 0 {
			break
		}
		b.WriteString(foldBreaks(blank))
		r.ln, r.col, s = next, col, line[col:]
	}
	n.Text = b.String()
	return n
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// foldBreaks is what a line break followed by blank lines means inside a scalar.
func foldBreaks(blank int) string {
	if blank == 0 {
		return " "
	}
	return strings.Repeat("\n", blank)
}

// quoted reads a single- or double-quoted scalar over as many lines as it takes.
func (r *treeReader) quoted(parent int) *Tree {
	n := r.begin(Scalar, DoubleQuoted)
	quote := r.rest()[0]
	if quote == '\'' {
		n.Style = SingleQuoted
	}
	r.col++
	var b []byte
	kept := 0 // what of b is no trailing space
	for {
		line := r.at(r.ln)
		joined := false
		for r.col < len(line) {
			c := line[r.col]
			switch {
			case c == quote && quote == '\'' && r.col+1 < len(line) && line[r.col+1] == '\'':
				b = append(b, '\'')
				r.col += 2
			case c == quote:
				r.col++
				n.Text, n.End = string(b), r.offset()
				return n
			case c == '\\' && quote == '"' && r.col+1 == len(line):
				joined = true
				r.col++
			case c == '\\' && quote == '"':
				if b = r.escape(b); r.broken {
					return n
				}
			default:
				b = append(b, c)
				r.col++
				if isSpace(c) {
					continue
				}
			}
			kept = len(b)
		}
		if joined {
			kept = len(b)
		}
		b = b[:kept]
		blank := 0
		for r.ln++; r.ln < r.o.To && isBlank(r.at(r.ln)); r.ln++ {
			blank++
		}
		if r.ln >= r.o.To || indentOf(r.at(r.ln)) <= parent {
			r.fail(n.Position, canon.Syntax, "the quote that begins here is not closed, or its lines are not indented")
			return n
		}
		r.col = 0
		if r.spaces(); !joined || blank > 0 {
			b = append(b, foldBreaks(blank)...)
		}
		kept = len(b)
	}
}

var escapeTexts = map[byte]string{
	'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", 'n': "\n", 'v': "\v", 'f': "\f", 'r': "\r", 'e': "\x1b",
	' ': " ", '"': `"`, '/': "/", '\\': `\`, 'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029",
}

var escapeDigits = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// escape reads one escape sequence of a double-quoted scalar.
func (r *treeReader) escape(b []byte) []byte {
	s := r.rest()
	if text, known := escapeTexts[s[1]]; known {
		r.col += 2
		return append(b, text...)
	}
	digits := escapeDigits[s[1]]
	if digits == 0 || len(s) < 2+digits {
		r.fail(r.here(), canon.Syntax, "the escape in this quoted value is unknown; write a backslash twice or use single quotes")
		return b
	}
	code, err := strconv.ParseUint(s[2:2+digits], 16, 32)
	if err != nil || code > utf8.MaxRune || !utf8.ValidRune(rune(code)) {
		r.fail(r.here(), canon.Syntax, "the escape in this quoted value names no character")
		return b
	}
	r.col += 2 + digits
	return utf8.AppendRune(b, rune(code))
}

// blockScalar reads a literal or folded scalar right of the column parent.
func (r *treeReader) blockScalar(parent int) *Tree {
	n := r.begin(Scalar, Block)
	folded := r.rest()[0] == '>'
	r.col++
	chomp, indent := byte(0), 0
	for s := r.rest(); s != "" && !isSpace(s[0]); s = r.rest() {
		switch {
		case (s[0] == '+' || s[0] == '-') && chomp == 0:
			chomp = s[0]
		case s[0] >= '1' && s[0] <= '9' && indent == 0:
			indent = max(parent, 0) + int(s[0]-'0')
		default:
			r.fail(r.here(), canon.Syntax, "after | or > only +, - and one digit may follow; quote the value if it is text")
			return n
		}
		r.col++
	}
	r.spaces()
	if !r.ended() {
		r.fail(r.here(), canon.Syntax, "the text of a block begins on the next line")
		return n
	}
	n.End = r.offset()
	content, ok := r.blockLines(parent, indent, n)
	if !ok {
		return n
	}
	text := len(content)
	for text > 0 && content[text-1] == "" {
		text--
	}
	if folded {
		n.Text = foldBlock(content[:text])
	} else {
		n.Text = strings.Join(content[:text], "\n")
	}
	if text > 0 && chomp != '-' && n.End < len(r.src) { // a text that ends without a line break has none
		n.Text += "\n"
	}
	if chomp == '+' {
		n.Text += strings.Repeat("\n", len(content)-text)
	}
	return n
}

// blockLines collects the lines of a block scalar without their indent.
func (r *treeReader) blockLines(parent, indent int, n *Tree) ([]string, bool) {
	var content []string
	widest := 0
	for r.ln, r.col = r.ln+1, 0; r.ln < r.o.To; r.ln++ {
		line := r.at(r.ln)
		if strings.Trim(line, " ") == "" {
			if indent == 0 {
				widest = max(widest, len(line))
			}
			if indent > 0 && len(line) > indent {
				content = append(content, line[indent:])
			} else {
				content = append(content, "")
			}
			continue
		}
		here := indentOf(line)
		if indent == 0 {
			if here <= parent {
				break
			}
			if indent = here; widest > indent {
				r.fail(r.here(), canon.Syntax, "the blank lines before this text are indented further than it is")
				return nil, false
			}
		}
		if here < indent {
			break
		}
		content = append(content, line[indent:])
		n.End = r.starts[r.ln] + len(line)
	}
	return content, true
}

// foldBlock joins the lines of a folded scalar: a single line break becomes a
// space but beside lines that are indented further.
func foldBlock(content []string) string {
	var b strings.Builder
	blank, spaced, begun := 0, false, false
	for _, line := range content {
		if line == "" {
			blank++
			continue
		}
		switch {
		case !begun:
			b.WriteString(strings.Repeat("\n", blank))
		case spaced || line[0] == ' ':
			b.WriteString(strings.Repeat("\n", blank+1))
		default:
			b.WriteString(foldBreaks(blank))
		}
		b.WriteString(line)
		blank, spaced, begun = 0, line[0] == ' ', true
	}
	return b.String()
}
