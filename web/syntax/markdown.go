package syntax

import "strings"

// Markdown splits a Markdown text. It stays as it is written: links show where they lead,
// and markup, comments too, is there to be seen.
func Markdown(text string) []Token {
	t := tokens{text: text}
	fence := ""
	comment := false
	for line := range strings.Lines(text) {
		end := t.from + len(line)
		body := strings.TrimLeft(line, " \t>")
		mark := strings.TrimRight(body, "\r\n")
		switch {
		case fence != "":
			if strings.HasPrefix(mark, fence) {
				fence = ""
				t.take(end, Markup)
			} else {
				t.take(end, String)
			}
			continue
		case strings.HasPrefix(mark, "```"), strings.HasPrefix(mark, "~~~"):
			fence = mark[:3]
			t.take(end, Markup)
			continue
		}
		t.take(end-len(body), Markup)
		if !comment && strings.HasPrefix(strings.TrimLeft(mark, "#"), " ") && strings.HasPrefix(mark, "#") {
			t.take(end, Heading)
			continue
		}
		if n := bullet(body); n > 0 && !comment {
			t.take(t.from+n, Operator)
		}
		comment = t.inline(end, comment)
	}
	return t.list
}

// bullet is how long the mark of a list's entry is; 0 for none.
func bullet(text string) int {
	n := 0
	for n < len(text) && n < 9 && digit(text[n]) {
		n++
	}
	if n > 0 && n+1 < len(text) && (text[n] == '.' || text[n] == ')') && text[n+1] == ' ' {
		return n + 2
	}
	if len(text) > 1 && strings.IndexByte("-*+", text[0]) >= 0 && text[1] == ' ' {
		return 2
	}
	return 0
}

// inline takes what is in a line, and reports whether a comment goes on after it.
func (t *tokens) inline(end int, comment bool) bool {
	for i := t.from; i < end; {
		rest := t.text[i:end]
		switch {
		case comment || strings.HasPrefix(rest, "<!--"):
			t.take(i, Plain)
			i += until(rest, "-->", 3)
			t.take(i, Comment)
			comment = !strings.HasSuffix(t.text[:i], "-->")
			continue
		case rest[0] == '`':
			t.take(i, Plain)
			i += 1 + until(rest[1:], "`", 1)
			t.take(i, String)
			continue
		case strings.HasPrefix(rest, "]("):
			t.take(i, Plain)
			t.take(i+2, Markup)
			i = t.from + until(t.text[t.from:end], ")", 0)
			t.address(i)
			continue
		case rest[0] == '<' && len(rest) > 1 && (letter(rest[1]) || rest[1] == '/'):
			t.take(i, Plain)
			i += until(rest, ">", 1)
			t.take(i, Danger) // HTML in it
			continue
		case rest[0] == '[' || rest[0] == '!' || rest[0] == '*' || rest[0] == '_' || rest[0] == '|':
			t.take(i, Plain)
			t.take(i+1, Markup)
		case scheme(rest) > 0 && (i == 0 || !letter(t.text[i-1])):
			t.take(i, Plain)
			i += addressLength(rest)
			t.address(i)
			continue
		}
		i++
	}
	t.take(end, Plain)
	return comment
}
