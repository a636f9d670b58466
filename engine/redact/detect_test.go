package redact_test

import (
	"slices"
	"testing"

	"holdpoint/engine/redact"
)

// What single rules are for, one line each.
func TestFind(t *testing.T) {
	d := redact.New()
	for _, tt := range []struct {
		text string
		want []redact.Span
	}{
		{"", nil},
		{"mail alice@example.com.", []redact.Span{{5, 22, redact.Email}}},
		{"a@b", nil},
		{"a@b.c", nil},
		{".@example.com", nil},
		{"ünal@exämple.de", []redact.Span{{0, 17, redact.Email}}},
		{"５５５-１２３-４５６７", []redact.Span{{0, 32, redact.Phone}}},
		{"4111\u200b1111\u200b1111\u200b1111", []redact.Span{{0, 25, redact.Card}}},
		{"4111 1111 1111 1112", nil},
		{"0000 0000 0000 0000", nil},
		{"4222222222222 and 4000000000000000006", []redact.Span{{0, 13, redact.Card}, {18, 37, redact.Card}}},
		{"20231114180000", nil},
		{"000-12-3456 666-12-3456 123-00-4567 123-45-0000", nil},
		{"x123-45-6789 1123-45-6789 123-45-67890", nil},
		{"de89370400440532013000", []redact.Span{{0, 22, redact.IBAN}}},
		{"DE88370400440532013000", nil},
		{"pay to XDE89370400440532013000", nil},
		{"password=hunter2", []redact.Span{{9, 16, "secret.credential.password"}}},
		{`{\"password\": \"hunter2\"}`, []redact.Span{{17, 24, "secret.credential.password"}}},
		{`[{"name": "DB_PASSWORD", "value": "hunter2"}]`, []redact.Span{{35, 42, "secret.credential.password"}}},
		{"password == hunter2 && token != abcdefghijklmnop1", nil},
		{"compass: n3-w45t, bypass=7654321", nil},
		{"--- PASS: Test/Sub1 (0.00s)", nil},
		{"http://u:pw@h/ http://u@h/ x://:pw@h", []redact.Span{{9, 11, "secret.credential.url"}, {32, 34, "secret.credential.url"}}},
		{"-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC\n-----END PRIVATE KEY-----", []redact.Span{{0, 105, "secret.credential.private-key"}}},
		{"-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC", []redact.Span{{0, 79, "secret.credential.private-key"}}},
		{"-----BEGIN PRIVATE KEY-----", nil},
		{"-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----", []redact.Span{{0, 57, "secret.credential.private-key"}}},
		{`-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----`, nil},
		{"-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", nil},
		{"-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----", nil},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", []redact.Span{{0, 41, "secret.token.jwt"}}},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0", nil},
		{"redis://:secret@h postgresql://user:password@localhost/db", []redact.Span{{9, 15, "secret.credential.database-url"}, {36, 44, "secret.credential.database-url"}}},
		{"postgres://user:${PASSWORD}@h postgres://user:<password>@h postgres://user:***@h postgres://user:redacted@h", nil},
		{`password = "letmein" pwd=1234`, []redact.Span{{12, 19, "secret.credential.password"}, {25, 29, "secret.credential.password"}}},
		{`password: required, pass: 3, pass=1234, password = "required"`, nil},
		{"[REDACTED:personal.pii.phone] 5551234567", nil},
		{"AKIAXXXXXXXXXXXXXXXX", nil},
	} {
		if got := d.Find(tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %v, want %v", tt.text, got, tt.want)
		}
	}
}

func TestMask(t *testing.T) {
	text := "ab cd ef"
	for _, tt := range []struct {
		spans []redact.Span
		want  string
	}{
		{nil, text},
		{[]redact.Span{{3, 5, "x"}}, "ab [REDACTED:x] ef"},
		{[]redact.Span{{6, 8, "y"}, {0, 2, "x"}}, "[REDACTED:x] cd [REDACTED:y]"},
		{[]redact.Span{{0, 5, "x"}, {3, 8, "x"}}, "[REDACTED:x]"},
		// The longest wins, then the first, but a secret wins over all.
		{[]redact.Span{{0, 2, "x"}, {1, 8, "y"}}, "[REDACTED:y]"},
		{[]redact.Span{{0, 4, "x"}, {2, 6, "y"}}, "[REDACTED:x]ef"},
		{[]redact.Span{{0, 8, "x"}, {3, 4, "secret.y"}}, "[REDACTED:secret.y]"},
		// Touching is not overlapping; what is outside is cut off.
		{[]redact.Span{{0, 2, "x"}, {2, 3, "y"}}, "[REDACTED:x][REDACTED:y]cd ef"},
		{[]redact.Span{{-5, 2, "x"}, {6, 99, "y"}, {4, 4, "z"}, {9, 12, "z"}}, "[REDACTED:x] cd [REDACTED:y]"},
	} {
		if got := redact.Mask(text, tt.spans); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.spans, got, tt.want)
		}
	}
}

func TestSecret(t *testing.T) {
	for tag, want := range map[string]bool{
		"secret": true, "secret.token": true, redact.Unscanned: true, "secrets": false, "personal.pii.email": false, "": false,
	} {
		if got := redact.Secret(tag); got != want {
			t.Errorf("%q: got %v", tag, got)
		}
	}
}
