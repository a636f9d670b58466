package redact

import "strings"

// This file judges numbers: groups of digits with one or two separators between
// them, looked at once, as cards, social security numbers and telephone numbers,
// in this order. What a group is part of, it is no part of again.

// group is one run of digits: t[start:end].
type group struct {
	start, end int
	taken      bool
}

func (g group) size() int { return g.end - g.start }

const maxGroups = 24

// chain is a row of groups.
type chain struct {
	t      string
	groups []group
	room   [maxGroups]group // what groups is a part of; one chain is enough for a text
	plus   bool             // a plus sign stands before it
	glued  bool             // it continues a word or a number: INV-555-…, v1.…
}

// number judges the chain of digits that begins at i.
func (s *scanner) number(i int) {
	c := &s.chain
	c.t, c.groups = s.t, c.room[:0]
	c.read(i)
	last := c.groups[len(c.groups)-1].end
	s.digits = last
	// Letters at either end make that end's digits part of a word.
	if wordAt(s.t, i-1) {
		c.groups[0].taken = true
	}
	if wordAt(s.t, last) {
		c.groups[len(c.groups)-1].taken = true
	}
	digits := 0
	for _, g := range c.groups {
		digits += g.size()
	}
	if digits < 7 {
		return
	}
	c.plus = i > 0 && s.t[i-1] == '+' && !wordAt(s.t, i-2)
	c.glued = i > 1 && strings.IndexByte("-./#:_=+,", s.t[i-1]) >= 0 && isAlnum(s.t[i-2]) && s.t[i-1] != ':' && s.t[i-1] != '=' && s.t[i-1] != ','
	s.cards(c)
	if digits >= 9 && !c.glued {
		s.socialSecurity(c)
	}
	s.phones(c, digits)
}

// read collects the groups from i on.
func (c *chain) read(i int) {
	t := c.t
	for len(c.groups) < maxGroups {
		end := run(t, i, len(t), isDigit)
		c.groups = append(c.groups, group{start: i, end: end})
		next := end
		for next < len(t) && next-end < 2 && strings.IndexByte(" -./()", t[next]) >= 0 {
			next++
		}
		if next == end || next >= len(t) || !isDigit(t[next]) {
			return
		}
		if sep := t[end:next]; len(sep) == 2 && sep != ") " && sep != " (" && sep != ")-" {
			return
		}
		i = next
	}
}

// sep is what stands between group i and the next one.
func (c *chain) sep(i int) string { return c.t[c.groups[i].end:c.groups[i+1].start] }

// free reports whether n groups from i on exist and are part of nothing yet.
func (c *chain) free(i, n int) bool {
	if i < 0 || i+n > len(c.groups) {
		return false
	}
	for _, g := range c.groups[i : i+n] {
		if g.taken {
			return false
		}
	}
	return true
}

// fits reports whether the groups from i on have these sizes, with the same
// separator, one of seps, between all of them.
func (c *chain) fits(i int, seps string, sizes ...int) bool {
	if !c.free(i, len(sizes)) {
		return false
	}
	for k, size := range sizes {
		if c.groups[i+k].size() != size {
			return false
		}
		if k > 0 && (c.sep(i+k-1) != c.sep(i) || len(c.sep(i)) != 1 || !strings.Contains(seps, c.sep(i))) {
			return false
		}
	}
	return true
}

func (s *scanner) take(c *chain, i, n int, tag string) {
	for k := i; k < i+n; k++ {
		c.groups[k].taken = true
	}
	s.add(c.groups[i].start, c.groups[i+n-1].end, tag)
}

// cardGroups are the ways in which card numbers are printed.
var cardGroups = [][]int{{4, 4, 4, 4, 3}, {4, 4, 4, 4, 2}, {4, 4, 4, 4, 1}, {4, 4, 4, 4}, {4, 6, 5}, {4, 6, 4}, {4, 4, 4, 3}, {4, 4, 4, 2}, {4, 4, 5}, {4, 3, 3, 3}, {6, 13}, {8, 8}, {6, 10}}

// cards finds payment card numbers: 13 to 19 digits whose Luhn sum is right
// (ISO/IEC 7812-1), in one piece, in the groups that are usual, or as all of
// the chain.
func (s *scanner) cards(c *chain) {
	for i := range c.groups {
		if g := c.groups[i]; !g.taken && g.size() >= 13 && g.size() <= 19 && luhn(c.t[g.start:g.end]) && !isTimestamp(c.t[g.start:g.end]) && !c.fraction(i) {
			s.take(c, i, 1, Card)
			continue
		}
		for _, sizes := range cardGroups {
			if c.fits(i, " -.", sizes...) && luhn(c.t[c.groups[i].start:c.groups[i+len(sizes)-1].end]) {
				s.take(c, i, len(sizes), Card)
				break
			}
		}
	}
	if n := len(c.groups); n > 1 && c.free(0, n) && c.whole() {
		s.take(c, 0, n, Card)
	}
}

// whole reports whether all groups together are a card number in an unusual
// spelling: nothing but blanks or dashes between groups of three and more.
func (c *chain) whole() bool {
	for i, g := range c.groups {
		if i+1 < len(c.groups) && (g.size() < 3 || c.sep(i) != c.sep(0) || c.sep(i) != " " && c.sep(i) != "-") {
			return false
		}
	}
	text := c.t[c.groups[0].start:c.groups[len(c.groups)-1].end]
	digits := len(text) - len(c.groups) + 1
	book := strings.HasPrefix(text, "978-") || strings.HasPrefix(text, "979-")
	return digits >= 13 && digits <= 19 && !book && luhn(text)
}

// fraction reports whether a group stands behind a decimal point.
func (c *chain) fraction(i int) bool {
	at := c.groups[i].start
	return at > 1 && c.t[at-1] == '.' && isDigit(c.t[at-2])
}

// isTimestamp reports whether digits count milliseconds, microseconds or
// nanoseconds up to a time between 2017 and 2033, or spell a time of the last
// or this century (20060102150405). No card begins like that.
func isTimestamp(digits string) bool {
	switch len(digits) {
	case 14:
		return (digits[:2] == "19" || digits[:2] == "20") && digits[4:6] <= "12" && digits[6:8] <= "31" && digits[8:10] <= "23" && digits[10] <= '5'
	case 13, 16, 19:
		return digits[0] == '1' && digits[1] >= '5'
	}
	return false
}

// luhn adds up the digits of s; not all of them may be the same.
func luhn(s string) bool {
	sum, n, same := 0, 0, true
	first := s[0]
	for i := len(s) - 1; i >= 0; i-- {
		if !isDigit(s[i]) {
			continue
		}
		same = same && s[i] == first
		d := int(s[i] - '0')
		if n%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		n++
	}
	return sum%10 == 0 && !same
}

// socialSecurity finds numbers as the Social Security Administration writes
// them, 3-2-4; without dashes only where the text says what they are.
func (s *scanner) socialSecurity(c *chain) {
	for i := range c.groups {
		switch {
		case c.fits(i, "-", 3, 2, 4):
			if i > 0 && c.sep(i-1) != " " || i+3 < len(c.groups) && c.sep(i+2) != " " {
				continue
			}
		case c.fits(i, " ", 3, 2, 4), c.fits(i, "", 9):
			if !mentions(c.t, c.groups[i].start, "ssn", "social security", "sozialversicherung") {
				continue
			}
		default:
			continue
		}
		n := 3
		if c.groups[i].size() == 9 {
			n = 1
		}
		text := strings.NewReplacer("-", "", " ", "").Replace(c.t[c.groups[i].start:c.groups[i+n-1].end])
		// Never issued: 000, 666, group 00, serial 0000. 9xx are taxpayers' numbers.
		if text[:3] != "000" && text[:3] != "666" && text[3:5] != "00" && text[5:] != "0000" {
			s.take(c, i, n, SSN)
		}
	}
}

// phones finds telephone numbers: with a plus sign (ITU-T E.164), in the groups
// of the North American plan, or in any form behind a word that announces one.
func (s *scanner) phones(c *chain, digits int) {
	if c.plus && c.free(0, 1) && c.t[c.groups[0].start] != '0' {
		n, sum := 0, 0
		for n < len(c.groups) && !c.groups[n].taken && sum+c.groups[n].size() <= 15 {
			sum += c.groups[n].size()
			n++
		}
		// +123456000, +1130 2010 and +123.456789 are more often something else.
		if sum >= 10 && (n != 2 || c.sep(0) != ".") || sum == 9 && n > 1 && c.sep(0) != "." {
			s.take(c, 0, n, Phone)
			s.spans[len(s.spans)-1].Start-- // the plus sign
			return
		}
	}
	first := c.groups[0].start
	if c.glued {
		return
	}
	for i := range c.groups {
		// An invoice may be numbered 555-123-4567 too.
		if !c.northAmerican(i) || mentions(c.t, first, "invoice", "order", "ticket", "ref", "reference", "case", "sku", "part", "isbn",
			"tracking", "serial", "article", "articles", "item", "batch", "lot", "version", "build") {
			continue
		}
		if i > 0 && !c.groups[i-1].taken && c.groups[i-1].size() == 1 && c.t[c.groups[i-1].start] == '1' {
			s.take(c, i-1, 4, Phone)
			continue
		}
		s.take(c, i, 3, Phone)
	}
	if digits <= 15 && c.free(0, len(c.groups)) && !c.isDate() && !c.isAddress() &&
		mentions(c.t, first, "phone", "telephone", "telefon", "tel", "mobile", "mobil", "cell", "fax", "call", "whatsapp", "sms", "handy", "dial") {
		s.take(c, 0, len(c.groups), Phone)
	}
}

// northAmerican reports whether the groups from i on are 3, 3 and 4 digits with
// a separator between them that no longer number shares.
func (c *chain) northAmerican(i int) bool {
	if !c.free(i, 3) || c.groups[i].size() != 3 || c.groups[i+1].size() != 3 || c.groups[i+2].size() != 4 || c.t[c.groups[i].start] < '2' {
		return false
	}
	switch a, b := c.sep(i), c.sep(i+1); {
	case a != b && a != ") " && a != ")-" && a != ")", strings.ContainsAny(b, "/()"), a == "/":
		return false
	}
	if i+3 < len(c.groups) && c.sep(i+2) != " " {
		return false
	}
	if i == 0 {
		return true
	}
	one := c.groups[i-1].size() == 1 && c.t[c.groups[i-1].start] == '1'
	return c.sep(i-1) == " " || one
}

// isDate reports whether the chain begins with a year and a month.
func (c *chain) isDate() bool {
	return len(c.groups) > 1 && c.groups[0].size() == 4 && c.groups[1].size() <= 2 && (c.t[c.groups[0].start] == '1' || c.t[c.groups[0].start] == '2')
}

// isAddress reports whether the chain may be an IPv4 address.
func (c *chain) isAddress() bool { return len(c.groups) >= 4 && c.sep(0) == "." && c.sep(1) == "." }

// contextReach is how far before a number a word is looked for.
const contextReach = 28

// mentions reports whether one of the lower-case words stands shortly before at,
// in the same sentence.
func mentions(t string, at int, words ...string) bool {
	before := t[max(at-contextReach, 0):at]
	if i := strings.LastIndexAny(before, "\n;!?"); i >= 0 {
		before = before[i+1:]
	}
	before = strings.ToLower(before)
	for _, word := range words {
		for from := 0; ; {
			i := strings.Index(before[from:], word)
			if i < 0 {
				break
			}
			i += from
			// Behind a dot it is the end of a tag, in our own mask.
			if (i == 0 || !isLetter(before[i-1]) && before[i-1] != '.') && !(i+len(word) < len(before) && isLetter(before[i+len(word)])) {
				return true
			}
			from = i + 1
		}
	}
	return false
}
