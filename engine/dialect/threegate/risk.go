package threegate

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// labels are the risk assessment's, in the order of Risk's fields.
var labels = [4]string{"Risk level", "Justification", "Data sensitivity", "Network rationale"}

var (
	labelLine = regexp.MustCompile(`^ {0,3}(?:[-*+] +)?(?:\*\*|__)?(Risk level|Justification|Data sensitivity|Network rationale)(?:\*\*|__)? ?:(?:\*\*|__)?(?: +(.*))?$`)
	// looseLabel finds what a hasty reader could take for a label.
	looseLabel = regexp.MustCompile(`(?i)(risk[ _-]*level|data[ _-]*sensitivity|network[ _-]*rationale)[*_ ]*[:=]`)
	loosest    = regexp.MustCompile(`(?i)^[ >*+_-]*justification[*_ ]*[:=]`)
)

// emptyWords justify nothing.
var emptyWords = []string{"short text", "tbd", "todo", "n/a", "na", "none", "pending", "why network is needed", "why network is needed (if any)"}

// labelled is the value of one label and the line that it stands on.
type labelled struct {
	value string
	line  int
	count int
}

// risk applies K1 to K5.
func (c *checker) risk() {
	s := c.sections[riskSection]
	c.strayLabels(s)
	if s.heading == 0 {
		return
	}
	found := c.labelled(s)
	for i, f := range found {
		if f.count != 1 {
			line := s.heading
			if f.count > 1 {
				line = f.line
			}
			c.add("K1", line, "the label %q must be here exactly once, at the beginning of a line, with a colon after it", labels[i])
		}
	}
	r := &c.request.Risk
	*r = Risk{Level: found[0].value, Justification: found[1].value, DataSensitivity: found[2].value, NetworkRationale: found[3].value}
	if f := found[0]; f.count > 0 && !slices.Contains([]string{"low", "medium", "high"}, f.value) {
		c.add("K2", f.line, "the risk level must be exactly low, medium or high")
	}
	if f := found[1]; f.count > 0 && saysNothing(f.value) {
		c.add("K3", f.line, "the justification must say why the run is worth its risk")
	}
	if f := found[2]; f.count > 0 && !slices.Contains([]string{"public", "internal", "confidential"}, f.value) {
		c.add("K4", f.line, "the data sensitivity must be exactly public, internal or confidential")
	}
	f := found[3]
	switch {
	case f.count == 0:
	case c.request.Network == "allowlist" && saysNothing(f.value):
		c.add("K5", f.line, "the network rationale must say why network is needed, because network is allowlist")
	case c.request.Network == "none" && f.value != "" && f.value != "none":
		c.add("K5", f.line, "the network rationale must be empty or \"none\", because network is none")
	}
}

// saysNothing reports a text without a word in it, or one left over from a template.
func saysNothing(s string) bool {
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	return !strings.ContainsFunc(s, word) || slices.Contains(emptyWords, strings.ToLower(strings.Trim(s, " .\"'")))
}

// labelled reads the section's labels. A value goes on over the lines below it
// until a blank line, a bullet or another label.
func (c *checker) labelled(s section) (found [4]labelled) {
	current := -1
	for i := s.from; i < s.to; i++ {
		line := c.at(i)
		if m := labelLine.FindStringSubmatch(line); m != nil {
			current = slices.Index(labels[:], m[1])
			f := &found[current]
			*f = labelled{value: strings.TrimRight(m[2], " "), line: i + 1, count: f.count + 1}
			c.secondLabel(i, looseLabels(line), current != 1)
			continue
		}
		c.secondLabel(i, looseLabels(line), false)
		if loosest.MatchString(line) {
			c.add("K1", i+1, "write the label exactly \"Justification:\", at the beginning of a line")
		}
		if isBlank(line) || bullet.MatchString(line) {
			current = -1
		}
		if current >= 0 {
			f := &found[current]
			f.value = strings.TrimLeft(f.value+" "+strings.TrimSpace(line), " ")
		}
	}
	return found
}

// looseLabels are the places of the words of labels in a line.
func looseLabels(line string) [][]int {
	if !strings.ContainsAny(line, ":=") {
		return nil
	}
	lower := strings.ToLower(line)
	if !strings.Contains(lower, "level") && !strings.Contains(lower, "sensitivity") && !strings.Contains(lower, "rationale") {
		return nil
	}
	return looseLabel.FindAllStringIndex(line, -1)
}

// secondLabel refuses label words inside of a line, where one reader would see
// a label and another a part of a sentence.
func (c *checker) secondLabel(i int, loose [][]int, own bool) {
	if own && len(loose) > 0 {
		loose = loose[1:]
	}
	if len(loose) > 0 {
		c.add("K1", i+1, "words of a label stand where no label may; write each label once, exactly, at the beginning of a line")
	}
}

// strayLabels refuses labels outside of the risk assessment.
func (c *checker) strayLabels(s section) {
	for _, other := range c.sections {
		for i := other.from; other.heading != 0 && other != s && i < other.to; i++ {
			c.secondLabel(i, looseLabels(c.at(i)), false)
		}
	}
}
