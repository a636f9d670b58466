package aana

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// foldRune is the lower-case letter of r. The long s is an s, as it is to a
// tool that compares names without regard to case.
func foldRune(r rune) rune {
	if r == 'ſ' {
		return 's'
	}
	return unicode.ToLower(r)
}

// fold is s in lower case, for finding what must not be hidden by case.
func fold(s string) string { return strings.Map(foldRune, s) }

// containsAny reports whether one of marks is somewhere in s.
func containsAny(s string, marks []string) bool {
	return slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(s, mark) })
}

// isWordRune reports whether r is part of a word: a letter, mark or digit of
// any script, or an underscore.
func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return isWordByte(byte(r))
	}
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
}

// hasWholeWord reports whether one of words is in s and neither begins nor
// ends inside of a longer word.
func hasWholeWord(s string, words []string) bool {
	for _, word := range words {
		found := eachIndex(s, word, func(at int) bool {
			before, _ := utf8.DecodeLastRuneInString(s[:at])
			after, _ := utf8.DecodeRuneInString(s[at+len(word):])
			return !isWordRune(before) && !isWordRune(after)
		})
		if found {
			return true
		}
	}
	return false
}

// hasNameWord reports whether one of words is a word of a lower-case tool
// name: what stands between dots, dashes, underscores and other separators.
func hasNameWord(name string, words []string) bool {
	separator := func(r rune) bool { return r == '_' || !isWordRune(r) }
	for part := range strings.FieldsFuncSeq(name, separator) {
		for _, word := range words {
			if part == word {
				return true
			}
		}
	}
	return false
}

// timeLayouts are the ISO 8601 forms that evidence may carry; Go's parser
// takes a fraction of a second behind any of them. A time without an offset is
// UTC. The separator is written T here.
var timeLayouts = []string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700", "2006-01-02T15:04",
	"20060102T150405Z07:00", "20060102T150405Z0700", "20060102T150405Z07", "20060102T150405",
	"2006-01-02", "20060102",
}

// parseTime reads an ISO 8601 date, or date and time.
func parseTime(s string) (time.Time, bool) {
	const date = len("2006-01-02")
	switch {
	case len(s) > len("2006-01-02T15:04:05.000000000000+00:00"):
		return time.Time{}, false
	case len(s) > date && (s[date] == ' ' || s[date] == 't'):
		s = s[:date] + "T" + s[date+1:]
	}
	if strings.HasSuffix(s, "z") {
		s = s[:len(s)-1] + "Z"
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
