package web

import (
	"strings"
	"time"
)

// brief writes a duration without the parts that are zero: "15m", "1h30m".
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func briefText(text string) string {
	if d, err := time.ParseDuration(text); err == nil {
		return brief(d)
	}
	return text
}

// words writes a machine's name for people: "customer_support".
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func list(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

func plainWord(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// lowerThe takes a name into the middle of a sentence.
func lowerThe(who string) string {
	for _, article := range []string{"The ", "A ", "An ", "Somebody"} {
		if strings.HasPrefix(who, article) {
			return lowerFirst(who)
		}
	}
	return who
}
