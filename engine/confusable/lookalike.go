package confusable

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

// Range is a stretch of a text, by byte offsets.
type Range struct{ From, To int }

// typographic are signs that good typesetting has in ordinary prose where ASCII
// has others: marked, they would hide what matters.
const typographic = "‘’‚“”–…′″‹›×∞№"

// Lookalikes finds, in order, what in a text passes for something else:
//
//   - letters of a script that a word mixes with others as no language does
//     (more freely than ModeratelyRestrictive);
//   - in a word with Latin letters, those of another script that are all drawn
//     like ASCII, and single Latin letters that are (ı, ɡ, ﬁ);
//   - words of another script with nothing but such letters, unless other letters
//     in the text show that it really is written in that script;
//   - signs that are drawn like those of ASCII.
//
// What is written in one script throughout, whichever, is none of these. Blanks,
// combining marks and what is invisible are not looked at.
func Lookalikes(text string) []Range {
	if canon.IsASCII(text) {
		return nil
	}
	f := finder{text: text, genuine: genuine(text)}
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		if inWord(c) {
			end := i
			foreign := false
			for end < len(text) {
				c, size := utf8.DecodeRuneInString(text[end:])
				if !inWord(c) {
					break
				}
				foreign = foreign || c >= utf8.RuneSelf
				end += size
			}
			if foreign {
				f.word(i, end)
			}
			i = end
			continue
		}
		if c >= utf8.RuneSelf && f.sign(c) {
			f.add(i, i+size)
		}
		i += size
	}
	return f.found
}

type finder struct {
	text    string
	genuine scriptSet // the scripts that the text really is written in
	found   []Range
}

// add takes a stretch along with the one that it follows immediately.
func (f *finder) add(from, to int) {
	if n := len(f.found); n > 0 && f.found[n-1].To == from {
		f.found[n-1].To = to
		return
	}
	f.found = append(f.found, Range{from, to})
}

func inWord(c rune) bool {
	if c < utf8.RuneSelf {
		return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	}
	return unicode.In(c, unicode.L, unicode.M, unicode.N)
}

// passes reports whether a letter of another script than Latin is drawn like
// ASCII, itself or its capital: к is a small К in many fonts.
func passes(c rune) bool { return Twin(c) != "" || Twin(unicode.ToUpper(c)) != "" }

// genuine are the scripts of which the text has a letter that does not pass for
// ASCII.
func genuine(text string) (all scriptSet) {
	for _, c := range text {
		if c < utf8.RuneSelf {
			continue
		}
		if set := scriptsOf(c); set.or(all) != all && unicode.IsLetter(c) && !passes(c) {
			all = all.or(set)
		}
	}
	return all
}

// sign reports whether a character that no word is made of passes for ASCII. The
// punctuation of a script that the text is written in does not.
func (f *finder) sign(c rune) bool {
	twin := Twin(c)
	return twin != "" && strings.TrimSpace(twin) != "" && !strings.ContainsRune(typographic, c) && !scriptsOf(c).meets(f.genuine)
}

// word looks at a word that is not ASCII.
func (f *finder) word(from, to int) {
	word := f.text[from:to]
	if mixing(word) > ModeratelyRestrictive {
		f.markForeign(from, to, native(word))
		return
	}
	hasLatin, allPass := false, true
	for _, c := range word {
		set := scriptsOf(c)
		hasLatin = hasLatin || set.meets(latin)
		allPass = allPass && (set.empty() || set.meets(latin) || passes(c))
	}
	for i := from; i < to; {
		c, size := utf8.DecodeRuneInString(f.text[i:to])
		set := scriptsOf(c)
		if set.empty() || set.meets(latin) {
			if twin := Twin(c); twin != "" && strings.Trim(twin, "'") != "" && (len(twin) == 1 || !Allowed(c)) {
				f.add(i, i+size)
			}
			i += size
			continue
		}
		end, twins := f.run(i, to)
		if twins && (hasLatin || allPass && !set.meets(f.genuine)) {
			f.add(i, end)
		}
		i = end
	}
}

// run is the end of the letters from i on that are not Latin, and whether all of
// them are drawn like ASCII.
func (f *finder) run(i, to int) (end int, twins bool) {
	twins = true
	for end = i; end < to; {
		c, size := utf8.DecodeRuneInString(f.text[end:to])
		if set := scriptsOf(c); set.meets(latin) || set.empty() && c < utf8.RuneSelf {
			break
		} else if twins && !set.empty() && !passes(c) {
			twins = false
		}
		end += size
	}
	return end, twins
}

// native is the scripts that a word of several is taken to be written in: the one
// that most of its letters are of, but Latin where all others only pass for it.
func native(word string) scriptSet {
	var counts [len(scriptNames)]int
	latins, foreign, twins := 0, 0, 0
	for _, c := range word {
		set := scriptsOf(c)
		switch {
		case set.empty():
			continue
		case set.meets(latin):
			latins++
			continue
		case passes(c):
			twins++
		}
		foreign++
		counts[set.first()]++
	}
	if latins > 0 && (latins >= foreign || twins == foreign) {
		return latin
	}
	most := 0
	for i, n := range counts {
		if n > counts[most] {
			most = i
		}
	}
	set := scriptsNamed(script(most))
	for _, some := range together {
		if some.meets(set) {
			return some
		}
	}
	return set
}

// markForeign marks the letters of a word that are of none of the scripts.
func (f *finder) markForeign(from, to int, native scriptSet) {
	for i := from; i < to; {
		c, size := utf8.DecodeRuneInString(f.text[i:to])
		if set := scriptsOf(c); !set.empty() && !set.meets(native) || native == latin && Twin(c) != "" {
			f.add(i, i+size)
		}
		i += size
	}
}
