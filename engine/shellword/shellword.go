// Package shellword writes words of a command so that a POSIX shell reads each as one word and runs
// nothing of it. It runs no command and reads none.
package shellword

import "strings"

// Quote is a word as a command has it. What is plain stays as it is.
func Quote(word string) string {
	plain := word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return r > 'z' || !strings.ContainsRune("/._-=:@%+,", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if plain {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Command is a command of several words.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}
