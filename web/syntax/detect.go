package syntax

import (
	"regexp"
	"strings"
)

// Kind is what a text is taken for.
type Kind string

// The kinds, as people call them.
const (
	None         Kind = ""
	KindSQL      Kind = "SQL"
	KindShell    Kind = "Shell"
	KindDiff     Kind = "Diff"
	KindYAML     Kind = "YAML"
	KindMarkdown Kind = "Markdown"
	KindHTML     Kind = "HTML"
	KindAddress  Kind = "Address"
)

var (
	sqlNames   = words("query queries sql statement statements stmt migration ddl dml")
	shellNames = words("command commands cmd script shell bash sh cmdline commandline command_line run exec")
	yamlNames  = words("yaml yml manifest manifests values config")

	sqlBegins   = regexp.MustCompile(`(?is)\A(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:select|insert\s+into|update\s+\S+\s+set|delete\s+from|merge\s+into|with\s+\S+.*\bas\b|create\s+\w+|alter\s+\w+|drop\s+\w+|truncate|grant\s+\S|revoke\s+\S|replace\s+into|begin\b|explain\b|call\s+\w)`)
	sqlSure     = regexp.MustCompile(`(?is)\A(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:SELECT\b.*\bFROM\b|INSERT\s+INTO\b|UPDATE\s+\S+\s+SET\b|DELETE\s+FROM\b|(?:CREATE|ALTER|DROP)\s+(?:TABLE|INDEX|VIEW|ROLE|USER|DATABASE|SCHEMA)\b)`)
	shebang     = regexp.MustCompile(`\A#!\s*/\S*(?:/| )(?:ba|da|z|k|a)?sh\b`)
	hunkHead    = regexp.MustCompile(`(?m)^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@`)
	htmlTag     = regexp.MustCompile(`(?i)<!doctype html|<html[\s>]|</(?:p|div|a|b|i|em|strong|span|td|tr|table|ul|li|h[1-6]|body|html)\s*>|<(?:br|img|a|p|div)\b[^>]*>`)
	yamlLine    = regexp.MustCompile(`\A\s*(?:- )*["']?[\w./$-]+["']?:(?:\s|\z)`)
	yamlEntry   = regexp.MustCompile(`\A\s*(?:-\s|#|---|\.\.\.|[|}\]])`)
	markdownish = []*regexp.Regexp{
		regexp.MustCompile(`(?m)^ {0,3}#{1,6} \S`), regexp.MustCompile(`(?m)^\s*[-*+] \S`), regexp.MustCompile(`\]\([^)\s]+\)`),
		regexp.MustCompile("(?m)^\\s*```"), regexp.MustCompile(`\*\*[^*\n]+\*\*`), regexp.MustCompile(`(?m)^> \S`), regexp.MustCompile(`(?m)^\|.*\|\s*$`),
	}
)

// Guess says what the text of an argument of that name looks like. It is a guess: only
// the tool knows what it does with it.
func Guess(name, text string) Kind {
	name = strings.ToLower(name)
	if _, _, is := Location(text); is {
		return KindAddress
	}
	switch {
	case strings.TrimSpace(text) == "":
		return None
	case hunkHead.MatchString(text):
		return KindDiff
	case sqlNames[name] && sqlBegins.MatchString(text), sqlSure.MatchString(text) && !strings.HasPrefix(text, "#"):
		return KindSQL
	case shellNames[name], shebang.MatchString(text):
		return KindShell
	case len(htmlTag.FindAllStringIndex(text, 2)) > 1:
		return KindHTML
	case isYAML(text, yamlNames[name]):
		return KindYAML
	}
	signs := 0
	for _, sign := range markdownish {
		if sign.MatchString(text) {
			signs++
		}
	}
	if signs > 1 {
		return KindMarkdown
	}
	return None
}

// isYAML reports whether most of the lines are members of a YAML document.
func isYAML(text string, named bool) bool {
	all, keys, entries := 0, 0, 0
	for line := range strings.Lines(text) {
		switch line = strings.TrimRight(line, "\r\n"); {
		case strings.TrimSpace(line) == "":
			continue
		case yamlLine.MatchString(line):
			keys++
		case yamlEntry.MatchString(line):
			entries++
		}
		all++
	}
	if named {
		return keys > 0 && 2*(keys+entries) >= all
	}
	return keys > 2 && keys+entries >= all && strings.Contains(text, "\n")
}
