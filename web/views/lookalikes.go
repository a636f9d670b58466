package views

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// confusing are the scripts whose letters pass for Latin ones.
var confusing = []struct {
	name  string
	table *unicode.RangeTable
}{
	{"CYRILLIC", unicode.Cyrillic},
	{"GREEK", unicode.Greek},
	{"ARMENIAN", unicode.Armenian},
	{"CHEROKEE", unicode.Cherokee},
	{"COPTIC", unicode.Coptic},
	{"LISU", unicode.Lisu},
	{"GEORGIAN", unicode.Georgian},
	{"DESERET", unicode.Deseret},
}

// latinTwins are Cyrillic and Greek letters that most fonts draw like a Latin
// letter, so that a whole word of them reads as Latin.
const latinTwins = "АВЕЅІЈКМНОРСТУХԚԜҮҺавеѕіјкмнорстухԁԛԝүһӏ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧανορτυχικϲϳ"

var rightToLeft = []*unicode.RangeTable{
	unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Samaritan,
	unicode.Mandaic, unicode.Adlam, unicode.Mende_Kikakui, unicode.Hanifi_Rohingya,
}

func scriptOf(c rune) string {
	if c < utf8.RuneSelf {
		if unicode.IsLetter(c) {
			return "LATIN"
		}
		return ""
	}
	if unicode.Is(unicode.Latin, c) {
		return "LATIN"
	}
	for _, s := range confusing {
		if unicode.Is(s.table, c) {
			return s.name
		}
	}
	return ""
}

// words splits text that has no marked character in it into spans, marking
// words that mix scripts, words that only look Latin, punycode and
// right-to-left letters.
func words(text string) []Span {
	if asciiOnly(text) && !strings.Contains(strings.ToLower(text), "xn--") {
		return []Span{{Raw: text, Shown: text}}
	}
	mayPass := onlyTwinsAreForeign(text)
	var out []Span
	plainFrom, i := 0, 0
	emit := func(from, to int, spans ...Span) {
		if from > plainFrom {
			out = append(out, Span{Raw: text[plainFrom:from], Shown: text[plainFrom:from]})
		}
		out = append(out, spans...)
		plainFrom = to
	}
	for i < len(text) {
		end := i
		for end < len(text) {
			c, size := utf8.DecodeRuneInString(text[end:])
			if !unicode.In(c, unicode.L, unicode.M, unicode.N) {
				break
			}
			end += size
		}
		if end == i {
			_, size := utf8.DecodeRuneInString(text[i:])
			i += size
			continue
		}
		word := text[i:end]
		switch {
		case strings.EqualFold(word, "xn") && strings.HasPrefix(text[end:], "--"):
			for end < len(text) && (text[end] == '-' || text[end] < utf8.RuneSelf && unicode.In(rune(text[end]), unicode.L, unicode.N)) {
				end++
			}
			emit(i, end, Span{Raw: text[i:end], Shown: text[i:end] + "[PUNYCODE, an encoded name]", Mark: Punycode, Count: 1})
		case strings.ContainsFunc(word, func(c rune) bool { return unicode.In(c, rightToLeft...) }):
			emit(i, end, Span{Raw: word, Shown: word, Mark: RightToLeft, Count: 1})
		default:
			if spans := lookalikes(word, mayPass); spans != nil {
				emit(i, end, spans...)
			}
		}
		i = end
	}
	emit(len(text), len(text))
	return out
}

// lookalikes returns the spans of a word that mixes Latin with a script that
// passes for it, or nil. The letters of the rarer script are marked. With
// mayPass, a word of nothing but twins of Latin letters is marked as well.
func lookalikes(word string, mayPass bool) []Span {
	latin, foreign, twins := 0, 0, 0
	for _, c := range word {
		switch scriptOf(c) {
		case "LATIN":
			latin++
		case "":
		default:
			foreign++
			if strings.ContainsRune(latinTwins, c) {
				twins++
			}
		}
	}
	if foreign == 0 || latin == 0 && (!mayPass || twins < foreign) {
		return nil
	}
	// A word that is really Russian or Greek has other letters than twins; in it
	// the Latin ones are the intruders.
	markLatin := latin > 0 && latin < foreign && twins < foreign
	var out []Span
	for rest := word; rest != ""; {
		mark, script, end := false, "", 0
		for end < len(rest) {
			c, size := utf8.DecodeRuneInString(rest[end:])
			s := scriptOf(c)
			m := s != "" && (s == "LATIN") == markLatin
			if end > 0 && (m != mark || m && s != script) {
				break
			}
			mark, script = m, s
			end += size
		}
		span := Span{Raw: rest[:end], Shown: rest[:end]}
		if mark {
			points := []string{}
			for _, c := range span.Raw {
				points = append(points, codePoint(c))
			}
			span.Shown += "[" + strings.Join(points, " ") + " " + script + "]"
			span.Mark, span.Count = Lookalike, utf8.RuneCountInString(span.Raw)
		}
		out = append(out, span)
		rest = rest[end:]
	}
	return out
}

// onlyTwinsAreForeign reports whether every letter of a confusing script in the
// text is a twin of a Latin one: no sign, then, that the text really is Russian
// or Greek.
func onlyTwinsAreForeign(text string) bool {
	for _, c := range text {
		if s := scriptOf(c); s != "" && s != "LATIN" && !strings.ContainsRune(latinTwins, c) {
			return false
		}
	}
	return true
}

func asciiOnly(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
