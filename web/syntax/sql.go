package syntax

import "strings"

var sqlKeywords = words(`select from where and or not in is null like between group by order having limit offset join left right
	inner outer full cross on as distinct union all except intersect with recursive values into set using returning case when then
	else end exists begin commit rollback savepoint explain analyze index view table column add if primary key foreign references
	constraint default unique check cascade restrict function procedure trigger schema database role user to for do language begin lateral over partition`)

var sqlDanger = words(`insert update delete merge replace drop truncate alter create grant revoke call execute exec copy vacuum rename load attach
	shutdown kill outfile dumpfile`)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// SQL splits statements, and says how many there are.
func SQL(text string) (list []Token, statements int) {
	t := tokens{text: text}
	open := false // a statement has begun
	for t.from < len(text) {
		i := t.from
		c, rest := text[i], text[i:]
		class, end := Plain, i+1
		switch {
		case strings.HasPrefix(rest, "--"):
			class, end = Comment, i+until(rest, "\n", 0)
		case strings.HasPrefix(rest, "/*!"), strings.HasPrefix(rest, "/*+"):
			class, end = Danger, i+until(rest, "*/", 2) // some databases run what is in it
		case strings.HasPrefix(rest, "/*"):
			class, end = Comment, i+until(rest, "*/", 2)
		case c == '\'':
			class, end = String, i+quoted(rest, '\'')
		case c == '"' || c == '`':
			class, end = Key, i+quoted(rest, c)
		case c == '$' && dollarTag(rest) > 0:
			tag := rest[:dollarTag(rest)]
			class, end = String, i+len(tag)+until(rest[len(tag):], tag, len(tag))
		case c == ';':
			class = Operator
		case digit(c):
			for class = Number; end < len(text) && (digit(text[end]) || text[end] == '.'); {
				end++
			}
		case letter(c):
			for end < len(text) && (letter(text[end]) || digit(text[end])) {
				end++
			}
			switch w := strings.ToLower(text[i:end]); {
			case sqlDanger[w]:
				class = Danger
			case sqlKeywords[w]:
				class = Keyword
			}
		}
		if !blank(c) && class != Comment && class != Operator && !open {
			open = true
			statements++
		}
		t.take(end, class)
		if class == Operator {
			open = false
			if rest := strings.TrimLeft(text[end:], " \t"); rest != "" && rest[0] != '\n' {
				t.apart()
			}
		}
	}
	return t.list, statements
}

// until is where the text ends that goes to the mark, and so many bytes of that.
func until(text, mark string, with int) int {
	if i := strings.Index(text, mark); i >= 0 {
		return i + with
	}
	return len(text)
}

// quoted is how long a quoted text is, in which the quote is doubled.
func quoted(text string, quote byte) int {
	for i := 1; i < len(text); i++ {
		if text[i] != quote {
			continue
		}
		if i+1 < len(text) && text[i+1] == quote {
			i++
			continue
		}
		return i + 1
	}
	return len(text)
}

// dollarTag is how long the tag is that begins a text quoted by it; 0 for none.
func dollarTag(text string) int {
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '$':
			return i + 1
		case !letter(c) && !(digit(c) && i > 1):
			return 0
		}
	}
	return 0
}
