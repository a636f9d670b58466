package confusable

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"holdpoint/engine/canon"
)

// span is a range of characters, both ends included.
type span struct{ from, to rune }

// script numbers a script; scriptNames has its name.
type script uint8

// scriptSet is a set of scripts, one bit each. The empty set stands for Common
// and Inherited, which go with every script.
type scriptSet [3]uint64

type scriptRange struct {
	from, to rune
	set      uint8
}

func scriptsNamed(list ...script) (s scriptSet) {
	for _, one := range list {
		s[one/64] |= 1 << (one % 64)
	}
	return s
}

func (s scriptSet) and(o scriptSet) scriptSet {
	return scriptSet{s[0] & o[0], s[1] & o[1], s[2] & o[2]}
}
func (s scriptSet) or(o scriptSet) scriptSet { return scriptSet{s[0] | o[0], s[1] | o[1], s[2] | o[2]} }
func (s scriptSet) empty() bool              { return s == scriptSet{} }
func (s scriptSet) meets(o scriptSet) bool   { return !s.and(o).empty() }

// first is the first script of a set that has one.
func (s scriptSet) first() script {
	for i, word := range s {
		if word != 0 {
			return script(i*64 + bits.TrailingZeros64(word))
		}
	}
	return 0
}

var (
	latin = scriptsNamed(sLatin)
	// together are the scripts that one language is written in: UTS #39 takes each
	// of them for a single script.
	together = []scriptSet{
		scriptsNamed(sHan, sHiragana, sKatakana), scriptsNamed(sHan, sBopomofo), scriptsNamed(sHan, sHangul),
	}
	// recommended are the scripts of UAX #31, table 5, without those of which
	// Unicode lets none be mixed with Latin: Cyrillic and Greek.
	recommended = scriptsNamed(
		sArabic, sArmenian, sBengali, sBopomofo, sDevanagari, sEthiopic, sGeorgian, sGujarati, sGurmukhi, sHan, sHangul, sHebrew,
		sHiragana, sKannada, sKatakana, sKhmer, sLao, sLatin, sMalayalam, sMyanmar, sOriya, sSinhala, sTamil, sTelugu, sThaana,
		sThai, sTibetan,
	)
)

// scriptsOf are the Script_Extensions of a character.
func scriptsOf(c rune) scriptSet {
	if c < utf8.RuneSelf {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return latin
		}
		return scriptSet{}
	}
	i, found := slices.BinarySearchFunc(scriptRanges[:], c, func(r scriptRange, c rune) int { return within(r.from, r.to, c) })
	if !found {
		return scriptSet{}
	}
	return scriptSets[scriptRanges[i].set]
}

// Script names the script of a character in capitals, the first one where there
// are several; "" for what goes with every script.
func Script(c rune) string {
	set := scriptsOf(c)
	if set.empty() {
		return ""
	}
	return scriptNames[set.first()]
}

func within(from, to, c rune) int {
	switch {
	case to < c:
		return -1
	case from > c:
		return 1
	}
	return 0
}

// Allowed reports whether Unicode recommends a character for names: its
// Identifier_Status.
func Allowed(c rune) bool {
	_, found := slices.BinarySearchFunc(allowed[:], c, func(s span, c rune) int { return within(s.from, s.to, c) })
	return found
}

// Level says how freely a text mixes scripts (UTS #39, section 5.2).
type Level uint8

// The levels, the strictest first.
const (
	ASCIIOnly             Level = iota
	SingleScript                // one script, or those of Japanese, Chinese or Korean
	HighlyRestrictive           // such a one, with Latin
	ModeratelyRestrictive       // Latin with one other script in wide use, but neither Cyrillic nor Greek
	MinimallyRestrictive        // any scripts
	Unrestricted                // characters that Unicode does not recommend for names
)

// levelOf is the level of a name. ASCII counts as recommended, all of it.
func levelOf(name string) Level {
	if strings.ContainsFunc(name, func(c rune) bool { return c >= utf8.RuneSelf && !Allowed(c) }) {
		return Unrestricted
	}
	return mixing(name)
}

// mixing is the level by scripts alone.
func mixing(text string) Level {
	if canon.IsASCII(text) {
		return ASCIIOnly
	}
	common, foreign := everyScript, everyScript // what all have, and all that are not Latin
	var all scriptSet
	covered := [3]bool{true, true, true} // by together, Latin left aside
	for _, c := range text {
		set := scriptsOf(c)
		if set.empty() {
			continue
		}
		common, all = common.and(set), all.or(set)
		if set.meets(latin) {
			continue
		}
		foreign = foreign.and(set)
		for i, some := range together {
			covered[i] = covered[i] && set.meets(some)
		}
	}
	switch {
	case !common.empty():
		return SingleScript
	case slices.Contains(covered[:], true) && !all.meets(latin):
		return SingleScript
	case slices.Contains(covered[:], true):
		return HighlyRestrictive
	case foreign.meets(recommended):
		return ModeratelyRestrictive
	}
	return MinimallyRestrictive
}

var everyScript = scriptSet{^uint64(0), ^uint64(0), ^uint64(0)}

// ClearName reports whether a name can be taken for no other by what cannot be
// seen in it or by how it is drawn: printable ASCII and characters that Unicode
// recommends for names, in one script or with Latin as Japanese, Chinese and
// Korean are, without marks, with the digits of one system, and not written in
// another script's letters that all are drawn like ASCII. Names that differ in
// letters of one alphabet (ı and i) are for Skeleton to compare.
func ClearName(name string) bool {
	if isPlain(name) {
		return strings.TrimSpace(name) == name
	}
	if strings.TrimSpace(name) != name || !norm.NFKC.IsNormalString(name) || !utf8.ValidString(name) {
		return false // wide letters and the like stand for others
	}
	zero, foreign, twins := rune(0), 0, 0
	for _, c := range name {
		switch {
		case c < ' ' || c == 0x7F:
			return false
		case unicode.In(c, unicode.Mn, unicode.Me):
			return false // a mark upon a letter is easily overlooked
		case c >= utf8.RuneSelf && !unicode.In(c, unicode.L, unicode.N, unicode.Mc):
			return false
		}
		if unicode.Is(unicode.Nd, c) {
			system := zeroOf(c)
			if zero != 0 && zero != system {
				return false
			}
			zero = system
		}
		if set := scriptsOf(c); !set.empty() && !set.meets(latin) {
			foreign++
			if Twin(c) != "" {
				twins++
			}
		}
	}
	if foreign > 0 && foreign == twins {
		return false
	}
	return levelOf(name) <= HighlyRestrictive
}

// isPlain reports whether a name is there and has ASCII's letters, digits, signs and blanks
// only, of which none can be taken for one of another script here.
func isPlain(name string) bool {
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return false
		}
	}
	return name != ""
}

// zeroOf is the zero of the system that a decimal digit is of. Two systems meet
// in the mathematical digits alone, and those are not NFKC.
func zeroOf(c rune) rune {
	for unicode.Is(unicode.Nd, c-1) {
		c--
	}
	return c
}
