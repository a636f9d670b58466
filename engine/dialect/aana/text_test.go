package aana

import (
	"testing"
	"time"
)

func TestHasWholeWord(t *testing.T) {
	tests := map[string]bool{
		"search":            true,
		"a search.":         true,
		"re-search":         true,
		"research":          false,
		"searching":         false,
		"search_x":          false,
		"x1search":          false,
		"search2":           false,
		"searché":           false,
		"e\u0301search":     false,
		"«search»":          true,
		"searching, search": true,
		"opening hours":     true,
		"reopening hours":   false,
		"opening  hours":    false,
		"":                  false,
	}
	for text, want := range tests {
		if got := hasWholeWord(text, []string{"search", "opening hours"}); got != want {
			t.Errorf("hasWholeWord(%q): got %v, want %v", text, got, want)
		}
	}
}

func TestHasNameWord(t *testing.T) {
	tests := map[string]bool{
		"user_search":  true,
		"user.search":  true,
		"user-search":  true,
		"search/users": true,
		"search":       true,
		"usersearch":   false,
		"search2":      false,
		"ésearch":      false,
		"":             false,
	}
	for name, want := range tests {
		if got := hasNameWord(name, []string{"search"}); got != want {
			t.Errorf("hasNameWord(%q): got %v, want %v", name, got, want)
		}
	}
}

func TestFold(t *testing.T) {
	if got, want := fold("Delete ſEND \u212aey ÄÖ"), "delete send key äö"; got != want {
		t.Errorf("fold: got %q, want %q", got, want)
	}
}

func TestParseTime(t *testing.T) {
	tests := []struct{ text, want string }{
		{"2026-04-01T10:20:30Z", "2026-04-01T10:20:30Z"},
		{"2026-04-01t10:20:30z", "2026-04-01T10:20:30Z"},
		{"2026-04-01T10:20:30.123456+02:00", "2026-04-01T08:20:30.123456Z"},
		{"2026-04-01T10:20:30,5-0330", "2026-04-01T13:50:30.5Z"},
		{"2026-04-01 10:20:30", "2026-04-01T10:20:30Z"},
		{"2026-04-01T10:20", "2026-04-01T10:20:00Z"},
		{"2026-04-01T10:20+01", ""},
		{"20260401T102030Z", "2026-04-01T10:20:30Z"},
		{"2026-04-01", "2026-04-01T00:00:00Z"},
		{"20260401", "2026-04-01T00:00:00Z"},
		{"2024-02-29", "2024-02-29T00:00:00Z"},
		{"2026-02-29", ""},
		{"2026-04-01T24:00:00Z", ""},
		{"2026-04-01T10:20:60Z", ""},
		{"2026-4-1", ""},
		{"01.04.2026", ""},
		{"1775000000", ""},
		{"yesterday", ""},
		{" 2026-04-01", ""},
		{"", ""},
		{"2026-04-01T10:20:30.00000000000000000000000000000000000000Z", ""},
	}
	for _, tt := range tests {
		got, ok := parseTime(tt.text)
		if !ok {
			if tt.want != "" {
				t.Errorf("parseTime(%q): refused, want %s", tt.text, tt.want)
			}
			continue
		}
		if got := got.UTC().Format(time.RFC3339Nano); got != tt.want {
			t.Errorf("parseTime(%q): got %s, want %q", tt.text, got, tt.want)
		}
	}
}

func TestIsBlank(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, " \t\n": true, "\u00a0\u2003\u3000": true, "\u200b\ufeff": true, "\x01\x7f": true, "\u202e": true,
		"a": false, " . ": false, "\u0301": false, "名": false,
	} {
		if got := isBlank(text); got != want {
			t.Errorf("isBlank(%q): got %v, want %v", text, got, want)
		}
	}
}

func TestSensitiveKeys(t *testing.T) {
	for key, want := range map[string]bool{
		"api_key": true, "apiKey": true, "API-KEY": true, "x-api-key": true, "clientSecret": true, "newPassword": true, "accessToken": true,
		"PIN": true, "cardPin": true, "card_cvv": true, "Set-Cookie": true, "auth": true, "authHeader": true, "paſſword": true,
		"pat@example.org": true, "sk-abcdefghijklmnop": true,
		"to": false, "author": false, "spinner": false, "pinned": false, "amount": false, "keyboard": false, "company": false, "query": false,
	} {
		if got := isSensitiveKey(key); got != want {
			t.Errorf("isSensitiveKey(%q): got %v, want %v", key, got, want)
		}
	}
}
