package redact

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// This file finds out from a regular expression where its matches can begin, so
// that it need not be tried anywhere else.

const (
	maxReach   = 4096 // the longest stretch that a rule is shown
	around     = 256  // what is shown before and behind a keyword
	maxBegins  = 64
	maxLetters = 4 // of a character class, up to which its letters are listed
)

// compile makes rules of a regular expression, one for each alternative at its
// top. What cannot be compiled is a mistake in this program.
func compile(expr string, base rule) []rule {
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		panic("redact: " + base.tag + ": " + err.Error())
	}
	parts := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpAlternate {
		parts = tree.Sub
	}
	var out []rule
	for _, part := range parts {
		r, text := base, expr
		if len(parts) > 1 {
			text = part.String() // slow to write, so only where it must be
		}
		r.reach = min(longest(part), maxReach-4) + 4
		begins, _ := prefixesOf(part)
		if len(begins) > 0 && !slices.ContainsFunc(begins, func(s string) bool { return len(s) < 2 }) {
			r.begins = begins
			r.word = startsWord(part)
			r.re = regexp.MustCompile(`\A(?:` + text + `)`)
		} else {
			r.re = regexp.MustCompile(text)
		}
		if len(parts) > 1 {
			r.group = 0 // the others' groups are gone
		}
		out = append(out, r)
	}
	return out
}

// startsWord reports whether the expression begins with \b.
func startsWord(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpWordBoundary:
		return true
	case syntax.OpConcat, syntax.OpCapture:
		return startsWord(re.Sub[0])
	default:
		return false
	}
}

// prefixesOf lists, in lower case, what a match can begin with. exact says that
// the list holds whole matches. An empty list means that nothing is known.
func prefixesOf(re *syntax.Regexp) (list []string, exact bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}, isASCII(re.Rune)
	case syntax.OpEmptyMatch, syntax.OpWordBoundary, syntax.OpNoWordBoundary, syntax.OpBeginText, syntax.OpBeginLine:
		return []string{""}, true
	case syntax.OpCapture:
		return prefixesOf(re.Sub[0])
	case syntax.OpPlus:
		list, _ = prefixesOf(re.Sub[0])
		return list, false
	case syntax.OpRepeat:
		if re.Min > 0 {
			list, _ = prefixesOf(re.Sub[0])
		}
		return list, false
	case syntax.OpCharClass:
		list = classLetters(re)
		return list, len(list) > 0
	case syntax.OpAlternate:
		exact = true
		for _, sub := range re.Sub {
			l, e := prefixesOf(sub)
			if len(l) == 0 {
				return nil, false
			}
			list, exact = append(list, l...), exact && e
		}
		slices.Sort(list)
		return slices.Compact(list), exact
	case syntax.OpConcat:
		return concatenated(re.Sub)
	default:
		return nil, false
	}
}

func concatenated(subs []*syntax.Regexp) (list []string, exact bool) {
	list = []string{""}
	for _, sub := range subs {
		tails, e := prefixesOf(sub)
		if len(tails) == 0 || len(list)*len(tails) > maxBegins {
			return list, false
		}
		var longer []string
		for _, head := range list {
			for _, tail := range tails {
				longer = append(longer, head+tail)
			}
		}
		slices.Sort(longer)
		if list = slices.Compact(longer); !e {
			return list, false
		}
	}
	return list, true
}

// classLetters lists a small character class, in lower case.
func classLetters(re *syntax.Regexp) []string {
	var list []string
	for i := 0; i < len(re.Rune); i += 2 {
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			if r > unicode.MaxASCII || len(list) > 2*maxLetters {
				return nil
			}
			list = append(list, strings.ToLower(string(r)))
		}
	}
	slices.Sort(list)
	if list = slices.Compact(list); len(list) > maxLetters {
		return nil
	}
	return list
}

func isASCII(runes []rune) bool {
	return !slices.ContainsFunc(runes, func(r rune) bool { return r > unicode.MaxASCII })
}

// longest is the length of the longest match, at most maxReach.
func longest(re *syntax.Regexp) int {
	switch re.Op {
	case syntax.OpLiteral:
		return len(string(re.Rune))
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpCapture, syntax.OpQuest:
		return longest(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus:
		return maxReach
	case syntax.OpRepeat:
		if re.Max < 0 {
			return maxReach
		}
		return min(re.Max*longest(re.Sub[0]), maxReach)
	case syntax.OpConcat:
		n := 0
		for _, sub := range re.Sub {
			n += longest(sub)
		}
		return min(n, maxReach)
	case syntax.OpAlternate:
		n := 0
		for _, sub := range re.Sub {
			n = max(n, longest(sub))
		}
		return n
	default:
		return 0
	}
}

// triggers finds the rules that may match at a place by its first two bytes.
type triggers struct {
	pairs   [64][64]uint16 // bucket number, 0 for none
	buckets [][]start
}

// start is one text that matches of a rule begin with, or a keyword of it.
type start struct {
	text string
	rule int
}

func index(rules []rule) triggers {
	t := triggers{buckets: make([][]start, 1)}
	for i, r := range rules {
		texts := r.begins
		if len(texts) == 0 {
			texts = r.keywords
		}
		for _, text := range texts {
			a, b := classes[text[0]], classes[text[1]]
			if a == 0 {
				panic("redact: " + r.tag + ": no match can be found by " + text)
			}
			if t.pairs[a][b] == 0 {
				t.pairs[a][b] = uint16(len(t.buckets)) //nolint:gosec // a few hundred
				t.buckets = append(t.buckets, nil)
			}
			at := t.pairs[a][b]
			t.buckets[at] = append(t.buckets[at], start{text, i})
		}
	}
	return t
}
