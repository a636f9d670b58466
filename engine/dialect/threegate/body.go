package threegate

import (
	"regexp"
	"slices"
	"strings"
)

// section is one of the body's four parts. Its lines are from up to to; it is
// not there when heading is 0.
type section struct {
	heading  int // line, counted from 1
	from, to int
}

const (
	commandSection = iota
	inputSection
	outputSection
	riskSection
)

// titles are the four headings in their order (S1).
var titles = [4]string{"## Command", "## Input Files", "## Output Expectations", "## Risk Assessment"}

var (
	container = regexp.MustCompile(`^ *(?:>|[-*+](?: |$)|[0-9]{1,9}[.)](?: |$))`)
	htmlLike  = regexp.MustCompile(`<[A-Za-z/!?]|-->|&#[0-9]{1,7};|&#[xX][0-9A-Fa-f]{1,6};|&[A-Za-z][A-Za-z0-9]{1,31};`)
	reference = regexp.MustCompile(`^ *\[[^\]]*\]:`)
)

// body applies S1 to S3, finds the sections and judges them. It begins at line
// begin, which is 0 when there is no front matter to end.
func (c *checker) body(begin int) {
	if begin == 0 {
		// Without an end of the front matter nobody can say where the body begins.
		begin = c.count()
		for i := 0; i < c.count(); i++ {
			if strings.HasPrefix(c.at(i), "## ") {
				begin = i
				break
			}
		}
	}
	next := 0 // the section whose turn it is
	open := -1
	for i := begin; i < c.count(); i++ {
		line := c.at(i)
		if which := title(line); which >= 0 {
			if open >= 0 {
				c.sections[open].to = i
			}
			open = c.heading(which, next, i)
			next = max(next, which+1)
			continue
		}
		if open >= 0 {
			c.sections[open].to = i + 1
		}
		c.bodyLine(i, begin, open)
	}
	for which, s := range c.sections {
		if s.heading == 0 {
			c.add("S1", 0, "the section %q is missing; the four sections are %s, %s, %s and %s", titles[which], titles[0][3:], titles[1][3:], titles[2][3:], titles[3][3:])
		}
	}
	c.command()
	c.inputFiles()
	c.outputExpectations()
	c.risk()
}

// title is the place of the heading that a line is exactly, or -1.
func title(line string) int {
	for i, t := range titles {
		if line == t {
			return i
		}
	}
	return -1
}

// heading takes note of one of the four headings. It returns the section that
// the following lines belong to.
func (c *checker) heading(which, next, i int) int {
	s := &c.sections[which]
	switch {
	case s.heading != 0:
		c.add("S1", i+1, "the heading %q is here twice", titles[which])
		return -1
	case which < next:
		c.add("S1", i+1, "the heading %q is out of order; the order is %s, %s, %s, %s", titles[which], titles[0][3:], titles[1][3:], titles[2][3:], titles[3][3:])
	}
	*s = section{heading: i + 1, from: i + 1, to: i + 1}
	return which
}

// bodyLine judges a line that is none of the four headings, in section open.
func (c *checker) bodyLine(i, begin, open int) {
	line := c.at(i)
	if isBlank(line) {
		return
	}
	inner := unwrap(line)
	switch level := headingLevel(inner); {
	case line == frontMark || isMarker(line, "..."):
		c.add("F1", i+1, "a second mark of front matter; draw no lines in the body")
	case level == 1 || level == 2:
		c.add("S1", i+1, "a heading that is not one of the four; they must be written exactly, with nothing before or after them on the line")
	case level > 2 && isTitleWord(inner):
		c.add("S1", i+1, "a smaller heading with the words of one of the four; call it something else")
	case i > begin && isUnderline(inner) && !isBlank(c.at(i-1)):
		c.add("S1", i+1, "this line makes a heading of the line above; leave it out")
	}
	if c.sections == [4]section{} && open < 0 {
		c.add("S2", i+1, "nothing may stand between the front matter and ## Command")
	}
	if strings.ContainsAny(line, "<>&") && htmlLike.MatchString(line) {
		c.add("S3", i+1, "HTML, comments and character references are not allowed; write plain text")
	} else if strings.Contains(line, "]:") && reference.MatchString(line) {
		c.add("S3", i+1, "a link definition is hidden when the document is shown; write plain text")
	}
}

// unwrap takes quote marks and list bullets off a line.
func unwrap(line string) string {
	for {
		inner := strings.TrimLeft(line, " ")
		if inner == "" || strings.IndexByte(">-*+0123456789", inner[0]) < 0 {
			return inner
		}
		mark := container.FindString(line)
		if mark == "" {
			return inner
		}
		line = line[len(mark):]
	}
}

// headingLevel counts the number signs of a Markdown heading. A careless reader
// takes two of them for a heading without a space too.
func headingLevel(line string) int {
	rest := strings.TrimLeft(line, "#")
	level := len(line) - len(rest)
	if level == 1 && rest != "" && rest[0] != ' ' && !isTitleWord(line) {
		return 0
	}
	return level
}

func isTitleWord(line string) bool {
	words := strings.Trim(line, "# *_:")
	return slices.ContainsFunc(titles[:], func(t string) bool { return strings.EqualFold(words, t[3:]) })
}

// isUnderline reports a line that Markdown takes for the underline of a heading.
func isUnderline(line string) bool {
	line = strings.TrimRight(line, " ")
	return line != "" && (strings.Trim(line, "=") == "" || strings.Trim(line, "-") == "")
}
