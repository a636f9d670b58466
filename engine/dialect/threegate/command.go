package threegate

import (
	"fmt"
	"strings"
)

// shellSyntax may not be in a command, quoted or not (C3).
const shellSyntax = ";&|<>`$(){}\\!#~*?[]^"

// word is one word of the command line.
type word struct {
	text   string
	quoted bool // some of it is in quotes
}

// command applies C1 to C5 and those of I5, O3 and X2 that concern the command.
func (c *checker) command() {
	s := c.sections[commandSection]
	if s.heading == 0 {
		return
	}
	at := -1
	for i := s.from; i < s.to; i++ {
		line := c.at(i)
		switch {
		case isBlank(line):
		case at >= 0:
			c.add("C1", i+1, "only one command line is allowed, without a second line, fence or note")
		default:
			at = i
		}
	}
	if at < 0 {
		c.add("C1", s.heading, "the section must hold the command, on one line")
		return
	}
	line, number := c.at(at), at+1
	if line[0] == ' ' {
		c.add("C1", number, "the command must begin in the first column")
		line = strings.TrimLeft(line, " ")
	}
	if strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
		c.add("C1", number, "the command must be plain text without a code fence")
	}
	c.request.Command.Line = line
	for _, r := range line {
		if r < ' ' || r > '~' {
			c.add("C2", number, "the command holds %U; only visible ASCII characters and spaces are allowed", r)
			break
		}
	}
	if bad := shellCharacters(line); bad != "" {
		c.add("C3", number, "the command holds %s; it must be one program with its arguments, without shell syntax, even in quotes", bad)
	}
	words, balanced := split(line)
	if !balanced {
		c.add("C3", number, "a quote of the command is not closed")
	}
	if len(words) == 0 {
		return
	}
	for _, w := range words {
		c.request.Command.Argv = append(c.request.Command.Argv, w.text)
	}
	c.request.Command.Program = words[0].text
	c.program(words, number)
	c.commandPaths(words, number)
}

// shellCharacters lists the forbidden characters of a line, each once.
func shellCharacters(line string) string {
	var list []string
	for _, r := range shellSyntax {
		if strings.ContainsRune(line, r) {
			list = append(list, fmt.Sprintf("%q", string(r)))
		}
	}
	return strings.Join(list, " ")
}

// split cuts a command line into words as a POSIX shell does when the line has
// no syntax but spaces and quotes. It reports whether every quote is closed.
func split(line string) (words []word, balanced bool) {
	var b strings.Builder
	quote := byte(0)
	begun, quoted := false, false
	for i := 0; i < len(line); i++ {
		ch := line[i]
		switch {
		case quote != 0 && ch == quote:
			quote = 0
		case quote == 0 && (ch == '"' || ch == '\''):
			quote, begun, quoted = ch, true, true
		case quote == 0 && ch == ' ':
			if begun {
				words = append(words, word{b.String(), quoted})
			}
			b.Reset()
			begun, quoted = false, false
		default:
			b.WriteByte(ch)
			begun = true
		}
	}
	if begun {
		words = append(words, word{b.String(), quoted})
	}
	return words, quote == 0
}
