package views

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/runenames"

	"holdpoint/engine/confusable"
)

var rightToLeft = []*unicode.RangeTable{
	unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Samaritan,
	unicode.Mandaic, unicode.Adlam, unicode.Mende_Kikakui, unicode.Hanifi_Rohingya,
}

// words emits text that has no other mark in it, with what passes for something
// else, punycode and right-to-left letters marked.
func (r *marker) words(from, to int) {
	text := r.text[:to]
	if piece := text[from:]; asciiOnly(piece) && !strings.Contains(strings.ToLower(piece), "xn--") {
		r.emit(from, to, Plain, 0, nil)
		return
	}
	plain := from
	mark := func(i, end int, kind Mark, count int, shown func() string) {
		if plain < i {
			r.emit(plain, i, Plain, 0, nil)
		}
		r.emit(i, end, kind, count, shown)
		plain = end
	}
	for i := from; i < to; {
		for len(r.alike) > 0 && r.alike[0].To <= i {
			r.alike = r.alike[1:]
		}
		next := to
		if len(r.alike) > 0 {
			next = min(next, r.alike[0].From)
		}
		if next <= i {
			end := min(r.alike[0].To, to)
			raw := text[i:end]
			mark(i, end, Lookalike, utf8.RuneCountInString(raw), func() string { return raw + "[" + lookalike(raw) + "]" })
			i = end
			continue
		}
		end := wordEnd(text[:next], i)
		if end == i {
			_, size := utf8.DecodeRuneInString(text[i:])
			i += size
			continue
		}
		word := text[i:end]
		switch {
		case strings.EqualFold(word, "xn") && strings.HasPrefix(text[end:], "--"):
			for end < to && (text[end] == '-' || text[end] < utf8.RuneSelf && unicode.In(rune(text[end]), unicode.L, unicode.N)) {
				end++
			}
			name := text[i:end]
			mark(i, end, Punycode, 1, func() string { return name + "[PUNYCODE, an encoded name]" })
		case strings.ContainsFunc(word, func(c rune) bool { return unicode.In(c, rightToLeft...) }):
			mark(i, end, RightToLeft, 1, nil)
		}
		i = end
	}
	if plain < to {
		r.emit(plain, to, Plain, 0, nil)
	}
}

// wordEnd is where the letters, marks and digits from i on end.
func wordEnd(text string, i int) int {
	for i < len(text) {
		c, size := utf8.DecodeRuneInString(text[i:])
		if !unicode.In(c, unicode.L, unicode.M, unicode.N) {
			break
		}
		i += size
	}
	return i
}

// maxPoints is how many characters of one stretch are listed by number.
const maxPoints = 8

// lookalike says what a stretch of look-alikes is: one by its name, several by
// their numbers and the script that all of them are of.
func lookalike(raw string) string {
	var points []string
	script, n := "", 0
	for i, c := range raw {
		if n++; n <= maxPoints {
			points = append(points, codePoint(c))
		}
		if s := confusable.Script(c); i == 0 {
			script = s
		} else if s != script {
			script = ""
		}
	}
	if n > 1 {
		label := strings.Join(points, " ")
		if n > maxPoints {
			label += " and " + Thousands(n-maxPoints) + " more"
		}
		return strings.TrimSuffix(label+" "+script, " ")
	}
	c, _ := utf8.DecodeRuneInString(raw)
	label := points[0] + " " + runenames.Name(c)
	if twin := confusable.Twin(c); twin != "" {
		label += ", looks like “" + twin + "”"
	}
	return label
}

func asciiOnly(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
