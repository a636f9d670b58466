package syntax

import "strings"

// Text splits a text into words and addresses.
func Text(text string) []Token {
	t := tokens{text: text}
	for i := 0; i < len(text); {
		if rest := text[i:]; scheme(rest) > 0 && (i == 0 || !letter(text[i-1])) {
			t.take(i, Plain)
			i += addressLength(rest)
			t.address(i)
			continue
		}
		i++
	}
	t.take(len(text), Plain)
	return t.list
}

// Location splits an address, such as https://user@host:8080/path. It is false for what is
// none.
func Location(text string) (list []Token, host string, ok bool) {
	if n := scheme(text); n == 0 || addressLength(text) != len(text) || len(text) == n {
		return nil, "", false
	}
	t := tokens{text: text}
	t.address(len(text))
	for _, token := range t.list {
		if token.Class == Host {
			host = token.Text
		}
	}
	return t.list, host, host != ""
}

// scheme is how long the "https://" is that begins the text; 0 for none.
func scheme(text string) int {
	if text == "" || !letter(text[0]) || text[0] >= 0x80 {
		return 0
	}
	for i := 1; i < len(text) && i < 24; i++ {
		switch c := text[i]; {
		case c == ':':
			if strings.HasPrefix(text[i:], "://") {
				return i + 3
			}
			return 0
		case c >= 0x80 || !letter(c) && !digit(c) && c != '+' && c != '-' && c != '.':
			return 0
		}
	}
	return 0
}

// addressLength is how long the address is that begins the text.
func addressLength(text string) int {
	n := strings.IndexAny(text, " \t\r\n\"<>`")
	if n < 0 {
		n = len(text)
	}
	if n < len(text) || strings.HasSuffix(text, ".") {
		n = len(strings.TrimRight(text[:n], ".,;!?)'"))
	}
	return n
}

// address takes an address up to end: its host apart, and who would sign in.
func (t *tokens) address(end int) {
	i := t.from + scheme(t.text[t.from:end])
	if i == t.from { // it has no scheme: mailto:, javascript:, a path
		t.take(end, Address)
		return
	}
	t.take(i, Address)
	stop := i + len(t.text[i:end])
	if n := strings.IndexAny(t.text[i:end], `/?#\`); n >= 0 {
		stop = i + n
	}
	if at := strings.LastIndexByte(t.text[i:stop], '@'); at >= 0 {
		t.take(i+at+1, Danger)
	}
	port := stop
	if n := strings.LastIndexByte(t.text[t.from:stop], ':'); n >= 0 && !strings.HasSuffix(t.text[t.from:stop], "]") {
		port = t.from + n
	}
	t.take(port, Host)
	t.take(end, Address)
}
