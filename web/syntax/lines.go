package syntax

import "strings"

// Diff splits a unified diff, and counts its files and the lines that it adds and
// removes.
func Diff(text string) (list []Token, files, added, removed int) {
	t := tokens{text: text}
	inHunk := 0 // lines of the hunk that are still to come, of either side
	for line := range strings.Lines(text) {
		class := Plain
		switch {
		case inHunk > 0 && strings.HasPrefix(line, "+"):
			class = Added
			added++
			inHunk--
		case inHunk > 0 && strings.HasPrefix(line, "-"):
			class = Removed
			removed++
			inHunk--
		case inHunk > 0 && (line == "\n" || strings.HasPrefix(line, " ")):
			inHunk -= 2
		case strings.HasPrefix(line, "@@"):
			class, inHunk = Hunk, hunkLines(line)
		case strings.HasPrefix(line, "+++ "):
			class = File
			files++
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "diff "):
			class = File
		case strings.HasPrefix(line, `\`):
			class = Note
		default:
			class = Markup
		}
		body := strings.TrimSuffix(line, "\n")
		t.take(t.from+len(body), class)
		t.take(t.from+len(line)-len(body), Plain)
	}
	return t.list, files, added, removed
}

// hunkLines is how many lines a hunk says that it has, of both sides.
func hunkLines(head string) int {
	all := 0
	for i, field := range strings.Fields(head) {
		if i > 2 {
			break
		}
		if i == 0 || field[0] != '-' && field[0] != '+' {
			continue
		}
		_, count, is := strings.Cut(field, ",")
		n := 1
		if is {
			n = 0
			for j := 0; j < len(count) && digit(count[j]) && n < 1<<20; j++ {
				n = n*10 + int(count[j]-'0')
			}
		}
		all += n
	}
	return all
}

// YAML splits a YAML document.
func YAML(text string) []Token {
	t := tokens{text: text}
	for line := range strings.Lines(text) {
		end := t.from + len(line)
		body := t.from + len(line) - len(strings.TrimLeft(line, " \t-?"))
		t.take(body, Plain)
		rest := text[body:end]
		switch {
		case strings.HasPrefix(rest, "#"):
			t.take(end, Comment)
			continue
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "..."):
			t.take(end, Markup)
			continue
		}
		if n := yamlKey(rest); n > 0 {
			t.take(t.from+n, Key)
			t.take(t.from+1, Operator)
		}
		t.yamlValue(end)
	}
	return t.list
}

// yamlKey is how long the key is that begins the text; 0 for none.
func yamlKey(text string) int {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		if n := quoted(text, text[0]); n < len(text) && text[n] == ':' {
			return n
		}
		return 0
	}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == ':' && (i+1 == len(text) || blank(text[i+1])):
			return i
		case strings.IndexByte(" \t{}[],#\"'", text[i]) >= 0 && text[i] != ' ', text[i] == '\n':
			return 0
		}
	}
	return 0
}

// yamlValue takes the rest of a line: texts in quotes, anchors, tags, and a comment.
func (t *tokens) yamlValue(end int) {
	for i := t.from; i < end; {
		c := t.text[i]
		switch {
		case c == '"' || c == '\'':
			t.take(i, Plain)
			i = min(i+quoted(t.text[i:end], c), end)
			t.take(i, String)
		case c == '#' && (i == 0 || blank(t.text[i-1])):
			t.take(i, Plain)
			t.take(end, Comment)
			i = end
		case (c == '&' || c == '*' || c == '!') && blank(t.text[max(i-1, 0)]):
			t.take(i, Plain)
			for i++; i < end && !blank(t.text[i]); {
				i++
			}
			t.take(i, Danger)
		default:
			i++
		}
	}
	t.take(end, Plain)
}
