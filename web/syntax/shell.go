package syntax

import "strings"

var (
	// before names what stands before a command: the next word is one, too.
	before      = words("sudo doas env nohup time exec command builtin xargs nice then do else elif if while until ! {")
	shellWords  = words("then do else elif if while until for in case esac fi done function select ! { }")
	shellDanger = words("sudo doas su rm rmdir dd mkfs shred eval chmod chown kill killall shutdown reboot truncate")
)

// maxNested is how deep commands in commands are looked into.
const maxNested = 20

// Shell splits a script for a shell, each of its commands apart, and says how many there
// are.
func Shell(text string) (list []Token, commands int) {
	s := shell{tokens: tokens{text: text}, first: true}
	s.script(0, 0)
	s.take(len(text), Plain)
	return s.list, s.commands
}

type shell struct {
	tokens
	first    bool // the next word is a command
	commands int
	nested   int
}

// script takes commands until the end, or after the closing byte.
func (s *shell) script(closing byte, depth int) {
	for s.from < len(s.text) {
		i := s.from
		c, rest := s.text[i], s.text[i:]
		switch {
		case closing != 0 && c == closing:
			s.take(i+1, Operator)
			return
		case c == '\n':
			s.take(i+1, Plain)
			s.first = true
		case blank(c):
			s.take(i+1, Plain)
		case c == '\\' && len(rest) > 1:
			s.word(closing, depth)
		case c == '#':
			s.take(i+until(rest, "\n", 0), Comment)
		case redirection(rest) > 0:
			s.redirect(redirection(rest), closing, depth)
		case strings.IndexByte("|&;", c) >= 0:
			n := 1
			if len(rest) > 1 && strings.IndexByte("|&;", rest[1]) >= 0 && (rest[1] == c || rest[:2] == "|&") {
				n = 2
			}
			s.take(i+n, Operator)
			s.first = true
			if depth == 0 && strings.TrimLeft(s.text[s.from:], " \t\n") != "" && !strings.HasPrefix(strings.TrimLeft(s.text[s.from:], " \t"), "\n") {
				s.apart()
			}
		case c == '(' || c == ')':
			s.take(i+1, Operator)
			s.first = true
		default:
			s.word(closing, depth)
		}
	}
}

// redirect takes a redirection, and where it leads, which is no command.
func (s *shell) redirect(n int, closing byte, depth int) {
	i := s.from + n
	for i < len(s.text) && (s.text[i] == ' ' || s.text[i] == '\t') {
		i++
	}
	s.take(i, Redirect)
	if i < len(s.text) && !blank(s.text[i]) && strings.IndexByte("|&;()<>#", s.text[i]) < 0 && (closing == 0 || s.text[i] != closing) {
		first := s.first
		s.first = false
		s.word(closing, depth)
		s.first = first
	}
}

// redirection is how long one is that begins the text; 0 for none.
func redirection(text string) int {
	i := 0
	for i < len(text) && digit(text[i]) {
		i++
	}
	if i == 0 && strings.HasPrefix(text, "&>") {
		i = 1
	}
	n := i
	for n < len(text) && (text[n] == '<' || text[n] == '>') && n < i+3 {
		n++
	}
	if n == i {
		return 0
	}
	if n < len(text) && (text[n] == '&' || text[n] == '|') {
		for n++; n < len(text) && (digit(text[n]) || text[n] == '-'); {
			n++
		}
	}
	return n
}

// word takes a word. What is run in it is taken as a script.
func (s *shell) word(closing byte, depth int) {
	start, i := s.from, s.from
	class := func() Class {
		switch {
		case !s.first:
			return Plain
		case assigns(s.text[start:i]):
			return Variable
		}
		return Command
	}
	for i < len(s.text) {
		c := s.text[i]
		if blank(c) || strings.IndexByte("|&;()<>", c) >= 0 && s.runs(i) == 0 || closing != 0 && c == closing {
			break
		}
		switch {
		case c == '\\':
			i = min(i+2, len(s.text))
			continue
		case c == '\'':
			s.take(i, class())
			s.take(i+1+until(s.text[i+1:], "'", 1), String)
			i = s.from
			continue
		case c == '"':
			s.take(i, class())
			s.double(depth)
			i = s.from
			continue
		case s.runs(i) > 0:
			s.take(i, class())
			s.inner(s.runs(i), depth)
			i = s.from
			continue
		case c == '$' && i+1 < len(s.text):
			s.take(i, class())
			i = s.variable()
			continue
		}
		i++
	}
	word := s.text[start:i]
	switch {
	case !s.first:
		s.take(i, Plain)
	case assigns(word):
		s.take(i, Variable)
	case shellDanger[word]:
		s.take(i, Danger)
	case shellWords[word]:
		s.take(i, Keyword)
	default:
		s.take(i, class())
	}
	if s.from == start { // nothing was taken: it must go on
		s.take(start+1, Plain)
	}
	if s.first && !assigns(word) {
		if !shellWords[word] && !before[word] {
			s.commands++
		}
		s.first = before[word]
	}
}

// assigns reports whether a word sets a variable.
func assigns(word string) bool {
	name, _, is := strings.Cut(word, "=")
	if !is || name == "" || digit(name[0]) {
		return false
	}
	for i := range len(name) {
		if !letter(name[i]) && !digit(name[i]) {
			return false
		}
	}
	return true
}

// runs is how long the mark is at i that begins a command in a word; 0 for none.
func (s *shell) runs(i int) int {
	rest := s.text[i:]
	switch {
	case strings.HasPrefix(rest, "$(("):
		return 0
	case strings.HasPrefix(rest, "$("), strings.HasPrefix(rest, "<("), strings.HasPrefix(rest, ">("):
		return 2
	case strings.HasPrefix(rest, "`"):
		return 1
	}
	return 0
}

// inner takes a command in a word, behind its mark of n bytes.
func (s *shell) inner(n, depth int) {
	closing := byte(')')
	if n == 1 {
		closing = '`'
	}
	s.take(s.from+n, Operator)
	if s.nested >= maxNested {
		return
	}
	s.nested++
	first := s.first
	s.first = true
	s.script(closing, depth+1)
	s.first = first
	s.nested--
}

// variable takes a variable, which begins at its dollar sign, and returns where it ends.
func (s *shell) variable() int {
	i := s.from + 1
	switch {
	case s.text[i] == '{':
		i += until(s.text[i:], "}", 1)
	case letter(s.text[i]):
		for i < len(s.text) && (letter(s.text[i]) || digit(s.text[i])) {
			i++
		}
	default:
		i++
	}
	s.take(i, Variable)
	return s.from
}

// double takes a text in double quotes. What a shell runs in it is taken as a script.
func (s *shell) double(depth int) {
	i := s.from + 1
	for i < len(s.text) {
		switch c := s.text[i]; {
		case c == '\\':
			i++
		case c == '"':
			s.take(i+1, String)
			return
		case s.runs(i) > 0 && c != '<' && c != '>':
			s.take(i, String)
			s.inner(s.runs(i), depth)
			i = s.from
			continue
		case c == '$' && i+1 < len(s.text) && (letter(s.text[i+1]) || s.text[i+1] == '{'):
			s.take(i, String)
			i = s.variable()
			continue
		}
		i++
	}
	s.take(i, String)
}
