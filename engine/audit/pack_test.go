package audit

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine/canon"
)

// TestEscape: what is escaped holds no HTML, and comes back as it was.
func TestEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`([<\\u0-9c"/a]|\\u003c|</script>){0,40}`)).Draw(t, "text")
		if strings.ContainsAny(text, "\x00\uFFFD") {
			t.Skip("no text of an event")
		}
		line := canon.Object(canon.Member{Name: "a", Value: canon.String(text)}).Canonical()
		escaped := Escape(line)
		if bytes.Contains(escaped, []byte("<")) {
			t.Fatalf("%s is HTML", escaped)
		}
		if got := unescape(escaped); !bytes.Equal(got, line) {
			t.Fatalf("got %s, want %s", got, line)
		}
		v, err := canon.Parse(escaped)
		if err != nil || !bytes.Equal(v.Canonical(), line) {
			t.Fatalf("%s means something else than %s: %v", escaped, line, err)
		}
	})
}

func FuzzUnescape(f *testing.F) {
	for _, s := range []string{`\u003c`, `\\u003c`, `\\\u003c`, `\`, `\u003`, `\\`, `a\u003cb`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		// It never makes two lines of one, and changes nothing but that escape.
		got := unescape(bytes.Clone(line))
		if bytes.Count(got, []byte("\n")) != bytes.Count(line, []byte("\n")) || (len(line)-len(got))%5 != 0 {
			t.Errorf("%q became %q", line, got)
		}
	})
}

func TestCard(t *testing.T) {
	want := Card{ApprovalID: "apr_1a", Edition: 12, CallDigest: "sha256:" + strings.Repeat("0f", 32), Salt: strings.Repeat("a1", 32)}
	got, err := parseCard(want.Open() + "<p>x</p>" + CardEnd)
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, text := range []string{
		"", "<p>", " " + want.Open() + CardEnd, want.Open(), strings.Replace(want.Open(), "12", "012", 1) + CardEnd,
		strings.Replace(want.Open(), "0f", "0F", 1) + CardEnd, strings.Replace(want.Open(), `">`, `" onclick="x">`, 1) + CardEnd,
	} {
		if _, err := parseCard(text); err == nil {
			t.Errorf("%q is a card", text)
		}
	}
}
