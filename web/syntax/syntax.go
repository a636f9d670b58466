// Package syntax splits the texts that agents hand to tools (SQL, shell scripts, YAML,
// Markdown, HTML, unified diffs, addresses) into tokens, so that a page can show their
// parts apart. It judges nothing, looks nothing up and does no I/O. It never leaves
// anything out: the tokens of a text, one after the other, are the text, except for those
// of HTML, which are what a reader would see and what is kept from them.
//
// It reads as much as people need who read along, not what a database or a shell reads:
// where dialects differ, the more dangerous reading is shown.
package syntax

// Class says what a token is.
type Class string

// The classes. They are short, because each one is written once for each token.
const (
	Plain    Class = "t"
	Comment  Class = "co"
	String   Class = "s"
	Number   Class = "n"
	Keyword  Class = "kw"
	Danger   Class = "dg" // what changes or destroys, or runs as somebody else
	Operator Class = "op" // what joins or ends commands and statements
	Redirect Class = "rd"
	Command  Class = "cm"
	Variable Class = "va"
	Key      Class = "k"
	Added    Class = "ad"
	Removed  Class = "rm"
	Hunk     Class = "hu"
	File     Class = "fi"
	Heading  Class = "hd"
	Markup   Class = "mu"
	Address  Class = "li"
	Host     Class = "ho"
	Note     Class = "no" // words of this package, not of the text
)

// Token is a piece of a text.
type Token struct {
	Class Class
	Text  string
	// Break says that what follows is set apart on a line of its own, though the text
	// has no line break there.
	Break bool
}

// tokens collects the tokens of a text.
type tokens struct {
	text string
	from int // what is before it has been taken
	list []Token
}

// take makes the text up to end a token.
func (t *tokens) take(end int, class Class) {
	if end = min(end, len(t.text)); end <= t.from {
		return
	}
	start := t.from
	t.from = end
	if n := len(t.list); n > 0 && t.list[n-1].Class == class && !t.list[n-1].Break {
		t.list[n-1].Text = t.text[start-len(t.list[n-1].Text) : end]
		return
	}
	t.list = append(t.list, Token{Class: class, Text: t.text[start:end]})
}

// apart sets what follows on a line of its own.
func (t *tokens) apart() {
	if n := len(t.list); n > 0 {
		t.list[n-1].Break = true
	}
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
